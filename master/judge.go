package master

import (
	"context"

	"github.com/seed-c01c3da5/zester/master/auth"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A judge decides by the records of people and tokens, as they are now, what may be dispatched.
type judge struct {
	users   *auth.Users
	tokens  *auth.Tokens
	selects func(ctx context.Context, expr string) ([]target.PeelID, error)
}

// allow returns [auth.ErrNotAllowed] if a caller may not run what spec says on its targets.
func (j judge) allow(ctx context.Context, from auth.Asker, spec *job.Spec) error {
	if token, ok := auth.TokenName(from.User); ok {
		return j.tokens.Allow(ctx, token, spec.Function, spec.Targets, j.selects)
	}
	if wire.AsksForSecrets(spec.Args) {
		if err := j.users.AllowSecrets(ctx, from); err != nil {
			return err
		}
	}
	return j.users.Allow(ctx, from, spec.Function, spec.Targets, j.selects)
}
