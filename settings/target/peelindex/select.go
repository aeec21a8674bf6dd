package peelindex

import (
	"fmt"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/seed-c01c3da5/zester/settings/target"
)

// set returns the peels that n selects as a bitmap that the caller may change; it may contain free slots. The caller
// holds mu.
func (ix *Index) set(n target.Node) *roaring.Bitmap {
	switch n := n.(type) {
	case target.And:
		return ix.all(n)
	case target.Or:
		return ix.any(n)
	case target.Not:
		b := ix.members.Clone()
		b.AndNot(ix.set(n.Node))
		return b
	case target.GlobTerm:
		return ix.matching(n.Glob)
	case target.RegexTerm:
		return ix.scan(n.Regexp.MatchString)
	case target.ListTerm:
		return ix.listed(n.IDs)
	case target.NetTerm:
		return ix.within(n)
	case target.GroupTerm:
		return ix.set(n.Expr.Root())
	case *target.FactTerm:
		return ix.having(n)
	}
	panic(fmt.Sprintf("peelindex: %T is not a part of an expression", n))
}

// root returns the tree of facts or settings that a term looks into.
func (ix *Index) root(t *target.FactTerm) *tree {
	if t.OfSettings() {
		return &ix.settings
	}
	return &ix.facts
}

// having returns the peels that a term on facts or settings selects.
func (ix *Index) having(t *target.FactTerm) *roaring.Bitmap {
	l := lookup{term: t, found: roaring.New()}
	l.inElement(ix.root(t), 0)
	if !l.inexact {
		return l.found
	}
	for _, slot := range l.found.ToArray() {
		if !t.Match(&ix.peels[slot]) {
			l.found.Remove(slot)
		}
	}
	return l.found
}

// within returns the peels with an address of a network.
func (ix *Index) within(t target.NetTerm) *roaring.Bitmap {
	found := roaring.New()
	for _, name := range target.AddressFacts {
		node, ok := ix.facts.keys[name]
		if !ok {
			continue
		}
		for _, n := range []*tree{node, node.element} {
			if n == nil {
				continue
			}
			for text, p := range n.values {
				if t.Contains(text) {
					p.addTo(found)
				}
			}
		}
	}
	return found
}

// all returns the peels that every operand selects.
func (ix *Index) all(n target.And) *roaring.Bitmap {
	b := ix.set(n[0])
	for _, c := range n[1:] {
		if b.IsEmpty() {
			break
		}
		b.And(ix.set(c))
	}
	return b
}

// any returns the peels that one of the operands selects.
func (ix *Index) any(n target.Or) *roaring.Bitmap {
	b := ix.set(n[0])
	for _, c := range n[1:] {
		b.Or(ix.set(c))
	}
	return b
}

// matching returns the peels whose ID matches a glob.
func (ix *Index) matching(g target.Glob) *roaring.Bitmap {
	if g.All() {
		return ix.members.Clone()
	}
	if text, ok := g.Literal(); ok {
		return ix.listed([]target.PeelID{target.PeelID(text)})
	}
	if prefix := g.Prefix(); prefix != "" {
		return ix.scanPrefix(prefix, g.Match)
	}
	return ix.scan(g.Match)
}

// listed returns the peels with the given IDs.
func (ix *Index) listed(ids []target.PeelID) *roaring.Bitmap {
	b := roaring.New()
	for _, id := range ids {
		if slot, ok := ix.slots[id]; ok {
			b.Add(slot)
		}
	}
	return b
}
