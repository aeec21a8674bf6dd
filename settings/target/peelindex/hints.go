package peelindex

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	// maxSearches bounds the searches for hints in one explanation, each of which looks at every ID or key.
	maxSearches = 20
	someUnknown = 5 // IDs of a list
	someValues  = 5 // of a fact
)

// hints are about a term that selects the members found.
func (x *explainer) hints(n target.Node, found *roaring.Bitmap) []string {
	none := found.IsEmpty()
	switch n := n.(type) {
	case target.GlobTerm:
		if none {
			return x.globHints(n)
		}
	case target.RegexTerm:
		return x.regexHints(n, found)
	case target.ListTerm:
		return x.listHints(n)
	case target.NetTerm:
		if none {
			return x.netHints()
		}
	case *target.FactTerm:
		if none {
			return x.factHints(n)
		}
	}
	return nil
}

// search reports whether one more search may be made.
func (x *explainer) search() bool {
	x.searches--
	return x.searches >= 0 && !x.ix.members.IsEmpty()
}

func (x *explainer) globHints(t target.GlobTerm) []string {
	if id, ok := t.Glob.Literal(); ok {
		return x.idHint(id)
	}
	folded, err := target.CompileGlob(strings.ToLower(t.String()))
	if err != nil || !x.search() {
		return nil
	}
	n := x.ix.scan(func(id string) bool { return folded.Match(strings.ToLower(id)) }).GetCardinality()
	if n == 0 {
		return nil
	}
	return []string{fmt.Sprintf("Upper and lower case count in IDs: without that %s would select %s.", target.Short(t.String()), plural(n, "peel"))}
}

// idHint is about an ID that no peel has.
func (x *explainer) idHint(id string) []string {
	if !x.search() {
		return nil
	}
	if begin := x.ix.scan(func(s string) bool { return strings.HasPrefix(s, id) }).GetCardinality(); begin > 0 {
		return []string{fmt.Sprintf("No peel has the ID %s; %s begin so: write %s*.", id, plural(begin, "ID"), id)}
	}
	text := fmt.Sprintf("No peel has the ID %s", id)
	if near := nearest(id, func(yield func(string)) {
		for it := x.ix.members.Iterator(); it.HasNext(); {
			yield(string(x.ix.peels[it.Next()].ID))
		}
	}); near != "" {
		text += "; near is " + near
	}
	return []string{text + "."}
}

func (x *explainer) regexHints(t target.RegexTerm, found *roaring.Bitmap) []string {
	pattern := strings.TrimSuffix(strings.TrimPrefix(t.Regexp.String(), "^(?:"), ")")
	if !x.search() {
		return nil
	}
	if !found.IsEmpty() {
		return x.openEndHint(t, pattern, found)
	}
	anywhere, err := regexp.Compile("(?i:" + pattern + ")")
	if err != nil {
		return nil
	}
	n := x.ix.scan(anywhere.MatchString).GetCardinality()
	if n == 0 {
		return nil
	}
	return []string{fmt.Sprintf("It matches at the beginning of an ID alone, and case counts: E@(?i).*(%s) would select %s.", target.Short(pattern), plural(n, "peel"))}
}

// openEndHint is about a pattern that is all of some IDs and the beginning of others: E@web-1 selects web-10.
func (x *explainer) openEndHint(t target.RegexTerm, pattern string, found *roaring.Bitmap) []string {
	closed, err := regexp.Compile("^(?:" + pattern + ")$")
	if err != nil || len(pattern)+1 > target.MaxPattern {
		return nil
	}
	whole := 0
	beyond := target.PeelID("")
	for it := found.Iterator(); it.HasNext(); {
		if id := x.ix.peels[it.Next()].ID; closed.MatchString(string(id)) {
			whole++
		} else if beyond == "" || id < beyond {
			beyond = id
		}
	}
	if whole == 0 || beyond == "" {
		return nil
	}
	return []string{fmt.Sprintf("It matches the beginning of an ID and so selects %s too; with $ at its end it would select %s.", beyond, plural(uint64(whole), "peel"))}
}

func (x *explainer) listHints(t target.ListTerm) []string {
	var hints []string
	unknown := 0
	for _, id := range t.IDs {
		if slot, ok := x.ix.slots[id]; ok && x.ix.members.Contains(slot) {
			continue
		}
		if unknown++; unknown <= someUnknown {
			hints = append(hints, x.idHint(string(id))...)
		}
	}
	if unknown > someUnknown {
		hints = append(hints, fmt.Sprintf("%d of these %d IDs are of no peel.", unknown, len(t.IDs)))
	}
	return hints
}

func (x *explainer) netHints() []string {
	told := 0
	for _, name := range target.AddressFacts {
		if place, ok := x.ix.facts.keys[name]; ok {
			told += len(place.scalars())
		}
	}
	if told == 0 {
		return []string{"No peel has told an address in its facts ipv4 and ipv6."}
	}
	return []string{fmt.Sprintf("Peels have told %s, none of that network.", plural(uint64(told), "address"))}
}

