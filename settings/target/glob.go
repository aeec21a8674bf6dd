package target

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Glob is a compiled fnmatch pattern. A match takes at most time proportional to the length of the pattern times the
// length of the text, because only the last star backtracks.
type Glob struct {
	ops []globOp
}

// globOp is one step: literal text, one character of a class, or a star if both are empty.
type globOp struct {
	text  string
	class *globClass
}

type globClass struct {
	negated bool
	ranges  [][2]rune
}

// anyChar is the class of "?".
var anyChar = &globClass{negated: true}

func (o globOp) star() bool { return o.text == "" && o.class == nil }

// CompileGlob compiles *, ?, [a-z0-9], [!x] and backslash escapes; all other characters, including braces, are literal.
func CompileGlob(pattern string) (Glob, error) {
	var g Glob
	for i := 0; i < len(pattern); {
		switch pattern[i] {
		case '*':
			if n := len(g.ops); n == 0 || !g.ops[n-1].star() {
				g.ops = append(g.ops, globOp{})
			}
			i++
		case '?':
			g.ops = append(g.ops, globOp{class: anyChar})
			i++
		case '[':
			class, n, err := compileClass(pattern[i:])
			if err != nil {
				return Glob{}, err
			}
			g.ops = append(g.ops, globOp{class: class})
			i += n
		case '\\':
			if i++; i == len(pattern) {
				return Glob{}, fmt.Errorf("%q ends with a backslash that escapes nothing", pattern)
			}
			fallthrough
		default:
			_, n := utf8.DecodeRuneInString(pattern[i:])
			g.addText(pattern[i : i+n])
			i += n
		}
	}
	return g, nil
}

// addText appends literal text.
func (g *Glob) addText(s string) {
	if n := len(g.ops); n > 0 && g.ops[n-1].text != "" {
		g.ops[n-1].text += s
		return
	}
	g.ops = append(g.ops, globOp{text: s})
}

// compileClass compiles the class at the beginning of s and returns its length in bytes.
func compileClass(s string) (*globClass, int, error) {
	class, i := &globClass{}, 1
	if strings.HasPrefix(s[i:], "^") {
		return nil, 0, fmt.Errorf("a glob is negated by %q, not by %q", "[!", "[^")
	}
	if strings.HasPrefix(s[i:], "!") {
		class.negated, i = true, i+1
	}
	next := func() (rune, bool) {
		if i < len(s)-1 && s[i] == '\\' {
			i++
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		i += n
		return r, n > 0
	}
	for first := true; ; first = false {
		if i < len(s) && s[i] == ']' && !first {
			return class, i + 1, nil
		}
		lo, ok := next()
		if !ok {
			return nil, 0, fmt.Errorf("%q has no closing ]", s)
		}
		hi := lo
		if i+1 < len(s) && s[i] == '-' && s[i+1] != ']' {
			i++
			hi, _ = next()
		}
		if hi < lo {
			return nil, 0, fmt.Errorf("range %c-%c runs backwards", lo, hi)
		}
		class.ranges = append(class.ranges, [2]rune{lo, hi})
	}
}

func (c *globClass) has(r rune) bool {
	for _, lohi := range c.ranges {
		if lohi[0] <= r && r <= lohi[1] {
			return !c.negated
		}
	}
	return c.negated
}

// Literal returns the text that g matches if it matches only one.
func (g Glob) Literal() (string, bool) {
	switch {
	case len(g.ops) == 0:
		return "", true
	case len(g.ops) == 1 && g.ops[0].text != "":
		return g.ops[0].text, true
	}
	return "", false
}

// Prefix returns the literal text with which every match of g begins.
func (g Glob) Prefix() string {
	if len(g.ops) == 0 {
		return ""
	}
	return g.ops[0].text
}

// All reports whether g matches every text.
func (g Glob) All() bool { return len(g.ops) == 1 && g.ops[0].star() }

// Match reports whether g matches the whole text.
func (g Glob) Match(s string) bool {
	ops := g.ops
	var retryOps []globOp // the steps after the last star, nil before the first star
	var retry string      // the text at which they were tried last
	for {
		if len(ops) > 0 && ops[0].star() {
			if ops = ops[1:]; len(ops) == 0 {
				return true
			}
			retryOps, retry = ops, s
			continue
		}
		if len(ops) == 0 && s == "" {
			return true
		}
		if len(ops) > 0 {
			if n := ops[0].take(s); n > 0 {
				ops, s = ops[1:], s[n:]
				continue
			}
		}
		if retryOps == nil || retry == "" {
			return false
		}
		if retry = skip(retry, retryOps[0].text); retry == "" {
			return false
		}
		ops, s = retryOps, retry
	}
}

// skip returns the text after the first character of s, from the next occurrence of lit on.
func skip(s, lit string) string {
	_, n := utf8.DecodeRuneInString(s)
	s = s[n:]
	if lit == "" {
		return s
	}
	if i := strings.Index(s, lit); i >= 0 {
		return s[i:]
	}
	return ""
}

// take returns how many bytes of s the step matches, 0 if it does not match.
func (o globOp) take(s string) int {
	if o.class == nil {
		if strings.HasPrefix(s, o.text) {
			return len(o.text)
		}
		return 0
	}
	r, n := utf8.DecodeRuneInString(s)
	if n == 0 || !o.class.has(r) {
		return 0
	}
	return n
}
