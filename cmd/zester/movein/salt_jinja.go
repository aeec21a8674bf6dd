package movein

import (
	"encoding/json"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// tags are the tags of a template of Jinja. The first and the last group say that blanks around it go.
var tags = regexp.MustCompile(`(?s)\{([{%#])([-+]?)(.*?)([-+]?)[}%#]\}`)

// ends are the characters that end a tag, by the one that begins it.
var ends = map[string]string{"{": "}", "%": "%", "#": "#"}

var (
	forTag    = regexp.MustCompile(`^for\s+(\w+)\s+in\s+(.+)$`)
	ifTag     = regexp.MustCompile(`^if\s+(not\s+)?(.+)$`)
	inPillar  = getter("pillar")
	inGrains  = getter("grains")
	dotted    = regexp.MustCompile(`^[A-Za-z_]\w*((\.[A-Za-z_]\w*)|(\[['"][\w.-]+['"]\]))*$`)
	nameParts = regexp.MustCompile(`[\w-]+`)
)

// getter matches the call of the function get of a module of Salt. Its group is the key.
func getter(module string) *regexp.Regexp {
	get := module + `\.get`
	return regexp.MustCompile(`^(?:salt\[['"]` + get + `['"]\]|salt\.` + get + `|` + get + `)` +
		`\(\s*['"]([\w:.-]+)['"]\s*(?:,.*)?\)$`)
}

// A translation turns a template of Jinja into one here. It knows {{ NAME }}, if, for and comments.
type translation struct {
	c       *conversion
	context map[string]any
	vars    map[string]any // what the template reads
	out     strings.Builder
	open    []block
	loops   []string // names of the loops
}

// A block is an if or a for that is open.
type block struct {
	name   string // of the section here
	negate bool
	loop   bool
}

// template returns a template here with the values that it reads. They are those of the context, the pillar and the
// grains of the host.
func (c *conversion) template(text string) (string, map[string]any, error) {
	t := translation{c: c, context: map[string]any{}, vars: map[string]any{}}
	for _, arg := range []string{"defaults", "context"} {
		values, _ := c.left[arg].(map[string]any)
		maps.Copy(t.context, values)
	}
	at := 0
	for _, m := range tags.FindAllStringSubmatchIndex(text, -1) {
		if m[0] < at {
			continue
		}
		if opens, closes := text[m[2]:m[3]], text[m[1]-2]; !strings.HasPrefix(ends[opens], string(closes)) {
			return "", nil, refuse("a template with %q that does not end: Salt refuses it too", "{"+opens)
		}
		before := text[at:m[0]]
		if text[m[4]:m[5]] == "-" {
			before = strings.TrimRight(before, " \t\r\n")
		}
		t.out.WriteString(before)
		if err := t.tag(text[m[2]:m[3]], strings.TrimSpace(text[m[6]:m[7]])); err != nil {
			return "", nil, err
		}
		at = m[1]
		if text[m[8]:m[9]] == "-" {
			at += len(text[at:]) - len(strings.TrimLeft(text[at:], " \t\r\n"))
		}
	}
	if mayBeTemplate(text[at:]) {
		return "", nil, refuse("a template with a tag that does not end: Salt refuses it too")
	}
	t.out.WriteString(text[at:])
	if len(t.open) > 0 {
		return "", nil, refuse("a template with a block that does not end")
	}
	return t.out.String(), t.vars, nil
}

func (t *translation) tag(kind, inside string) error {
	switch kind {
	case "#":
		t.out.WriteString(keepLine + keepLine)
		return nil
	case "{":
		name, value, err := t.name(inside, false)
		if _, isBool := value.(bool); isBool {
			return refuse("a template that prints a boolean")
		}
		if err == nil {
			t.out.WriteString("{{" + name + "}}")
		}
		return err
	}
	word, _, _ := strings.Cut(inside, " ")
	switch word {
	case "for":
		return t.loop(inside)
	case "if":
		return t.condition(inside)
	case "else":
		return t.otherwise()
	case "endif", "endfor":
		return t.end(word == "endfor")
	}
	return refuse("a template with {%% %s %%}", word)
}

// keepLine is a comment. A line that has it beside a section stays in the output, as a line with a tag of Jinja does.
const keepLine = "{{! }}"

func (t *translation) loop(inside string) error {
	m := forTag.FindStringSubmatch(inside)
	if m == nil || len(t.loops) > 0 {
		return refuse("a template with a loop within a loop, or over pairs")
	}
	name, _, err := t.name(m[2], true)
	if err != nil {
		return err
	}
	t.out.WriteString("{{#" + name + "}}" + keepLine)
	t.open = append(t.open, block{name: name, loop: true})
	t.loops = append(t.loops, m[1])
	return nil
}

func (t *translation) condition(inside string) error {
	m := ifTag.FindStringSubmatch(inside)
	if m == nil {
		return refuse("a template with a condition that is not a name")
	}
	name, value, err := t.name(m[2], false)
	if _, isNumber := value.(json.Number); isNumber || name == "." {
		return refuse("a template with a condition that is a number or an element of a list")
	}
	if err != nil {
		return err
	}
	b := block{name: name, negate: m[1] != ""}
	t.out.WriteString(b.begin())
	t.open = append(t.open, b)
	return nil
}

func (b block) begin() string {
	if b.negate {
		return "{{^" + b.name + "}}" + keepLine
	}
	return "{{#" + b.name + "}}" + keepLine
}

func (t *translation) otherwise() error {
	if len(t.open) == 0 || t.open[len(t.open)-1].loop {
		return refuse("a template with an else of a loop")
	}
	b := &t.open[len(t.open)-1]
	t.out.WriteString("{{/" + b.name + "}}")
	b.negate = !b.negate
	t.out.WriteString(b.begin())
	return nil
}

func (t *translation) end(loop bool) error {
	if len(t.open) == 0 || t.open[len(t.open)-1].loop != loop {
		return refuse("a template with a block that does not end")
	}
	last := len(t.open) - 1
	t.out.WriteString("{{/" + t.open[last].name + "}}" + keepLine)
	t.open = t.open[:last]
	if loop {
		t.loops = t.loops[:len(t.loops)-1]
	}
	return nil
}

// name returns the name here and the value of an expression: a list of texts if isList, and else a scalar.
func (t *translation) name(expr string, isList bool) (string, any, error) {
	expr = strings.TrimSpace(expr)
	if len(t.loops) > 0 && expr == t.loops[0] {
		return ".", nil, nil
	}
	keys, value, found := t.find(expr)
	elements, valueIsList := value.([]any)
	_, areTexts := texts(value)
	switch {
	case !found:
		return "", nil, refuse("a template with an expression that is not a name, or without a value")
	case isList && !(valueIsList && areTexts):
		return "", nil, refuse("a template with a loop over something else than a list of texts")
	case !isList && !isScalar(value):
		return "", nil, refuse("a template with a value that is no text")
	}
	name := strings.Join(keys, "_")
	here := value
	switch value.(type) {
	case json.Number:
		here = plain(value)
	case []any:
		list := make([]any, len(elements))
		for i, element := range elements {
			list[i] = plain(element)
		}
		here = list
	}
	if before, taken := t.vars[name]; taken && !reflect.DeepEqual(before, here) {
		return "", nil, refuse("a template with two values of one name")
	}
	t.vars[name] = here
	return "vars." + name, value, nil
}

// find returns the value of an expression in the context, the pillar or the grains.
func (t *translation) find(expr string) (keys []string, value any, found bool) {
	if m := inPillar.FindStringSubmatch(expr); m != nil {
		keys = strings.Split(m[1], ":")
		value, found = lookup(t.c.host.Pillar, keys)
		return nameOf(keys), value, found
	}
	if m := inGrains.FindStringSubmatch(expr); m != nil {
		keys = strings.Split(m[1], ":")
		value, found = lookup(t.c.host.Grains, keys)
		return nameOf(keys), value, found
	}
	if !dotted.MatchString(expr) {
		return nil, nil, false
	}
	keys = nameParts.FindAllString(expr, -1)
	switch {
	case keys[0] == "pillar" && len(keys) > 1:
		keys = keys[1:]
		value, found = lookup(t.c.host.Pillar, keys)
	case keys[0] == "grains" && len(keys) > 1:
		keys = keys[1:]
		value, found = lookup(t.c.host.Grains, keys)
	default:
		value, found = lookup(t.context, keys)
	}
	return nameOf(keys), value, found
}

// nameOf returns keys without characters that a name of a template cannot have.
func nameOf(keys []string) []string {
	out := slices.Clone(keys)
	for i := range out {
		out[i] = strings.NewReplacer("-", "_", ".", "_").Replace(out[i])
	}
	return out
}
