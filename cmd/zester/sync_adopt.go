package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/reconciler/status"
)

func (a *app) syncAdoptCommand() *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "adopt",
		Short: "Have the fleet follow another repo, branch or path",
		Long: `adopt has the fleet follow the repo, branch and path of the master that answers. The record of the fleet names what it
follows. A master with another configuration publishes nothing, and lets any master lead whose configuration fits.

adopt first prints what the fleet follows and what it will follow. Then no revision is in force: the peels keep what they
have, and the newest commit of the new source waits for sync approve. A rollout or pin ends, a pause stays, and the
revisions that were stored can no longer be pinned. With --dry-run nothing is done.`,
		Args: words(),
		RunE: a.online(func(cmd *cobra.Command, client *api.Client, _ []string) error {
			s, err := client.SyncStatus(cmd.Context())
			if err != nil {
				return err
			}
			if s.Adopt == nil {
				return &failure{
					code: exitFailed, err: errors.New("cannot adopt: the master that leads follows the same repo, branch and path as the fleet"),
					hint: "change repo, branch or path of all masters, and restart them",
				}
			}
			fmt.Fprintf(a.errOut, "adopt: from %s\n       to %s\n", plain(s.Adopt.From), plain(s.Adopt.To))
			if dryRun {
				return nil
			}
			return a.steerWith(cmd.Context(), client, func(ctx context.Context, c *api.Client) (*status.Sync, error) {
				return c.SyncAdopt(ctx, *s.Adopt)
			})
		}),
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print what the fleet follows and would follow, and do nothing")
	return cmd
}
