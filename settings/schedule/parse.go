package schedule

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// ParseSet reads the map under the key `schedule`; null is an empty set. It returns the valid entries even if others
// are invalid; the error, a [strictyaml.Errors], names each invalid entry in its path. It reads at most
// [schedule.MaxEntries] entries.
//
// Needs must name entries of the same map and not form a circle. So [schedule.Merge] of two sets without circles has
// none either.
func ParseSet(n *strictyaml.Node) (Set, error) { return Reparse(nil, nil, n) }

// Reparse is [ParseSet] of n, which replaces the document old that set was parsed from; both may be nil. Entries that
// are equal in both documents keep their pointer and are not parsed again.
func Reparse(set Set, old, n *strictyaml.Node) (Set, error) {
	set, err := parseEntries(n, unchanged(set, old))
	var errs strictyaml.Errors
	for _, e := range []error{err, Check(set, n)} {
		if list, ok := errors.AsType[strictyaml.Errors](e); ok {
			errs = append(errs, list...)
		}
	}
	return set, errs.Err()
}

// unchanged returns a function that returns the valid entry of the set whose value in the document old is equal to the
// given one, or nil.
func unchanged(set Set, old *strictyaml.Node) func(strictyaml.Pair) *Entry {
	values := make(map[string]*strictyaml.Node, len(set))
	if old != nil {
		for _, pair := range old.Map {
			values[pair.Key] = pair.Value
		}
	}
	return func(pair strictyaml.Pair) *Entry {
		e, before := set[pair.Key], values[pair.Key]
		if e == nil || e.Invalid != "" || before == nil || !before.Equal(pair.Value) {
			return nil
		}
		return e
	}
}

// ParseEntries is [ParseSet] without [Check], for a set that is assembled from several documents.
func ParseEntries(n *strictyaml.Node) (Set, error) {
	return parseEntries(n, unchanged(nil, nil))
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

// Check checks the entries of a set against each other: needs that form a circle or name no entry of n, and groups
// with different limits. n is the document that all entries come from. Check removes the refused entries from the set;
// the error is a [strictyaml.Errors].
func Check(set Set, n *strictyaml.Node) error {
	return append(checkNeeds(set, n), checkGroups(set, n)...).Err()
}

// KeepInvalid adds an entry with its Invalid text set for each entry of the document n that err, the error of
// [ParseSet], refuses. So a refused entry does not count as removed, and still replaces the entry of its name in
// peel.yaml.
func KeepInvalid(set Set, n *strictyaml.Node, err error) {
	list, _ := errors.AsType[strictyaml.Errors](err)
	for _, pair := range n.Map {
		if set[pair.Key] != nil || !isName(pair.Key) || len(set) >= MaxEntries {
			continue
		}
		path := "schedule." + pair.Key
		i := slices.IndexFunc(list, func(e strictyaml.Error) bool {
			return e.Path == path || strings.HasPrefix(e.Path, path+".")
		})
		if i >= 0 {
			e := New(pair.Key)
			e.Invalid = list[i].Error()
			set[pair.Key] = e
		}
	}
}

// ParseEntry reads one entry. The error is a [strictyaml.Errors] with all mistakes of the entry.
func ParseEntry(name string, n *strictyaml.Node) (*Entry, error) {
	e, errs := parseEntry(strictyaml.Pair{Key: name, KeyPos: n.Pos, Value: n})
	return e, errs.Err()
}

// CheckFields checks the map under the key `schedule` of one file, before the files that apply to a peel
// are merged: names, keys and values must be right, but an entry need not be complete. Null is allowed: it removes
// a key or an entry of the files before. The error is a [strictyaml.Errors].
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
	at    map[string]strictyaml.Pair // the fields that have a value, by field name (not alias)
	field string                     // the field that is being read, as written in the file
	errs  strictyaml.Errors
	// missing are mistakes that another file can mend when the two are merged.
	missing strictyaml.Errors

	zoneAt    strictyaml.Pos
	shorthand map[string]any // prompt, model and opts; secrets masked

	shorthandSecrets map[string]any // prompt, model and opts with their secrets
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

// read reads all fields of an entry, without checking that it is complete.
func read(pair strictyaml.Pair) *parser {
	p := &parser{entry: New(pair.Key), at: make(map[string]strictyaml.Pair)}
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
		p.entry.Module = promptModule
		p.entry.SetArgs(p.shorthand, p.shorthandSecrets)
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
		p.refuse(pair.KeyPos, "unknown field%s", strictyaml.SuggestKey(pair.Key, names(fields)))
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
		p.refuse(
			s.Pos,
			"it is encrypted, and people see when and what an entry runs; "+
				"encrypt its args alone (encrypted_regex in .sops.yaml)",
		)
		return
	}
	f.set(p, pair.Value)
}

// oneOf refuses an entry that has more than one of the fields; merging files easily makes such an entry.
func (p *parser) oneOf(fields []string, what, why string) {
	var set []strictyaml.Pair
	for _, name := range fields {
		if pair, ok := p.at[name]; ok {
			set = append(set, pair)
		}
	}
	sorting.Stable(set, func(a, b strictyaml.Pair) int { return a.KeyPos.Compare(b.KeyPos) })
	for i := 1; i < len(set); i++ {
		first, second := set[0], set[i]
		msg := fmt.Sprintf("both %s (%s) and %s (%s) are set; %s", first.Key, first.KeyPos, second.Key, second.KeyPos,
			why)
		if first.KeyPos.File != second.KeyPos.File {
			msg += fmt.Sprintf("; where one file is to replace the %s of another, write \"%s: "+
				"null\" (or \"%s: null\") "+
				"in the later file for the one that goes", what, first.Key, second.Key)
		}
		p.refuse(second.KeyPos, "%s", msg)
	}
}
