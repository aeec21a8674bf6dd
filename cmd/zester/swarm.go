package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/cmd/zester/swarm"
	"github.com/seed-c01c3da5/zester/cmd/zester/swarm/worker"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
)

func (a *app) swarmCommand() *cobra.Command {
	var o swarm.Options
	var url string
	cmd := &cobra.Command{
		Use:   "swarm",
		Short: "Measure a master and its bus with thousands of simulated peels",
		Long: `swarm starts a master, a bus and simulated peels on this machine. It measures
the time to connect the peels, to publish a commit to them, to run a function on
all of them, and to record their scheduled runs. Next to each figure it prints
the time that the bare bus needs for the same traffic with the same guarantees,
measured in the same run, and for connections also the time without credentials
and encryption. It fails if the bus refuses a request.

A simulated peel is a real one without cmd.run and without the facts of its
host. If zester-peel is in the directory of zester, swarm also starts one as a
process, and measures its idle memory and processor time. Everything is removed
at the end.

With --connect swarm measures a server or cluster of yours, before a master uses
it. Its accounts must come from the keys in --data-dir, and it must be empty. At
the end swarm deletes everything that it stored there, except the audit log,
which nobody can delete.`,
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
	flags.StringVar(&url, "connect", "",
		"measure the unused bus at `URL`, with the keys in --data-dir and the CA certificates in --ca")
	flags.IntVar(&o.Procs, "procs", 0, "run the peels in `N` processes (default: one for every 2500)")
	flags.IntVar(&o.Rounds, "rounds", 5, "measure each dispatch and commit `N` times and take the median")
	durationVar(flags, &o.Idle, "idle", 10*time.Second, "`TIME` to watch the idle master")
	durationVar(flags, &o.Soak, "soak", 0,
		"instead run commits, dispatches, schedules and restarts for `TIME`, and count what is lost")
	flags.IntVar(&o.Outputs, "outputs", 0,
		"instead run a function with 64 KiB of output on every peel `N` times, and count what is lost")
	durationVar(flags, &o.Outage, "outage", 0,
		"instead stop master and bus for `TIME`, and count what they know of the fires in it")
	cmd.AddCommand(&cobra.Command{
		Use: "peels", Hidden: true, Args: words(),
		RunE: func(cmd *cobra.Command, _ []string) error { return worker.Work(cmd.Context(), os.Stdin) },
	})
	return cmd
}

func (a *app) printSwarm(r *swarm.Report) error {
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
