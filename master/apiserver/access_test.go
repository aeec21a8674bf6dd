package apiserver_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/apiserver"
	"github.com/seed-c01c3da5/zester/master/auth"
	"github.com/seed-c01c3da5/zester/master/auth/access"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/dispatch"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

var accessCases = flag.Int("access.cases", 500, "random jobs of TestWhatAPersonMayDoIsWhatTheBusAndTheMasterDo")

// accessPeels are the peels of the tests of access, sorted.
var accessPeels = []target.PeelID{"db-1", "db-2", "web-1", "web-2"}

// accessMaster starts a master with keys that checks each dispatch, with [accessPeels], and returns its options.
func (s *system) accessMaster() (o apiserver.Options) {
	s.t.Helper()
	s.master("m1", func(with *apiserver.Options) {
		var err error
		with.Authority, err = auth.NewAuthority(s.t.Context(), auth.AuthorityOptions{
			Keys: s.bus.Keys, JetStream: with.JetStream, Update: s.bus.Update,
		})
		if err != nil {
			s.t.Fatal(err)
		}

		users, peels := with.Users, with.Fleet.Index()
		with.Allow = func(ctx context.Context, from grants.Caller, spec *job.Spec) error {
			return users.Allow(ctx, from, access.On{Function: spec.Function, Args: spec.Args, Peels: spec.Targets}, func(_ context.Context, expr string) ([]target.PeelID, error) {
				e, err := target.Parse(expr, target.Options{})
				if err != nil {
					return nil, err
				}
				return peels.Select(e), nil
			})
		}
		with.Dispatch, err = dispatch.New(dispatch.Options{
			Conn: with.JetStream.Conn(), Store: with.Store, Owner: "m1", Allow: with.Allow,
		})
		if err != nil {
			s.t.Fatal(err)
		}
		o = *with
	})
	for _, id := range accessPeels {
		s.peel(id, nil, pong(id))
	}
	return o
}

// addPerson makes a person with a record, and returns a client of the person.
func (s *system) addPerson(o apiserver.Options, q credential.UserRequest) *api.Client {
	s.t.Helper()
	key, err := nkeys.CreateUser()
	if err == nil {
		q.Public, err = key.PublicKey()
	}
	if err == nil {
		_, _, err = o.Authority.Users.Add(s.t.Context(), q, "boss")
	}
	if err != nil {
		s.t.Fatal(err)
	}
	u, err := o.Authority.Users.Find(s.t.Context(), q.Name)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.client(u.Role, u.Name)
}

// An accessPerson is a person of the test below, with what an oracle has to know.
type accessPerson struct {
	credential.UserRequest
	byName, noWeb2 bool // named by these roles
	client         *api.Client
}

// may is the oracle: whether the person may run a job on one peel.
func (p *accessPerson) may(q *api.AccessRequest, id string) bool {
	switch {
	case p.noWeb2 && id == "web-2", p.Role == grants.RoleAuditor:
		return false
	case p.Role == grants.RoleMember:
		return p.byName && p.named(q, id)
	case p.Limits.Target != "" && !globbed(p.Limits.Target, id):
		return p.byName && p.named(q, id)
	case len(p.Limits.Functions) == 0:
		return true
	}
	return slices.ContainsFunc(p.Limits.Functions, func(glob string) bool { return globbed(glob, q.Function) }) ||
		p.byName && p.named(q, id)
}

// named reports whether the role by-name allows a job on one peel.
func (p *accessPerson) named(q *api.AccessRequest, id string) bool {
	if strings.HasPrefix(id, "web-") {
		return globbed("test.*", q.Function)
	}
	return q.Function == "cmd.run" && q.Args["command"] == "systemctl restart nginx"
}

