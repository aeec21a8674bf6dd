package fleet

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/master/bus"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/seed-c01c3da5/zester/master/auth"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/enroll"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A host has an nkey and a sealing key, as a peel makes them.
type host struct {
	id     target.PeelID
	pair   nkeys.KeyPair
	public string
	key    string // for sealing
}

func (t *fleet) host(id target.PeelID) *host {
	t.Helper()
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return &host{id, pair, public, t.sealingKey()}
}

func (t *fleet) sealingKey() string {
	t.Helper()
	pair, err := nkeys.CreateCurveKeys()
	if err != nil {
		t.Fatal(err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return public
}

// facts are signed with the host's nkey.
func (h *host) facts(t *fleet) wire.Facts {
	t.Helper()
	proof, err := h.pair.Sign(wire.KeyProof(h.id, h.key))
	if err != nil {
		t.Fatal(err)
	}
	return wire.Facts{Peel: h.id, Key: h.key, Proof: proof, V: wire.Version}
}

// publish sends facts as whoever may use the peel's name on the bus, such as the server of its site.
func (t *fleet) publish(f wire.Facts) {
	t.Helper()
	t.say(f.Peel.Wire(), message(t, f.Peel.Wire(), f))
}

// master starts a feed with the register of a master that has the keys.
func (t *fleet) master() (f *Fleet, stop func()) {
	t.Helper()
	register, err := enroll.OpenRegister(t.Context(), t.js, t.bus.Keys.Dir())
	if err != nil {
		t.Fatal(err)
	}
	f = New(t.bus.Conn(t, grants.RoleMaster, "m1"), slog.New(slog.NewTextHandler(t.logs, nil)))
	f.UseRegister(func(ctx context.Context, w string) (Registration, error) {
		r, err := register.Lookup(ctx, w)
		if errors.Is(err, bucket.ErrUnreadable) {
			err = fmt.Errorf("%w: %w", ErrRefused, err)
		}
		return Registration(r), err
	})
	return f, t.run(f)
}

func (t *fleet) authority() *auth.Authority {
	t.Helper()
	a, err := auth.NewAuthority(t.Context(), auth.AuthorityOptions{Keys: t.bus.Keys, JetStream: t.js, Update: t.bus.Update})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// damage stores what cannot be decoded under a key of a bucket.
func (t *fleet) damage(bucket, key string) {
	t.Helper()
	kv, err := t.js.KeyValue(t.Context(), bucket)
	if err == nil {
		_, err = kv.Put(t.Context(), key, []byte("damaged"))
	}
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(bus.FollowCheckEvery)
	synctest.Wait()
}

// TestADamagedBindingRefusesTheFactsOfOnePeel damages the entry of a peel in the bucket identities, for a feed that runs and
// for one that starts.
func TestADamagedBindingRefusesTheFactsOfOnePeel(t *testing.T) {
	bubble(t, func(t *fleet) {
		h := t.host("web-01")
		f, stop := t.master()
		t.publish(h.facts(t))
		t.wantKey(f, "web-01", h.key, "")
		t.damage(wire.BucketIdentities, "web-01")
		t.wantKey(f, "web-01", "", h.key) // no secrets are sealed to what nobody can read
		thief := t.host("web-01")
		t.publish(thief.facts(t))
		t.wantKey(f, "web-01", "", h.key)
		t.facts("web-02", nil)
		t.want(f, "web-01", "web-02")
		stop()
		f, _ = t.master()
		t.want(f, "web-02")
		if !strings.Contains(t.logs.String(), "the entry web-01 in the bucket identities cannot be read") {
			t.Error(t.logs)
		}
		if err := f.Unbind(t.Context(), "web-01"); err != nil {
			t.Fatal(err)
		}
		t.publish(h.facts(t))
		t.wantKey(f, "web-01", h.key, "")
	})
}

// TestADamagedRecordStopsNoOtherPeel damages what masters know of enrolled peels.
func TestADamagedRecordStopsNoOtherPeel(t *testing.T) {
	bubble(t, func(t *fleet) {
		h, old := t.host("web-01"), t.host("old-01")
		t.enroll(h)
		t.enroll(old)
		t.damage("enroll", "peel.web-01")
		t.damage("settings", "old-01")
		unsigned := old.facts(t)
		unsigned.Proof = nil
		t.publish(h.facts(t))
		t.publish(unsigned)
		t.facts("web-02", nil)
		f, _ := t.master()
		t.want(f, "old-01", "web-02")
		t.wantKey(f, "old-01", "", old.key) // which its settings cannot confirm
		if !strings.Contains(t.logs.String(), "cannot read the peel web-01") {
			t.Error(t.logs)
		}
	})
}

// enroll has a person approve the host.
func (t *fleet) enroll(h *host) {
	t.Helper()
	proof, err := h.pair.Sign(enroll.Proof(h.id, h.public))
	if err != nil {
		t.Fatal(err)
	}
	a := t.authority()
	q := enroll.Request{ID: h.id, Public: h.public, Proof: base64.RawURLEncoding.EncodeToString(proof)}
	if _, _, err := a.Hosts.Enroll(t.Context(), q); !errors.Is(err, enroll.ErrPending) {
		t.Fatal(err)
	}
	if _, err := a.Hosts.Approve(t.Context(), h.id, h.public, "ann"); err != nil {
		t.Fatal(err)
	}
}

// issue enters a credential that was made beside the keys.
func (t *fleet) issue(h *host, again bool) {
	t.Helper()
	entry := keystore.Entry{Role: grants.RolePeel, ID: string(h.id), Keys: []credential.Key{{Public: h.public, Issued: time.Now()}}}
	if _, err := keystore.Register(t.bus.Keys.Dir(), entry, again); err != nil {
		t.Fatal(err)
	}
}

func (t *fleet) wantKey(f *Fleet, id target.PeelID, key, pending string) {
	t.Helper()
	synctest.Wait()
	if got := f.Key(id); got != key {
		t.Errorf("the key of %s is %.9q, want %.9q", id, got, key)
	}
	if got := f.PendingKey(id); got != pending {
		t.Errorf("%s waits with %.9q, want %.9q", id, got, pending)
	}
}

func TestFactsUnderAnotherIDThanTheRegisteredOneAreRefused(t *testing.T) {
	bubble(t, func(t *fleet) {
		enrolled, issued := t.host("x_db_prod"), t.host("y_db_prod")
		t.enroll(enrolled)
		t.issue(issued, false)
		t.facts("x.db.prod", nil) // also if they were the first
		f, stop := t.master()
		t.facts("y.db.prod", nil)
		t.want(f)
		t.publish(enrolled.facts(t))
		t.publish(issued.facts(t))
		t.want(f, "x_db_prod", "y_db_prod")
		t.facts("x.db.prod", nil)
		t.facts("y.db.prod", nil)
		t.want(f, "x_db_prod", "y_db_prod")
		stop()
		f, _ = t.master()
		t.want(f)
	})
}

func TestWhoUsesAPeelsNameDoesNotReplaceItsSealingKey(t *testing.T) {
	for name, register := range map[string]func(t *fleet, h *host){
		"enrolled": func(t *fleet, h *host) { t.enroll(h) },
		"issued":   func(t *fleet, h *host) { t.issue(h, false) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *fleet) {
				h, thief, other := t.host("db.01"), t.host("db.01"), t.host("web-01")
				register(t, h)
				register(t, other)
				f, stop := t.master()
				unsigned := wire.Facts{Peel: "db.01", Key: thief.key, V: wire.Version}
				borrowed := other.facts(t)
				borrowed.Peel = "db.01"
				mixed := h.facts(t)
				mixed.Key = thief.key
				forgeries := []wire.Facts{unsigned, thief.facts(t), borrowed, mixed}
				for _, forged := range forgeries {
					t.publish(forged)
					t.wantKey(f, "db.01", "", forged.Key)
				}
				t.publish(h.facts(t))
				t.wantKey(f, "db.01", h.key, "")
				for _, forged := range forgeries {
					t.publish(forged)
					t.wantKey(f, "db.01", h.key, forged.Key)
				}
				stop()
				f, _ = t.master()
				t.wantKey(f, "db.01", h.key, mixed.Key)
				t.publish(h.facts(t))
				t.wantKey(f, "db.01", h.key, "")
			})
		})
	}
}

