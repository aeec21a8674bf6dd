package hold_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/token"
	"github.com/seed-c01c3da5/zester/master/auth/user"
	"github.com/seed-c01c3da5/zester/master/hold"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func TestMain(m *testing.M) { os.Exit(natstest.InMemory(m)) }

// A bench is a bus with masters that serve held actions, and a fleet.
type bench struct {
	t    *testing.T
	bus  *natstest.Bus
	js   jetstream.JetStream
	jobs *job.Store

	mu      sync.Mutex
	fleet   []target.PeelID
	limits  map[string]grants.Limits // by user
	revoked map[string]bool
	conns   map[string]*nats.Conn
	lags    atomic.Bool // lists of actions are as they were before there was any
	death   death
}

// inBubble runs f with two masters.
func inBubble(t *testing.T, f func(t *testing.T, b *bench)) {
	t.Helper()
	natstest.Bubble(t, func(t *testing.T, bus *natstest.Bus) {
		b := &bench{
			t: t, bus: bus, js: bus.JetStream(t), fleet: []target.PeelID{"web-01", "web-02", "web-03"},
			limits: map[string]grants.Limits{}, revoked: map[string]bool{}, conns: map[string]*nats.Conn{},
		}
		jobs, err := job.NewStore(t.Context(), b.js)
		if err != nil {
			t.Fatal(err)
		}
		b.jobs = jobs
		for _, master := range []string{"m1", "m2"} {
			b.start(master)
		}
		synctest.Wait()
		f(t, b)
	})
}

// start runs the service on a master until the test ends.
func (b *bench) start(master string) {
	js, err := jetstream.New(b.bus.Conn(b.t, grants.RoleMaster, master))
	if err != nil {
		b.t.Fatal(err)
	}
	jobs, err := job.NewStore(b.t.Context(), js)
	if err != nil {
		b.t.Fatal(err)
	}
	users, err := user.Open(b.t.Context(), js)
	if err != nil {
		b.t.Fatal(err)
	}
	s := hold.New(hold.Options{JetStream: lagging{js, &b.lags, &b.death}, Jobs: jobs, Select: b.selects, Allow: b.allow, CheckNotRevoked: func(ctx context.Context, name string) error {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.revoked[name] {
			return fmt.Errorf("%w: %s was revoked", grants.ErrNotAllowed, name)
		}
		return users.CheckNotRevoked(ctx, name)
	}, Audit: audit.OpenLog(js, nil)})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Run(ctx); !errors.Is(err, context.Canceled) {
			b.t.Error(err)
		}
	})
	b.t.Cleanup(func() { cancel(); running.Wait() })
}

func (b *bench) selects(_ context.Context, _ grants.Caller, expr string) (found []target.PeelID, err error) {
	e, err := target.Parse(expr, target.Options{})
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range b.fleet {
		if e.Match(target.Peel{ID: id}) {
			found = append(found, id)
		}
	}
	return found, nil
}

func (b *bench) allow(ctx context.Context, from grants.Caller, spec *job.Spec) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	none := func(context.Context, string) ([]target.PeelID, error) { return nil, nil }
	return b.limits[from.User].Evaluate(ctx, from.User, spec.Function, spec.Targets, none)
}

func (b *bench) become(peels ...target.PeelID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fleet = peels
}

// A person is one who asks masters.
type person struct {
	b    *bench
	role grants.Role
	name string
}

func (b *bench) operator(name string) person { return person{b, grants.RoleOperator, name} }
func (b *bench) limited(name string) person  { return person{b, grants.RoleLimited, name} }

