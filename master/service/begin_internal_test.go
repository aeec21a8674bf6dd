package service

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/access"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/token"
	"github.com/seed-c01c3da5/zester/master/auth/user"
	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/status"
)

// A decided is an action that ann, or a token of ann's, asked for and bob has approved. One master is to carry it out;
// another one makes the changes that come before.
type decided struct {
	t       *testing.T
	people  user.Directory
	records bucket.Records[credential.User]
	tokens  *token.Store
	actions bucket.Records[api.HoldAction]
	action  api.HoldAction
	options Options
	began   int // how often the request was carried out
}

func newDecided(t *testing.T, b *natstest.Bus, asker string) *decided {
	t.Helper()
	d := &decided{t: t, options: Options{people: &people{conn: b.Conn(t, grants.RoleMaster, "m1")}, MaxRequest: 1 << 10}}
	js, ctx := b.JetStream(t), t.Context()
	store, errUsers := user.Open(ctx, js)
	tokens, errTokens := token.Open(ctx, js)
	records, errRecords := bucket.OpenRecords[credential.User](ctx, js, wire.BucketUsers, "", "the user")
	actions, errActions := bucket.OpenRecords[api.HoldAction](ctx, js, wire.BucketHeld, "action.", "the held action")
	d.must(errors.Join(errUsers, errTokens, errRecords, errActions))
	d.tokens, d.records, d.actions = tokens, records, actions
	d.people = user.Directory{Store: store, Keys: b.Keys, Push: func(context.Context) error { return nil }}

	pins := access.Role{Name: "pins", Allow: []access.Actions{{Verbs: []string{"sync.pin"}}}}
	d.must(store.SetRole(ctx, credential.Role{Role: pins}))
	d.add(credential.UserRequest{Name: "ann", Role: grants.RoleMember, Roles: []string{"pins"}}, "root")
	d.add(credential.UserRequest{Name: "bob", Role: grants.RoleOperator}, "root")
	_, hash := credential.NewSecret("ci")
	_, err := tokens.Create(ctx, credential.TokenRequest{Name: "ci", Hash: hash, Scopes: []credential.Scope{credential.ScopeSync}}, "ann")
	d.must(err)

	data, err := canon.Marshal(status.PinRequest{Revision: strings.Repeat("c0", 20)})
	d.must(err)
	now := time.Now().UTC()
	d.action = api.HoldAction{
		ID: api.HoldID(wire.NewJID()), By: asker, ByRole: grants.RoleMember, Created: now, Expires: now.Add(time.Hour),
		State: api.HoldApproved, DecidedBy: "bob", DecidedAt: now,
		HoldAddRequest: api.HoldAddRequest{Kind: api.HoldSecond, Verb: "sync.pin", Data: data},
	}
	if asker != "ann" {
		d.action.ByRole = ""
	}
	d.must(actions.Create(ctx, string(d.action.ID), d.action))
	return d
}

func (d *decided) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d *decided) add(q credential.UserRequest, by string) {
	d.t.Helper()
	key, err := credential.MakeKey()
	d.must(err)
	q.Public = key.Public()
	_, _, err = d.people.Add(d.t.Context(), q, by)
	d.must(err)
}

func (d *decided) change(name string, f func(*credential.User)) {
	d.t.Helper()
	_, err := d.records.Change(d.t.Context(), name, func(u *credential.User) error { f(u); return nil })
	d.must(err)
}

// ask sends the request of the action as bob, as the master does at which bob has approved it.
func (d *decided) ask() error {
	verb := On(api.SyncPin, func(context.Context, *Call, status.PinRequest) (*status.Sync, error) {
		d.began++
		return &status.Sync{}, nil
	})
	c := &Call{From: grants.Caller{User: "bob", Role: grants.RoleOperator}, Data: d.action.Data, header: nats.Header{}}
	c.header.Set(HeldHeader, string(d.action.ID))
	_, err := d.options.carryOut(d.t.Context(), verb, c)
	return err
}

// know has the master read all records that it keeps for a moment.
func (d *decided) know() {
	d.t.Helper()
	known, err := d.options.people.open(d.t.Context())
	d.must(err)
	d.must(known.Check(d.t.Context(), d.action.Asker(), "sync.pin"))
	d.must(known.Check(d.t.Context(), grants.Caller{User: "bob", Role: grants.RoleOperator}, "sync.pin"))
}

