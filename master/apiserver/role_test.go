package apiserver_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A fleetOfRoles is a fleet whose people have roles that somebody wrote.
type fleetOfRoles struct {
	*system
	boss *api.Client
}

// set makes or replaces a role.
func (f *fleetOfRoles) set(name, text string) {
	f.t.Helper()
	_, err := api.RoleSet.Ask(f.t.Context(), f.boss, credential.RoleRequest{Name: name, File: name + ".yaml", Text: text})
	if err != nil {
		f.t.Fatal(err)
	}
}

// runs dispatches a job in the name of a client, and returns the error.
func (f *fleetOfRoles) runs(c *api.Client, function string, args map[string]any, peels ...target.PeelID) error {
	_, err := api.JobDispatch.Ask(f.t.Context(), c, job.Spec{
		JID: wire.NewJID(), Function: function, Args: args, Targets: peels, TargetExpr: "L@x", Timeout: time.Minute,
	})
	return err
}

func rolesBubble(t *testing.T, f func(t *testing.T, s *fleetOfRoles, add func(credential.UserRequest) *api.Client)) {
	bubble(t, func(t *testing.T, s *system) {
		o := s.accessMaster()
		fleet := &fleetOfRoles{s, s.client(grants.RoleOperator, "boss")}
		f(t, fleet, func(q credential.UserRequest) *api.Client { return s.addPerson(o, q) })
	})
}

func wantAllowed(t *testing.T, what string, want bool, err error) {
	t.Helper()
	code := api.CodeOf(err)
	refused := code == api.CodeForbidden || code == api.CodeDenied
	if want && err != nil || !want && !refused {
		t.Errorf("%s: %v, want it allowed: %t", what, err, want)
	}
}

func TestMembersDoWhatTheirRolesAllowAndNothingElse(t *testing.T) {
	rolesBubble(t, func(t *testing.T, f *fleetOfRoles, add func(credential.UserRequest) *api.Client) {
		f.set("web-team", `
groups: [web]
allow:
  - verbs: [job.list, job.cancel]
  - verbs: [job.dispatch]
    target: web-*
    functions: [test.*]
  - verbs: [job.dispatch]
    target: web-*
    functions: [cmd.run]
    arguments: {command: "systemctl restart *"}
deny:
  - verbs: [job.dispatch]
    target: web-2
`)
		mia := add(credential.UserRequest{Name: "mia", Role: grants.RoleMember, Roles: []string{"web-team"}})
		gus := add(credential.UserRequest{Name: "gus", Role: grants.RoleMember, Groups: []string{"web"}})
		none := add(credential.UserRequest{Name: "nil", Role: grants.RoleMember})
		time.Sleep(time.Second)
		for name, c := range map[string]*api.Client{"by role": mia, "by group": gus} {
			wantAllowed(t, name+": test.ping on web-1", true, f.runs(c, "test.ping", nil, "web-1"))
			wantAllowed(t, name+": test.ping on web-2", false, f.runs(c, "test.ping", nil, "web-1", "web-2"))
			wantAllowed(t, name+": test.ping on db-1", false, f.runs(c, "test.ping", nil, "db-1"))
			wantAllowed(t, name+": another function", false, f.runs(c, "pkg.list", nil, "web-1"))
			wantAllowed(t, name+": the command", true,
				f.runs(c, "cmd.run", map[string]any{"command": "systemctl restart nginx"}, "web-1"))
			wantAllowed(t, name+": two commands", false,
				f.runs(c, "cmd.run", map[string]any{"command": "systemctl restart nginx; id"}, "web-1"))
			wantAllowed(t, name+": a further argument", false,
				f.runs(c, "cmd.run", map[string]any{"command": "systemctl restart nginx", "cwd": "/tmp"}, "web-1"))
			_, err := api.JobList.Ask(t.Context(), c, job.Query{})
			wantAllowed(t, name+": job.list", true, err)
			_, err = api.PeelList.Ask(t.Context(), c, api.PeelsRequest{})
			wantAllowed(t, name+": peel.list", false, err)
			_, err = api.AccessList.Ask(t.Context(), c, api.AccessRequest{Verb: "job.list"})
			wantAllowed(t, name+": access.list", false, err)
		}
		_, err := api.JobList.Ask(t.Context(), none, job.Query{})
		wantAllowed(t, "without a role: job.list", false, err)
		wantAllowed(t, "without a role: a job", false, f.runs(none, "test.ping", nil, "web-1"))
	})
}

