package target

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Glob is a compiled fnmatch pattern. Its time is bounded by the product of
// pattern and text: only the last star is ever tried again.
type Glob struct {
	ops []globOp
}

// globOp is one step: literal text, or one character of a class, or (both
// empty) a star.
type globOp struct {
	text  string
	class *globClass
}

type globClass struct {
	negated bool
	ranges  [][2]rune
}

// anyChar is what "?" stands for.
var anyChar = &globClass{negated: true}

func (o globOp) star() bool { return o.text == "" && o.class == nil }

// CompileGlob reads *, ?, [a-z0-9], [!x] and backslash escapes; all else,
// braces included, is literal.
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
				return Glob{}, fmt.Errorf("a backslash ends %q, it has nothing to escape", pattern)
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

// addText appends literal text, to the last step where that is text too.
func (g *Glob) addText(s string) {
	if n := len(g.ops); n > 0 && g.ops[n-1].text != "" {
		g.ops[n-1].text += s
		return
	}
	g.ops = append(g.ops, globOp{text: s})
}

// compileClass reads the class that s begins with and returns its length.
func compileClass(s string) (*globClass, int, error) {
	class, i := &globClass{}, 1
	if strings.HasPrefix(s[i:], "^") {
		return nil, 0, fmt.Errorf("%q negates nothing in a glob, %q does", "[^", "[!")
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

// Literal returns the one text that g matches, if there is only one.
func (g Glob) Literal() (string, bool) {
	switch {
	case len(g.ops) == 0:
		return "", true
	case len(g.ops) == 1 && g.ops[0].text != "":
		return g.ops[0].text, true
	}
	return "", false
}

// Prefix returns what all texts begin with that g matches.
func (g Glob) Prefix() string {
	if len(g.ops) == 0 {
		return ""
	}
	return g.ops[0].text
}

// All reports whether g matches every text.
func (g Glob) All() bool { return len(g.ops) == 1 && g.ops[0].star() }

// Match reports whether the whole text fits.
func (g Glob) Match(s string) bool {
	ops := g.ops
	var retryOps []globOp // what follows the last star, nil before the first
	var retry string      // where that was tried last
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

// skip drops the first character of s, and what else cannot begin with lit.
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

// take returns how many bytes of s the step uses, 0 if it does not fit.
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
