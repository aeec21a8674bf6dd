package demo

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// waitLimit bounds each wait of the demo.
const waitLimit = 20 * time.Second

// A step is one action of an operator.
type step struct {
	name string
	run  func() error
}

func (s *session) steps(ctx context.Context) []step {
	c := s.commits()
	return []step{
		{"bring the first revision to the fleet", func() error { return s.firstSync(ctx) }},
		{"ask every peel for its schedule: settings.get schedule", func() error { return s.showSchedules(ctx) }},
		{"commit a state, predict it and apply it: zester '" + string(s.o.Peels[0]) + "' state.apply " +
			stateRef, func() error {
			return s.applyState(ctx)
		}},
		{"commit a change: " + c.summary, func() error { return s.change(ctx, c) }},
		{"wait for a scheduled run and find it in job list", func() error { return s.scheduledRun(ctx, c) }},
		{"dispatch: zester '" + c.expr + "' cmd.run command='uname -sr'", func() error { return s.dispatch(ctx, c) }},
		{"commit something broken", func() error { return s.commitMistake(ctx, c) }},
		{"revert it", func() error { return s.revert(ctx, c) }},
		{"commit a backup that fails, and see it: zester coverage --entry " + brokenEntry, func() error {
			return s.coverage(ctx)
		}},
	}
}

func (s *session) firstSync(ctx context.Context) error {
	head, err := s.work.Head()
	if err != nil {
		return err
	}
	sync, err := s.until(ctx, gitrepo.Hash(head), len(s.o.Peels))
	if err != nil {
		return err
	}
	s.say("   revision %s %q by %s\n", sync.LastGood.Commit.Short(), sync.LastGood.Message, sync.LastGood.Author)
	s.say("   %d of %d peels applied\n", sync.Counts.Applied, sync.Counts.Peels)
	return nil
}

// until waits until a commit is in force and applied on peels peels. A refused commit is an error.
func (s *session) until(ctx context.Context, head gitrepo.Hash, peels int) (*status.Sync, error) {
	return s.watch(ctx, func(sync *status.Sync) (bool, error) {
		commit := settings.Commit(head.String())
		if sync.LastAttempted == commit && sync.LastGood.Commit != commit && len(sync.Errors) > 0 {
			return false, errors.New("the revision is refused:\n" + strings.Join(sync.Errors, "\n"))
		}
		return sync.LastGood.Commit == commit && sync.Counts.Peels == peels && sync.Counts.Applied == peels, nil
	})
}

