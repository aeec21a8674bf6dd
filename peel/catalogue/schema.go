// File schema.go checks values of JSON against the part of JSON Schema (draft 2020-12) that models are given: type,
// enum, const, properties, required, additionalProperties, items, anyOf, pattern, and the bounds of numbers, texts and
// lists. Call [ParseSchema], then [Schema.Check].
//
// A keyword that is not known is an error of Parse, because a constraint that is ignored would let wrong answers pass.
// Only annotations are ignored: title, description, default, examples, format, $schema and $comment. A pattern is an
// RE2 expression.

package catalogue

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// Limits of a schema.
const (
	MaxSchemas = 1000 // subschemas
	maxDepth   = 32   // subschemas within each other
)

// A Schema is a schema that [ParseSchema] has checked. It is immutable.
type Schema struct {
	never      bool // the schema false
	types      []string
	enum       []any // nil: any value
	properties map[string]*Schema
	required   []string
	others     *Schema // of properties that are not named; nil: any
	items      *Schema
	anyOf      []*Schema
	pattern    *regexp.Regexp

	numbers          numbers
	length, elements bounds
}

// bounds are the least and the largest size; nil for none.
type bounds struct{ min, max *uint32 }

// document is the form of a schema in a file.
type document struct {
	numbers
	sizes
	annotations
	Type                 *strictyaml.Node   `yaml:"type"`
	Enum                 *strictyaml.Node   `yaml:"enum"`
	Const                *strictyaml.Node   `yaml:"const"`
	Properties           *strictyaml.Node   `yaml:"properties"`
	Required             []string           `yaml:"required"`
	AdditionalProperties *strictyaml.Node   `yaml:"additionalProperties"`
	Items                *strictyaml.Node   `yaml:"items"`
	AnyOf                []*strictyaml.Node `yaml:"anyOf"`
	Pattern              *string            `yaml:"pattern"`
}

// numbers bound numbers.
type numbers struct {
	Least *float64 `yaml:"minimum"`
	Most  *float64 `yaml:"maximum"`
	Above *float64 `yaml:"exclusiveMinimum"`
	Below *float64 `yaml:"exclusiveMaximum"`
}

// sizes bound texts and lists.
type sizes struct {
	MinLength *uint32 `yaml:"minLength"`
	MaxLength *uint32 `yaml:"maxLength"`
	MinItems  *uint32 `yaml:"minItems"`
	MaxItems  *uint32 `yaml:"maxItems"`
}

// annotations constrain nothing.
type annotations struct {
	Title       *strictyaml.Node `yaml:"title"`
	Description *strictyaml.Node `yaml:"description"`
	Default     *strictyaml.Node `yaml:"default"`
	Examples    *strictyaml.Node `yaml:"examples"`
	Format      *strictyaml.Node `yaml:"format"`
	Dialect     *strictyaml.Node `yaml:"$schema"`
	Comment     *strictyaml.Node `yaml:"$comment"`
}

// ParseSchema reads a schema. The error is a [strictyaml.Errors], whose paths begin at the schema.
func ParseSchema(n *strictyaml.Node) (*Schema, error) {
	p := parser{left: MaxSchemas}
	s := p.schema(n, "", maxDepth)
	return s, p.errs.Err()
}

type parser struct {
	left int // subschemas that may follow
	errs strictyaml.Errors
}

func (p *parser) refuse(n *strictyaml.Node, path, format string, args ...any) {
	p.errs = append(p.errs, strictyaml.Error{Pos: n.Pos, Path: path, Msg: fmt.Sprintf(format, args...)})
}