func ask[A any](p person, verb string, question any) (*A, error) {
	p.b.t.Helper()
	p.b.mu.Lock()
	nc := p.b.conns[p.name]
	if nc == nil {
		nc = p.b.bus.Conn(p.b.t, p.role, p.name)
		p.b.conns[p.name] = nc
	}
	p.b.mu.Unlock()
	data, err := canon.Marshal(question)
	if err != nil {
		p.b.t.Fatal(err)
	}
	msg, err := nc.Request(wire.API("hold", verb, p.name), data, 30*time.Second)
	if err != nil {
		p.b.t.Fatalf("%s %s: %v", p.name, verb, err)
	}
	if err := api.ReplyError(msg); err != nil {
		return nil, err
	}
	a := new(A)
	if err := canon.Unmarshal(msg.Data, a); err != nil {
		p.b.t.Fatal(err)
	}
	return a, nil
}

// reboot is a request to run a command on all peels web-*, with those that there are now.
func (b *bench) reboot() api.HoldAddRequest {
	peels, err := b.selects(context.Background(), grants.Caller{}, "web-*")
	if err != nil {
		b.t.Fatal(err)
	}
	return api.HoldAddRequest{
		Kind: api.HoldDispatch, Target: "web-*", Hash: audit.PeelsHash(peels), Module: "cmd.run", Args: map[string]any{"command": "reboot"},
		Reason: "a new kernel", Agent: "helper 1.2",
	}
}

// numbered is a request like no other.
func (b *bench) numbered(n int) api.HoldAddRequest {
	q := b.reboot()
	q.Reason = fmt.Sprintf("kernel %d", n)
	return q
}

func (p person) add(q api.HoldAddRequest) api.HoldAction {
	p.b.t.Helper()
	a, err := ask[api.HoldAction](p, "add", q)
	if err != nil {
		p.b.t.Fatal(err)
	}
	return *a
}

func (p person) approve(id api.HoldID) (*api.HoldAction, error) {
	return ask[api.HoldAction](p, "approve", api.HoldRequest{ID: id})
}

func (p person) show(id api.HoldID) api.HoldShown {
	p.b.t.Helper()
	a, err := ask[api.HoldShown](p, "show", api.HoldRequest{ID: id})
	if err != nil {
		p.b.t.Fatal(err)
	}
	return *a
}

func (p person) list(q api.HoldQuery) (ids []api.HoldID) {
	p.b.t.Helper()
	page, err := ask[api.HoldPage](p, "list", q)
	if err != nil {
		p.b.t.Fatal(err)
	}
	for _, a := range page.Actions {
		if a.Args != nil {
			p.b.t.Errorf("the list has the arguments of %s", a.ID)
		}
		ids = append(ids, a.ID)
	}
	return ids
}

// refused fails unless err has a code and a text.
func refused(t *testing.T, err error, code api.Code, text string) {
	t.Helper()
	if err == nil || api.CodeOf(err) != code || !strings.Contains(err.Error(), text) {
		t.Errorf("code %q: %v, want code %s: %s", api.CodeOf(err), err, code, text)
	}
}

// dispatch creates the record of the job of an action, as its dispatch does.
func (b *bench) dispatch(a *api.HoldAction) {
	b.t.Helper()
	j := &job.Job{Spec: a.Spec(), User: a.DecidedBy, Status: job.Claimed, Created: time.Now(), V: wire.Version}
	j.Targets, j.TargetCount = b.fleet, len(b.fleet)
	if err := b.jobs.Create(b.t.Context(), j); err != nil {
		b.t.Fatal(err)
	}
}

