// Package mustache renders templates of a strict dialect of mustache. Call [Parse] once and [Template.Render] for each
// set of data.
//
// The dialect has variables ({{a.b}}, {{.}}), sections ({{#a}}…{{/a}}, {{^a}}…{{/a}}), comments ({{! …}}) and three
// filters: {{a | json}}, {{a | shell}} and {{a | join ", "}}. A section repeats its body for each element of a list.
// It renders its body once for true, for a number, for text and for a map, with the map's keys as names. If the body
// uses @key or @value, it renders once for each pair of the map, in the order of the keys. false, null, empty text, an
// empty list and an empty map count as false.
//
// Guarantees:
//   - A name that the data does not have is an error with its line and column, never empty text. {{#a?}} and {{^a?}}
//     treat a missing name as false.
//   - Text is not escaped, except by the filters json and shell.
//   - Rendering the same template with the same data gives the same bytes, and at most [MaxOutput] of them.
//   - Neither Parse nor Render panics. Parse takes time in proportion to the text; Render stops with an error after
//     four million tags and texts, so that nested sections over long lists end.
//
// A value of the data may be a [Secret]. Render reports whether the output depends on one.
//
// Lines that hold one section tag or comment and nothing else leave no line in the output, as in mustache. Partials,
// set delimiters, lambdas and the two forms without escaping ({{{a}}}, {{&a}}) do not exist; Parse refuses them by
// name. It refuses statements of Jinja too, unless the template begins with {{! raw }}.
package mustache

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/seed-c01c3da5/zester/settings/salt"
)

// Limits of a template.
const (
	MaxOutput = 8 << 20 // bytes that Render returns
	MaxDepth  = 32      // sections within each other
	maxSteps  = 4 << 20 // tags and texts that Render renders, repeated ones included
	maxName   = 256     // bytes of a name with its dots
)

// A Template is a parsed template. It is immutable and safe for concurrent use.
type Template struct {
	name  string
	nodes []node
}

// An Error is a mistake of a template, or a value of the data that does not fit it.
type Error struct {
	Name         string // of the template, as given to Parse
	Line, Column int    // of the tag; both count from 1, columns in characters
	Msg          string
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", e.Name, e.Line, e.Column, e.Msg)
}

// A node is text, a variable or a section.
type node struct {
	text   string // if path is nil
	path   []string
	filter filter
	sep    string // of join

	section  bool
	inverted bool
	optional bool // a missing name counts as false
	pairs    bool // the body uses @key or @value
	body     []node

	line, column int
}

type filter uint8

const (
	noFilter filter = iota
	jsonFilter
	shellFilter
	joinFilter
)

// Parse reads a template. name is used in errors. The error is an [*Error].
func Parse(name, text string) (*Template, error) {
	if !utf8.ValidString(text) {
		return nil, &Error{name, 1, 1, "the template is not UTF-8 text"}
	}
	if at, found := salt.Jinja(text); found && !strings.HasPrefix(text, rawMark) {
		line, column := place(text, at)
		return nil, &Error{name, line, column, "Jinja is not evaluated here; write {{#name}}…{{/name}}, " +
			"or begin the template with " + rawMark + " if the text is meant"}
	}
	p := &parser{name: name, text: text, line: 1, column: 1}
	nodes, err := p.run()
	if err != nil {
		return nil, err
	}
	return &Template{name, nodes}, nil
}

// rawMark begins a template whose text has statements of Jinja on purpose, for a program that reads them.
const rawMark = "{{! raw }}"

// place returns line and column of a byte.
func place(text string, at int) (line, column int) {
	before := text[:at]
	return strings.Count(before, "\n") + 1, utf8.RuneCountInString(before[strings.LastIndex(before, "\n")+1:]) + 1
}

// Names returns the names of variables and sections, as lists of their parts, in the order of the text. A name in a
// section may be one of the section's value, so a section stands for all that its value holds.
func (t *Template) Names() (names [][]string) {
	var collect func([]node)
	collect = func(nodes []node) {
		for _, n := range nodes {
			if len(n.path) > 0 && n.path[0] != "" && n.path[0][0] != '@' {
				names = append(names, n.path)
			}
			collect(n.body)
		}
	}
	collect(t.nodes)
	return names
}

