package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func (a *app) syncCommand() *cobra.Command {
	return group("sync", "Show which revision the fleet runs, and control rollouts",
		a.syncStatusCommand(), a.syncNowCommand(), a.syncWaitCommand(), a.syncPeelsCommand(), a.syncDiffCommand(),
		a.syncHistoryCommand(),
		a.syncApproveCommand(), a.syncPauseCommand(), a.syncResumeCommand(), a.syncPinCommand(), a.syncUnpinCommand(),
		a.syncRetryCommand(), a.syncAdoptCommand(), a.syncPlanCommand(), a.syncShowCommand())
}

func (a *app) syncStatusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show the revision in force, problems, and how many peels run it",
		Args:  words(),
		RunE: a.online(func(cmd *cobra.Command, client *api.Client, _ []string) error {
			s, err := api.SyncStatus.Ask(cmd.Context(), client, api.None{})
			if err != nil {
				return err
			}
			return a.print(s, []string{string(s.LastGood.Commit)}, func() error {
				a.describeSync(s)
				if text := troublesOf(cmd.Context(), client).String(); text != "" {
					fmt.Fprintf(a.out, "%-11s %s\n", "schedules:", plain(text))
				}
				return nil
			})
		}),
	}
}

func (a *app) syncNowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "now",
		Short: "Fetch the branch now and wait for the result",
		Long: `now makes the leading master read the branch at once, and then prints the same
as sync status. The exit code is 1 if the branch cannot be read or its newest
commit is refused. It does not wait for the peels: sync wait does.`,
		Args: words(),
		RunE: a.online(func(cmd *cobra.Command, client *api.Client, _ []string) error {
			s, err := api.SyncNow.Ask(cmd.Context(), client, api.None{})
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
		}),
	}
}

func (a *app) showSync(s *status.Sync) error {
	return a.print(s, []string{string(s.LastGood.Commit)}, func() error {
		a.describeSync(s)
		return nil
	})
}

// describeSync prints the status for people.
func (a *app) describeSync(s *status.Sync) {
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(a.out, "%-11s %s\n", name+":", plain(value))
		}
	}
	line("repo", s.Repo)
	line("branch", s.Branch)
	if s.Path != "." {
		line("path", s.Path)
	}
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
		line("pinned", fmt.Sprintf("%s by %s, %s%s", p.Commit.Short(), p.By, when(p.Time),
			map[bool]string{true: ", until a newer commit comes"}[p.UntilNewer]))
	}
	if s.Blocked != "" {
		line("waits", fmt.Sprintf("%s for zester sync approve %s --revision %[1]s", s.LastAttempted.Short(),
			status.ShortHash(s.Blocked)))
	}
	if f := s.Facts; f != nil {
		line("facts", fmt.Sprintf("%s would change by new facts, which waits for zester sync approve %s",
			count(f.Peels, "peel"), status.ShortHash(f.Hash)))
	}
	if f := s.Frozen; f != nil && (s.Rollout == nil || s.Rollout.Commit != f.Commit) {
		line("frozen", fmt.Sprintf("%s: %s; zester sync approve %[1]s --override-freeze REASON lets it out",
			f.Commit.Short(), f))
	}
	if s.Rollout != nil {
		line("rollout", rolloutLine(s.Rollout))
	}
	line("peels", countLine(s.Counts))
	line("states", hostCountLine(s.HostCounts))
	for _, p := range s.PausedErrors {
		line("paused", pausedLine(p))
	}
	for _, id := range s.Duplicates {
		line("duplicate", fmt.Sprintf("two processes are connected as %s: give one of the two hosts another ID", id))
	}
	if n := len(s.Outdated); n > 0 {
		line("outdated", outdatedLine(s.Outdated))
	}
	for _, c := range s.Conditions {
		if c.Status && c.Type != status.Ready && c.Type != status.RolloutProgressing && c.Type != status.Frozen ||
			c.Reason == "WaveFailed" || c.Type == status.SourceVerified {
			text := trouble(c)
			if first, _, _ := strings.Cut(c.Message, "\n"); slices.Contains(s.Errors, first) {
				text = c.Reason // the errors follow
			}
			line(string(c.Type), text)
		}
	}
	for _, e := range s.Errors {
		fmt.Fprintln(a.out, "  "+plain(e))
	}
	for _, w := range s.Warnings {
		fmt.Fprintln(a.out, "  warning: "+plain(w))
	}
}

