package schedule

import (
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/seed-c01c3da5/zester/settings/schedule/window"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// The functions below are not inlined: each field would have a copy of the code that sets it.

// choice returns a field that holds one of the allowed words.
//
//go:noinline
func choice[T ~string](name string, into func(*Entry) *T, allowed ...T) field {
	list := make([]string, len(allowed))
	for i, w := range allowed {
		list[i] = string(w)
	}
	return field{name: name, schema: words(list...), set: func(p *parser, n *strictyaml.Node) {
		s, ok := p.text(n)
		switch {
		case !ok:
		case !slices.Contains(list, s):
			p.refuse(n.Pos, "%.40q is not one of %s", s, strings.Join(list, ", "))
		default:
			*into(p.entry) = T(s)
		}
	}}
}

// whole returns a field that holds a whole number from least to most.
//
//go:noinline
func whole(name string, least, most int, into func(*Entry) *int) field {
	return field{name: name, schema: numbers(least, most), set: func(p *parser, n *strictyaml.Node) {
		i, ok := n.Value.(int64)
		switch {
		case !ok:
			p.refuse(n.Pos, "%s", n.Mismatch(strictyaml.Int.String()))
		case i < int64(least) || i > int64(most):
			p.refuse(n.Pos, "%d is not between %d and %d", i, least, most)
		default:
			*into(p.entry) = int(i)
		}
	}}
}

// length returns a field that holds a duration from least to most.
//
//go:noinline
func length(name string, least, most time.Duration, into func(*Entry) *time.Duration) field {
	schema := durations
	if least == 0 {
		schema = anyOf(durations, zero)
	}
	return field{name: name, schema: schema, set: func(p *parser, n *strictyaml.Node) {
		d, ok := p.duration(n)
		switch {
		case !ok:
		case d < least && least == 1:
			p.refuse(n.Pos, "%v is not allowed; leave %s out for none", n.Value, name)
		case d < least:
			p.refuse(n.Pos, "%v is too short; the shortest %s is %v", n.Value, name, least)
		case d > most:
			p.refuse(n.Pos, "%v is too long; the longest %s is 10 years (3650d)", n.Value, name)
		default:
			*into(p.entry) = d
		}
	}}
}

// boolean returns a field that is true or false.
//
//go:noinline
func boolean(name string, into func(*Entry) *bool) field {
	return field{name: name, schema: &Schema{Type: "boolean"}, set: func(p *parser, n *strictyaml.Node) {
		if b, ok := n.Value.(bool); ok {
			*into(p.entry) = b
			return
		}
		p.refuse(n.Pos, "%s", n.Mismatch(strictyaml.Bool.String()))
	}}
}

// maxShort bounds a text for people, in bytes.
const maxShort = 200

// short returns a field that holds a line of text for people.
//
//go:noinline
func short(name string, into func(*Entry) *string) field {
	return field{name: name, schema: &Schema{Type: "string"}, set: func(p *parser, n *strictyaml.Node) {
		s, ok := p.text(n)
		switch {
		case !ok:
		case len(s) > maxShort || strings.ContainsFunc(s, unicode.IsControl):
			p.refuse(n.Pos, "%s is one line of at most %d bytes", name, maxShort)
		default:
			*into(p.entry) = s
		}
	}}
}

// moment returns a field that holds an instant.
//
//go:noinline
func moment(name string, into func(*Entry) *time.Time) field {
	return field{
		name:   name,
		schema: &Schema{Type: "string", Format: "date-time"},
		set: func(p *parser, n *strictyaml.Node) {
			if at, ok := p.instant(n); ok {
				*into(p.entry) = at
			}
		},
	}
}

// days returns a field that holds a weekday, date, range or calendar, or a list of them.
//
//go:noinline
func days(name string, into func(*Entry) *window.Days) field {
	return field{
		name:   name,
		schema: oneOrMore(anyOf(&Schema{Type: "string"}, numbers(0, 7)), maxElements),
		set: func(p *parser, n *strictyaml.Node) {
			for _, n := range p.list(n, "a weekday, date, range or calendar, or a list of them") {
				text, ok := n.TextOrInt()
				if !ok {
					p.refuse(n.Pos, "%s", n.Mismatch("a weekday, date, range or calendar"))
					continue
				}
				d := into(p.entry)
				known := len(d.Calendars)
				if err := d.Add(text); err != nil {
					p.refuse(n.Pos, "%v", err)
				}
				if len(d.Calendars) > known {
					p.incomplete(n.Pos, "there is no calendar %s here; zester.yaml names calendars", text)
				}
				if len(d.Times) > 0 && name != "blackout" {
					p.refuse(n.Pos, "%q is part of days; write it under blackout", text)
					d.Times = nil
				}
			}
		},
	}
}

// object returns a field that holds a map with the given keys.
//
//go:noinline
func object(name string, required []string, keys ...field) field {
	return field{name: name, keys: keys, set: func(p *parser, n *strictyaml.Node) {
		if n.Kind != strictyaml.Map {
			p.refuse(n.Pos, "%s", n.Mismatch("a map of "+strings.Join(names(keys), " and ")))
			return
		}
		outer := p.field
		for _, pair := range n.Map {
			p.field = outer + "." + pair.Key
			i := slices.IndexFunc(keys, func(f field) bool { return f.name == pair.Key })
			switch {
			case i < 0:
				p.refuse(pair.KeyPos, "unknown key%s", strictyaml.SuggestKey(pair.Key, names(keys)))
			case pair.Value.Kind != strictyaml.Null:
				keys[i].set(p, pair.Value)
			}
		}
		p.field = outer
		for _, key := range required {
			if v := n.Get(key); v == nil || v.Kind == strictyaml.Null {
				p.incomplete(n.Pos, "%s is missing", key)
			}
		}
	}}
}

func (p *parser) text(n *strictyaml.Node) (string, bool) {
	s, ok := n.Value.(string)
	if !ok {
		p.refuse(n.Pos, "%s", n.Mismatch(strictyaml.String.String()))
	}
	return s, ok
}

func (p *parser) duration(n *strictyaml.Node) (time.Duration, bool) {
	if ms, ok := n.Value.(int64); ok && ms >= 1000 && ms < int64(MaxInterval/time.Millisecond) {
		p.refuse(n.Pos,
			"must be a duration like 90s, 5m or 1d12h, not a whole number (%d); write %s if these are milliseconds, "+
				"%ds if seconds",
			ms, strictyaml.FormatDuration(time.Duration(ms)*time.Millisecond), ms)
		return 0, false
	}
	d, err := n.Duration()
	if err != nil {
		p.refuse(n.Pos, "%v", err)
		return 0, false
	}
	return d, true
}

func (p *parser) instant(n *strictyaml.Node) (time.Time, bool) {
	const form = "2026-06-01T09:00:00+01:00"
	if ms, ok := n.Value.(int64); ok && ms > 1e11 && ms < 1e14 {
		p.refuse(n.Pos, "must be an instant like %s, not a number; these milliseconds are %q", form,
			time.UnixMilli(ms).UTC().Format(time.RFC3339))
		return time.Time{}, false
	}
	s, ok := n.Value.(string)
	if !ok {
		p.refuse(n.Pos, "%s", n.Mismatch("an instant like "+form))
		return time.Time{}, false
	}
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		p.refuse(n.Pos, "cannot read instant %.40q; write date, time and offset from UTC like %s", s, form)
		return time.Time{}, false
	}
	return at.UTC(), true
}

// list returns the elements of a list of limited length, or n itself as the only element.
func (p *parser) list(n *strictyaml.Node, want string) []*strictyaml.Node {
	list := n.Elements()
	switch {
	case n.Kind == strictyaml.Map:
		p.refuse(n.Pos, "%s", n.Mismatch(want))
		return nil
	case len(list) == 0:
		p.refuse(n.Pos, "the list is empty; leave %s out", p.field)
	case len(list) > maxElements:
		p.refuse(n.Pos, "%d elements; the most are %d", len(list), maxElements)
		return nil
	}
	return list
}