// parser reads a template from left to right.
type parser struct {
	name, text   string
	pos          int // of the next byte
	line, column int // of the next byte
	open         []*section
}

// A section that is not closed yet.
type section struct {
	node
	written string // the name as in the tag
}

// A tag is what stands between {{ and }}.
type tag struct {
	sigil        byte // # ^ / ! or 0
	content      string
	line, column int
}

func (p *parser) errorf(t tag, format string, args ...any) error {
	return &Error{p.name, t.line, t.column, fmt.Sprintf(format, args...)}
}

func (p *parser) run() ([]node, error) {
	var top []node
	for {
		text, t, err := p.next()
		if err != nil {
			return nil, err
		}
		if text != "" {
			p.add(&top, node{text: text})
		}
		if t == nil {
			break
		}
		if err := p.apply(&top, *t); err != nil {
			return nil, err
		}
	}
	if n := len(p.open); n > 0 {
		s := p.open[n-1]
		return nil, &Error{
			p.name, s.line, s.column, fmt.Sprintf("the section %q is not closed; add {{/%s}}", s.written, s.written),
		}
	}
	return top, nil
}

// next returns the text up to the next tag, and the tag, which is nil after the last. If the tag stands alone on its
// line, the line is consumed.
func (p *parser) next() (text string, t *tag, err error) {
	rest := p.text[p.pos:]
	begin := strings.Index(rest, "{{")
	if begin < 0 {
		p.advance(len(rest))
		return rest, nil, nil
	}
	text = rest[:begin]
	p.advance(begin)
	t = &tag{line: p.line, column: p.column}
	end := strings.Index(rest[begin:], "}}")
	if end < 0 {
		return "", nil, p.errorf(*t, "the tag is not closed; add }}")
	}
	t.content = rest[begin+2 : begin+end]
	start := p.pos
	p.advance(end + 2)
	if err := p.classify(t); err != nil {
		return "", nil, err
	}
	if t.sigil != 0 {
		text = p.standalone(text, start)
	}
	return text, t, nil
}

// standalone removes the blanks and the line break around a tag that is alone on its line: the blanks at the end of the
// text before it, and in the input what follows it.
func (p *parser) standalone(before string, start int) string {
	lineStart := strings.LastIndexByte(p.text[:start], '\n') + 1
	after := p.text[p.pos:]
	lineEnd := len(strings.TrimLeft(after, " \t"))
	blanks := len(after) - lineEnd
	rest := after[blanks:]
	if strings.Trim(p.text[lineStart:start], " \t") != "" ||
		rest != "" && !strings.HasPrefix(rest, "\n") && !strings.HasPrefix(rest, "\r\n") {
		return before
	}
	switch {
	case strings.HasPrefix(rest, "\r\n"):
		blanks += 2
	case rest != "":
		blanks++
	}
	p.advance(blanks)
	return before[:len(before)-(start-lineStart)]
}

func (p *parser) advance(n int) {
	for _, c := range p.text[p.pos : p.pos+n] {
		if p.column++; c == '\n' {
			p.line, p.column = p.line+1, 1
		}
	}
	p.pos += n
}

// classify splits the sigil from the tag and refuses tags of other dialects.
func (p *parser) classify(t *tag) error {
	if t.content == "" {
		return p.errorf(*t, "the tag is empty")
	}
	switch c := t.content[0]; c {
	case '#', '^', '/', '!':
		t.sigil, t.content = c, t.content[1:]
	case '{', '&':
		return p.errorf(*t, "{{%c…}} does not exist here: text is never escaped; write {{name}}", c)
	case '>', '<', '$':
		return p.errorf(*t, "partials do not exist here")
	case '=':
		return p.errorf(*t, "other delimiters than {{ and }} do not exist here")
	}
	if t.sigil != '!' {
		t.content = strings.TrimSpace(t.content)
	}
	return nil
}

