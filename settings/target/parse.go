package target

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Limits of one expression. They bound the cost of a selection.
const (
	MaxLength  = 256 << 10 // bytes of an expression
	MaxList    = 10_000    // IDs of one L@
	MaxTerms   = 10_000    // terms, including those of its node groups
	MaxDepth   = 100       // nested parentheses and nots
	MaxPattern = 1024      // bytes of one glob or regular expression
	MaxParts   = 64        // parts of one path
)

// Options say what an expression may refer to. The zero value has no node groups and allows all forms.
type Options struct {
	Groups Groups
	// NoSettings refuses I@ and J@, for the top file, which decides what the settings are.
	NoSettings bool
}

// SyntaxError is a mistake in an expression.
type SyntaxError struct {
	Expr   string
	Column int    // in characters, from 1
	Msg    string // the mistake
	Hint   string // what to write instead, or empty
}

func (e *SyntaxError) Error() string {
	s := fmt.Sprintf("cannot parse target %q: column %d: %s", abbreviate(e.Expr), e.Column, e.Msg)
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

func abbreviate(s string) string {
	const enough = 200
	if len(s) <= enough {
		return s
	}
	return strings.ToValidUTF8(s[:enough], "") + "…"
}

func syntaxError(expr string, offset int, msg, hint string) *SyntaxError {
	return &SyntaxError{Expr: expr, Column: utf8.RuneCountInString(expr[:offset]) + 1, Msg: msg, Hint: hint}
}

// Parse parses an expression. Every error is a *SyntaxError.
func Parse(expr string, o Options) (*Expr, error) {
	e, err := parse(expr, o)
	if err != nil {
		return nil, err
	}
	return e, nil
}

func parse(expr string, o Options) (*Expr, *SyntaxError) {
	if len(expr) > MaxLength {
		return nil, syntaxError(expr, 0,
			fmt.Sprintf("the expression has %d bytes, more than %d", len(expr), MaxLength), "")
	}
	if valid := strings.ToValidUTF8(expr, "\x00"); strings.Contains(valid, "\x00") {
		return nil, syntaxError(expr, strings.IndexByte(valid, 0), "the expression is not valid UTF-8 text", "")
	}
	tokens, err := lex(expr)
	if err != nil {
		return nil, err
	}
	p := parser{expr: expr, tokens: tokens, options: o}
	if p.peek().kind == tokenEnd {
		return nil, p.fail("the expression is empty", "'*' selects every peel")
	}
	root, err := p.or()
	if err != nil {
		return nil, err
	}
	switch p.peek().kind {
	case tokenEnd:
		return &Expr{root: root, terms: p.terms, usesSettings: p.usesSettings}, nil
	case tokenClose:
		return nil, p.fail("this ) has no (", "")
	default:
		return nil, p.fail("two terms without an operator", p.operatorHint())
	}
}

type parser struct {
	expr         string
	tokens       []token
	options      Options
	depth        int
	terms        int
	usesSettings bool
}

func (p *parser) peek() token { return p.tokens[0] }

func (p *parser) take() token {
	t := p.tokens[0]
	if t.kind != tokenEnd {
		p.tokens = p.tokens[1:]
	}
	return t
}

// fail returns an error at the next token.
func (p *parser) fail(msg, hint string) *SyntaxError {
	return syntaxError(p.expr, p.peek().offset, msg, hint)
}

func (p *parser) operatorHint() string {
	if op := strings.ToLower(p.peek().text); operatorKinds[op] != tokenEnd {
		return fmt.Sprintf("write %s in lower case", op)
	}
	return "write and or or between them; a value with a blank needs quotes"
}

func (p *parser) or() (Node, *SyntaxError) {
	var alternatives []Node
	for {
		n, err := p.and()
		if err != nil {
			return nil, err
		}
		if alternatives = append(alternatives, n); p.peek().kind != tokenOr {
			break
		}
		p.take()
	}
	if len(alternatives) == 1 {
		return alternatives[0], nil
	}
	return Or(alternatives), nil
}

func (p *parser) and() (Node, *SyntaxError) {
	var all []Node
	for {
		n, err := p.unary()
		if err != nil {
			return nil, err
		}
		all = append(all, n)
		if k := p.peek().kind; k == tokenAnd {
			p.take()
		} else if k != tokenNot {
			break
		}
	}
	if len(all) == 1 {
		return all[0], nil
	}
	return And(all), nil
}

func (p *parser) unary() (Node, *SyntaxError) {
	if p.depth++; p.depth > MaxDepth {
		return nil, p.fail(fmt.Sprintf("nested deeper than %d", MaxDepth), "")
	}
	defer func() { p.depth-- }()
	switch t := p.peek(); t.kind {
	case tokenNot:
		p.take()
		n, err := p.unary()
		return Not{n}, err
	case tokenOpen:
		return p.group()
	case tokenWord:
		return p.word()
	case tokenClose:
		return nil, p.fail("a term is missing before this )", "")
	case tokenEnd:
		return nil, p.fail("the expression ends where a term must follow", "")
	default:
		return nil, p.fail(fmt.Sprintf("%q needs a term before it", t.raw),
			fmt.Sprintf("quote it if %q is an ID", t.raw))
	}
}

// group parses an expression in parentheses.
func (p *parser) group() (Node, *SyntaxError) {
	open := p.take()
	n, err := p.or()
	if err != nil {
		return nil, err
	}
	switch p.peek().kind {
	case tokenClose:
		p.take()
		return n, nil
	case tokenEnd:
		return nil, syntaxError(p.expr, open.offset, "this ( is never closed", "one inside a word belongs to the word")
	default:
		return nil, p.fail("two terms without an operator", p.operatorHint())
	}
}
