package apiserver_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/apiserver"
	"github.com/seed-c01c3da5/zester/master/auth"
	"github.com/seed-c01c3da5/zester/master/auth/access"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/enroll"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/user"
	"github.com/seed-c01c3da5/zester/master/dispatch"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/reach"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// TestWhatARevokedPersonMakesMeanwhileIsEnded has requests arrive between the record of a revocation and the end of the
// person's connections.
func TestWhatARevokedPersonMakesMeanwhileIsEnded(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		authority := s.authority(func(context.Context, string) error { return nil }) // which leaves connections open
		s.master("m1", func(o *apiserver.Options) { o.Authority = authority })
		boss, mallory := s.client(grants.RoleOperator, "boss"), s.client(grants.RoleOperator, "mallory")
		if _, _, err := boss.UserAdd(t.Context(), credential.UserRequest{Name: "mallory", Role: grants.RoleOperator, TTL: time.Hour}); err != nil {
			t.Fatal(err)
		}
		token := func(name string) credential.TokenRequest {
			return credential.TokenRequest{Name: name, Scopes: []credential.Scope{credential.ScopeRead}, TTL: time.Hour}
		}
		if _, _, err := boss.TokenCreate(t.Context(), token("bosses")); err != nil {
			t.Fatal(err)
		}
		// Masters have read the person's record just now, and take it for current.
		if _, err := api.TokenList.Ask(t.Context(), mallory, api.NamesRequest{}); err != nil {
			t.Fatal(err)
		}
		if _, err := authority.Users.Revoke(t.Context(), "mallory", "boss"); err != nil {
			t.Fatal(err)
		}
		for what, f := range map[string]func() error{
			"a token":              func() error { _, _, err := mallory.TokenCreate(t.Context(), token("late")); return err },
			"a token's new secret": func() error { _, _, err := mallory.TokenRotate(t.Context(), token("bosses")); return err },
			"a user": func() error {
				_, _, err := mallory.UserAdd(t.Context(), credential.UserRequest{Name: "friend", Role: grants.RoleOperator, TTL: time.Hour})
				return err
			},
			"a join token": func() error {
				_, _, err := mallory.JoinCreate(t.Context(), credential.JoinRequest{Name: "late", Peel: "*", Uses: 1, TTL: time.Hour})
				return err
			},
		} {
			t.Log(what)
			wantCode(t, f(), api.CodeForbidden)
		}
		held, err := api.TokenList.Ask(t.Context(), boss, api.NamesRequest{})
		if err != nil || len(held.Tokens) != 2 || held.Tokens[0].Revoked.IsZero() || held.Tokens[1].Revoked.IsZero() {
			t.Errorf("%+v, %v", held, err)
		}
		users, err := api.UserList.Ask(t.Context(), boss, api.NamesRequest{})
		if err != nil || len(users.Users) != 2 || users.Users[0].Name != "friend" || users.Users[0].Revoked.IsZero() {
			t.Errorf("%+v, %v", users, err)
		}
		joins, err := authority.Hosts.JoinTokens(t.Context())
		if err != nil || len(joins) > 0 && joins[0].Uses > 0 {
			t.Errorf("%+v, %v", joins, err)
		}
	})
}

// With a person end the jobs of the people and tokens that the person made, and no others: a token and a person may have the
// same name.
func TestWithAPersonEndTheJobsOfWhatThePersonMade(t *testing.T) {
	for name, c := range map[string]struct {
		keep bool
		ends []string
	}{
		"with what was made": {ends: []string{"mallory", "friend", "token:bot"}},
		"alone":              {keep: true, ends: []string{"mallory"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *system) {
				var submit *dispatch.Dispatcher
				s.master("m1", func(o *apiserver.Options) {
					o.Authority = s.authority(func(context.Context, string) error { return nil })
					submit = o.Dispatch
				})
				boss, mallory := s.client(grants.RoleOperator, "boss"), s.client(grants.RoleOperator, "mallory")
				s.user(boss, "mallory")
				s.user(boss, "bot")
				s.user(mallory, "friend")
				token := credential.TokenRequest{Name: "bot", Scopes: []credential.Scope{credential.ScopeDispatch}, TTL: time.Hour}
				if _, _, err := mallory.TokenCreate(t.Context(), token); err != nil {
					t.Fatal(err)
				}
				var want []wire.JID
				for _, user := range []string{"boss", "bot", "mallory", "friend", "token:bot"} {
					spec := pings("away")
					if _, err := submit.Submit(t.Context(), spec, user); err != nil {
						t.Fatal(err)
					}
					if slices.Contains(c.ends, user) {
						want = append(want, spec.JID)
					}
				}

				r, err := api.UserRevoke.Ask(t.Context(), boss, api.RevokeRequest{Name: "mallory", Keep: c.keep})
				slices.Sort(want)
				if err != nil || !slices.Equal(r.Jobs, want) {
					t.Errorf("canceled are %v of %+v, want %v; %v", r.Jobs, r, want, err)
				}
			})
		})
	}
}

