package master

import (
	"context"
	"errors"
	"slices"

	"github.com/seed-c01c3da5/zester/master/auth/access"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/token"
	"github.com/seed-c01c3da5/zester/master/auth/user"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/reach"
	"github.com/seed-c01c3da5/zester/peel/catalogue"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A judge authorizes dispatches by the current records of people and tokens.
type judge struct {
	users   *user.Store
	tokens  *token.Store
	selects func(ctx context.Context, expr string) ([]target.PeelID, error)
}

// allow returns [grants.ErrNotAllowed] if a caller may not run what spec says on its targets. A call of prompt.run runs
// other functions too.
func (j judge) allow(ctx context.Context, from grants.Caller, spec *job.Spec) error {
	for i, function := range catalogue.RunBy(spec.Function, spec.Args) {
		on := access.On{Function: function, Peels: spec.Targets}
		if i == 0 && spec.StateID == "" {
			on.Args = spec.Args // no rule names the arguments of other calls
		}
		if err := j.allowOne(ctx, from, on, spec); err != nil {
			return err
		}
	}
	return nil
}

// allowOne is allow for one function that spec runs.
func (j judge) allowOne(ctx context.Context, from grants.Caller, on access.On, spec *job.Spec) error {
	if token, ok := credential.TokenNameOf(from.User); ok {
		return j.tokens.Allow(ctx, token, on.Function, on.Peels, j.selects)
	}
	if catalogue.AsksForSecrets(spec.Args) {
		if err := j.users.AllowSecrets(ctx, from); err != nil {
			return err
		}
	}
	return j.users.Allow(ctx, from, on, j.selects)
}

// reach says about which peels a caller may read.
func (j judge) reach() reach.Reach {
	return reach.Reach{Users: j.users, Tokens: j.tokens, Select: j.selects}
}

// checkNotRevoked returns [grants.ErrNotAllowed] if a person or a token was revoked. It reads the buckets.
func (j judge) checkNotRevoked(ctx context.Context, user string) error {
	if token, ok := credential.TokenNameOf(user); ok {
		return j.tokens.CheckNotRevoked(ctx, token)
	}
	return j.users.CheckNotRevoked(ctx, user)
}

// readable returns the peels whose settings a caller may read: for an auditor all, for others the peels on which they
// may run settings.get. The error is [grants.ErrNotAllowed] if the caller may run it on no peel.
func (j judge) readable(ctx context.Context, from grants.Caller, peels []target.PeelID) ([]target.PeelID, error) {
	if from.Role == grants.RoleAuditor {
		return peels, nil
	}
	err := j.allow(ctx, from, &job.Spec{Function: "settings.get", Targets: peels})
	if outside, ok := errors.AsType[*grants.OutsideError](err); ok {
		return slices.DeleteFunc(slices.Clone(peels), outside.Has), nil
	}
	return peels, err
}
