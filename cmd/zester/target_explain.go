package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/settings/target"
	"github.com/seed-c01c3da5/zester/settings/target/peelindex"
)

// explainTarget explains an expression for the peels of a file, or for the live fleet if file is empty.
func (a *app) explainTarget(ctx context.Context, file, expr string) (err error) {
	var e *explained
	if file == "" {
		e, err = a.explainLive(ctx, expr)
	} else {
		e, err = explainFile(file, expr)
	}
	if err != nil {
		return err
	}
	names := make([]string, len(e.Peels))
	for i, id := range e.Peels {
		names[i] = string(id)
	}
	return a.print(e, names, func() error { return a.printExplained(e) })
}

// explained is the data of target eval --explain.
type explained struct {
	selection
	api.Explained
}

func (a *app) explainLive(ctx context.Context, expr string) (*explained, error) {
	client, err := a.client()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	e, err := api.TargetExplain.Ask(ctx, client, api.ExplainRequest{Expr: expr})
	if err != nil {
		return nil, err
	}
	peels, err := client.Peels(ctx, expr)
	if err != nil {
		return nil, err
	}
	all := &explained{selection{expr, make([]target.PeelID, len(peels))}, *e}
	for i, p := range peels {
		all.Peels[i] = p.ID
	}
	return all, nil
}

func explainFile(file, expr string) (*explained, error) {
	fleet, err := readFleet(file)
	if err != nil {
		return nil, err
	}
	e, err := target.Parse(expr, target.Options{Groups: fleet.Groups})
	if err != nil {
		return nil, err
	}
	index := peelindex.New()
	for _, p := range fleet.Peels {
		index.Put(p.ID, p.Facts)
		index.PutSettings(p.ID, p.Settings)
	}
	explanation, err := index.Explain(e)
	if err != nil {
		return nil, err
	}
	return &explained{
		selection{
			expr, index.Select(e),
		}, api.Explained{Parsed: e.String(), Total: index.Len(), Explanation: *explanation},
	}, nil
}

// fewSelected is the largest number of IDs that are printed.
const fewSelected = 20

func (a *app) printExplained(e *explained) error {
	if e.Parsed != e.Expression {
		fmt.Fprintln(a.out, "read as", plain(e.Parsed))
	}
	fmt.Fprintf(a.out, "%d of %s\n\n", e.Explanation.Peels, count(e.Total, "peel"))
	rows := table{header: []string{"PART", "PEELS", "MEANING"}, narrow: []string{"MEANING"}}
	notes := addParts(&rows, &e.Explanation, 0)
	if err := a.printTable(rows); err != nil {
		return err
	}
	for i, note := range notes {
		if i == 0 {
			fmt.Fprintln(a.out)
		}
		fmt.Fprintln(a.out, plain(note))
	}
	for i, id := range e.Peels[:min(len(e.Peels), fewSelected)] {
		if i == 0 {
			fmt.Fprintln(a.out)
		}
		fmt.Fprintln(a.out, id)
	}
	if more := len(e.Peels) - fewSelected; more > 0 {
		fmt.Fprintf(a.out, "… and %d more: -o name prints all\n", more)
	}
	return nil
}

// addParts adds a row for a part and for each part below it, and returns the notes about them.
func addParts(rows *table, e *target.Explanation, depth int) (notes []string) {
	rows.add(strings.Repeat("  ", depth)+cmp.Or(e.Term, string(e.Op)), strconv.Itoa(e.Peels), e.Means)
	name := partText(e)
	if e.Excludes > 0 {
		notes = append(notes, fmt.Sprintf("%s alone excludes %s: %s", name, count(e.Excludes, "peel"),
			ids(e.Excluded, e.Excludes)))
	}
	for _, hint := range e.Hints {
		notes = append(notes, fmt.Sprintf("%s: %s", name, hint))
	}
	for i := range e.Parts {
		notes = slices.Concat(notes, addParts(rows, &e.Parts[i], depth+1))
	}
	return notes
}

// partText returns a part as an expression.
func partText(e *target.Explanation) string {
	var parts []string
	for i := range e.Parts {
		text := partText(&e.Parts[i])
		if op := e.Parts[i].Op; op == target.OpAnd || op == target.OpOr {
			text = "( " + text + " )"
		}
		parts = append(parts, text)
	}
	switch e.Op {
	case target.OpTerm:
		return e.Term
	case target.OpNot:
		return "not " + parts[0]
	}
	return strings.Join(parts, " "+string(e.Op)+" ")
}

// ids joins the first of n IDs, with "…" for the others.
func ids(first []target.PeelID, n int) string {
	text := make([]string, len(first))
	for i, id := range first {
		text[i] = string(id)
	}
	if n > len(first) {
		text = append(text, "…")
	}
	return strings.Join(text, ", ")
}
