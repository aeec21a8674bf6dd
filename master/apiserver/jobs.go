package apiserver

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const maxActive = 200 // jobs in the answer of jobActive

// JobList returns a page of jobs, newest first.
func (s *Server) JobList(ctx context.Context, q job.Query) (*job.JobsPage, error) {
	if q.Status != "" && !q.Status.Known() {
		return nil, fmt.Errorf("%w: no job has the status %q", errInvalid, q.Status)
	}
	if q.Cursor != "" {
		if _, err := wire.ParseJID(string(q.Cursor)); err != nil {
			return nil, fmt.Errorf("%w: cannot list what is before: %w", errInvalid, err)
		}
	}
	return s.o.Store.List(ctx, q)
}

// JobShow returns a job with its arguments, and its targets if there are at most 500. It reads only the record, because
// followers call it often. [Server.JobReturns] lists all targets.
func (s *Server) JobShow(ctx context.Context, q api.JobRequest) (*job.Job, error) {
	return s.o.Store.GetRecord(ctx, q.JID)
}

// JobReturns returns a page of a job's targets. Offline targets that have not returned are unreachable.
func (s *Server) JobReturns(ctx context.Context, q api.JobRequest) (*job.RowsPage, error) {
	page, err := s.o.Store.Rows(ctx, q.JID, q.Cursor)
	if err != nil {
		return nil, err
	}
	for i := range page.Rows {
		if row := &page.Rows[i]; row.State == job.RowWaiting && s.offline(row.Peel) {
			row.State = job.RowUnreachable
		}
	}
	return page, nil
}

// offline reports whether a peel is known not to be online.
func (s *Server) offline(id target.PeelID) bool {
	_, online := s.o.Fleet.Presence(id)
	return !online && !s.o.Fleet.Unknown(id)
}

// jobCancel cancels a job. A user with limits may cancel only own jobs.
func (s *Server) jobCancel(ctx context.Context, from grants.Caller, q api.JobRequest) (*job.Job, error) {
	if from.Role.IsNarrow() {
		j, err := s.o.Store.GetRecord(ctx, q.JID)
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

// jobActive reads the records of the jobs that have not ended, newest first, as many as fit into a reply.
func (s *Server) jobActive(ctx context.Context, _ api.None) (*api.ActiveJobs, error) {
	live, unreadable, err := s.o.Store.ListLive(ctx)
	if err != nil {
		return nil, err
	}
	for _, err := range unreadable {
		s.log.Warn("live job not listed", "err", err)
	}
	live = slices.DeleteFunc(live, func(j job.Job) bool { return j.Status.Final() })
	sorting.Func(live, func(a, b job.Job) int { return strings.Compare(string(b.JID), string(a.JID)) })
	return &api.ActiveJobs{Total: len(live), Jobs: append([]job.Job{}, live[:min(len(live), maxActive)]...)}, nil
}
