package target

import (
	"fmt"
	"strings"

	"github.com/RoaringBitmap/roaring/v2"
)

// MaxExplained is how many terms an expression may have that is explained.
const MaxExplained = 200

// An Op joins the parts of an expression.
type Op string

// The operators, and the one that a term has.
const (
	OpTerm Op = ""
	OpAnd  Op = "and"
	OpOr   Op = "or"
	OpNot  Op = "not"
)

// An Explanation says how one part of an expression is understood, what it selects of a fleet, and what about it may be
// a mistake.
type Explanation struct {
	Op    Op     `json:"op,omitempty"`
	Term  string `json:"term,omitempty"` // as it was written; a long one is cut
	Means string `json:"means"`
	Peels int    `json:"peels"` // that it selects by itself
	// Excludes are peels that all other parts of an and select, and only this one does not: how many, and the first of
	// them by ID.
	Excludes int      `json:"excludes,omitempty"`
	Excluded []PeelID `json:"excluded,omitempty"`
	// Hints are whole sentences about what was probably not meant, and what may have been.
	Hints []string      `json:"hints,omitempty"`
	Parts []Explanation `json:"parts,omitempty"` // of an operator, or of the expression of a node group
}

const (
	someExcluded = 5
	longText     = 200 // bytes of a term that are shown
)

// Explain takes an expression apart. One with more than [MaxExplained] terms, those of its node groups included, is an
// error.
func (ix *Index) Explain(e *Expr) (*Explanation, error) {
	if e.terms > MaxExplained {
		return nil, fmt.Errorf("cannot explain an expression of %d terms, more than %d: explain a part of it", e.terms, MaxExplained)
	}
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	x := explainer{ix: ix, searches: maxSearches}
	explanation, _ := x.explain(e.root)
	return &explanation, nil
}

// explainer walks an expression over an index that is locked.
type explainer struct {
	ix       *Index
	searches int // over all peels that may still be made for hints
}

// explain also returns the members that n selects, which nobody may change.
func (x *explainer) explain(n node) (Explanation, *roaring.Bitmap) {
	var e Explanation
	var set *roaring.Bitmap
	switch n := n.(type) {
	case andNode:
		e.Op, e.Means = OpAnd, "all of these"
		set = x.and(&e, n)
	case orNode:
		e.Op, e.Means = OpOr, "any of these"
		set = x.parts(&e, n, (*roaring.Bitmap).Or)
	case notNode:
		e.Op, e.Means = OpNot, "all peels but these"
		part, excluded := x.explain(n.node)
		e.Parts = []Explanation{part}
		set = x.ix.members.Clone()
		set.AndNot(excluded)
		e.Hints = x.notHints(n, excluded)
	case groupTerm:
		e.Term, e.Means = short(n.String()), "the node group "+strings.TrimPrefix(n.String(), "N@")
		var part Explanation
		part, set = x.explain(n.expr.root)
		e.Parts = []Explanation{part}
	default:
		set = n.set(x.ix)
		set.And(x.ix.members)
		e.Means = means(n)
		if s, ok := n.(fmt.Stringer); ok {
			e.Term = short(s.String())
		}
		e.Hints = x.hints(n, set)
	}
	e.Peels = int(set.GetCardinality())
	return e, set
}

// parts explains operands and joins what they select.
func (x *explainer) parts(e *Explanation, operands []node, join func(all, one *roaring.Bitmap)) *roaring.Bitmap {
	all := roaring.New()
	for _, c := range operands {
		part, set := x.explain(c)
		e.Parts = append(e.Parts, part)
		join(all, set)
	}
	return all
}

// and explains operands, each with what it alone keeps out.
func (x *explainer) and(e *Explanation, operands []node) *roaring.Bitmap {
	var sets []*roaring.Bitmap
	x.parts(e, operands, func(_, one *roaring.Bitmap) { sets = append(sets, one) })
	// behind[i] is what all operands from i on select.
	behind := make([]*roaring.Bitmap, len(sets)+1)
	behind[len(sets)] = x.ix.members
	for i := len(sets) - 1; i >= 0; i-- {
		behind[i] = roaring.And(behind[i+1], sets[i])
	}
	before := x.ix.members
	for i, set := range sets {
		others := roaring.And(before, behind[i+1])
		others.AndNot(set)
		part := &e.Parts[i]
		part.Excludes = int(others.GetCardinality())
		if ids := x.ix.ids(others); len(ids) > 0 {
			part.Excluded = ids[:min(len(ids), someExcluded)]
		}
		before = roaring.And(before, set)
	}
	return behind[0]
}

// means says in words what a term selects.
func means(n node) string {
	switch n := n.(type) {
	case globTerm:
		if n.glob.all() {
			return "every peel"
		}
		if id, ok := n.glob.literal(); ok {
			return "the peel " + id
		}
		return "peels whose ID fits " + short(n.String())
	case regexTerm:
		return "peels whose ID begins with a match of " + short(strings.TrimPrefix(n.String(), "E@"))
	case listTerm:
		if len(n.ids) == 1 {
			return "the peel " + string(n.ids[0])
		}
		return fmt.Sprintf("the %d peels of these IDs", len(n.ids))
	case netTerm:
		return "peels with an address in " + n.prefix.String() + ", by their facts ipv4 and ipv6"
	case *factTerm:
		return n.means()
	}
	return ""
}

// noun is what the term looks into.
func (t *factTerm) noun() string {
	if t.source == inSettings {
		return "setting"
	}
	return "fact"
}

// maxWays is how many readings of a path are told.
const maxWays = 4

func (t *factTerm) means() string {
	if len(t.parts) == 1 {
		return fmt.Sprintf("peels with a %s %s", t.noun(), t.path(1))
	}
	var ways []string
	for i := len(t.parts) - 1; i > 0 && len(ways) < maxWays; i-- {
		if m := t.values[i]; m != nil {
			ways = append(ways, t.path(i)+" "+t.value(m, i))
		}
	}
	text := fmt.Sprintf("peels whose %s %s", t.noun(), strings.Join(ways, ", or "))
	if _, compares := t.values[len(t.parts)-1].(comparison); !compares {
		text += fmt.Sprintf(" (or is a map with the key %s)", short(t.parts[len(t.parts)-1].key))
	}
	return text
}

// path is the first n parts.
func (t *factTerm) path(n int) string {
	keys := make([]string, n)
	for i, p := range t.parts[:n] {
		keys[i] = p.key
	}
	return short(strings.Join(keys, ":"))
}

// value says what m, which stands at part i, asks of a value.
func (t *factTerm) value(m valueMatcher, i int) string {
	switch m := m.(type) {
	case comparison:
		return fmt.Sprintf("is a number %s %v", m.op, m.number)
	case regexValue:
		return "begins with a match of " + short(strings.TrimSuffix(strings.TrimPrefix(m.re.String(), "^(?i:"), ")"))
	case glob:
		if text, ok := m.literal(); ok {
			return "is " + short(text)
		}
	}
	keys := make([]string, 0, len(t.parts)-i)
	for _, p := range t.parts[i:] {
		keys = append(keys, p.key)
	}
	return "fits " + short(strings.Join(keys, ":"))
}

// short cuts what is long.
func short(s string) string {
	if len(s) <= longText {
		return s
	}
	return strings.ToValidUTF8(s[:longText], "") + "…"
}
