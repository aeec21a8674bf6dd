// Package strictyaml parses YAML strictly, with positions, for every file format of zester.
//
// Call [Parse] to parse text into [Node] values, then [Decode] to fill Go structs by their `yaml` tags.
//
// Parse accepts the part of YAML on which all parsers agree. The rest is an error that names it: aliases and merge
// keys, unknown tags, directives, several documents, keys that are not strings, duplicate keys, numbers whose value
// depends on the YAML version (010, 1_000), infinities, NUL and other control characters, text that is not UTF-8, and
// documents over [MaxSize], [MaxDepth] or [MaxNodes]. Timestamps, yes, no, on and off are strings. JSON is a subset of
// YAML and is accepted. Decode refuses unknown keys and values of another type; it converts nothing silently.
//
// Nodes are immutable. Goroutines and documents merged from several files may share them, as each node keeps its
// position. Every error is an [Errors] whose elements name file, line, column and path.
//
// Known gap: comments are lost.
package strictyaml

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
)

// Limits of one document.
const (
	MaxSize  = 1 << 20 // bytes of text
	MaxDepth = 64      // collections within each other
	MaxNodes = 100_000 // scalars, keys and collections together
)

// Pos is a position in a file. Line and Column count from 1; Line is 0 if only the file is known.
type Pos struct {
	File         string
	Line, Column int
}

// String returns file:line:col, or the file alone if the line is unknown.
func (p Pos) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Compare orders by file, line and column.
func (p Pos) Compare(o Pos) int {
	return cmp.Or(cmp.Compare(p.File, o.File), cmp.Compare(p.Line, o.Line), cmp.Compare(p.Column, o.Column))
}

// Kind is the type of a Node's value.
type Kind uint8

// The zero Kind is Null, so the zero Node is a null.
const (
	Null Kind = iota
	Bool
	Int
	Float
	String
	List
	Map
)

// String returns the word for messages, with its article: "a number", "a map".
func (k Kind) String() string {
	return [...]string{"null", "true or false", "a whole number", "a number", "a string", "a list", "a map"}[k]
}

// Node is one value of a document with its position.
type Node struct {
	Kind Kind
	Pos  Pos
	// Value is nil, bool, int64, float64 or string as Kind says; nil for List and Map.
	Value any
	List  []*Node
	Map   []Pair // in the order of the text; keys are unique
	// Secret is the plain value of a scalar that is encrypted in its file, else nil. The Value of such a node is a
	// masked String that may be shown; only [Node.Reveal] returns the secret.
	Secret any
	// Timestamp: the String is written without quotes and is a timestamp in YAML 1.1.
	Timestamp bool
	// Empty: the Null is written as nothing, such as the value in "key:".
	Empty bool
}

// Pair is one key of a map with its value.
type Pair struct {
	Key    string
	KeyPos Pos
	Value  *Node
}

// Get returns the value of key, or nil if n is not a map or has no such key.
func (n *Node) Get(key string) *Node {
	if n == nil {
		return nil
	}
	for i := range n.Map {
		if n.Map[i].Key == key {
			return n.Map[i].Value
		}
	}
	return nil
}

// Elements returns the elements of a list, or n itself as the only element; none if n is nil.
func (n *Node) Elements() []*Node {
	switch {
	case n == nil:
		return nil
	case n.Kind == List:
		return n.List
	}
	return []*Node{n}
}

// TextOrInt returns a string, or a whole number as text; ok is false for other values.
func (n *Node) TextOrInt() (text string, ok bool) {
	if i, isInt := n.Value.(int64); isInt {
		return strconv.FormatInt(i, 10), true
	}
	text, ok = n.Value.(string)
	return text, ok
}

// Equal reports whether both have the same values and secrets; positions make no difference.
func (n *Node) Equal(o *Node) bool {
	return n.Kind == o.Kind && n.Value == o.Value && n.Secret == o.Secret && n.Timestamp == o.Timestamp &&
		slices.EqualFunc(n.List, o.List, (*Node).Equal) &&
		slices.EqualFunc(n.Map, o.Map, func(a, b Pair) bool { return a.Key == b.Key && a.Value.Equal(b.Value) })
}

// Any returns the value: nil, bool, int64, float64, string, []any or map[string]any, with secrets masked. An empty
// list or map is empty, not nil. The result shares no memory with n.
func (n *Node) Any() any {
	switch n.Kind {
	case List:
		list := make([]any, len(n.List))
		for i, e := range n.List {
			list[i] = e.Any()
		}
		return list
	case Map:
		m := make(map[string]any, len(n.Map))
		for _, p := range n.Map {
			m[p.Key] = p.Value.Any()
		}
		return m
	default:
		return n.Value
	}
}

