package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/target"
	"github.com/seed-c01c3da5/zester/settings/top"
)

const (
	guardLeast = 10 // limits count for a fleet with at least this many settings
	namedMost  = 5  // settings or peels that a reason names
)

// An extent measures a change. A setting is a schedule entry or one value beside the schedule, counted on each peel that
// has it.
type extent struct {
	before  int             // settings before the change
	changed int             // settings that change, or that a new one replaces
	removed int             // settings that go with nothing in their place
	peels   int             // peels with settings before the change
	losing  int             // peels from which a setting is removed
	last    []string        // settings that no peel has after the change
	bare    []target.PeelID // peels that lose all settings, or all entries of their schedule
	targets []string        // targets whose peels lose all that they had from the target
}

// content holds the settings of one document.
type content struct {
	entries schedule.Set
	values  map[string]string // beside the schedule: encoded values by path, keys joined with dots
}

func (c content) size() int { return len(c.entries) + len(c.values) }

const entryPrefix = "schedule." // of the key of an entry

// has reports whether c holds the setting of a key.
func (c content) has(key string) bool {
	if name, isEntry := strings.CutPrefix(key, entryPrefix); isEntry {
		return c.entries[name] != nil
	}
	_, has := c.values[key]
	return has
}

// among returns those of the keys that c holds.
func (c content) among(keys []string) (held []string) {
	for _, key := range keys {
		if c.has(key) {
			held = append(held, key)
		}
	}
	return held
}

// values returns the values beside the schedule by path. A list or an empty map is one value.
func values(raw canon.Raw) (map[string]string, error) {
	var all map[string]any
	if err := canon.Unmarshal(raw, &all); err != nil {
		return nil, err
	}
	delete(all, "schedule")
	out := map[string]string{}
	return out, flatten("", all, out)
}

func flatten(above string, in map[string]any, out map[string]string) error {
	for key, value := range in {
		if inner, ok := value.(map[string]any); ok && len(inner) > 0 {
			if err := flatten(above+key+".", inner, out); err != nil {
				return err
			}
			continue
		}
		encoded, err := canon.Marshal(value)
		if err != nil {
			return err
		}
		out[above+key] = string(encoded)
	}
	return nil
}

// content decodes the settings of e once.
func (e *Effective) content() (content, error) {
	if known := e.decoded.Load(); known != nil {
		return *known, nil
	}
	all, err := values(e.Settings)
	if err != nil {
		return content{}, fmt.Errorf("cannot read the settings of %s: %w", strings.Join(e.Refs, ", "), err)
	}
	c := content{e.Schedule, all}
	e.decoded.Store(&c)
	return c, nil
}

// content returns the settings of a digest of the base, those of known if it is not nil.
func (b Base) content(digest settings.Digest, known *Effective) (c content, err error) {
	switch {
	case digest == "":
		return content{}, nil
	case known != nil:
		return known.content()
	}
	raw, err := b.Settings(digest)
	if err != nil {
		return content{}, err
	}
	if c.entries, err = scheduleOf(digest, raw); err != nil {
		return content{}, err
	}
	c.values, err = values(raw)
	return c, err
}

// measure adds the change of one group of peels. It returns the settings that the group loses; where fewer settings are
// added below the same first key than are removed, that is all of the removed.
func (x *extent) measure(g *Group, before, after content) (gone []string) {
	removed := map[string][]string{} // by first key: a new setting replaces a removed one with the same first key
	added := map[string]int{"schedule": len(g.Entries.Added)}
	for _, name := range g.Entries.Removed {
		removed["schedule"] = append(removed["schedule"], entryPrefix+name)
	}
	changed := len(g.Entries.Retimed) + len(g.Entries.Swapped)
	for key, value := range before.values {
		other, there := after.values[key]
		switch {
		case !there:
			removed[section(key)] = append(removed[section(key)], key)
		case other != value:
			changed++
		}
	}
	for key := range after.values {
		if _, there := before.values[key]; !there {
			added[section(key)]++
		}
	}
	lost := 0
	for kind, keys := range removed {
		replaced := min(len(keys), added[kind])
		changed += replaced
		if replaced < len(keys) {
			lost += len(keys) - replaced
			gone = append(gone, keys...)
		}
	}
	x.changed += len(g.Peels) * changed
	x.removed += len(g.Peels) * lost
	if lost > 0 {
		x.losing += len(g.Peels)
	}
	if before.size() > 0 && after.size() == 0 || len(before.entries) > 0 && len(after.entries) == 0 {
		x.bare = append(x.bare, g.Peels...)
	}
	return gone
}