func TestAnActionWaitsUntilAPersonApprovesIt(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		ann, bob := b.operator("ann"), b.operator("bob")
		a := ann.add(b.reboot())
		if a.By != "ann" || a.State != api.HoldOpen || a.Peels != 3 || a.Expires.Sub(a.Created) != 24*time.Hour || a.JID != "" {
			t.Fatalf("%+v", a)
		}
		if got := bob.list(api.HoldQuery{}); !slices.Equal(got, []api.HoldID{a.ID}) {
			t.Errorf("listed %v", got)
		}
		s := bob.show(a.ID)
		if !slices.Equal(s.Names, b.fleet) || s.Args["command"] != "reboot" || s.Agent != "helper 1.2" || s.Reason != "a new kernel" {
			t.Errorf("shown %+v", s)
		}
		time.Sleep(time.Hour)
		approved, err := bob.approve(a.ID)
		if err != nil {
			t.Fatal(err)
		}
		if approved.State != api.HoldApproved || approved.DecidedBy != "bob" || approved.JID == "" || !approved.DecidedAt.Equal(time.Now()) {
			t.Errorf("approved %+v", approved)
		}
		masters := hold.New(hold.Options{
			JetStream: b.js, Jobs: b.jobs, CheckNotRevoked: func(context.Context, string) error { return nil },
		})
		ran := approved.Spec()
		ran.Targets = []target.PeelID{"web-03", "web-01", "web-02"}
		if m, err := masters.Approved(t.Context(), "bob", &ran, string(a.ID)); err != nil || m[job.MetaAskedBy] != "ann" || m[job.MetaHeld] != string(a.ID) || m[job.MetaReason] != "a new kernel" {
			t.Errorf("%v, %v", m, err)
		}
		for _, forged := range []struct {
			user, action string
			change       func(*job.Spec)
		}{
			{"ann", string(a.ID), func(*job.Spec) {}},
			{"bob", string(wire.NewJID()), func(*job.Spec) {}},
			{"bob", "../x", func(*job.Spec) {}},
			{"bob", string(a.ID), func(s *job.Spec) { s.JID = wire.NewJID() }},
			{"bob", string(a.ID), func(s *job.Spec) { s.Args = map[string]any{"command": "rm -r /srv"} }},
			{"bob", string(a.ID), func(s *job.Spec) { s.Args = nil }},
			{"bob", string(a.ID), func(s *job.Spec) { s.StateID = "rm -r /srv" }},
			{"bob", string(a.ID), func(s *job.Spec) { s.Function = "file.absent" }},
			{"bob", string(a.ID), func(s *job.Spec) { s.Targets = append(s.Targets, "db-01") }},
			{"bob", string(a.ID), func(s *job.Spec) { s.Targets = s.Targets[:2] }},
		} {
			spec := approved.Spec()
			spec.Targets = slices.Clone(ran.Targets)
			forged.change(&spec)
			if m, err := masters.Approved(t.Context(), forged.user, &spec, forged.action); !errors.Is(err, grants.ErrNotAllowed) {
				t.Errorf("%s, %s, %+v: %v, %v", forged.user, forged.action, spec, m, err)
			}
		}
		b.dispatch(approved)
		if s := ann.show(a.ID); !s.Dispatched || s.JID != approved.JID || s.State != api.HoldApproved {
			t.Errorf("shown %+v", s)
		}
		for _, p := range []person{ann, bob} {
			_, err := p.approve(a.ID)
			refused(t, err, api.CodeConflict, "was approved by bob at 2026-01-01T01:00:0")
			_, err = ask[api.HoldAction](p, "reject", api.HoldRequest{ID: a.ID})
			refused(t, err, api.CodeConflict, "was approved by bob")
		}
		if got := bob.list(api.HoldQuery{}); len(got) != 0 {
			t.Errorf("open are %v", got)
		}
		if got := bob.list(api.HoldQuery{All: true}); !slices.Equal(got, []api.HoldID{a.ID}) {
			t.Errorf("all are %v", got)
		}
	})
}

func TestOfSeveralApproversOneGetsTheAction(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		a := b.operator("ann").add(b.reboot())
		people := []string{"ann", "bob", "cyd", "dee"}
		errs, jids := make([]error, len(people)), make([]wire.JID, len(people))
		var asking sync.WaitGroup
		for i, name := range people {
			asking.Go(func() {
				got, err := b.operator(name).approve(a.ID)
				if errs[i] = err; err == nil {
					jids[i] = got.JID
				}
			})
		}
		asking.Wait()
		stored := b.operator("ann").show(a.ID)
		for i, name := range people {
			if name == stored.DecidedBy {
				if errs[i] != nil || jids[i] != stored.JID {
					t.Errorf("%s decided, and got %s, %v", name, jids[i], errs[i])
				}
				continue
			}
			refused(t, errs[i], api.CodeConflict, "was approved by "+stored.DecidedBy)
		}
	})
}

