package master_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/access"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/service"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/status"
)

// An intruder sends raw messages with the credential of a role.
type intruder struct {
	p       *pair
	role    grants.Role
	name    string
	nc      *nats.Conn
	refused atomic.Int64 // messages that the bus did not carry
	sent    int
}

// intruder connects. The bus's refusals are counted.
func (p *pair) intruder(role grants.Role, name string) *intruder {
	p.t.Helper()
	in := &intruder{p: p, role: role, name: name}
	count := nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		if errors.Is(err, nats.ErrPermissionViolation) {
			in.refused.Add(1)
		}
	})
	in.nc = p.bus.Conn(p.t, role, name, count)
	return in
}

// forged are headers by which a sender could say to be somebody else, to be a master, or to send again.
func forged(id api.HoldID) []nats.Header {
	bob := grants.Caller{User: "bob", Role: grants.RoleOperator, Via: grants.ViaConsole}.Header()
	bob.Set(service.HeldHeader, string(id))
	return []nats.Header{{}, {"Nats-Msg-Id": {"once"}}, bob}
}

// send sends a message with each header of [forged] twice. Under its own name it waits for the replies, each of which must
// be a refusal.
func (in *intruder) send(subject string, id api.HoldID, data []byte) {
	in.p.t.Helper()
	for _, header := range forged(id) {
		for range 2 {
			in.sent++
			m := &nats.Msg{Subject: subject, Header: header, Data: data, Reply: in.nc.NewInbox()}
			if !strings.HasSuffix(subject, "."+in.name) {
				if err := in.nc.PublishMsg(m); err != nil {
					in.p.t.Fatal(err)
				}
				continue
			}
			reply, err := in.nc.RequestMsg(m, 3*time.Second)
			if err == nil && api.ReplyError(reply) == nil {
				in.p.t.Errorf("%s %s, header %v: %s is carried out: %s", in.role, in.name, header, subject, reply.Data)
			}
		}
	}
}

// try sends everything that could decide an action, as the own name and as others.
func (in *intruder) try(a *api.HoldAction) {
	in.p.t.Helper()
	id, bare := a.ID, in.p.encoded(api.HoldRequest{ID: a.ID})
	said := in.p.encoded(map[string]any{
		"id": id, "by": "bob", "by_role": "operator", "user": "bob", "decided_by": "bob", "state": "approved",
	})
	for _, name := range []string{in.name, "ann", "bob", "root", credential.LocalUser} {
		in.send(wire.API("hold", "approve", name), id, bare)
		in.send(wire.API("hold", "approve", name), id, said)
		if in.role.IsNarrow() || name != in.name { // others may withdraw it: they see all
			in.send(wire.API("hold", "reject", name), id, bare)
		}
		in.begin(a, name)
	}
}

// begin sends the request of an action as a person, without an approval.
func (in *intruder) begin(a *api.HoldAction, name string) {
	in.p.t.Helper()
	if a.IsJob() {
		spec := a.Spec()
		spec.JID, spec.Targets = wire.NewJID(), both().Targets
		in.send(wire.Dispatch(name), a.ID, in.p.encoded(spec))
		return
	}
	noun, verb, _ := strings.Cut(a.Verb, ".")
	in.send(wire.API(noun, verb, name), a.ID, a.Data)
}

// encoded is a payload.
func (p *pair) encoded(v any) []byte {
	p.t.Helper()
	data, err := canon.Marshal(v)
	if err != nil {
		p.t.Fatal(err)
	}
	return data
}

// approvals has a service approve revisions for the reconciler, by the kit of all services, and returns how often it did.
func (p *pair) approvals() *atomic.Int64 {
	p.t.Helper()
	done := new(atomic.Int64)
	approve := func(context.Context, *service.Call, status.ApproveRequest) (*status.Sync, error) {
		done.Add(1)
		return &status.Sync{}, nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() {
		_ = service.Serve(ctx, service.Options{
			Conn: p.bus.Conn(p.t, grants.RoleMaster, "leader"), Lane: service.NewLane(1, 9),
			Record: audit.OpenLog(p.js, slog.New(slog.DiscardHandler)).Write,
			Verbs:  []service.Verb{service.On(api.SyncApprove, approve)},
		})
	})
	p.t.Cleanup(func() { cancel(); serving.Wait() })
	time.Sleep(time.Second)
	return done
}

