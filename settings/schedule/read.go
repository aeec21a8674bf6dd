package schedule

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/settings/schedule/cron"
	"github.com/seed-c01c3da5/zester/settings/schedule/phrase"
	"github.com/seed-c01c3da5/zester/settings/schedule/window"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// promptModule is the module of an entry that has the fields prompt, model or opts.
const promptModule = "prompt.run"

func (p *parser) module(n *strictyaml.Node) {
	s, ok := p.text(n)
	if ok && !isModule(s) {
		p.refuse(n.Pos, "%.64q is no function name; write it like cmd.run", s)
		return
	}
	p.entry.Module = s
}

func (p *parser) args(n *strictyaml.Node) {
	if n.Kind != strictyaml.Map {
		p.refuse(n.Pos, "%s", n.Mismatch("a map"))
		return
	}
	var secret map[string]any
	if n.FirstSecret() != nil {
		secret = n.Reveal().(map[string]any)
	}
	p.entry.SetArgs(n.Any().(map[string]any), secret)
}

// prompt reads prompt, model and opts.
func (p *parser) prompt(n *strictyaml.Node) {
	switch want := strictyaml.String; {
	case p.field == "opts" && n.Kind != strictyaml.Map:
		p.refuse(n.Pos, "%s", n.Mismatch("a map"))
	case p.field != "opts" && n.Kind != want:
		p.refuse(n.Pos, "%s", n.Mismatch(want.String()))
	default:
		if p.shorthand == nil {
			p.shorthand, p.shorthandSecrets = make(map[string]any), make(map[string]any)
		}
		p.shorthand[p.field], p.shorthandSecrets[p.field] = n.Any(), n.Reveal()
	}
}

// namedIntervals are the intervals that have a name. A day is 24 hours, as intervals follow elapsed time; months
// follow the calendar.
var namedIntervals = map[string]Interval{
	"hourly":  {Duration: time.Hour},
	"daily":   {Duration: 24 * time.Hour},
	"weekly":  {Duration: 7 * 24 * time.Hour},
	"monthly": {Months: 1},
}

func (p *parser) interval(n *strictyaml.Node) {
	if s, ok := n.Value.(string); ok {
		if i, ok := namedIntervals[s]; ok {
			p.entry.Clock.Interval = i
			return
		}
	}
	if d, ok := p.duration(n); ok {
		p.period(n, d)
	}
}

func (p *parser) period(n *strictyaml.Node, d time.Duration) {
	switch {
	case d < MinInterval:
		p.refuse(n.Pos, "%v is too short; the shortest interval is 1s", n.Value)
	case d > MaxInterval:
		p.refuse(n.Pos, "%v is too long; the longest interval is 10 years (3650d)", n.Value)
	default:
		p.entry.Clock.Interval = Interval{Duration: d}
	}
}

func (p *parser) cron(n *strictyaml.Node) {
	list := n.List
	switch {
	case n.Kind == strictyaml.String:
		list = []*strictyaml.Node{n}
	case n.Kind != strictyaml.List:
		p.refuse(n.Pos, "%s", n.Mismatch("a cron expression or a list of them"))
		return
	case len(list) == 0:
		p.refuse(n.Pos, "the list of cron expressions is empty")
	case len(list) > maxCrons:
		p.refuse(n.Pos, "%d cron expressions; the most are %d", len(list), maxCrons)
		return
	}
	for _, n := range list {
		if s, ok := p.text(n); ok {
			p.expression(n.Pos, s)
		}
	}
}

func (p *parser) expression(at strictyaml.Pos, text string) {
	c, zone, err := cron.Parse(text)
	if err != nil {
		p.refuse(at, "%v", err)
		return
	}
	p.entry.Clock.Cron = append(p.entry.Clock.Cron, c)
	if zone != "" {
		p.setZone(at, zone)
	}
}

// when sets the interval or the cron expressions that a phrase means.
func (p *parser) when(n *strictyaml.Node) {
	s, ok := p.text(n)
	if !ok {
		return
	}
	t, err := phrase.Parse(s)
	if err != nil {
		p.refuse(n.Pos, "when %.80q: %v", s, err)
		return
	}
	p.entry.Clock.When = s
	if t.Zone != "" {
		p.setZone(n.Pos, t.Zone)
	}
	if t.Interval > 0 {
		p.period(n, t.Interval)
	}
	if t.After > 0 {
		p.delayed(n, t.After)
	}
	for _, text := range t.Cron {
		p.narrowed(n.Pos, text, t.Days)
	}
}

func (p *parser) delayed(n *strictyaml.Node, after time.Duration) {
	if after > MaxInterval {
		p.refuse(n.Pos, "%v is too long; the longest delay is 10 years (3650d)", n.Value)
		return
	}
	p.entry.Clock.After = after
}

// narrowed adds an expression that fires on some of its days.
func (p *parser) narrowed(at strictyaml.Pos, text string, days cron.Days) {
	p.expression(at, text)
	last := len(p.entry.Clock.Cron) - 1
	if last < 0 || days == (cron.Days{}) {
		return
	}
	narrowed, err := p.entry.Clock.Cron[last].On(days)
	if err != nil {
		p.refuse(at, "%v", err)
		return
	}
	p.entry.Clock.Cron[last] = narrowed
}