func TestANewSealingKeyWaitsForAPerson(t *testing.T) {
	bubble(t, func(t *fleet) {
		h := t.host("db-01")
		t.enroll(h)
		here, _ := t.master()
		there, _ := t.master()
		t.publish(h.facts(t))
		t.wantKey(here, "db-01", h.key, "")
		old := h.key
		h.key = t.sealingKey() // its data directory was lost, its credential was not
		t.publish(h.facts(t))
		t.wantKey(here, "db-01", old, h.key)
		for _, wrong := range []string{"", old, t.sealingKey()} {
			if err := here.ApproveKey(t.Context(), "db-01", wrong, "ann"); !errors.Is(err, ErrNoKey) {
				t.Errorf("%.9q is approved: %v", wrong, err)
			}
		}
		changes := there.Watch(t.Context())
		select { // what was before
		case <-changes:
		default:
		}
		if err := here.ApproveKey(t.Context(), "db-01", h.key, "ann"); err != nil {
			t.Fatal(err)
		}
		t.wantKey(here, "db-01", h.key, "")
		<-changes
		t.wantKey(there, "db-01", h.key, "")
		if err := there.ApproveKey(t.Context(), "db-01", h.key, "ann"); !errors.Is(err, ErrNoKey) {
			t.Errorf("approved twice: %v", err)
		}
	})
}

