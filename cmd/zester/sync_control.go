package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/settings/status"
)

func (a *app) syncApproveCommand() *cobra.Command {
	var override, reason, revision string
	cmd := &cobra.Command{
		Use:   "approve PLAN|WAVE|COMMIT",
		Short: "Approve a waiting revision, open a gate, or override a freeze",
		Long: `approve PLAN lets a revision go out that exceeds the limits in zester.yaml, or
that waits because the branch was rewritten. It also lets new facts of peels
change more settings than the limits allow. PLAN is the hash of its plan, or
the first 8 digits or more; sync status shows it. The hash covers the changes
and the peels: if peels join or leave before you approve, the plan has another
hash and waits again. A commit that exceeds the limits needs no approval if its
message ends with the line that zester plan shows, such as "Zester-Allow:
remove", unless it would remove everything.

approve WAVE opens the manual gate after a wave: the next wave begins. With
--revision, as sync status prints it, the order is refused if another revision
has come to the gate meanwhile.

approve COMMIT --override-freeze REASON lets a revision go out that a freeze
holds: the newest one, or the one that goes out in waves. It holds until the
freeze ends, and the next revision waits again.

sync history and the audit log record the person and the reason.`,
		Args: words("hash of the plan, the name of the wave or the commit"),
		RunE: func(cmd *cobra.Command, args []string) error {
			q := status.ApproveRequest{Reason: reason, Revision: revision}
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
			err := steer(a, cmd, api.SyncApprove, q)
			return hinted(err, api.CodeConflict,
				"zester sync status shows what waits, and the command that approves it")
		},
	}
	cmd.Flags().StringVar(&override, "override-freeze", "",
		"release the commit from the freeze, with this `REASON` to record")
	cmd.Flags().StringVar(&reason, "reason", "", "`REASON` to record, one line")
	cmd.Flags().StringVar(&revision, "revision", "",
		"`COMMIT` that may go on, or the beginning of its hash (default: any)")
	cmd.MarkFlagsMutuallyExclusive("override-freeze", "reason")
	return cmd
}

// planHash matches the hash of a plan or commit, or its beginning. A wave with a manual gate cannot have such a name.
var planHash = regexp.MustCompile(`^[0-9a-f]{8,}$`)

func (a *app) syncPauseCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "pause",
		Short: "Keep new commits from the fleet",
		Long: `pause keeps new commits from the fleet until sync resume, also if another master
takes the lead. A rollout stops after the present wave; if the wave fails it is
rolled back all the same. New peels, and peels whose facts change, get settings
of the revision in force.`,
		Args: words(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return steer(a, cmd, api.SyncPause, api.None{})
		},
	}
}

func (a *app) syncResumeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "resume",
		Short: "Let new commits go to the fleet again",
		Args:  words(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return steer(a, cmd, api.SyncResume, status.ReleaseRequest{})
		},
	}
}

func (a *app) syncPinCommand() *cobra.Command {
	var untilNewer bool
	cmd := &cobra.Command{
		Use:   "pin REVISION",
		Short: "Hold the fleet at an earlier revision",
		Long: `pin publishes an earlier revision to the whole fleet at once, and ignores new
commits until sync unpin. The bus stores those in use and the newest 20 others
that went to the fleet, each if it takes at most 16 MiB, packed. One that is not
stored is read from the master's copy of the repo if sync history has it.
A pin ends a rollout, and neither waves, a pause nor the guard delay it. New
peels, and peels whose facts change, get settings of the pinned revision.

With --until-newer the pin ends with the first descendant of the pinned commit
that was not on the branch when the fleet was pinned, and was not rolled back.`,
		Args: words("commit, or the beginning of its hash"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return steer(a, cmd, api.SyncPin, status.PinRequest{Revision: args[0], UntilNewer: untilNewer})
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
		Long: `unpin ends a pin. It first prints what the fleet will get: the newest commit of
the branch, which goes out like any new commit, or nothing new, because that
commit was rolled back or new commits are paused. --dry-run only prints that.`,
		Args: words(),
		RunE: a.online(func(cmd *cobra.Command, client *api.Client, _ []string) error {
			s, err := api.SyncStatus.Ask(cmd.Context(), client, api.None{})
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
			return steerWith(cmd.Context(), a, client, api.SyncUnpin, status.ReleaseRequest{})
		}),
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print what the fleet would get, and do nothing")
	return cmd
}

// afterPin returns the text about the revision that the fleet gets when the pin ends.
func afterPin(s *status.Sync) string {
	pinned, head := s.Pinned.Commit.Short(), s.Observed.Short()
	var text string
	switch {
	case s.Observed == "":
		text = fmt.Sprintf("from %s to the newest commit of %s, which this master has not read yet", pinned, s.Branch)
	case s.Observed == s.Pinned.Commit:
		text = fmt.Sprintf("%s stays, as it is the newest commit of %s", pinned, s.Branch)
	case s.Is(status.HeadSkipped):
		return fmt.Sprintf(
			"%s stays: %s, the newest commit of %s, was rolled back; zester sync retry %[2]s tries it again", pinned,
			head, s.Branch,
		)
	case s.Paused != nil:
		return fmt.Sprintf(
			"%s stays: %s has paused new commits; after zester sync resume %s follows, the newest commit of %s",
			pinned, s.Paused.By, head, s.Branch,
		)
	default:
		text = fmt.Sprintf("from %s to %s, the newest commit of %s, held to the limits and in waves as a new commit",
			pinned, head, s.Branch)
	}
	if s.Is(status.FetchFailed) {
		text += fmt.Sprintf("; the branch cannot be read and was last read %s", when(s.Read))
	}
	return text
}

func (a *app) syncRetryCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "retry [COMMIT]",
		Short: "Publish a revision again that was rolled back",
		Long: `retry publishes a revision again after a failed wave has rolled it back. It
begins with the first wave, and the limits apply. COMMIT is its hash or the
beginning of its hash, by default the newest revision that was rolled back. It
must be the newest commit of the branch. While a revision is pinned, or new
commits are paused, retry is refused.`,
		Args: atMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return steer(a, cmd, api.SyncRetry, status.RetryRequest{Revision: strings.Join(args, "")})
		},
	}
}

// An order is a request to the master that leads, which replies with the status after it.
type order[Q any] = api.Endpoint[Q, status.Sync]

// steer connects and calls steerWith.
func steer[Q any](a *app, cmd *cobra.Command, o order[Q], q Q) error {
	return a.withClient(func(client *api.Client) error { return steerWith(cmd.Context(), a, client, o, q) })
}

// steerWith sends an order and prints the status after it. It fails only if the order is not carried out.
func steerWith[Q any](ctx context.Context, a *app, client *api.Client, o order[Q], q Q) error {
	s, err := o.Ask(ctx, client, q)
	if err != nil {
		return err
	}
	return a.showSync(s)
}
