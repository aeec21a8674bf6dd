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
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
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
		if _, err := target.ParsePeelID(string(q.ID)); err != nil {
			return &api.EnrolledAnswer{}, nil // no host has such an ID
		}
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
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(e credential.Enrolled) bool {
		return q.State != "" && e.State != q.State || e.ID <= q.Cursor
	})
	return pageOfEnrolled(all)
}

// maxEnrolled bounds a page of peels that were enrolled, in bytes. The last one may exceed it by its 12 KiB.
const maxEnrolled = wire.MaxMessage / 2

// pageOfEnrolled returns the first of some peels.
func pageOfEnrolled(all []credential.Enrolled) (*api.EnrolledAnswer, error) {
	size := 0
	for i := range all {
		data, err := canon.Marshal(all[i])
		if err != nil {
			return nil, err
		}
		if size += len(data); size > maxEnrolled && i+1 < len(all) {
			return &api.EnrolledAnswer{Peels: all[:i+1], Next: all[i].ID}, nil
		}
	}
	return &api.EnrolledAnswer{Peels: all}, nil
}
