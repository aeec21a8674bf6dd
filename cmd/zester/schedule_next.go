package main

import (
	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/settings/schedule/cron"
)

func (a *app) nextCommand() *cobra.Command {
	const most = 100
	var n int
	cmd := &cobra.Command{
		Use:   "next TARGET [ENTRY]",
		Short: "List when the entries of peels run next",
		Long: `next asks the peels of a target for the next fires of one entry, or of all their
entries. It runs the function schedule.next as a job. zester schedule explain
lists the fires of an expression, or of an entry in a file, without a master.`,
		Args: targetAndEntry,
		RunE: func(cmd *cobra.Command, words []string) error {
			args := map[string]any{}
			if len(words) > 1 {
				args["entry"] = words[1]
			}
			if cmd.Flags().Changed("number") {
				if n < 1 || n > most {
					return usageError("cannot list %d fires: -n is between 1 and %d for a peel's entries", n, most)
				}
				args["count"] = int64(n)
			}
			return a.callSchedule(cmd, words[0], "schedule.next", args)
		},
	}
	a.dispatching.following(cmd.Flags())
	cmd.Flags().IntVarP(&n, "number", "n", 10, "at most `N` fires of an entry")
	return cmd
}

// targetAndEntry requires a target, which an entry may follow.
func targetAndEntry(cmd *cobra.Command, args []string) error {
	names := []string{"target", "entry"}
	if err := words(names[:max(1, min(len(args), len(names)))]...)(cmd, args); err != nil {
		return err
	}
	if _, _, err := cron.Parse(args[0]); err == nil {
		return usageError("%q is a cron expression, not a target: use zester schedule explain '%s'", args[0], args[0])
	}
	return nil
}