// apply adds what a tag means.
func (p *parser) apply(top *[]node, t tag) error {
	switch t.sigil {
	case '!':
		return nil
	case '#', '^':
		return p.begin(t)
	case '/':
		return p.end(top, t)
	}
	name, filters, filtered := strings.Cut(t.content, "|")
	n := node{line: t.line, column: t.column}
	var err error
	if n.path, err = p.path(t, strings.TrimSpace(name)); err != nil {
		return err
	}
	if filtered {
		if n.filter, n.sep, err = p.readFilter(t, strings.TrimSpace(filters)); err != nil {
			return err
		}
	}
	p.add(top, n)
	return nil
}

func (p *parser) begin(t tag) error {
	if len(p.open) == MaxDepth {
		return p.errorf(t, "sections are nested more than %d deep", MaxDepth)
	}
	name, optional := strings.CutSuffix(t.content, "?")
	names, err := p.path(t, name)
	if err != nil {
		return err
	}
	p.open = append(p.open, &section{
		node: node{
			path:     names,
			section:  true,
			inverted: t.sigil == '^',
			optional: optional,
			line:     t.line,
			column:   t.column,
		},
		written: name,
	})
	return nil
}

func (p *parser) end(top *[]node, t tag) error {
	if len(p.open) == 0 {
		return p.errorf(t, "{{/%s}} closes no section", t.content)
	}
	last := p.open[len(p.open)-1]
	if name := strings.TrimSuffix(t.content, "?"); name != last.written {
		return p.errorf(t, "{{/%s}} does not close the section %q of line %d", t.content, last.written, last.line)
	}
	p.open = p.open[:len(p.open)-1]
	p.add(top, last.node)
	return nil
}

// add appends a node to the innermost open section, or to the template.
func (p *parser) add(top *[]node, n node) {
	into := top
	if len(p.open) > 0 {
		parent := p.open[len(p.open)-1]
		into = &parent.body
		if len(n.path) > 0 && (n.path[0] == "@key" || n.path[0] == "@value") {
			parent.pairs = true
		}
	}
	*into = append(*into, n)
}

// path splits a name at its dots. The path of "." is one empty name.
func (p *parser) path(t tag, name string) ([]string, error) {
	switch {
	case name == ".":
		return []string{""}, nil
	case name == "":
		return nil, p.errorf(t, "the tag names nothing")
	case len(name) > maxName:
		return nil, p.errorf(t, "the name has %d bytes, the limit is %d", len(name), maxName)
	}
	names := strings.Split(name, ".")
	for i, n := range names {
		if n == "" || strings.ContainsAny(n, " \t\r\n{}|\"'#^/!&?<>=$") ||
			strings.HasPrefix(n, "@") && (i > 0 || n != "@key" && n != "@value") {
			return nil, p.errorf(
				t, "%q is not a name; a name is letters, digits, _ and -, with dots between its parts", name,
			)
		}
	}
	return names, nil
}

// readFilter reads what follows the bar of a variable.
func (p *parser) readFilter(t tag, text string) (filter, string, error) {
	name, arg, _ := strings.Cut(text, " ")
	arg = strings.TrimSpace(arg)
	switch {
	case name == "join":
		sep, ok := unquote(arg)
		if !ok {
			return 0, "", p.errorf(t, `join takes the separator in double quotes: {{a | join ", "}}`)
		}
		return joinFilter, sep, nil
	case arg != "":
		return 0, "", p.errorf(t, "the filter %s takes no argument", name)
	case name == "json":
		return jsonFilter, "", nil
	case name == "shell":
		return shellFilter, "", nil
	}
	return 0, "", p.errorf(t, "there is no filter %q; there are json, shell and join", name)
}

// unquote reads text in double quotes, in which \n, \t, \" and \\ are understood.
func unquote(s string) (string, bool) {
	if len(s) < 2 || s[0] != '"' || s[len(s)-1] != '"' {
		return "", false
	}
	s = s[1 : len(s)-1]
	if strings.Contains(strings.NewReplacer(`\"`, "", `\\`, "").Replace(s), `"`) {
		return "", false
	}
	return strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\"`, `"`, `\\`, `\`).Replace(s), true
}