// The client of the approver may die before it dispatches the job, or lose the reply.
func TestAnApproverMayContinue(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		ann, bob := b.operator("ann"), b.operator("bob")
		a := ann.add(b.reboot())
		first, err := bob.approve(a.ID)
		if err != nil {
			t.Fatal(err)
		}
		if s := ann.show(a.ID); s.Dispatched || s.State != api.HoldApproved {
			t.Errorf("shown %+v", s)
		}
		_, err = ann.approve(a.ID)
		refused(t, err, api.CodeConflict, "was approved by bob")
		again, err := bob.approve(a.ID)
		if err != nil || again.JID != first.JID {
			t.Fatalf("%+v, %v; the first job is %s", again, err, first.JID)
		}
		time.Sleep(24 * time.Hour)
		_, err = bob.approve(a.ID)
		refused(t, err, api.CodeConflict, "was approved by bob")
	})
}

// An approval counts for the job that follows it: not for one after the end of the action, and not after the user who asked
// was revoked. A job that was dispatched in time may be asked for again.
func TestAnApprovalEndsWithItsAction(t *testing.T) {
	for name, c := range map[string]struct {
		after, later time.Duration // of the approval, of the dispatch
		revoked      bool
		dispatched   bool
		want         string
	}{
		"at once":                     {},
		"a day later":                 {later: 25 * time.Hour, want: "has expired at"},
		"approved at the last moment": {after: 24*time.Hour - time.Second, later: 30 * time.Second},
		"asked by a revoked user":     {revoked: true, want: "was asked for in the name of ann"},
		"repeated a day later":        {later: 25 * time.Hour, dispatched: true},
		"repeated, by a revoked user": {revoked: true, dispatched: true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				a := b.operator("ann").add(b.reboot())
				time.Sleep(c.after)
				approved, err := b.operator("bob").approve(a.ID)
				if err != nil {
					t.Fatal(err)
				}
				if c.dispatched {
					b.dispatch(approved)
				}
				time.Sleep(c.later)
				masters := hold.New(hold.Options{JetStream: b.js, Jobs: b.jobs, CheckNotRevoked: func(_ context.Context, name string) error {
					if c.revoked && name == "ann" {
						return fmt.Errorf("%w: %s was revoked", grants.ErrNotAllowed, name)
					}
					return nil
				}})
				spec := approved.Spec()
				spec.Targets = slices.Clone(b.fleet)
				_, err = masters.Approved(t.Context(), "bob", &spec, string(a.ID))
				if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, grants.ErrNotAllowed) || !strings.Contains(err.Error(), c.want)) {
					t.Errorf("%v, want %q", err, c.want)
				}
			})
		})
	}
}

func TestOneApproverTwiceAtOnceGetsOneJob(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		a := b.operator("ann").add(b.reboot())
		jids := make([]wire.JID, 4)
		var asking sync.WaitGroup
		b.operator("bob").list(api.HoldQuery{}) // connects
		for i := range jids {
			asking.Go(func() {
				if got, err := b.operator("bob").approve(a.ID); err == nil {
					jids[i] = got.JID
				} else {
					refused(t, err, api.CodeConflict, "was approved by bob")
				}
			})
		}
		asking.Wait()
		stored := b.operator("bob").show(a.ID).JID
		got := slices.DeleteFunc(slices.Compact(slices.Sorted(slices.Values(jids))), func(j wire.JID) bool { return j == "" })
		if !slices.Equal(got, []wire.JID{stored}) {
			t.Errorf("the jobs are %v, stored is %s", got, stored)
		}
	})
}