// Reveal returns the same as Any, with the secrets in plain text.
func (n *Node) Reveal() any { return n.RevealAs(func(secret any) any { return secret }) }

// RevealAs returns the same as Reveal, with what mark returns in the place of each secret.
func (n *Node) RevealAs(mark func(secret any) any) any {
	switch {
	case n.Kind == List:
		list := make([]any, len(n.List))
		for i, e := range n.List {
			list[i] = e.RevealAs(mark)
		}
		return list
	case n.Kind == Map:
		m := make(map[string]any, len(n.Map))
		for _, p := range n.Map {
			m[p.Key] = p.Value.RevealAs(mark)
		}
		return m
	case n.Secret != nil:
		return mark(n.Secret)
	default:
		return n.Value
	}
}

// FirstSecret returns a secret in n or below it, nil if there is none.
func (n *Node) FirstSecret() *Node {
	if n.Secret != nil {
		return n
	}
	for _, e := range n.List {
		if s := e.FirstSecret(); s != nil {
			return s
		}
	}
	for _, p := range n.Map {
		if s := p.Value.FirstSecret(); s != nil {
			return s
		}
	}
	return nil
}

// FromValue returns a decoded msgpack or JSON value as nodes, so that data from the bus passes the same checks as a
// file. Positions name file and no line; maps are in key order. Integers of all sizes become Int (Float beyond int64),
// bytes become String, and values of other types become the String that fmt prints.
func FromValue(file string, v any) *Node {
	n := new(Node)
	n.set(file, v)
	return n
}

// set makes n the node of a value. The nodes of a list or a map are allocated together.
func (n *Node) set(file string, v any) {
	n.Pos.File = file
	switch v := v.(type) {
	case nil:
	case bool:
		n.Kind, n.Value = Bool, v
	case string:
		n.Kind, n.Value = String, v
	case []byte:
		n.Kind, n.Value = String, string(v)
	case []any:
		n.Kind, n.List = List, make([]*Node, len(v))
		nodes := make([]Node, len(v))
		for i, e := range v {
			nodes[i].set(file, e)
			n.List[i] = &nodes[i]
		}
	case map[string]any:
		n.Kind, n.Map = Map, make([]Pair, 0, len(v))
		nodes := make([]Node, len(v))
		for i, key := range slices.Sorted(maps.Keys(v)) {
			nodes[i].set(file, v[key])
			n.Map = append(n.Map, Pair{Key: key, KeyPos: n.Pos, Value: &nodes[i]})
		}
	default:
		n.Kind, n.Value = number(v)
	}
}

// FromSecret returns decoded values as nodes, like [FromValue]. shown has masked texts in place of secrets: each scalar
// of plain that differs from shown becomes the [Node.Secret] of its node. ok is false if the two differ in shape.
func FromSecret(file string, shown, plain any) (n *Node, ok bool) {
	n = FromValue(file, shown)
	return n, n.unveil(plain)
}

func (n *Node) unveil(plain any) bool {
	switch v := plain.(type) {
	case []any:
		if n.Kind != List || len(n.List) != len(v) {
			return false
		}
		for i, e := range v {
			if !n.List[i].unveil(e) {
				return false
			}
		}
		return true
	case map[string]any:
		if n.Kind != Map || len(n.Map) != len(v) {
			return false
		}
		for _, p := range n.Map {
			if e, there := v[p.Key]; !there || !p.Value.unveil(e) {
				return false
			}
		}
		return true
	}
	if _, bytes := plain.([]byte); bytes || n.Kind == List || n.Kind == Map {
		return false
	}
	if _, v := number(plain); n.Value != plain && n.Value != v {
		n.Secret = plain
	}
	return true
}

func number(v any) (Kind, any) {
	switch v := v.(type) {
	case int:
		return Int, int64(v)
	case int8:
		return Int, int64(v)
	case int16:
		return Int, int64(v)
	case int32:
		return Int, int64(v)
	case int64:
		return Int, v
	case uint:
		return unsigned(uint64(v))
	case uint8:
		return Int, int64(v)
	case uint16:
		return Int, int64(v)
	case uint32:
		return Int, int64(v)
	case uint64:
		return unsigned(v)
	case float32:
		return Float, float64(v)
	case float64:
		return Float, v
	default:
		return String, fmt.Sprint(v)
	}
}

func unsigned(v uint64) (Kind, any) {
	if v > math.MaxInt64 {
		return Float, float64(v)
	}
	return Int, int64(v)
}
