package apiserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const maxActive = 200 // jobs in the answer of jobActive

// JobList returns a page of the jobs that the caller may see, newest first.
func (s *Server) JobList(ctx context.Context, from grants.Caller, q job.Query) (*job.JobsPage, error) {
	if q.Status != "" && !q.Status.Known() {
		return nil, fmt.Errorf("%w: no job has the status %q", errInvalid, q.Status)
	}
	if q.Cursor != "" {
		if _, err := wire.ParseJID(string(q.Cursor)); err != nil {
			return nil, fmt.Errorf("%w: cannot list what is before: %w", errInvalid, err)
		}
	}
	v, err := s.view(ctx, from)
	if err != nil {
		return nil, err
	}
	q.View = v
	return s.o.Store.List(ctx, q)
}

// view returns which jobs a caller may see; nil: all.
func (s *Server) view(ctx context.Context, from grants.Caller) (*job.View, error) {
	peels, err := s.within(ctx, from)
	if err != nil || peels.All {
		return nil, err
	}
	return &job.View{User: from.User, Peels: peels}, nil
}

// JobShow returns a job with its arguments, and its targets if there are at most 500. It reads only the record, because
// followers call it often. [Server.JobReturns] lists all targets. A job that the caller may not see is not found.
func (s *Server) JobShow(ctx context.Context, from grants.Caller, q api.JobRequest) (*job.Job, error) {
	j, err := s.o.Store.GetRecord(ctx, q.JID)
	if err == nil {
		err = s.CheckShown(ctx, from, j)
	}
	if err != nil {
		return nil, err
	}
	j.LastReturn = 0 // a sequence counts the returns of all peels
	return j, nil
}

// CheckShown returns [job.ErrNotFound] if rules do not show a job to a caller. It reads the targets of the job only if
// j lacks some.
func (s *Server) CheckShown(ctx context.Context, from grants.Caller, j *job.Job) error {
	v, err := s.view(ctx, from)
	if err != nil {
		return err
	}
	isShown, err := s.o.Store.Shows(ctx, v, j)
	if err == nil && !isShown {
		err = fmt.Errorf("cannot read job %s: %w", j.JID, job.ErrNotFound)
	}
	return err
}

// JobReturns returns a page of a job's targets. Offline targets that have not returned are unreachable.
func (s *Server) JobReturns(ctx context.Context, from grants.Caller, q api.JobRequest) (*job.RowsPage, error) {
	if _, err := s.JobShow(ctx, from, q); err != nil {
		return nil, err
	}
	return s.returns(ctx, q)
}

// returns is [Server.JobReturns] of a job that its caller may see.
func (s *Server) returns(ctx context.Context, q api.JobRequest) (*job.RowsPage, error) {
	page, err := s.o.Store.Rows(ctx, q.JID, q.Cursor)
	if err != nil {
		return nil, err
	}
	page.Job.LastReturn = 0
	for i := range page.Rows {
		if row := &page.Rows[i]; row.State == job.RowWaiting && s.offline(row.Peel) {
			row.State = job.RowUnreachable
		}
	}
	if q.Keys && s.o.Keys != nil {
		return page, s.addKeys(ctx, page)
	}
	return page, nil
}

// addKeys adds the keys of the peels with a receipt.
func (s *Server) addKeys(ctx context.Context, page *job.RowsPage) (err error) {
	page.Keys = map[target.PeelID][]credential.PeelKey{}
	for _, row := range page.Rows {
		if row.Return == nil || row.Return.Receipt == nil {
			continue
		}
		if page.Keys[row.Peel], err = s.o.Keys(ctx, row.Peel); err != nil {
			return fmt.Errorf("cannot read the keys of %s: %w", row.Peel, err)
		}
	}
	return nil
}

// offline reports whether a peel is known not to be online.
func (s *Server) offline(id target.PeelID) bool {
	_, online := s.o.Fleet.Presence(id)
	return !online && !s.o.Fleet.Unknown(id)
}

// jobCancel cancels a job. A user with limits may cancel only own jobs.
func (s *Server) jobCancel(ctx context.Context, from grants.Caller, q api.JobRequest) (*job.Job, error) {
	if from.Role.IsNarrow() {
		j, err := s.JobShow(ctx, from, q)
		if err != nil {
			return nil, err
		}
		if j.User != from.User {
			return nil, fmt.Errorf("cannot cancel job %s: %w: it is of %s", q.JID, grants.ErrNotAllowed, j.User)
		}
	}
	j, err := s.o.Dispatch.Cancel(ctx, q.JID, from.User, "")
	if err != nil {
		return nil, err
	}
	summary := j.Summary()
	return &summary, nil
}

// jobActive reads the records of the jobs that have not ended and that the caller may see, newest first, as many as fit
// into a reply.
func (s *Server) jobActive(ctx context.Context, from grants.Caller, _ api.None) (*api.ActiveJobs, error) {
	v, err := s.view(ctx, from)
	if err != nil {
		return nil, err
	}
	live, unreadable, err := s.o.Store.ListLive(ctx)
	if err != nil {
		return nil, err
	}
	for _, err := range unreadable {
		s.log.Warn("live job not listed", "err", err)
	}
	live = slices.DeleteFunc(live, func(j job.Job) bool { return j.Status.Final() })
	if live, err = s.shown(ctx, v, live); err != nil {
		return nil, err
	}
	sorting.Func(live, func(a, b job.Job) int { return strings.Compare(string(b.JID), string(a.JID)) })
	return &api.ActiveJobs{Total: len(live), Jobs: append([]job.Job{}, live[:min(len(live), maxActive)]...)}, nil
}

// shown returns the jobs that the caller of a view may see. The jobs come without their targets, which it reads.
func (s *Server) shown(ctx context.Context, v *job.View, jobs []job.Job) (shown []job.Job, err error) {
	if v == nil {
		return jobs, nil
	}
	for i := range jobs {
		j, err := s.o.Store.GetRecord(ctx, jobs[i].JID)
		if errors.Is(err, job.ErrNotFound) {
			continue
		}
		isShown := false
		if err == nil {
			isShown, err = s.o.Store.Shows(ctx, v, j)
		}
		if err != nil {
			return nil, err
		}
		if isShown {
			shown = append(shown, jobs[i])
		}
	}
	return shown, nil
}
