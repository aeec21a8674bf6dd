package schedule

import (
	"fmt"
	"regexp"

	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

var entryName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)

// ParseSet reads the map under the key `schedule`; null is an empty set. Every entry is checked, and the
// ones that are fine are returned also when others are not: the error, a [strictyaml.Errors], names each
// bad one in its path. Of more than [MaxEntries] entries only the first ones are read.
func ParseSet(n *strictyaml.Node) (Set, error) {
	entries, errs := pairs(n)
	set := make(Set, len(entries))
	for _, pair := range entries {
		e, err := parseEntry(pair)
		if err != nil {
			errs = append(errs, err...)
			continue
		}
		set[e.Name] = e
	}
	return set, errs.Err()
}

// ParseEntry reads one entry. The error is a [strictyaml.Errors] of all that is wrong with it.
func ParseEntry(name string, n *strictyaml.Node) (*Entry, error) {
	e, errs := parseEntry(strictyaml.Pair{Key: name, KeyPos: n.Pos, Value: n})
	return e, errs.Err()
}

// CheckFields checks the map under the key `schedule` of one file, before the files that apply to a peel
// are merged: names, keys and values must be right, but an entry need not be complete. A null stands for
// a key or an entry that is taken away from the files before. The error is a [strictyaml.Errors].
func CheckFields(n *strictyaml.Node) error {
	entries, errs := pairs(n)
	for _, pair := range entries {
		if pair.Value.Kind != strictyaml.Null {
			errs = append(errs, read(pair).errs...)
		}
	}
	return errs.Err()
}

func pairs(n *strictyaml.Node) ([]strictyaml.Pair, strictyaml.Errors) {
	var errs strictyaml.Errors
	switch {
	case n.Kind == strictyaml.Null:
	case n.Kind != strictyaml.Map:
		errs = append(errs, strictyaml.Error{Pos: n.Pos, Path: "schedule", Msg: n.Mismatch("a map of entries")})
	case len(n.Map) > MaxEntries:
		errs = append(errs, strictyaml.Error{
			Pos: n.Map[MaxEntries].KeyPos, Path: "schedule",
			Msg: fmt.Sprintf("%d entries; a schedule has at most %d", len(n.Map), MaxEntries),
		})
	}
	return n.Map[:min(len(n.Map), MaxEntries)], errs
}

// parser reads one entry.
type parser struct {
	entry *Entry
	at    map[string]strictyaml.Pair // the fields that have a value, by their own name
	field string                     // being read, as it was written
	errs  strictyaml.Errors

	zoneAt strictyaml.Pos
}

func parseEntry(pair strictyaml.Pair) (*Entry, strictyaml.Errors) {
	p := read(pair)
	if len(p.errs) == 0 && p.entry.Enabled {
		p.complete(pair.KeyPos)
	}
	if len(p.errs) > 0 {
		return nil, p.errs
	}
	return p.entry, nil
}

// read does all checks that an incomplete entry can pass.
func read(pair strictyaml.Pair) *parser {
	p := &parser{entry: newEntry(pair.Key), at: make(map[string]strictyaml.Pair)}
	if !entryName.MatchString(pair.Key) {
		p.entry.Name = fmt.Sprintf("%.128q", pair.Key)
		p.refuse(pair.KeyPos, "an entry's name has 1 to 128 of the characters A-Z a-z 0-9 _ . -")
		return p
	}
	if pair.Value.Kind != strictyaml.Map {
		p.refuse(pair.Value.Pos, "%s", pair.Value.Mismatch("a map of fields"))
		return p
	}
	for _, f := range pair.Value.Map {
		p.read(f)
	}
	p.field = ""
	p.oneTiming()
	return p
}

func (p *parser) read(pair strictyaml.Pair) {
	p.field = pair.Key
	f := fieldOf[pair.Key]
	if f == nil {
		p.refuse(pair.KeyPos, "unknown field%s", strictyaml.Suggest(pair.Key, fieldNames))
		return
	}
	if pair.Value.Kind == strictyaml.Null {
		return
	}
	if f.set == nil {
		p.refuse(pair.KeyPos, "%s is not supported yet", f.name)
		return
	}
	if other, ok := p.at[f.name]; ok {
		p.refuse(pair.KeyPos, "%s and %s (%s) are two names of one field", pair.Key, other.Key, other.KeyPos)
		return
	}
	p.at[f.name] = pair
	f.set(p, pair.Value)
}

// oneTiming refuses an entry with two timings, which merging files easily makes.
func (p *parser) oneTiming() {
	interval, hasInterval := p.at["interval"]
	cron, hasCron := p.at["cron"]
	if !hasInterval || !hasCron {
		return
	}
	first, second := interval, cron
	if second.KeyPos.Compare(first.KeyPos) < 0 {
		first, second = second, first
	}
	msg := fmt.Sprintf("both %s (%s) and %s (%s) are set; an entry has one timing",
		first.Key, first.KeyPos, second.Key, second.KeyPos)
	if first.KeyPos.File != second.KeyPos.File {
		msg += fmt.Sprintf("; where one file is to replace the timing of another, write \"%s: null\" (or \"%s: null\") "+
			"in the later file for the one that goes", interval.Key, cron.Key)
	}
	p.refuse(second.KeyPos, "%s", msg)
}

func (p *parser) complete(at strictyaml.Pos) {
	if p.entry.Module == "" {
		p.refuse(at, "module is missing: the function to run, such as cmd.run")
	}
	if p.entry.Clock.Interval == (Interval{}) && len(p.entry.Clock.Cron) == 0 {
		p.refuse(at, "a timing is missing: interval or cron")
	}
}
