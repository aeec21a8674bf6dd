package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/settings/policy"
	"github.com/seed-c01c3da5/zester/settings/shell"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func (a *app) targetCommand() *cobra.Command {
	var file string
	var explain bool
	eval := &cobra.Command{
		Use:   "eval EXPRESSION",
		Short: "List the peels that an expression selects, and explain it",
		Long: `eval prints the IDs of the peels that an expression selects, one a line.

--explain shows the parts of the expression, each with its meaning in words and
the number of peels that it selects alone. Below them it names peels that only
one part of an "and" excludes, and for parts that select nothing it suggests
similar IDs, facts and values.

With --file it needs no master. The file is YAML or JSON:

  peels:
    web-01: {facts: {os: ubuntu}, settings: {}}
  nodegroups:
    frontend: web-*`,
		Args: words("expression"),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case explain:
				return a.explainTarget(cmd.Context(), file, args[0])
			case file == "":
				return a.evalLive(cmd, args[0])
			}
			return a.evalFile(file, args[0])
		},
	}
	eval.Flags().StringVar(&file, "file", "", "`FILE` with peels and node groups (default: the live fleet)")
	eval.Flags().BoolVar(&explain, "explain", false, "explain the parts, and show likely mistakes")
	return group("target", "Show which peels a target expression selects, and why", eval)
}

// selection is the data of target eval.
type selection struct {
	Expression string          `json:"expression"`
	Peels      []target.PeelID `json:"peels"`
}

func (a *app) showSelection(expr string, peels []target.PeelID) error {
	t := table{}
	for _, id := range peels {
		t.add(string(id))
	}
	return a.show(selection{Expression: expr, Peels: append([]target.PeelID{}, peels...)}, t)
}

func (a *app) evalLive(cmd *cobra.Command, expr string) error {
	return a.withClient(func(client *api.Client) error {
		resolved, err := a.resolveOnline(cmd.Context(), client, expr)
		if err != nil {
			return err
		}
		a.warnUnknown(resolved.Unknown)
		return a.showSelection(expr, resolved.Peels)
	})
}

func (a *app) evalFile(file, expr string) error {
	fleet, err := readFleet(file)
	if err != nil {
		return err
	}
	e, err := target.Parse(expr, target.Options{Groups: fleet.Groups})
	if err != nil {
		return err
	}
	var peels []target.PeelID
	known := map[target.PeelID]bool{}
	for _, p := range fleet.Peels {
		known[p.ID] = true
		if e.Match(p) {
			peels = append(peels, p.ID)
		}
	}
	a.warnUnknown(slices.DeleteFunc(e.Lists(), func(id target.PeelID) bool { return known[id] }))
	slices.Sort(peels)
	return a.showSelection(expr, peels)
}

// fleetLimits are enough for 100,000 peels with all their facts.
var fleetLimits = strictyaml.Limits{Size: 256 << 20, Nodes: 20_000_000}

// readFleet reads a file of peels.
func readFleet(file string) (policy.Fleet, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return policy.Fleet{}, &failure{
			code: exitFailed, err: fmt.Errorf("cannot read the peels: %w", err),
			hint: "zester peel facts > " + shell.Word(file) +
				" writes it; before the first host joins it is: peels: {}",
		}
	}
	if err != nil {
		return policy.Fleet{}, fmt.Errorf("cannot read the peels: %w", err)
	}
	node, err := strictyaml.ParseWithin(file, data, fleetLimits)
	if err != nil {
		return policy.Fleet{}, err
	}
	return policy.ParseFleet(node)
}