// section returns the first key of a path.
func section(key string) string {
	first, _, _ := strings.Cut(key, ".")
	return first
}

// leave records the settings in gone that no peel has after the change, and sorts the lists.
func (x *extent) leave(gone map[string]bool, after map[settings.Digest]*Effective) error {
	for _, e := range after {
		if len(gone) == 0 {
			break
		}
		c, err := e.content()
		if err != nil {
			return err
		}
		for key := range gone {
			if c.has(key) {
				delete(gone, key)
			}
		}
	}
	x.last = slices.Sorted(maps.Keys(gone))
	slices.Sort(x.bare)
	return nil
}

// A BlockedError is a change that does not go out without approval.
type BlockedError struct {
	Hash   string // of the Difference
	Reason string
	Limits []string // limits that the change exceeds, by their names in zester.yaml and the trailer
	// RemovesAll reports that no settings would be left. No trailer allows that.
	RemovesAll bool
}

func (e *BlockedError) Error() string { return e.Reason }

// Guard returns a [*BlockedError] if the change is rarely meant: the top file is empty, or no peel keeps any settings. For
// a fleet of ten settings or more also if the change exceeds a limit, removes a setting from its last peel, removes all
// settings or all schedule entries of a peel, or removes from all peels of a target everything that it gave them; the last
// three are not checked if the limit remove is off.
func (d *Difference) Guard(limits top.Limits) error {
	switch {
	case d.topEmpty:
		return &BlockedError{Hash: d.Hash, Reason: "the top file is empty: every peel would lose its settings", RemovesAll: true}
	case d.emptied:
		return &BlockedError{Hash: d.Hash, Reason: "nothing matches any peel: every peel would lose its settings", RemovesAll: true}
	}
	reasons, names := d.extent.over(limits)
	if len(reasons) == 0 {
		return nil
	}
	return &BlockedError{Hash: d.Hash, Reason: strings.Join(reasons, "; "), Limits: names}
}

// over returns the limits that a change exceeds, each with a reason.
func (x *extent) over(limits top.Limits) (reasons, names []string) {
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
		add("change", "%d of %d settings over all peels would change or go, more than change: %s", touched, x.before, limits.Change)
	}
	if limits.Remove != top.Off {
		if limits.Remove.Exceeded(x.removed, x.before) {
			add("remove", "%d of %d settings over all peels would go with nothing in their place, more than remove: %s", x.removed, x.before, limits.Remove)
		}
		if len(x.last) > 0 {
			add("remove", "no peel would have %s any longer", FirstOf(x.last, namedMost))
		}
		if len(x.bare) > 0 {
			add("remove", "all settings or all schedule entries would go from %s", FirstOf(x.bare, namedMost))
		}
		if len(x.targets) > 0 {
			add("remove", "all peels of a target would lose everything that it gives them: %s", FirstOf(x.targets, namedMost))
		}
	}
	if limits.Peels.Exceeded(x.losing, x.peels) {
		add("peels", "%d of %d peels would lose a setting with nothing in its place, more than peels: %s", x.losing, x.peels, limits.Peels)
	}
	return reasons, names
}

// FirstOf lists the first names, most of them at most, and says how many more there are.
func FirstOf[T ~string](all []T, most int) string {
	words := make([]string, 0, most)
	for _, one := range all[:min(most, len(all))] {
		words = append(words, string(one))
	}
	text := strings.Join(words, ", ")
	if more := len(all) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
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