// TestJobsThatADispatcherCanceledAreListed has a dispatcher notice a revocation while the bus still cuts the person off. One
// job would be sent again to its silent target; the dispatcher cancels it, and it stays open for a while. Of the other one the
// first target of a batch returns, and the next would be sent to; that job has then ended.
func TestJobsThatADispatcherCanceledAreListed(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		var submit *dispatch.Dispatcher
		held := make(chan func(), 1) // what has the first target of the batch return
		s.master("m1", func(o *apiserver.Options) {
			o.Authority = s.authority(func(context.Context, string) error {
				select {
				case returns := <-held:
					returns()
				default:
				}
				time.Sleep(dispatch.DefaultAckWindow + time.Second)
				return nil
			})
			o.Dispatch = s.judging("m1", o.Users, nil)
			submit = o.Dispatch
		})
		boss := s.client(grants.RoleOperator, "boss")
		s.user(boss, "mallory")
		s.peel("web-01", nil, func(nc *nats.Conn, r wire.Request) { held <- func() { pong("web-01")(nc, r) } })
		again, batch := pings("away"), pings("web-01", "web-02")
		batch.Batch = &job.Batch{Size: 1}
		for _, spec := range []job.Spec{batch, again} {
			if _, err := submit.Submit(t.Context(), spec, "mallory"); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second) // so long a master remembers permissions
		r, err := api.UserRevoke.Ask(t.Context(), boss, api.RevokeRequest{Name: "mallory"})
		if err != nil || !slices.Equal(r.Jobs, slices.Sorted(slices.Values([]wire.JID{batch.JID, again.JID}))) {
			t.Errorf("%+v, %v", r, err)
		}
		for spec, want := range map[wire.JID]job.Status{batch.JID: job.Canceled, again.JID: job.Running} {
			j, err := s.store.Get(t.Context(), spec)
			if err != nil || j.Status != want || j.Cancel == nil || j.Cancel.By != "master m1" {
				t.Errorf("%+v, %v", j, err)
			}
		}
	})
}

// TestAJobThatWasAllowedBeforeItsUserWasRevokedDoesNotRun has a person revoked, from beginning to end, between the check of
// the person's permissions and the record of the job. The master still remembers the permissions of before.
func TestAJobThatWasAllowedBeforeItsUserWasRevokedDoesNotRun(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		boss, mallory := s.client(grants.RoleOperator, "boss"), s.client(grants.RoleOperator, "mallory")
		revoke := sync.OnceFunc(func() {
			r, err := api.UserRevoke.Ask(t.Context(), boss, api.RevokeRequest{Name: "mallory"})
			if err != nil || len(r.Jobs) > 0 {
				t.Errorf("%+v, %v", r, err)
			}
		})
		s.master("m1", func(o *apiserver.Options) {
			o.Authority = s.authority(func(context.Context, string) error { return nil }) // which leaves connections open
			o.Dispatch = s.judging("m1", o.Users, revoke)
		})
		s.user(boss, "mallory")
		var ran atomic.Bool
		s.peel("web-01", nil, func(*nats.Conn, wire.Request) { ran.Store(true) })
		_, err := api.JobDispatch.Ask(t.Context(), mallory, pings("web-01"))
		wantCode(t, err, api.CodeForbidden)
		time.Sleep(time.Minute)
		if ran.Load() {
			t.Error("the job has run")
		}
	})
}

