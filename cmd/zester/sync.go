package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/reconciler/status"
	"github.com/seed-c01c3da5/zester/settings"
)

func (a *app) syncCommand() *cobra.Command {
	return group("sync", "See how far the fleet is with what Git says",
		a.syncStatusCommand(), a.syncNowCommand(), a.syncWaitCommand(), a.syncPeelsCommand(), a.syncDiffCommand(), a.syncHistoryCommand(),
		a.syncApproveCommand(), a.syncPauseCommand(), a.syncResumeCommand(), a.syncPinCommand(), a.syncUnpinCommand())
}

func (a *app) syncStatusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show the revision in force, what is wrong, and how many peels run it",
		Args:  words(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			defer client.Close()
			s, err := client.SyncStatus(cmd.Context())
			if err != nil {
				return err
			}
			return a.showSync(s)
		},
	}
}

func (a *app) syncNowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "now",
		Short: "Ask for the branch at once and wait until that has ended",
		Long: `now has the branch read at once, without waiting for the next poll, and prints what sync status would then. It ends
with 1 when the branch cannot be read or its newest commit is refused. It does not wait for the peels: sync wait does.`,
		Args: words(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			defer client.Close()
			s, err := client.SyncNow(cmd.Context())
			if err != nil {
				return err
			}
			if err := a.showSync(s); err != nil {
				return err
			}
			if s.Is(status.FetchFailed) || refused(s) {
				return &failure{code: exitFailed}
			}
			return nil
		},
	}
}

func (a *app) showSync(s *status.Sync) error {
	return a.print(s, []string{string(s.LastGood.Commit)}, func() error {
		a.describeSync(s)
		return nil
	})
}

// describeSync prints where the fleet is, for people.
func (a *app) describeSync(s *status.Sync) {
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(a.out, "%-11s %s\n", name+":", plain(value))
		}
	}
	line("repo", s.Repo)
	line("branch", s.Branch)
	if s.LastGood.Commit == "" {
		line("in force", "nothing yet")
	} else {
		line("in force", fmt.Sprintf("%s %s", s.LastGood.Commit.Short(), s.LastGood.Message))
		line("by", fmt.Sprintf("%s, %s", s.LastGood.Author, when(s.LastGood.Time)))
	}
	if s.Is(status.FetchFailed) && !s.Read.IsZero() {
		line("last read", when(s.Read))
	}
	if !s.LastGood.Since.IsZero() {
		line("since", fmt.Sprintf("%s, for %s", when(s.LastGood.Since), age(time.Since(s.LastGood.Since))))
	}
	if p := s.Pinned; p != nil {
		line("pinned", fmt.Sprintf("%s by %s, %s%s", p.Commit.Short(), p.By, when(p.Time), map[bool]string{true: ", until a newer commit comes"}[p.UntilNewer]))
	}
	if s.Blocked != "" {
		line("waits", fmt.Sprintf("%s for zester sync approve %s", s.LastAttempted.Short(), s.Blocked))
	}
	if s.Rollout != nil {
		line("rollout", rolloutLine(s.Rollout))
	}
	line("peels", countLine(s.Counts))
	for _, id := range s.Duplicates {
		line("duplicate", fmt.Sprintf("two processes are connected as %s: give one of them an ID of its own", id))
	}
	for _, c := range s.Conditions {
		if c.Status && c.Type != status.Ready && c.Type != status.RolloutProgressing || c.Reason == "WaveFailed" || c.Type == status.SourceVerified {
			line(string(c.Type), trouble(c))
		}
	}
	for _, e := range s.Errors {
		fmt.Fprintln(a.out, "  "+plain(e))
	}
	for _, w := range s.Warnings {
		fmt.Fprintln(a.out, "  warning: "+plain(w))
	}
}

// rolloutLine says how far a rollout is.
func rolloutLine(r *status.Rollout) string {
	text := fmt.Sprintf("%s wave %d of %d (%s) %s: %d of %d peels applied", r.Commit.Short(), r.Wave, r.Waves, r.Name, r.State, r.Applied, r.Peels)
	if r.Failed > 0 {
		text += fmt.Sprintf(", %d failed", r.Failed)
	}
	if !r.Soaked.IsZero() {
		text += ", until " + when(r.Soaked)
	}
	return text
}

func trouble(c status.Condition) string {
	first, _, _ := strings.Cut(c.Message, "\n")
	return strings.TrimSpace(c.Reason + " " + first)
}

// troubles are what keeps the newest commit from the fleet.
func troubles(s *status.Sync) (all []string) {
	for _, c := range s.Conditions {
		switch c.Type {
		case status.FetchFailed, status.CompileFailed, status.GuardBlocked:
			if c.Status {
				all = append(all, trouble(c))
			}
		case status.SourceVerified:
			if s.Distrusted() {
				all = append(all, trouble(c))
			}
		}
	}
	return all
}

