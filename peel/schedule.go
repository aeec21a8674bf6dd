package peel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/peel/catalogue"
	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/module"
	"github.com/seed-c01c3da5/zester/peel/report"
	"github.com/seed-c01c3da5/zester/peel/scheduler"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// checkFunction returns an error if the peel does not have the entry's function.
func (p *Peel) checkFunction(e *schedule.Entry) error {
	if f, ok := catalogue.Lookup(e.Module); ok {
		if f.Needs != "" && !p.registry.Has(f.Name) {
			return fmt.Errorf("this peel cannot run %s: it needs %s", f.Name, f.Needs)
		}
		return nil
	}
	var names []string
	for _, f := range catalogue.Functions() {
		names = append(names, f.Name)
	}
	return fmt.Errorf("this peel has no function %q%s", e.Module, strictyaml.Suggest(e.Module, names))
}

// unableEntries returns an error text for each enabled entry whose function the peel does not have, sorted by name.
func (p *Peel) unableEntries(set schedule.Set) (errs []string) {
	for _, name := range slices.Sorted(maps.Keys(set)) {
		e := set[name]
		if !e.Enabled || e.Invalid != "" {
			continue // an invalid entry is reported already
		}
		if err := p.checkFunction(e); err != nil {
			errs = append(errs, report.ErrorText(fmt.Sprintf("settings: schedule.%s.module: %v", name, err)))
		}
	}
	return errs
}

// withoutZero returns v without zero times and empty maps: events that have not happened yet.
func withoutZero(v any) (any, error) {
	data, err := canon.Normalize(v)
	if m, ok := data.(map[string]any); ok {
		dropZero(m)
	}
	return data, err
}

func dropZero(m map[string]any) {
	maps.DeleteFunc(m, func(_ string, v any) bool {
		inner, isMap := v.(map[string]any)
		at, isTime := v.(time.Time)
		list, _ := v.([]any)
		for _, e := range list {
			if m, ok := e.(map[string]any); ok {
				dropZero(m)
			}
		}
		dropZero(inner)
		return isTime && at.IsZero() || isMap && len(inner) == 0
	})
}

func (p *Peel) listEntry(s scheduler.EntryState) scheduler.ListedEntry {
	s.Took = ledger.Took{} // it is in the report on the schedule
	for i := range s.Last {
		s.Last[i].Era, s.Last[i].Listed = 0, time.Time{}
	}
	if s.Waiting != nil {
		waiting := *s.Waiting
		waiting.Listed = nil
		s.Waiting = &waiting
	}
	entry := scheduler.ListedEntry{EntryState: s, Source: "peel.yaml"}
	if p.current.Load().schedule[s.Name] != nil {
		o := p.originOf(s.Name)
		entry.Source, entry.Commit, entry.Author = "settings", o.Commit, o.Author
		entry.Origin = fmt.Sprintf("%s:%d", o.File, o.Line)
	}
	return entry
}

// scheduleList leaves out histories and breakers, which have functions of their own, so that a thousand entries fit
// into one result.
func (p *Peel) scheduleList(ctx context.Context, _ module.Call) (any, error) {
	states, err := p.sched.State(ctx)
	if err != nil {
		return nil, err
	}
	entries := make(map[string]scheduler.ListedEntry, len(states))
	for _, s := range states {
		s.Last, s.Owed, s.Breaker = nil, nil, scheduler.Breaker{}
		entries[s.Name] = p.listEntry(s)
	}
	return withoutZero(entries)
}

func (p *Peel) scheduleHistory(ctx context.Context, call module.Call) (any, error) {
	s, err := p.stateOf(ctx, call)
	if err != nil {
		return nil, err
	}
	s.Breaker = scheduler.Breaker{}
	return withoutZero(p.listEntry(s))
}

func (p *Peel) scheduleBreaker(ctx context.Context, call module.Call) (any, error) {
	s, err := p.stateOf(ctx, call)
	return scheduler.ListedBreaker{State: s.BreakerState, Breaker: s.Breaker, FailuresInRow: s.FailuresInRow}, err
}

// stateOf returns the state of the entry that a call names.
func (p *Peel) stateOf(ctx context.Context, call module.Call) (scheduler.EntryState, error) {
	states, err := p.sched.State(ctx)
	if err != nil {
		return scheduler.EntryState{}, err
	}
	name, _ := call.Args["entry"].(string)
	return named(states, name)
}

