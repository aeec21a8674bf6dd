package master_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master"
	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/service"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// twoPersons is a role with rules about two persons: jobs on more than one of the peels web-*, and new tokens.
const twoPersons = `two_persons:
  - {verbs: [job.dispatch], target: web-*, peels: "> 1"}
  - {verbs: ["token.*", sync.approve]}
`

// A pair is a fleet of two masters with rules about two persons.
type pair struct {
	*site
	t       *testing.T
	masters []*process
	auth    *auth.Authority
}

// atPair runs f at two masters with keys, three peels and the rules of [twoPersons].
func atPair(t *testing.T, f func(t *testing.T, p *pair)) {
	atSite(t, func(t *testing.T, s *site) {
		p := &pair{site: s, t: t}
		for _, name := range []string{"m1", "m2"} {
			dir := filepath.Join(s.dir, name)
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(s.bus.Keys.Dir(), keystore.Dir(dir)); err != nil {
				t.Fatal(err)
			}
			p.masters = append(p.masters, s.master(name, func(o *master.Options) {
				o.Connect = append(s.bus.Options(grants.RoleMaster, name), nats.InProcessServer(s.bus)) // also of the keys
			}))
		}
		s.peels("web-01", "web-02", "db-01")
		var err error
		if p.auth, err = auth.NewAuthority(t.Context(), auth.AuthorityOptions{Keys: s.bus.Keys, JetStream: s.js, Update: s.bus.Update}); err != nil {
			t.Fatal(err)
		}
		if _, err := api.RoleSet.Ask(t.Context(), s.people("root"), credential.RoleRequest{Name: "four-eyes", Text: twoPersons}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		f(t, p)
	})
}

// madeBy makes a person in the name of another one, and returns the person's client.
func (p *pair) madeBy(by, name string, limits grants.Limits) *api.Client {
	p.t.Helper()
	key, err := credential.MakeKey()
	if err != nil {
		p.t.Fatal(err)
	}
	q := credential.UserRequest{Name: name, Role: grants.RoleOperator, Limits: limits, Public: key.Public()}
	token, u, err := p.auth.Users.Add(p.t.Context(), q, by)
	if err != nil {
		p.t.Fatal(err)
	}
	creds, err := key.Creds(token)
	if err != nil {
		p.t.Fatal(err)
	}
	c, err := api.Connect(api.ClientOptions{URL: p.bus.URL(), Creds: creds, Connect: []nats.Option{
		nats.InProcessServer(p.bus), nats.CustomInboxPrefix(u.Role.Inbox(name)),
	}})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(c.Close)
	return c
}

// both is a job on the two peels web-*.
func both() job.Spec {
	return job.Spec{
		JID: wire.NewJID(), Function: "test.ping", TargetExpr: "web-*", Targets: []target.PeelID{"web-01", "web-02"},
		Timeout: time.Minute, Batch: &job.Batch{Size: 1},
	}
}

// waits asks for a job that needs two persons, and returns its action.
func (p *pair) waits(by *api.Client, spec job.Spec) api.HoldID {
	p.t.Helper()
	_, err := api.JobDispatch.Ask(p.t.Context(), by, spec)
	id, ok := api.HeldAs(err)
	if !ok {
		p.t.Fatalf("%s runs the job on both: %v", by.User(), err)
	}
	return id
}

// approve approves an action as a person, and dispatches its job as the command line does.
func (p *pair) approve(by *api.Client, id api.HoldID, change func(*job.Spec)) (*api.HoldAction, error) {
	p.t.Helper()
	a, err := api.HoldApprove.Ask(p.t.Context(), by, api.HoldRequest{ID: id})
	if err != nil || !a.IsJob() {
		return a, err
	}
	spec := a.Spec()
	spec.Targets = both().Targets
	if change != nil {
		change(&spec)
	}
	_, err = api.JobDispatch.Ask(p.t.Context(), by, spec)
	return a, err
}

// ran returns how many jobs there are.
func (p *pair) ran() int {
	p.t.Helper()
	page, err := p.store.List(p.t.Context(), job.Query{})
	if err != nil {
		p.t.Fatal(err)
	}
	return len(page.Jobs)
}

// refusedFor fails unless an error has a code and a text.
func refusedFor(t *testing.T, what string, err error, code api.Code, text string) {
	t.Helper()
	if api.CodeOf(err) != code || !strings.Contains(err.Error(), text) {
		t.Errorf("%s: %v (%s), want %s %q", what, err, api.CodeOf(err), code, text)
	}
}

func TestAJobOnManyPeelsWaitsForASecondPerson(t *testing.T) {
	atPair(t, func(t *testing.T, p *pair) {
		ann, bob := p.madeBy("root", "ann", grants.Limits{}), p.madeBy("root", "bob", grants.Limits{})
		lee := p.madeBy("root", "lee", grants.Limits{Target: "web-01"})
		child := p.madeBy("ann", "child", grants.Limits{})
		grandchild := p.madeBy("child", "grandchild", grants.Limits{})
		one := both()
		one.TargetExpr, one.Targets = "web-01", one.Targets[:1]
		if _, err := api.JobDispatch.Ask(t.Context(), ann, one); err != nil {
			t.Fatal("a job on one peel needs no second person:", err)
		}
		spec := both()
		id := p.waits(ann, spec)
		if again := p.waits(ann, spec); again != id {
			t.Errorf("the repeated request waits as %s too", again)
		}
		for what, c := range map[string]struct {
			by   *api.Client
			text string
		}{
			"the first": {ann, "they are the same"}, "whom the first made": {child, "ann made child"},
			"whom the first made through another": {grandchild, "ann made grandchild"}, "who may not see both": {lee, ""},
			"who made the first": {p.people("root"), "root made ann"},
		} {
			_, err := p.approve(c.by, id, nil)
			if err == nil || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%s approves it: %v", what, err)
			}
		}
		if n := p.ran(); n != 1 {
			t.Fatalf("%d jobs ran", n)
		}
		for what, change := range map[string]func(*job.Spec){
			"another function": func(s *job.Spec) { s.Function = "test.echo" },
			"all at once":      func(s *job.Spec) { s.Batch = nil },
			"another peel":     func(s *job.Spec) { s.Targets = []target.PeelID{"db-01", "web-01"} },
		} {
			_, err := p.approve(bob, id, change)
			refusedFor(t, what, err, api.CodeForbidden, "")
		}
		a, err := p.approve(bob, id, nil)
		if err != nil {
			t.Fatal(err)
		}
		j := p.record(a.JID)
		if j.User != "bob" || j.Metadata[job.MetaAskedBy] != "ann" || j.Metadata[job.MetaHeld] != string(id) || j.Batch == nil {
			t.Errorf("the job is %+v", j)
		}
		time.Sleep(time.Minute)
		if j := p.record(a.JID); j.Status != job.Complete {
			t.Errorf("the job is %s", j.Status)
		}
		p.checkAudit(id, "job.dispatch ann asked", "hold.approve bob done", "job.dispatch bob done")
	})
}

