package apiserver

import (
	"context"
	"errors"
	"slices"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/master/service"
)

// enrollVerbs returns the verbs that need the keys, none on a master without them.
func (s *Server) enrollVerbs() []service.Verb {
	a := s.o.Authority
	return []service.Verb{
		handle(api.EnrollList, s.enrolled),
		handleFrom(api.EnrollApprove, func(ctx context.Context, from grants.Caller,
			q api.EnrollName,
		) (*credential.Enrolled, error) {
			return a.Hosts.Approve(ctx, q.ID, q.Public, from.User)
		}),
		handleFrom(api.EnrollReject, func(ctx context.Context, from grants.Caller,
			q api.EnrollName,
		) (*credential.Enrolled, error) {
			return a.Hosts.Reject(ctx, q.ID, from.User)
		}),
		handleFrom(api.EnrollRevoke, func(ctx context.Context, from grants.Caller,
			q api.EnrollName,
		) (*credential.Enrolled, error) {
			return a.Hosts.Revoke(ctx, q.ID, from.User)
		}),
		handle(api.JoinList, func(ctx context.Context, _ api.None) (*api.JoinTokensAnswer, error) {
			all, err := a.Hosts.JoinTokens(ctx)
			return &api.JoinTokensAnswer{Tokens: all}, err
		}),
		handleFrom(api.JoinCreate, func(ctx context.Context, from grants.Caller,
			q credential.JoinRequest,
		) (*api.JoinAdded, error) {
			t, pin, err := a.Hosts.AddJoinToken(ctx, q, from.User)
			if err == nil {
				err = s.endIfRevoked(ctx, from, api.MadeJoinToken, q.Name)
			}
			if err != nil {
				return nil, err
			}
			return &api.JoinAdded{Token: *t, Pin: pin}, nil
		}),
		handleFrom(api.JoinRevoke, func(ctx context.Context, _ grants.Caller,
			q api.TokenName,
		) (*credential.JoinToken, error) {
			return a.Hosts.EndJoinToken(ctx, q.Name)
		}),
	}
}

// enrolled returns the peels that were enrolled or asked to be.
func (s *Server) enrolled(ctx context.Context, q api.EnrollQuery) (*api.EnrolledAnswer, error) {
	if q.ID != "" {
		e, err := s.o.Authority.Hosts.Get(ctx, q.ID)
		if errors.Is(err, bucket.ErrAbsent) || err == nil && q.State != "" && e.State != q.State {
			return &api.EnrolledAnswer{}, nil
		}
		if err != nil {
			return nil, err
		}
		return &api.EnrolledAnswer{Peels: []credential.Enrolled{*e}}, nil
	}
	all, err := s.o.Authority.Hosts.List(ctx)
	all = slices.DeleteFunc(all, func(e credential.Enrolled) bool { return q.State != "" && e.State != q.State })
	return &api.EnrolledAnswer{Peels: all}, err
}
