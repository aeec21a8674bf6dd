package state

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// Limits of states with each.
const (
	MaxEach     = 200     // elements of a list or map
	maxExpanded = 4 << 20 // bytes of all states that each makes, and of the requisites that name them
	sizeOfNode  = 16      // bytes that a value counts besides its text
)

// eachField is the field of a state that names the list or map of its elements.
const eachField = "each"

// settingsPrefix begins a path of the settings, as in templates.
const settingsPrefix = "settings."

const notSettings = "%q is no path of the settings; write settings.NAME of a list or map"

// tag matches what stands for the key or the value of an element, with a path in the value.
var tag = newShape(`\{\{ *@(key|value)((?:\.[A-Za-z0-9_-]+)*) *\}\}`, anyLength)

// Expanded are states in which each field `each` and argument `names` was replaced by the states that it stands for.
type Expanded struct {
	States *strictyaml.Node
	// Source is the name under which the settings have a state, by the name of each state that was made of it.
	Source map[string]string
}

// Expand makes one state for each element of the list or map that the field `each` of a state names, and for each
// element of the argument `names` of a function that takes one name. states is the
// merged map of states of a peel, settings its merged settings. A state that each made of a map is named NAME.KEY, of
// a list of texts or numbers NAME.ELEMENT, and of another list NAME.1, NAME.2 and so on. A requisite that names NAME
// stands for all of them. Without elements there are no states; a state whose onchanges or onfail names no state any
// more never runs. The error is a [strictyaml.Errors].
func Expand(states, settings *strictyaml.Node) (Expanded, error) {
	if states == nil || !slices.ContainsFunc(states.Map, isMany) {
		return Expanded{States: states}, nil
	}
	x := expander{settings: settings, names: map[string][]string{}, source: map[string]string{}}
	var all []strictyaml.Pair
	for _, p := range states.Map {
		if isMany(p) {
			all = append(all, x.state(p)...)
		} else {
			all = append(all, p)
		}
	}
	if len(x.errs) > 0 {
		return Expanded{}, x.errs
	}
	if err := checkNames(all, x.source); err != nil {
		return Expanded{}, err
	}
	for i := range all {
		all[i].Value = x.requisites(all[i])
		if len(x.errs) > 0 {
			return Expanded{}, x.errs
		}
	}
	out := *states
	out.Map = all
	return Expanded{States: &out, Source: x.source}, nil
}

func hasEach(p strictyaml.Pair) bool { return p.Value.Get(eachField) != nil }

// IsMany reports whether a state of a settings file is written once for several, which only [Expand] makes.
func IsMany(n *strictyaml.Node) bool {
	_, names := namesOf(n)
	return names != nil || hasTags(n)
}

// hasTags reports whether only [Expand] knows the values of the arguments of a state.
func hasTags(n *strictyaml.Node) bool {
	return n.Get(eachField) != nil || holdsText(n, tag.MatchString)
}

// holdsText reports whether is returns true for a text in a node.
func holdsText(n *strictyaml.Node, is func(text string) bool) bool {
	if text, isText := n.Value.(string); isText && n.Secret == nil && is(text) {
		return true
	}
	return slices.ContainsFunc(n.List, func(e *strictyaml.Node) bool { return holdsText(e, is) }) ||
		slices.ContainsFunc(n.Map, func(p strictyaml.Pair) bool { return holdsText(p.Value, is) })
}

// checkNames refuses names that two states have. source names the state from which each made one.
func checkNames(all []strictyaml.Pair, source map[string]string) error {
	var errs strictyaml.Errors
	seen := map[string]bool{}
	for _, p := range all {
		if seen[p.Key] {
			made := source[p.Key]
			errs = append(errs, strictyaml.Error{
				Pos:  p.KeyPos,
				Path: Key + "." + made,
				Msg:  fmt.Sprintf("it makes the state %s, and there is another one of this name", p.Key),
			})
		}
		seen[p.Key] = true
	}
	return errs.Err()
}

// An expander makes the states of each.
type expander struct {
	settings *strictyaml.Node
	names    map[string][]string // of the states that were made, by the name in the settings
	source   map[string]string
	size     int // bytes of what was made
	errs     strictyaml.Errors
}

// isTooLarge counts bytes that are made for a state, and refuses them beyond [maxExpanded].
func (x *expander) isTooLarge(bytes int, at strictyaml.Pos, state string) bool {
	x.size += bytes
	if x.size <= maxExpanded {
		return false
	}
	x.refuse(at, state, "the states that each and names make have more than %d bytes together", maxExpanded)
	return true
}