func TestARejectedActionIsNotApproved(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		ann, bob := b.operator("ann"), b.operator("bob")
		a := ann.add(b.reboot())
		rejected, err := ask[api.HoldAction](bob, "reject", api.HoldRequest{ID: a.ID})
		if err != nil || rejected.State != api.HoldRejected || rejected.DecidedBy != "bob" || rejected.JID != "" {
			t.Fatalf("%+v, %v", rejected, err)
		}
		_, err = ann.approve(a.ID)
		refused(t, err, api.CodeConflict, "was rejected by bob")
	})
}

func TestAnActionThatNobodyDecidesExpires(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		ann := b.operator("ann")
		a := ann.add(b.reboot())
		time.Sleep(24 * time.Hour)
		_, err := ann.approve(a.ID)
		refused(t, err, api.CodeConflict, "has expired at 2026-01-02T00:00:0")
		_, err = ask[api.HoldAction](ann, "reject", api.HoldRequest{ID: a.ID})
		refused(t, err, api.CodeConflict, "has expired")
		if got := ann.list(api.HoldQuery{}); len(got) != 0 {
			t.Errorf("open are %v", got)
		}
		if s := ann.show(a.ID); s.State != api.HoldExpired {
			t.Errorf("shown %+v", s)
		}
	})
}

func TestATargetThatSelectsOtherPeelsIsNotApproved(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		ann := b.operator("ann")
		a := ann.add(b.reboot())
		for _, now := range [][]target.PeelID{{"web-01", "web-02", "web-03", "web-04"}, {"web-01", "web-02"}, {"web-01", "web-02", "web-04"}, {"db-01"}} {
			b.become(now...)
			_, err := ann.approve(a.ID)
			refused(t, err, api.CodeConflict, "the target selects ")
		}
		b.become("web-01", "web-02", "web-03")
		if _, err := ann.approve(a.ID); err != nil {
			t.Error(err)
		}
	})
}

func TestWhatCannotBeHeld(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		ann := b.operator("ann")
		b.limits["lee"] = grants.Limits{Functions: []string{"test.*"}}
		seen := b.reboot()
		b.become("web-01", "web-02", "web-03", "web-04")
		for what, c := range map[string]struct {
			who    person
			change func(q *api.HoldAddRequest)
			code   api.Code
			want   string
		}{
			"others were seen":       {ann, func(q *api.HoldAddRequest) { q.Hash = seen.Hash }, api.CodeConflict, "the target selects other peels than it did before: 4 now"},
			"no peel":                {ann, func(q *api.HoldAddRequest) { q.Target = "db-*" }, api.CodeConflict, "the target selects no peel now"},
			"no target":              {ann, func(q *api.HoldAddRequest) { q.Target = "web-* and (" }, api.CodeInvalid, "web-* and ("},
			"not allowed to the one": {b.limited("lee"), func(*api.HoldAddRequest) {}, api.CodeForbidden, "the function cmd.run is none of"},
			"not valid":              {ann, func(q *api.HoldAddRequest) { q.Reason = "" }, api.CodeInvalid, "cannot read the request: reason is missing"},
		} {
			q := b.reboot()
			c.change(&q)
			_, err := ask[api.HoldAction](c.who, "add", q)
			refused(t, err, c.code, c.want)
			if t.Failed() {
				t.Fatal(what)
			}
		}
		_, err := ask[api.HoldAction](ann, "add", strings.Repeat("x", 65<<10))
		refused(t, err, api.CodeInvalid, "the limit is 65536")
		for _, verb := range []string{"show", "approve", "reject"} {
			for id, want := range map[api.HoldID]string{"*": "is not the ID of a held action", "": "is not the ID of a held action", api.HoldID(wire.NewJID()): "there is no held action"} {
				if _, err := ask[api.HoldAction](ann, verb, api.HoldRequest{ID: id}); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s %q: %v", verb, id, err)
				}
			}
		}
		if got := ann.list(api.HoldQuery{All: true}); len(got) != 0 {
			t.Errorf("stored were %v", got)
		}
	})
}