// outdatedNamed is how many peels with an old zester-peel are named.
const outdatedNamed = 5

// outdatedLine returns the text about peels whose zester-peel does not understand the states in their settings.
func outdatedLine(peels []target.PeelID) string {
	return "zester-peel is too old for the states in the settings of " + plan.FirstOf(peels, outdatedNamed)
}

// pausedLine returns the text about entries that failures have paused.
func pausedLine(p status.PausedEntries) string {
	return fmt.Sprintf("%s on %s, by failures in a row (paused_errors)", strings.Join(p.Entries, ", "), p.Peel)
}

// rolloutLine returns the text about the progress of a rollout.
func rolloutLine(r *status.Rollout) string {
	text := fmt.Sprintf("%s wave %d of %d (%s) %s: %s", r.Commit.Short(), r.Wave, r.Waves, r.Name, r.State, r.Reason)
	if r.Failed > 0 {
		text += fmt.Sprintf(", %d failed", r.Failed)
	}
	if !r.Until.IsZero() {
		text += ", until " + when(r.Until)
	}
	return text
}

func trouble(c status.Condition) string {
	first, _, _ := strings.Cut(c.Message, "\n")
	return strings.TrimSpace(c.Reason + " " + first)
}

// troubles returns the conditions that keep the newest commit from the fleet, as text.
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

// countLine returns the number of peels in each state, without states that no peel is in.
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

// pausedTexts returns a text for each entry that failures have paused.
func pausedTexts(entries []string) (texts []string) {
	for _, name := range entries {
		texts = append(texts, "entry "+name+" is paused by failures in a row")
	}
	return texts
}

func (a *app) syncPeelsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "peels",
		Short: "Show which revision each peel runs",
		Long: `peels shows the newest commit that changed the settings of each peel
(CHANGED BY; a later commit left them as they are), the time since its newest
settings were written if it does not run them yet (LAG), and the number of
entries that its last reload started (+), changed (~), stopped (-) and kept (=).
A stale peel runs its snapshot, which the bus has not confirmed. A
decommissioned peel has no facts, but its settings are still stored: zester peel
remove removes them.` + troubleManual,
		Args: words(),
		RunE: a.online(func(cmd *cobra.Command, client *api.Client, _ []string) error {
			peels, err := client.SyncPeels(cmd.Context())
			if err != nil {
				return err
			}
			return a.show(peels, a.withTroubles(cmd.Context(), client, syncPeelsTable(peels)))
		}),
	}
}

func (a *app) syncHistoryCommand() *cobra.Command {
	return listCommand(a, cobra.Command{
		Use:   "history",
		Short: "Show the last revisions and their outcomes",
		Long: `history shows the last 50 attempts to publish a revision, the newest first. The
outcome is applied, rejected, blocked by the guard, superseded by another
revision, or rolled back. BEGAN is the time of the attempt, TOOK the time until
the outcome. BY and REASON name the people who approved or pinned a revision,
opened a gate or overrode a freeze, and why. A stored revision can be pinned.`,
	}, api.SyncHistory, func(h *status.History) []status.Attempt { return h.Attempts }, historyTable)
}

// attempts returns the revisions that were tried, the newest first.
func attempts(ctx context.Context, client *api.Client) ([]status.Attempt, error) {
	h, err := api.SyncHistory.Ask(ctx, client, api.None{})
	if err != nil {
		return nil, err
	}
	return h.Attempts, nil
}

