package auth_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/auth"
	"github.com/seed-c01c3da5/zester/master/natsd"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// No account may let its users publish to replies, whatever the table of permissions says.
func TestNoRoleMayPublishToReplies(t *testing.T) {
	for public, token := range open(t, t.TempDir()).Trust().Accounts {
		account, err := jwt.DecodeAccountClaims(token)
		if err != nil {
			t.Fatal(err)
		}
		if account.DefaultPermissions.Resp != nil {
			t.Errorf("account %s: %+v", account.Name, account.DefaultPermissions.Resp)
		}
		for _, key := range account.SigningKeys.Keys() {
			if scope, _ := account.SigningKeys.GetScope(key); scope != nil && scope.(*jwt.UserScope).Template.Resp != nil {
				t.Errorf("account %s (%s): a user may publish to the reply of what it receives", account.Name, public)
			}
		}
	}
}

// A role that may publish what it also hears can send itself a message with a reply of its choice. Masters may: they are
// trusted with the whole bus.
func TestNoRoleHearsWhatItPublishes(t *testing.T) {
	for role := range actors {
		if role == auth.RoleMaster {
			continue
		}
		g := auth.Permissions(role)
		for _, published := range g.Publish {
			for _, heard := range g.Subscribe {
				if p, h := jwt.Subject(published), jwt.Subject(heard); p.IsContainedIn(h) || h.IsContainedIn(p) {
					t.Errorf("%s publishes %s and hears %s", role, published, heard)
				}
			}
		}
	}
}

// TestNoCredentialReachesOthersByWayOfAReply runs a program that is not zester's against a whole master, on the embedded
// server and on a nats-server process: with each credential it has everything that it may send answered on subjects of
// others, and then publishes there.
func TestNoCredentialReachesOthersByWayOfAReply(t *testing.T) {
	program := filepath.Join(t.TempDir(), "attacker")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./testdata/attacker").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Run("embedded", func(t *testing.T) {
		dir := t.TempDir()
		l := live{keys: open(t, auth.Dir(dir)), dir: dir}
		l.url = l.startMaster(t, "")
		l.attack(t, program)
	})
	t.Run("elsewhere", func(t *testing.T) {
		if testing.Short() {
			t.Skip("builds and runs nats-server")
		}
		dir := t.TempDir()
		l := live{keys: open(t, auth.Dir(dir)), dir: dir}
		l.url = startServer(t, l.keys.Trust(), dir)
		l.startMaster(t, l.url)
		l.attack(t, program)
	})
}

func (l live) attack(t *testing.T, program string) {
	l.populate(t)
	for _, role := range []auth.Role{auth.RolePeel, auth.RoleOperator, auth.RoleDirect, auth.RoleLimited, auth.RoleAuditor} {
		name := actors[role]
		own := func(grants []string) (subjects []string) {
			for _, g := range grants {
				subjects = append(subjects, strings.ReplaceAll(g, "{{name()}}", name))
			}
			return subjects
		}
		g := auth.Permissions(role)
		granted := own(g.Publish)
		plan := struct {
			URL, Creds, CA         string
			Listen, Requests, Aims []string
		}{URL: l.url, CA: l.dir + "/tls/ca.crt", Creds: l.credsFile(t, role, name), Listen: own(g.Subscribe)}
		for _, subject := range append(slices.Clone(granted), plan.Listen...) { // what it hears as well: its own echo
			plan.Requests = append(plan.Requests, strings.NewReplacer("*", string(jid), ">", "x").Replace(subject))
		}
		for _, aim := range aims("$JS.ACK.job-events.schedule-results.1.1.1.1.0") {
			if !slices.ContainsFunc(granted, func(g string) bool { return jwt.Subject(aim).IsContainedIn(jwt.Subject(g)) }) {
				plan.Aims = append(plan.Aims, aim)
			}
		}
		input, err := json.Marshal(plan)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), program)
		cmd.Stdin, cmd.Stderr = bytes.NewReader(input), os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", role, err)
		}
		var reached []string
		if err := json.Unmarshal(out, &reached); err != nil {
			t.Fatal(err)
		}
		reached = slices.DeleteFunc(reached, func(s string) bool {
			return slices.ContainsFunc(granted, func(g string) bool { return jwt.Subject(s).IsContainedIn(jwt.Subject(g)) })
		})
		if t.Logf("%s: %d of %d subjects of others open", role, len(reached), len(plan.Aims)); len(reached) > 0 {
			t.Errorf("%s published to %v", role, reached)
		}
	}
}

// populate has something stored for each peel that tries and for others, so that what reads it gets an answer.
func (l live) populate(t *testing.T) {
	t.Helper()
	lead := l.connect(t, auth.RoleMaster, actors[auth.RoleMaster])
	for _, p := range []string{"peel-a", "peel-b"} {
		request(t, lead.Conn, wire.SettingsKey(p), string(document(t, "peel-a")))
		request(t, l.connect(t, auth.RolePeel, p).Conn, wire.Fact(p), "facts of "+p)
	}
	request(t, lead.Conn, "$KV."+natsd.BucketJobs+"."+string(jid), "job")
}

// credsFile returns the path of a credential.
func (l live) credsFile(t *testing.T, role auth.Role, name string) string {
	t.Helper()
	creds, err := l.keys.Creds(role, name, 0)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "user.creds")
	if err := os.WriteFile(file, creds, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// A subscription takes memory of the server, whatever its subject.
func TestNoRoleFillsTheServerWithSubscriptions(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		for role, name := range actors {
			if role == auth.RoleMaster || role == auth.RoleSite {
				continue
			}
			var exceeded int
			nc := b.Conn(t, role, name, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
				if !errors.Is(err, nats.ErrMaxSubscriptionsExceeded) {
					t.Errorf("%s: %v", name, err)
				}
				exceeded++
			}))
			const tried = 5000
			for n := range tried {
				if _, err := nc.Subscribe(fmt.Sprintf("%s.%d", role.Inbox(name), n), func(*nats.Msg) {}); err != nil {
					t.Fatal(err)
				}
			}
			if err := nc.Flush(); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if limit := int(auth.Permissions(role).Subscriptions); limit == 0 || tried-exceeded != limit {
				t.Errorf("%s: %d of %d subscriptions were taken, the limit is %d", role, tried-exceeded, tried, limit)
			}
		}
	})
}
