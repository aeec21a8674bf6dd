package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/reconciler/status"
	"github.com/seed-c01c3da5/zester/settings"
)

// A goal is the state that `sync wait` waits for.
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
failed, or cannot be had: the branch, the address or the credential of the repo is wrong. While a revision is pinned that
one is waited for. A master that has not started yet is waited for too. The time includes all waves. Without a terminal
the reason for waiting is printed when it changes, every five seconds at most.`,
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
			return a.waitForSync(ctx, client, &waiting{line: line, began: time.Now()}, g)
		},
	}
	durationVar(cmd.Flags(), &g.timeout, "timeout", 5*time.Minute, "`TIME` to wait at most")
	cmd.Flags().IntVar(&g.peels, "peels", 0, "also wait until there are at least `N` peels")
	cmd.Flags().StringVar(&g.revision, "revision", "", "`COMMIT` to wait for, or the beginning of its hash (default: the newest)")
	return cmd
}

// lookAgainMost is how often a long wait asks, as every question costs the master a look at all peels.
const lookAgainMost = time.Second

var hashBeginning = regexp.MustCompile(`^([0-9a-f]{4,64})?$`)

// waitForSync first has the branch read, so that it waits for a commit made just before. It goes on while no master
// answers: another may be about to take over.
func (a *app) waitForSync(ctx context.Context, client *api.Client, w *waiting, g goal) error {
	ask, last := (*api.Client).SyncNow, "no master has answered"
	for pause := lookAgain; ; pause = min(pause*3/2, lookAgainMost) {
		s, err := ask(client, ctx)
		switch {
		case err == nil:
			if done, failure := g.reached(s); done {
				w.line.clear()
				return cmp.Or(a.showReached(s, failure), failure)
			}
			last = g.missing(s)
			w.show(g.bar(s), last)
			ask = (*api.Client).SyncStatus
		case ctx.Err() != nil: // the request was cut off because the time is over
		case api.CodeOf(err) == api.CodeUnavailable:
			last = err.Error()
			w.show("", last)
		default:
			return err
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return ctx.Err()
			}
			return &failure{
				code: exitSomeSilent, err: fmt.Errorf("not every peel runs the revision after %s: %s", g.timeout, last),
				hint: "zester sync status and zester sync peels show more",
			}
		case <-time.After(pause):
		}
	}
}

// A waiting prints why a wait goes on: on a terminal in one line that is replaced, elsewhere line by line.
type waiting struct {
	line    *progress
	began   time.Time
	printed time.Time // zero: nothing was printed
	text    string    // the last that was printed
}

// How often lines are printed without a terminal. A short wait prints none.
const (
	printChanged = 5 * time.Second
	printSame    = time.Minute
)

func (w *waiting) show(bar, text string) {
	w.line.show("%s", strings.TrimSpace(bar+" "+text))
	if w.line.width > 0 {
		return
	}
	pause := time.Since(cmp.Or(w.printed, w.began))
	if pause < printChanged || text == w.text && pause < printSame {
		return
	}
	fmt.Fprintln(w.line.w, "waiting:", plain(text))
	w.printed, w.text = time.Now(), text
}

// wanted returns the commit to wait for, or the beginning of its hash; empty if it is not known.
func (g goal) wanted(s *status.Sync) string {
	switch {
	case g.revision != "":
		return g.revision
	case s.Pinned != nil:
		return string(s.Pinned.Commit)
	case s.Is(status.FetchFailed):
		return ""
	}
	return string(s.Observed)
}

// inForce reports whether the wanted commit is in force.
func (g goal) inForce(s *status.Sync) bool {
	wanted := g.wanted(s)
	return wanted != "" && s.LastGood.Commit != "" && strings.HasPrefix(string(s.LastGood.Commit), wanted)
}

// bar draws how many peels have applied the wanted commit.
func (g goal) bar(s *status.Sync) string {
	if !g.inForce(s) {
		return bar(0, max(s.Counts.Peels, g.peels))
	}
	return bar(s.Counts.Applied, max(s.Counts.Peels, g.peels))
}

// missing says what the goal still lacks.
func (g goal) missing(s *status.Sync) string {
	var parts []string
	wanted := g.wanted(s)
	known := func(c settings.Commit) bool { return strings.HasPrefix(string(c), wanted) }
	switch {
	case g.inForce(s):
		parts = append(parts, fmt.Sprintf("%s is in force, %s", s.LastGood.Commit.Short(), g.wants(s.Counts)))
	case s.LastGood.Commit == "":
		parts = append(parts, "no revision is in force yet")
	case wanted == "":
		parts = append(parts, fmt.Sprintf("the branch cannot be read, %s is in force", s.LastGood.Commit.Short()))
	case g.revision != "" && !known(s.LastAttempted) && !known(s.Observed):
		parts = append(parts, fmt.Sprintf("revision %s is neither in force nor the newest of %s, which is %s", g.revision, s.Branch, s.Observed.Short()))
	default:
		parts = append(parts, fmt.Sprintf("%s is not in force yet", settings.Commit(wanted).Short()))
	}
	parts = append(parts, troubles(s)...)
	for _, c := range s.Conditions {
		if (c.Type == status.Suspended || c.Type == status.Frozen) && c.Status {
			parts = append(parts, trouble(c))
		}
	}
	if s.Rollout != nil {
		parts = append(parts, rolloutLine(s.Rollout))
	}
	return strings.Join(parts, "; ")
}

// showReached prints the revision in force and its peels; nothing if the wait failed and no revision is in force.
func (a *app) showReached(s *status.Sync, failed error) error {
	if f, _ := errors.AsType[*failure](failed); f != nil && f.err != nil && s.LastGood.Commit == "" {
		return nil
	}
	return a.print(s, []string{string(s.LastGood.Commit)}, func() error {
		_, err := fmt.Fprintf(a.out, "%s: %s\n", s.LastGood.Commit.Short(), countLine(s.Counts))
		return err
	})
}

// wants counts the peels, with those that the goal still lacks.
func (g goal) wants(c status.Counts) string {
	line := countLine(c)
	if c.Peels < g.peels {
		line += fmt.Sprintf(", %d peels are wanted", g.peels)
	}
	return line
}

// unreadable holds the reasons for an unreadable branch that end a wait, each with a hint. A [status.Stalled] reconciler
// ends it as well. Other errors, such as a timeout, may be over soon.
var unreadable = map[string]string{
	"RefNotFound":           "push the branch, or name another: branch: of the master's configuration",
	"NotFound":              "is the address right? repo: of the master's configuration; a private repo also needs a credential, below git:",
	"NotGit":                "is the address right? repo: of the master's configuration",
	"AuthenticationFailed":  "give the master a credential that may read the repo, below git: of its configuration",
	"Forbidden":             "give the master a credential that may read the repo, below git: of its configuration",
	"CredentialsUnreadable": "the files are named below git: of the master's configuration",
	"KeysUnreadable":        "the files are named below verify: of the master's configuration",
}

// lost returns the failure of a branch that stays unreadable until a person changes something, nil for any other error.
func lost(s *status.Sync) *failure {
	for _, c := range s.Conditions {
		if c.Type != status.FetchFailed || !c.Status {
			continue
		}
		hint, known := unreadable[c.Reason]
		if known || s.Is(status.Stalled) {
			return &failure{code: exitFailed, err: fmt.Errorf("cannot read the branch: %s", trouble(c)), hint: hint}
		}
	}
	return nil
}

// reached reports whether the wait is over, with the failure if the goal was not reached.
func (g goal) reached(s *status.Sync) (bool, error) {
	if g.inForce(s) {
		return g.applied(s)
	}
	// A commit that was named or pinned may be refused while the branch cannot be read.
	wanted := cmp.Or(g.wanted(s), string(s.Observed))
	if refused(s) && strings.HasPrefix(string(s.LastAttempted), wanted) {
		return true, held(s)
	}
	if f := lost(s); f != nil {
		return true, f
	}
	return false, nil
}

// applied is reached for a commit that is in force.
func (g goal) applied(s *status.Sync) (bool, error) {
	switch {
	case s.Counts.Pending > 0 || s.Counts.Peels < g.peels:
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
