package apiserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/access"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/reach"
	"github.com/seed-c01c3da5/zester/master/service"
	"github.com/seed-c01c3da5/zester/peel/catalogue"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// userExplain says whether a person may send a request, and the rule that decides. Somebody with limits could learn
// about peels outside them from what others may do.
func (s *Server) userExplain(ctx context.Context, from grants.Caller, q api.AccessRequest) (*api.Access, error) {
	if from.Role.IsNarrow() && q.Name != from.User {
		return nil, fmt.Errorf("%w: %s is no operator or auditor, and may ask about %s alone", grants.ErrNotAllowed,
			from.User, from.User)
	}
	if err := q.Check(); err != nil {
		return nil, fmt.Errorf("%w: %w", errInvalid, err)
	}
	u, err := s.person(ctx, q.Name)
	if err != nil {
		return nil, err
	}
	e := s.explainer(&q, s.Select)
	if q.Dispatches() {
		if e.peels, err = s.some(ctx, grants.Caller{User: u.Name, Role: u.Role}, q.Target); err != nil {
			return nil, err
		}
	}
	return e.explain(ctx, u)
}

// accessList says who may send a request.
func (s *Server) accessList(ctx context.Context, from grants.Caller, q api.AccessRequest) (*api.AccessPage, error) {
	if from.Role.IsNarrow() {
		return nil, fmt.Errorf("%w: %s is no operator or auditor, and may not ask about others", grants.ErrNotAllowed,
			from.User)
	}
	if err := q.Check(); err != nil {
		return nil, fmt.Errorf("%w: %w", errInvalid, err)
	}
	all, err := s.o.Authority.Users.List(ctx)
	if err != nil {
		return nil, err
	}
	selected := map[string][]target.PeelID{}
	e := s.explainer(&q, func(ctx context.Context, expr string) ([]target.PeelID, error) {
		peels, ok := selected[expr]
		if ok {
			return peels, nil
		}
		peels, err := s.Select(ctx, expr)
		selected[expr] = peels
		return peels, err
	})
	if q.Dispatches() {
		if e.peels, err = s.some(ctx, from, q.Target); err != nil {
			return nil, err
		}
	}
	may := []api.Access{}
	for i := range all {
		if all[i].Name <= q.After {
			continue
		}
		a, err := e.explain(ctx, &all[i])
		if err != nil {
			return nil, err
		}
		if a.Allowed {
			may = append(may, *a)
		}
	}
	page, next, err := pageOf(may, func(a *api.Access) string { return a.Name }, "")
	return &api.AccessPage{People: page, Peels: len(e.peels), Next: next}, err
}

// some returns the peels that a target selects for a caller. It is an error if there are none.
func (s *Server) some(ctx context.Context, from grants.Caller, expr string) ([]target.PeelID, error) {
	peels, err := s.SelectFor(ctx, from, expr)
	if err == nil && len(peels) == 0 {
		err = fmt.Errorf("%w: the target %.200q selects no peel now", errInvalid, expr)
	}
	return peels, err
}

// person returns a person by name. The operator of a master's host has no record.
func (s *Server) person(ctx context.Context, name string) (*credential.User, error) {
	if name == credential.LocalUser {
		return &credential.User{Name: name, Role: grants.RoleOperator}, nil
	}
	u, err := s.o.Authority.Users.Find(ctx, name)
	if err != nil {
		return nil, err
	}
	one := []credential.User{*u}
	err = s.o.Users.MarkEnded(ctx, one, nil)
	return &one[0], err
}

// An explainer says of people whether they may send a request.
type explainer struct {
	o       *Options
	q       *api.AccessRequest
	peels   []target.PeelID // of a job
	selects grants.Selector
}

func (s *Server) explainer(q *api.AccessRequest, selects grants.Selector) explainer {
	return explainer{o: &s.o, q: q, selects: selects}
}

// spec returns the job that the question is about.
func (e *explainer) spec() *job.Spec {
	return &job.Spec{Function: e.q.Function, StateID: e.q.StateID, Args: e.q.Args, Targets: e.peels}
}

// runsMore reports whether a call also needs what no rule about its own function says: what it runs besides, or the
// permission for secrets.
func (e *explainer) runsMore() bool {
	return len(catalogue.RunBy(e.q.Function, e.q.Args)) > 1 || e.q.Function == "schedule.run" ||
		catalogue.AsksForSecrets(e.q.Args)
}

