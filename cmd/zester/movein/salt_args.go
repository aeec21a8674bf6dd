package movein

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A refusal is why a declaration has no counterpart. Equal ones are counted together.
type refusal struct{ reason string }

func (r *refusal) Error() string { return r.reason }

// argument returns the argument or requisite that the refusal is about, or "".
func (r *refusal) argument() string {
	kind, rest, _ := strings.Cut(r.reason, " ")
	if kind != "argument" && kind != "requisite" {
		return ""
	}
	name, _, _ := strings.Cut(rest, " ")
	return strings.TrimRight(name, ":;,")
}

func refuse(format string, args ...any) error { return &refusal{fmt.Sprintf(format, args...)} }

// A kind is how the value of an argument is written here.
type kind int

const (
	asText   kind = iota // a text, number or boolean as text
	asBool               // true or false
	asNumber             // a whole number
	asMode               // octal digits
	asList               // texts, or one text
	asEnv                // a map, or a list of maps
	noted                // a note says that it is left out
)

// value returns an argument as the kind wants it.
func (k kind) value(name string, v any) (any, error) {
	switch k {
	case asBool:
		if b, ok := v.(bool); ok {
			return b, nil
		}
	case asNumber:
		if n, err := strconv.ParseInt(plain(v), 10, 64); err == nil {
			return n, nil
		}
	case asMode:
		return octal(name, v)
	case asList:
		if texts, ok := texts(v); ok {
			return texts, nil
		}
	case asEnv:
		if vars, ok := variables(v); ok {
			return vars, nil
		}
	default:
		if isScalar(v) {
			return plain(v), nil
		}
	}
	return nil, refuse("argument %s: a value of another form", name)
}

func isScalar(v any) bool {
	switch v.(type) {
	case string, bool, json.Number:
		return true
	}
	return false
}

// plain returns a scalar as Python prints it.
func plain(v any) string {
	switch v := v.(type) {
	case bool:
		if v {
			return "True"
		}
		return "False"
	case json.Number:
		return v.String()
	case string:
		return v
	}
	return fmt.Sprint(v)
}

func octal(name string, v any) (any, error) {
	digits := strings.TrimPrefix(plain(v), "0o")
	if digits == "keep" {
		return nil, refuse("argument %s: keep", name)
	}
	if n, err := strconv.ParseUint(digits, 8, 12); err == nil {
		return fmt.Sprintf("%04o", n), nil
	}
	return nil, refuse("argument %s: %q is no mode", name, digits)
}

// texts returns a list of scalars, or the list with one.
func texts(v any) ([]string, bool) {
	if isScalar(v) {
		return []string{plain(v)}, true
	}
	values, ok := v.([]any)
	if !ok {
		return nil, false
	}
	out := make([]string, len(values))
	for i, value := range values {
		if !isScalar(value) {
			return nil, false
		}
		out[i] = plain(value)
	}
	return out, true
}

// variables returns the variables of an environment.
func variables(v any) (map[string]string, bool) {
	elements, ok := v.([]any)
	if !ok {
		elements = []any{v}
	}
	out := map[string]string{}
	for _, element := range elements {
		vars, ok := element.(map[string]any)
		if name, isText := element.(string); isText && identifier.MatchString(name) {
			vars, ok = map[string]any{name: nil}, true // a name without a value
		}
		if !ok {
			return nil, false
		}
		for name, value := range vars {
			switch {
			case value == nil:
				out[name] = "" // as Salt sets it
			case !isScalar(value):
				return nil, false
			default:
				out[name] = plain(value)
			}
		}
	}
	return out, true
}

// A made state is what a declaration became.
type made struct {
	name     string
	function string
	args     map[string]any
	fields   map[string]any // requisites and guards
	secrets  map[string]any // arguments that are not in the repo
	comment  []string
	isLate   bool // it reacts, which Salt does at the end of a run
	reacts   bool // it runs only if the main state of its declaration changed
}

// A conversion is a declaration on its way to states.
type conversion struct {
	Declaration
	host     *Minion
	source   *sources
	left     map[string]any    // arguments that nothing has read
	args     map[string]any    // of the state
	fields   map[string]any    // requisites and guards of the state
	files    map[string][]byte // that the state needs, by their path in the repo
	programs []string          // the files that are executable
	first    []made            // states of other functions before it, without names
	more     []map[string]any  // the arguments of further states of the function
	then     []made            // states of other functions after these, without names
	notes    []string
	unless   []string // further guards, which run as root in any case
	function string   // here
	isDone   bool     // another declaration of the host does it
	err      error    // the first argument of another form
}

// take returns an argument and counts it as read.
func (c *conversion) take(name string) (any, bool) {
	v, ok := c.left[name]
	delete(c.left, name)
	return v, ok
}

// takeText returns a text argument, or "" without one. An error is kept in c.err.
func (c *conversion) takeText(name string) string {
	v, ok := c.take(name)
	if !ok {
		return ""
	}
	if !isScalar(v) {
		c.fail(name)
		return ""
	}
	return plain(v)
}

// takeTexts returns the values of text arguments in their order.
func (c *conversion) takeTexts(names ...string) []string {
	values := make([]string, len(names))
	for i, name := range names {
		values[i] = c.takeText(name)
	}
	return values
}

// takeBool returns a boolean argument. An error is kept in c.err.
func (c *conversion) takeBool(name string, otherwise bool) bool {
	v, ok := c.take(name)
	if !ok {
		return otherwise
	}
	b, ok := v.(bool)
	if !ok {
		c.fail(name)
	}
	return b
}

// fail keeps the first argument whose value has a form that nothing reads.
func (c *conversion) fail(argument string) {
	if c.err == nil {
		c.err = refuse("argument %s: a value of another form", argument)
	}
}

// forAll begins a note on all states of its kind. A settings file has it once.
const forAll = "for all such states: "

func (c *conversion) note(text string) {
	if !slices.Contains(c.notes, text) {
		c.notes = append(c.notes, text)
	}
}