func (p *parser) instants(n *strictyaml.Node) {
	for _, n := range p.list(n, "an instant or a list of them") {
		if at, ok := p.instant(n); ok {
			p.entry.Clock.At = append(p.entry.Clock.At, at)
		}
	}
	sorting.Func(p.entry.Clock.At, time.Time.Compare)
	p.entry.Clock.At = slices.Compact(p.entry.Clock.At)
}

func (p *parser) timezone(n *strictyaml.Node) {
	if s, ok := p.text(n); ok {
		p.setZone(n.Pos, s)
	}
}

// setZone sets the zone of the entry, which comes from timezone, CRON_TZ or a phrase, and refuses a second, different
// one.
func (p *parser) setZone(at strictyaml.Pos, name string) {
	if _, err := window.Zone(name); err != nil {
		p.refuse(at, "%v", err)
		return
	}
	if have := p.entry.Clock.Zone; have != "" && have != name {
		p.refuse(at, "zone %s differs from %s (%s); an entry has one zone", name, have, p.zoneAt)
		return
	}
	p.entry.Clock.Zone, p.zoneAt = name, at
}

func (p *parser) splay(n *strictyaml.Node) {
	if n.Kind == strictyaml.Map {
		splayRange.set(p, n)
		if s := p.entry.Splay; s.Min > 0 && s.Min >= s.Max && n.Get("max") != nil {
			p.refuse(n.Pos, "min %v is not below max %v", n.Get("min").Value, n.Get("max").Value)
		}
		return
	}
	if d, ok := p.duration(n); ok {
		if d > MaxInterval {
			p.refuse(n.Pos, "%v is too long; the longest splay is 10 years (3650d)", n.Value)
		}
		p.entry.Splay.Max = d
	}
}

func (p *parser) hours(n *strictyaml.Node) {
	hours := &p.entry.Windows.Rules.Hours
	for _, n := range p.list(n, "a window or a list of them") {
		s, ok := p.text(n)
		if !ok {
			continue
		}
		h, err := window.ParseHours(s)
		if err != nil {
			p.refuse(n.Pos, "%v", err)
			continue
		}
		*hours = append(*hours, h)
	}
	sorting.Func(*hours, window.Hours.Compare)
	*hours = slices.Compact(*hours)
}

func (p *parser) group(n *strictyaml.Node) {
	if s, ok := p.text(n); ok {
		if !isName(s) {
			p.refuse(n.Pos, "%.128q is no group; it has 1 to 128 of the characters A-Z a-z 0-9 _ . -", s)
		}
		p.entry.Overlap.Group = s
	}
}

func (p *parser) returnJob(n *strictyaml.Node) {
	if n.Value == string(ReturnFailures) {
		p.entry.ReturnJob = ReturnFailures
		return
	}
	b, ok := n.Value.(bool)
	switch word, _ := n.Value.(string); {
	case word == "always":
		p.refuse(n.Pos, "always is written as true")
	case word == "never":
		p.refuse(n.Pos, "never is written as false")
	case !ok:
		p.refuse(n.Pos, "%s", strings.Replace(n.Mismatch(strictyaml.Bool.String()), strictyaml.Bool.String(),
			"true, false or failures", 1))
	case b:
		p.entry.ReturnJob = ReturnAlways
	}
}

func (p *parser) needed(n *strictyaml.Node) {
	if s, ok := p.text(n); ok {
		if !isName(s) {
			p.refuse(n.Pos, "%.128q is no entry's name", s)
		}
		p.entry.Needs.Entry = s
	}
}

// isName reports whether s can name an entry or a group.
func isName(s string) bool {
	return len(s) >= 1 && len(s) <= 128 && only(s, "_.-")
}

// isModule reports whether s has two to four parts joined by dots.
func isModule(s string) bool {
	parts := strings.Split(s, ".")
	for _, part := range parts {
		if part == "" || len(part) > 64 || !only(part, "_") {
			return false
		}
	}
	return len(parts) >= 2 && len(parts) <= 4
}

// only reports whether s has only ASCII letters, digits and the given other characters.
func only(s, others string) bool {
	for _, c := range []byte(s) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case strings.IndexByte(others, c) < 0:
			return false
		}
	}
	return true
}

// refuse records a mistake in the field that is being read.
func (p *parser) refuse(at strictyaml.Pos, format string, args ...any) {
	p.errs = append(p.errs, p.mistake(at, format, args...))
}

// incomplete records a mistake that another file can mend when the two are merged.
func (p *parser) incomplete(at strictyaml.Pos, format string, args ...any) {
	p.missing = append(p.missing, p.mistake(at, format, args...))
}

func (p *parser) mistake(at strictyaml.Pos, format string, args ...any) strictyaml.Error {
	path := "schedule." + p.entry.Name
	if p.field != "" {
		path += "." + p.field
	}
	return strictyaml.Error{Pos: at, Path: path, Msg: fmt.Sprintf(format, args...)}
}
