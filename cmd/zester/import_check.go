package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/state"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const checkManual = `check runs state.highstate with test=true on the peels of a target and prints
what would change: one row for each state, cause and kind of change, with its
peels. It changes nothing. Run it on hosts that Salt has converged: where
nothing would change, zester can take over.

intended: the state was never applied on the host with these arguments. drift:
it was, and the host has changed since.

The exit code is 0 if all peels answered, each has states, and nothing would
change. It is 2 if a state would change, would fail or cannot be predicted, or a
peel has no states, 3 if a peel did not answer, and 4 for both.`

func (a *app) importCheckCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check TARGET",
		Short: "Show what states would change on converged hosts",
		Long:  checkManual,
		Args:  words("target"),
		RunE: a.online(func(cmd *cobra.Command, client *api.Client, args []string) error {
			return a.countUnknown(a.importCheck(cmd, client, args[0]))
		}),
	}
	durationVar(cmd.Flags(), &a.dispatching.timeout, "timeout", 0,
		"`TIME` after which a peel that has not returned is missing (default: 10m)")
	return cmd
}

func (a *app) importCheck(cmd *cobra.Command, client *api.Client, expr string) error {
	if err := a.dispatching.check(cmd.Flags().Changed); err != nil {
		return err
	}
	spec := job.Spec{
		JID:        wire.NewJID(),
		TargetExpr: expr,
		Function:   "state.highstate",
		Args:       map[string]any{"test": true},
	}
	spec.Timeout = a.dispatching.timeoutOf(spec.Function)
	var err error
	if spec.Targets, err = a.resolve(cmd.Context(), client, expr); err != nil {
		return err
	}
	found := newDifferences(spec.Targets)
	if err := a.gather(cmd.Context(), client, spec, func(id target.PeelID, r *wire.Return) {
		found.add(id, &r.Result)
	}); err != nil {
		return err
	}
	return a.showDifferences(found)
}

// gather dispatches a job, and calls take with each return until the job has ended.
func (a *app) gather(ctx context.Context, client *api.Client, spec job.Spec, take func(target.PeelID, *wire.Return),
) error {
	follower, err := a.start(ctx, client, spec)
	if err != nil {
		return err
	}
	defer follower.Close()
	for event, err := range follower.Events(ctx) {
		switch {
		case err != nil:
			return a.detached(spec.JID, err)
		case event.Return != nil:
			take(event.Peel, event.Return)
		case event.Ended != nil:
			if err := notRunFailure(event.Ended, spec.JID); err != nil {
				return err
			}
		}
	}
	return nil
}

// A difference is a state that is not as the settings say, with the same result on several peels.
type difference struct {
	State    string          `json:"state,omitempty"` // empty if no state could run
	Function string          `json:"function,omitempty"`
	Result   string          `json:"result"`
	Cause    string          `json:"cause,omitempty"`
	After    string          `json:"after,omitempty"` // of the cause guard: the first state that would change
	What     string          `json:"what,omitempty"`  // the changes, or why there is another result
	Peels    []target.PeelID `json:"peels"`
}

// differences is what a job found on its peels.
type differences struct {
	All    []*difference   `json:"differences"`
	Counts map[string]int  `json:"counts"`           // states of all peels by result
	Same   []target.PeelID `json:"same"`             // peels where nothing would change
	Silent []target.PeelID `json:"silent,omitempty"` // peels that did not answer

	equal map[string]*difference // by all fields but the peels
}

func newDifferences(peels []target.PeelID) *differences {
	return &differences{
		All:    []*difference{},
		Counts: map[string]int{},
		Same:   []target.PeelID{},
		Silent: slices.Clone(peels),
		equal:  map[string]*difference{},
	}
}

// add takes the return of a peel.
func (f *differences) add(id target.PeelID, r *wire.Result) {
	f.Silent = slices.DeleteFunc(f.Silent, func(silent target.PeelID) bool { return silent == id })
	run, err := runOf(r)
	if err != nil {
		f.note(id, difference{Result: "failed", What: cmp.Or(r.Error, err.Error())})
		return
	}
	for result, n := range run.Counts {
		f.Counts[result] += n
	}
	found := run.differences()
	for _, one := range found {
		f.note(id, one)
	}
	if len(found) == 0 {
		f.Same = append(f.Same, id)
	}
}

// runOf returns the run of states in a result.
func runOf(r *wire.Result) (*stateRun, error) {
	data, err := json.Marshal(textual(r.Data))
	if err != nil {
		return nil, err
	}
	var run stateRun
	if err := json.Unmarshal(data, &run); err != nil {
		return nil, err
	}
	if run.Counts == nil {
		return nil, errNoRun
	}
	return &run, nil
}

// note adds a peel to the equal difference of other peels.
func (f *differences) note(id target.PeelID, one difference) {
	key := strings.Join([]string{one.State, one.Function, one.Result, one.Cause, one.After, one.What}, "\x00")
	known := f.equal[key]
	if known == nil {
		known = &one
		f.equal[key] = known
		f.All = append(f.All, known)
	}
	known.Peels = append(known.Peels, id)
}

// differences returns what is not as the settings say on one peel.
func (r *stateRun) differences() (all []difference) {
	states := 0
	for _, n := range r.Counts {
		states += n
	}
	if states == 0 {
		return []difference{{Result: "unknown", What: "the settings have no states: top.yaml gives the host none"}}
	}
	changes := "" // the first state that would change
	for _, o := range r.States {
		if o.Result == "unchanged" || o.Result == "skipped" {
			continue
		}
		one := difference{
			State:    o.State,
			Function: o.Function,
			Result:   o.Result,
			Cause:    o.Cause,
			What:     o.what(),
		}
		switch {
		case o.Result == "would_change":
			changes = cmp.Or(changes, o.State)
		case o.Comment == state.GuardAfterChange:
			one.Cause, one.After = guardCause, changes
		}
		all = append(all, one)
	}
	if r.LeftOut > 0 {
		what := count(r.LeftOut, "state") + " more: the result was too large; look at this peel with state.highstate"
		all = append(all, difference{Result: "unknown", What: what})
	}
	return all
}

// what returns the changes of a state, else its comment.
func (o *stateOutcome) what() string {
	if len(o.Changes) == 0 {
		return strings.TrimSpace(o.Comment)
	}
	parts := make([]string, len(o.Changes))
	for i, c := range o.Changes {
		parts[i] = strings.TrimSpace(c.Do + " " + c.What)
	}
	return strings.Join(parts, ", ")
}

// showDifferences prints the differences, those of most peels first, and returns the failure with the exit code.
func (a *app) showDifferences(f *differences) error {
	for _, one := range f.All {
		slices.Sort(one.Peels)
	}
	slices.Sort(f.Same)
	sorting.Stable(f.All, func(x, y *difference) int { return len(y.Peels) - len(x.Peels) })
	names := make([]string, len(f.All))
	for i, one := range f.All {
		names[i] = one.State
	}
	if err := a.print(f, names, func() error { return a.printDifferences(f) }); err != nil {
		return err
	}
	return jobFailure(job.Complete, len(f.All), len(f.Silent))
}

// guardCause is the cause of a state whose guard was not run, because a state before it would change the host.
const guardCause = "guard"

// guardsJoined returns the differences with one for all states whose guards were not run after the same change.
func guardsJoined(all []*difference) (rows []*difference) {
	guards := map[string]*difference{} // by the change and the peels
	for _, one := range all {
		key := fmt.Sprint(one.After, one.Peels)
		switch before := guards[key]; {
		case one.Cause != guardCause:
			rows = append(rows, one)
		case before == nil:
			first := *one
			first.What = "not known before the change of " + one.After
			guards[key] = &first
			rows = append(rows, &first)
		default:
			before.State += ", " + one.State
			if before.Function != one.Function {
				before.Function = ""
			}
		}
	}
	return rows
}

func (a *app) printDifferences(f *differences) error {
	t := table{
		header: []string{"STATE", "FUNCTION", "RESULT", "PEELS", "WHICH", "WHAT"},
		narrow: []string{"WHICH", "WHAT"},
	}
	peels := map[target.PeelID]bool{}
	for _, one := range guardsJoined(f.All) {
		result := cmp.Or(stateResults[one.Result].text, one.Result)
		if one.Cause != "" {
			result += ": " + one.Cause
		}
		t.add(one.State, one.Function, result, fmt.Sprint(len(one.Peels)), some(one.Peels), one.What)
		for _, id := range one.Peels {
			peels[id] = true
		}
	}
	if err := a.printTable(t); err != nil {
		return err
	}
	fmt.Fprintf(a.out, "%d of %s as the states say; states: %s\n", len(f.Same),
		count(len(f.Same)+len(peels)+len(f.Silent), "peel"), countsLine(f.Counts))
	if slices.ContainsFunc(f.All, func(one *difference) bool { return one.Cause == guardCause }) {
		fmt.Fprintln(a.out, "unknown: guard: onlyif and unless were not run, because what they see may differ "+
			"after the change before them; mend or apply that state, and check again")
	}
	if len(f.Silent) > 0 {
		fmt.Fprintf(a.out, "no answer from %s: %s\n", count(len(f.Silent), "peel"), some(f.Silent))
	}
	return nil
}