// TestWhatAPersonMayDoIsWhatTheBusAndTheMasterDo draws people with limits and with rules by name, and jobs with arguments. The reply about each job is compared
// with an oracle, and with what a dispatch of that job does: the bus refuses it, a master refuses it, or it is a job.
func TestWhatAPersonMayDoIsWhatTheBusAndTheMasterDo(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		o := s.accessMaster()
		random := rand.New(rand.NewPCG(1, 2))
		pick := func(of []string) string { return of[random.IntN(len(of))] }
		roles := []grants.Role{grants.RoleOperator, grants.RoleOperator, grants.RoleDirect, grants.RoleAuditor, grants.RoleMember}
		var people []*accessPerson
		byName, noWeb2 := credential.Role{}, credential.Role{}
		for i := range 24 {
			q := credential.UserRequest{Name: fmt.Sprintf("p%d", i), Role: roles[random.IntN(len(roles))]}
			if q.Role == grants.RoleOperator {
				q.Limits.Target = pick([]string{"", "web-*", "db-1", "*"})
				q.Limits.Functions = [][]string{nil, {"test.*"}, {"cmd.run", "test.ping"}}[random.IntN(3)]
			}
			p := &accessPerson{UserRequest: q, byName: random.IntN(2) == 0, noWeb2: random.IntN(4) == 0}
			p.client = s.addPerson(o, q)
			if people = append(people, p); p.byName {
				byName.People = append(byName.People, q.Name)
			}
			if p.noWeb2 {
				noWeb2.People = append(noWeb2.People, q.Name)
			}
		}
		dispatch := []string{"job.dispatch"}
		byName.Name, byName.Allow = "by-name", []access.Actions{
			{Verbs: dispatch, Target: "web-*", Functions: []string{"test.*"}},
			{Verbs: dispatch, Target: "db-*", Functions: []string{"cmd.run"}, Arguments: map[string]string{"command": "systemctl restart *"}},
		}
		noWeb2.Name, noWeb2.Deny = "no-web-2", []access.Actions{{Verbs: dispatch, Target: "web-2"}}
		for _, r := range []credential.Role{byName, noWeb2} {
			if err := o.Users.SetRole(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		boss := s.client(grants.RoleOperator, "boss")
		jobs, byMaster, byBus := 0, 0, 0
		for range *accessCases {
			p := people[random.IntN(len(people))]
			q := api.AccessRequest{
				Name: p.Name, Verb: "job.dispatch",
				Target: pick([]string{"web-1", "web-*", "db-*", "db-1", "*"}), Function: pick([]string{"test.ping", "test.echo", "cmd.run"}),
			}
			q.Args = map[string]map[string]any{
				"cmd.run":   {"command": pick([]string{"id", "systemctl restart nginx", "systemctl restart nginx; id"})},
				"test.echo": {"text": "a"},
			}[q.Function]
			a, err := api.UserExplain.Ask(t.Context(), boss, q)
			if err != nil {
				t.Fatal(q, err)
			}
			var targets []target.PeelID
			want := true
			for _, id := range accessPeels {
				if globbed(q.Target, string(id)) {
					targets = append(targets, id)
					want = want && p.may(&q, string(id))
				}
			}
			if a.Allowed != want || a.Rule == "" {
				t.Fatalf("%+v of %+v: %+v, want %t", q, p, a, want)
			}
			spec := job.Spec{
				JID: wire.NewJID(), Function: q.Function, Args: q.Args, Targets: targets, TargetExpr: q.Target, Timeout: time.Minute,
			}
			_, err = api.JobDispatch.Ask(t.Context(), p.client, spec)
			refused := api.CodeOf(err) == api.CodeForbidden || api.CodeOf(err) == api.CodeDenied
			if refused == want || err != nil && !refused {
				t.Fatalf("%+v: %+v, and the dispatch ended with %v", q, a, err)
			}
			switch api.CodeOf(err) {
			case api.CodeForbidden:
				byMaster++
			case api.CodeDenied:
				byBus++
			default:
				jobs++
			}
			if api.CodeOf(err) == api.CodeForbidden && !strings.Contains(err.Error(), a.Rule) {
				t.Errorf("%+v: the rule is %q, the error of the dispatch %v", q, a.Rule, err)
			}
		}
		t.Logf("%d became jobs, masters refused %d, the bus %d", jobs, byMaster, byBus)
		if least := *accessCases / 20; min(jobs, byMaster, byBus) < least {
			t.Errorf("the cases are of one kind: fewer than %d are of another", least)
		}
	})
}

func globbed(glob, text string) bool {
	ok, _ := path.Match(glob, text)
	return ok
}

func TestWhoAsksWhatAPersonMayDo(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		o := s.accessMaster()
		limits := grants.Limits{Target: "web-*"}
		lee := s.addPerson(o, credential.UserRequest{Name: "lee", Role: grants.RoleOperator, Limits: limits})
		eve := s.addPerson(o, credential.UserRequest{Name: "eve", Role: grants.RoleAuditor, TTL: time.Hour})

		_, err := api.UserExplain.Ask(t.Context(), lee, api.AccessRequest{Name: "eve", Verb: "job.list"})
		wantCode(t, err, api.CodeForbidden)
		if _, err := api.UserExplain.Ask(t.Context(), lee, api.AccessRequest{Name: "lee", Verb: "job.list"}); err != nil {
			t.Errorf("lee about lee: %v", err)
		}

		_, err = api.UserExplain.Ask(t.Context(), eve, api.AccessRequest{Name: "nobody", Verb: "job.list"})
		wantCode(t, err, api.CodeNotFound)
		for _, q := range []api.AccessRequest{
			{Name: "lee"},
			{Name: "lee", Verb: "job"},
			{Name: "lee", Verb: "*.*"},
			{Name: "lee", Verb: "job.list.all"},
			{Name: "lee", Verb: "job.dispatch"},
			{Name: "lee", Verb: "job.list", Target: "*"},
			{Name: "lee", Verb: "job.dispatch", Target: "nowhere", Function: "test.ping"},
			{Name: "lee", Verb: "job.dispatch", Target: "*", Function: "test.nothing"},
		} {
			_, err := api.UserExplain.Ask(t.Context(), eve, q)
			wantCode(t, err, api.CodeInvalid)
		}

		boss := s.client(grants.RoleOperator, "boss")
		time.Sleep(2 * time.Hour)
		a, err := api.UserExplain.Ask(t.Context(), boss, api.AccessRequest{Name: "eve", Verb: "job.list"})
		if err != nil || a.Allowed || a.Rule != "the credential of eve has expired" {
			t.Errorf("after the end of the credential: %+v, %v", a, err)
		}
		if _, err := o.Authority.Users.Revoke(t.Context(), "lee", "boss"); err != nil {
			t.Fatal(err)
		}
		a, err = api.UserExplain.Ask(t.Context(), boss, api.AccessRequest{Name: "lee", Verb: "job.list"})
		if err != nil || a.Allowed || a.Rule != "lee was revoked" {
			t.Errorf("a revoked person: %+v, %v", a, err)
		}
	})
}
