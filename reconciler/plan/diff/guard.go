package diff

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/policy"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/state"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	guardLeast = 10 // limits count for a fleet with at least this many settings
	maxNamed   = 5  // settings or peels that a reason names
)

// An extent is the size of a change. A setting is a schedule entry, a state, or one value beside them, counted on each
// peel that has it.
type extent struct {
	before  int             // settings before the change
	changed int             // settings that change or are replaced by a new one
	removed int             // settings that are removed without a replacement
	peels   int             // peels with settings before the change
	losing  int             // peels from which a setting is removed
	last    []string        // settings that no peel has after the change, nor one of the same function in their place
	bare    []target.PeelID // peels that lose all settings, all schedule entries, or all states
	targets []string        // targets whose peels lose all settings that they had from the target
}

// content holds the settings of one document.
type content struct {
	entries schedule.Set
	values  map[string]string // outside the schedule: encoded values by path, keys joined with dots
}

func (c content) size() int { return len(c.entries) + len(c.values) }

// without returns the content without some entries.
func (c content) without(names map[string]bool) content {
	if len(names) > 0 {
		c.entries = maps.Clone(c.entries)
		maps.DeleteFunc(c.entries, func(name string, _ *schedule.Entry) bool { return names[name] })
	}
	return c
}

// wouldLose reports whether a peel has a setting whose loss counts.
func (b Base) wouldLose(before map[settings.Digest]content) bool {
	for _, c := range before {
		if len(b.Removed) == 0 || c.without(b.Removed).size() > 0 {
			return true
		}
	}
	return false
}

// hasStates reports whether c has a state.
func (c content) hasStates() bool {
	for key := range c.values {
		if section(key) == state.Key {
			return true
		}
	}
	return false
}

const entryPrefix = "schedule." // of the key of an entry

// has reports whether c holds the setting of a key.
func (c content) has(key string) bool {
	if name, isEntry := strings.CutPrefix(key, entryPrefix); isEntry {
		return c.entries[name] != nil
	}
	_, has := c.values[key]
	return has
}

// among returns the keys of a list that c has.
func (c content) among(keys []string) (held []string) {
	for _, key := range keys {
		if c.has(key) {
			held = append(held, key)
		}
	}
	return held
}

// contentOf returns the settings of e.
func contentOf(e *plan.Effective) (content, error) {
	values, err := e.Flat()
	return content{e.Schedule, values}, err
}

// content returns the settings of a digest of the base. It uses known if that is not nil.
func (b Base) content(digest settings.Digest, known *plan.Effective) (c content, err error) {
	switch {
	case digest == "":
		return content{}, nil
	case known != nil:
		return contentOf(known)
	}
	raw, err := b.Settings(digest)
	if err != nil {
		return content{}, err
	}
	var values map[string]any
	if err := canon.Unmarshal(raw, &values); err != nil {
		return content{}, fmt.Errorf("cannot read the settings of digest %s: %w", digest, err)
	}
	c.entries = scheduleOf(values)
	c.values, err = plan.Flatten(values)
	return c, err
}

// function returns the function of an entry or a state, and "" for a value.
func (c content) function(key string) string {
	if name, isEntry := strings.CutPrefix(key, entryPrefix); isEntry {
		return c.entries[name].Module
	}
	if section(key) == state.Key {
		return plan.FunctionOf(c.values[key])
	}
	return ""
}

// measure adds the change of one group of peels. before lacks the entries whose loss does not count. It returns the
// settings that the group loses: all removed settings below a first key, if fewer are added below the same key. unlike
// are the removed settings of a function, if fewer with this function are added.
func (x *extent) measure(g *Group, before, after content) (gone, unlike []string) {
	changed, removed, added := compareValues(before.values, after.values)
	changed += len(g.Entries.Retimed) + len(g.Entries.Swapped)
	for _, name := range g.Entries.Added {
		added["schedule"] = append(added["schedule"], entryPrefix+name)
	}
	for _, name := range g.Entries.Removed {
		if before.entries[name] == nil {
			continue // a master removed it
		}
		removed["schedule"] = append(removed["schedule"], entryPrefix+name)
	}
	lost := 0
	for first, keys := range removed { // a new setting replaces a removed one with the same first key
		replaced := min(len(keys), len(added[first]))
		unlike = append(unlike, withoutLike(before, keys, after, added[first])...)
		changed += replaced
		if replaced < len(keys) {
			lost += len(keys) - replaced
			gone = append(gone, keys...)
		}
	}
	g.Takes = Taking{before.size(), changed + lost, lost}
	x.changed += len(g.Peels) * changed
	x.removed += len(g.Peels) * lost
	if lost > 0 {
		x.losing += len(g.Peels)
	}
	if before.size() > 0 && after.size() == 0 || len(before.entries) > 0 && len(after.entries) == 0 ||
		before.hasStates() && !after.hasStates() {
		x.bare = append(x.bare, g.Peels...)
	}
	return gone, unlike
}

// withoutLike returns the removed keys of each function that fewer of the added keys have.
func withoutLike(before content, removed []string, after content, added []string) (unlike []string) {
	given, lost := map[string]int{}, map[string][]string{}
	for _, key := range added {
		given[after.function(key)]++
	}
	for _, key := range removed {
		f := before.function(key)
		lost[f] = append(lost[f], key)
	}
	for f, keys := range lost {
		if len(keys) > given[f] {
			unlike = append(unlike, keys...)
		}
	}
	return unlike
}

