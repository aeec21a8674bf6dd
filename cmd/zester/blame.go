package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const blameManual = `blame shows the commit that last changed an entry of a peel's schedule, its
author, and the file and line of the entry in that commit. Changes of comments
and of other parts of the file do not count. The peel need not be online: the
masters have its newest settings.

-o json:
  {"peel": …, "entry": …, "file": …, "line": …, "commit": …, "author": …,
   "time": …,
   "revision": …}              of the newest settings of the peel`

func (a *app) blameCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "blame PEEL ENTRY",
		Short: "Show which commit last changed a schedule entry of a peel",
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
