package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/settings/schedule/forecast"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func (a *app) syncPlanCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "plan [COMMIT]",
		Short: "Show what the waiting revision would change",
		Long: `plan shows the revision that waits, what it waits for, and the changes that it
would make to the fleet, as the master has compiled them; or the changes that
new facts of peels would make, if these wait. The master compiles nothing for
this command: a revision that waits for the end of a pin or pause has no plan
yet. zester plan in a checkout compares any two revisions.`,
		Args: atMost(1),
		RunE: a.online(func(cmd *cobra.Command, client *api.Client, args []string) error {
			p, err := api.SyncPlan.Ask(cmd.Context(), client, status.PlanRequest{Revision: strings.Join(args, "")})
			if err != nil {
				return hinted(err, api.CodeNotFound,
					"zester sync status shows the newest commit and the revision in force")
			}
			return a.print(p, []string{string(p.Commit)}, func() error {
				a.describePlan(p)
				return nil
			})
		}),
	}
}

// atMost refuses more than n arguments.
func atMost(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error { return words(args[:min(n, len(args))]...)(cmd, args) }
}

// describePlan prints a plan for people.
func (a *app) describePlan(p *status.Plan) {
	fmt.Fprintf(a.out, "%s waits for %s\n", p.Commit.Short(), waitsFor(p))
	for line := range strings.Lines(p.Reason) {
		fmt.Fprintln(a.out, "  "+plain(strings.TrimSpace(line)))
	}
	c := p.Change
	if c == nil {
		fmt.Fprintf(
			a.out,
			"it has not been compiled yet; zester plan --base %s --head %s in a checkout shows what it changes\n",
			p.Base.Short(), p.Commit.Short(),
		)
		return
	}
	fmt.Fprintf(a.out, "it changes %s; of %s %d are removed and %d changed, %d are added\n", count(c.Peels, "peel"),
		entries(c.Before), c.Removed, c.Changed, c.Added)
	if c.StatesAdded+c.StatesChanged+c.StatesRemoved > 0 {
		fmt.Fprintf(a.out, "of its states %d are removed and %d changed, %d are added\n", c.StatesRemoved,
			c.StatesChanged, c.StatesAdded)
	}
	for _, g := range c.Groups {
		fmt.Fprintln(a.out, "  "+plain(groupLine(g)))
	}
	if c.More > 0 {
		fmt.Fprintf(a.out, "  and %d more groups of peels\n", c.More)
	}
}

func (a *app) syncShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show COMMIT",
		Short: "Show what a revision changed",
		Long: `show compares a revision of the history with the one that was in force before
it, on the peels of today: its files, its entries and states field by field, and
the load. Masters read both from the repo, or from what the bus stores. Values
that look like secrets are not shown. zester plan in a checkout compares any two
commits.`,
		Args: words("COMMIT"),
		RunE: a.online(func(cmd *cobra.Command, client *api.Client, args []string) error {
			c, err := api.SyncCommit.Ask(cmd.Context(), client, status.CommitRequest{Revision: args[0]})
			if err != nil {
				return hinted(err, api.CodeNotFound, "zester sync history lists the revisions")
			}
			return a.print(c, []string{string(c.Commit)}, func() error {
				a.describeCommit(c)
				return nil
			})
		}),
	}
}

// describeCommit prints what a revision changed.
func (a *app) describeCommit(c *status.CommitChange) {
	before := "as the first revision"
	if c.Base != "" {
		before = "against " + c.Base.Short()
	}
	fmt.Fprintf(a.out, "%s %s\n", c.Commit.Short(), before)
	for _, f := range c.Files {
		fmt.Fprintf(a.out, "  %s +%d -%d\n", plain(f.Path), f.Added, f.Removed)
	}
	if c.MoreFiles > 0 {
		fmt.Fprintf(a.out, "  and %s more\n", count(c.MoreFiles, "file"))
	}
	if c.Lacks != "" {
		fmt.Fprintln(a.out, "what it changed is not known: "+plain(c.Lacks))
	}
	if c.Change != nil {
		fmt.Fprintf(a.out, "it changes %s; of %s %d are removed and %d changed, %d are added\n",
			count(c.Change.Peels, "peel"), entries(c.Change.Before), c.Change.Removed, c.Change.Changed, c.Change.Added)
	}
	if l := c.Load; l != nil {
		fmt.Fprintf(a.out, "runs in a day: %s, then %s\n", forecast.Number(l.Before), forecast.Number(l.After))
	}
	for _, b := range c.Blocks {
		fmt.Fprintln(a.out, namesOf(b.Peels, b.Count)+":")
		for _, line := range b.Lines {
			fmt.Fprintln(a.out, "  "+plain(line))
		}
	}
	if c.MoreLines > 0 {
		fmt.Fprintf(a.out, "and %s more\n", count(c.MoreLines, "line"))
	}
}

// entries returns a number of entries in words.
func entries(n int) string {
	if n == 1 {
		return "1 entry"
	}
	return fmt.Sprintf("%d entries", n)
}

// waitsFor returns the text about what lets the revision of a plan go out.
func waitsFor(p *status.Plan) string {
	switch p.Waits {
	case status.WaitApproval:
		return "zester sync approve " + status.ShortHash(p.Hash)
	case status.WaitFacts:
		return "zester sync approve " + status.ShortHash(p.Hash) + ", as new facts of peels change what it gives them"
	case status.WaitPin:
		return "zester sync unpin"
	case status.WaitPause:
		return "zester sync resume"
	case status.WaitRetry:
		return "zester sync retry, because it was rolled back"
	case status.WaitFreeze:
		return fmt.Sprintf("the end of a freeze, or zester sync approve %s --override-freeze REASON", p.Commit.Short())
	case status.WaitWaves:
		return "its waves"
	}
	return "a newer commit, because it is refused"
}

// groupLine returns a group of peels with their changes: web-01, web-02 and 3 more: + new, ~ changed, - removed.
func groupLine(g status.Group) string {
	var entries []string
	for _, kind := range []struct {
		sign  string
		names []string
	}{{"+ ", g.Added}, {"~ ", g.Changed}, {"- ", g.Removed}} {
		for _, name := range kind.names {
			entries = append(entries, kind.sign+name)
		}
	}
	if len(entries) == 0 {
		entries = []string{"settings beside the schedule and the states"}
	}
	return namesOf(g.Peels, g.Count) + ": " + strings.Join(entries, ", ")
}

func namesOf(peels []target.PeelID, count int) string {
	names := make([]string, len(peels))
	for i, id := range peels {
		names[i] = string(id)
	}
	text := strings.Join(names, ", ")
	if more := count - len(peels); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