// TestAuthCanSaysWhatWaits compares what auth can says about random jobs with what masters do with them.
func TestAuthCanSaysWhatWaits(t *testing.T) {
	atPair(t, func(t *testing.T, p *pair) {
		people := map[string]*api.Client{
			"ann": p.madeBy("root", "ann", grants.Limits{}), "lee": p.madeBy("root", "lee", grants.Limits{Target: "web-*"}),
			"kim": p.madeBy("root", "kim", grants.Limits{Functions: []string{"test.*"}}),
		}
		root, random, waited := p.people("root"), rand.New(rand.NewPCG(3, 4)), 0
		for range 60 {
			name := []string{"ann", "lee", "kim"}[random.IntN(3)]
			expr := []string{"web-01", "web-*", "db-01", "*"}[random.IntN(4)]
			q := api.AccessRequest{Name: name, Verb: "job.dispatch", Target: expr, Function: "test.ping"}
			if random.IntN(2) == 0 {
				q.Function, q.Args = "cmd.run", map[string]any{"command": "true"}
			}
			on, err := people[name].Resolve(t.Context(), expr)
			if err != nil {
				t.Fatal(err)
			}
			if on.Total == 0 {
				continue
			}
			a, err := api.UserExplain.Ask(t.Context(), root, q)
			if err != nil {
				t.Fatal(err)
			}
			_, err = api.JobDispatch.Ask(t.Context(), people[name], job.Spec{
				JID: wire.NewJID(), Function: q.Function, Args: q.Args, TargetExpr: expr, Targets: on.Peels, Timeout: time.Minute,
			})
			_, waits := api.HeldAs(err)
			refused := api.CodeOf(err) == api.CodeForbidden
			if refused == a.Allowed || !refused && waits != (a.Second != "") || err != nil && !refused && !waits {
				t.Fatalf("%+v: %+v, and the dispatch ended with %v", q, a, err)
			}
			if waits {
				waited++
			}
		}
		if waited < 5 || waited > 55 {
			t.Errorf("%d of 60 waited: the cases are of one kind", waited)
		}
	})
}