// member adds a person that ann makes. The only role of the person decides about actions and revisions.
func (p *pair) member(name string) {
	p.t.Helper()
	verbs := []string{"hold.approve", "hold.reject", "hold.show", "sync.approve"}
	role := credential.Role{Role: access.Role{Name: "deciders", Allow: []access.Actions{{Verbs: verbs}}}}
	if err := p.auth.Users.Store.SetRole(p.t.Context(), role); err != nil {
		p.t.Fatal(err)
	}
	p.made(credential.UserRequest{Name: name, Role: grants.RoleMember, Roles: []string{"deciders"}})
}

// made adds a person that ann makes.
func (p *pair) made(q credential.UserRequest) {
	p.t.Helper()
	key, err := credential.MakeKey()
	if err != nil {
		p.t.Fatal(err)
	}
	q.Public = key.Public()
	if _, _, err := p.auth.Users.Add(p.t.Context(), q, "ann"); err != nil {
		p.t.Fatal(err)
	}
}

// asked are a job, a token and an approval that wait for a second person, asked for by ann.
func (p *pair) asked(ann *api.Client) (actions []*api.HoldAction) {
	p.t.Helper()
	_, _, errToken := ann.TokenCreate(p.t.Context(), credential.TokenRequest{Name: "ci", Scopes: []credential.Scope{credential.ScopeRead}})
	_, errSync := api.SyncApprove.Ask(p.t.Context(), ann, status.ApproveRequest{Hash: "c0ffee"})
	for _, err := range []error{errToken, errSync} {
		if _, ok := api.HeldAs(err); !ok {
			p.t.Fatal(err)
		}
	}
	token, _ := api.HeldAs(errToken)
	revision, _ := api.HeldAs(errSync)
	for _, id := range []api.HoldID{p.waits(ann, both()), token, revision} {
		actions = append(actions, p.shown(id))
	}
	return actions
}

func (p *pair) shown(id api.HoldID) *api.HoldAction {
	p.t.Helper()
	a, err := api.HoldShow.Ask(p.t.Context(), p.people("root"), api.HoldRequest{ID: id})
	if err != nil {
		p.t.Fatal(err)
	}
	return &a.HoldAction
}

// decisions returns the entries of the audit log about what decides an action, as "USER ACTION RESULT", without repetition.
func (p *pair) decisions() (entries []string) {
	p.t.Helper()
	root := p.people("root")
	for before := uint64(0); ; {
		page, err := api.AuditList.Ask(p.t.Context(), root, audit.Query{Limit: 500, Before: before})
		if err != nil {
			p.t.Fatal(err)
		}
		for _, e := range page.Entries {
			if slices.Contains([]string{"hold.approve", "hold.reject", "sync.approve", "token.create", "job.dispatch"}, e.Action) {
				entries = append(entries, fmt.Sprintf("%s %s %s", e.User, e.Action, e.Result))
			}
		}
		if before = page.Next; len(page.Entries) == 0 || before == 0 {
			slices.Sort(entries)
			return slices.Compact(entries)
		}
	}
}