// compareValues counts the values outside the schedule that change, and returns the removed and the added keys, both by
// first key.
func compareValues(before, after map[string]string) (changed int, removed, added map[string][]string) {
	removed, added = map[string][]string{}, map[string][]string{}
	for key, value := range before {
		other, there := after[key]
		switch {
		case !there:
			removed[section(key)] = append(removed[section(key)], key)
		case other != value:
			changed++
		}
	}
	for key := range after {
		if _, there := before[key]; !there {
			added[section(key)] = append(added[section(key)], key)
		}
	}
	return changed, removed, added
}

// section returns the first key of a path.
func section(key string) string {
	first, _, _ := strings.Cut(key, ".")
	return first
}

// leave records the settings that no peel has after the change and that no other with the same function replaces, and
// sorts the lists.
func (x *extent) leave(moves []move, after map[settings.Digest]*plan.Effective) error {
	gone := map[string]bool{}
	for _, m := range moves {
		for _, key := range m.unlike {
			gone[key] = true
		}
	}
	for _, e := range after {
		if len(gone) == 0 {
			break
		}
		c, err := contentOf(e)
		if err != nil {
			return err
		}
		maps.DeleteFunc(gone, func(key string, _ bool) bool { return c.has(key) })
	}
	x.last = slices.Sorted(maps.Keys(gone))
	slices.Sort(x.bare)
	return nil
}

// A BlockedError is the error of a change that needs approval.
type BlockedError struct {
	Hash   string // of the Difference
	Reason string
	Limits []string // limits that the change exceeds, by their names in zester.yaml and the trailer
	// RemovesAll reports that no settings would be left. No trailer allows that.
	RemovesAll bool
}

func (e *BlockedError) Error() string { return e.Reason }

// Guard returns a [*BlockedError] if the change is rarely intended: the top file is empty, or no peel keeps any
// settings. For a fleet of ten settings or more also if the change exceeds a limit, removes a setting from its last
// peel with nothing like it in its place, removes all settings, all schedule entries or all states of a peel, or
// removes all settings of a target from all its peels; the last three are not checked if the limit remove is off.
func (d *Difference) Guard(limits policy.Limits) error { return d.GuardAfter(limits, Taking{}, 0) }

// GuardAfter is Guard for the last part of a longer change: earlier parts took settings from peels that d does not take
// any from.
func (d *Difference) GuardAfter(limits policy.Limits, earlier Taking, peels int) error {
	switch {
	case d.topEmpty:
		return &BlockedError{
			Hash:       d.Hash,
			Reason:     "the top file is empty: every peel would lose its settings",
			RemovesAll: true,
		}
	case d.emptied:
		return &BlockedError{
			Hash:       d.Hash,
			Reason:     "nothing matches any peel: every peel would lose its settings",
			RemovesAll: true,
		}
	}
	x := d.extent
	x.before += earlier.Removed
	x.removed += earlier.Removed
	x.changed += earlier.Touched - earlier.Removed
	x.losing += peels
	reasons, names := x.over(limits)
	if len(reasons) == 0 {
		return nil
	}
	return &BlockedError{Hash: d.Hash, Reason: strings.Join(reasons, "; "), Limits: names}
}

// over returns the limits that a change exceeds, each with a reason.
func (x *extent) over(limits policy.Limits) (reasons, names []string) {
	if x.before < guardLeast {
		return nil, nil
	}
	add := func(name, format string, args ...any) {
		reasons = append(reasons, fmt.Sprintf(format, args...))
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if touched := x.changed + x.removed; limits.Change.Exceeded(touched, x.before) {
		add("change", "%d of %d settings over all peels would change or go, more than change: %s", touched, x.before,
			limits.Change)
	}
	if limits.Remove != policy.Off {
		if limits.Remove.Exceeded(x.removed, x.before) {
			add("remove",
				"%d of %d settings over all peels would go with nothing in their place, more than remove: %s",
				x.removed, x.before, limits.Remove)
		}
		if len(x.last) > 0 {
			add("remove", "no peel would have %s any longer", plan.FirstOf(x.last, maxNamed))
		}
		if len(x.bare) > 0 {
			add("remove", "all settings, all schedule entries or all states would go from %s",
				plan.FirstOf(x.bare, maxNamed))
		}
		if len(x.targets) > 0 {
			add("remove", "all peels of a target would lose everything that it gives them: %s",
				plan.FirstOf(x.targets, maxNamed))
		}
	}
	if limits.Peels.Exceeded(x.losing, x.peels) {
		add("peels", "%d of %d peels would lose a setting with nothing in its place, more than peels: %s", x.losing,
			x.peels, limits.Peels)
	}
	return reasons, names
}

// Trailer returns the line that allows the change in the message of its commit.
func (e *BlockedError) Trailer() string { return trailer + strings.Join(e.Limits, ", ") }

const trailer = "Zester-Allow: "

// AllowedBy reports whether the last paragraph of a commit's message, which must not be the only one, names all limits
// that the change exceeds: "Zester-Allow: change, remove".
func (e *BlockedError) AllowedBy(message string) bool {
	paragraphs := strings.Split(strings.TrimSpace(strings.ReplaceAll(message, "\r\n", "\n")), "\n\n")
	if len(paragraphs) < 2 || e.RemovesAll {
		return false
	}
	allowed := map[string]bool{}
	for line := range strings.SplitSeq(paragraphs[len(paragraphs)-1], "\n") {
		if names, ok := strings.CutPrefix(line, trailer); ok {
			for name := range strings.SplitSeq(names, ",") {
				allowed[strings.TrimSpace(name)] = true
			}
		}
	}
	return !slices.ContainsFunc(e.Limits, func(name string) bool { return !allowed[name] })
}
