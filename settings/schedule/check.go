package schedule

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// complete checks what an entry must have to run, and what must go together.
func (p *parser) complete(at strictyaml.Pos) {
	e := p.entry
	switch {
	case e.Module == "":
		p.refuse(at, "module is missing: the function to run, such as cmd.run")
	case p.shorthand != nil && p.shorthand["prompt"] == nil:
		p.refuse(at, "prompt is missing: model and opts belong to one")
	}
	if e.Clock.none() && e.Needs.Entry == "" {
		last := len(timings) - 1
		p.refuse(at, "a timing is missing: %s or %s", strings.Join(timings[:last], ", "), timings[last])
	}
	interval := e.Clock.Interval != Interval{}
	p.goesWith(interval, "interval_from", "an interval")
	p.goesWith(interval && e.Clock.IntervalFrom == FromEpoch, "phase", "an interval and interval_from: epoch")
	p.goesWith(len(e.Clock.Cron) > 0, "dst_gap", "cron or when")
	p.goesWith(len(e.Clock.Cron) > 0, "dst_overlap", "cron or when")
	if pair, ok := p.at["phase"]; ok && e.Clock.Phase >= e.Clock.Interval.shortest() && interval {
		p.refuse(pair.Value.Pos, "phase %v is not below the interval", pair.Value.Value)
	}
	if pair, ok := p.at["until"]; ok && !e.Life.NotBefore.Before(e.Life.Until) {
		p.refuse(pair.Value.Pos, "until is not after not_before")
	}
	if pair, ok := p.at["pause_after_errors"]; ok && e.Failures.PauseAfter > 0 && e.Failures.Breaker.Threshold > 0 {
		p.refuse(pair.KeyPos, "pause_after_errors would end the probes of the breaker (%s); leave one of them out", p.at["breaker"].KeyPos)
	}
	if pair, ok := p.at["not_on"]; ok && e.Windows.shut() {
		p.refuse(pair.KeyPos, "not_on leaves no day on which the entry may run; write enabled: false to keep it from running")
	}
	if e.Needs.Entry == e.Name {
		p.refuse(p.at["needs"].Value.Pos, "an entry cannot need itself")
	}
}

// goesWith refuses a field that says nothing without another.
func (p *parser) goesWith(there bool, name, other string) {
	if pair, ok := p.at[name]; ok && !there {
		p.refuse(pair.KeyPos, "%s says something about %s, which the entry does not have", name, other)
	}
}

func (c Clock) none() bool {
	return c.Interval == Interval{} && len(c.Cron) == 0 && len(c.At) == 0 && c.After == 0
}

// shut reports whether the windows exclude all weekdays.
func (w Windows) shut() bool {
	on := w.Rules.On
	if on.Empty() {
		on.Weekdays = 1<<7 - 1
	}
	return len(on.Dates)+len(on.Times)+len(on.Calendars) == 0 && on.Weekdays&^w.Rules.NotOn.Weekdays == 0
}

// shortest is the least that an interval can last.
func (i Interval) shortest() time.Duration {
	return i.Duration + time.Duration(i.Months)*28*24*time.Hour
}

// checkNeeds takes entries out of the set whose needs go round in a circle, and refuses needs of what is
// not in the document n. An entry that needs one with a mistake stays: it waits as if that one never ran.
func (s Set) checkNeeds(n *strictyaml.Node) strictyaml.Errors {
	var errs strictyaml.Errors
	var bad []string
	for _, name := range slices.Sorted(maps.Keys(s)) {
		needed := s[name].Needs.Entry
		if needed == "" {
			continue
		}
		msg := ""
		if n.Get(needed) == nil {
			msg = fmt.Sprintf("there is no entry %s in this schedule", needed)
		} else if circle := s.circle(name); circle != nil {
			msg = "needs go round in a circle: " + strings.Join(circle, " needs ")
		}
		if msg != "" {
			errs = append(errs, strictyaml.Error{Pos: place(n, name, "needs"), Path: "schedule." + name + ".needs", Msg: msg})
			bad = append(bad, name)
		}
	}
	for _, name := range bad {
		delete(s, name)
	}
	return errs
}

// circle follows needs from an entry; nil if they do not come back to it.
func (s Set) circle(name string) []string {
	way := []string{name}
	for e := s[name]; e != nil && len(way) <= len(s); e = s[e.Needs.Entry] {
		if e.Needs.Entry == "" {
			return nil
		}
		way = append(way, e.Needs.Entry)
		if e.Needs.Entry == name {
			return way
		}
	}
	return nil
}

// checkGroups takes entries out of the set that do not agree with the first of their group, by name.
func (s Set) checkGroups(n *strictyaml.Node) strictyaml.Errors {
	var errs strictyaml.Errors
	first := make(map[string]*Entry)
	for _, name := range slices.Sorted(maps.Keys(s)) {
		e := s[name]
		if e.Overlap.Group == "" || !e.Enabled {
			continue
		}
		f := first[e.Overlap.Group]
		if f == nil {
			first[e.Overlap.Group] = e
		} else if f.Overlap != e.Overlap {
			errs = append(errs, strictyaml.Error{
				Pos: place(n, name, "group"), Path: "schedule." + name + ".group",
				Msg: fmt.Sprintf("maxrunning %d and if_running %s differ from those of entry %s (%d, %s); a group shares them",
					e.Overlap.MaxRunning, e.Overlap.IfRunning, f.Name, f.Overlap.MaxRunning, f.Overlap.IfRunning),
			})
			delete(s, name)
		}
	}
	return errs
}

// place is where an entry of the document n has a field.
func place(n *strictyaml.Node, entry, field string) strictyaml.Pos {
	if v := n.Get(entry).Get(field); v != nil {
		return v.Pos
	}
	return n.Pos
}
