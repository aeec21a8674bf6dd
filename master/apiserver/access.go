package apiserver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/job"
)

// userExplain says whether a person may send a request, and the rule that decides. It asks the functions that decide
// about the request itself. Somebody with limits could learn about peels outside them from what others may do.
func (s *Server) userExplain(ctx context.Context, from grants.Caller, q api.AccessRequest) (*api.Access, error) {
	if from.Role == grants.RoleLimited && q.Name != from.User {
		return nil, fmt.Errorf("%w: %s has limits, and may ask about %s alone", grants.ErrNotAllowed, from.User,
			from.User)
	}
	if err := q.Check(); err != nil {
		return nil, fmt.Errorf("%w: %w", errInvalid, err)
	}
	u, err := s.person(ctx, q.Name)
	if err != nil {
		return nil, err
	}
	a := &api.Access{Name: u.Name, Role: u.Role}
	noun, verb, _ := strings.Cut(q.Verb, ".")
	switch state := u.State(time.Now()); {
	case state == "revoked":
		a.Rule = u.Name + " was revoked"
	case state == "expired":
		a.Rule = "the credential of " + u.Name + " has expired"
	case !grants.May(u.Role, noun, verb):
		a.Rule = fmt.Sprintf("the role %s does not permit %s", u.Role, q.Verb)
	case q.Dispatches():
		return a, s.explainDispatch(ctx, q, u, a)
	default:
		a.Allowed = true
		a.Rule = fmt.Sprintf("the role %s permits %s%s", u.Role, q.Verb, restriction(u.Role, q.Verb))
	}
	return a, nil
}

// person returns a person by name. The operator of a master's host has no record.
func (s *Server) person(ctx context.Context, name string) (*credential.User, error) {
	if name == credential.LocalUser {
		return &credential.User{Name: name, Role: grants.RoleOperator}, nil
	}
	return s.o.Authority.Users.Find(ctx, name)
}

// restriction returns what masters check beside the role; "" if they check nothing.
func restriction(r grants.Role, verb string) string {
	if r != grants.RoleLimited {
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

// explainDispatch says in a whether a person may dispatch a job.
func (s *Server) explainDispatch(ctx context.Context, q api.AccessRequest, u *credential.User, a *api.Access) error {
	as := grants.Caller{User: u.Name, Role: u.Role}
	peels, err := s.SelectFor(ctx, as, q.Target)
	if err == nil && len(peels) == 0 {
		return fmt.Errorf("%w: the target %.200q selects no peel now", errInvalid, q.Target)
	}
	if err == nil && s.o.Allow != nil {
		err = s.o.Allow(ctx, as, &job.Spec{Function: q.Function, Targets: peels})
	}
	a.Peels = len(peels)
	switch {
	case errors.Is(err, grants.ErrNotAllowed):
		a.Rule = strings.TrimPrefix(err.Error(), grants.ErrNotAllowed.Error()+": ")
	case err != nil:
		return err
	default:
		a.Allowed = true
		a.Rule = fmt.Sprintf("the role %s permits job.dispatch%s", u.Role, within(u.Limits))
	}
	return nil
}

// within returns the limits of a person in words; "" without limits.
func within(l grants.Limits) (text string) {
	if l.Target != "" {
		text += fmt.Sprintf(", limited to the peels of %q", l.Target)
	}
	if len(l.Functions) > 0 {
		text += fmt.Sprintf(", limited to the functions %q", l.Functions)
	}
	return text
}
