package master

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/seed-c01c3da5/zester/master/auth/access"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/token"
	"github.com/seed-c01c3da5/zester/master/auth/user"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/reach"
	"github.com/seed-c01c3da5/zester/master/service"
	"github.com/seed-c01c3da5/zester/peel/catalogue"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A judge authorizes dispatches by the current records of people and tokens.
type judge struct {
	users   *user.Store
	tokens  *token.Store
	selects func(ctx context.Context, expr string) ([]target.PeelID, error)
	// document returns the newest settings of a peel; nil if it was given none.
	document func(context.Context, target.PeelID) (*settings.Document, error)
}

// allow returns [grants.ErrNotAllowed] if a caller may not run what spec says on its targets. A call of prompt.run runs
// other functions too, and one of schedule.run the function of an entry.
func (j judge) allow(ctx context.Context, from grants.Caller, spec *job.Spec) error {
	if spec.Function == scheduleRun {
		if err := j.allowEntry(ctx, from, spec); err != nil {
			return err
		}
	}
	for i, function := range catalogue.RunBy(spec.Function, spec.Args) {
		on := access.On{Function: function, Peels: spec.Targets}
		if i == 0 && spec.StateID == "" {
			on.Args = spec.Args // no rule names the arguments of other calls
		}
		if err := j.allowOne(ctx, from, on, spec); err != nil {
			return err
		}
	}
	return nil
}

// scheduleRun is the function that starts a schedule entry.
const scheduleRun = "schedule.run"

// entryReads is how many settings allowEntry reads at a time.
const entryReads = 32

// allowEntry decides about what an entry runs on each target, if the rules about the caller name functions. Masters
// know the entries that settings have; those of peel.yaml are refused.
func (j judge) allowEntry(ctx context.Context, from grants.Caller, spec *job.Spec) error {
	names, err := j.reach().NamesFunctions(ctx, from)
	if err != nil || !names {
		return err
	}
	entry, _ := spec.Args["entry"].(string)
	calls := make([]access.On, len(spec.Targets))
	g, limited := errgroup.WithContext(ctx)
	g.SetLimit(entryReads)
	for i, id := range spec.Targets {
		g.Go(func() (err error) {
			calls[i], err = j.entryOn(limited, id, entry)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for len(calls) > 0 {
		on := calls[0]
		var others []access.On
		for _, c := range calls[1:] {
			if c.Function == on.Function && reflect.DeepEqual(c.Args, on.Args) {
				on.Peels = append(on.Peels, c.Peels...)
			} else {
				others = append(others, c)
			}
		}
		if err := j.allowOne(ctx, from, on, spec); err != nil {
			return fmt.Errorf("the entry %s runs %s: %w", entry, on.Function, err)
		}
		calls = others
	}
	return nil
}

// entryOn returns what an entry runs on a peel.
func (j judge) entryOn(ctx context.Context, id target.PeelID, entry string) (on access.On, err error) {
	doc, err := j.document(ctx, id)
	if err != nil {
		return on, err
	}
	var values map[string]any
	if doc != nil {
		if values, err = doc.Values(); err != nil {
			return on, err
		}
	}
	entries, _ := values["schedule"].(map[string]any)
	fields, _ := entries[entry].(map[string]any)
	function, _ := fields["module"].(string)
	if function == "" {
		return on, fmt.Errorf("%w: the settings of %s have no entry %.100q, so what it runs is not known",
			grants.ErrNotAllowed, id, entry)
	}
	args, _ := fields["args"].(map[string]any)
	return access.On{Function: function, Args: args, Peels: []target.PeelID{id}}, nil
}

// allowOne is allow for one function that spec runs.
func (j judge) allowOne(ctx context.Context, from grants.Caller, on access.On, spec *job.Spec) error {
	if catalogue.AsksForSecrets(spec.Args) {
		if err := j.users.AllowSecrets(ctx, from); err != nil {
			return err
		}
	}
	return j.reach().Allow(ctx, from, on)
}

// reach says about which peels a caller may read.
func (j judge) reach() reach.Reach {
	return reach.Reach{Users: j.users, Tokens: j.tokens, Select: j.selects}
}

// second returns a rule that makes a job wait for a second person, and nil if there is none. Whoever reads the data
// directory of a master can do without: that is an emergency, and marked.
func (j judge) second(ctx context.Context, from grants.Caller, spec *job.Spec) (*access.Second, error) {
	if !service.NeedsSecond(from) {
		return nil, nil
	}
	all, err := j.users.Seconds(ctx, access.Dispatch)
	if err != nil {
		return nil, err
	}
	for _, s := range all {
		selected, err := j.selects(ctx, s.Expr())
		if err != nil {
			return nil, fmt.Errorf("it is not known whether this needs a second person: %w", err)
		}
		if spec.Function == scheduleRun {
			s.Functions = nil // what the entry runs may be any of them
		}
		for _, function := range catalogue.RunBy(spec.Function, spec.Args) {
			if s.Covers(function, spec.Targets, selected) {
				return &s, nil
			}
		}
	}
	return nil, nil
}

// readable returns the peels whose settings a caller may read: for an auditor all, for others the peels on which they
// may run settings.get. The error is [grants.ErrNotAllowed] if the caller may run it on no peel.
func (j judge) readable(ctx context.Context, from grants.Caller, peels []target.PeelID) ([]target.PeelID, error) {
	if from.Role == grants.RoleAuditor {
		return peels, nil
	}
	err := j.allow(ctx, from, &job.Spec{Function: "settings.get", Targets: peels})
	if outside, ok := errors.AsType[*grants.OutsideError](err); ok {
		return slices.DeleteFunc(slices.Clone(peels), outside.Has), nil
	}
	return peels, err
}
