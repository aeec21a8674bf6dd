package peel

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/peel/catalogue"
	"github.com/seed-c01c3da5/zester/peel/module"
	"github.com/seed-c01c3da5/zester/peel/scheduler"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// able refuses entries of a function that no peel of this version has.
func able(e *schedule.Entry) error {
	if _, ok := catalogue.Lookup(e.Module); ok {
		return nil
	}
	var names []string
	for _, f := range catalogue.Functions() {
		names = append(names, f.Name)
	}
	return fmt.Errorf("this peel has no function %q%s", e.Module, strictyaml.Suggest(e.Module, names))
}

// unableOf says of entries that would run what of each no peel of this version has, in the order of their names.
func unableOf(set schedule.Set) (errs []string) {
	for _, name := range slices.Sorted(maps.Keys(set)) {
		e := set[name]
		if !e.Enabled || e.Invalid != "" {
			continue // what is wrong with it has been said
		}
		if err := able(e); err != nil {
			errs = append(errs, cut(fmt.Sprintf("settings: schedule.%s.module: %v", name, err)))
		}
	}
	return errs
}

// listed is one entry as schedule.list and schedule.history show it.
type listed struct {
	scheduler.EntryState
	Source string `json:"source"` // "settings" or "peel.yaml"
	Commit string `json:"commit,omitempty"`
	Origin string `json:"origin,omitempty"` // file:line
	Author string `json:"author,omitempty"`
}

// told is an answer without what has not happened: zero times and what is empty, which the wire's form would name.
func told(v any) wire.Result {
	r := answer(v)
	if m, ok := r.Data.(map[string]any); ok {
		dropZero(m)
	}
	return r
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

func (p *Peel) list(s scheduler.EntryState) listed {
	entry := listed{EntryState: s, Source: "peel.yaml"}
	if p.current.Load().schedule[s.Name] != nil {
		o := p.originOf(s.Name)
		entry.Source, entry.Commit, entry.Author = "settings", string(o.Commit), o.Author
		entry.Origin = fmt.Sprintf("%s:%d", o.File, o.Line)
	}
	return entry
}

// scheduleList leaves out what has a function of its own, so that a thousand entries fit into one answer.
func (p *Peel) scheduleList(ctx context.Context, _ module.Call) wire.Result {
	states, err := p.sched.State(ctx)
	if err != nil {
		return refusal("%v", err)
	}
	entries := map[string]listed{}
	for _, s := range states {
		s.Last, s.Owed, s.Breaker = nil, nil, scheduler.Breaker{}
		entries[s.Name] = p.list(s)
	}
	return told(entries)
}

func (p *Peel) scheduleHistory(ctx context.Context, call module.Call) wire.Result {
	s, err := p.stateOf(ctx, call)
	if err != nil {
		return refusal("%v", err)
	}
	s.Breaker = scheduler.Breaker{}
	return told(p.list(s))
}

func (p *Peel) scheduleBreaker(ctx context.Context, call module.Call) wire.Result {
	s, err := p.stateOf(ctx, call)
	if err != nil {
		return refusal("%v", err)
	}
	type breaker struct {
		State scheduler.BreakerState `json:"state"`
		scheduler.Breaker
		FailuresInRow uint64 `json:"failures_in_row"`
	}
	return answer(breaker{s.BreakerState, s.Breaker, s.FailuresInRow})
}

// stateOf is the state of the entry that a call names.
func (p *Peel) stateOf(ctx context.Context, call module.Call) (scheduler.EntryState, error) {
	states, err := p.sched.State(ctx)
	if err != nil {
		return scheduler.EntryState{}, err
	}
	i := slices.IndexFunc(states, func(s scheduler.EntryState) bool { return s.Name == call.Args["entry"] })
	if i < 0 {
		return scheduler.EntryState{}, fmt.Errorf("%w: %q", scheduler.ErrNoEntry, call.Args["entry"])
	}
	return states[i], nil
}

// entryArgs are the arguments of the functions that concern an entry; each has some of them.
type entryArgs struct {
	Entry  string        `yaml:"entry"`
	Count  int           `yaml:"count"`
	Reason string        `yaml:"reason"`
	For    time.Duration `yaml:"for"`

	by string // the user who called
}

const (
	defaultNext = 5   // fires of an entry
	maxWords    = 256 // bytes of what is kept of why somebody wants something
)

func readArgs(call module.Call) (entryArgs, error) {
	args := entryArgs{Count: defaultNext, by: call.User}
	if err := strictyaml.Decode(strictyaml.FromValue("args", call.Args), &args); err != nil {
		return args, err
	}
	if _, limited := call.Args["for"]; limited && args.For <= 0 {
		return args, fmt.Errorf("for must be more than 0, not %v", args.For)
	}
	if len(args.Reason) > maxWords {
		return args, fmt.Errorf("reason may have %d bytes", maxWords)
	}
	return args, nil
}

func (a entryArgs) order() scheduler.Order {
	o := scheduler.Order{By: a.by, Reason: a.Reason}
	if a.For > 0 {
		o.Until = time.Now().Add(a.For)
	}
	return o
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
	return true, p.sched.Start(ctx, args.Entry, args.by)
}

func (p *Peel) schedulePause(ctx context.Context, args entryArgs) (any, error) {
	return true, p.sched.Pause(ctx, args.Entry, args.order())
}

func (p *Peel) scheduleResume(ctx context.Context, args entryArgs) (any, error) {
	return true, p.sched.Resume(ctx, args.Entry, args.by)
}

func (p *Peel) scheduleSkip(ctx context.Context, args entryArgs) (any, error) {
	nominal, err := p.sched.Skip(ctx, args.Entry, args.order())
	return map[string]time.Time{"skipped": nominal}, err
}

// onEntry makes a function of what is done to an entry.
func onEntry(do func(context.Context, entryArgs) (any, error)) module.Func {
	return func(ctx context.Context, call module.Call) wire.Result {
		args, err := readArgs(call)
		if err != nil {
			return refusal("%v", err)
		}
		data, err := do(ctx, args)
		if err != nil {
			return refusal("%v", err)
		}
		return answer(data)
	}
}