func TestNobodyGetsRightsByAnAction(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		a := b.operator("ann").add(b.reboot())
		b.limits["bob"] = grants.Limits{Functions: []string{"test.*"}}
		_, err := b.operator("bob").approve(a.ID)
		refused(t, err, api.CodeForbidden, "the function cmd.run is none of")
		b.revoked["ann"] = true
		_, err = b.operator("cyd").approve(a.ID)
		refused(t, err, api.CodeForbidden, "was asked for in the name of ann: not allowed: ann was revoked")
		b.revoked["ann"] = false
		if s := b.operator("cyd").show(a.ID); s.State != api.HoldOpen {
			t.Errorf("shown %+v", s)
		}
		// A master asks in the name of a token for a program with that token.
		tokens, err := token.Open(t.Context(), b.js)
		if err == nil {
			_, hash := credential.NewSecret("ci")
			_, err = tokens.Create(t.Context(), credential.TokenRequest{Name: "ci", Hash: hash, Scopes: []credential.Scope{credential.ScopeAdmin}}, "ann")
		}
		if err != nil {
			t.Fatal(err)
		}
		master := person{b, grants.RoleMaster, "token:ci"}
		b.conns["token:ci"] = b.bus.Conn(t, grants.RoleMaster, "m3")
		_, err = master.approve(a.ID)
		refused(t, err, api.CodeForbidden, "a token approves nothing")
	})
}

func TestWhoSeesWhat(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		lee, eve := b.limited("lee"), person{b, grants.RoleAuditor, "eve"}
		of := map[string]api.HoldID{}
		for _, p := range []person{b.operator("ann"), lee} {
			of[p.name] = p.add(b.reboot()).ID
			time.Sleep(time.Second)
		}
		for _, p := range []person{b.operator("bob"), eve, {b, grants.RoleDirect, "dan"}} {
			if got := p.list(api.HoldQuery{}); !slices.Equal(got, []api.HoldID{of["lee"], of["ann"]}) {
				t.Errorf("%s lists %v", p.name, got)
			}
			p.show(of["lee"])
		}
		if got := b.operator("bob").list(api.HoldQuery{Cursor: of["lee"]}); !slices.Equal(got, []api.HoldID{of["ann"]}) {
			t.Errorf("the next page has %v", got)
		}
		if got := lee.list(api.HoldQuery{}); !slices.Equal(got, []api.HoldID{of["lee"]}) {
			t.Errorf("lee lists %v", got)
		}
		lee.show(of["lee"])
		for _, verb := range []string{"show", "reject"} {
			_, err := ask[api.HoldShown](lee, verb, api.HoldRequest{ID: of["ann"]})
			refused(t, err, api.CodeNotFound, "there is no held action")
		}
		if _, err := ask[api.HoldAction](lee, "reject", api.HoldRequest{ID: of["lee"]}); err != nil {
			t.Error(err)
		}
	})
}

func TestAUserHasSoManyOpenActionsAndNoMore(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		ann := b.operator("ann")
		for kept := 0; kept < api.HoldMaxKeptUser; {
			var ids []api.HoldID
			for range api.HoldMaxOpenUser {
				ids = append(ids, ann.add(b.numbered(kept)).ID)
				kept++
			}
			_, err := ask[api.HoldAction](ann, "add", b.reboot())
			if kept < api.HoldMaxKeptUser {
				refused(t, err, api.CodeConflict, "50 actions of ann wait for a person, and no more may")
			}
			for _, id := range ids {
				if _, err := ask[api.HoldAction](ann, "reject", api.HoldRequest{ID: id}); err != nil {
					t.Fatal(err)
				}
			}
		}
		_, err := ask[api.HoldAction](ann, "add", b.reboot())
		refused(t, err, api.CodeConflict, "200 actions were asked for in the name of ann in the last 7 days")
		b.operator("bob").add(b.reboot())
		stream, err := b.js.Stream(t.Context(), "KV_held")
		if err != nil || stream.CachedInfo().Config.MaxAge != 7*24*time.Hour {
			t.Errorf("%+v, %v", stream, err)
		}
	})
}