// judging makes a dispatcher that asks the users' records. meanwhile, which may be nil, is called after each permission.
func (s *system) judging(owner string, users *user.Store, meanwhile func()) *dispatch.Dispatcher {
	s.t.Helper()
	nc := s.bus.Conn(s.t, grants.RoleMaster, owner, nats.ReconnectBufSize(-1))
	d, err := dispatch.New(dispatch.Options{
		Conn: nc, Store: s.store, Owner: owner, CheckNotRevoked: users.CheckNotRevoked,
		Allow: func(ctx context.Context, from grants.Caller, spec *job.Spec) error {
			err := users.Allow(ctx, from, access.On{Function: spec.Function, Peels: spec.Targets}, nil)
			if meanwhile != nil {
				meanwhile()
			}
			return err
		},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

// authority makes an authority that has the bus learn of revocations by update.
func (s *system) authority(update func(context.Context, string) error) *auth.Authority {
	s.t.Helper()
	a, err := auth.NewAuthority(s.t.Context(), auth.AuthorityOptions{Keys: s.bus.Keys, JetStream: s.bus.JetStream(s.t), Update: update})
	if err != nil {
		s.t.Fatal(err)
	}
	return a
}

// user makes an operator.
func (s *system) user(by *api.Client, name string) {
	s.t.Helper()
	if _, _, err := by.UserAdd(s.t.Context(), credential.UserRequest{Name: name, Role: grants.RoleOperator, TTL: time.Hour}); err != nil {
		s.t.Fatal(err)
	}
}

func pings(targets ...target.PeelID) job.Spec {
	return job.Spec{JID: wire.NewJID(), Function: "test.ping", Targets: targets, TargetExpr: "*", Timeout: time.Minute}
}

func TestWhoHasLimitsCancelsHisOwnJobsAlone(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		var submit *dispatch.Dispatcher
		s.master("m1", func(o *apiserver.Options) { submit = o.Dispatch })
		lee, boss := s.client(grants.RoleLimited, "lee"), s.client(grants.RoleOperator, "boss")
		own, other := pings("away"), pings("away")
		for user, spec := range map[string]job.Spec{"lee": own, "boss": other} {
			if _, err := submit.Submit(t.Context(), spec, user); err != nil {
				t.Fatal(err)
			}
		}
		_, err := api.JobCancel.Ask(t.Context(), lee, api.JobRequest{JID: other.JID})
		wantCode(t, err, api.CodeForbidden)
		if j, err := s.store.Get(t.Context(), other.JID); err != nil || j.Cancel != nil || j.Status.Final() {
			t.Errorf("%+v, %v", j, err)
		}
		if _, err := api.JobCancel.Ask(t.Context(), lee, api.JobRequest{JID: own.JID}); err != nil {
			t.Error(err)
		}
		if _, err := api.JobCancel.Ask(t.Context(), boss, api.JobRequest{JID: other.JID}); err != nil {
			t.Error(err)
		}
	})
}

// A person who rotated a token knows its secret.
func TestATokenThatARevokedPersonRotatedEnds(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.master("m1", func(o *apiserver.Options) {
			o.Authority = s.authority(func(context.Context, string) error { return nil })
		})
		boss, mallory := s.client(grants.RoleOperator, "boss"), s.client(grants.RoleOperator, "mallory")
		s.user(boss, "mallory")
		for _, name := range []string{"rotated", "kept"} {
			if _, _, err := boss.TokenCreate(t.Context(), credential.TokenRequest{Name: name, Scopes: []credential.Scope{credential.ScopeRead}, TTL: time.Hour}); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := mallory.TokenRotate(t.Context(), credential.TokenRequest{Name: "rotated", TTL: time.Hour}); err != nil {
			t.Fatal(err)
		}
		if _, err := api.UserRevoke.Ask(t.Context(), boss, api.RevokeRequest{Name: "mallory"}); err != nil {
			t.Fatal(err)
		}
		held, err := api.TokenList.Ask(t.Context(), boss, api.NamesRequest{})
		if err != nil || len(held.Tokens) != 2 || !held.Tokens[0].Revoked.IsZero() || held.Tokens[1].Revoked.IsZero() {
			t.Errorf("%+v, %v", held, err)
		}
	})
}

