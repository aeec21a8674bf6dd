package target

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// FactTerm is G@, P@, I@ or J@.
type FactTerm struct {
	raw
	source source
	Parts  []PathPart
	// Values[i] matches the value if the path ends before part i. Values[0] is not used; nil means that the remaining
	// text is not a valid pattern.
	Values []ValueMatcher
}

// OfSettings reports whether the term compares settings; otherwise it compares facts.
func (t *FactTerm) OfSettings() bool { return t.source == inSettings }

// source is the document of a peel that a FactTerm compares.
type source uint8

const (
	inFacts source = iota
	inSettings
)

// PathPart is one step of a path.
type PathPart struct {
	Key   string
	Any   bool // "*"
	Index int  // -1 if Key is not a list index
}

// ValueMatcher matches the [ValueText] of a scalar.
type ValueMatcher interface{ Match(text string) bool }

func makePart(s string) PathPart {
	p := PathPart{Key: unescape(s), Any: s == "*", Index: -1}
	if n, err := strconv.ParseUint(s, 10, 31); err == nil && strconv.FormatUint(n, 10) == s {
		p.Index = int(n)
	}
	return p
}

func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// Match reports whether the term selects the peel.
func (t *FactTerm) Match(p *Peel) bool {
	doc := p.Facts
	if t.source == inSettings {
		doc = p.Settings
	}
	return t.inMap(doc, 0)
}

// at reports whether v matches the parts from i on.
func (t *FactTerm) at(v any, i int) bool {
	if i == len(t.Parts) {
		return true
	}
	switch v := v.(type) {
	case map[string]any:
		return t.inMap(v, i)
	case []any:
		return t.inList(v, i)
	}
	return t.Values[i] != nil && t.Values[i].Match(ValueText(v))
}

func (t *FactTerm) inMap(m map[string]any, i int) bool {
	if !t.Parts[i].Any {
		v, ok := m[t.Parts[i].Key]
		return ok && t.at(v, i+1)
	}
	for _, v := range m {
		if t.at(v, i+1) {
			return true
		}
	}
	return false
}

// inList compares every element with part i. If part i is an index or *, and more parts follow, it also compares the
// chosen elements with the next part; only this way are nested lists searched.
func (t *FactTerm) inList(list []any, i int) bool {
	p, last := t.Parts[i], i+1 == len(t.Parts)
	for j, e := range list {
		if _, nested := e.([]any); !nested && t.at(e, i) {
			return true
		}
		if !last && (p.Any || p.Index == j) && t.at(e, i+1) {
			return true
		}
	}
	return false
}

// ValueText returns the text that a scalar is compared as: in lower case, a whole float with ".0", null as "null".
func ValueText(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return strings.ToLower(v)
	case []byte:
		return strings.ToLower(string(v))
	case bool:
		return strconv.FormatBool(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return floatText(v)
	}
	return strings.ToLower(fmt.Sprint(v))
}

func floatText(f float64) string {
	switch a := math.Abs(f); {
	case a != 0 && (a < 1e-4 || a >= 1e16) || a != a:
		return strings.ToLower(strconv.FormatFloat(f, 'e', -1, 64))
	case f == math.Trunc(f):
		return strconv.FormatFloat(f, 'f', 1, 64)
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}

// regexValue is a regular expression that ignores case.
type regexValue struct{ re *regexp.Regexp }

func (r regexValue) Match(text string) bool { return r.re.MatchString(text) }

// comparison is >, >=, <, <= or != with a number.
type comparison struct {
	op     string
	number number
}

func (c comparison) Match(text string) bool {
	n, ok := parseNumber(text)
	if !ok {
		return false
	}
	order := n.compare(c.number)
	switch c.op {
	case ">":
		return order > 0
	case ">=":
		return order >= 0
	case "<":
		return order < 0
	case "<=":
		return order <= 0
	}
	return order != 0
}

// operators are tried in this order: ">=" before ">".
var operators = []string{">=", "<=", "!=", ">", "<"}

func cutOperator(s string) (op, rest string) {
	for _, op := range operators {
		if rest, ok := strings.CutPrefix(s, op); ok {
			return op, rest
		}
	}
	return "", s
}

// number represents whole numbers exactly; a float has only 53 bits.
type number struct {
	whole   int64
	float   float64
	isWhole bool
}

// parseNumber parses decimal notation. Infinities, hexadecimal numbers and digits with underscores are not numbers.
func parseNumber(s string) (number, bool) {
	if s == "" || strings.Trim(s, "+-.0123456789e") != "" {
		return number{}, false
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return number{whole: n, float: float64(n), isWhole: true}, true
	}
	f, err := strconv.ParseFloat(s, 64)
	return number{float: f}, err == nil
}

func (n number) compare(o number) int {
	if n.isWhole && o.isWhole {
		return cmp.Compare(n.whole, o.whole)
	}
	return cmp.Compare(n.float, o.float)
}

func (n number) String() string {
	if n.isWhole {
		return strconv.FormatInt(n.whole, 10)
	}
	return strconv.FormatFloat(n.float, 'g', -1, 64)
}