// schema reads the schema at path, which may nest depth further ones.
func (p *parser) schema(n *strictyaml.Node, path string, depth int) *Schema {
	if p.left--; p.left < 0 || depth < 0 {
		if p.left == -1 || depth < 0 {
			p.refuse(n, path, "the schema is too large: it may have %d subschemas, nested %d deep", MaxSchemas,
				maxDepth)
		}
		return nil
	}
	switch n.Kind {
	case strictyaml.Bool:
		return &Schema{never: n.Value == false}
	case strictyaml.Map:
	default:
		p.refuse(n, path, "%s", n.Mismatch("a map"))
		return nil
	}
	var d document
	if errs, ok := strictyaml.Decode(n, &d).(strictyaml.Errors); ok {
		for _, e := range errs {
			e.Path = join(path, e.Path)
			p.errs = append(p.errs, e)
		}
		return nil
	}
	s := &Schema{
		required: d.Required, numbers: d.numbers,
		length: bounds{d.MinLength, d.MaxLength}, elements: bounds{d.MinItems, d.MaxItems},
	}
	p.types(s, d.Type, path)
	p.values(s, &d, path)
	if d.Properties != nil && d.Properties.Kind != strictyaml.Map {
		p.refuse(d.Properties, join(path, "properties"), "%s", d.Properties.Mismatch("a map"))
	} else if d.Properties != nil {
		s.properties = map[string]*Schema{}
		for _, pair := range d.Properties.Map {
			s.properties[pair.Key] = p.schema(pair.Value, join(path, "properties."+pair.Key), depth-1)
		}
	}
	if d.AdditionalProperties != nil {
		s.others = p.schema(d.AdditionalProperties, join(path, "additionalProperties"), depth-1)
	}
	if d.Items != nil {
		s.items = p.schema(d.Items, join(path, "items"), depth-1)
	}
	if d.AnyOf != nil && len(d.AnyOf) == 0 {
		p.refuse(n, join(path, "anyOf"), "the list of schemas is empty")
	}
	for i, n := range d.AnyOf {
		s.anyOf = append(s.anyOf, p.schema(n, join(path, fmt.Sprintf("anyOf[%d]", i)), depth-1))
	}
	if d.Pattern != nil {
		var err error
		if s.pattern, err = regexp.Compile(*d.Pattern); err != nil {
			p.refuse(n, join(path, "pattern"), "%v", err)
		}
	}
	return s
}

// typeNames are the types of JSON Schema.
var typeNames = []string{"array", "boolean", "integer", "null", "number", "object", "string"}

// types reads a type or a list of types.
func (p *parser) types(s *Schema, n *strictyaml.Node, path string) {
	if n == nil {
		return
	}
	for _, n := range n.Elements() {
		name, ok := n.Value.(string)
		if !ok || !slices.Contains(typeNames, name) {
			p.refuse(n, join(path, "type"), "must be one of %s, not %.40q", strings.Join(typeNames, ", "),
				fmt.Sprint(n.Value))
		}
		s.types = append(s.types, name)
	}
	if len(s.types) == 0 {
		p.refuse(n, join(path, "type"), "the list of types is empty")
	}
}

// values reads the values that enum and const allow.
func (p *parser) values(s *Schema, d *document, path string) {
	if d.Const != nil {
		s.enum = []any{d.Const.Any()}
	}
	switch {
	case d.Enum == nil:
	case d.Const != nil:
		p.refuse(d.Enum, join(path, "enum"), "leave out enum or const")
	case d.Enum.Kind != strictyaml.List || len(d.Enum.List) == 0:
		p.refuse(d.Enum, join(path, "enum"), "must be a list of the values that are allowed")
	default:
		s.enum = d.Enum.Any().([]any)
	}
}

func join(path, name string) string {
	if path == "" || name == "" {
		return path + name
	}
	return path + "." + name
}

// Check returns an error if a value does not match the schema. It names the first place that does not. The value has
// the types nil, bool, int64, float64, string, []any and map[string]any.
func (s *Schema) Check(v any) error { return s.check("the answer", v) }

