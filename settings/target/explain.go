package target

import (
	"fmt"
	"strings"
)

// An Op joins the parts of an expression.
type Op string

// The operators. A term has OpTerm.
const (
	OpTerm Op = ""
	OpAnd  Op = "and"
	OpOr   Op = "or"
	OpNot  Op = "not"
)

// An Explanation describes one part of an expression: its meaning, the number of peels that it selects, and hints about
// probable mistakes.
type Explanation struct {
	Op    Op     `json:"op,omitempty"`
	Term  string `json:"term,omitempty"` // as written, truncated to 200 bytes
	Means string `json:"means"`
	Peels int    `json:"peels"` // selected by this part alone
	// Excludes is the number of peels that all other parts of an and select but this part does not. Excluded are the
	// first five of them by ID.
	Excludes int      `json:"excludes,omitempty"`
	Excluded []PeelID `json:"excluded,omitempty"`
	// Hints are whole sentences about probable mistakes.
	Hints []string      `json:"hints,omitempty"`
	Parts []Explanation `json:"parts,omitempty"` // operands of an operator, or the expression of a node group
}

const longText = 200 // bytes of a term that are shown

// Means describes in words what a term selects, such as "peels whose ID matches web-*".
func Means(n Node) string {
	switch n := n.(type) {
	case GlobTerm:
		if n.Glob.All() {
			return "every peel"
		}
		if id, ok := n.Glob.Literal(); ok {
			return "the peel " + id
		}
		return "peels whose ID matches " + Short(n.String())
	case RegexTerm:
		return "peels whose ID begins with a match of " + Short(strings.TrimPrefix(n.String(), "E@"))
	case ListTerm:
		if len(n.IDs) == 1 {
			return "the peel " + string(n.IDs[0])
		}
		return fmt.Sprintf("the %d peels with these IDs", len(n.IDs))
	case NetTerm:
		return "peels with an address in " + n.prefix.String() + ", by their facts ipv4 and ipv6"
	case *FactTerm:
		return n.means()
	}
	return ""
}

// Noun returns "fact" or "setting", whichever the term compares.
func (t *FactTerm) Noun() string {
	if t.source == inSettings {
		return "setting"
	}
	return "fact"
}

const maxMeanings = 4 // ways to divide a path and a value that are described

func (t *FactTerm) means() string {
	if len(t.Parts) == 1 {
		return fmt.Sprintf("peels with a %s %s", t.Noun(), t.Path(1))
	}
	var meanings []string
	for i := len(t.Parts) - 1; i > 0 && len(meanings) < maxMeanings; i-- {
		if m := t.Values[i]; m != nil {
			meanings = append(meanings, t.Path(i)+" "+t.value(m, i))
		}
	}
	text := fmt.Sprintf("peels whose %s %s", t.Noun(), strings.Join(meanings, ", or "))
	if _, compares := t.Values[len(t.Parts)-1].(comparison); !compares {
		text += fmt.Sprintf(" (or is a map with the key %s)", Short(t.Parts[len(t.Parts)-1].Key))
	}
	return text
}

// Path returns the first n parts joined by colons.
func (t *FactTerm) Path(n int) string {
	keys := make([]string, n)
	for i, p := range t.Parts[:n] {
		keys[i] = p.Key
	}
	return Short(strings.Join(keys, ":"))
}

// value describes the values that m, the matcher of part i, accepts.
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
	return "matches " + Short(strings.Join(keys, ":"))
}

// Short truncates a text to 200 bytes.
func Short(s string) string {
	if len(s) <= longText {
		return s
	}
	return strings.ToValidUTF8(s[:longText], "") + "…"
}
