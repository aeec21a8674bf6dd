package main

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func (a *app) peelCommand() *cobra.Command {
	var expr string
	list := &cobra.Command{
		Use:   "list",
		Short: "List the known peels",
		Args:  words(),
		RunE: a.online(func(cmd *cobra.Command, client *api.Client, _ []string) error {
			if a.output == formWide {
				return a.listPeelsWide(cmd.Context(), client, expr)
			}
			peels, err := client.Peels(cmd.Context(), expr)
			if err != nil {
				return err
			}
			return a.show(peels, a.withTroubles(cmd.Context(), client, peelsTable(peels, nil)))
		}),
	}
	list.Flags().StringVar(&expr, "target", "", "only peels that the target `EXPRESSION` selects")
	show := &cobra.Command{
		Use:   "show PEEL",
		Short: "Show a peel: its entries, states, reports and facts",
		Long: `show prints what masters know about a peel: what it runs, its schedule entries
with what became of their fires in the last 24 hours, the newest run of its
states, its last report, its newest jobs and its facts. -o yaml and -o json also
print its settings, with secrets masked and with the file, line and commit that
last changed each entry and state. Who has limits gets no settings, and the
entries of peels within the limits alone.`,
		Args: words("ID of a peel"),
		RunE: a.onPeel(func(cmd *cobra.Command, client *api.Client, id target.PeelID, _ []string) error {
			peel, err := api.PeelShow.Ask(cmd.Context(), client, api.PeelRequest{Peel: id})
			if err != nil {
				return err
			}
			return a.print(peel, []string{string(peel.ID)}, func() error { return a.describePeel(peel) })
		}),
	}
	return group("peel", "Show the peels of the fleet, and remove those that are gone", list, show,
		a.peelFactsCommand(), a.peelRekeyCommand(), a.peelRemoveCommand())
}

func (a *app) peelRekeyCommand() *cobra.Command {
	var key string
	cmd := &cobra.Command{
		Use:   "rekey PEEL",
		Short: "Approve the new sealing key of a peel",
		Long: `rekey approves a sealing key that waits for approval. A key waits if it differs
from the former one, for example after a host has lost its data directory, or if
the peel's credential has not signed it. From then on the holder of the key can
read the secrets of the peel: compare it with the key in the log of the host.
Without --key, rekey shows the key and asks; it fails if there is no terminal.`,
		Args: words("ID of a peel"),
		RunE: a.onPeel(func(cmd *cobra.Command, client *api.Client, id target.PeelID, _ []string) error {
			if key == "" {
				peel, err := api.PeelShow.Ask(cmd.Context(), client, api.PeelRequest{Peel: id})
				if err != nil {
					return err
				}
				if key = peel.PendingKey; key == "" {
					return &failure{
						code: exitFailed,
						err:  fmt.Errorf("no sealing key of %s waits for approval", id),
						hint: "zester peel list shows which keys wait",
					}
				}
				what := fmt.Sprintf("%s has the sealing key %s, and its secrets are sealed to %s.", id, key,
					cmp.Or(peel.Key, "none yet"))
				if err := a.compareKey(what, fmt.Sprintf("zester peel rekey %s --key %s", id, key)); err != nil {
					return err
				}
			}
			peel, err := api.PeelRekey.Ask(cmd.Context(), client, api.PeelKey{Peel: id, Key: key})
			if err != nil {
				return err
			}
			return a.printDone(peel, string(id), "the secrets of %s are sealed to %s from now on", id, peel.Key)
		}),
	}
	cmd.Flags().StringVar(&key, "key", "",
		"sealing `KEY` to approve, as the log of the host shows it (default: show the key and ask)")
	return cmd
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// fleetFile is a file of peels, in the format that readFleet reads.
type fleetFile struct {
	Peels map[target.PeelID]fleetPeel `json:"peels"`
}

type fleetPeel struct {
	Facts target.Facts `json:"facts"`
}

func (a *app) peelFactsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "facts",
		Short: "Print all peels with their facts, for commands that work offline",
		Long: `facts prints a file for the flag --facts of plan, lint and simulate,
and for --file of target eval:

  zester peel facts > peels.yaml

The file is YAML, or JSON with -o json. Commit it to the config repo for CI
jobs, which cannot ask the fleet.`,
		Args: words(),
		RunE: a.online(func(cmd *cobra.Command, client *api.Client, _ []string) error {
			peels, err := client.PeelsWithFacts(cmd.Context(), "")
			if err != nil {
				return err
			}
			file, names := fleetFile{Peels: map[target.PeelID]fleetPeel{}}, make([]string, len(peels))
			for i, p := range peels {
				facts, _ := textual(p.Facts).(map[string]any)
				file.Peels[p.ID], names[i] = fleetPeel{facts}, string(p.ID)
			}
			return a.print(file, names, func() error { return encodeYAML(a.out, file) })
		}),
	}
}