// checkAudit fails unless the audit log has entries of an action, as "ACTION USER RESULT".
func (p *pair) checkAudit(id api.HoldID, want ...string) {
	p.t.Helper()
	page, err := api.AuditList.Ask(p.t.Context(), p.people("root"), audit.Query{Limit: 500})
	if err != nil {
		p.t.Fatal(err)
	}
	var got []string
	for _, e := range page.Entries {
		if e.Held == string(id) {
			got = append(got, fmt.Sprintf("%s %s %s", e.Action, e.User, e.Result))
		}
	}
	for _, line := range want {
		if !slices.Contains(got, line) {
			p.t.Errorf("the audit log has %q, want %q", got, line)
		}
	}
}

func TestWhatChangesBeforeTheSecondPersonDecides(t *testing.T) {
	atPair(t, func(t *testing.T, p *pair) {
		bob := p.madeBy("root", "bob", grants.Limits{})
		n := 0
		asks := func() (name string, id api.HoldID) {
			n++
			name = fmt.Sprintf("first%d", n)
			return name, p.waits(p.madeBy("root", name, grants.Limits{}), both())
		}
		local := p.people(credential.LocalUser)
		revoke := func(name string) {
			_, err := api.UserRevoke.Ask(t.Context(), local, api.RevokeRequest{Name: name})
			if err != nil && !strings.Contains(err.Error(), name+" is revoked") { // the bus of the test takes no pushes
				t.Fatal(err)
			}
		}
		name, id := asks()
		revoke(name)
		_, err := p.approve(bob, id, nil)
		refusedFor(t, "the first was revoked before", err, api.CodeForbidden, "was revoked")

		name, id = asks()
		_, err = p.approve(bob, id, func(*job.Spec) { revoke(name) })
		refusedFor(t, "the first was revoked between approval and dispatch", err, api.CodeForbidden, "was revoked")

		deny := func(name string) {
			role := credential.RoleRequest{
				Name: "no-web-for-" + name, Text: "people: [" + name + "]\ndeny: [{verbs: [job.dispatch], target: web-02}]",
			}
			if _, err := api.RoleSet.Ask(t.Context(), local, role); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		name, id = asks()
		_, err = p.approve(bob, id, func(*job.Spec) { deny(name) })
		refusedFor(t, "the limits of the first were narrowed", err, api.CodeForbidden, "denied by the role no-web-for-"+name)

		_, id = asks()
		_, err = p.approve(bob, id, func(*job.Spec) { deny("bob") })
		refusedFor(t, "the limits of the second were narrowed", err, api.CodeForbidden, "denied by the role no-web-for-bob")
		if n := p.ran(); n != 0 {
			t.Errorf("%d jobs ran", n)
		}
	})
}

func TestARequestThatIsNoJobIsCarriedOutOnce(t *testing.T) {
	atPair(t, func(t *testing.T, p *pair) {
		ann, bob := p.madeBy("root", "ann", grants.Limits{}), p.madeBy("root", "bob", grants.Limits{})
		text, _, err := ann.TokenCreate(t.Context(), credential.TokenRequest{Name: "ci", Scopes: []credential.Scope{credential.ScopeDispatch}})
		id, ok := api.HeldAs(err)
		if !ok || text == "" {
			t.Fatalf("ann makes a token alone: %v", err)
		}
		_, err = p.approve(ann, id, nil)
		refusedFor(t, "ann approves it", err, api.CodeForbidden, "they are the same")
		sent := p.heldRequest(bob, id, "token.create")
		refusedFor(t, "it is sent before it is approved", sent, api.CodeForbidden, "bob has not approved it")

		errs := make([]error, 8)
		var all sync.WaitGroup
		for i := range errs {
			all.Go(func() { _, errs[i] = api.HoldApprove.Ask(t.Context(), bob, api.HoldRequest{ID: id}) })
		}
		all.Wait()
		done := slices.DeleteFunc(errs, func(err error) bool { return err != nil })
		if len(done) != 1 {
			t.Errorf("%d of 8 approvals at two masters succeeded", len(done))
		}
		refusedFor(t, "a copy of the request", p.heldRequest(bob, id, "token.create"), api.CodeConflict, "not carried out twice")
		list, err := api.TokenList.Ask(t.Context(), ann, api.NamesRequest{})
		if err != nil || len(list.Tokens) != 1 || list.Tokens[0].CreatedBy != "bob" {
			t.Errorf("the tokens are %+v, %v", list, err)
		}
		p.checkAudit(id, "token.create ann asked", "hold.approve bob done", "token.create bob done")
		for by, sees := range map[*api.Client]bool{ann: true, bob: false} {
			if a, err := api.HoldShow.Ask(t.Context(), by, api.HoldRequest{ID: id}); err != nil || (a.Answer != nil) != sees {
				t.Errorf("%s sees the token: %v, %v", by.User(), !sees, err)
			}
		}

		// What a token of ann asks for is not approved by ann.
		data, err := canon.Marshal(both())
		if err != nil {
			t.Fatal(err)
		}
		msg, err := p.masters[0].nc.Request(wire.Dispatch((&credential.Token{Name: "ci"}).User()), data, 20*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		tokenID, ok := api.HeldAs(api.ReplyError(msg))
		if !ok {
			t.Fatalf("a token runs the job alone: %v", api.ReplyError(msg))
		}
		_, err = p.approve(bob, tokenID, nil)
		refusedFor(t, "who made the token approves what it asked for", err, api.CodeForbidden, "they are the same")
	})
}

// heldRequest sends the request of an action as a person, without an approval, and returns the error of the reply.
func (p *pair) heldRequest(by *api.Client, id api.HoldID, verb string) error {
	p.t.Helper()
	a, err := api.HoldShow.Ask(p.t.Context(), by, api.HoldRequest{ID: id})
	if err != nil {
		p.t.Fatal(err)
	}
	noun, verb, _ := strings.Cut(verb, ".")
	q := nats.NewMsg(api.Subject(noun, verb, by.User()))
	q.Data = a.Data
	q.Header = grants.Caller{User: by.User(), Role: grants.RoleOperator}.Header()
	q.Header.Set(service.HeldHeader, string(id))
	msg, err := p.masters[1].nc.RequestMsg(q, 20*time.Second)
	if err != nil {
		p.t.Fatal(err)
	}
	return api.ReplyError(msg)
}

func TestOneAloneDoesNotRemoveTheRules(t *testing.T) {
	atPair(t, func(t *testing.T, p *pair) {
		ann, bob := p.madeBy("root", "ann", grants.Limits{}), p.madeBy("root", "bob", grants.Limits{})
		_, errRemove := api.RoleRemove.Ask(t.Context(), ann, api.RoleName{Name: "four-eyes"})
		_, errSet := api.RoleSet.Ask(t.Context(), ann, credential.RoleRequest{Name: "four-eyes", Text: "allow: [{verbs: [read]}]"})
		_, _, errAdd := ann.UserAdd(t.Context(), credential.UserRequest{Name: "puppet", Role: grants.RoleOperator})
		for what, err := range map[string]error{"removes": errRemove, "replaces": errSet, "makes a person": errAdd} {
			if _, waits := api.HeldAs(err); !waits {
				t.Errorf("one alone %s: %v", what, err)
			}
		}
		_, err := api.UserRevoke.Ask(t.Context(), ann, api.RevokeRequest{Name: "bob"})
		if err != nil && !strings.Contains(err.Error(), "bob is revoked") { // the bus of the test takes no pushes
			t.Error("a revocation waits for nobody:", err)
		}
		local := p.people(credential.LocalUser)
		if _, err := api.RoleRemove.Ask(t.Context(), local, api.RoleName{Name: "four-eyes"}); err != nil {
			t.Error("in an emergency, who reads the data directory of a master is enough:", err)
		}
		id, _ := api.HeldAs(errSet)
		if _, err := p.approve(bob, id, nil); err == nil {
			t.Error("bob, who was revoked, approves")
		}
	})
}

// TestAMasterDiesBetweenTheApprovalAndTheJob has each of two masters die after an approval is stored and before its job is
// sent: the other one runs the job, once.
func TestAMasterDiesBetweenTheApprovalAndTheJob(t *testing.T) {
	for dies := range 2 {
		atPair(t, func(t *testing.T, p *pair) {
			ann, bob := p.madeBy("root", "ann", grants.Limits{}), p.madeBy("root", "bob", grants.Limits{})
			id := p.waits(ann, both())
			a, err := p.approve(bob, id, func(*job.Spec) { p.masters[dies].stop() })
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Minute)
			if j := p.record(a.JID); j.User != "bob" || j.Status != job.Complete {
				t.Errorf("master %d died, and the job is %+v", dies, j)
			}

			// The same approval once more is the same job.
			again := a.Spec()
			again.Targets = both().Targets
			if _, err := api.JobDispatch.Ask(t.Context(), bob, again); err != nil && api.CodeOf(err) != api.CodeConflict {
				t.Error(err)
			}
			if n := p.ran(); n != 1 {
				t.Errorf("%d jobs ran", n)
			}
		})
	}
}