// TestNoProgramOfOthersDecidesBeyondTheRules has programs with the credential of each role decide actions by raw messages.
// ann asked for the actions, and made the operator, the direct one and the member.
func TestNoProgramOfOthersDecidesBeyondTheRules(t *testing.T) {
	atPair(t, func(t *testing.T, p *pair) {
		ann, bob := p.madeBy("root", "ann", grants.Limits{}), p.madeBy("root", "bob", grants.Limits{})
		approved := p.approvals()
		p.made(credential.UserRequest{Name: "child", Role: grants.RoleOperator})
		p.made(credential.UserRequest{Name: "dan", Role: grants.RoleDirect})
		p.made(credential.UserRequest{Name: "lee", Role: grants.RoleOperator, Limits: grants.Limits{Target: "web-*"}})
		p.member("mia")
		time.Sleep(time.Second)
		actions := p.asked(ann)
		before := p.decisions()

		for role, name := range map[grants.Role]string{
			grants.RoleOperator: "child", grants.RoleDirect: "dan", grants.RoleLimited: "lee", grants.RoleMember: "mia",
			grants.RoleAuditor: "eve", grants.RoleObserver: "prom", grants.RolePeel: "web-09",
		} {
			in := p.intruder(role, name)
			for _, a := range actions {
				in.try(a)
			}
			time.Sleep(time.Second)
			if n := in.refused.Load(); n < int64(in.sent)*3/4 {
				t.Errorf("%s: the bus refused %d of %d messages, most of which name somebody else", role, n, in.sent)
			}
		}

		p.siteIsNoClient()

		// Who may approve the actions has not.
		p.madeBy("root", "gus", grants.Limits{})
		gus := p.intruder(grants.RoleOperator, "gus")
		for _, a := range actions {
			gus.begin(a, "gus")
		}

		for _, a := range actions {
			if now := p.shown(a.ID); now.State != api.HoldOpen || now.DecidedBy != "" || !now.Begun.IsZero() {
				t.Errorf("%s is %+v", a.Verb, now)
			}
		}
		tokens, err := api.TokenList.Ask(t.Context(), ann, api.NamesRequest{})
		if n := p.ran(); err != nil || len(tokens.Tokens) != 0 || n != 0 || approved.Load() != 0 {
			t.Errorf("%d jobs, %d approvals, the tokens %+v, %v", n, approved.Load(), tokens, err)
		}
		p.checkDecisions(before)

		// A person who may decide the actions decides them.
		for _, a := range actions {
			if _, err := p.approve(bob, a.ID, nil); err != nil {
				t.Errorf("bob approves %s: %v", a.Verb, err)
			}
		}
		if n := p.ran(); n != 1 || approved.Load() != 1 {
			t.Errorf("%d jobs and %d approvals after bob's", n, approved.Load())
		}
	})
}

// siteIsNoClient holds that a program cannot connect with the credential of a site. TestASitesServerReachesNobodyElse has a
// server of a site send what decides.
func (p *pair) siteIsNoClient() {
	p.t.Helper()
	key, err := credential.MakeKey()
	if err != nil {
		p.t.Fatal(err)
	}
	sign := func() (string, error) { return p.bus.Keys.IssueSite("berlin", key.Public(), both().Targets, 0) }
	options := append(p.bus.Options(grants.RoleObserver, "berlin"), nats.UserJWT(sign, key.Sign))
	nc, err := nats.Connect(p.bus.URL(), options...)
	if err == nil { // within one process the server closes the pipe before it says why
		nc.Close()
		p.t.Error("a program connects with the credential of a site")
	}
}

// checkDecisions fails unless the audit log names who really asked, and each was refused or waits. Of the refusals of one
// person it keeps the first 20.
func (p *pair) checkDecisions(before []string) {
	p.t.Helper()
	got := slices.DeleteFunc(p.decisions(), func(e string) bool { return slices.Contains(before, e) })
	for _, want := range []string{
		"child hold.approve refused", "dan hold.approve refused", "mia hold.approve refused", "lee hold.reject refused",
		"child sync.approve asked", "dan sync.approve asked", "mia sync.approve asked",
		"gus token.create refused", "gus sync.approve refused", "gus job.dispatch refused",
	} {
		if !slices.Contains(got, want) {
			p.t.Errorf("the audit log lacks %q: %q", want, got)
		}
	}
	for _, e := range got {
		f := strings.Fields(e)
		waits := f[2] == string(audit.Asked) && f[1] != "hold.approve" && f[1] != "hold.reject"
		if !slices.Contains([]string{"child", "dan", "lee", "mia", "gus"}, f[0]) || f[2] != string(audit.Refused) && !waits {
			p.t.Errorf("the audit log has %q", e)
		}
	}
}

