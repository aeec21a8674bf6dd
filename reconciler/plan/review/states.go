package review

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/settings/private"

	"github.com/seed-c01c3da5/zester/reconciler/plan/diff"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/state"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A StateChange is one state that changes in the same way on some peels.
type StateChange struct {
	Peels    []target.PeelID  `json:"peels"` // sorted
	State    string           `json:"state"`
	Function string           `json:"function"` // at the base if the state is removed
	Action   Action           `json:"action"`
	Fields   map[string]Value `json:"fields"`             // arguments and other fields; "function" if that changes
	Contents []Content        `json:"contents,omitempty"` // files of the repo that it writes, and its argument content
	Origin   string           `json:"origin"`             // file:line of the state; at the base if it is removed
}

// A Content is the change of one content that a state writes.
type Content struct {
	Path string   `json:"path"` // of the repo's file, "OLD → NEW" for another file; "content" for the argument
	Diff []string `json:"diff"` // lines of a unified diff, or one line about a content that is not compared
}

// An Effect is something that a state does on some peels because of the change.
type Effect struct {
	Peels []target.PeelID `json:"peels"` // sorted
	diff.StateEffect
}

// compareStates adds the changes of states on some peels.
func (c *comparison) compareStates(before, after side, peels []target.PeelID) {
	d := diff.CompareStates(before.states, after.states)
	for _, name := range slices.Concat(d.Added, d.Changed, d.Removed) {
		c.state(name, d, before, after, peels)
	}
	for _, e := range d.Effects {
		c.effects[e] = append(c.effects[e], peels...)
	}
	totals := &c.review.Totals
	totals.StatesAdded += len(peels) * len(d.Added)
	totals.StatesChanged += len(peels) * len(d.Changed)
	totals.StatesRemoved += len(peels) * len(d.Removed)
	switch {
	case d.Reordered:
		c.keys("", orderOf(before), orderOf(after), peels)
	case len(d.Added)+len(d.Changed)+len(d.Removed) == 0: // a state may come from another file
		c.keys(state.CompiledKey+".refs.", refsOf(before), refsOf(after), peels)
	}
}

// orderOf returns the order of the states as settings.
func orderOf(s side) map[string]any {
	if len(s.states.Order) == 0 {
		return nil
	}
	return map[string]any{state.CompiledKey + ".order": s.states.Order}
}

// refsOf returns the states of each settings file as settings.
func refsOf(s side) map[string]any {
	all := map[string]any{}
	for ref, names := range s.states.Refs {
		all[ref] = names
	}
	return all
}

// state adds the change of one state.
func (c *comparison) state(name string, d diff.StateDifference, before, after side, peels []target.PeelID) {
	files := d.Files[name]
	old, had := before.states.States[name]
	now, has := after.states.States[name]
	parts := []any{name, had, old, has, now}
	for _, path := range files {
		parts = append(parts, path, before.states.Files[path], after.states.Files[path])
	}
	values := map[string]Value{}
	for _, read := range d.Reads[name] {
		values[read] = Value{Before: before.states.Reads[name][read], After: after.states.Reads[name][read]}
	}
	id := text(append(parts, values))
	if known := c.states[id]; known != nil {
		known.Peels = append(known.Peels, peels...)
		return
	}
	change := &StateChange{
		Peels:    slices.Clone(peels),
		State:    name,
		Function: now.Function,
		Action:   Modify,
		Fields:   stateFields(old, now),
	}
	where := after
	switch {
	case !had:
		change.Action = Add
	case !has:
		change.Action, change.Function, where = Remove, old.Function, before
	case old.Function != now.Function:
		change.Fields["function"] = Value{Before: old.Function, After: now.Function}
	}
	maps.Copy(change.Fields, values)
	change.Origin = where.statePlace(name)
	if content, ok := change.Fields["content"]; ok {
		change.addText(content)
	}
	change.addFiles(files, version{before, old.Source()}, version{after, now.Source()})
	c.states[id] = change
}

// maxContents bounds the files of one change that are compared.
const maxContents = 100

// A version is what the source of a state stands for on one side.
type version struct {
	side
	source string // a file or directory of the config repo, empty if there is none
}

// file returns a file of the source; exists is false if the source has none of this path.
func (v version) file(path string) (f diff.StateFile, exists bool) {
	f, exists = v.states.Files[path]
	return f, exists && state.IsWithin(path, v.source)
}

