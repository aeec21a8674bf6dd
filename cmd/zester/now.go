package main

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/settings/schedule/forecast"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

func (a *app) nowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "now",
		Short: "Show whether anything is wrong, and which commit it followed",
		Long: `now shows what the first page of the console shows: the state of the fleet in
one word, what is wrong with schedules, revisions and states, the worst first,
and how much waits for a person. For failures it names the commit that they
followed, as likely or possible.

The state is ok, fail, late, or unknown: what the master knows is old, or cannot
be read. The exit code is 2 unless it is ok.`,
		Args: words(),
		RunE: a.online(func(cmd *cobra.Command, client *api.Client, _ []string) error {
			now, err := api.NowShow.Ask(cmd.Context(), client, api.None{})
			if err != nil {
				return err
			}
			if err := a.print(now, problemNames(now.Problems), func() error { return a.describeNow(now) }); err != nil {
				return err
			}
			if now.State != api.FleetOk {
				return &failure{code: exitSomeFailed}
			}
			return nil
		}),
	}
}

// problemNames are the classes of problems, each with its entry if it has one.
func problemNames(problems []api.Problem) (names []string) {
	for _, p := range problems {
		name := string(p.Class)
		if p.Entry != "" {
			name += ":" + p.Entry
		}
		names = append(names, name)
	}
	return names
}

// describeNow prints the state of the fleet for people.
func (a *app) describeNow(n *api.Now) error {
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(a.out, "%-11s %s\n", name+":", plain(value))
		}
	}
	line("state", string(n.State))
	line("unknown", n.Doubt)
	if f := n.Fleet; f != nil {
		line("peels", fmt.Sprintf("%d with a schedule, %d report, %d without a problem", f.Peels, f.Reporting, f.Well))
	}
	if len(n.Waiting) > 0 {
		line("waiting", fmt.Sprintf("%s; zester approvals lists what waits", count(len(n.Waiting), "decision")))
	}
	for _, missing := range n.Missing {
		line("not known", missing)
	}
	if len(n.Problems) == 0 {
		return nil
	}
	t := table{
		header: []string{"PROBLEM", "ENTRY", "PEELS", "SINCE", "TEXT", "CAUSE"}, narrow: []string{"TEXT", "CAUSE"},
		states: []string{"PROBLEM"},
	}
	for _, p := range n.Problems {
		peels, cause := "", ""
		if p.Peels > 0 {
			peels = fmt.Sprint(p.Peels)
		}
		if p.Finding != nil {
			cause = p.Finding.Text
		}
		t.add(string(p.Class), p.Entry, peels, clock(p.Since), p.Text, cause)
	}
	fmt.Fprintln(a.out)
	return a.printTable(t)
}

func (a *app) approvalsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "approvals",
		Short: "List everything that waits for a person, the oldest first",
		Long: `approvals lists what waits for a decision: actions that assistants asked for,
plans, gates of waves, freezes, changes by new facts, another config repo, and
hosts that ask to join. The last column is the command that decides.

Who has limits sees the own actions alone, and no hosts. zester approve decides
about actions of assistants, and zester sync approve about revisions.`,
		Args: words(),
		RunE: a.online(func(cmd *cobra.Command, client *api.Client, _ []string) error {
			all, err := api.ApprovalList.Ask(cmd.Context(), client, api.None{})
			if err != nil {
				return err
			}
			t := table{
				header: []string{"KIND", "SINCE", "WHAT", "MORE", "DECIDE WITH"}, narrow: []string{"MORE"},
			}
			names := make([]string, 0, len(all.Waiting))
			for i := range all.Waiting {
				w := &all.Waiting[i]
				t.add(string(w.Kind), clock(w.Since), w.What, w.More, decideWith(w))
				names = append(names, cmp.Or(w.ID, string(w.Commit), string(w.Kind)))
			}
			for _, missing := range all.Missing {
				fmt.Fprintln(a.errOut, "warning: something may be missing:", plain(missing))
			}
			return a.print(all, names, func() error {
				if len(t.rows) == 0 {
					_, err := fmt.Fprintln(a.out, "nothing waits for a person")
					return err
				}
				return a.printTable(t)
			})
		}),
	}
}

// decideWith returns the command that decides about what waits.
func decideWith(w *api.Waiting) string {
	switch w.Kind {
	case api.WaitingHeld:
		return "zester approve " + w.ID
	case api.WaitingPlan, api.WaitingFacts:
		return "zester sync approve " + status.ShortHash(w.ID)
	case api.WaitingGate:
		return "zester sync approve " + w.ID
	case api.WaitingFreeze:
		return "zester sync approve " + w.Commit.Short() + " --override-freeze REASON"
	case api.WaitingAdopt:
		return "zester sync adopt"
	case api.WaitingEnroll:
		return "zester auth peel approve " + w.ID
	}
	return ""
}

func (a *app) loadCommand() *cobra.Command {
	var entry string
	var span time.Duration
	cmd := &cobra.Command{
		Use:   "load [TARGET]",
		Short: "Count the runs that schedules will start, by the hour",
		Long: `load shows how many runs the schedules in force are expected to start in each
hour, on all peels or those of a target, and the minute with the most runs with
its entries. Windows, calendars and delays count; long runs, failures and pauses
on peels do not. zester simulate --expected does the same for a directory, and
zester schedule spread proposes delays that lower the peak.`,
		Args: atMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if span < time.Hour || span > forecast.MaxFor {
				return usageError("cannot count the runs of the next %s: --for is 1h to 7d", span)
			}
			if _, err := path.Match(entry, ""); err != nil {
				return usageError("cannot match entries with %q: it is no glob such as backup*", entry)
			}
			q := api.LoadRequest{Entry: entry, For: strictyaml.FormatDuration(span)}
			if len(args) > 0 {
				q.Target = args[0]
			}
			return a.withClient(func(client *api.Client) error { return a.showLoad(cmd.Context(), client, q) })
		},
	}
	cmd.Flags().StringVar(&entry, "entry", "", "only entries that match the `GLOB`")
	durationVar(cmd.Flags(), &span, "for", day, "the next `TIME`, 1h to 7d")
	return cmd
}

func (a *app) showLoad(ctx context.Context, client *api.Client, q api.LoadRequest) error {
	l, err := api.LoadShow.Ask(ctx, client, q)
	if err != nil {
		return err
	}
	t := table{header: []string{"HOUR", "RUNS"}}
	names := make([]string, 0, len(l.Hours))
	for _, h := range l.Hours {
		t.add(clock(h.At), fmt.Sprintf("%.0f", h.Runs))
		names = append(names, h.At.UTC().Format(time.RFC3339))
	}
	return a.print(l, names, func() error {
		if err := a.printTable(t); err != nil {
			return err
		}
		fmt.Fprintf(a.out, "%s, by the table of master %s\n", count(l.Peels, "peel"), plain(l.Master))
		if l.Worst.Runs > 0 {
			fmt.Fprintf(a.out, "most in one minute: %.0f at %s\n", l.Worst.Runs, clock(l.Worst.At))
		}
		for _, e := range l.Worst.Entries {
			fmt.Fprintf(a.out, "  %.0f of %s\n", e.Runs, plain(e.Entry))
		}
		return nil
	})
}
