package auth_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/enroll"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

// issue records a credential that was made beside the keys.
func issue(t *testing.T, dir string, role grants.Role, name string, ttl time.Duration) {
	t.Helper()
	key, err := credential.MakeKey()
	if err != nil {
		t.Fatal(err)
	}
	k := credential.Key{Public: key.Public(), Issued: time.Now().UTC()}
	if ttl > 0 {
		k.Expires = k.Issued.Add(ttl)
	}
	if _, err := keystore.Register(dir, keystore.Entry{Role: role, ID: name, Keys: []credential.Key{k}}, true); err != nil {
		t.Fatal(err)
	}
}

func TestTheCredentialsThatPartiesHold(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		a := authority(t, b)
		began := time.Now()
		token := joinToken(t, a, credential.JoinRequest{Name: "all", Peel: "*", Uses: 9, TTL: time.Hour})
		newHost(t, "web.01").ask(t, a, token, nil)
		newHost(t, "web-02").ask(t, a, token, nil)
		newHost(t, "asks").ask(t, a, "", enroll.ErrPending)
		// It was away for longer than a credential lasts, and gets another when it is back.
		away := credential.Enrolled{ID: "away", State: credential.Accepted, Expires: began.Add(-time.Hour), History: []credential.Step{{State: credential.Accepted, By: "ann"}}}
		record, err := canon.Marshal(away)
		if err == nil {
			_, err = bucket(t, b.JetStream(t), wire.BucketEnroll).Create(t.Context(), "peel.away", record)
		}
		if err != nil {
			t.Fatal(err)
		}
		dir := b.Keys.Dir()
		issue(t, dir, grants.RolePeel, "db.01", 0)
		issue(t, dir, grants.RolePeel, "db-02", 3*time.Hour)
		issue(t, dir, grants.RolePeel, "gone", time.Minute)
		issue(t, dir, grants.RolePeel, "web.01", time.Hour) // which enrolls
		issue(t, dir, grants.RoleOperator, "ada", 24*time.Hour)
		issue(t, dir, grants.RoleAuditor, "bob", 24*time.Hour)
		makeSite(t, b.Keys, "berlin")
		makeSite(t, b.Keys, "bonn")
		if _, err := a.Hosts.Revoke(t.Context(), "web-02", "ann"); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Hosts.RevokeSite(t.Context(), "bonn", "ann"); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Users.Revoke(t.Context(), "bob", "ann"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		issue(t, dir, grants.RolePeel, "db-02", 48*time.Hour) // the newest counts
		held := func() (got []string) {
			all, err := a.Held(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, h := range all {
				text := fmt.Sprintf("%s %s never", h.Role, h.Name)
				if !h.Expires.IsZero() {
					text = fmt.Sprintf("%s %s %s", h.Role, h.Name, h.Expires.Sub(began).Round(time.Minute))
				}
				if h.Renews {
					text += " renews"
				}
				got = append(got, text)
			}
			return got
		}
		want := []string{"operator ada 24h0m0s", "peel away -1h0m0s renews", "peel db-02 49h0m0s", "peel db.01 never", "peel web.01 720h0m0s renews", "site berlin never"}
		if got := held(); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}