// second returns the rule by which a request of a person waits for a second one; "" if it does not.
func (e *explainer) second(ctx context.Context, u *credential.User) (string, error) {
	from, verb := grants.Caller{User: u.Name, Role: u.Role}, access.Verb(e.q.Verb)
	if e.q.Dispatches() {
		if e.o.Needs == nil {
			return "", nil
		}
		rule, err := e.o.Needs(ctx, from, e.spec())
		if err != nil || rule == nil {
			return "", err
		}
		return strings.TrimSuffix(rule.From, ","), nil
	}
	rules, err := e.o.Users.Seconds(ctx, verb)
	i := slices.IndexFunc(rules, func(s access.Second) bool { return s.CoversFile(e.q.Path) })
	if err != nil || i < 0 || !service.NeedsSecond(from) {
		return "", err
	}
	return strings.TrimSuffix(rules[i].From, ","), nil
}

// explain decides by the rules by which masters decide about the request itself.
func (e *explainer) explain(ctx context.Context, u *credential.User) (*api.Access, error) {
	a := &api.Access{Name: u.Name, Role: u.Role, Peels: len(e.peels)}
	switch state := u.State(time.Now()); state {
	case "revoked":
		a.Rule = u.Name + " was revoked"
		return a, nil
	case "expired":
		a.Rule = "the credential of " + u.Name + " has expired"
		return a, nil
	}
	verb := access.Verb(e.q.Verb)
	on := access.On{Function: e.q.Function, Peels: e.peels, Path: e.q.Path}
	if e.q.StateID == "" {
		on.Args = e.q.Args // no rule names the arguments of other calls
	}
	who, rules, err := e.o.Users.RulesOf(ctx, u)
	var v access.Verdict
	noun, what, _ := strings.Cut(e.q.Verb, ".")
	switch {
	case !grants.May(u.Role, noun, what):
		err = fmt.Errorf("%w: the role %s does not permit %s", grants.ErrNotAllowed, u.Role, verb)
	case errors.Is(err, grants.ErrNotAllowed): // unknown limits
	case err != nil:
		return nil, err
	case e.q.Dispatches():
		v, err = grants.Decide(ctx, rules, who, on, e.selects)
		if err != nil {
			return nil, err
		}
		err = grants.Refusal(v, who, verb, on)
		if err == nil && e.o.Allow != nil && e.runsMore() {
			err = e.o.Allow(ctx, grants.Caller{User: u.Name, Role: u.Role}, e.spec())
		}
		if err != nil && !errors.Is(err, grants.ErrNotAllowed) {
			return nil, err
		}
	default:
		v = access.Decide(rules, who, verb, on)
		err = grants.Refusal(v, who, verb, on)
		if err == nil && api.Showings()[e.q.Verb] == api.WholeFleet {
			err = reach.Whole(rules, who, verb)
		}
	}
	if err != nil {
		a.Rule = strings.TrimPrefix(err.Error(), grants.ErrNotAllowed.Error()+": ")
		return a, nil
	}
	a.Allowed = true
	from := v.Rule.From
	if v.Rule.Who.Name != "" {
		from = "the role " + string(u.Role) // whose limits the rule has
	}
	a.Rule = fmt.Sprintf("%s permits %s%s%s", from, verb, within(&v.Rule.Actions), restriction(u.Role, e.q.Verb))
	if a.Second, err = e.second(ctx, u); a.Second != "" {
		a.Rule += "; it waits for a second person by " + a.Second
	}
	return a, err
}

// restriction returns what masters check beside the rules; "" if they check nothing.
func restriction(r grants.Role, verb string) string {
	if !r.IsNarrow() {
		return ""
	}
	switch verb {
	case api.JobCancel.Noun + "." + api.JobCancel.Verb:
		return " of jobs of its own"
	case "hold.list", "hold.show", "hold.reject":
		return " of held actions of its own"
	}
	return ""
}

// within returns what a rule about jobs limits them to, in words.
func within(a *access.Actions) (text string) {
	if a.Target != "" {
		text += fmt.Sprintf(", limited to the peels of %q", a.Target)
	}
	if len(a.Functions) > 0 {
		text += fmt.Sprintf(", limited to the functions %q", a.Functions)
	}
	if len(a.Paths) > 0 {
		text += fmt.Sprintf(", limited to the files %q", a.Paths)
	}
	if len(a.Arguments) > 0 {
		var all []string
		for name, pattern := range a.Arguments {
			all = append(all, fmt.Sprintf("%s %q", name, pattern))
		}
		slices.Sort(all)
		text += ", limited to the arguments " + strings.Join(all, " and ")
	}
	return text
}