func syncPeelsTable(peels []status.Peel) table {
	t := table{
		header: []string{
			"PEEL", "STATE", "ONLINE", "CHANGED BY", "LAG", "RELOAD", "REPORTED", "DIGEST", "WANTED", "ERRORS",
		},
		states: []string{"STATE", "ONLINE"},
		narrow: []string{"ERRORS"},
		drop:   []string{"RELOAD", "CHANGED BY"},
		legend: "CHANGED BY: the newest commit that changed the settings of the peel\n" +
			"RELOAD: + started, ~ changed, - stopped, = kept",
		wide: []string{"REPORTED", "DIGEST", "WANTED"},
	}
	for _, p := range peels {
		lag, state := "", string(p.State)
		if !p.Since.IsZero() {
			lag = age(time.Since(p.Since))
		}
		if p.Stale {
			state += ", stale"
		}
		if n := len(p.PausedErrors); n > 0 {
			state += fmt.Sprintf(", %d paused_errors", n)
		}
		if p.MissingContents > 0 {
			state += fmt.Sprintf(", contents missing: %d", p.MissingContents)
		}
		switch p.HostState {
		case status.HostFailed, status.HostDrifted:
			state += ", states " + string(p.HostState)
		}
		if p.Outdated {
			state += ", outdated"
		}
		t.add(string(p.Peel), state, yesNo(p.Online), p.Commit.Short(), lag,
			fmt.Sprintf("+%d ~%d -%d =%d", p.Started, p.Changed, p.Stopped, p.Kept), clock(p.Reported),
			shortDigest(p.Digest), shortDigest(p.Wanted),
			strings.Join(slices.Concat(p.Errors, pausedTexts(p.PausedErrors)), "; "))
	}
	return t
}

// shortDigest returns the first 8 digits of the digest of settings.
func shortDigest(d settings.Digest) string { return string(d[:min(len(d), 8)]) }

func historyTable(attempts []status.Attempt) table {
	t := table{
		header: []string{
			"REVISION", "OUTCOME", "BEGAN", "TOOK", "STORED", "AUTHOR", "BY", "MASTER", "MESSAGE", "REASON",
		},
		states: []string{"OUTCOME"},
		narrow: []string{"AUTHOR", "BY", "MESSAGE", "REASON"},
		drop:   []string{"BY", "TOOK", "AUTHOR", "STORED"},
		wide:   []string{"MASTER"},
	}
	for _, at := range attempts {
		took := ""
		if !at.Ended.IsZero() {
			took = duration(at.Ended.Sub(at.Began).Round(time.Millisecond))
		}
		t.add(at.Commit.Short(), string(at.Outcome), clock(at.Began), took, yesNo(at.Stored), at.Author, at.By,
			at.Master, at.Message, reasonsOf(at))
	}
	return t
}

// reasonsOf returns why an attempt ended, and the decisions of people about it.
func reasonsOf(a status.Attempt) string {
	var reasons []string
	if a.Reason != "" {
		reasons = append(reasons, a.Reason)
	}
	for _, d := range a.Approvals {
		text := d.What + " by " + d.By
		if d.Reason != "" {
			text += ": " + d.Reason
		}
		reasons = append(reasons, text)
	}
	return strings.Join(reasons, "; ")
}

// notOut returns the failure of a newest commit that does not go out, with the command that lets it.
func notOut(s *status.Sync) *failure {
	word, hint := "is refused", ""
	switch {
	case s.RolledBack():
		word = "was rolled back"
	case s.Blocked != "":
		word = "waits for approval"
		hint = fmt.Sprintf("zester sync approve %s lets it out; zester sync plan shows what it does",
			status.ShortHash(s.Blocked))
	}
	return &failure{
		code: exitFailed,
		err:  fmt.Errorf("revision %s %s:\n%s", s.LastAttempted.Short(), word, strings.Join(s.Errors, "\n")),
		hint: hint,
	}
}

// refused reports whether the newest commit does not go out to the fleet.
func refused(s *status.Sync) bool {
	blocked := slices.ContainsFunc(s.Conditions, func(c status.Condition) bool {
		return c.Type == status.GuardBlocked && c.Status && (c.Reason != status.FactsChanged || s.Blocked != "")
	})
	return s.Is(status.CompileFailed) || blocked || s.RolledBack() || s.Distrusted()
}
