//go:build linux

package state

import (
	"context"
	"errors"

	"github.com/seed-c01c3da5/zester/peel/module"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/state"
)

// shown is the data of state.show.
type shown struct {
	Commit settings.Commit `json:"commit,omitempty"`
	Digest settings.Digest `json:"digest,omitempty"`
	States []shownState    `json:"states"` // in the order in which they run
}

// A shownState is one state in the data of state.show.
type shownState struct {
	State    string           `json:"state"`
	Function string           `json:"function"`
	Written  any              `json:"written"` // the whole entry of the settings, with secrets masked
	Origin   *settings.Origin `json:"origin,omitempty"`
	Error    string           `json:"error,omitempty"` // why the peel cannot use it; such states are the first
}

// show is state.show.
func (f *Functions) show(context.Context, module.Call) wire.Result {
	d := f.o.Document()
	all, err := read(d)
	if err != nil {
		return failure("%v", err)
	}
	out := shown{States: []shownState{}}
	if d.Settings != nil {
		out.Commit, out.Digest = d.Settings.Commit, d.Settings.Digest
	}
	for _, b := range all.broken {
		out.States = append(out.States, shownState{
			State:    b.Name,
			Function: b.Function,
			Written:  d.Values.Get(state.Key).Get(b.Name).Any(),
			Origin:   d.origin(b.Name),
			Error:    b.Err.Error(),
		})
	}
	for _, s := range all.usable {
		out.States = append(out.States, shownState{
			State:    s.Name,
			Function: s.Function,
			Written:  d.Values.Get(state.Key).Get(s.Name).Any(),
			Origin:   d.origin(s.Name),
		})
	}
	return wire.Result{Success: true, Data: out}
}

// errNoRun: state.last has nothing to return.
var errNoRun = errors.New("no run of states is stored on this peel")

// last is state.last.
func (f *Functions) last(context.Context, module.Call) wire.Result {
	r, err := f.runs.newest()
	if err == nil && r == nil {
		err = errNoRun
	}
	if err != nil {
		return failure("%v", err)
	}
	r.Fit(maxResult)
	return wire.Result{Success: true, Data: r}
}