func (x *expander) refuse(at strictyaml.Pos, state, format string, args ...any) {
	x.errs = append(x.errs, strictyaml.Error{Pos: at, Path: Key + "." + state, Msg: fmt.Sprintf(format, args...)})
}

// state returns the states that are made of one.
func (x *expander) state(p strictyaml.Pair) (made []strictyaml.Pair) {
	x.names[p.Key] = nil
	of := []strictyaml.Pair{p}
	if hasEach(p) {
		of = x.each(p)
	}
	for _, one := range of {
		made = append(made, x.named(one)...)
	}
	for _, one := range made {
		x.names[p.Key] = append(x.names[p.Key], one.Key)
		x.source[one.Key] = p.Key
	}
	return made
}

// each returns the states that each makes of one.
func (x *expander) each(p strictyaml.Pair) (made []strictyaml.Pair) {
	elements := x.elements(p)
	if len(elements) > MaxEach {
		x.refuse(p.Value.Get(eachField).Pos, p.Key, "each has %d elements; it makes at most %d states", len(elements),
			MaxEach)
		return nil
	}
	for _, element := range elements {
		name := p.Key + "." + element.Key
		if !validName.MatchString(name) {
			x.refuse(element.KeyPos, p.Key, "%q cannot be part of the name of a state: %s", element.Key, nameRule)
			continue
		}
		f := filling{element: element}
		value := f.fill(withoutEach(p.Value))
		if f.problem != "" {
			x.refuse(f.at, p.Key, "%s", f.problem)
			return nil
		}
		if x.isTooLarge(f.size, p.KeyPos, p.Key) {
			return nil
		}
		made = append(made, strictyaml.Pair{Key: name, KeyPos: p.KeyPos, Value: value})
	}
	return made
}

func withoutEach(n *strictyaml.Node) *strictyaml.Node {
	out := *n
	out.Map = slices.DeleteFunc(slices.Clone(n.Map), func(p strictyaml.Pair) bool { return p.Key == eachField })
	return &out
}

// elements returns the elements that each of a state names, with the rest of the name that a state of each gets.
func (x *expander) elements(p strictyaml.Pair) (elements []strictyaml.Pair) {
	each := p.Value.Get(eachField)
	text, _ := each.Value.(string)
	path, isSetting := strings.CutPrefix(text, settingsPrefix)
	if !isSetting {
		x.refuse(each.Pos, p.Key+"."+eachField, notSettings, text)
		return nil
	}
	n := x.settings
	for step := range strings.SplitSeq(path, ".") {
		next := n.Get(step)
		if next == nil {
			x.refuse(each.Pos, p.Key+"."+eachField, "the settings have no %s%s", text,
				strictyaml.Suggest(step, keys(n)))
			return nil
		}
		n = next
	}
	switch n.Kind {
	case strictyaml.Map:
		return n.Map
	case strictyaml.List:
		for i, e := range n.List {
			name := fmt.Sprint(i + 1)
			if written, isScalar := e.TextOrInt(); isScalar && e.Secret == nil {
				name = written
			}
			elements = append(elements, strictyaml.Pair{Key: name, KeyPos: e.Pos, Value: e})
		}
		return elements
	}
	x.refuse(each.Pos, p.Key+"."+eachField, "%s must be a list or a map, not %s", text, n.Kind)
	return nil
}

func keys(n *strictyaml.Node) (names []string) {
	for _, p := range n.Map {
		names = append(names, p.Key)
	}
	return names
}

// requisites returns a state with the names that each made in the place of those in its requisites. A state that is to
// run after a change or failure of no state is disabled.
func (x *expander) requisites(state strictyaml.Pair) *strictyaml.Node {
	n := state.Value
	never := false
	out := replaced(n, func(field strictyaml.Pair) *strictyaml.Node {
		if !slices.Contains(requisites, field.Key) || field.Value.Kind != strictyaml.List {
			return field.Value
		}
		list := *field.Value
		list.List = nil
		for _, e := range field.Value.List {
			name, _ := e.Value.(string)
			made, isEach := x.names[name]
			if !isEach {
				list.List = append(list.List, e)
				continue
			}
			for _, one := range made {
				if x.isTooLarge(sizeOfNode+len(one), e.Pos, state.Key) {
					return field.Value
				}
				list.List = append(list.List, &strictyaml.Node{Kind: strictyaml.String, Pos: e.Pos, Value: one})
			}
		}
		if (field.Key == "onchanges" || field.Key == "onfail") && len(list.List) == 0 && len(field.Value.List) > 0 {
			never = true
		}
		return &list
	})
	if never {
		out.Map = slices.DeleteFunc(out.Map, func(p strictyaml.Pair) bool { return p.Key == "enabled" })
		off := &strictyaml.Node{Kind: strictyaml.Bool, Pos: n.Pos, Value: false}
		out.Map = append(out.Map, strictyaml.Pair{Key: "enabled", KeyPos: n.Pos, Value: off})
	}
	return out
}