// countLine leaves out the states that no peel is in.
func countLine(c status.Counts) string {
	parts := []string{fmt.Sprintf("%d of %d applied", c.Applied, c.Peels)}
	for _, s := range []struct {
		n    int
		word string
	}{{c.Pending, "pending"}, {c.Failed, "failed"}, {c.Offline, "offline"}} {
		if s.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", s.n, s.word))
		}
	}
	return strings.Join(parts, ", ")
}

// wants says how far the goal is.
func (g goal) wants(c status.Counts) string {
	line := countLine(c)
	if c.Peels < g.peels {
		line += fmt.Sprintf(", of %d that are to be there", g.peels)
	}
	return line
}

func (a *app) syncPeelsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "peels",
		Short: "Show which revision each peel runs",
		Long: `peels shows each peel with the commit that its settings were last written at, for how long it has lacked what it
is to run (LAG), and how many entries its last reload started (+), changed (~), stopped (-) and kept (=). One that is
stale runs on its snapshot, which the bus has not confirmed. A peel that tells no facts any more, and of which settings
are still kept, is decommissioned: zester peel remove takes them away.`,
		Args: words(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			defer client.Close()
			peels, err := client.SyncPeels(cmd.Context())
			if err != nil {
				return err
			}
			t := table{header: []string{"PEEL", "STATE", "ONLINE", "COMMIT", "LAG", "RELOAD", "ERRORS"}}
			for _, p := range peels {
				lag := "-"
				if !p.Since.IsZero() {
					lag = age(time.Since(p.Since))
				}
				state := string(p.State)
				if p.Stale {
					state += ", stale"
				}
				t.add(string(p.Peel), state, yesNo(p.Online), p.Commit.Short(), lag,
					fmt.Sprintf("+%d ~%d -%d =%d", p.Started, p.Changed, p.Stopped, p.Kept), strings.Join(p.Errors, "; "))
			}
			return a.show(peels, t)
		},
	}
}

func (a *app) syncHistoryCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "history",
		Short: "Show what became of the revisions that were tried",
		Long: `history shows the last 50 revisions that were tried, the newest first: applied, rejected, blocked by the guard,
superseded by another, or rolled back; who approved or pinned one, when it was first seen, and how long it took until
the outcome. A stored revision can be pinned.`,
		Args: words(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			defer client.Close()
			attempts, err := client.SyncHistory(cmd.Context())
			if err != nil {
				return err
			}
			t := table{header: []string{"REVISION", "OUTCOME", "BEGAN", "TOOK", "STORED", "AUTHOR", "BY", "MESSAGE", "REASON"}}
			for _, at := range attempts {
				took := ""
				if !at.Ended.IsZero() {
					took = at.Ended.Sub(at.Began).Round(time.Millisecond).String()
				}
				t.add(at.Commit.Short(), string(at.Outcome), clock(at.Began), took, yesNo(at.Stored), at.Author, at.By, at.Message, at.Reason)
			}
			return a.show(attempts, t)
		},
	}
}

// A goal is what `sync wait` waits for.
type goal struct {
	revision string // a commit or the beginning of its hash; empty: where the branch is
	peels    int    // that many at least
	timeout  time.Duration
}

func (a *app) syncWaitCommand() *cobra.Command {
	var g goal
	cmd := &cobra.Command{
		Use:   "wait",
		Short: "Wait until every peel that is online runs the newest revision",
		Long: `wait ends with 0 when every peel has applied the revision, with 2 when a peel could not use it, with 3 when the
time is over or a peel that lacks it is offline, and with 1 when the revision is refused, was taken back by a wave that
failed, or cannot be had. While a revision is pinned that one is waited for. A master that has not started yet is waited for too. The time includes that of all waves.`,
		Args: words(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !hashBeginning.MatchString(g.revision) {
				return usageError("cannot wait for revision %q: it is not a commit's hash, nor the beginning of one", g.revision)
			}
			if g.timeout <= 0 || g.peels < 0 {
				return usageError("cannot wait for %s and %d peels: neither may be negative", g.timeout, g.peels)
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), g.timeout)
			defer cancel()
			line := newProgress(a.errOut)
			defer line.clear()
			client, err := a.awaitClient(ctx, line)
			if err != nil {
				return err
			}
			defer client.Close()
			return a.waitForSync(ctx, client, line, g)
		},
	}
	cmd.Flags().DurationVar(&g.timeout, "timeout", 5*time.Minute, "wait this long at most")
	cmd.Flags().IntVar(&g.peels, "peels", 0, "wait until there are `N` peels at least")
	cmd.Flags().StringVar(&g.revision, "revision", "", "wait for the `COMMIT`, or the beginning of its hash (default: where the branch is)")
	return cmd
}

// lookAgainMost is how often a long wait asks, as every question costs the master a look at all peels.
const lookAgainMost = time.Second

var hashBeginning = regexp.MustCompile(`^([0-9a-f]{4,64})?$`)