// An overtaken bucket has something happen after each write, before who wrote it hears of the end.
type overtaken struct {
	jetstream.KeyValue
	after func()
}

func (o *overtaken) Update(ctx context.Context, key string, data []byte, last uint64) (uint64, error) {
	revision, err := o.KeyValue.Update(ctx, key, data, last)
	o.after()
	return revision, err
}

// A key that another master binds meanwhile is the newer one.
func TestAKeyThatIsBoundMeanwhileStays(t *testing.T) {
	bubble(t, func(t *fleet) {
		h := t.host("db-01")
		t.enroll(h)
		f, _ := t.master()
		t.publish(h.facts(t))
		t.wantKey(f, "db-01", h.key, "")
		h.key = t.sealingKey()
		t.publish(h.facts(t))
		newest := t.sealingKey()
		kv, err := f.bindings(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		f.mu.Lock()
		f.bound.bucket = &overtaken{kv, func() {
			data, err := json.Marshal(Binding{ID: "db-01", Key: newest, By: "bob"})
			if err == nil {
				_, err = kv.Put(t.Context(), target.PeelID("db-01").Wire(), data)
			}
			if err == nil {
				err = f.refreshBindings(t.Context())
			}
			if err != nil {
				t.Error(err)
			}
		}}
		f.mu.Unlock()
		if err := f.ApproveKey(t.Context(), "db-01", h.key, "ann"); err != nil {
			t.Fatal(err)
		}
		t.wantKey(f, "db-01", newest, h.key)
	})
}

func TestAHostThatIsEnrolledAgainBringsItsSealingKey(t *testing.T) {
	bubble(t, func(t *fleet) {
		h := t.host("db-01")
		t.enroll(h)
		f, _ := t.master()
		t.publish(h.facts(t))
		again := t.host("db-01")
		t.publish(again.facts(t))
		t.wantKey(f, "db-01", h.key, again.key) // not before a person has agreed
		if _, err := t.authority().Hosts.Revoke(t.Context(), "db-01", "ann"); err != nil {
			t.Fatal(err)
		}
		t.publish(again.facts(t))
		t.wantKey(f, "db-01", h.key, again.key)
		t.enroll(again)
		t.publish(h.facts(t)) // by whoever may still use the name
		t.publish(again.facts(t))
		t.wantKey(f, "db-01", again.key, "")
		t.publish(h.facts(t))
		t.wantKey(f, "db-01", again.key, h.key)
	})
}

func TestAnotherCredentialKeepsTheSealingKey(t *testing.T) {
	bubble(t, func(t *fleet) {
		h, again := t.host("db-01"), t.host("db-01")
		t.issue(h, false)
		f, _ := t.master()
		t.publish(h.facts(t))
		t.issue(again, true)
		key := again.key
		again.key = h.key
		t.publish(again.facts(t))
		t.wantKey(f, "db-01", h.key, "")
		again.key = key // and the host was set up again
		t.publish(again.facts(t))
		t.wantKey(f, "db-01", h.key, key)
		if err := f.ApproveKey(t.Context(), "db-01", key, "ann"); err != nil {
			t.Fatal(err)
		}
		t.wantKey(f, "db-01", key, "")
	})
}

// Peels of earlier versions sign nothing.
func TestKeysOfBeforeAreBoundWhenTheyWereInUse(t *testing.T) {
	bubble(t, func(t *fleet) {
		used, unused, foreign := t.host("used.1"), t.host("unused-1"), t.host("foreign-1")
		t.enroll(used)
		t.enroll(unused)
		for _, h := range []*host{used, unused, foreign} {
			facts := h.facts(t)
			facts.Proof = nil
			t.publish(facts)
		}
		t.sealTo(used)
		f, stop := t.master()
		t.wantKey(f, "used.1", used.key, "")
		t.wantKey(f, "unused-1", "", unused.key)
		t.wantKey(f, "foreign-1", foreign.key, "") // masters do not know its nkey: the first key counts
		t.publish(unused.facts(t))                 // it was upgraded
		t.wantKey(f, "unused-1", unused.key, "")
		for _, h := range []*host{used, unused, foreign} {
			before := h.key
			h.key = t.sealingKey()
			t.publish(h.facts(t))
			t.wantKey(f, h.id, before, h.key)
		}
		stop()
		f, _ = t.master()
		if f.Key("foreign-1") == "" || f.Key("foreign-1") == foreign.key {
			t.Error("the first key counts only until the next start")
		}
	})
}

// sealTo stores a document of the peel that is sealed to its key.
func (t *fleet) sealTo(h *host) {
	t.Helper()
	raw, err := canon.Marshal(map[string]any{"password": "x"})
	if err != nil {
		t.Fatal(err)
	}
	doc := settings.Document{V: settings.Version, Peel: h.id, Commit: "c0ffee", Generation: 1, Digest: settings.DigestOf(raw), Settings: raw}
	sealer, err := settings.NewSealer()
	if err != nil {
		t.Fatal(err)
	}
	if err := sealer.Seal(&doc, raw, settings.Key(h.key)); err != nil {
		t.Fatal(err)
	}
	if _, err := settings.NewStore(t.js).Publish(t.Context(), slices.Values([]settings.Write{{Document: &doc}})); err != nil {
		t.Fatal(err)
	}
}

func FuzzDecodeBinding(f *testing.F) {
	f.Add("web-01", []byte(`{"id":"web-01","key":"XK","by":"first use","since":"2026-01-01T00:00:00Z"}`))
	f.Add("x_db", []byte(`{"id":"x.db","by":"peel"}`))
	f.Add("web-01", []byte(`{"id":1}`))
	f.Fuzz(func(t *testing.T, wireID string, data []byte) {
		b, err := decodeBinding(wireID, data)
		if err == nil && b.ID.Wire() != wireID || err != nil && b != (Binding{}) {
			t.Errorf("%+v, %v", b, err)
		}
	})
}