// An action of a newer version may be open.
func TestAnOpenActionThatCannotBeReadTakesRoom(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		ann := b.operator("ann")
		var last api.HoldID
		for i := range api.HoldMaxOpenUser {
			last = ann.add(b.numbered(i)).ID
		}
		kv, err := b.js.KeyValue(t.Context(), "held")
		if err == nil {
			_, err = kv.Put(t.Context(), "action."+string(last), []byte("newer"))
		}
		if err != nil {
			t.Fatal(err)
		}
		_, err = ask[api.HoldAction](ann, "add", b.reboot())
		refused(t, err, api.CodeConflict, "50 actions of ann wait for a person, and no more may")
	})
}

func TestThereAreSoManyOpenActionsAndNoMore(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		kv, err := b.js.KeyValue(t.Context(), "held")
		if err != nil {
			t.Fatal(err)
		}
		all := map[api.HoldID]bool{}
		for i := range api.HoldMaxOpen {
			a := api.HoldAction{ID: api.HoldID(wire.NewJID()), HoldAddRequest: b.numbered(i), By: fmt.Sprintf("u%d", i/api.HoldMaxOpenUser), State: api.HoldOpen, Expires: time.Now().Add(api.HoldLifetime)}
			data, err := canon.Marshal(a)
			if err == nil {
				_, err = kv.Create(t.Context(), "action."+string(a.ID), data)
			}
			if err != nil {
				t.Fatal(err)
			}
			all[a.ID] = true
		}
		ann, listed := b.operator("ann"), map[api.HoldID]bool{}
		_, err = ask[api.HoldAction](ann, "add", b.reboot())
		refused(t, err, api.CodeConflict, "1000 actions wait for a person, and no more may")
		for q := (api.HoldQuery{}); ; {
			ids := ann.list(q)
			if len(ids) == 0 {
				break
			}
			for _, id := range ids {
				if q.Cursor != "" && id >= q.Cursor {
					t.Fatalf("%s comes after %s", id, q.Cursor)
				}
				listed[id], q.Cursor = true, id
			}
		}
		if !maps.Equal(listed, all) {
			t.Errorf("listed are %d", len(listed))
		}
		if _, err := ask[api.HoldAction](ann, "reject", api.HoldRequest{ID: slices.Collect(maps.Keys(all))[0]}); err != nil {
			t.Fatal(err)
		}
		ann.add(b.reboot())
	})
}

func TestTheNamesOfTooManyPeelsAreNotKept(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		var fleet []target.PeelID
		for i := range 5000 {
			fleet = append(fleet, target.PeelID(fmt.Sprintf("web-%060d", i)))
		}
		b.become(fleet...)
		ann := b.operator("ann")
		a := ann.add(b.reboot())
		if s := ann.show(a.ID); s.Peels != 5000 || len(s.Names) != 0 {
			t.Errorf("%d peels, %d names", s.Peels, len(s.Names))
		}
		b.become(fleet[1:]...)
		_, err := ann.approve(a.ID)
		refused(t, err, api.CodeConflict, "4999 now")
		b.become(fleet...)
		if _, err := ann.approve(a.ID); err != nil {
			t.Error(err)
		}
	})
}