// A record that was damaged, or that a newer master wrote, does not keep others from being revoked.
func TestADamagedRecordDoesNotKeepOthersInForce(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		pushed := make(chan struct{}, 100)
		s.master("m1", func(o *apiserver.Options) {
			o.Authority = s.authority(func(context.Context, string) error { pushed <- struct{}{}; return nil })
		})
		boss := s.client(grants.RoleOperator, "boss")
		s.user(boss, "lim")
		for bucket, key := range map[string]string{"users": "zz", "tokens": "zz", "enroll": "join.zz", "held": "action.zz"} {
			kv, err := s.bus.JetStream(t).KeyValue(t.Context(), bucket)
			if err == nil {
				_, err = kv.Put(t.Context(), key, []byte("\xc1garbage"))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if _, err := api.UserRevoke.Ask(t.Context(), boss, api.RevokeRequest{Name: "lim"}); err != nil {
			t.Fatal(err)
		}
		if len(pushed) == 0 {
			t.Error("the bus was not told")
		}
		users, err := api.UserList.Ask(t.Context(), boss, api.NamesRequest{})
		if err != nil || len(users.Users) != 1 || users.Users[0].Revoked.IsZero() {
			t.Errorf("%+v, %v", users, err)
		}
		if _, err := api.TokenList.Ask(t.Context(), boss, api.NamesRequest{}); err != nil {
			t.Error(err)
		}
		h, err := api.MasterShow.Ask(t.Context(), boss, api.None{})
		if err != nil || !slices.Equal(h.Unreadable, []string{"users/zz", "tokens/zz"}) {
			t.Errorf("%+v, %v", h, err)
		}
	})
}

