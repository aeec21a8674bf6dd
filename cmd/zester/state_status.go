package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func (a *app) stateCommand() *cobra.Command {
	return group("state", "Show how hosts compare with their states", a.stateStatusCommand(), a.stateRestoreCommand())
}

func (a *app) stateRestoreCommand() *cobra.Command {
	run := 0
	cmd := &cobra.Command{
		Use:   "restore HOST [PATH]",
		Short: "Put back a file or directory that states replaced or removed",
		Long: `restore puts back what was at a path of a host before the newest run that
replaced or removed it, with its owner and mode. Without PATH it lists what the
host keeps: files up to 8 MiB, 64 MiB in all, of 20 runs.

What is at the path now is kept too, so restore can be taken back. The next run
of the states changes the file again, unless the config repo changes.

It runs the function state.restore, or state.kept, as a job. Output and exit
code are those of zester HOST state.restore.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 {
				return words("host", "path")(cmd, args)
			}
			return words("host")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, words []string) error {
			if len(words) == 1 {
				return a.callSchedule(cmd, words[0], "state.kept", map[string]any{})
			}
			args := map[string]any{"path": words[1]}
			if run != 0 {
				args["run"] = int64(run)
			}
			return a.callSchedule(cmd, words[0], "state.restore", args)
		},
	}
	cmd.Flags().IntVar(&run, "run", 0, "as it was before the run of this `NUMBER`, which the list names")
	a.dispatching.following(cmd.Flags())
	return cmd
}

func (a *app) stateStatusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status [TARGET]",
		Short: "Show what the newest run of the states of each peel has found",
		Long: `status shows the peels whose settings have states, or those of a target, by
their newest run of all states (state.highstate, or state.apply without names).
A run with test=true counts too: it finds drift and changes nothing.

clean: every state holds. drifted: the host has changed. pending: states were
not applied yet, or a reaction is due. failed: a state failed. unknown: the run
was canceled, or could not predict all states. never: there was no run.
other_settings: the run was made with other settings than the host is to have.

The exit code is 2 if states failed.`,
		Args: atMost(1),
		RunE: a.online(func(cmd *cobra.Command, client *api.Client, args []string) error {
			peels, err := a.statesOf(cmd.Context(), client, args)
			if err != nil {
				return err
			}
			if err := a.print(peels, stateNames(peels), func() error { return a.showStates(peels) }); err != nil {
				return err
			}
			if slices.ContainsFunc(peels, func(s status.States) bool { return s.State == status.HostFailed }) {
				return &failure{code: exitSomeFailed}
			}
			return nil
		}),
	}
}

// statesOf returns the newest runs of the peels of a target, of all peels if args has none.
func (a *app) statesOf(ctx context.Context, client *api.Client, args []string) ([]status.States, error) {
	all, err := client.SyncStates(ctx)
	if err != nil || len(args) == 0 {
		return all, err
	}
	matched, err := a.resolve(ctx, client, args[0])
	if err != nil {
		return nil, err
	}
	wanted := map[target.PeelID]bool{}
	for _, id := range matched {
		wanted[id] = true
	}
	return slices.DeleteFunc(all, func(s status.States) bool { return !wanted[s.Peel] }), nil
}

func stateNames(peels []status.States) (names []string) {
	for _, s := range peels {
		names = append(names, string(s.Peel))
	}
	return names
}

// showStates prints the peels, worst first, and how many there are in each state.
func (a *app) showStates(peels []status.States) error {
	if len(peels) == 0 {
		fmt.Fprintln(a.out, "no peel has states in its settings")
		return nil
	}
	if err := a.printTable(statesTable(peels)); err != nil {
		return err
	}
	counts := status.HostCounts{}
	for _, s := range peels {
		counts[s.State]++
	}
	fmt.Fprintf(a.out, "%s: %s\n", count(len(peels), "peel"), hostCountLine(counts))
	return nil
}

// hostCountLine returns the number of peels in each host state, without states that no peel is in.
func hostCountLine(c status.HostCounts) string {
	var parts []string
	for _, s := range status.HostStates {
		if c[s] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c[s], s))
		}
	}
	return strings.Join(parts, ", ")
}

// hostRanks order host states for people: what needs them comes first.
var hostRanks = []status.HostState{
	status.HostFailed, status.HostDrifted, status.HostUnknown, status.HostPending, status.HostOther, status.HostNever,
	status.HostClean,
}

func statesTable(peels []status.States) table {
	t := table{
		header: []string{"PEEL", "STATE", "RUN", "AGE", "COMMIT", "STATES", "DIGEST", "WANTED", "WHAT"},
		states: []string{"STATE"},
		narrow: []string{"WHAT"},
		drop:   []string{"COMMIT", "STATES"},
		wide:   []string{"DIGEST", "WANTED"},
	}
	sorted := sorting.Values(slices.Values(peels), func(x, y status.States) int {
		return cmp.Compare(slices.Index(hostRanks, x.State), slices.Index(hostRanks, y.State))
	})
	for _, s := range sorted {
		run, since := "", ""
		if s.State != status.HostNever {
			run, since = "applied", age(time.Since(s.Time))
			if s.Test {
				run = "test"
			}
		}
		total := 0
		for _, n := range s.Counts {
			total += n
		}
		t.add(string(s.Peel), string(s.State), run, since, s.Commit.Short(), fmt.Sprint(total), shortDigest(s.Digest),
			shortDigest(s.Wanted), resultsLine(s))
	}
	return t
}

// resultsLine names the states of a run that need attention.
func resultsLine(s status.States) string {
	var parts []string
	for _, r := range s.Results {
		switch r.Result {
		case "changed":
		case "failed":
			parts = append(parts, fmt.Sprintf("%s failed: %s", r.State, r.Error))
		default:
			text := r.State + " " + strings.ReplaceAll(r.Result, "_", " ")
			if r.Cause == "drift" {
				text += " (drift)"
			}
			parts = append(parts, text)
		}
	}
	for _, name := range s.Owed {
		parts = append(parts, name+" has a reaction due")
	}
	return strings.Join(parts, "; ")
}
