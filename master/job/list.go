package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/seed-c01c3da5/zester/master/auth/access"
	"github.com/seed-c01c3da5/zester/peel/catalogue"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A Query says which jobs to list. Empty fields select all.
type Query struct {
	Function string        `json:"function,omitempty"`
	User     string        `json:"user,omitempty"`
	Status   Status        `json:"status,omitempty"`
	Target   target.PeelID `json:"target,omitempty"`   // a peel that the job ran on
	Schedule string        `json:"schedule,omitempty"` // name of the schedule entry that made it
	Commit   string        `json:"commit,omitempty"`   // that last changed the entry, or the beginning of its hash
	Asked    bool          `json:"asked,omitempty"`    // leave out runs of schedules
	// leave out requested jobs whose function only reads, such as schedule.list
	NoReads bool     `json:"no_reads,omitempty"`
	Cursor  wire.JID `json:"cursor,omitempty"` // older than this one
	Limit   int      `json:"limit,omitempty"`  // jobs in a page; 0 means 50, 500 is the most
	View    *View    `json:"-"`                // leave out what it does not show; nil: it shows all jobs
}

// A View says which jobs a caller may see: own ones, and those whose targets are all among Peels, which are some peels.
type View struct {
	User  string
	Peels access.Peels
}

// A JobsPage is some jobs, newest first. It may hold none and not be the last.
type JobsPage struct {
	Jobs []Job    `json:"jobs"`
	Next wire.JID `json:"next,omitempty" doc:"The cursor of the next page; absent on the last. Pages may be empty."`
}

const (
	defaultLimit = 50
	maxLimit     = 500
	maxLooked    = 2000      // records that are read for one page
	maxTargets   = 500_000   // targets that are read for one page, beside those in the records
	maxListed    = 384 << 10 // estimated bytes of a page
	listBatch    = 64
)

// List reads a page of jobs, newest first by ID. It reads only the records that the page needs, and not more than a
// bounded number of them and of the targets that are stored beside them. Jobs come without arguments, and with their
// targets only where these are a handful.
func (s *Store) List(ctx context.Context, q Query) (page *JobsPage, err error) {
	defer wrap(&err, "cannot list jobs")
	keys, live, err := s.older(ctx, q.Cursor, maxLooked+1)
	if err != nil {
		return nil, err
	}
	limit := q.Limit
	if limit <= 0 {
		limit = defaultLimit
	}
	limit = min(limit, maxLimit)
	page = &JobsPage{}
	looked, size, read := 0, 0, 0
	var oldest wire.JID // that was looked at
	wasShown := false
	for batch := range slices.Chunk(keys, listBatch) {
		jobs, err := s.readJobs(ctx, batch, live)
		if err != nil {
			return nil, err
		}
		for i, j := range jobs {
			if len(page.Jobs) == limit || looked == maxLooked || size > maxListed || read >= maxTargets {
				if page.Next = oldest; q.View != nil && !wasShown {
					page.Next = oldest.Lowest() // the ID itself is of a job that is not shown
				}
				return page, nil
			}
			looked++
			oldest = batch[i]
			wasShown = false
			if j == nil {
				continue
			}
			ok, err := s.selects(ctx, &q, j, &read)
			if err == nil && ok {
				ok, err = s.shows(ctx, q.View, j, &read)
			}
			if err != nil {
				return nil, err
			}
			if wasShown = ok; ok {
				listed := listing(j)
				size += listedSize(&listed)
				page.Jobs = append(page.Jobs, listed)
			}
		}
	}
	return page, nil
}

// Shows reports whether a view, which may be nil, shows a job, whose record may lack targets.
func (s *Store) Shows(ctx context.Context, v *View, j *Job) (bool, error) {
	read := 0
	return s.shows(ctx, v, j, &read)
}

