package apiserver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/dispatch"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// userRevoke ends a person's credentials, then what the person made, then the open jobs of all of them. Each step may
// be repeated: revoking again does what an earlier try left undone.
func (s *Server) userRevoke(ctx context.Context, from grants.Caller, q api.RevokeRequest) (*api.Revoked, error) {
	made, err := s.madeBy(ctx, q.Name)
	if err != nil {
		return nil, err
	}
	for _, m := range made {
		if !q.Keep && m.Kind == api.MadeUser && m.Name == from.User {
			return nil, fmt.Errorf(
				"%w: revoking %s would revoke %s too, whom %s made; keep what %s made, or have somebody else revoke",
				errRevokesCaller, q.Name, from.User, m.By, q.Name,
			)
		}
	}
	before, errBefore := s.o.Store.LiveIDs(ctx)
	revoke := s.o.Authority.Users.RevokeAll
	if q.Keep {
		revoke = s.o.Authority.Users.Revoke
	}
	u, errBus := revoke(ctx, q.Name, from.User)
	if u == nil {
		return nil, errBus
	}
	s.log.Info("user revoked", "user", u.Name, "role", u.Role, "by", from.User)
	r := &api.Revoked{User: *u, Made: made, Kept: q.Keep}
	users := map[string]bool{u.Name: true}
	if !q.Keep {
		r.Made, err = s.endMade(ctx, from, u.Name)
		for _, m := range r.Made {
			switch m.Kind {
			case api.MadeUser:
				users[m.Name] = true
			case api.MadeToken:
				users[(&credential.Token{Name: m.Name}).User()] = true
			}
		}
	}
	jobs, errJobs := s.cancelJobs(ctx, from, users, before, "its user was revoked")
	r.Jobs = jobs
	if err := errors.Join(errBus, err, errBefore, errJobs); err != nil {
		return nil, fmt.Errorf("%s is revoked, but not everything that had to end with it; revoke again: %w", u.Name,
			err)
	}
	return r, nil
}

const maxRevokeRounds = 10

// errRevokesCaller: the request would end the credential of its caller, who is not its target.
var errRevokesCaller = errors.New("not revoked")

// endMade ends what a revoked person made. Requests of the person may have been in flight during the revocation, so it
// repeats until nothing is left.
func (s *Server) endMade(ctx context.Context, from grants.Caller, name string) (ended []api.Made, err error) {
	for range maxRevokeRounds {
		made, err := s.madeBy(ctx, name)
		if err != nil || len(made) == 0 {
			return ended, err
		}
		for _, m := range made {
			if err = s.end(ctx, from, m); err != nil {
				err = fmt.Errorf("cannot end the %s %s: %w", m.Kind, m.Name, err)
				break
			}
			ended = append(ended, m)
		}
		if err = errors.Join(err, s.o.Authority.Users.Push(ctx)); err != nil { // once for all of them
			return ended, err
		}
	}
	return ended, fmt.Errorf("%s still made more after %d rounds", name, maxRevokeRounds)
}

// end ends one credential that a person made, and writes an entry to the audit log. The caller pushes that to the bus.
func (s *Server) end(ctx context.Context, from grants.Caller, m api.Made) (err error) {
	action := "user.revoke"
	switch m.Kind {
	case api.MadeToken:
		action = "token.revoke"
		_, err = s.o.Tokens.Revoke(ctx, m.Name, from.User)
	case api.MadeJoinToken:
		action = "join.revoke"
		_, err = s.o.Authority.Hosts.EndJoinToken(ctx, m.Name)
	case api.MadeUser:
		_, err = s.o.Authority.Users.StoreRevoked(ctx, m.Name, from.User, true)
	case api.MadeCredential:
		err = s.o.Authority.Users.StoreEnded(ctx, m.Name, m.By)
	}
	s.log.Info("ended with its maker", "kind", m.Kind, "name", m.Name, "made_by", m.By, "by", from.User, "err", err)
	s.o.Audit.Write(ctx, audit.Entry{Action: action, Target: m.Name}.Ended(err, false).By(from))
	return err
}

