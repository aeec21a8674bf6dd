package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/reconciler/status"
)

func (a *app) syncApproveCommand() *cobra.Command {
	var override, reason string
	cmd := &cobra.Command{
		Use:   "approve PLAN|WAVE|COMMIT",
		Short: "Let the revision that waits go on",
		Long: `approve PLAN lets the revision go out that waits because it exceeds the limits in zester.yaml or because the branch was
rewritten. PLAN is the hash of its plan, of which 8 digits are enough; sync status shows it. The hash stands for one change
of certain peels: if peels come or go before you approve, the plan has another hash and waits again. A commit that exceeds
limits needs no approval if its message ends with the line that zester plan shows, such as "Zester-Allow: remove", unless it
would leave nothing.

approve WAVE opens the manual gate of the wave that has passed: the next wave begins.

approve COMMIT --override-freeze REASON lets the revision that a freeze holds go out now. The next one waits again.

History and audit log hold the person and the reason.`,
		Args: words("hash of the plan, the name of the wave or the commit"),
		RunE: func(cmd *cobra.Command, args []string) error {
			q := status.ApproveRequest{Reason: reason}
			if planHash.MatchString(args[0]) {
				q.Hash = args[0]
			} else {
				q.Wave = args[0]
			}
			if cmd.Flags().Changed("override-freeze") {
				if q.Wave != "" {
					return usageError("cannot override the freeze for %q: give 8 digits of the commit or more", q.Wave)
				}
				q.Override, q.Reason = true, override
			}
			err := a.steer(cmd, func(ctx context.Context, c *api.Client) (*status.Sync, error) { return c.SyncApprove(ctx, q) })
			return hinted(err, api.CodeConflict, "zester sync status shows what waits, and the command that lets it go on")
		},
	}
	cmd.Flags().StringVar(&override, "override-freeze", "", "release the commit from the freeze, with this `REASON` to record")
	cmd.Flags().StringVar(&reason, "reason", "", "`REASON` to record, one line")
	cmd.MarkFlagsMutuallyExclusive("override-freeze", "reason")
	return cmd
}

// planHash is the form of the hash of a plan or commit, or of its beginning. A wave with a manual gate has no such name.
var planHash = regexp.MustCompile(`^[0-9a-f]{8,}$`)

func (a *app) syncPauseCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "pause",
		Short: "Keep new commits from the fleet",
		Long: `pause keeps new commits from the fleet until sync resume, whichever master leads. A rollout in waves stops after the
wave that is under way; one that fails is taken back all the same. Peels that are new, or whose facts
change, are served from the revision in force.`,
		Args: words(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.steer(cmd, func(ctx context.Context, c *api.Client) (*status.Sync, error) { return c.SyncPause(ctx) })
		},
	}
}

func (a *app) syncResumeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "resume",
		Short: "Let new commits go to the fleet again",
		Args:  words(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.steer(cmd, func(ctx context.Context, c *api.Client) (*status.Sync, error) { return c.SyncResume(ctx) })
		},
	}
}

func (a *app) syncPinCommand() *cobra.Command {
	var untilNewer bool
	cmd := &cobra.Command{
		Use:   "pin REVISION",
		Short: "Hold the fleet at a revision that was served before",
		Long: `pin gives the whole fleet a revision at once and holds it, whatever the branch says, until sync unpin. It
needs the repo no more: the masters keep the files of the newest 20 revisions that went to the fleet, and of those in
use, on the bus; sync history shows which. A rollout that is under way ends, and neither waves nor a pause nor the guard
hold a pin up. Peels that are new, or whose facts change, are served from the pinned revision.

With --until-newer the first commit ends the pin that comes after the pinned one, was not on the branch when it was
pinned, and was not rolled back.`,
		Args: words("commit, or the beginning of its hash"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.steer(cmd, func(ctx context.Context, c *api.Client) (*status.Sync, error) {
				return c.SyncPin(ctx, args[0], untilNewer)
			})
		},
	}
	cmd.Flags().BoolVar(&untilNewer, "until-newer", false, "end the pin when a newer commit comes")
	return cmd
}

func (a *app) syncUnpinCommand() *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "unpin",
		Short: "Follow the branch again after a pin",
		Long: `unpin ends a pin. It first prints where that leads: to the newest commit of the branch, which goes out as a new commit
does, or nowhere, because that commit was rolled back or new commits are paused. With --dry-run nothing else is done.`,
		Args: words(),
		RunE: a.online(func(cmd *cobra.Command, client *api.Client, _ []string) error {
			s, err := client.SyncStatus(cmd.Context())
			if err != nil {
				return err
			}
			if s.Pinned != nil {
				fmt.Fprintln(a.errOut, "unpin:", plain(afterPin(s)))
			} else if dryRun {
				return &failure{code: exitFailed, err: errors.New("cannot unpin: nothing is pinned")}
			}
			if dryRun {
				return nil
			}
			return a.steerWith(cmd.Context(), client, func(ctx context.Context, c *api.Client) (*status.Sync, error) { return c.SyncUnpin(ctx) })
		}),
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print where unpin leads, and do nothing")
	return cmd
}

// afterPin says what the fleet gets when the pin ends.
func afterPin(s *status.Sync) string {
	pinned, head := s.Pinned.Commit.Short(), s.Observed.Short()
	var text string
	switch {
	case s.Observed == "":
		text = fmt.Sprintf("from %s to the newest commit of %s, which this master has not read yet", pinned, s.Branch)
	case s.Observed == s.Pinned.Commit:
		text = fmt.Sprintf("%s stays, as it is the newest commit of %s", pinned, s.Branch)
	case s.Is(status.HeadSkipped):
		return fmt.Sprintf("%s stays: %s, the newest commit of %s, was rolled back; zester sync retry %[2]s tries it again", pinned, head, s.Branch)
	case s.Paused != nil:
		return fmt.Sprintf("%s stays: %s has paused new commits; after zester sync resume %s follows, the newest commit of %s", pinned, s.Paused.By, head, s.Branch)
	default:
		text = fmt.Sprintf("from %s to %s, the newest commit of %s, held to the limits and in waves as a new commit", pinned, head, s.Branch)
	}
	if s.Is(status.FetchFailed) {
		text += fmt.Sprintf("; the branch cannot be read and was last read %s", when(s.Read))
	}
	return text
}

func (a *app) syncRetryCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "retry [COMMIT]",
		Short: "Try a revision again that was rolled back",
		Long: `retry has a revision tried again that a wave has rolled back: from the first wave, and held to the limits as a new
commit is. COMMIT is its hash or the beginning of it, by default the newest that was rolled back. It has to be the
newest commit of the branch. While a revision is pinned, or new commits are paused, retry is refused.`,
		Args: atMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.steer(cmd, func(ctx context.Context, c *api.Client) (*status.Sync, error) {
				return c.SyncRetry(ctx, strings.Join(args, ""))
			})
		},
	}
}

// steer connects, gives an order to the reconciler and prints what became of it.
func (a *app) steer(cmd *cobra.Command, ask func(context.Context, *api.Client) (*status.Sync, error)) error {
	return a.withClient(func(client *api.Client) error { return a.steerWith(cmd.Context(), client, ask) })
}

// steerWith gives an order to the reconciler and prints what became of it. It fails if the newest commit is still refused.
func (a *app) steerWith(ctx context.Context, client *api.Client, ask func(context.Context, *api.Client) (*status.Sync, error)) error {
	s, err := ask(ctx, client)
	if err != nil {
		return err
	}
	if err := a.showSync(s); err != nil {
		return err
	}
	if refused(s) {
		return &failure{code: exitFailed}
	}
	return nil
}