// shows adds to read how many targets it had to read.
func (s *Store) shows(ctx context.Context, v *View, j *Job, read *int) (ok bool, err error) {
	switch {
	case v == nil, j.User == v.User && !j.Scheduled():
		return true, nil
	case j.TargetCount == 0 || j.TargetCount > len(v.Peels.IDs):
		return false, nil
	}
	err = s.withTargets(ctx, j, func(j *Job) error {
		all := j.Targets
		if len(all) < j.TargetCount {
			*read += j.TargetCount
			var err error
			if all, err = s.readTargets(ctx, j); err != nil {
				return err
			}
		}
		ok = !slices.ContainsFunc(all, func(id target.PeelID) bool { return !v.Peels.Has(id) })
		return nil
	})
	return ok, err
}

// older returns the n newest IDs of jobs before one, the newest first, and which jobs live; before may be empty. The
// live jobs are read first, so that one that ends meanwhile is not missed.
func (s *Store) older(ctx context.Context, before wire.JID,
	n int,
) (jids []wire.JID, live map[wire.JID]bool, err error) {
	if live, err = s.LiveIDs(ctx); err != nil {
		return nil, nil, err
	}
	if jids, err = retryTransient(ctx, func() ([]wire.JID, error) {
		return s.index.Older(ctx, before, n)
	}); err != nil {
		return nil, nil, err
	}
	for jid := range live {
		if before == "" || jid < before {
			jids = append(jids, jid)
		}
	}
	sorting.Func(jids, func(a, b wire.JID) int { return cmp.Compare(b, a) })
	jids = slices.Compact(jids)
	return jids[:min(n, len(jids))], live, nil
}

// fewTargets is how many targets a listed job shows.
const fewTargets = 8

func listing(j *Job) Job {
	l := j.Summary()
	l.LastReturn = 0 // a sequence counts the returns of all peels
	if j.TargetCount <= fewTargets {
		l.Targets = j.Targets
	}
	return l
}

// listedSize estimates the encoded size of a listed job, from above.
func listedSize(j *Job) int {
	size := 512 + len(j.StateID) + len(j.TargetExpr) + len(j.Target) + len(j.Targets)*(target.MaxIDLength+2)
	for k, v := range j.Metadata {
		size += len(k) + len(v) + 8
	}
	return size
}

// readJobs reads records; one that has aged out since its key was read is nil.
func (s *Store) readJobs(ctx context.Context, jids []wire.JID, live map[wire.JID]bool) ([]*Job, error) {
	jobs := make([]*Job, len(jids))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(inFlight)
	for i, jid := range jids {
		g.Go(func() error {
			var j *Job
			var err error
			if live[jid] {
				j, err = s.get(ctx, jid)
			} else {
				j, err = s.getFrom(ctx, s.jobs, jid)
			}
			if errors.Is(err, ErrNotFound) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("cannot read job %s: %w", jid, err)
			}
			jobs[i] = j
			return nil
		})
	}
	return jobs, g.Wait()
}

// isRead reports whether the job was requested and its function only reads. A run of a schedule is a result, whatever
// its function.
func (j *Job) isRead() bool {
	f, _ := catalogue.Lookup(j.Function)
	return f.ReadOnly && !j.Scheduled()
}

// selects adds to read how many targets it had to read.
func (s *Store) selects(ctx context.Context, q *Query, j *Job, read *int) (bool, error) {
	if q.Function != "" && j.Function != q.Function ||
		q.User != "" && j.User != q.User ||
		q.Status != "" && j.Status != q.Status ||
		q.Schedule != "" && j.Metadata[MetaSchedule] != q.Schedule ||
		q.Asked && j.Scheduled() ||
		q.NoReads && j.isRead() ||
		q.Commit != "" && !strings.HasPrefix(j.Metadata[MetaCommit], q.Commit) {
		return false, nil
	}
	if q.Target == "" {
		return true, nil
	}
	var found bool
	err := s.withTargets(ctx, j, func(j *Job) error {
		ids, _, err := s.targetsFrom(ctx, j, q.Target)
		if found = err == nil && len(ids) > 0 && ids[0] == q.Target; len(j.Targets) < j.TargetCount {
			*read += chunkTargets
		} else if j.TargetCount > inlineTargets {
			*read += j.TargetCount
		}
		return err
	})
	return found, err
}
