package main

import (
	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/settings/schedule/cron"
)

func (a *app) nextCommand() *cobra.Command {
	var source entrySource
	var f nextFlags
	cmd := &cobra.Command{
		Use:   "next TARGET [ENTRY]",
		Short: "List when the entries of peels run next",
		Long: `next asks the peels of a target for the next fires of one entry, or of all their
entries. It runs the function schedule.next as a job. zester cron next lists the
fires of an expression, or of an entry in a file, without a master.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, words []string) error {
			switch {
			case len(words) > 0:
				return a.liveNext(cmd, words, f.n)
			case !source.given():
				return usageError("%s needs the target", cmd.CommandPath())
			}
			a.deprecated(cmd, "cron next")
			return a.listFires(cmd, &source, f)
		},
	}
	a.dispatching.following(cmd.Flags())
	// Without a target this is the former name of cron next. Its flags are hidden.
	source.addFlags(cmd.Flags())
	f.add(cmd.Flags())
	for _, name := range formerNextFlags {
		cmd.Flags().Lookup(name).Hidden = true
	}
	return cmd
}

// formerNextFlags are the flags of cron next that do not go with a target.
var formerNextFlags = append([]string{"from", "until", "zone", "dst-gap", "dst-overlap", "file", "entry"},
	timingFlags...)

// liveNext asks the peels of a target.
func (a *app) liveNext(cmd *cobra.Command, words []string, n int) error {
	const most = 100
	if _, _, err := cron.Parse(words[0]); err == nil {
		return usageError("%q is a cron expression, not a target: use zester cron next '%s'", words[0], words[0])
	}
	args := map[string]any{}
	switch len(words) {
	case 1:
	case 2:
		args["entry"] = words[1]
	default:
		return usageError("%s does not take the argument %q", cmd.CommandPath(), words[2])
	}
	for _, name := range formerNextFlags {
		if cmd.Flags().Changed(name) {
			return usageError(
				"--%s does not go with the target %q: the entries are those of its peels; zester cron next takes --%[1]s",
				name, words[0],
			)
		}
	}
	if cmd.Flags().Changed("number") {
		if n < 1 || n > most {
			return usageError("cannot list %d fires: -n is between 1 and %d for a peel's entries", n, most)
		}
		args["count"] = int64(n)
	}
	return a.callSchedule(cmd, words[0], "schedule.next", args)
}
