package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/cmd/zester/swarm"
	"github.com/seed-c01c3da5/zester/cmd/zester/swarm/figures"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
)

func (a *app) swarmCommand() *cobra.Command {
	var o swarm.Options
	var url string
	cmd := &cobra.Command{
		Use:   "swarm",
		Short: "Measure a master and its bus with thousands of simulated peels",
		Long: `swarm starts a master, a bus and peels on this machine, and measures how long it takes to connect them, to bring a
commit to them, to run a function on all of them and to record what they run by themselves. Beside each figure stands
what the bare bus needs for the same traffic with the same promises, in the same run; and beside the bare connections
what they need on a bus that checks no credentials and does not encrypt. It fails if the bus refused anything to anybody.

A simulated peel is the real one without cmd.run and without the facts of its host. If zester-peel lies beside zester,
one is started as a process of its own too, and what it takes to do nothing is measured. Nothing is left behind.

With --connect the bus is a server or cluster that you run, before the first master uses it: its accounts are those of
the keys in --data-dir. A bus that keeps anything is refused, and what swarm makes on it is deleted at the end, but
for the audit, which nobody can delete.`,
		Args: words(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			exe, err := os.Executable()
			if err != nil {
				return err
			}
			o.Worker, o.Programs = []string{exe, "swarm", "peels"}, filepath.Dir(exe)
			if url != "" {
				o.External = &swarm.External{URL: url, CA: a.connect.ca, Keys: keystore.Dir(a.connect.dataDir)}
			}
			line := newProgress(a.errOut)
			o.Out, o.Progress = clearing{line}, line.bar
			report, err := swarm.Run(cmd.Context(), o)
			if err != nil {
				return err
			}
			return a.printSwarm(report)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&o.Peels, "peels", 1000, "simulate `N` peels")
	flags.StringVar(&url, "connect", "", "measure the bus at `URL`, which nobody uses yet, with the keys in --data-dir and the certificates in --ca")
	flags.IntVar(&o.Procs, "procs", 0, "in `N` processes (default: one for every 2500)")
	flags.IntVar(&o.Rounds, "rounds", 5, "measure each dispatch and commit `N` times and take the median")
	durationVar(flags, &o.Idle, "idle", 10*time.Second, "`TIME` to watch the idle master")
	durationVar(flags, &o.Soak, "soak", 0, "instead let the fleet work for `TIME`, with commits, dispatches, schedules and restarts, and count what is lost")
	flags.IntVar(&o.Outputs, "outputs", 0, "instead ask every peel for 64 KiB of output `N` times, and count what is lost")
	cmd.AddCommand(&cobra.Command{
		Use: "peels", Hidden: true, Args: words(),
		RunE: func(cmd *cobra.Command, _ []string) error { return swarm.Work(cmd.Context(), os.Stdin) },
	})
	return cmd
}

func (a *app) printSwarm(r *figures.Report) error {
	if a.output == formJSON {
		e := json.NewEncoder(a.out)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	return r.Markdown(a.out)
}

// clearing prints lines above the progress.
type clearing struct{ line *progress }

func (c clearing) Write(text []byte) (int, error) {
	c.line.clear()
	return c.line.w.Write(text)
}
