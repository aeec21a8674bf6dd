package master

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/token"
	"github.com/seed-c01c3da5/zester/master/auth/user"
	"github.com/seed-c01c3da5/zester/master/job"
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
	for _, function := range catalogue.RunBy(spec.Function, spec.Args) {
		if err := j.allowOne(ctx, from, function, spec); err != nil {
			return err
		}
	}
	return nil
}

// allowOne is allow for one function that spec runs.
func (j judge) allowOne(ctx context.Context, from grants.Caller, function string, spec *job.Spec) error {
	if token, ok := credential.TokenNameOf(from.User); ok {
		return j.tokens.Allow(ctx, token, function, spec.Targets, j.selects)
	}
	if catalogue.AsksForSecrets(spec.Args) {
		if err := j.users.AllowSecrets(ctx, from); err != nil {
			return err
		}
	}
	return j.users.Allow(ctx, from, function, spec.Targets, j.selects)
}

// within returns the peels within the limits of a caller, sorted; all is true if they have no limit.
func (j judge) within(ctx context.Context, from grants.Caller) (peels []target.PeelID, all bool, err error) {
	var limits grants.Limits
	if token, ok := credential.TokenNameOf(from.User); ok {
		limits, err = j.tokens.Limits(ctx, token)
	} else {
		limits, err = j.users.Limits(ctx, from)
	}
	if err != nil || limits.Target == "" {
		return nil, err == nil, err
	}
	if peels, err = j.selects(ctx, limits.Target); err != nil {
		return nil, false, fmt.Errorf("the limits of %s cannot be checked: %w", from.User, err)
	}
	return peels, false, nil
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