func (s *Schema) check(at string, v any) error {
	if s.never {
		return fmt.Errorf("%.200s is not allowed", at)
	}
	if len(s.types) > 0 && !slices.ContainsFunc(s.types, func(name string) bool { return is(name, v) }) {
		return fmt.Errorf("%.200s must have the type %s, and is %s", at, strings.Join(s.types, " or "), shown(v))
	}
	if s.enum != nil && !slices.ContainsFunc(s.enum, func(e any) bool { return equal(e, v) }) {
		var all []string
		for _, e := range s.enum {
			all = append(all, shown(e))
		}
		return fmt.Errorf("%.200s must be one of %.200s, and is %s", at, strings.Join(all, ", "), shown(v))
	}
	if err := s.checkAny(at, v); err != nil {
		return err
	}
	switch v := v.(type) {
	case int64:
		return s.numbers.check(at, float64(v))
	case float64:
		return s.numbers.check(at, v)
	case string:
		if s.pattern != nil && !s.pattern.MatchString(v) {
			return fmt.Errorf("%.200s must match %.100q, and is %s", at, s.pattern, shown(v))
		}
		return s.length.check(at, utf8.RuneCountInString(v), "characters")
	case []any:
		if s.items != nil {
			for i, e := range v {
				if err := s.items.check(fmt.Sprintf("%s[%d]", at, i), e); err != nil {
					return err
				}
			}
		}
		return s.elements.check(at, len(v), "elements")
	case map[string]any:
		return s.checkMap(at, v)
	}
	return nil
}

func (s *Schema) checkAny(at string, v any) error {
	for i, one := range s.anyOf {
		err := one.check(at, v)
		if err == nil {
			return nil
		}
		if i == len(s.anyOf)-1 {
			return fmt.Errorf("%.200s matches none of %d schemas, the last because %w", at, len(s.anyOf), err)
		}
	}
	return nil
}

func (n numbers) check(at string, v float64) error {
	switch {
	case n.Least != nil && v < *n.Least:
		return fmt.Errorf("%.200s must be %v or more, and is %v", at, *n.Least, v)
	case n.Most != nil && v > *n.Most:
		return fmt.Errorf("%.200s must be %v or less, and is %v", at, *n.Most, v)
	case n.Above != nil && v <= *n.Above:
		return fmt.Errorf("%.200s must be more than %v, and is %v", at, *n.Above, v)
	case n.Below != nil && v >= *n.Below:
		return fmt.Errorf("%.200s must be less than %v, and is %v", at, *n.Below, v)
	}
	return nil
}

func (b bounds) check(at string, n int, what string) error {
	switch {
	case b.min != nil && n < int(*b.min):
		return fmt.Errorf("%.200s has %d %s, and the least is %d", at, n, what, *b.min)
	case b.max != nil && n > int(*b.max):
		return fmt.Errorf("%.200s has %d %s, and the most is %d", at, n, what, *b.max)
	}
	return nil
}

func (s *Schema) checkMap(at string, m map[string]any) error {
	for _, name := range s.required {
		if _, ok := m[name]; !ok {
			return fmt.Errorf("%.200s lacks the property %.100q", at, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		one, within := s.others, fmt.Sprintf("%s[%.60q]", at, name) // the model has chosen the name
		if named, ok := s.properties[name]; ok {
			one, within = named, at+"."+name
		}
		if one != nil {
			if err := one.check(within, m[name]); err != nil {
				return err
			}
		}
	}
	return nil
}

// is reports whether a value has a type of JSON Schema.
func is(name string, v any) bool {
	switch v := v.(type) {
	case nil:
		return name == "null"
	case bool:
		return name == "boolean"
	case int64:
		return name == "integer" || name == "number"
	case float64:
		return name == "number" || name == "integer" && v == math.Trunc(v)
	case string:
		return name == "string"
	case []any:
		return name == "array"
	}
	return name == "object"
}

// equal compares values as JSON Schema does: 1 and 1.0 are equal.
func equal(a, b any) bool {
	switch a := a.(type) {
	case int64:
		if f, ok := b.(float64); ok {
			return float64(a) == f
		}
	case float64:
		if i, ok := b.(int64); ok {
			return a == float64(i)
		}
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, equal)
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, b, equal)
	case nil:
		return b == nil
	}
	switch b.(type) {
	case []any, map[string]any:
		return false
	}
	return a == b
}

// shown returns a value for a message.
func shown(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return fmt.Sprintf("%.60q", v)
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return fmt.Sprint(v)
}