// TestWhatAListLacksEndsWithItsMaker: the revocation is stored, and finds nothing of what the person made, directly and
// through others, as if the lists of a copy of the bus lacked it. Nobody takes it all the same, unless it was to be kept.
func TestWhatAListLacksEndsWithItsMaker(t *testing.T) {
	for _, keep := range []bool{false, true} {
		bubble(t, func(t *testing.T, s *system) {
			authority := s.authority(func(context.Context, string) error { return nil })
			s.master("m1", func(o *apiserver.Options) { o.Authority = authority })
			boss, mallory, friend := s.client(grants.RoleOperator, "boss"), s.client(grants.RoleOperator, "mallory"), s.client(grants.RoleOperator, "friend")
			s.user(boss, "mallory")
			s.user(boss, "other")
			s.user(mallory, "friend")
			_, _, errAgain := mallory.UserAdd(t.Context(), credential.UserRequest{Name: "other", Role: grants.RoleOperator, TTL: time.Hour, Again: true})
			ask := func(name string) credential.TokenRequest {
				return credential.TokenRequest{Name: name, Scopes: []credential.Scope{credential.ScopeAdmin}, TTL: time.Hour}
			}
			_, _, errNear := mallory.TokenCreate(t.Context(), ask("near"))
			_, _, errFar := friend.TokenCreate(t.Context(), ask("far"))
			_, _, errOwn := boss.TokenCreate(t.Context(), ask("bosses"))
			_, _, errTurned := boss.TokenCreate(t.Context(), ask("turned"))
			_, _, errTurn := mallory.TokenRotate(t.Context(), credential.TokenRequest{Name: "turned", TTL: time.Hour})
			door, _, errDoor := friend.JoinCreate(t.Context(), credential.JoinRequest{Name: "door", Peel: "*", Uses: 1, TTL: time.Hour})
			if err := errors.Join(errAgain, errNear, errFar, errOwn, errTurned, errTurn, errDoor); err != nil {
				t.Fatal(err)
			}

			revoke := authority.Users.RevokeAll
			if keep {
				revoke = authority.Users.Revoke
			}
			if _, err := revoke(t.Context(), "mallory", "boss"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)

			known, err := reach.Open(t.Context(), s.bus.JetStream(t), nil)
			if err != nil {
				t.Fatal(err)
			}
			holds := func(what string, err error, ends bool) {
				t.Helper()
				if ends = ends && !keep; ends != errors.Is(err, grants.ErrNotAllowed) && api.CodeOf(err) != api.CodeForbidden || !ends && err != nil {
					t.Errorf("%s, kept %v: %v", what, keep, err)
				}
			}
			for name, ends := range map[string]bool{"near": true, "far": true, "turned": true, "bosses": false} {
				from := grants.Caller{User: "token:" + name}
				holds("the token "+name, known.Check(t.Context(), from, "job.list"), ends)
				holds("a late send for the token "+name, known.CheckCurrent(t.Context(), from.User), ends)
				_, err := known.Of(t.Context(), from)
				holds("reading by the token "+name, err, ends)
			}
			_, err = api.TokenList.Ask(t.Context(), friend, api.NamesRequest{})
			holds("friend, who is connected", err, true)
			holds("a late send for friend", known.CheckCurrent(t.Context(), "friend"), true)
			if joins := authority.Hosts.Joins(t.Context(), enroll.Request{ID: "web-09", Token: door}); joins != keep {
				t.Errorf("the join token admits a host: %v", joins)
			}
			friendly, errFriend := authority.Users.Find(t.Context(), "friend")
			other, errOther := authority.Users.Find(t.Context(), "other")
			ended, errEnded := authority.Users.Ended(t.Context())
			if err := errors.Join(errFriend, errOther, errEnded); err != nil {
				t.Fatal(err)
			}
			for _, k := range append(friendly.Keys, other.Keys...) {
				if _, ends := ended[grants.RoleOperator][k.Public]; ends != (!keep && k.By != "boss") {
					t.Errorf("the bus ends a key that %s asked for: %v", k.By, ends)
				}
			}

			// Lists say the same.
			people, errPeople := api.UserList.Ask(t.Context(), boss, api.NamesRequest{})
			tokens, errTokens := api.TokenList.Ask(t.Context(), boss, api.NamesRequest{})
			may, errMay := api.UserExplain.Ask(t.Context(), boss, api.AccessRequest{Name: "friend", Verb: "job.list"})
			who, errWho := api.AccessList.Ask(t.Context(), boss, api.AccessRequest{Verb: "job.list"})
			if err := errors.Join(errPeople, errTokens, errMay, errWho); err != nil {
				t.Fatal(err)
			}
			for _, u := range people.Users {
				ends := u.Name == "mallory" || u.Name == "friend" && !keep
				if ends != (u.State(time.Now()) == "revoked" && u.RevokedBy == "boss") {
					t.Errorf("the list of people, kept %v: %s is %s, by %s", keep, u.Name, u.State(time.Now()), u.RevokedBy)
				}
				named := slices.ContainsFunc(who.People, func(a api.Access) bool { return a.Name == u.Name })
				if named == ends {
					t.Errorf("who can, kept %v, names %s: %v", keep, u.Name, named)
				}
			}
			for _, k := range tokens.Tokens {
				if (k.State(time.Now()) == "revoked") != (k.Name != "bosses" && !keep) {
					t.Errorf("the list of tokens, kept %v: %s is %s", keep, k.Name, k.State(time.Now()))
				}
			}
			if may.Allowed != keep {
				t.Errorf("can, kept %v: %+v", keep, may)
			}

			// Revoking again finds all of it.
			r, err := api.UserRevoke.Ask(t.Context(), boss, api.RevokeRequest{Name: "mallory"})
			if err != nil || len(r.Made) != 6 || !r.User.EndsMade {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}

// TestWhoMadeManyIsRevokedByFewPushes: what somebody made is stored as revoked, and then pushed to the servers at once.
func TestWhoMadeManyIsRevokedByFewPushes(t *testing.T) {
	const people = 300
	bubble(t, func(t *testing.T, s *system) {
		authority := s.authority(func(context.Context, string) error { return nil })
		pushes, push := 0, authority.Users.Push
		authority.Users.Push = func(ctx context.Context) error { pushes++; return push(ctx) }
		s.master("m1", func(o *apiserver.Options) { o.Authority = authority })
		boss := s.client(grants.RoleOperator, "boss")
		s.user(boss, "mallory")
		for i := range people {
			_, _, err := authority.Users.Add(t.Context(), credential.UserRequest{
				Name: fmt.Sprintf("p%05d", i), Role: grants.RoleOperator, Public: publicKey(t), TTL: time.Hour,
			}, "mallory")
			if err != nil {
				t.Fatal(err)
			}
		}

		r, err := api.UserRevoke.Ask(t.Context(), boss, api.RevokeRequest{Name: "mallory"})
		if err != nil || len(r.Made) != people {
			t.Fatalf("%+v, %v", r, err)
		}
		if pushes > 3 {
			t.Errorf("%d pushes to the servers for %d people", pushes, people)
		}
		if ended := s.bus.Keys.Revoked(grants.RoleOperator); len(ended) != people+1 {
			t.Errorf("the bus refuses %d keys of %d people", len(ended), people)
		}
		if err := authority.Users.Store.CheckNotRevoked(t.Context(), "p00299"); !errors.Is(err, grants.ErrNotAllowed) {
			t.Errorf("the last of them: %v", err)
		}
	})
}
