package propose

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/master/bus"
	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/plan/edit"
	"github.com/seed-c01c3da5/zester/settings"
)

const (
	deleteTask  = "schedules"      // in the bucket leases
	deletePause = time.Minute      // between two looks at the entries with delete_after_run
	deleteAgain = 10 * time.Minute // after a look that failed
	spentKey    = "spent."         // and a digest, in the bucket schedules
)

// master is the author of commits that no person asked for.
const master = "zester"

// errEdited: an entry is no longer as it was when its removal was decided.
var errEdited = errors.New("somebody changed it before it was removed")

// deleteSpent removes entries with delete_after_run that ran, whenever this master holds the lease, until ctx ends.
func (on *session) deleteSpent(ctx context.Context) error {
	if err := on.fleet.WaitReady(ctx); err != nil { // else peels would be missing
		return err
	}
	return bus.Lead(ctx, on.js, bus.Task{Name: deleteTask, Owner: on.nc.Opts.Name, Log: on.o.Log}, on.deleteLoop)
}

func (on *session) deleteLoop(ctx context.Context, mayWrite func() error) error {
	for {
		pause := deletePause
		if err := on.deleteStep(ctx, mayWrite); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			on.o.Log.Warn("entries with delete_after_run are looked at again later", "in", deleteAgain, "err", err)
			pause = deleteAgain
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// deleteStep looks once at all entries with delete_after_run of the revision in force: nobody has judged a newer one.
// What happens to one does not depend on errors about others.
func (on *session) deleteStep(ctx context.Context, mayWrite func() error) error {
	records := map[string]*SpentRecord{}
	err := bucket.Read(ctx, on.js, bucketSchedules, spentKey+"*", func(key string, value []byte) error {
		r := &SpentRecord{}
		records[key] = r
		return json.Unmarshal(value, r)
	})
	if err != nil {
		return fmt.Errorf("cannot read the bucket %s: %w", bucketSchedules, err)
	}
	accepted, err := on.accepted(ctx)
	if err != nil || len(accepted) == 0 {
		return err
	}
	repo, err := on.reader.at(ctx, accepted[0])
	if err != nil {
		return err
	}
	var compiled *plan.Plan // when it is needed
	var errs []error
	for _, e := range repo.Entries {
		if !SpentConcerns(e.Entry) {
			continue
		}
		key := keyOfSpent(e)
		was, now := records[key], time.Now()
		delete(records, key)
		var peels []SpentPeel
		if NeedsPeels(was, e.Entry, now) {
			if compiled == nil {
				if compiled, err = on.compiler.Compile(repo.With(nil), on.fleet.Index()); err != nil {
					return err
				}
			}
			if peels, err = on.reported(ctx, compiled, e); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		errs = append(errs, on.settle(ctx, mayWrite, key, was, DecideSpent(was, e.Entry, e.Pos.File, peels, now)))
	}
	for key := range records { // of entries that are gone
		errs = append(errs, on.forget(ctx, mayWrite, key))
	}
	return errors.Join(errs...)
}

func keyOfSpent(e *plan.DeclaredEntry) string {
	sum := sha256.Sum256([]byte(e.Pos.File + "\x00" + e.Entry.Name))
	return spentKey + hex.EncodeToString(sum[:16])
}

// settle stores the next record of an entry, and then removes the entry if the record says so.
func (on *session) settle(ctx context.Context, mayWrite func() error, key string, was *SpentRecord,
	next SpentRecord,
) error {
	if was == nil || *was != next {
		if err := on.storeSpent(ctx, mayWrite, key, next); err != nil {
			return err
		}
		if next.State == SpentLeft {
			on.tellLeft(ctx, next)
		}
	}
	if next.State != SpentRemoving {
		return nil
	}
	out, err := on.removeSpent(ctx, mayWrite, next)
	switch {
	case err == nil && out != nil && out.Proposed:
		next.State = SpentProposed
	case errors.Is(err, errEdited), errors.Is(err, edit.ErrByHand):
		next.State, next.Why = SpentLeft, err.Error()
		on.tellLeft(ctx, next)
	case errors.Is(err, errUnsettled):
		return nil // the record says that it is to be removed
	case err != nil:
		return fmt.Errorf("cannot remove %s of %s, which has run: %w", next.Entry, next.File, err)
	default:
		return on.forget(ctx, mayWrite, key)
	}
	return on.storeSpent(ctx, mayWrite, key, next)
}

// storeSpent replaces a record. Only the holder of the lease writes records.
func (on *session) storeSpent(ctx context.Context, mayWrite func() error, key string, r SpentRecord) error {
	if err := mayWrite(); err != nil {
		return err
	}
	if _, err := on.store.Put(ctx, key, marshal(r)); err != nil {
		return fmt.Errorf("cannot store that %s is %s: %w", r.Entry, r.State, err)
	}
	return nil
}

func (on *session) forget(ctx context.Context, mayWrite func() error, key string) error {
	if err := mayWrite(); err != nil {
		return err
	}
	return on.store.Purge(ctx, key, jetstream.PurgeTTL(time.Hour))
}

// tellLeft says that an entry stays in the repo.
func (on *session) tellLeft(ctx context.Context, r SpentRecord) {
	on.o.Log.Warn("an entry with delete_after_run stays in the config repo", "entry", r.Entry, "file", r.File,
		"why", r.Why)
	e := audit.Entry{Action: "schedule.remove", Target: r.Entry, User: master}
	on.audit.Write(ctx, e.Ended(errors.New(r.File+" stays: "+r.Why), true))
}

// removeSpent removes an entry after the changes that wait, if the entry is as it was. The result is nil if there is no
// such entry any more.
func (on *session) removeSpent(ctx context.Context, mayWrite func() error,
	r SpentRecord,
) (out *api.ScheduleChanged, err error) {
	stopped := on.changes.Do(ctx, func() {
		if err = mayWrite(); err != nil {
			return
		}
		ctx, cancel := context.WithTimeout(ctx, changeLimit)
		defer cancel()
		out, err = on.make(ctx, intent{
			user:    master,
			request: []byte(deleteTask + r.File + "\x00" + r.Hash),
			unasked: true,
			title:   "remove " + r.Entry,
			body:    r.Why,
			on: func(repo *edit.Repo) (edited, error) {
				files, err := withoutSpent(repo, r)
				return edited{entry: r.Entry, files: files}, err
			},
		})
	})
	switch {
	case stopped != nil:
		return nil, stopped
	case errors.Is(err, errGone):
		return nil, nil
	case err != nil:
		return out, err
	}
	on.o.Log.Info("an entry with delete_after_run has run and is removed", "entry", r.Entry, "file", r.File,
		"commit", out.Commit, "branch", out.Branch, "url", out.URL)
	on.audit.Write(ctx, audit.Entry{Action: "schedule.remove", Target: r.Entry, User: master}.Ended(nil, false))
	return out, nil
}

// withoutSpent returns the files of a revision without an entry.
func withoutSpent(repo *edit.Repo, r SpentRecord) (map[string][]byte, error) {
	i := slices.IndexFunc(repo.Entries, func(e *plan.DeclaredEntry) bool {
		return e.Entry.Name == r.Entry && e.Pos.File == r.File
	})
	switch {
	case i < 0:
		return nil, errGone
	case repo.Entries[i].Entry.Hash() != r.Hash:
		return nil, errEdited
	}
	return repo.Remove(repo.Entries[i])
}

// errGone: the entry was removed by an earlier commit.
var errGone = errors.New("there is no such entry")

// reported returns what the peels that have an entry report about it.
func (on *session) reported(ctx context.Context, p *plan.Plan, e *plan.DeclaredEntry) ([]SpentPeel, error) {
	var subjects []string
	for id, of := range p.Peels {
		if of.Schedule[e.Entry.Name] != nil && of.Entries[e.Entry.Name].File == e.Pos.File {
			subjects = append(subjects, wire.ScheduleStateOf(id.Wire()))
		}
	}
	slices.Sort(subjects)
	reports, err := bucket.Newest(ctx, on.nc, wire.StreamScheduleState, subjects)
	if err != nil {
		return nil, fmt.Errorf("cannot read the reports on %s: %w", e.Entry.Name, err)
	}
	peels := make([]SpentPeel, len(subjects))
	for i, subject := range subjects {
		m, known := reports[subject]
		if !known {
			continue
		}
		if peels[i], err = on.peelOf(ctx, &nats.Msg{Subject: subject, Data: m.Data}, e); err != nil {
			return nil, err
		}
	}
	return peels, nil
}

// peelOf returns what a peel reports about an entry. A report with other settings than the newest does not have the
// entry.
func (on *session) peelOf(ctx context.Context, msg *nats.Msg, e *plan.DeclaredEntry) (p SpentPeel, err error) {
	r, err := ledger.Decode(msg)
	if err != nil {
		return p, nil // as if it had not reported; coverage counts it as refused
	}
	p.Reported = r.Time
	doc, _, err := settings.NewStore(on.js).Get(ctx, r.Peel)
	if err != nil || doc == nil || r.Digest != string(doc.Digest) {
		return p, err
	}
	names, err := doc.Entries()
	if err != nil {
		return p, err
	}
	if at := r.Entry(e.Entry.Name, names); at != nil && at.Name == "" {
		p.Running = at.Running > 0
		p.Ran = !at.Started.Before(e.Entry.Clock.At[0]) && !at.Ended.Before(at.Started)
	}
	return p, nil
}