// named returns the state of an entry.
func named(states []scheduler.EntryState, name string) (scheduler.EntryState, error) {
	i := slices.IndexFunc(states, func(s scheduler.EntryState) bool { return s.Name == name })
	if i < 0 {
		var names []string
		for _, s := range states {
			names = append(names, s.Name)
		}
		return scheduler.EntryState{}, fmt.Errorf("%w: %q%s", scheduler.ErrNoEntry, name,
			strictyaml.Suggest(name, names))
	}
	return states[i], nil
}

// entryArgs are the arguments of the functions for one entry; each function has some of them.
type entryArgs struct {
	Entry  string        `yaml:"entry"`
	Count  int           `yaml:"count"`
	Reason string        `yaml:"reason"`
	For    time.Duration `yaml:"for"`
	From   string        `yaml:"from"`
	To     string        `yaml:"to"`

	user string // the caller
}

const (
	defaultCount = 5   // fires of an entry that schedule.next returns
	maxReason    = 256 // bytes
)

func readArgs(call module.Call) (entryArgs, error) {
	args := entryArgs{Count: defaultCount, user: call.User}
	if err := strictyaml.Decode(strictyaml.FromValue("args", call.Args), &args); err != nil {
		return args, err
	}
	if _, limited := call.Args["for"]; limited && args.For <= 0 {
		return args, fmt.Errorf("for must be more than 0, not %v", args.For)
	}
	if len(args.Reason) > maxReason {
		return args, fmt.Errorf("reason may have %d bytes", maxReason)
	}
	return args, nil
}

// order returns the pause or skip for the scheduler.
func (a entryArgs) order(now time.Time) scheduler.Override {
	o := scheduler.Override{By: a.user, Reason: a.Reason}
	if a.For > 0 {
		o.Until = now.Add(a.For)
	}
	return o
}

// withArgs returns the function that reads the arguments and calls do.
func withArgs(do func(context.Context, entryArgs) (any, error)) func(context.Context, module.Call) (any, error) {
	return func(ctx context.Context, call module.Call) (any, error) {
		args, err := readArgs(call)
		if err != nil {
			return nil, err
		}
		return do(ctx, args)
	}
}

func (p *Peel) scheduleNext(ctx context.Context, args entryArgs) (any, error) {
	names := []string{args.Entry}
	if args.Entry == "" {
		states, err := p.sched.State(ctx)
		if err != nil {
			return nil, err
		}
		names = nil
		for _, s := range states {
			names = append(names, s.Name)
		}
	}
	fires := make(map[string][]time.Time, len(names))
	for _, name := range names {
		list, err := p.sched.Next(ctx, name, args.Count)
		if err != nil {
			return nil, err
		}
		fires[name] = list
	}
	return fires, nil
}

func (p *Peel) scheduleRun(ctx context.Context, args entryArgs) (any, error) {
	return "started", p.placed(args.Entry, p.sched.Start(ctx, args.Entry, args.user))
}

func (p *Peel) schedulePause(ctx context.Context, args entryArgs) (any, error) {
	pause, end := args.order(p.o.Clock().Wall), "it is resumed"
	if !pause.Until.IsZero() {
		end = pause.Until.UTC().Format(time.RFC3339)
	}
	return "paused until " + end, p.sched.Pause(ctx, args.Entry, pause)
}

func (p *Peel) scheduleResume(ctx context.Context, args entryArgs) (any, error) {
	call := module.Call{Args: map[string]any{"entry": args.Entry}}
	before, _ := p.stateOf(ctx, call) // Resume returns the error
	if err := p.sched.Resume(ctx, args.Entry, args.user); err != nil {
		return nil, err
	}
	after, err := p.stateOf(ctx, call)
	text := "resumed"
	if before.Paused == nil && before.Skip == nil && before.State != scheduler.StateFailing {
		text = "it was not paused"
	}
	switch {
	case err != nil:
		return text, nil
	case after.State != scheduler.StateActive:
		text += "; it is " + strings.TrimSuffix(string(after.State)+": "+after.Why, ": ")
	case !after.NextFire.IsZero():
		text += "; the next fire is at " + after.NextFire.UTC().Format(time.RFC3339)
	}
	return text, nil
}

// placed adds to the error about an entry that cannot fire where the entry is written.
func (p *Peel) placed(entry string, err error) error {
	o := p.originOf(entry)
	if errors.Is(err, scheduler.ErrNotActive) && o.File != "" {
		return fmt.Errorf("%w; the entry is in %s:%d", err, o.File, o.Line)
	}
	return err
}

func (p *Peel) scheduleSkip(ctx context.Context, args entryArgs) (any, error) {
	nominal, err := p.sched.Skip(ctx, args.Entry, args.order(p.o.Clock().Wall))
	return map[string]time.Time{"skipped": nominal}, p.placed(args.Entry, err)
}
