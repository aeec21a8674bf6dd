package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/master/api"
)

func (a *app) syncAdoptCommand() *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "adopt",
		Short: "Make the fleet follow another repo, branch or path",
		Long: `adopt makes the fleet follow the repo, branch and path of the leading master.
The masters store which source the fleet follows: a master with another one in
its configuration publishes nothing, and leaves the lead to a master with the
right one.

adopt first prints the old and the new source. After it no revision is in force:
the peels keep their settings, and the newest commit of the new source waits for
sync approve. A rollout or pin ends, a pause stays, and older revisions can no
longer be pinned. --dry-run only prints the sources.`,
		Args: words(),
		RunE: a.online(func(cmd *cobra.Command, client *api.Client, _ []string) error {
			s, err := api.SyncStatus.Ask(cmd.Context(), client, api.None{})
			if err != nil {
				return err
			}
			if s.Adopt == nil {
				return &failure{
					code: exitFailed,
					err: errors.New(
						"cannot adopt: the master that leads follows the same repo, branch and path as the fleet",
					),
					hint: "change repo, branch or path of all masters, and restart them",
				}
			}
			fmt.Fprintf(a.errOut, "adopt: from %s\n       to %s\n", plain(s.Adopt.From), plain(s.Adopt.To))
			if dryRun {
				return nil
			}
			return steerWith(cmd.Context(), a, client, api.SyncAdopt, *s.Adopt)
		}),
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print the old and the new source, and do nothing")
	return cmd
}
