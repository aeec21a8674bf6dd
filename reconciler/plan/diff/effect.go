package diff

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/state"
)

// A StateKind is the kind of a [StateEffect].
type StateKind string

// The kinds, in the order in which effects are sorted.
const (
	StateRemoval StateKind = "removal" // the next run deletes something
	// the next run restarts or reloads a service, or runs a command, because another state changes
	StateReaction StateKind = "reaction"
	StatesLeft    StateKind = "left" // the state is no longer there, and what it made stays on the host
)

// A StateEffect is what the next run does on a host because of a change, and that people should know before.
type StateEffect struct {
	Kind  StateKind `json:"kind"`
	State string    `json:"state"`
	Text  string    `json:"text"` // such as "removes the user ada"
}

// effects returns the effects of a difference.
func effects(before, after StateSide, d StateDifference) (all []StateEffect) {
	for name, now := range after.States {
		if does := removal(name, now); does != "" && does != removal(name, before.States[name]) {
			all = append(all, StateEffect{StateRemoval, name, does})
		}
	}
	all = append(all, reactions(before, after, d)...)
	managed := map[string]bool{}
	for name, now := range after.States {
		managed[thing(name, now)] = true
	}
	for _, name := range d.Removed {
		if old := before.States[name]; leavesSomething(old) && !managed[thing(name, old)] {
			all = append(all, StateEffect{StatesLeft, name, "what " + old.Function + " made stays on the host"})
		}
	}
	sorting.Func(all, StateEffect.Compare)
	return all
}

var kinds = []StateKind{StateRemoval, StateReaction, StatesLeft}

// Compare orders by kind, state and text.
func (e StateEffect) Compare(o StateEffect) int {
	return cmp.Or(cmp.Compare(slices.Index(kinds, e.Kind), slices.Index(kinds, o.Kind)), cmp.Compare(e.State, o.State),
		cmp.Compare(e.Text, o.Text))
}

// removal returns what a state deletes on a host, empty if nothing.
func removal(name string, v state.Value) string {
	main, is := v.Main(name), func(arg string) bool { return v.Args[arg] == true }
	if !isEnabled(v) {
		return ""
	}
	switch v.Function {
	case "file.absent":
		return "removes " + main
	case "file.directory", "file.recurse":
		if is("clean") {
			return "removes what no state owns in " + main
		}
	case "file.line", "file.block":
		if is("absent") {
			return "removes a part of " + main
		}
	case "pkg.removed":
		text := "removes " + packages(v, main)
		if is("purge") {
			text += " and its configuration"
		}
		return text
	case "pkg.installed":
		if is("allow_removals") {
			return "may remove packages to install " + packages(v, main)
		}
	case "pkgrepo.managed":
		if is("absent") {
			return "removes the package repository " + main
		}
	case "cron.absent":
		return "removes /etc/cron.d/" + main
	case "group.absent":
		return "removes the group " + main
	case "ssh_auth.absent":
		return "removes SSH keys of the user " + main
	case "user.absent":
		text := "removes the user " + main
		if is("remove_home") {
			text += " and its home"
		}
		return text
	}
	return ""
}

// packages names the packages of a state.
func packages(v state.Value, main string) string {
	names := texts(v.Args["names"])
	if len(names) < 2 {
		return "the package " + strings.Join(append(names, main)[:1], "")
	}
	return "the packages " + strings.Join(names, ", ")
}

// reactions returns the states that react to a state that the next run changes.
func reactions(before, after StateSide, d StateDifference) (all []StateEffect) {
	changes := map[string]bool{} // states with something to do on the host
	for _, name := range d.Added {
		changes[name] = isEnabled(after.States[name])
	}
	for _, name := range d.Changed {
		old, now := before.States[name], after.States[name]
		same := old.Function == now.Function && reflect.DeepEqual(old.Args, now.Args) &&
			len(d.Files[name])+len(d.Reads[name]) == 0 && isEnabled(old)
		changes[name] = !same && isEnabled(now)
	}
	watched := map[string]map[string]bool{} // changing states by the state that reacts
	note := func(reacts, to string) {
		if v := after.States[reacts]; changes[to] && reacts != to && isEnabled(v) && reaction(reacts, v) != "" {
			if watched[reacts] == nil {
				watched[reacts] = map[string]bool{}
			}
			watched[reacts][to] = true
		}
	}
	for name, v := range after.States {
		for _, to := range append(after.members(v.Fields["watch"]), after.members(v.Fields["onchanges"])...) {
			note(name, to)
		}
		for _, reacts := range append(after.members(v.Fields["watch_in"]), after.members(v.Fields["onchanges_in"])...) {
			note(reacts, name)
		}
	}
	for name, to := range watched {
		names := slices.Sorted(maps.Keys(to))
		text := strings.Join(names[:min(len(names), maxNamedStates)], ", ")
		if more := len(names) - maxNamedStates; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		all = append(all, StateEffect{
			StateReaction, name, reaction(name, after.States[name]) + " if one of these changes: " + text,
		})
	}
	return all
}

// maxNamedStates bounds the states that an effect names.
const maxNamedStates = 5

// reaction returns what a state does as a reaction, empty if it never reacts.
func reaction(name string, v state.Value) string {
	switch {
	case v.Function == "service.running" && v.Args["reload"] == true:
		return "reloads " + v.Main(name)
	case v.Function == "service.running":
		return "restarts " + v.Main(name)
	case v.Function == "cmd.run":
		return "runs its command"
	case len(texts(v.Fields["onchanges"])) > 0:
		return "runs"
	}
	return ""
}

// thing identifies what a state manages, whatever the state's name.
func thing(name string, v state.Value) string {
	module, _, _ := strings.Cut(v.Function, ".")
	if names := texts(v.Args["names"]); len(names) > 0 {
		return module + " " + strings.Join(names, " ")
	}
	return module + " " + v.Main(name)
}

// leavesSomething reports whether a state makes something on a host.
func leavesSomething(v state.Value) bool {
	switch v.Function {
	case "", "cmd.run", "pkg.removed", "service.dead":
		return false
	}
	return !strings.HasSuffix(v.Function, ".absent") && v.Args["absent"] != true
}
