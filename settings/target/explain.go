package target

import (
	"fmt"
	"strings"
)

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

// longText is how many bytes of a term are shown.
const longText = 200

// Means says in words what a term selects.
func Means(n Node) string {
	switch n := n.(type) {
	case GlobTerm:
		if n.Glob.All() {
			return "every peel"
		}
		if id, ok := n.Glob.Literal(); ok {
			return "the peel " + id
		}
		return "peels whose ID fits " + Short(n.String())
	case RegexTerm:
		return "peels whose ID begins with a match of " + Short(strings.TrimPrefix(n.String(), "E@"))
	case ListTerm:
		if len(n.IDs) == 1 {
			return "the peel " + string(n.IDs[0])
		}
		return fmt.Sprintf("the %d peels of these IDs", len(n.IDs))
	case NetTerm:
		return "peels with an address in " + n.prefix.String() + ", by their facts ipv4 and ipv6"
	case *FactTerm:
		return n.means()
	}
	return ""
}

// Noun is what the term looks into: fact or setting.
func (t *FactTerm) Noun() string {
	if t.source == inSettings {
		return "setting"
	}
	return "fact"
}

// maxWays is how many readings of a path are told.
const maxWays = 4

func (t *FactTerm) means() string {
	if len(t.Parts) == 1 {
		return fmt.Sprintf("peels with a %s %s", t.Noun(), t.Path(1))
	}
	var ways []string
	for i := len(t.Parts) - 1; i > 0 && len(ways) < maxWays; i-- {
		if m := t.Values[i]; m != nil {
			ways = append(ways, t.Path(i)+" "+t.value(m, i))
		}
	}
	text := fmt.Sprintf("peels whose %s %s", t.Noun(), strings.Join(ways, ", or "))
	if _, compares := t.Values[len(t.Parts)-1].(comparison); !compares {
		text += fmt.Sprintf(" (or is a map with the key %s)", Short(t.Parts[len(t.Parts)-1].Key))
	}
	return text
}

// Path is the first n parts, joined by colons.
func (t *FactTerm) Path(n int) string {
	keys := make([]string, n)
	for i, p := range t.Parts[:n] {
		keys[i] = p.Key
	}
	return Short(strings.Join(keys, ":"))
}

// value says what m, which stands at part i, asks of a value.
func (t *FactTerm) value(m ValueMatcher, i int) string {
	switch m := m.(type) {
	case comparison:
		return fmt.Sprintf("is a number %s %v", m.op, m.number)
	case regexValue:
		return "begins with a match of " + Short(strings.TrimSuffix(strings.TrimPrefix(m.re.String(), "^(?i:"), ")"))
	case Glob:
		if text, ok := m.Literal(); ok {
			return "is " + Short(text)
		}
	}
	keys := make([]string, 0, len(t.Parts)-i)
	for _, p := range t.Parts[i:] {
		keys = append(keys, p.Key)
	}
	return "fits " + Short(strings.Join(keys, ":"))
}

// Short cuts a text that is too long to be shown.
func Short(s string) string {
	if len(s) <= longText {
		return s
	}
	return strings.ToValidUTF8(s[:longText], "") + "…"
}
