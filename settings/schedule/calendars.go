package schedule

import (
	"fmt"
	"slices"

	"github.com/seed-c01c3da5/zester/settings/schedule/window"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// Calendars maps the name of a calendar to its weekdays, dates and ranges: the map under the key `calendars`
// in zester.yaml.
type Calendars map[string][]*strictyaml.Node

// ParseCalendars reads the calendars of zester.yaml. A calendar has one element or a list of them, in the forms that
// [window.Days.Add] reads, other calendars excepted. The error is a [strictyaml.Errors].
func ParseCalendars(n *strictyaml.Node) (Calendars, error) {
	var errs strictyaml.Errors
	refuse := func(at strictyaml.Pos, path, msg string) {
		errs = append(errs, strictyaml.Error{Pos: at, Path: path, Msg: msg})
	}
	if n.Kind != strictyaml.Null && n.Kind != strictyaml.Map {
		refuse(n.Pos, "calendars", n.Mismatch("a map of calendars"))
	}
	calendars := make(Calendars, len(n.Map))
	for _, pair := range n.Map {
		path := "calendars." + pair.Key
		if err := window.CheckName(pair.Key); err != nil {
			refuse(pair.KeyPos, "calendars", err.Error())
			continue
		}
		list := pair.Value.Elements()
		if len(list) > maxElements {
			refuse(pair.Value.Pos, path, fmt.Sprintf("%d elements; the most are %d", len(list), maxElements))
			continue
		}
		for _, e := range list {
			var d window.Days
			text, ok := e.TextOrInt()
			if !ok {
				refuse(e.Pos, path, e.Mismatch("a weekday, date or range"))
			} else if err := d.Add(text); err != nil {
				refuse(e.Pos, path, err.Error())
			} else if len(d.Calendars) > 0 {
				refuse(
					e.Pos, path, fmt.Sprintf(
						"%q is not a weekday, date or range; a calendar cannot contain another calendar", text,
					),
				)
			}
		}
		calendars[pair.Key] = list
	}
	if err := errs.Err(); err != nil {
		return nil, err
	}
	return calendars, nil
}

// Expand replaces the names of calendars by their days in n, the map under the key `schedule` of a peel's settings.
// It returns a changed copy, or n itself if n names no calendar. Unknown names stay, and [ParseSet] refuses them.
func (c Calendars) Expand(n *strictyaml.Node) *strictyaml.Node {
	return mapValues(n, func(entry strictyaml.Pair) *strictyaml.Node {
		return mapValues(entry.Value, func(field strictyaml.Pair) *strictyaml.Node {
			if !slices.Contains([]string{"only_on", "not_on", "blackout"}, field.Key) {
				return field.Value
			}
			return c.expand(field.Value)
		})
	})
}

// mapValues returns a copy of the map n with the values that value returns, or n itself if all values stay.
func mapValues(n *strictyaml.Node, value func(strictyaml.Pair) *strictyaml.Node) *strictyaml.Node {
	out := n
	for i, pair := range n.Map {
		v := value(pair)
		if v == pair.Value {
			continue
		}
		if out == n {
			out = &strictyaml.Node{Kind: n.Kind, Pos: n.Pos, Map: slices.Clone(n.Map)}
		}
		out.Map[i].Value = v
	}
	return out
}

func (c Calendars) expand(n *strictyaml.Node) *strictyaml.Node {
	list := n.Elements()
	named := func(e *strictyaml.Node) bool {
		name, ok := e.Value.(string)
		return ok && c[name] != nil
	}
	if !slices.ContainsFunc(list, named) {
		return n
	}
	out := &strictyaml.Node{Kind: strictyaml.List, Pos: n.Pos}
	for _, e := range list {
		if named(e) {
			out.List = append(out.List, c[e.Value.(string)]...)
		} else {
			out.List = append(out.List, e)
		}
	}
	return out
}