// waitForSync first has the branch asked, so that a commit made just before is the one that is waited for. That nobody
// answers is waited out: another master may be about to take over.
func (a *app) waitForSync(ctx context.Context, client *api.Client, line *progress, g goal) error {
	ask, last := (*api.Client).SyncNow, &status.Sync{}
	for pause := lookAgain; ; pause = min(pause*3/2, lookAgainMost) {
		s, err := ask(client, ctx)
		switch {
		case err == nil:
			last = s
			if done, failure := g.reached(s); done {
				line.clear()
				return cmp.Or(a.showReached(s), failure)
			}
			parts := append([]string{g.wants(s.Counts)}, troubles(s)...)
			if s.Rollout != nil {
				parts = append(parts, rolloutLine(s.Rollout))
			}
			line.show("%s %s: %s", bar(s.Counts.Applied, max(s.Counts.Peels, g.peels)), s.LastGood.Commit.Short(), strings.Join(parts, "; "))
			ask = (*api.Client).SyncStatus
		case api.CodeOf(err) == api.CodeUnavailable:
			line.show("%s", err)
		default:
			return err
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return ctx.Err()
			}
			return g.late(last)
		case <-time.After(pause):
		}
	}
}

// late says what was missing when the time was over.
func (g goal) late(s *status.Sync) error {
	f := &failure{
		code: exitSomeSilent, err: fmt.Errorf("not every peel runs the revision after %s", g.timeout),
		hint: "zester sync status and zester sync peels show why",
	}
	is := func(c settings.Commit) bool {
		return strings.HasPrefix(string(c), cmp.Or(g.revision, string(s.Observed)))
	}
	suspended := slices.IndexFunc(s.Conditions, func(c status.Condition) bool { return c.Type == status.Suspended && c.Status })
	switch {
	case s.LastGood.Commit == "":
	case is(s.LastGood.Commit):
		f.err = fmt.Errorf("%w: %s", f.err, g.wants(s.Counts))
	case suspended >= 0:
		f.err = fmt.Errorf("%w: %s", f.err, trouble(s.Conditions[suspended]))
	case !is(s.LastAttempted) && !is(s.Observed):
		f.err = fmt.Errorf("revision %s is neither in force nor the newest of %s, which is %s", g.revision, s.Branch, s.Observed.Short())
		f.hint = "zester sync history shows what became of it"
	}
	return f
}

func (a *app) showReached(s *status.Sync) error {
	return a.print(s, []string{string(s.LastGood.Commit)}, func() error {
		_, err := fmt.Fprintf(a.out, "%s: %s\n", s.LastGood.Commit.Short(), countLine(s.Counts))
		return err
	})
}

// held says why the newest commit is not brought to the fleet, and what may be done.
func held(s *status.Sync) *failure {
	word, hint := "is refused", ""
	switch {
	case s.RolledBack():
		word = "was taken back"
	case s.Blocked != "":
		word = "waits for approval"
		hint = fmt.Sprintf("zester sync approve %s lets it out; zester plan --base %s --head %[3]s in a checkout shows what it does",
			s.Blocked, s.LastGood.Commit.Short(), s.LastAttempted.Short())
	}
	return &failure{code: exitFailed, err: fmt.Errorf("revision %s %s:\n%s", s.LastAttempted.Short(), word, strings.Join(s.Errors, "\n")), hint: hint}
}

// refused reports whether the newest commit is not brought to the fleet.
func refused(s *status.Sync) bool {
	return s.Is(status.CompileFailed) || s.Is(status.GuardBlocked) || s.RolledBack() || s.Distrusted()
}

// reached reports whether nothing more is to be waited for, and the failure if that is not what was wanted.
func (g goal) reached(s *status.Sync) (bool, error) {
	known := g.revision != "" || !s.Is(status.FetchFailed) // which commit is meant
	wanted := cmp.Or(g.revision, string(s.Observed))
	if s.Pinned != nil && g.revision == "" {
		known, wanted = true, string(s.Pinned.Commit)
	}
	inForce := known && s.LastGood.Commit != "" && strings.HasPrefix(string(s.LastGood.Commit), wanted)
	switch {
	case !inForce && refused(s) && strings.HasPrefix(string(s.LastAttempted), wanted):
		return true, held(s)
	case !inForce && s.Is(status.Stalled):
		return true, &failure{code: exitFailed, err: fmt.Errorf("cannot read the branch: %s", strings.Join(troubles(s), "; "))}
	case !inForce || s.Counts.Pending > 0 || s.Counts.Peels < g.peels:
		return false, nil
	case s.Counts.Failed > 0 && s.Counts.Offline > 0:
		return true, &failure{code: exitBoth}
	case s.Counts.Failed > 0:
		return true, &failure{code: exitSomeFailed}
	case s.Counts.Offline > 0:
		return true, &failure{code: exitSomeSilent}
	}
	return true, nil
}