// addFiles adds the comparison of files of the config repo that differ. A state that names another file than before has
// one comparison of the two files.
func (s *StateChange) addFiles(paths []string, before, after version) {
	_, wasFile := before.file(before.source)
	if _, isFile := after.file(after.source); wasFile && isFile && before.source != after.source {
		change := contentChange(before.source, after.source, before, after)
		change.Path = before.source + " → " + after.source
		s.Contents = append(s.Contents, change)
		return
	}
	for _, path := range paths[:min(len(paths), maxContents)] {
		s.Contents = append(s.Contents, contentChange(path, path, before, after))
	}
	if more := len(paths) - maxContents; more > 0 {
		s.Contents = append(s.Contents, Content{after.source, []string{fmt.Sprintf("%d more files differ", more)}})
	}
}

// stateFields returns the arguments and other fields in which two states differ.
func stateFields(old, now state.Value) map[string]Value {
	all := fields(old.Args, now.Args)
	maps.Copy(all, fields(old.Fields, now.Fields))
	return all
}

// addText moves the argument content to Contents if it is a text of several lines that may be shown.
func (s *StateChange) addText(v Value) {
	before, wasText := v.Before.(string)
	after, isText := v.After.(string)
	if (!wasText && v.Before != nil) || (!isText && v.After != nil) || isSecret(before) || isSecret(after) ||
		!strings.Contains(before+after, "\n") {
		return
	}
	delete(s.Fields, "content")
	s.Contents = append(s.Contents, Content{"content", unified([]byte(before), []byte(after))})
}

// contentChange compares the file from at the base with the file to at the head. A content whose path names a secret is
// not shown.
func contentChange(from, to string, before, after version) Content {
	old, had := before.file(from)
	now, has := after.file(to)
	switch {
	case old.Secret || now.Secret || private.NamesSecret(from) || private.NamesSecret(to):
		return Content{to, []string{"secret, not shown"}}
	case had && has && old.SHA256 == now.SHA256 && old.Mode != now.Mode:
		return Content{to, []string{fmt.Sprintf("mode: %s → %s", old.Mode, now.Mode)}}
	case had && has && old.SHA256 == now.SHA256:
		return Content{to, []string{"the same content"}}
	}
	was, err := before.content(from, had)
	if err != nil {
		return Content{to, []string{"cannot be shown: " + err.Error()}}
	}
	is, err := after.content(to, has)
	if err != nil {
		return Content{to, []string{"cannot be shown: " + err.Error()}}
	}
	return Content{to, unified(was, is)}
}

// unified compares two contents. It does not show lines that hold the name of a secret, such as password.
func unified(before, after []byte) []string {
	lines := diff.Unified(before, after)
	for i, line := range lines {
		if private.NamesSecret(line) {
			mark, _ := splitMark(line)
			lines[i] = string(mark) + "(a line that may hold a secret, not shown)"
		}
	}
	return lines
}

// content returns a file of the config repo, nil if there is none.
func (s side) content(path string, exists bool) ([]byte, error) {
	if !exists {
		return nil, nil
	}
	data, secret, err := s.e.Content(path)
	if secret {
		err = errors.New("it is secret")
	}
	return data, err
}

// statePlace returns the position of a state in the last file that sets a part of it, as file:line.
func (s side) statePlace(name string) string {
	name = s.e.StateSource(name)
	for _, f := range slices.Backward(s.e.Files()) {
		states := f.Node.Get(state.Key)
		if states == nil {
			continue
		}
		i := slices.IndexFunc(states.Map, func(p strictyaml.Pair) bool {
			return p.Key == name && p.Value.Kind != strictyaml.Null
		})
		if i >= 0 {
			return fmt.Sprintf("%s:%d", states.Map[i].KeyPos.File, states.Map[i].KeyPos.Line)
		}
	}
	return ""
}

// finishStates sorts the changes and effects, and conceals secrets.
func (c *comparison) finishStates(hidden secrets) {
	r := c.review
	for _, s := range c.states {
		slices.Sort(s.Peels)
		r.States = append(r.States, *s)
	}
	sorting.Func(r.States, func(a, b StateChange) int {
		return cmp.Or(strings.Compare(a.State, b.State), cmp.Compare(a.Peels[0], b.Peels[0]))
	})
	for _, s := range r.States {
		for _, field := range slices.Sorted(maps.Keys(s.Fields)) {
			s.Fields[field] = hidden.conceal(field, s.Fields[field])
		}
	}
	for e, peels := range c.effects {
		slices.Sort(peels)
		r.Effects = append(r.Effects, Effect{peels, e})
	}
	sorting.Func(r.Effects, func(a, b Effect) int {
		return cmp.Or(a.Compare(b.StateEffect), cmp.Compare(a.Peels[0], b.Peels[0]))
	})
}
