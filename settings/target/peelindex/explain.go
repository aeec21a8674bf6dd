package peelindex

import (
	"fmt"
	"strings"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/seed-c01c3da5/zester/settings/target"
)

// MaxExplained is how many terms an expression may have that is explained.
const MaxExplained = 200

const someExcluded = 5

// Explain takes an expression apart. One with more than [MaxExplained] terms, those of its node groups included, is an
// error.
func (ix *Index) Explain(e *target.Expr) (*target.Explanation, error) {
	if e.Terms() > MaxExplained {
		return nil, fmt.Errorf("cannot explain an expression of %d terms, more than %d: explain a part of it", e.Terms(), MaxExplained)
	}
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	x := explainer{ix: ix, searches: maxSearches}
	explanation, _ := x.explain(e.Root())
	return &explanation, nil
}

// explainer walks an expression over an index that is locked.
type explainer struct {
	ix       *Index
	searches int // over all peels that may still be made for hints
}

// explain also returns the members that n selects, which nobody may change.
func (x *explainer) explain(n target.Node) (target.Explanation, *roaring.Bitmap) {
	var e target.Explanation
	var set *roaring.Bitmap
	switch n := n.(type) {
	case target.And:
		e.Op, e.Means = target.OpAnd, "all of these"
		set = x.and(&e, n)
	case target.Or:
		e.Op, e.Means = target.OpOr, "any of these"
		set = x.parts(&e, n, (*roaring.Bitmap).Or)
	case target.Not:
		e.Op, e.Means = target.OpNot, "all peels but these"
		part, excluded := x.explain(n.Node)
		e.Parts = []target.Explanation{part}
		set = x.ix.members.Clone()
		set.AndNot(excluded)
		e.Hints = x.notHints(n, excluded)
	case target.GroupTerm:
		e.Term, e.Means = target.Short(n.String()), "the node group "+strings.TrimPrefix(n.String(), "N@")
		var part target.Explanation
		part, set = x.explain(n.Expr.Root())
		e.Parts = []target.Explanation{part}
	default:
		set = x.ix.set(n)
		set.And(x.ix.members)
		e.Means = target.Means(n)
		if s, ok := n.(fmt.Stringer); ok {
			e.Term = target.Short(s.String())
		}
		e.Hints = x.hints(n, set)
	}
	e.Peels = int(set.GetCardinality())
	return e, set
}

// parts explains operands and joins what they select.
func (x *explainer) parts(e *target.Explanation, operands []target.Node, join func(all, one *roaring.Bitmap)) *roaring.Bitmap {
	all := roaring.New()
	for _, c := range operands {
		part, set := x.explain(c)
		e.Parts = append(e.Parts, part)
		join(all, set)
	}
	return all
}

// and explains operands, each with what it alone keeps out.
func (x *explainer) and(e *target.Explanation, operands []target.Node) *roaring.Bitmap {
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
