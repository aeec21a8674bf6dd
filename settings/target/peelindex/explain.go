package peelindex

import (
	"fmt"
	"strings"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/seed-c01c3da5/zester/settings/target"
)

// MaxExplained is the highest number of terms of an expression that Explain accepts.
const MaxExplained = 200

const maxExcluded = 5 // IDs in [target.Explanation.Excluded]

// Explain returns the meaning of each part of an expression and the number of peels that it selects. It returns an
// error if the expression has more than [MaxExplained] terms, including those of its node groups.
func (ix *Index) Explain(e *target.Expr) (*target.Explanation, error) {
	if e.Terms() > MaxExplained {
		return nil, fmt.Errorf("cannot explain an expression of %d terms, more than %d: explain a part of it",
			e.Terms(), MaxExplained)
	}
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	x := explainer{ix: ix, searches: maxSearches}
	explanation, _ := x.explain(e.Root())
	return &explanation, nil
}

// explainer explains an expression. The caller holds the lock of the index.
type explainer struct {
	ix       *Index
	searches int // remaining searches for hints over all peels
}

// explain also returns the members that n selects; the caller must not change them.
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

// parts explains the operands and joins the sets that they select.
func (x *explainer) parts(e *target.Explanation, operands []target.Node,
	join func(all, one *roaring.Bitmap),
) *roaring.Bitmap {
	all := roaring.New()
	for _, c := range operands {
		part, set := x.explain(c)
		e.Parts = append(e.Parts, part)
		join(all, set)
	}
	return all
}

// and explains the operands, each with the peels that it alone excludes.
func (x *explainer) and(e *target.Explanation, operands []target.Node) *roaring.Bitmap {
	var sets []*roaring.Bitmap
	x.parts(e, operands, func(_, one *roaring.Bitmap) { sets = append(sets, one) })
	// from[i] is the set that all operands from i on select.
	from := make([]*roaring.Bitmap, len(sets)+1)
	from[len(sets)] = x.ix.members
	for i := len(sets) - 1; i >= 0; i-- {
		from[i] = roaring.And(from[i+1], sets[i])
	}
	before := x.ix.members
	for i, set := range sets {
		others := roaring.And(before, from[i+1])
		others.AndNot(set)
		part := &e.Parts[i]
		part.Excludes = int(others.GetCardinality())
		if ids := x.ix.ids(others); len(ids) > 0 {
			part.Excluded = ids[:min(len(ids), maxExcluded)]
		}
		before = roaring.And(before, set)
	}
	return from[0]
}
