package demo

import (
	"context"
	"errors"
	"fmt"
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
		{"dispatch: zester '" + story.expr + "' cmd.run command=uptime", func() error { return s.dispatch(ctx, story) }},
		{"commit something broken", func() error { return s.breakIt(ctx, story) }},
		{"revert it", func() error { return s.revert(ctx, story) }},
	}
}

func (s *stage) firstSync(ctx context.Context) error {
	head, err := s.work.Head()
	if err != nil {
		return err
	}
	sync, err := s.until(ctx, head, len(s.o.Peels))
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
		if sync.LastAttempted == commit && sync.LastGood.Commit != commit {
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
	return fmt.Errorf("not reached after %s: %+v", patience, last.Counts)
}

// run dispatches a function and returns what came back, by peel.
func (s *stage) run(ctx context.Context, expr, function string, args map[string]any) (map[target.PeelID]*wire.Return, error) {
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
		switch {
		case err != nil:
			return nil, err
		case event.Return != nil:
			returns[event.Peel] = event.Return
		case event.Ended != nil && event.Ended.Status != job.Complete:
			return nil, fmt.Errorf("job %s ended %s: %s", jid, event.Ended.Status, failures(returns))
		}
	}
	return returns, nil
}

func failures(returns map[target.PeelID]*wire.Return) string {
	var out []string
	for id, r := range returns {
		if !r.Success {
			out = append(out, fmt.Sprintf("%s: %s", id, r.Error))
		}
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}

func (s *stage) showSchedules(ctx context.Context) error {
	returns, err := s.run(ctx, "*", "settings.get", map[string]any{"key": "schedule"})
	if err != nil {
		return err
	}
	for _, id := range s.o.Peels {
		r := returns[id]
		if r == nil {
			return fmt.Errorf("%s did not answer", id)
		}
		answer, _ := r.Data.(map[string]any)
		entries, _ := answer["settings"].(map[string]any)
		var names []string
		for name := range entries {
			names = append(names, name)
		}
		slices.Sort(names)
		s.say("   %-8s %s\n", id, strings.Join(names, " "))
	}
	return nil
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
	s.say("   %s %q: from the commit to applied on %d of %d peels in %s, %d documents written\n",
		sync.LastGood.Commit.Short(), story.message, sync.Counts.Applied, sync.Counts.Peels, since(start), sync.Writes)
	after, err := s.client.SyncPeels(ctx)
	if err != nil {
		return err
	}
	for i, p := range after {
		if p.Generation == before[i].Generation {
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
	return s.until(ctx, head, len(s.o.Peels))
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
	returns, err := s.run(ctx, story.expr, "cmd.run", map[string]any{"command": "uptime"})
	if err != nil {
		return err
	}
	for _, id := range s.o.Peels {
		if r := returns[id]; r != nil {
			data, _ := r.Data.(map[string]any)
			s.say("   %-8s %s\n", id, strings.TrimSpace(fmt.Sprint(data["stdout"])))
		}
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
		return sync.LastAttempted == settings.Commit(head.String()), nil
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
	s.say("   %s is in force, %d documents written: the peels had this content already\n", sync.LastGood.Commit.Short(), sync.Writes)
	return nil
}
