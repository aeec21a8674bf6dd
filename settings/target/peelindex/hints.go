package peelindex

import (
	"cmp"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/spelling"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	// maxSearches limits the searches for hints in one explanation; each search reads every ID or key.
	maxSearches = 20
	maxUnknown  = 5 // unknown IDs of a list that get a hint of their own
	maxValues   = 5 // values of a fact that a hint lists
)

// hints returns the hints about a term that selects the members found. An unknown ID of a list gets a hint even if
// others are found, anything else only if nothing is.
func (x *explainer) hints(n target.Node, found *roaring.Bitmap) []string {
	if list, ok := n.(target.ListTerm); ok {
		return x.listHints(list)
	}
	if !found.IsEmpty() {
		return nil
	}
	switch n := n.(type) {
	case target.GlobTerm:
		return x.globHints(n)
	case target.NetTerm:
		return x.netHints()
	case *target.FactTerm:
		return x.factHints(n)
	}
	return nil
}

// search reports whether one more search is allowed, and counts it.
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
	return []string{
		fmt.Sprintf("IDs are case sensitive: ignoring case, %s would select %s.", target.Short(t.String()),
			plural(n, "peel")),
	}
}

// idHint returns the hint about an ID that no peel has.
func (x *explainer) idHint(id string) []string {
	if !x.search() {
		return nil
	}
	if begin := x.ix.scan(func(s string) bool { return strings.HasPrefix(s, id) }).GetCardinality(); begin > 0 {
		return []string{fmt.Sprintf("No peel has the ID %s; %s begin with it: write %s*.", id, plural(begin, "ID"), id)}
	}
	text := fmt.Sprintf("No peel has the ID %s", id)
	if near := nearest(id, func(yield func(string)) {
		for it := x.ix.members.Iterator(); it.HasNext(); {
			yield(string(x.ix.peels[it.Next()].ID))
		}
	}); near != "" {
		text += "; did you mean " + near + "?"
	} else {
		text += "."
	}
	return []string{text}
}

func (x *explainer) listHints(t target.ListTerm) []string {
	var hints []string
	unknown := 0
	for _, id := range t.IDs {
		if slot, ok := x.ix.slots[id]; ok && x.ix.members.Contains(slot) {
			continue
		}
		if unknown++; unknown <= maxUnknown {
			hints = append(hints, x.idHint(string(id))...)
		}
	}
	if unknown > maxUnknown {
		hints = append(hints, fmt.Sprintf("%d of these %d IDs are unknown.", unknown, len(t.IDs)))
	}
	return hints
}

func (x *explainer) netHints() []string {
	addresses := 0
	for _, name := range target.AddressFacts {
		if node, ok := x.ix.facts.keys[name]; ok {
			addresses += len(node.scalars())
		}
	}
	if addresses == 0 {
		return []string{"No peel has an address in its facts ipv4 and ipv6."}
	}
	return []string{fmt.Sprintf("Peels have %s, none of them in this network.", plural(uint64(addresses), "address"))}
}

// factHints returns the hint about the first part of a path that no peel has.
func (x *explainer) factHints(t *target.FactTerm) []string {
	node := x.ix.root(t)
	for i, p := range t.Parts {
		next, ok := node.child(p)
		if p.Any || ok && i+1 == len(t.Parts) {
			return nil
		}
		if !ok {
			return x.missing(t, node, i)
		}
		node = next
	}
	return nil
}

// missing returns the hint about part i of a path, which is neither a key nor a matching value of the node.
func (x *explainer) missing(t *target.FactTerm, node *tree, i int) []string {
	if i > 0 {
		if values := node.common(); len(values) > 0 {
			return []string{
				fmt.Sprintf("Peels with a %s %s have the values %s.", t.Noun(), t.Path(i), strings.Join(values, ", ")),
			}
		}
	}
	key := t.Parts[i].Key
	text := fmt.Sprintf("No peel has a %s %s", t.Noun(), t.Path(i+1))
	if x.search() {
		if near := nearest(key, func(yield func(string)) {
			for _, n := range []*tree{node, node.element} {
				if n != nil {
					for k := range n.keys {
						yield(k)
					}
				}
			}
		}); near != "" {
			return []string{text + "; did you mean " + target.Short(near) + "?"}
		}
	}
	return []string{text + "."}
}

// notHints returns the hints about not, which removes the members excluded.
func (x *explainer) notHints(n target.Not, excluded *roaring.Bitmap) []string {
	if excluded.IsEmpty() {
		return []string{"The term after not selects no peel, so not removes none."}
	}
	t, ok := n.Node.(*target.FactTerm)
	if !ok || len(t.Parts) < 2 || t.Parts[0].Any {
		return nil
	}
	without := x.ix.members.Clone()
	if node, ok := x.ix.root(t).keys[t.Parts[0].Key]; ok {
		with := roaring.New()
		node.present.addTo(with)
		without.AndNot(with)
	}
	if without.IsEmpty() {
		return nil
	}
	return []string{
		fmt.Sprintf("It also selects the peels without a %s %s: %d.", t.Noun(), t.Path(1), without.GetCardinality()),
	}
}

// child returns the node that a part of a path leads to.
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

// scalars returns the values of a node, including list elements, each with the number of its peels.
func (t *tree) scalars() map[string]uint64 {
	all := map[string]uint64{}
	for _, n := range []*tree{t, t.element} {
		if n == nil {
			continue
		}
		for text, p := range n.values {
			all[text] += p.count()
		}
	}
	return all
}

// common returns the most frequent values of a node as text, each with the number of its peels.
func (t *tree) common() []string {
	all := t.scalars()
	texts := sorting.Values(maps.Keys(all), func(a, b string) int {
		return cmp.Or(cmp.Compare(all[b], all[a]), strings.Compare(a, b))
	})
	var list []string
	for _, text := range texts[:min(len(texts), maxValues)] {
		list = append(list, fmt.Sprintf("%s (%d)", shortValue(text), all[text]))
	}
	if more := len(texts) - maxValues; more > 0 {
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

// nearest returns the candidate with the smallest edit distance to word, ignoring case, or "" if none is near.
func nearest(word string, candidates func(yield func(string))) string {
	word = strings.ToLower(word)
	best, edits := "", max(1, min(2, len(word)/3))
	found := false
	candidates(func(c string) {
		if d, ok := spelling.Distance(word, strings.ToLower(c), edits); ok && (!found || d < edits || c < best) {
			best, edits, found = c, d, true
		}
	})
	return best
}
