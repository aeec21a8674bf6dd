// File statediff.go compares the states of a peel in two versions of its settings. Call [ReadStates] for both versions
// and then [CompareStates]; [Unified] compares two contents of a file.
//
// Guarantees: it reads nothing, and works on settings whose secrets are masked. Equal arguments give equal results.
//
// Known gap: it does not know the host, so a removal or reaction that it names may have nothing to do there.

package diff

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/settings/state"
)

// A StateFile describes a file of the config repo that states name.
type StateFile struct {
	SHA256 string // of the content
	Mode   string // "0644" or "0755"
	Secret bool   // the content is encrypted in the repo
}

// A StateSide holds the states of a peel in one version of its settings.
type StateSide struct {
	States map[string]state.Value
	Order  []string             // names in the order of their first mention
	Refs   map[string][]string  // names of the states to which each settings file contributed, by its reference
	Files  map[string]StateFile // by path, "files/" included
	// Reads holds, for each state with a template, the settings that it reads, by their name in the template. Read
	// leaves it empty.
	Reads map[string]map[string]any
}

// ReadStates returns the states of decoded settings. isSecret reports whether a text stands for a masked secret.
func ReadStates(values map[string]any, isSecret func(text string) bool) StateSide {
	s := StateSide{States: map[string]state.Value{}, Refs: map[string][]string{}, Files: map[string]StateFile{}}
	states, _ := values[state.Key].(map[string]any)
	for name, value := range states {
		s.States[name] = state.ValueOf(value)
	}
	compiled, _ := values[state.CompiledKey].(map[string]any)
	s.Order = texts(compiled["order"])
	refs, _ := compiled["refs"].(map[string]any)
	for ref, names := range refs {
		s.Refs[ref] = texts(names)
	}
	files, _ := compiled["files"].(map[string]any)
	for path, value := range files {
		f, _ := value.(map[string]any)
		s.Files[path] = StateFile{SHA256: text(f["sha256"]), Mode: text(f["mode"]), Secret: isSecret(text(f["key"]))}
	}
	return s
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

// texts returns the strings of a list, or a string as the only one.
func texts(v any) []string {
	if s, ok := v.(string); ok {
		return []string{s}
	}
	list, _ := v.([]any)
	var out []string
	for _, e := range list {
		out = append(out, text(e))
	}
	return out
}

// A StateDifference holds the names of the states that differ, sorted.
type StateDifference struct {
	Added, Changed, Removed []string
	// sorted paths whose content or mode differs, by the state that names them
	Files     map[string][]string
	Reads     map[string][]string // sorted names of settings that its template reads and that differ, by state
	Reordered bool                // states that both sides have are in another order
	Effects   []StateEffect       // sorted by kind and state
}

// CompareStates returns how the states differ.
func CompareStates(before, after StateSide) StateDifference {
	d := StateDifference{Files: map[string][]string{}, Reads: map[string][]string{}}
	differing := differingFiles(before, after)
	for name, now := range after.States {
		old, had := before.States[name]
		if had {
			if paths := changedFiles(before, after, old.Source(), now.Source(), differing); len(paths) > 0 {
				d.Files[name] = paths
			}
			if read := differingValues(before.Reads[name], after.Reads[name]); len(read) > 0 {
				d.Reads[name] = read
			}
		}
		switch {
		case !had:
			d.Added = append(d.Added, name)
		case len(d.Files[name])+len(d.Reads[name]) > 0 || !reflect.DeepEqual(old, now):
			d.Changed = append(d.Changed, name)
		}
	}
	for name := range before.States {
		if _, has := after.States[name]; !has {
			d.Removed = append(d.Removed, name)
		}
	}
	slices.Sort(d.Added)
	slices.Sort(d.Changed)
	slices.Sort(d.Removed)
	d.Reordered = !slices.Equal(common(before.Order, before, after), common(after.Order, before, after))
	d.Effects = effects(before, after, d)
	return d
}

// differingValues returns the sorted keys whose values differ.
func differingValues(before, after map[string]any) (keys []string) {
	for key, now := range after {
		if was, had := before[key]; !had || !reflect.DeepEqual(was, now) {
			keys = append(keys, key)
		}
	}
	for key := range before {
		if _, has := after[key]; !has {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// differingFiles returns the sorted paths of the files that only one side has or that differ.
func differingFiles(before, after StateSide) (paths []string) {
	for path, is := range after.Files {
		if was, had := before.Files[path]; !had || was != is {
			paths = append(paths, path)
		}
	}
	for path := range before.Files {
		if _, has := after.Files[path]; !has {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

// changedFiles returns the sorted paths of the files that a state with the source old or now writes differently.
func changedFiles(before, after StateSide, old, now string, differing []string) (paths []string) {
	if old == "" && now == "" {
		return nil
	}
	if old != now { // the state may write other files that are the same on both sides
		all := maps.Clone(before.Files)
		maps.Copy(all, after.Files)
		differing = slices.Sorted(maps.Keys(all))
	}
	for _, path := range differing {
		was, had := before.Files[path]
		is, has := after.Files[path]
		had, has = had && state.IsWithin(path, old), has && state.IsWithin(path, now)
		if had != has || had && was != is {
			paths = append(paths, path)
		}
	}
	return paths
}

// common returns the names of a list that are states of both sides.
func common(order []string, before, after StateSide) (names []string) {
	for _, name := range order {
		_, was := before.States[name]
		if _, is := after.States[name]; was && is {
			names = append(names, name)
		}
	}
	return names
}

// isEnabled reports whether the state is to run.
func isEnabled(v state.Value) bool {
	enabled, given := v.Fields["enabled"].(bool)
	return v.Function != "" && (enabled || !given)
}

// members returns the names of the states that a requisite names, in a list as settings hold it.
func (s StateSide) members(requisites any) (names []string) {
	for _, name := range texts(requisites) {
		if ref, isFile := strings.CutPrefix(name, "file:"); isFile {
			names = append(names, s.Refs[ref]...)
		} else {
			names = append(names, name)
		}
	}
	return names
}
