package schedule

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/settings/schedule/window"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// complete refuses an entry that lacks a required field, or has fields that contradict each other.
func (p *parser) complete(at strictyaml.Pos) {
	e := p.entry
	switch {
	case e.Module == "":
		p.refuse(at, "module is missing: the function to run, such as cmd.run")
	case p.shorthand != nil && p.shorthand["prompt"] == nil:
		p.refuse(at, "prompt is missing: model and opts belong to one")
	}
	if e.Clock.IsZero() && e.Needs.Entry == "" {
		last := len(timings) - 1
		p.refuse(at, "a timing is missing: %s or %s", strings.Join(timings[:last], ", "), timings[last])
	}
	interval := e.Clock.Interval != Interval{}
	p.goesWith(interval, "interval_from", "an interval")
	p.goesWith(interval && e.Clock.IntervalFrom == FromEpoch, "phase", "an interval and interval_from: epoch")
	p.goesWith(len(e.Clock.Cron) > 0, "dst_gap", "cron or when")
	p.goesWith(len(e.Clock.Cron) > 0, "dst_overlap", "cron or when")
	if pair, ok := p.at["phase"]; ok && e.Clock.Phase >= shortest(e.Clock.Interval) && interval {
		p.refuse(pair.Value.Pos, "phase %v is not below the interval", pair.Value.Value)
	}
	if pair, ok := p.at["until"]; ok && !e.Life.NotBefore.Before(e.Life.Until) {
		p.refuse(pair.Value.Pos, "until is not after not_before")
	}
	if pair, ok := p.at["pause_after_errors"]; ok && e.Failures.PauseAfter > 0 && e.Failures.Breaker.Threshold > 0 {
		p.refuse(pair.KeyPos, "pause_after_errors would end the probes of the breaker (%s); leave one of them out",
			p.at["breaker"].KeyPos)
	}
	if pair, ok := p.at["not_on"]; ok && excludesAllDays(e.Windows.Rules) {
		p.refuse(
			pair.KeyPos,
			"not_on leaves no day on which the entry may run; write enabled: false to keep it from running",
		)
	}
	if e.Needs.Entry == e.Name {
		p.refuse(p.at["needs"].Value.Pos, "an entry cannot need itself")
	}
}

// goesWith refuses the field called name if the field that it modifies is not set.
func (p *parser) goesWith(set bool, name, other string) {
	if pair, ok := p.at[name]; ok && !set {
		p.refuse(pair.KeyPos, "%s says something about %s, which the entry does not have", name, other)
	}
}

func excludesAllDays(r window.Rules) bool {
	on := r.On
	if on.Empty() {
		on.Weekdays = 1<<7 - 1
	}
	return len(on.Dates)+len(on.Times)+len(on.Calendars) == 0 && on.Weekdays&^r.NotOn.Weekdays == 0
}

// shortest returns the shortest duration of an interval; a month has at least 28 days.
func shortest(i Interval) time.Duration {
	return i.Duration + time.Duration(i.Months)*28*24*time.Hour
}

// checkNeeds removes the entries from the set whose needs form a circle or name no entry of the document n. It keeps
// an entry that needs an invalid one; it runs as if the invalid one never ran.
func checkNeeds(s Set, n *strictyaml.Node) strictyaml.Errors {
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
		} else if circle := circleOfNeeds(s, name); circle != nil {
			msg = "needs go round in a circle: " + strings.Join(circle, " needs ")
		}
		if msg != "" {
			errs = append(errs, strictyaml.Error{
				Pos:  fieldPos(n, name, "needs"),
				Path: "schedule." + name + ".needs",
				Msg:  msg,
			})
			bad = append(bad, name)
		}
	}
	for _, name := range bad {
		delete(s, name)
	}
	return errs
}

// circleOfNeeds returns the names from the entry back to itself along Needs, nil if there is no such path.
func circleOfNeeds(s Set, name string) []string {
	path := []string{name}
	for e := s[name]; e != nil && len(path) <= len(s); e = s[e.Needs.Entry] {
		if e.Needs.Entry == "" {
			return nil
		}
		path = append(path, e.Needs.Entry)
		if e.Needs.Entry == name {
			return path
		}
	}
	return nil
}

// checkGroups removes the entries from the set whose maxrunning or if_running differ from those of the first entry
// of their group, in the order of names.
func checkGroups(s Set, n *strictyaml.Node) strictyaml.Errors {
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
				Pos: fieldPos(n, name, "group"), Path: "schedule." + name + ".group",
				Msg: fmt.Sprintf("maxrunning %d and if_running %s differ from those of entry %s (%d, %s); "+
					"a group shares them",
					e.Overlap.MaxRunning, e.Overlap.IfRunning, f.Name, f.Overlap.MaxRunning, f.Overlap.IfRunning),
			})
			delete(s, name)
		}
	}
	return errs
}

// fieldPos returns the position of a field of an entry in the document n.
func fieldPos(n *strictyaml.Node, entry, field string) strictyaml.Pos {
	if v := n.Get(entry).Get(field); v != nil {
		return v.Pos
	}
	return n.Pos
}