// madeBy returns what a person made that is in force, and what the users among it made.
func (s *Server) madeBy(ctx context.Context, name string) (made []api.Made, err error) {
	tokens, err := s.o.Tokens.List(ctx)
	if err != nil {
		return nil, err
	}
	joins, err := s.o.Authority.Hosts.JoinTokens(ctx)
	if err != nil {
		return nil, err
	}
	users, err := s.o.Authority.Users.Stored(ctx)
	if err != nil {
		return nil, err
	}
	makers := map[string]bool{name: true}
	for queue := []string{name}; len(queue) > 0; queue = queue[1:] {
		by := queue[0]
		for _, u := range users {
			switch {
			case u.CreatedBy == by && !makers[u.Name]:
				makers[u.Name] = true
				queue = append(queue, u.Name)
				if u.Revoked.IsZero() {
					made = append(made, api.Made{Kind: api.MadeUser, Name: u.Name, By: by})
				}
			case u.CreatedBy != by && u.Name != by && u.Revoked.IsZero() && u.HasKeyBy(by):
				made = append(made, api.Made{Kind: api.MadeCredential, Name: u.Name, By: by})
			}
		}
		for _, t := range tokens {
			if t.Revoked.IsZero() && (t.CreatedBy == by || t.RotatedBy == by) {
				made = append(made, api.Made{Kind: api.MadeToken, Name: t.Name, By: by})
			}
		}
		for _, t := range joins {
			if t.Uses > 0 && t.CreatedBy == by && time.Now().Before(t.Expires) {
				made = append(made, api.Made{Kind: api.MadeJoinToken, Name: t.Name, By: by})
			}
		}
	}
	return made, nil
}

// cancelJobs cancels the open jobs of some users. It returns those that are canceled, by ID, also if a dispatcher
// noticed the revocation first. before are the live jobs from before the revocation: such a job may have ended since.
func (s *Server) cancelJobs(ctx context.Context, from grants.Caller, users map[string]bool, before map[wire.JID]bool,
	reason string,
) (canceled []wire.JID, err error) {
	now, err := s.o.Store.LiveIDs(ctx)
	if err != nil {
		return nil, err
	}
	maps.Copy(now, before)
	var failed []error
	for _, jid := range slices.Sorted(maps.Keys(now)) {
		ok, err := s.cancelJob(ctx, from, users, jid, reason)
		if ok {
			canceled = append(canceled, jid)
		}
		failed = append(failed, err)
	}
	return canceled, errors.Join(failed...)
}

// cancelJob cancels an open job of one of the users. It reports whether the job is canceled, also by another request.
func (s *Server) cancelJob(ctx context.Context, from grants.Caller, users map[string]bool, jid wire.JID,
	reason string,
) (canceled bool, err error) {
	j, err := s.o.Store.GetRecord(ctx, jid)
	switch {
	case errors.Is(err, job.ErrNotFound):
		return false, nil // its claim was withdrawn
	case err != nil || !users[j.User]:
		return false, err
	case j.Status.Final():
		return j.Status == job.Canceled, nil
	}
	_, err = s.o.Dispatch.Cancel(ctx, jid, from.User, reason)
	switch {
	case errors.Is(err, dispatch.ErrCanceled):
		return true, nil
	case errors.Is(err, dispatch.ErrEnded):
		if j, err = s.o.Store.GetRecord(ctx, jid); err != nil {
			return false, err
		}
		return j.Status == job.Canceled, nil
	}
	s.o.Audit.Write(ctx, audit.Entry{Action: "job.cancel", JID: jid}.Ended(err, false).By(from))
	return err == nil, err
}

func (s *Server) tokenRevoke(ctx context.Context, from grants.Caller, q api.TokenName) (*api.TokenRevoked, error) {
	before, errBefore := s.o.Store.LiveIDs(ctx)
	t, err := s.o.Tokens.Revoke(ctx, q.Name, from.User)
	if err != nil {
		return nil, err
	}
	s.log.Info("token revoked", "token", t.Name, "user", from.User)
	jobs, err := s.cancelJobs(ctx, from, map[string]bool{t.User(): true}, before, "its token was revoked")
	if err = errors.Join(errBefore, err); err != nil {
		return nil, fmt.Errorf("the token %s is revoked, but not all of its jobs are canceled; revoke again: %w",
			t.Name, err)
	}
	return &api.TokenRevoked{Token: *t, Jobs: jobs}, nil
}

// endIfRevoked ends the credential that the caller has just made, if the caller was revoked meanwhile or that cannot be
// read. A revocation is stored before it looks for what the person made, so either it or this check finds everything.
func (s *Server) endIfRevoked(ctx context.Context, from grants.Caller, kind api.MadeKind, name string) error {
	err := s.o.Users.CheckNotRevoked(ctx, from.User)
	if err == nil {
		return nil
	}
	err = errors.Join(err, s.end(ctx, from, api.Made{Kind: kind, Name: name, By: from.User}))
	if kind == api.MadeUser || kind == api.MadeCredential {
		err = errors.Join(err, s.o.Authority.Users.Push(ctx))
	}
	return err
}
