package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/status"
)

// A goal is the state that `sync wait` waits for.
type goal struct {
	revision string // a commit or the beginning of its hash; empty: the newest of the branch
	peels    int    // least number of peels
	timeout  time.Duration
}

func (a *app) syncWaitCommand() *cobra.Command {
	var g goal
	cmd := &cobra.Command{
		Use:   "wait",
		Short: "Wait until every peel that is online runs the newest revision",
		Long: `wait waits until the newest revision is in force and every peel that is online
runs it. While a revision is pinned it waits for that one. It also waits for a
master to start. --timeout includes all waves. Without a terminal it prints the
reason for waiting when the reason changes, at most every five seconds.

Exit codes:
    0  every peel runs the revision
    1  the revision is refused or was rolled back, or the branch cannot be
       read: the branch, address or credential of the repo is wrong
    2  a peel could not apply the revision
    3  the time is over, or a peel without the revision is offline`,
		Args: words(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !hashBeginning.MatchString(g.revision) {
				return usageError(
					"cannot wait for revision %q: write the hash of a commit, or 4 or more digits of its beginning",
					g.revision,
				)
			}
			if g.timeout <= 0 {
				return usageError("cannot use --timeout %s: it is more than 0", g.timeout)
			}
			if g.peels < 0 {
				return usageError("cannot use --peels %d: it is 0 or more", g.peels)
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
			defer a.warnOfConfig()
			return a.use(client, func(client *api.Client) error {
				return a.waitForSync(ctx, client, &waiting{line: line, began: time.Now()}, g)
			})
		},
	}
	durationVar(cmd.Flags(), &g.timeout, "timeout", 5*time.Minute, "`TIME` to wait at most")
	cmd.Flags().IntVar(&g.peels, "peels", 0, "also wait until there are at least `N` peels")
	cmd.Flags().StringVar(&g.revision, "revision", "",
		"`COMMIT` to wait for, or the beginning of its hash (default: the newest)")
	return cmd
}

// maxAskInterval is the time between two requests of a long wait. For each request the master reads the state of all
// peels.
const maxAskInterval = time.Second

var hashBeginning = regexp.MustCompile(`^([0-9a-f]{4,64})?$`)

// waitForSync waits for the goal and prints the revision in force.
func (a *app) waitForSync(ctx context.Context, client *api.Client, w *waiting, g goal) error {
	s, failed, err := a.awaitGoal(ctx, client, w, g)
	if err != nil {
		return err
	}
	return cmp.Or(a.showReached(s, failed), failed)
}

// awaitGoal returns the state that ended the wait, and the failure if the goal was not reached. It first makes the
// master read the branch, so that it waits for a commit that was just pushed. It goes on while no master replies,
// because another may take over.
func (a *app) awaitGoal(ctx context.Context, client *api.Client, w *waiting,
	g goal,
) (reached *status.Sync, failed, err error) {
	ask, last := api.SyncNow, "no master has replied"
	for pause := askInterval; ; pause = min(pause*3/2, maxAskInterval) {
		s, err := ask.Ask(ctx, client, api.None{})
		switch {
		case err == nil:
			if done, failed := g.reached(s); done {
				w.line.clear()
				return s, failed, nil
			}
			last = g.missing(s)
			w.show(g.bar(s), last)
			ask = api.SyncStatus
		case ctx.Err() != nil: // the time is over
		case api.CodeOf(err) == api.CodeUnavailable:
			last = err.Error()
			w.show("", last)
		default:
			return nil, nil, err
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return nil, nil, ctx.Err()
			}
			return nil, nil, &failure{
				code: exitSomeSilent, err: fmt.Errorf("not every peel runs the revision after %s: %s", g.timeout, last),
				hint: "zester sync status and zester sync peels show more",
			}
		case <-time.After(pause):
		}
	}
}

// A waiting prints the reason for waiting: on a terminal in one line that it replaces, elsewhere line by line.
type waiting struct {
	line    *progress
	began   time.Time
	printed time.Time // zero: nothing was printed
	text    string    // the last printed reason
}

// Least time between two printed lines without a terminal. A short wait prints none.
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

// bar returns a bar for the share of peels that have applied the wanted commit.
func (g goal) bar(s *status.Sync) string {
	if !g.inForce(s) {
		return bar(0, max(s.Counts.Peels, g.peels))
	}
	return bar(s.Counts.Applied, max(s.Counts.Peels, g.peels))
}

// missing returns why the goal is not reached yet.
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
		parts = append(parts, fmt.Sprintf("revision %s is neither in force nor the newest of %s, which is %s",
			g.revision, s.Branch, s.Observed.Short()))
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

// warnOfConfig prints what is wrong with the configuration of a master on this host.
func (a *app) warnOfConfig() {
	d := doctor{a: a}
	if a.connect.url == "" {
		d.configFile(a.connect.dataDir)
	}
	for _, f := range d.Findings {
		if f.State != sound {
			fmt.Fprintf(a.errOut, "warning: %s\nhint: %s\n", f.Detail, f.Next)
		}
	}
}

// wants returns the counts of peels, and the least number if there are fewer.
func (g goal) wants(c status.Counts) string {
	line := countLine(c)
	if c.Peels < g.peels {
		line += fmt.Sprintf(", %d peels are wanted", g.peels)
	}
	return line
}

// unreadable holds the reasons for an unreadable branch that end a wait, with a hint for each. A [status.Stalled]
// reconciler ends it too. Other errors, such as a timeout, may be temporary.
var unreadable = map[string]string{
	"RefNotFound": "push the branch, or name another: branch: of the master's configuration",
	"NotFound": "is the address right? repo: of the master's configuration; " +
		"a private repo also needs a credential, below git:",
	"NotGit": "is the address right? repo: of the master's configuration. " +
		"A new repo needs git init and a first commit",
	"AuthenticationFailed":  "give the master a credential that may read the repo, below git: of its configuration",
	"Forbidden":             "give the master a credential that may read the repo, below git: of its configuration",
	"CredentialsUnreadable": "the files are named below git: of the master's configuration",
	"KeysUnreadable":        "the files are named below verify: of the master's configuration",
}

// lost returns the failure of a branch that stays unreadable until somebody changes the configuration, else nil.
func lost(s *status.Sync) *failure {
	for _, c := range s.Conditions {
		if c.Type != status.FetchFailed || !c.Status {
			continue
		}
		hint, known := unreadable[c.Reason]
		if c.Reason == "Forbidden" && filepath.IsAbs(strings.TrimPrefix(s.Repo, "file://")) {
			hint = "the user of the master, zester if a package has made it, may not read that directory: " +
				"keep the repo elsewhere than in /root and /home, such as in /srv"
		}
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
		return true, notOut(s)
	}
	if f := lost(s); f != nil {
		return true, f
	}
	if r := s.Rollout; r != nil && r.State == status.AllAway && strings.HasPrefix(string(r.Commit), wanted) {
		return true, &failure{
			code: exitSomeSilent,
			err:  fmt.Errorf("revision %s waits: %s", r.Commit.Short(), r.Reason),
		}
	}
	return false, nil
}

// applied is reached for a goal whose commit is in force.
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