// The store refuses the names of the peels, which are longer than a message may be, and would take the action.
func TestNoActionIsStoredWithoutTheNamesOfItsPeels(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		var fleet []target.PeelID
		for i := range 100 {
			fleet = append(fleet, target.PeelID(fmt.Sprintf("web-%060d", i)))
		}
		b.become(fleet...)
		stream, err := b.js.Stream(t.Context(), "KV_held")
		if err != nil {
			t.Fatal(err)
		}
		config := stream.CachedInfo().Config
		config.MaxMsgSize = 2000
		if _, err := b.js.UpdateStream(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		ann := b.operator("ann")
		_, err = ask[api.HoldAction](ann, "add", b.reboot())
		refused(t, err, api.CodeUnavailable, "the peels of the held action")
		if ids := ann.list(api.HoldQuery{}); len(ids) != 0 {
			t.Errorf("the actions %v are stored", ids)
		}
		b.become(fleet[:1]...)
		ann.add(b.reboot())
	})
}

func TestAnErrorOfTheStoreIsNotAbsence(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		ann := b.operator("ann")
		a := ann.add(b.reboot())
		if err := b.js.DeleteStream(t.Context(), "KV_held"); err != nil {
			t.Fatal(err)
		}
		for verb, q := range map[string]any{"list": api.HoldQuery{}, "show": api.HoldRequest{ID: a.ID}, "approve": api.HoldRequest{ID: a.ID}, "reject": api.HoldRequest{ID: a.ID}, "add": b.reboot()} {
			_, err := ask[api.HoldShown](ann, verb, q)
			refused(t, err, api.CodeUnavailable, "held action")
		}
	})
}

func TestARepeatedRequestMakesOneAction(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		ann, bob := b.operator("ann"), b.operator("bob")
		first := ann.add(b.reboot())
		time.Sleep(time.Minute)
		if again := ann.add(b.reboot()); again.ID != first.ID || !again.Expires.Equal(first.Expires) {
			t.Errorf("asked for again: %+v", again)
		}
		others := map[api.HoldID]bool{first.ID: true, bob.add(b.reboot()).ID: true, ann.add(b.numbered(1)).ID: true}
		if _, err := ask[api.HoldAction](bob, "reject", api.HoldRequest{ID: first.ID}); err != nil {
			t.Fatal(err)
		}
		others[ann.add(b.reboot()).ID] = true
		time.Sleep(api.HoldLifetime)
		others[ann.add(b.reboot()).ID] = true
		if len(others) != 5 {
			t.Errorf("%d actions: another user, another reason, and after the end of the first are others", len(others))
		}
	})
}

func TestTheAuditLogHasEachRequest(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		ann, bob := b.operator("ann"), b.operator("bob")
		a := ann.add(b.reboot())
		approved, err := bob.approve(a.ID)
		if err != nil {
			t.Fatal(err)
		}
		_, err = ask[api.HoldAction](ann, "reject", api.HoldRequest{ID: a.ID})
		refused(t, err, api.CodeConflict, "was approved by bob")
		q := b.reboot()
		q.Hash = audit.PeelsHash(nil)
		_, err = ask[api.HoldAction](ann, "add", q)
		refused(t, err, api.CodeConflict, "")
		page, err := audit.OpenLog(b.js, nil).List(t.Context(), audit.Query{Action: "hold", Follow: true})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range page.Entries {
			got = append(got, fmt.Sprintf("%s %s %s %s %s %s %d %v %s %s", e.Action, e.User, e.Agent, e.Result, e.Function, e.Args, e.Count, e.PeelsHash == a.Hash, cmp.Or(string(e.JID), "-"), strings.ReplaceAll(cmp.Or(e.Held, "-"), string(a.ID), "a")))
		}
		want := []string{
			`hold.add ann helper 1.2 done cmd.run command="reboot" 3 true - a`,
			`hold.approve bob helper 1.2 done cmd.run command="reboot" 3 true ` + string(approved.JID) + " a",
			`hold.reject ann helper 1.2 refused cmd.run command="reboot" 0 false ` + string(approved.JID) + " a",
			`hold.add ann helper 1.2 refused cmd.run command="reboot" 0 false - -`,
		}
		if !slices.Equal(got, want) {
			t.Errorf("the log has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}
