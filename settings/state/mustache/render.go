package mustache

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-c01c3da5/zester/settings/shell"
)

// A Secret is a scalar of the data that people must not see.
type Secret struct{ Value any }

// MarkSecret returns a Secret, as strictyaml.Node.RevealAs wants it.
func MarkSecret(value any) any { return Secret{value} }

// Render renders the template with data: a map[string]any whose values are nil, bool, int64, float64, string, [Secret],
// []any and map[string]any. secret reports whether a tag that was rendered, or decided what is rendered, has a secret
// as its value or in it. The error is an [*Error].
func (t *Template) Render(data map[string]any) (out []byte, secret bool, err error) {
	r := &renderer{name: t.name, stack: []scope{{value: data}}}
	if err := r.all(t.nodes); err != nil {
		return nil, false, err
	}
	return r.out.Bytes(), r.secret, nil
}

// A renderer holds the output and the values of the sections around the current node, outermost first.
type renderer struct {
	name  string
	out   bytes.Buffer
	stack []scope
	steps int

	secret bool // a tag had a secret
}

// A scope is the value of a section.
type scope struct {
	value any
	pair  bool // value belongs to a pair of a map, under key
	key   string
}

func (r *renderer) errorf(n *node, format string, args ...any) error {
	return &Error{r.name, n.line, n.column, fmt.Sprintf(format, args...)}
}

func (r *renderer) all(nodes []node) error {
	for i := range nodes {
		if err := r.node(&nodes[i]); err != nil {
			return err
		}
		if r.out.Len() > MaxOutput {
			return r.errorf(&nodes[i], "the output is larger than %d MiB", MaxOutput>>20)
		}
	}
	return nil
}

func (r *renderer) node(n *node) error {
	if r.steps++; r.steps > maxSteps {
		return r.errorf(n, "more than %d tags are rendered; are sections over long lists nested?", maxSteps)
	}
	switch {
	case n.path == nil:
		r.out.WriteString(n.text)
		return nil
	case n.section:
		return r.section(n)
	}
	value, found, err := r.lookup(n)
	if err != nil {
		return err
	}
	if !found {
		return r.errorf(n, "there is no %q%s", strings.Join(n.path, "."), r.missingIn(n))
	}
	text, err := r.format(n, value)
	r.out.WriteString(text)
	return err
}

func (r *renderer) section(n *node) error {
	value, found, err := r.lookup(n)
	if err != nil {
		return err
	}
	if !found && !n.optional {
		return r.errorf(n, "there is no %q; {{#%s?}} treats a missing name as false", strings.Join(n.path, "."),
			strings.Join(n.path, "."))
	}
	if n.inverted || isFalse(value) {
		if n.inverted == isFalse(value) {
			return r.all(n.body)
		}
		return nil
	}
	switch v := value.(type) {
	case []any:
		for _, e := range v {
			if err := r.within(n, scope{value: e}); err != nil {
				return err
			}
		}
		return nil
	case map[string]any:
		if !n.pairs {
			break
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if err := r.within(n, scope{value: v[key], pair: true, key: key}); err != nil {
				return err
			}
		}
		return nil
	}
	return r.within(n, scope{value: value})
}

// within renders the body of a section once. An empty body counts as one step.
func (r *renderer) within(n *node, s scope) error {
	if len(n.body) == 0 {
		r.steps++
		return nil
	}
	r.stack = append(r.stack, s)
	err := r.all(n.body)
	r.stack = r.stack[:len(r.stack)-1]
	return err
}

// lookup finds the value of a name. If that is a secret, the output is one.
func (r *renderer) lookup(n *node) (value any, found bool, err error) {
	value, found, err = r.find(n)
	if s, isSecret := value.(Secret); isSecret {
		value, r.secret = s.Value, true
	}
	return value, found, err
}

// find finds the value of a name: its first part in the innermost section that has it, the rest below that.
func (r *renderer) find(n *node) (value any, found bool, err error) {
	first := n.path[0]
	switch first {
	case "":
		return r.stack[len(r.stack)-1].value, true, nil
	case "@key", "@value":
		i := len(r.stack) - 1
		for i >= 0 && !r.stack[i].pair {
			i--
		}
		if i < 0 {
			return nil, false, r.errorf(n, "%s is used outside a section over a map", first)
		}
		if value = r.stack[i].value; first == "@key" {
			value = r.stack[i].key
		}
		found = true
	default:
		for i := len(r.stack) - 1; i >= 0 && !found; i-- {
			if m, ok := r.stack[i].value.(map[string]any); ok {
				value, found = m[first]
			}
		}
	}
	for _, name := range n.path[1:] {
		m, ok := value.(map[string]any)
		if !found || !ok {
			return nil, false, nil
		}
		value, found = m[name]
	}
	return value, found, nil
}

// missingIn names the part of a path that is missing, if a part before it exists.
func (r *renderer) missingIn(n *node) string {
	for i := len(n.path) - 1; i > 0; i-- {
		shorter := *n
		shorter.path = n.path[:i]
		if _, found, _ := r.find(&shorter); found {
			return fmt.Sprintf(": %q has no %q", strings.Join(n.path[:i], "."), n.path[i])
		}
	}
	return ""
}

func isFalse(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case bool:
		return !v
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

// reveal returns a value with the secrets in it in plain text.
func (r *renderer) reveal(value any) any {
	switch v := value.(type) {
	case Secret:
		r.secret = true
		return v.Value
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = r.reveal(e)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, e := range v {
			out[key] = r.reveal(e)
		}
		return out
	}
	return value
}

// format returns the text of a variable.
func (r *renderer) format(n *node, value any) (string, error) {
	if n.filter != noFilter {
		value = r.reveal(value)
	}
	name := strings.Join(n.path, ".")
	switch n.filter {
	case jsonFilter:
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(value); err != nil {
			return "", r.errorf(n, "cannot write %q as JSON: %v", name, err)
		}
		return strings.TrimSuffix(b.String(), "\n"), nil
	case joinFilter:
		list, ok := value.([]any)
		if !ok {
			return "", r.errorf(n, "join takes a list; %q is %s", name, kindOf(value))
		}
		parts := make([]string, len(list))
		for i, e := range list {
			text, ok := scalar(e)
			if !ok {
				return "", r.errorf(n, "join takes a list of text and numbers; element %d of %q is %s", i, name,
					kindOf(e))
			}
			parts[i] = text
		}
		return strings.Join(parts, n.sep), nil
	}
	text, ok := scalar(value)
	if !ok {
		return "", r.errorf(n, "%q is %s; write {{#%s}}…{{/%s}}, {{%s | json}} or, for a list, {{%s | join \", \"}}",
			name, kindOf(value), name, name, name, name)
	}
	if n.filter == shellFilter {
		text = shell.Quote(text)
	}
	return text, nil
}

// scalar returns the text of a value that is neither null, a list nor a map.
func scalar(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), true
	case int64:
		return strconv.FormatInt(v, 10), true
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), true
	}
	return "", false
}

func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case []any:
		return "a list"
	case map[string]any:
		return "a map"
	case string:
		return "text"
	case bool:
		return "true or false"
	}
	return "a number"
}