// TestNoMemberGivesPowerAway has a member with all that a role can allow make people, tokens and roles.
func TestNoMemberGivesPowerAway(t *testing.T) {
	rolesBubble(t, func(t *testing.T, f *fleetOfRoles, add func(credential.UserRequest) *api.Client) {
		f.set("all", "allow: [{verbs: ['*']}]")
		mia := add(credential.UserRequest{Name: "mia", Role: grants.RoleMember, Roles: []string{"all"}})
		time.Sleep(time.Second)
		_, err := api.RoleSet.Ask(t.Context(), mia, credential.RoleRequest{Name: "all", Text: "allow: [{verbs: ['*']}]"})
		wantAllowed(t, "role.set", false, err)
		_, err = api.RoleRemove.Ask(t.Context(), mia, api.RoleName{Name: "all"})
		wantAllowed(t, "role.remove", false, err)
		_, _, err = mia.UserAdd(t.Context(), credential.UserRequest{Name: "eve", Role: grants.RoleOperator})
		wantAllowed(t, "user.add", false, err)
		_, hash := credential.NewSecret("ci")
		token := credential.TokenRequest{Name: "ci", Hash: hash, Scopes: []credential.Scope{credential.ScopeAdmin}}
		_, err = api.TokenCreate.Ask(t.Context(), mia, token)
		wantAllowed(t, "token.create", false, err)
		_, err = api.TokenList.Ask(t.Context(), mia, api.NamesRequest{})
		wantAllowed(t, "token.list", true, err)
		for _, name := range []string{"operator", "member", "local"} {
			_, err := api.RoleSet.Ask(t.Context(), f.boss, credential.RoleRequest{Name: name, Text: "allow: [{verbs: ['*']}]"})
			wantCode(t, err, api.CodeInvalid)
		}
		_, err = api.RoleSet.Ask(t.Context(), f.boss, credential.RoleRequest{Name: "x", File: "x.yaml", Text: "allow: [{verbs: [job.lst]}]"})
		wantCode(t, err, api.CodeInvalid)
		if err == nil || !strings.Contains(err.Error(), `x.yaml:1:18: allow[0].verbs[0]: there is no verb "job.lst"`) {
			t.Errorf("a verb that does not exist: %v", err)
		}
	})
}

