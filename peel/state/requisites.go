//go:build linux

package state

import (
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/settings/state"
)

// connect collects the requisites of each state, from both sides.
func (x *run) connect() {
	x.require = map[string][]string{}
	x.watch = map[string][]string{}
	x.onchanges = map[string][]string{}
	x.reactors = map[string][]string{}
	all := slices.Concat(x.q.Set, x.q.Others)
	for _, s := range all {
		x.require[s.Name] = append(x.require[s.Name], x.expand(s.Require, s.Name)...)
		x.watch[s.Name] = append(x.watch[s.Name], x.expand(s.Watch, s.Name)...)
		x.onchanges[s.Name] = append(x.onchanges[s.Name], x.expand(s.OnChanges, s.Name)...)
		for _, name := range x.expand(s.RequireIn, s.Name) {
			x.require[name] = append(x.require[name], s.Name)
		}
		for _, name := range x.expand(s.WatchIn, s.Name) {
			x.watch[name] = append(x.watch[name], s.Name)
		}
		for _, name := range x.expand(s.OnChangesIn, s.Name) {
			x.onchanges[name] = append(x.onchanges[name], s.Name)
		}
	}
	for _, b := range x.q.Broken {
		for _, name := range x.expand(b.Before, b.Name) {
			x.require[name] = append(x.require[name], b.Name)
		}
	}
	for _, s := range all {
		for _, name := range slices.Concat(x.watch[s.Name], x.onchanges[s.Name]) {
			if s.IsEnabled() {
				x.reactors[name] = append(x.reactors[name], s.Name)
			}
		}
	}
}

// expand replaces file:REF by the states of that settings file.
func (x *run) expand(names []string, self string) (out []string) {
	for _, name := range names {
		ref, isFile := strings.CutPrefix(name, "file:")
		if !isFile {
			out = append(out, name)
			continue
		}
		if x.q.Files != nil {
			out = append(out, slices.DeleteFunc(slices.Clone(x.q.Files(ref)), func(n string) bool {
				return n == self
			})...)
		}
	}
	return out
}

// mayRun says why a state is skipped, or why that is not known.
func (x *run) mayRun(s *state.State) (reason Reason, unknown string) {
	if !s.IsEnabled() {
		return Disabled, ""
	}
	if x.hardFailed {
		return FailHard, ""
	}
	for _, name := range slices.Concat(x.require[s.Name], x.watch[s.Name], x.onchanges[s.Name]) {
		if d := x.done[name]; d != nil && (d.Result == Failed || d.Result == Skipped && isFailure(d.Reason)) {
			return RequireFailed, ""
		}
	}
	if len(s.OnFail) > 0 && !slices.ContainsFunc(x.expand(s.OnFail, s.Name), func(n string) bool {
		d := x.done[n]
		return d != nil && d.Result == Failed
	}) {
		return OnFailUnmet, ""
	}
	if len(x.onchanges[s.Name])+len(s.OnChanges) > 0 && len(x.memory.Owed[s.Name]) == 0 {
		changed, doubtful := x.changed(x.onchanges[s.Name])
		switch {
		case changed != "":
		case doubtful != "":
			return "", "it depends on whether " + doubtful + " changes"
		default:
			return OnChangesUnmet, ""
		}
	}
	return "", ""
}

// isFailure reports whether a state that was skipped for a reason counts as failed for those that require it.
func isFailure(r Reason) bool {
	return slices.Contains([]Reason{RequireFailed, FailHard, Canceled}, r)
}

// changed returns the first state of names that changed or would change, and the first for which that is not known.
func (x *run) changed(names []string) (changed, doubtful string) {
	for _, name := range names {
		switch d := x.done[name]; {
		case d == nil:
		case changed == "" && (d.Result == Changed || d.Result == WouldChange):
			changed = name
		case doubtful == "" && d.Result == Unknown:
			doubtful = name
		}
	}
	return changed, doubtful
}