// TestARevokedPersonDecidesNothingOverAnOpenConnection: the server of the test takes no revocations, so masters refuse by
// themselves.
func TestARevokedPersonDecidesNothingOverAnOpenConnection(t *testing.T) {
	atPair(t, func(t *testing.T, p *pair) {
		ann := p.madeBy("root", "ann", grants.Limits{})
		gus := p.madeBy("root", "gus", grants.Limits{})
		approved := p.approvals()
		actions := p.asked(ann)
		in := p.intruder(grants.RoleOperator, "gus")
		if _, err := api.HoldShow.Ask(t.Context(), gus, api.HoldRequest{ID: actions[0].ID}); err != nil {
			t.Fatal("before the revocation:", err)
		}
		_, err := api.UserRevoke.Ask(t.Context(), p.people(credential.LocalUser), api.RevokeRequest{Name: "gus"})
		if err != nil && !strings.Contains(err.Error(), "gus is revoked") { // the bus of the test takes no pushes
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		for _, a := range actions {
			in.try(a)
			in.send(wire.API("hold", "reject", "gus"), a.ID, p.encoded(api.HoldRequest{ID: a.ID}))
			if now := p.shown(a.ID); now.State != api.HoldOpen {
				t.Errorf("%s is %s by %s", a.Verb, now.State, now.DecidedBy)
			}
		}
		if n := p.ran(); n != 0 || approved.Load() != 0 {
			t.Errorf("%d jobs and %d approvals", n, approved.Load())
		}
		for _, e := range p.decisions() {
			if strings.HasPrefix(e, "gus ") && !strings.HasSuffix(e, " refused") {
				t.Errorf("the audit log has %q", e)
			}
		}
	})
}

// TestTheSameMessageTwiceBeginsOnce has who may approve send each message twice at a time with one Nats-Msg-Id.
func TestTheSameMessageTwiceBeginsOnce(t *testing.T) {
	atPair(t, func(t *testing.T, p *pair) {
		ann := p.madeBy("root", "ann", grants.Limits{})
		p.madeBy("root", "bob", grants.Limits{})
		approved := p.approvals()
		raw := p.intruder(grants.RoleOperator, "bob")
		for _, a := range p.asked(ann) {
			data := p.encoded(api.HoldRequest{ID: a.ID})
			var carried atomic.Int64
			var all sync.WaitGroup
			for range 2 {
				all.Go(func() {
					m := &nats.Msg{Subject: wire.API("hold", "approve", "bob"), Header: nats.Header{"Nats-Msg-Id": {"once"}}, Data: data}
					reply, err := raw.nc.RequestMsg(m, 20*time.Second)
					if err == nil {
						err = api.ReplyError(reply)
					}
					if err == nil {
						carried.Add(1)
					} else {
						t.Logf("%s: %v", a.Verb, err)
					}
				})
			}
			all.Wait()
			if n := carried.Load(); n < 1 || n > 1 && !a.IsJob() { // the approval of a job may be repeated until it is dispatched
				t.Errorf("%s: %d of 2 approvals were carried out", a.Verb, n)
			}
			if a.IsJob() {
				p.dispatchTwice(raw, p.shown(a.ID))
			}
		}
		list, err := api.TokenList.Ask(t.Context(), ann, api.NamesRequest{})
		if n := p.ran(); err != nil || n != 1 || approved.Load() != 1 || len(list.Tokens) != 1 {
			t.Errorf("%d jobs, %d approvals and the tokens %+v, %v", n, approved.Load(), list, err)
		}
	})
}

// dispatchTwice sends the job of an approved action twice at a time.
func (p *pair) dispatchTwice(by *intruder, a *api.HoldAction) {
	p.t.Helper()
	spec := a.Spec()
	spec.Targets = both().Targets
	data := p.encoded(spec)
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			m := &nats.Msg{Subject: wire.Dispatch(by.name), Header: nats.Header{"Nats-Msg-Id": {"once"}}, Data: data}
			_, _ = by.nc.RequestMsg(m, 20*time.Second)
		})
	}
	all.Wait()
	if j := p.record(a.JID); j.User != by.name || j.Metadata[job.MetaAskedBy] != "ann" {
		p.t.Errorf("the job is %+v", j)
	}
}