// A filling puts one element into a state.
type filling struct {
	element strictyaml.Pair
	size    int // bytes of what was made
	problem string
	at      strictyaml.Pos // of the problem
}

// fill returns a node with the element in the place of the tags in its texts.
func (f *filling) fill(n *strictyaml.Node) *strictyaml.Node {
	out := *n
	f.size += sizeOfNode
	switch n.Kind {
	case strictyaml.String:
		return f.text(n)
	case strictyaml.List:
		out.List = make([]*strictyaml.Node, len(n.List))
		for i, e := range n.List {
			out.List[i] = f.fill(e)
		}
	case strictyaml.Map:
		out.Map = make([]strictyaml.Pair, len(n.Map))
		for i, p := range n.Map {
			p.Value = f.fill(p.Value)
			out.Map[i] = p
		}
	}
	return &out
}

// text returns a text with the element in the place of its tags. If a tag is all of the text, the result is what the
// tag stands for, such as a list.
func (f *filling) text(n *strictyaml.Node) *strictyaml.Node {
	text, _ := n.Value.(string)
	f.size += len(text)
	places := tag.compiled().FindAllStringSubmatchIndex(text, -1)
	if len(places) == 0 {
		return n
	}
	if len(places) == 1 && places[0][0] == 0 && places[0][1] == len(text) {
		value := *f.value(n.Pos, text[places[0][2]:places[0][3]], text[places[0][4]:places[0][5]])
		value.Pos = n.Pos
		f.size += sizeOf(&value)
		return &value
	}
	var shown, plain strings.Builder
	secret, end := false, 0
	for _, at := range places {
		value := f.value(n.Pos, text[at[2]:at[3]], text[at[4]:at[5]])
		if value.Kind == strictyaml.List || value.Kind == strictyaml.Map || value.Kind == strictyaml.Null {
			f.refuse(n.Pos, "%s is %s, which cannot be part of a text", text[at[0]:at[1]], value.Kind)
			return n
		}
		shown.WriteString(text[end:at[0]])
		plain.WriteString(text[end:at[0]])
		fmt.Fprint(&shown, value.Value)
		fmt.Fprint(&plain, value.Reveal())
		secret = secret || value.Secret != nil
		end = at[1]
	}
	shown.WriteString(text[end:])
	plain.WriteString(text[end:])
	f.size += shown.Len()
	if secret {
		f.size += plain.Len()
	}
	out := &strictyaml.Node{Kind: strictyaml.String, Pos: n.Pos, Value: shown.String()}
	if secret {
		out.Secret = plain.String()
	}
	return out
}

// sizeOf returns the bytes that a node counts.
func sizeOf(n *strictyaml.Node) int {
	text, _ := n.Value.(string)
	secret, _ := n.Secret.(string)
	size := sizeOfNode + len(text) + len(secret)
	for _, e := range n.List {
		size += sizeOf(e)
	}
	for _, p := range n.Map {
		size += len(p.Key) + sizeOf(p.Value)
	}
	return size
}

// value returns what a tag stands for.
func (f *filling) value(at strictyaml.Pos, of, path string) *strictyaml.Node {
	if of == "key" {
		return &strictyaml.Node{Kind: strictyaml.String, Pos: at, Value: f.element.Key}
	}
	n := f.element.Value
	for step := range strings.SplitSeq(strings.TrimPrefix(path, "."), ".") {
		if step == "" { // the value itself
			break
		}
		next := n.Get(step)
		if next == nil {
			f.refuse(at, "the element %s (%s) has no value%s%s", f.element.Key, f.element.Value.Pos, path,
				strictyaml.Suggest(step, keys(n)))
			return &strictyaml.Node{Pos: at}
		}
		n = next
	}
	return n
}

func (f *filling) refuse(at strictyaml.Pos, format string, args ...any) {
	if f.problem == "" {
		f.problem, f.at = fmt.Sprintf(format, args...), at
	}
}