// changes between an approval and the beginning: who asked, what happens, and what the refusal says.
var changes = map[string]struct {
	asker string
	late  time.Duration // from the change to the beginning; 0: the master still uses the records that it has read
	do    func(*decided)
	says  string
}{
	"the role is taken away": {"ann", time.Second, func(d *decided) {
		d.change("ann", func(u *credential.User) { u.Roles = nil })
	}, "of ann: "},
	"the role allows it no more": {"ann", time.Second, func(d *decided) {
		d.must(d.people.Store.SetRole(d.t.Context(), credential.Role{Role: access.Role{Name: "pins"}}))
	}, "of ann: "},
	"a rule denies it": {"ann", time.Second, func(d *decided) {
		deny := access.Role{Name: "no-pins", People: []string{"ann"}, Deny: []access.Actions{{Verbs: []string{"sync.*"}}}}
		d.must(d.people.Store.SetRole(d.t.Context(), credential.Role{Role: deny}))
	}, "of ann: "},
	"there are limits now": {"ann", time.Second, func(d *decided) {
		d.change("ann", func(u *credential.User) {
			u.Role, u.Roles, u.Limits = grants.RoleLimited, nil, grants.Limits{Target: "web-*"}
		})
	}, "of ann: "},
	"the maker of the token lost the role": {"token:ci", time.Second, func(d *decided) {
		d.change("ann", func(u *credential.User) { u.Roles = nil })
	}, "of token:ci: "},
	"who asked was revoked at this moment": {"ann", 0, func(d *decided) {
		_, err := d.people.Revoke(d.t.Context(), "ann", "root")
		d.must(err)
	}, "ann was revoked"},
	"who asked was revoked": {"ann", time.Second, func(d *decided) {
		_, err := d.people.Revoke(d.t.Context(), "ann", "root")
		d.must(err)
	}, "ann was revoked"},
	"the token was revoked": {"token:ci", time.Second, func(d *decided) {
		_, err := d.tokens.Revoke(d.t.Context(), "ci", "root")
		d.must(err)
	}, "revoked"},
	"who asked has made a credential of the second": {"ann", 0, func(d *decided) {
		d.add(credential.UserRequest{Name: "bob", Role: grants.RoleOperator, Again: true}, "ann")
	}, "ann made bob"},
	"the second has made a credential of who asked": {"ann", 0, func(d *decided) {
		d.add(credential.UserRequest{Name: "ann", Role: grants.RoleMember, Again: true}, "bob")
	}, "bob made ann"},
	"the second has got the secret of the token": {"token:ci", 0, func(d *decided) {
		_, hash := credential.NewSecret("ci")
		_, err := d.tokens.Rotate(d.t.Context(), credential.TokenRequest{Name: "ci", Hash: hash}, "bob")
		d.must(err)
	}, "they are the same"},
}

// TestWhatChangesAfterTheApprovalKeepsTheRequestFromBeginning makes one change at a time.
func TestWhatChangesAfterTheApprovalKeepsTheRequestFromBeginning(t *testing.T) {
	for what, c := range changes {
		t.Run(what, func(t *testing.T) {
			natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
				d := newDecided(t, b, c.asker)
				d.know()
				c.do(d)
				time.Sleep(c.late)
				err := d.ask()
				if !errors.Is(err, grants.ErrNotAllowed) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("it ended with %v, want %q", err, c.says)
				}
				a, _, err := d.actions.Get(t.Context(), string(d.action.ID))
				d.must(err)
				if d.began != 0 || !a.Begun.IsZero() {
					t.Errorf("it was begun %d times, at %s", d.began, a.Begun)
				}
			})
		})
	}
}

// TestWhatNobodyChangedBeginsOnce is the same without a change: for a person and for a token.
func TestWhatNobodyChangedBeginsOnce(t *testing.T) {
	for _, asker := range []string{"ann", "token:ci"} {
		natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
			d := newDecided(t, b, asker)
			d.know()
			d.must(d.ask())
			if err := d.ask(); api.CodeOf(err) != api.CodeConflict || d.began != 1 {
				t.Errorf("%s: the second time it ended with %v, and was carried out %d times", asker, err, d.began)
			}
		})
	}
}
