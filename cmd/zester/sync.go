package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/reconciler/status"
)

func (a *app) syncCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "sync", Short: "See how far the fleet is with what Git says", Args: cobra.NoArgs, RunE: needsCommand}
	cmd.AddCommand(
		a.syncAnswer("status", "Show the revision in force, what is wrong, and how many peels run it", (*api.Client).SyncStatus),
		a.syncAnswer("now", "Ask for the branch at once and wait until that has ended", (*api.Client).SyncNow),
		a.syncPeelsCommand(), a.syncWaitCommand())
	return cmd
}

func (a *app) syncAnswer(verb, short string, ask func(*api.Client, context.Context) (*status.Sync, error)) *cobra.Command {
	return &cobra.Command{
		Use: verb, Short: short, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			defer client.Close()
			s, err := ask(client, cmd.Context())
			if err != nil {
				return err
			}
			if a.output != "table" {
				return a.encode(s)
			}
			a.describeSync(s)
			return nil
		},
	}
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
	line("peels", countLine(s.Counts))
	for _, c := range s.Conditions {
		if c.Status && c.Type != status.Ready {
			line(string(c.Type), strings.TrimSpace(c.Reason+" "+firstLine(c.Message)))
		}
	}
	for _, e := range s.Errors {
		fmt.Fprintln(a.out, "  "+plain(e))
	}
	for _, w := range s.Warnings {
		fmt.Fprintln(a.out, "  warning: "+plain(w))
	}
}

func firstLine(s string) string {
	first, _, _ := strings.Cut(s, "\n")
	return first
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

func (a *app) syncPeelsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "peels",
		Short: "Show which revision each peel runs",
		Args:  cobra.NoArgs,
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
			t := table{header: []string{"PEEL", "STATE", "ONLINE", "COMMIT", "STARTED", "STOPPED", "CHANGED", "KEPT", "ERRORS"}}
			for _, p := range peels {
				t.add(string(p.Peel), string(p.State), yesNo(p.Online), p.Commit.Short(), fmt.Sprint(p.Started), fmt.Sprint(p.Stopped),
					fmt.Sprint(p.Changed), fmt.Sprint(p.Kept), strings.Join(p.Errors, "; "))
			}
			return a.show(peels, t)
		},
	}
}

func (a *app) syncWaitCommand() *cobra.Command {
	var timeout time.Duration
	var revision string
	cmd := &cobra.Command{
		Use:   "wait",
		Short: "Wait until every peel that is online runs the revision in force",
		Long: `wait ends with 0 when every peel has applied the revision, with 2 when a peel could not use it, with 3 when the
time is over or a peel that lacks it is offline, and with 1 when the newest commit is refused.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			defer client.Close()
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return a.waitForSync(ctx, client, revision)
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Minute, "wait this long at most")
	cmd.Flags().StringVar(&revision, "revision", "", "wait for the `COMMIT`, or the beginning of its hash (default: where the branch is)")
	return cmd
}

// waitForSync first has the branch asked, so that a commit made just before is the one that is waited for.
func (a *app) waitForSync(ctx context.Context, client *api.Client, revision string) error {
	s, err := client.SyncNow(ctx)
	for ; err == nil; s, err = client.SyncStatus(ctx) {
		if done, failure := settled(s, revision); done {
			if a.output != "table" {
				return errors.Join(a.encode(s), failure)
			}
			fmt.Fprintf(a.out, "%s: %s\n", s.LastGood.Commit.Short(), countLine(s.Counts))
			return failure
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &failure{code: exitSomeSilent, err: errors.New("not every peel runs the revision in time"), hint: "zester sync peels shows which"}
	}
	return err
}

// settled reports whether nothing more is to be waited for, and the failure if that is not what was wanted.
func settled(s *status.Sync, revision string) (bool, error) {
	refused := s.Is(status.CompileFailed) || s.Is(status.GuardBlocked)
	if refused && strings.HasPrefix(string(s.LastAttempted), revision) {
		return true, &failure{code: exitFailed, err: fmt.Errorf("revision %s is refused:\n%s", s.LastAttempted.Short(), strings.Join(s.Errors, "\n"))}
	}
	if !strings.HasPrefix(string(s.LastGood.Commit), revision) || s.Counts.Pending > 0 || s.LastGood.Commit == "" {
		return false, nil
	}
	switch {
	case s.Counts.Failed > 0 && s.Counts.Offline > 0:
		return true, &failure{code: exitBoth}
	case s.Counts.Failed > 0:
		return true, &failure{code: exitSomeFailed}
	case s.Counts.Offline > 0:
		return true, &failure{code: exitSomeSilent}
	}
	return true, nil
}
