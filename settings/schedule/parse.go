package schedule

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// ParseSet reads the map under the key `schedule`; null is an empty set. Every entry is checked, and the
// ones that are fine are returned also when others are not: the error, a [strictyaml.Errors], names each
// bad one in its path. Of more than [MaxEntries] entries only the first ones are read.
//
// Needs must name entries of the set and not go round in a circle; so of two sets, each without circles,
// [Merge] makes none.
func ParseSet(n *strictyaml.Node) (Set, error) { return Set(nil).Reparse(nil, n) }

// Reparse is [ParseSet] of a document n that replaces another, of which the set was read, nil if there is none: entries
// that say the same in both stay the very same, and are not parsed again.
func (s Set) Reparse(was, n *strictyaml.Node) (Set, error) {
	set, err := parseEntries(n, s.unchanged(was))
	var errs strictyaml.Errors
	for _, e := range []error{err, set.Check(n)} {
		if list, ok := errors.AsType[strictyaml.Errors](e); ok {
			errs = append(errs, list...)
		}
	}
	return set, errs.Err()
}

// unchanged returns a function that finds the entry of the set which was read of the same in the document was, nil for
// none.
func (s Set) unchanged(was *strictyaml.Node) func(strictyaml.Pair) *Entry {
	said := make(map[string]*strictyaml.Node, len(s))
	if was != nil {
		for _, pair := range was.Map {
			said[pair.Key] = pair.Value
		}
	}
	return func(pair strictyaml.Pair) *Entry {
		e, before := s[pair.Key], said[pair.Key]
		if e == nil || e.Invalid != "" || before == nil || !before.Equal(pair.Value) {
			return nil
		}
		return e
	}
}

// ParseEntries is [ParseSet] without [Set.Check], for who makes a set of several documents.
func ParseEntries(n *strictyaml.Node) (Set, error) {
	return parseEntries(n, Set(nil).unchanged(nil))
}

func parseEntries(n *strictyaml.Node, known func(strictyaml.Pair) *Entry) (Set, error) {
	entries, errs := pairs(n)
	set := make(Set, len(entries))
	for _, pair := range entries {
		e, err := known(pair), strictyaml.Errors(nil)
		if e == nil {
			e, err = parseEntry(pair)
		}
		if err != nil {
			errs = append(errs, err...)
			continue
		}
		set[e.Name] = e
	}
	return set, errs.Err()
}

// Check refuses what is wrong between the entries of a set, n being the document that all of them were read from:
// needs of an entry that is not in n or in a circle, whose entries it takes out of the set, and groups that
// disagree. The error is a [strictyaml.Errors].
func (s Set) Check(n *strictyaml.Node) error {
	return append(s.checkNeeds(n), s.checkGroups(n)...).Err()
}

// Keep puts an entry that is [Entry.Invalid] into the set for each one of the document n that err, from [ParseSet],
// says something about and that the set has not. So it is not taken for one that was removed, and it does not let
// another entry of its name through.
func (s Set) Keep(n *strictyaml.Node, err error) {
	list, _ := errors.AsType[strictyaml.Errors](err)
	for _, pair := range n.Map {
		if s[pair.Key] != nil || !isName(pair.Key) || len(s) >= MaxEntries {
			continue
		}
		path := "schedule." + pair.Key
		i := slices.IndexFunc(list, func(e strictyaml.Error) bool { return e.Path == path || strings.HasPrefix(e.Path, path+".") })
		if i >= 0 {
			e := newEntry(pair.Key)
			e.Invalid = list[i].Error()
			s[pair.Key] = e
		}
	}
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
	// missing is what is wrong with the entry as long as no other file is merged with it.
	missing strictyaml.Errors

	zoneAt    strictyaml.Pos
	shorthand map[string]any // prompt, model and opts

	shorthandSecrets map[string]any // the same with their secrets
}

func parseEntry(pair strictyaml.Pair) (*Entry, strictyaml.Errors) {
	p := read(pair)
	if len(p.errs) == 0 && p.entry.Enabled {
		p.complete(pair.KeyPos)
		p.errs = append(p.errs, p.missing...)
	}
	if len(p.errs) > 0 {
		return nil, p.errs
	}
	return p.entry, nil
}

// read does all checks that an incomplete entry can pass.
func read(pair strictyaml.Pair) *parser {
	p := &parser{entry: newEntry(pair.Key), at: make(map[string]strictyaml.Pair)}
	if !isName(pair.Key) {
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
	p.oneOf(timings, "timing", "an entry has one timing")
	for _, short := range []string{"prompt", "model", "opts"} {
		p.oneOf([]string{short, "module"}, "module", short+" is short for the module "+promptModule)
		p.oneOf([]string{short, "args"}, "args", short+" is short for an argument")
	}
	if p.shorthand != nil {
		p.entry.Module, p.entry.Args, p.entry.secretArgs = promptModule, p.shorthand, p.shorthandSecrets
	}
	return p
}

func (p *parser) read(pair strictyaml.Pair) {
	p.field = pair.Key
	f := fieldOf[pair.Key]
	if f == nil {
		if hint := foreign(pair); hint != "" {
			p.refuse(pair.KeyPos, "unknown field; %s", hint)
			return
		}
		p.refuse(pair.KeyPos, "unknown field%s", strictyaml.Suggest(pair.Key, names(fields)))
		return
	}
	if pair.Value.Kind == strictyaml.Null {
		return
	}
	if other, ok := p.at[f.name]; ok {
		p.refuse(pair.KeyPos, "%s and %s (%s) are two names of one field", pair.Key, other.Key, other.KeyPos)
		return
	}
	p.at[f.name] = pair
	if s := pair.Value.FirstSecret(); s != nil && !f.secret {
		p.refuse(s.Pos, "it is encrypted, and people see when and what an entry runs; encrypt its args alone (encrypted_regex in .sops.yaml)")
		return
	}
	f.set(p, pair.Value)
}

// oneOf refuses an entry with several of some fields, which merging files easily makes.
func (p *parser) oneOf(fields []string, what, why string) {
	var set []strictyaml.Pair
	for _, name := range fields {
		if pair, ok := p.at[name]; ok {
			set = append(set, pair)
		}
	}
	slices.SortStableFunc(set, func(a, b strictyaml.Pair) int { return a.KeyPos.Compare(b.KeyPos) })
	for i := 1; i < len(set); i++ {
		first, second := set[0], set[i]
		msg := fmt.Sprintf("both %s (%s) and %s (%s) are set; %s", first.Key, first.KeyPos, second.Key, second.KeyPos, why)
		if first.KeyPos.File != second.KeyPos.File {
			msg += fmt.Sprintf("; where one file is to replace the %s of another, write \"%s: null\" (or \"%s: null\") "+
				"in the later file for the one that goes", what, first.Key, second.Key)
		}
		p.refuse(second.KeyPos, "%s", msg)
	}
}
