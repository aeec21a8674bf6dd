package apiserver

import (
	"context"
	"fmt"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/user"
	"github.com/seed-c01c3da5/zester/master/service"
)

func (s *Server) rotateVerbs() []service.Verb {
	a := s.o.Authority
	do := func(keys func(context.Context, api.RotateRequest) (*credential.Rotation, error),
		ca func() (string, error),
	) func(context.Context, grants.Caller, api.RotateRequest) (*api.RotateAnswer, error) {
		return func(ctx context.Context, _ grants.Caller, q api.RotateRequest) (answer *api.RotateAnswer, err error) {
			answer = &api.RotateAnswer{What: q.What}
			switch q.What {
			case api.RotateKeys:
				answer.Rotation, err = keys(ctx, q)
			case api.RotateCA:
				answer.Pin, err = ca()
			default:
				err = fmt.Errorf("%w: there is nothing called %.40q that could be rotated", user.ErrInvalid, q.What)
			}
			return answer, err
		}
	}
	return []service.Verb{
		handleFrom(api.AuthRotate, do(func(ctx context.Context, _ api.RotateRequest) (*credential.Rotation, error) {
			return a.RotateKeys(ctx)
		}, a.RotateCA)),
		handleFrom(api.AuthRetire, do(func(ctx context.Context, q api.RotateRequest) (*credential.Rotation, error) {
			return a.RetireKeys(ctx, q.Force)
		}, a.RetireCA)),
	}
}
