package target

import (
	"fmt"
	"slices"
	"strings"
)

// Facts are the facts that a peel reports: values of the types nil,
// bool, int64, float64, string, []byte, []any and map[string]any.
type Facts = map[string]any

// Peel is one peel with the data that expressions select by.
type Peel struct {
	ID       PeelID
	Facts    Facts
	Settings map[string]any
}

// Expr is a parsed expression, immutable and safe for concurrent use.
type Expr struct {
	root         Node
	terms        int // including those of its node groups
	usesSettings bool
}

// A Node is a part of an expression: [And], [Or], [Not] or a term, which is a [GlobTerm], [RegexTerm],
// [ListTerm], [NetTerm], [GroupTerm] or *[FactTerm].
type Node interface {
	Match(p *Peel) bool // reports whether it selects the peel
}

// The operators.
type (
	And []Node
	Or  []Node
	Not struct{ Node }
)

// Match reports whether all operands select the peel.
func (n And) Match(p *Peel) bool {
	return !slices.ContainsFunc(n, func(c Node) bool { return !c.Match(p) })
}

// Match reports whether one of the operands selects the peel.
func (n Or) Match(p *Peel) bool {
	return slices.ContainsFunc(n, func(c Node) bool { return c.Match(p) })
}

// Match reports whether the operand does not select the peel.
func (n Not) Match(p *Peel) bool { return !n.Node.Match(p) }

// Match reports whether e selects p.
func (e *Expr) Match(p Peel) bool { return e.root.Match(&p) }

// Root returns the operator or term at the root of e. The caller must not change it.
func (e *Expr) Root() Node { return e.root }

// Terms returns the number of terms of e, including those of its node groups.
func (e *Expr) Terms() int { return e.terms }

// UsesSettings reports whether e or one of its node groups contains I@ or J@; otherwise Match does not read
// Peel.Settings.
func (e *Expr) UsesSettings() bool { return e.usesSettings }

// String returns e in a form that Parse parses as the same expression: terms as written, with only the necessary
// parentheses.
func (e *Expr) String() string {
	var b strings.Builder
	write(&b, e.root)
	return b.String()
}

// Expanded returns e like String, with every node group replaced by its expression.
func (e *Expr) Expanded() string {
	var b strings.Builder
	write(&b, expanded(e.root))
	return b.String()
}

func expanded(n Node) Node {
	all := func(list []Node) []Node {
		out := make([]Node, len(list))
		for i, c := range list {
			out[i] = expanded(c)
		}
		return out
	}
	switch n := n.(type) {
	case And:
		return And(all(n))
	case Or:
		return Or(all(n))
	case Not:
		return Not{expanded(n.Node)}
	case GroupTerm:
		return expanded(n.Expr.root)
	}
	return n
}

// Lists returns the IDs in the L@ terms of e and its node groups, sorted, without duplicates. The peels need not exist.
func (e *Expr) Lists() []PeelID {
	var ids []PeelID
	visit(e.root, func(n Node) {
		if l, ok := n.(ListTerm); ok {
			ids = append(ids, l.IDs...)
		}
	})
	slices.Sort(ids)
	return slices.Compact(ids)
}

// visit calls f for every term below n.
func visit(n Node, f func(Node)) {
	switch n := n.(type) {
	case And:
		for _, c := range n {
			visit(c, f)
		}
	case Or:
		for _, c := range n {
			visit(c, f)
		}
	case Not:
		visit(n.Node, f)
	case GroupTerm:
		visit(n.Expr.root, f)
	default:
		f(n)
	}
}

func write(b *strings.Builder, n Node) {
	switch n := n.(type) {
	case Or:
		for i, c := range n {
			if i > 0 {
				b.WriteString(" or ")
			}
			writeWithin(b, c, bindsOr)
		}
	case And:
		for i, c := range n {
			if i > 0 {
				b.WriteString(" and ")
			}
			writeWithin(b, c, bindsAnd)
		}
	case Not:
		b.WriteString("not ")
		writeWithin(b, n.Node, bindsNot)
	case fmt.Stringer:
		b.WriteString(n.String())
	}
}

// writeWithin writes n, in parentheses if it binds less than atLeast. Blanks separate the parentheses from the words,
// which may contain parentheses.
func writeWithin(b *strings.Builder, n Node, atLeast binding) {
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

func bindingOf(n Node) binding {
	switch n.(type) {
	case Or:
		return bindsOr
	case And:
		return bindsAnd
	}
	return bindsNot
}
