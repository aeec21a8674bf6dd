package main

import (
	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/settings/target"
)

func (a *app) peelCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "peel", Short: "See the peels of the fleet", Args: cobra.NoArgs, RunE: needsCommand}
	var expr string
	list := &cobra.Command{
		Use:   "list",
		Short: "List the peels that have ever told their facts",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			defer client.Close()
			peels, err := client.Peels(cmd.Context(), expr)
			if err != nil {
				return err
			}
			t := table{header: []string{"PEEL", "ONLINE", "LAST SEEN"}}
			for _, p := range peels {
				t.add(string(p.ID), yesNo(p.Online), when(p.LastSeen))
			}
			return a.show(peels, t)
		},
	}
	list.Flags().StringVar(&expr, "target", "", "only the peels that the `EXPRESSION` selects")
	show := &cobra.Command{
		Use:   "show <peel>",
		Short: "Show a peel with its facts",
		Args:  exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := target.ParsePeelID(args[0])
			if err != nil {
				return usageError("%v", err)
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			defer client.Close()
			peel, err := client.Peel(cmd.Context(), id)
			if err != nil {
				return err
			}
			if a.output == "table" {
				return encodeYAML(a.out, peel)
			}
			return a.encode(peel)
		},
	}
	cmd.AddCommand(list, show)
	return cmd
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