// watch polls the status until done returns true or an error.
func (s *session) watch(ctx context.Context, isDone func(*status.Sync) (bool, error)) (*status.Sync, error) {
	ctx, cancel := context.WithTimeout(ctx, waitLimit)
	defer cancel()
	var last *status.Sync
	for {
		sync, err := api.SyncStatus.Ask(ctx, s.client, api.None{})
		if err == nil {
			last = sync
			if done, err := isDone(sync); done || err != nil {
				return sync, err
			}
		}
		select {
		case <-ctx.Done():
			return nil, timeoutError(ctx, err, last)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// timeoutError returns the error of a wait that has ended.
func timeoutError(ctx context.Context, err error, last *status.Sync) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	if last == nil {
		return fmt.Errorf("no settings service answers after %s: %w", waitLimit, err)
	}
	reasons := []string{fmt.Sprintf("not reached after %s: %d of %d peels applied, %d failed",
		waitLimit, last.Counts.Applied, last.Counts.Peels, last.Counts.Failed)}
	for _, c := range last.Conditions {
		if c.Status && c.Message != "" {
			reasons = append(reasons, c.Message)
		}
	}
	return errors.New(strings.Join(reasons, "; "))
}

// ask dispatches a function and returns the returns of all selected peels.
func (s *session) ask(ctx context.Context, expr, function string,
	args map[string]any,
) (map[target.PeelID]*wire.Return, error) {
	resolved, err := s.client.Resolve(ctx, expr)
	if err != nil {
		return nil, err
	}
	follower, err := s.client.Start(ctx, job.Spec{
		JID:        wire.NewJID(),
		Function:   function,
		Args:       args,
		Targets:    resolved.Peels,
		TargetExpr: expr,
		Timeout:    waitLimit,
	})
	if err != nil {
		return nil, err
	}
	defer follower.Close()
	returns := map[target.PeelID]*wire.Return{}
	for event, err := range follower.Events(ctx) {
		if err != nil {
			return nil, err
		}
		if event.Return != nil {
			returns[event.Peel] = event.Return
		}
	}
	for _, id := range resolved.Peels {
		if returns[id] == nil {
			return nil, fmt.Errorf("%s did not answer in %s", id, waitLimit)
		}
	}
	return returns, nil
}

func (s *session) showSchedules(ctx context.Context) error {
	returns, err := s.ask(ctx, "*", "settings.get", map[string]any{"key": "schedule"})
	if err != nil {
		return err
	}
	for _, id := range s.o.Peels {
		r := returns[id]
		switch {
		case r == nil:
			return fmt.Errorf("%s is not known", id)
		case r.Success:
			s.say("   %-8s %s\n", id, strings.Join(entries(r.Data), " "))
		case s.o.Repo != "": // a peel may have no schedule there
			s.say("   %-8s %s\n", id, r.Error)
		default:
			return fmt.Errorf("%s: %s", id, r.Error)
		}
	}
	return nil
}

// entries returns the names of the schedule entries in an answer of settings.get schedule.
func entries(answer any) []string {
	fields, _ := answer.(map[string]any)
	schedule, _ := fields["settings"].(map[string]any)
	return slices.Sorted(maps.Keys(schedule))
}

// change commits the change and prints the result of each peel.
func (s *session) change(ctx context.Context, c commits) error {
	before, err := s.client.SyncPeels(ctx)
	if err != nil {
		return err
	}
	start := time.Now()
	sync, err := s.commit(ctx, c.message, c.change)
	if err != nil {
		return err
	}
	s.say("   %s %q: from the commit to applied on %d of %d peels in %s, documents written: %d\n",
		sync.LastGood.Commit.Short(), c.message, sync.Counts.Applied, sync.Counts.Peels, since(start), sync.Writes)
	after, err := s.client.SyncPeels(ctx)
	if err != nil {
		return err
	}
	generations := map[target.PeelID]uint64{}
	for _, p := range before {
		generations[p.Peel] = p.Generation
	}
	for _, p := range after {
		if p.Generation == generations[p.Peel] {
			s.say("   %-8s untouched: nothing was written for it\n", p.Peel)
			continue
		}
		s.say("   %-8s started %d, stopped %d, changed %d, kept %d\n", p.Peel, p.Started, p.Stopped, p.Changed, p.Kept)
	}
	return nil
}

// commit makes a commit and waits until it is in force on every peel.
func (s *session) commit(ctx context.Context, message string, files map[string][]byte) (*status.Sync, error) {
	head, err := s.work.Commit(message, files, ada)
	if err != nil {
		return nil, err
	}
	return s.until(ctx, gitrepo.Hash(head), len(s.o.Peels))
}

func (s *session) scheduledRun(ctx context.Context, c commits) error {
	ctx, cancel := context.WithTimeout(ctx, waitLimit)
	defer cancel()
	for {
		page, err := api.JobList.Ask(ctx, s.client, job.Query{Schedule: c.entry, Limit: 1})
		if err != nil {
			return err
		}
		if len(page.Jobs) > 0 {
			j := page.Jobs[0]
			s.say("   job %s %s on %s: %s\n", j.JID, j.Function, j.Targets[0], j.Status)
			s.say("   entry %s, from %s at commit %.8s by %s\n", j.Metadata[job.MetaSchedule], j.Metadata[job.MetaFile],
				j.Metadata[job.MetaCommit], j.Metadata[job.MetaAuthor])
			if j.Status != job.Complete {
				return fmt.Errorf("the run of %s is %s", c.entry, j.Status)
			}
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no run of %s was reported: %w", c.entry, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (s *session) dispatch(ctx context.Context, c commits) error {
	returns, err := s.ask(ctx, c.expr, "cmd.run", map[string]any{"command": "uname -sr"})
	if err != nil {
		return err
	}
	for _, id := range s.o.Peels {
		r := returns[id]
		if r == nil {
			continue
		}
		if !r.Success {
			return fmt.Errorf("%s: %s", id, r.Error)
		}
		data, _ := r.Data.(map[string]any)
		s.say("   %-8s %s\n", id, strings.TrimSpace(fmt.Sprint(data["stdout"])))
	}
	return nil
}

// applyState commits a state for the first peel, runs it in test mode and for real, and reads the file that it made.
func (s *session) applyState(ctx context.Context) error {
	peel, file := s.o.Peels[0], s.path("motd")
	if _, err := s.commit(ctx, "A message of the day", stateFiles(peel, file)); err != nil {
		return err
	}
	for _, test := range []bool{true, false} {
		returns, err := s.ask(ctx, string(peel),
			"state.apply", map[string]any{"refs": []string{stateRef}, "test": test})
		if err != nil {
			return err
		}
		r := returns[peel]
		if r == nil || !r.Success {
			return fmt.Errorf("%s has not applied the state: %+v", peel, r)
		}
		data, _ := r.Data.(map[string]any)
		counts, err := json.Marshal(data["counts"])
		if err != nil {
			return err
		}
		s.say("   %-8s test=%v: %s\n", peel, test, counts)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	s.say("   %s on %s: %s", file, peel, content)
	return nil
}

func (s *session) commitMistake(ctx context.Context, c commits) error {
	before, err := api.SyncStatus.Ask(ctx, s.client, api.None{})
	if err != nil {
		return err
	}
	head, err := s.work.Commit("A slip of the keyboard", c.broken, ada)
	if err != nil {
		return err
	}
	sync, err := s.watch(ctx, func(sync *status.Sync) (bool, error) {
		commit := settings.Commit(head.String())
		return sync.LastAttempted == commit && (len(sync.Errors) > 0 || sync.LastGood.Commit == commit), nil
	})
	if err != nil {
		return err
	}
	return s.showRefusal(before, sync)
}

func (s *session) showRefusal(before, now *status.Sync) error {
	if len(now.Errors) == 0 || now.LastGood.Commit != before.LastGood.Commit {
		return fmt.Errorf("revision %s was not refused", now.LastAttempted)
	}
	s.say("   %s is refused:\n", now.LastAttempted.Short())
	for _, e := range now.Errors {
		s.say("     %s\n", e)
	}
	s.say("   the fleet stays on %s: %d of %d peels applied\n", now.LastGood.Commit.Short(), now.Counts.Applied,
		now.Counts.Peels)
	return nil
}

func (s *session) revert(ctx context.Context, c commits) error {
	sync, err := s.commit(ctx, `Revert "A slip of the keyboard"`, c.repaired)
	if err != nil {
		return err
	}
	s.say("   %s is in force, documents written: %d, for the peels had this content already\n",
		sync.LastGood.Commit.Short(), sync.Writes)
	return nil
}

// coverage commits an entry whose runs fail, and waits until the master says so. The entry returns no jobs: what the
// master knows is from the peel's report on its schedule.
func (s *session) coverage(ctx context.Context) error {
	peel := s.o.Peels[0]
	if _, err := s.commit(ctx, "A backup", brokenFiles(peel)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, waitLimit)
	defer cancel()
	for {
		c, err := s.client.CoverageEntry(ctx, api.CoverageEntryRequest{Entry: brokenEntry})
		if err == nil && len(c.Rows) > 0 && c.Rows[0].Failed > 0 {
			r := c.Rows[0]
			s.say("   %-8s %s: expected %d, ran %d, failed %d, missed %d: %s\n", r.Peel, brokenEntry, r.Expected,
				r.Ran, r.Failed, r.Missed, r.Error)
			s.say("   %d of %d peels report on their schedules\n", c.Reporting, c.Peels)
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the failure of %s on %s was not reported: %w", brokenEntry, peel, cmp.Or(err, ctx.Err()))
		case <-time.After(50 * time.Millisecond):
		}
	}
}