// factHints says how far the path of a term leads that selects nothing, and what is there instead.
func (x *explainer) factHints(t *target.FactTerm) []string {
	place := &x.ix.facts
	if t.OfSettings() {
		place = &x.ix.settings
	}
	for i, p := range t.Parts {
		next, ok := place.child(p)
		if p.Any || ok && i+1 == len(t.Parts) {
			return nil
		}
		if !ok {
			return x.missing(t, place, i)
		}
		place = next
	}
	return nil
}

// missing is about part i of a path, which is neither a key at that place nor a value that fits.
func (x *explainer) missing(t *target.FactTerm, place *tree, i int) []string {
	if i > 0 {
		if values := place.common(); len(values) > 0 {
			return []string{fmt.Sprintf("Where peels have a %s %s it is %s.", t.Noun(), t.Path(i), strings.Join(values, ", "))}
		}
	}
	key := t.Parts[i].Key
	text := fmt.Sprintf("No peel has a %s %s", t.Noun(), t.Path(i+1))
	if x.search() {
		if near := nearest(key, func(yield func(string)) {
			for _, at := range []*tree{place, place.element} {
				if at != nil {
					for k := range at.keys {
						yield(k)
					}
				}
			}
		}); near != "" {
			text += "; near is " + target.Short(near)
		}
	}
	return []string{text + "."}
}

// notHints are about not, which takes away the members excluded.
func (x *explainer) notHints(n target.Not, excluded *roaring.Bitmap) []string {
	if excluded.IsEmpty() {
		return []string{"What follows not selects no peel, so nothing is taken away."}
	}
	t, ok := n.Node.(*target.FactTerm)
	if !ok || len(t.Parts) < 2 || t.Parts[0].Any {
		return nil
	}
	root := &x.ix.facts
	if t.OfSettings() {
		root = &x.ix.settings
	}
	without := x.ix.members.Clone()
	if place, ok := root.keys[t.Parts[0].Key]; ok {
		told := roaring.New()
		place.present.addTo(told)
		without.AndNot(told)
	}
	if without.IsEmpty() {
		return nil
	}
	return []string{fmt.Sprintf("Peels that have no %s %s at all are selected as well: %d.", t.Noun(), t.Path(1), without.GetCardinality())}
}

// child is the place that a part of a path leads to.
func (t *tree) child(p target.PathPart) (*tree, bool) {
	if c, ok := t.keys[p.Key]; ok {
		return c, true
	}
	if t.element == nil {
		return nil, false
	}
	if c, ok := t.element.keys[p.Key]; ok {
		return c, true
	}
	return t.element, p.Index >= 0
}

// scalars are the values at a place, those in a list included.
func (t *tree) scalars() map[string]uint64 {
	all := map[string]uint64{}
	for _, at := range []*tree{t, t.element} {
		if at == nil {
			continue
		}
		for text, p := range at.values {
			all[text] += p.count()
		}
	}
	return all
}

// common are the most frequent values at a place, each with the number of its peels.
func (t *tree) common() []string {
	all := t.scalars()
	texts := slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		return cmp.Or(cmp.Compare(all[b], all[a]), strings.Compare(a, b))
	})
	var list []string
	for _, text := range texts[:min(len(texts), someValues)] {
		list = append(list, fmt.Sprintf("%s (%d)", shortValue(text), all[text]))
	}
	if more := len(texts) - someValues; more > 0 {
		list = append(list, fmt.Sprintf("and %d other values", more))
	}
	return list
}

func shortValue(s string) string {
	const enough = 40
	if s == "" || strings.ContainsAny(s, " \t\r\n") {
		s = strconv.Quote(s)
	}
	if len(s) <= enough {
		return s
	}
	return strings.ToValidUTF8(s[:enough], "") + "…"
}

func (p posting) count() uint64 {
	switch {
	case p.many != nil:
		return p.many.GetCardinality()
	case p.one != 0:
		return 1
	}
	return 0
}

func plural(n uint64, thing string) string {
	switch {
	case n == 1:
		return "1 " + thing
	case strings.HasSuffix(thing, "s"):
		return fmt.Sprintf("%d %ses", n, thing)
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// nearest is the candidate that takes the fewest edits to become word, not counting case; "" if none is near.
func nearest(word string, candidates func(yield func(string))) string {
	word = strings.ToLower(word)
	best, edits := "", max(1, min(2, len(word)/3))
	found := false
	candidates(func(c string) {
		if d, ok := distance(word, strings.ToLower(c), edits); ok && (!found || d < edits || c < best) {
			best, edits, found = c, d, true
		}
	})
	return best
}

// distance counts the bytes to insert, delete, replace or swap with their neighbour; not ok if that is more than most.
func distance(a, b string, most int) (n int, ok bool) {
	if len(a)-len(b) > most || len(b)-len(a) > most || len(a) > target.MaxIDLength || len(b) > target.MaxIDLength {
		return 0, false
	}
	var rows [3][target.MaxIDLength + 1]int
	before, last, row := &rows[0], &rows[1], &rows[2]
	for j := range len(b) + 1 {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		least := row[0]
		for j := range len(b) {
			d := last[j]
			if a[i] != b[j] {
				d = 1 + min(last[j], last[j+1], row[j])
			}
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				d = min(d, before[j-1]+1)
			}
			row[j+1] = d
			least = min(least, d)
		}
		if least > most {
			return 0, false
		}
		before, last, row = last, row, before
	}
	return last[len(b)], last[len(b)] <= most
}
