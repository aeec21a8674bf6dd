package target

import (
	"fmt"
	"slices"
	"strings"

	"github.com/RoaringBitmap/roaring/v2"
)

// Facts is what a peel says about itself: normalised values, that is nil,
// bool, int64, float64, string, []byte, []any and map[string]any.
type Facts = map[string]any

// Peel is one peel as expressions see it.
type Peel struct {
	ID       PeelID
	Facts    Facts
	Settings map[string]any
}

// Expr is a parsed expression, immutable and safe for concurrent use.
type Expr struct {
	root         node
	terms        int // words, with those of its groups
	usesSettings bool
}

// node is a part of an expression: an operator below, or a term.
type node interface {
	match(p *Peel) bool
	// set returns the peels of the index that match, as a bitmap that the
	// caller may change; it may hold free slots. The index is locked.
	set(ix *Index) *roaring.Bitmap
}

type (
	andNode []node
	orNode  []node
	notNode struct{ node }
)

func (n andNode) match(p *Peel) bool {
	return !slices.ContainsFunc(n, func(c node) bool { return !c.match(p) })
}

func (n orNode) match(p *Peel) bool {
	return slices.ContainsFunc(n, func(c node) bool { return c.match(p) })
}

func (n notNode) match(p *Peel) bool { return !n.node.match(p) }

// Match reports whether e selects p.
func (e *Expr) Match(p Peel) bool { return e.root.match(&p) }

// UsesSettings reports whether I@ or J@ occurs in e or in a group of it; only
// then does Peel.Settings matter.
func (e *Expr) UsesSettings() bool { return e.usesSettings }

// String writes e in the form that Parse reads as the same expression: the
// words as they were written, no parentheses but the necessary ones.
func (e *Expr) String() string {
	var b strings.Builder
	write(&b, e.root)
	return b.String()
}

// Expanded returns e as String does, with every node group written out, so that Parse reads the same expression without
// the groups.
func (e *Expr) Expanded() string {
	var b strings.Builder
	write(&b, expanded(e.root))
	return b.String()
}

func expanded(n node) node {
	all := func(list []node) []node {
		out := make([]node, len(list))
		for i, c := range list {
			out[i] = expanded(c)
		}
		return out
	}
	switch n := n.(type) {
	case andNode:
		return andNode(all(n))
	case orNode:
		return orNode(all(n))
	case notNode:
		return notNode{expanded(n.node)}
	case groupTerm:
		return expanded(n.expr.root)
	}
	return n
}

// Lists returns the IDs that e names in L@, with those of its node groups,
// sorted, each once. Which of them exist is not e's to know.
func (e *Expr) Lists() []PeelID {
	var ids []PeelID
	visit(e.root, func(n node) {
		if l, ok := n.(listTerm); ok {
			ids = append(ids, l.ids...)
		}
	})
	slices.Sort(ids)
	return slices.Compact(ids)
}

// visit calls f for every term below n.
func visit(n node, f func(node)) {
	switch n := n.(type) {
	case andNode:
		for _, c := range n {
			visit(c, f)
		}
	case orNode:
		for _, c := range n {
			visit(c, f)
		}
	case notNode:
		visit(n.node, f)
	case groupTerm:
		visit(n.expr.root, f)
	default:
		f(n)
	}
}

func write(b *strings.Builder, n node) {
	switch n := n.(type) {
	case orNode:
		for i, c := range n {
			if i > 0 {
				b.WriteString(" or ")
			}
			writeWithin(b, c, bindsOr)
		}
	case andNode:
		for i, c := range n {
			if i > 0 {
				b.WriteString(" and ")
			}
			writeWithin(b, c, bindsAnd)
		}
	case notNode:
		b.WriteString("not ")
		writeWithin(b, n.node, bindsNot)
	case fmt.Stringer:
		b.WriteString(n.String())
	}
}

// writeWithin writes n, in parentheses if it binds less than atLeast. They
// stand apart from the words, which may hold parentheses of their own.
func writeWithin(b *strings.Builder, n node, atLeast binding) {
	if bindingOf(n) >= atLeast {
		write(b, n)
		return
	}
	b.WriteString("( ")
	write(b, n)
	b.WriteString(" )")
}

type binding uint8

const (
	bindsOr binding = iota
	bindsAnd
	bindsNot
)

func bindingOf(n node) binding {
	switch n.(type) {
	case orNode:
		return bindsOr
	case andNode:
		return bindsAnd
	}
	return bindsNot
}
