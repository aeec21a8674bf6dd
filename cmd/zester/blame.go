package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const blameManual = `blame says which change made a peel run an entry of its schedule: the commit that last changed the entry, its author,
and where the entry stands in that commit. A change of a comment, or of anything else in the file, does not count. It is
told from the newest settings of the peel, which need not be online.

-o json:
  {"peel": …, "entry": …, "file": …, "line": …, "commit": …, "author": …, "time": …,
   "revision": …}              at which the peel was last given settings`

func (a *app) blameCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "blame PEEL ENTRY",
		Short: "Say which commit made a peel run a schedule entry",
		Long:  blameManual,
		Args:  words("ID of a peel", "entry of its schedule"),
		RunE: a.onPeel(func(cmd *cobra.Command, client *api.Client, id target.PeelID, words []string) error {
			b, err := client.Blame(cmd.Context(), id, words[0])
			if err != nil {
				return hinted(err, api.CodeNotFound, "zester schedule list "+string(id)+" shows its entries")
			}
			return a.showBlame(b)
		}),
	}
}

func (a *app) showBlame(b *api.Blamed) error {
	facts := table{rows: [][]string{
		{"entry:", b.Entry + " on " + string(b.Peel)},
		{"file:", fmt.Sprintf("%s:%d", b.File, b.Line)},
		{"commit:", string(b.Commit)},
		{"author:", b.Author},
		{"time:", when(b.Time)},
		{"revision:", string(b.Revision)},
	}}
	return a.print(b, []string{string(b.Commit)}, func() error { return facts.print(a.out, screen{}) })
}
