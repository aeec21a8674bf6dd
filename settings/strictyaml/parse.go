package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// Parse parses one document; an empty one is a Null node. file is the name in positions. The error is an [Errors]; if
// the text is YAML, it lists all mistakes, up to [MaxErrors].
func Parse(file string, data []byte) (*Node, error) {
	return ParseWithin(file, data, Limits{Size: MaxSize, Nodes: MaxNodes})
}

// Limits replace [MaxSize] and [MaxNodes].
type Limits struct{ Size, Nodes int }

// ParseWithin is [Parse] with other limits, for a user's own files.
func ParseWithin(file string, data []byte, l Limits) (*Node, error) {
	data = bytes.TrimPrefix(data, []byte("\uFEFF"))
	if len(data) > l.Size {
		return nil, Errors{{Pos{File: file}, "", fmt.Sprintf("%d bytes; a document has at most %d", len(data), l.Size)}}
	}
	if err := checkText(file, data); err != nil {
		return nil, Errors{*err}
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	err := d.Decode(&doc)
	if errors.Is(err, io.EOF) {
		return &Node{Pos: Pos{File: file, Line: 1, Column: 1}}, nil
	}
	if err == nil {
		if err = d.Decode(&second); err == nil {
			return nil, Errors{{Pos: pos(file, &second), Msg: "a second document begins here; a file has one"}}
		}
	}
	if !errors.Is(err, io.EOF) {
		return nil, Errors{syntaxError(file, data, err)}
	}
	if len(doc.Content) == 0 {
		return &Node{Pos: Pos{File: file, Line: 1, Column: 1}}, nil
	}
	b := builder{file: file, limit: l.Nodes}
	n := b.node(doc.Content[0], nil, 1)
	if err := b.errs.Err(); err != nil {
		return nil, err
	}
	return n, nil
}

// checkText returns the first error that is visible in the bytes: directives, control characters, invalid UTF-8.
func checkText(file string, data []byte) *Error {
	p := Pos{File: file, Line: 1, Column: 1}
	for i := 0; i < len(data); {
		c := data[i]
		r, size := rune(c), 1
		if c >= utf8.RuneSelf {
			r, size = utf8.DecodeRune(data[i:])
		}
		switch {
		case c == '\r' && i+1 < len(data) && data[i+1] == '\n':
		case c == '\n', c == '\r', r == 0x85, r == 0x2028, r == 0x2029: // the line ends of YAML 1.1
			p.Line, p.Column = p.Line+1, 0
		case c == '%' && p.Column == 1:
			// The YAML library takes quadratic time over many of them.
			return &Error{p, "", "a directive (a line that begins with %) is not supported"}
		case r == utf8.RuneError && size == 1:
			return &Error{p, "", fmt.Sprintf("byte 0x%02X is not UTF-8", c)}
		case r == 0:
			return &Error{p, "", "the text contains a NUL byte"}
		case r < ' ' && r != '\t', r >= 0x7F && r < 0xA0, r == 0xFFFE, r == 0xFFFF:
			return &Error{p, "", fmt.Sprintf("control character U+%04X; write it as an escape in double quotes", r)}
		}
		p.Column++
		i += size
	}
	return nil
}

func pos(file string, n *yaml.Node) Pos {
	return Pos{File: file, Line: n.Line, Column: n.Column}
}

// builder converts the library's nodes and collects errors.
type builder struct {
	file    string
	nodes   int
	limit   int
	errs    Errors
	stopped bool
}

func (b *builder) refuse(at *yaml.Node, p *path, format string, args ...any) {
	if len(b.errs) < MaxErrors {
		b.errs = append(b.errs, Error{pos(b.file, at), p.String(), fmt.Sprintf(format, args...)})
	}
}

// stop ends the conversion with one error and drops the errors so far.
func (b *builder) stop(at *yaml.Node, format string, args ...any) {
	b.errs, b.stopped = Errors{{pos(b.file, at), "", fmt.Sprintf(format, args...)}}, true
}

// node converts one node. It never returns nil, so one pass finds all errors of a document.
func (b *builder) node(y *yaml.Node, p *path, depth int) *Node {
	n := &Node{Pos: pos(b.file, y)}
	b.nodes++
	switch {
	case b.stopped:
		return n
	case b.nodes > b.limit:
		b.stop(y, "more than %d nodes", b.limit)
		return n
	case depth > MaxDepth:
		b.stop(y, "nested deeper than %d levels", MaxDepth)
		return n
	}
	switch y.Kind {
	case yaml.ScalarNode:
		b.scalar(n, y, p)
	case yaml.SequenceNode:
		b.checkTag(y, p, "!!seq")
		n.Kind, n.List = List, make([]*Node, 0, len(y.Content))
		sub := &path{parent: p}
		for i, e := range y.Content {
			sub.index = i
			n.List = append(n.List, b.node(e, sub, depth+1))
		}
	case yaml.MappingNode:
		b.checkTag(y, p, "!!map")
		n.Kind, n.Map = Map, b.pairs(y, p, depth)
	case yaml.AliasNode:
		b.refuse(y, p, "alias *%s is not supported; write the value out, or quote it if the * belongs to it", y.Value)
	}
	return n
}

func (b *builder) pairs(y *yaml.Node, p *path, depth int) []Pair {
	pairs := make([]Pair, 0, len(y.Content)/2)
	first := make(map[string]int, len(y.Content)/2)
	sub := &path{parent: p}
	for i := 0; i+1 < len(y.Content) && !b.stopped; i += 2 {
		k, v := y.Content[i], y.Content[i+1]
		b.nodes++
		key, ok := b.key(k, p)
		if !ok {
			continue
		}
		sub.key = key
		if line, dup := first[key]; dup {
			b.refuse(k, sub, "key %q is already in line %d", key, line)
			continue
		}
		first[key] = k.Line
		pairs = append(pairs, Pair{Key: key, KeyPos: pos(b.file, k), Value: b.node(v, sub, depth+1)})
	}
	return pairs
}

func (b *builder) key(y *yaml.Node, p *path) (string, bool) {
	if y.Kind != yaml.ScalarNode {
		b.refuse(y, p, "a key is a plain string, not %s",
			map[yaml.Kind]string{
				yaml.SequenceNode: "a list",
				yaml.MappingNode:  "a map",
				yaml.AliasNode:    "an alias",
			}[y.Kind])
		return "", false
	}
	if y.Tag == "!!merge" {
		b.refuse(y, p, "merge key << is not supported; write the keys out")
		return "", false
	}
	var k Node
	before := len(b.errs)
	b.scalar(&k, y, p)
	if len(b.errs) > before {
		return "", false
	}
	s, ok := k.Value.(string)
	if !ok {
		b.refuse(y, p, "a key is a string, not %s; write it as %q", k.Kind, y.Value)
	}
	return s, ok
}
