package demo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/status"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// patience is how long the demo waits for anything.
const patience = 20 * time.Second

// A scene is one thing that an operator does.
type scene struct {
	name string
	play func() error
}

func (s *stage) scenes(ctx context.Context) []scene {
	story := s.story()
	return []scene{
		{"bring the first revision to the fleet", func() error { return s.firstSync(ctx) }},
		{"ask every peel for its schedule: settings.get schedule", func() error { return s.showSchedules(ctx) }},
		{"commit a change: " + story.summary, func() error { return s.change(ctx, story) }},
		{"wait for a scheduled run and find it in job list", func() error { return s.scheduledRun(ctx, story) }},
		{"dispatch: zester '" + story.expr + "' cmd.run command='uname -sr'", func() error { return s.dispatch(ctx, story) }},
		{"commit something broken", func() error { return s.breakIt(ctx, story) }},
		{"revert it", func() error { return s.revert(ctx, story) }},
	}
}

func (s *stage) firstSync(ctx context.Context) error {
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

// until waits until a commit is in force on so many peels. A commit that is refused is an error.
func (s *stage) until(ctx context.Context, head gitrepo.Hash, peels int) (*status.Sync, error) {
	return s.watch(ctx, func(sync *status.Sync) (bool, error) {
		commit := settings.Commit(head.String())
		if sync.LastAttempted == commit && sync.LastGood.Commit != commit && len(sync.Errors) > 0 {
			return false, errors.New("the revision is refused:\n" + strings.Join(sync.Errors, "\n"))
		}
		return sync.LastGood.Commit == commit && sync.Counts.Peels == peels && sync.Counts.Applied == peels, nil
	})
}

// watch asks for the status until it is as wanted.
func (s *stage) watch(ctx context.Context, wanted func(*status.Sync) (bool, error)) (*status.Sync, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var last *status.Sync
	for {
		sync, err := s.client.SyncStatus(ctx)
		if err == nil {
			last = sync
			if done, err := wanted(sync); done || err != nil {
				return sync, err
			}
		}
		select {
		case <-ctx.Done():
			return nil, stopped(ctx, err, last)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// stopped says why waiting has ended.
func stopped(ctx context.Context, err error, last *status.Sync) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	if last == nil {
		return fmt.Errorf("no settings service answers after %s: %w", patience, err)
	}
	reasons := []string{fmt.Sprintf("not reached after %s: %d of %d peels applied, %d failed",
		patience, last.Counts.Applied, last.Counts.Peels, last.Counts.Failed)}
	for _, c := range last.Conditions {
		if c.Status && c.Message != "" {
			reasons = append(reasons, c.Message)
		}
	}
	return errors.New(strings.Join(reasons, "; "))
}

// ask dispatches a function and returns what came back, from every peel.
func (s *stage) ask(ctx context.Context, expr, function string, args map[string]any) (map[target.PeelID]*wire.Return, error) {
	resolved, err := s.client.Resolve(ctx, expr)
	if err != nil {
		return nil, err
	}
	jid := wire.NewJID()
	follower, err := s.client.Follow(jid, resolved.Peels)
	if err != nil {
		return nil, err
	}
	defer follower.Close()
	spec := job.Spec{JID: jid, Function: function, Args: args, Targets: resolved.Peels, TargetExpr: expr, Timeout: patience}
	if _, err := s.client.Dispatch(ctx, spec); err != nil {
		return nil, err
	}
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
			return nil, fmt.Errorf("%s did not answer in %s", id, patience)
		}
	}
	return returns, nil
}

func (s *stage) showSchedules(ctx context.Context) error {
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
		case s.o.Repo != "": // which need not give a schedule to every peel
			s.say("   %-8s %s\n", id, r.Error)
		default:
			return fmt.Errorf("%s: %s", id, r.Error)
		}
	}
	return nil
}

// entries are the names of the schedule entries in an answer of settings.get schedule.
func entries(answer any) []string {
	fields, _ := answer.(map[string]any)
	schedule, _ := fields["settings"].(map[string]any)
	return slices.Sorted(maps.Keys(schedule))
}

// change commits the story's change and shows what each peel made of it.
func (s *stage) change(ctx context.Context, story story) error {
	before, err := s.client.SyncPeels(ctx)
	if err != nil {
		return err
	}
	start := time.Now()
	sync, err := s.commit(ctx, story.message, story.change)
	if err != nil {
		return err
	}
	s.say("   %s %q: from the commit to applied on %d of %d peels in %s, documents written: %d\n",
		sync.LastGood.Commit.Short(), story.message, sync.Counts.Applied, sync.Counts.Peels, since(start), sync.Writes)
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
func (s *stage) commit(ctx context.Context, message string, files map[string][]byte) (*status.Sync, error) {
	head, err := s.work.Commit(message, files, ada)
	if err != nil {
		return nil, err
	}
	return s.until(ctx, gitrepo.Hash(head), len(s.o.Peels))
}

func (s *stage) scheduledRun(ctx context.Context, story story) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		page, err := s.client.JobList(ctx, job.Query{Schedule: story.entry, Limit: 1})
		if err != nil {
			return err
		}
		if len(page.Jobs) > 0 {
			j := page.Jobs[0]
			s.say("   job %s %s on %s: %s\n", j.JID, j.Function, j.Targets[0], j.Status)
			s.say("   entry %s, from %s at commit %.8s by %s\n", j.Metadata[job.MetaSchedule], j.Metadata[job.MetaFile],
				j.Metadata[job.MetaCommit], j.Metadata[job.MetaAuthor])
			if j.Status != job.Complete {
				return fmt.Errorf("the run of %s is %s", story.entry, j.Status)
			}
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no run of %s was reported: %w", story.entry, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (s *stage) dispatch(ctx context.Context, story story) error {
	returns, err := s.ask(ctx, story.expr, "cmd.run", map[string]any{"command": "uname -sr"})
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

func (s *stage) breakIt(ctx context.Context, story story) error {
	before, err := s.client.SyncStatus(ctx)
	if err != nil {
		return err
	}
	head, err := s.work.Commit("A slip of the keyboard", story.broken, ada)
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

func (s *stage) showRefusal(before, now *status.Sync) error {
	if len(now.Errors) == 0 || now.LastGood.Commit != before.LastGood.Commit {
		return fmt.Errorf("revision %s was not refused", now.LastAttempted)
	}
	s.say("   %s is refused:\n", now.LastAttempted.Short())
	for _, e := range now.Errors {
		s.say("     %s\n", e)
	}
	s.say("   the fleet stays on %s: %d of %d peels applied\n", now.LastGood.Commit.Short(), now.Counts.Applied, now.Counts.Peels)
	return nil
}

func (s *stage) revert(ctx context.Context, story story) error {
	sync, err := s.commit(ctx, `Revert "A slip of the keyboard"`, story.mended)
	if err != nil {
		return err
	}
	s.say("   %s is in force, documents written: %d, for the peels had this content already\n", sync.LastGood.Commit.Short(), sync.Writes)
	return nil
}