// TestAChangeOfARoleHoldsWithinASecond narrows, empties and removes a role on one master while another one answers.
func TestAChangeOfARoleHoldsWithinASecond(t *testing.T) {
	rolesBubble(t, func(t *testing.T, f *fleetOfRoles, add func(credential.UserRequest) *api.Client) {
		f.set("team", "allow: [{verbs: [job.dispatch, job.list]}]")
		mia := add(credential.UserRequest{Name: "mia", Role: grants.RoleMember, Roles: []string{"team"}})
		time.Sleep(time.Second)
		lists := func() error {
			_, err := api.JobList.Ask(t.Context(), mia, job.Query{})
			return err
		}
		wantAllowed(t, "as set: a job", true, f.runs(mia, "test.ping", nil, "web-1"))
		wantAllowed(t, "as set: job.list", true, lists())

		f.set("team", "allow: [{verbs: [job.dispatch], target: db-1}]")
		time.Sleep(time.Second)
		wantAllowed(t, "narrowed: a job elsewhere", false, f.runs(mia, "test.ping", nil, "web-1"))
		wantAllowed(t, "narrowed: a job", true, f.runs(mia, "test.ping", nil, "db-1"))
		wantAllowed(t, "narrowed: job.list", false, lists())

		if _, err := api.RoleRemove.Ask(t.Context(), f.boss, api.RoleName{Name: "team"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		wantAllowed(t, "removed: a job", false, f.runs(mia, "test.ping", nil, "db-1"))
		_, err := api.RoleRemove.Ask(t.Context(), f.boss, api.RoleName{Name: "team"})
		wantCode(t, err, api.CodeNotFound)
	})
}

// TestADenialOfAGroupHoldsForOperators also lets a person keep what other rules allow.
func TestADenialOfAGroupHoldsForOperators(t *testing.T) {
	rolesBubble(t, func(t *testing.T, f *fleetOfRoles, add func(credential.UserRequest) *api.Client) {
		ann := add(credential.UserRequest{Name: "ann", Role: grants.RoleOperator, Groups: []string{"interns"}})
		wantAllowed(t, "before: a job on db-1", true, f.runs(ann, "test.ping", nil, "db-1"))
		f.set("no-databases", "groups: [interns]\ndeny: [{verbs: [job.dispatch], target: db-*}, {verbs: [token.list]}]")
		time.Sleep(time.Second)
		wantAllowed(t, "a job on db-1", false, f.runs(ann, "test.ping", nil, "db-1"))
		wantAllowed(t, "a job on web-1", true, f.runs(ann, "test.ping", nil, "web-1"))
		_, err := api.TokenList.Ask(t.Context(), ann, api.NamesRequest{})
		wantAllowed(t, "token.list", false, err)
		_, err = api.UserList.Ask(t.Context(), ann, api.NamesRequest{})
		wantAllowed(t, "user.list", true, err)

		a, err := api.UserExplain.Ask(t.Context(), f.boss, api.AccessRequest{Name: "ann", Verb: "token.list"})
		if err != nil || a.Allowed || a.Rule != "the role no-databases, deny[1], denies token.list" {
			t.Errorf("%+v, %v", a, err)
		}
	})
}

// TestWhatIsSaidOfMembersIsWhatMastersDo draws roles, people and requests. The reply about each request has to be what
// the request then gets, and who-can has to list the same people.
func TestWhatIsSaidOfMembersIsWhatMastersDo(t *testing.T) {
	rolesBubble(t, func(t *testing.T, f *fleetOfRoles, add func(credential.UserRequest) *api.Client) {
		random := rand.New(rand.NewPCG(3, 4))
		pick := func(of ...string) string { return of[random.IntN(len(of))] }
		rule := func() string {
			if random.IntN(3) == 0 {
				return "{verbs: [" + pick("read", "job.list", "'*'", "peel.list", "'*.list'") + "]}"
			}
			return "{verbs: [job.dispatch], target: " + pick("web-*", "db-1", "'*'") + ", functions: [" + pick("test.*", "test.ping", "cmd.run") + "]}"
		}
		for i := range 6 {
			f.set(fmt.Sprintf("role-%d", i), fmt.Sprintf("groups: [g%d]\nallow: [%s, %s]\ndeny: [%s]", i, rule(), rule(),
				pick("{verbs: [job.dispatch], target: db-2}", "{verbs: [job.list]}", "{verbs: [audit.list]}")))
		}
		clients := map[string]*api.Client{}
		var names []string
		for i := range 8 {
			q := credential.UserRequest{Name: fmt.Sprintf("p%d", i), Role: grants.RoleMember}
			q.Roles = []string{fmt.Sprintf("role-%d", random.IntN(6))}
			q.Groups = []string{fmt.Sprintf("g%d", random.IntN(8))}
			clients[q.Name] = add(q)
			names = append(names, q.Name)
		}
		time.Sleep(time.Second) // in which masters may answer by what they have read
		allowed := 0
		for range 200 {
			q := api.AccessRequest{Name: pick(names...), Verb: pick("job.list", "peel.list", "token.list", "job.dispatch")}
			var err error
			if q.Verb == "job.dispatch" {
				q.Target, q.Function = pick("web-1", "db-1", "db-2"), "test.ping"
				err = f.runs(clients[q.Name], q.Function, nil, target.PeelID(q.Target))
			} else {
				noun, verb, _ := strings.Cut(q.Verb, ".")
				var answer any
				err = clients[q.Name].Ask(t.Context(), noun, verb, api.None{}, &answer)
			}
			a, errAsked := api.UserExplain.Ask(t.Context(), f.boss, q)
			if errAsked != nil {
				t.Fatal(q, errAsked)
			}
			wantAllowed(t, fmt.Sprintf("%+v: %+v", q, a), a.Allowed, err)
			if a.Allowed {
				allowed++
			}
			who := q
			who.Name = ""
			page, errAsked := api.AccessList.Ask(t.Context(), f.boss, who)
			if errAsked != nil {
				t.Fatal(q, errAsked)
			}
			listed := false
			for _, p := range page.People {
				listed = listed || p.Name == q.Name && p.Rule == a.Rule
			}
			if listed != a.Allowed {
				t.Errorf("%+v: %+v, and among all: %+v", q, a, page.People)
			}
		}
		if allowed < 30 || allowed > 170 {
			t.Errorf("%d of 200 requests are allowed: the cases are of one kind", allowed)
		}
	})
}

func TestAVerbThatDoesNotExistNamesTheNearest(t *testing.T) {
	err := (&api.AccessRequest{Name: "ann", Verb: "job.dispach"}).Check()
	if err == nil || !strings.Contains(err.Error(), `there is no verb "job.dispach": the nearest are job.dispatch, `) {
		t.Error(err)
	}
}
