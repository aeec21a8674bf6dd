package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const blameManual = `blame shows the commit that last changed a schedule entry or a state of a peel,
its author, and the file and line in that commit. Changes of comments, of other
parts of the file, and of the contents that a state writes do not count. The
peel need not be online: the masters have its newest settings. If an entry and a
state have the same name, state:NAME is the state.

-o json:
  {"peel": …, "entry": NAME or state:NAME, "file": …, "line": …, "commit": …,
   "author": …, "time": …,
   "files": […],               of a state that several settings files set
   "revision": …}              of the newest settings of the peel`

func (a *app) blameCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "blame PEEL NAME",
		Short: "Show which commit last changed a schedule entry or state of a peel",
		Long:  blameManual,
		Args:  words("ID of a peel", "name of a schedule entry or state"),
		RunE: a.onPeel(func(cmd *cobra.Command, client *api.Client, id target.PeelID, words []string) error {
			b, err := api.EntryShow.Ask(cmd.Context(), client, api.BlameRequest{Peel: id, Entry: words[0]})
			if err != nil {
				return hinted(err, api.CodeNotFound,
					"zester schedule list "+string(id)+" shows its entries, zester "+string(id)+
						" state.show its states")
			}
			return a.showBlame(b)
		}),
	}
}

func (a *app) showBlame(b *api.Blamed) error {
	what, name := "entry:", b.Entry
	if state, ok := strings.CutPrefix(b.Entry, settings.StateOrigin); ok {
		what, name = "state:", state
	}
	facts := table{rows: [][]string{
		{what, name + " on " + string(b.Peel)},
		{"file:", fmt.Sprintf("%s:%d", b.File, b.Line)},
		{"commit:", string(b.Commit)},
		{"author:", b.Author},
		{"time:", when(b.Time)},
		{"revision:", string(b.Revision)},
	}}
	if len(b.Files) > 0 {
		facts.add("set by:", strings.Join(b.Files, ", "))
	}
	return a.print(b, []string{string(b.Commit)}, func() error { return facts.print(a.out, screen{}) })
}
