package rollout

import (
	"fmt"

	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/settings/policy"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/target"
	"github.com/seed-c01c3da5/zester/settings/target/peelindex"
)

// A choice holds the peels that a wave may take, by mark, and how many of them.
type choice struct {
	online  []int // indexes in stepper.Peels
	offline int   // selected peels that are not online
	unknown bool  // the presence of some of these is not known
	size    int   // members after the wave has taken its peels
	full    bool  // earlier waves have taken as many peels as the wave may have, or peels of its target
}

// candidates returns the peels that a wave may take: its target selects them and they are not members.
func (s *stepper) candidates(wave policy.Wave) (c choice, err error) {
	selected, err := selects(wave.Target, s.Fleet)
	if err != nil {
		return c, err
	}
	online, had := 0, false
	for i, p := range s.Peels {
		if p.Presence == Online {
			online++
		}
		switch {
		case !selected(p.ID):
		case s.Members.Has(s.marks[i]):
			had = true
		case p.Presence == Online:
			c.online = append(c.online, i)
		default:
			c.offline++
			c.unknown = c.unknown || p.Presence == Unknown
		}
	}
	sorting.Func(c.online, s.byMark)
	members := s.Members.Len()
	most := max(wave.Peels.Of(online), members)
	c.size = min(most, members+len(c.online))
	c.full = members > 0 && online > 0 && (most == members || wave.Target != "" && had)
	return c, nil
}

// selects returns a function that reports whether a target selects a peel.
func selects(text string, fleet *peelindex.Index) (func(target.PeelID) bool, error) {
	if text == "" {
		return func(target.PeelID) bool { return true }, nil
	}
	e, err := target.Parse(text, target.Options{NoSettings: true})
	if err != nil {
		return nil, err
	}
	selected := map[target.PeelID]bool{}
	for _, id := range fleet.Select(e) {
		selected[id] = true
	}
	return func(id target.PeelID) bool { return selected[id] }, nil
}

// choose takes the peels of a wave.
func (s *stepper) choose(wave policy.Wave) Step {
	if hold, held := s.held(); held {
		s.holdDeadline()
		return Step{State: Waits, Reason: hold.Reason, Until: hold.Until}
	}
	if s.Outage.lasts(s.Now) {
		return s.outage()
	}
	s.runDeadline()
	c, err := s.candidates(wave)
	if err != nil {
		return Step{State: Waits, Reason: err.Error()} // another version of zester has written the target
	}
	members := s.Members.Len()
	switch {
	case s.Failed.Len() > wave.MaxFailures.Within(c.size):
		return s.fail(s.failures(c.size))
	case c.size > members, c.full, c.offline == 0:
	case c.unknown:
		return s.waiting(wave, "the master does not know yet which peels are online")
	default:
		return s.waiting(wave, fmt.Sprintf("none of the %d peels of wave %s is online", c.offline, wave.Name))
	}
	s.Stage.Size = c.size
	s.add(c.online[:c.size-members]...)
	return s.enter(record.Applying)
}

// add makes peels members.
func (s *stepper) add(peels ...int) {
	var members, known []record.Mark
	for _, i := range peels {
		members = append(members, s.marks[i])
		for _, text := range s.Peels[i].Errors {
			known = append(known, record.MarkError(s.Peels[i].ID, text))
		}
	}
	if len(peels) > 0 {
		s.Members, s.changed = s.Members.With(members...), true
	}
	if most := max(0, maxKnown-s.Known.Len()); len(known) > 0 {
		s.Known = s.Known.With(known[:min(len(known), most)]...)
	}
}

// waiting waits until the deadline of the wave, and fails past it.
func (s *stepper) waiting(wave policy.Wave, reason string) Step {
	if wave.Deadline == 0 {
		return Step{State: Waits, Reason: reason}
	}
	end := s.Stage.Since.Add(wave.Deadline)
	if s.Now.Before(end) {
		return Step{State: Waits, Reason: reason, Until: end}
	}
	return s.fail(fmt.Sprintf("it is past its deadline of %s: %s", wave.Deadline, reason))
}

// replace takes online peels in the place of members that the revision no longer changes, and reports whether it took
// any.
func (s *stepper) replace(wave policy.Wave) bool {
	missing := s.Stage.Size - s.Members.Len()
	if missing <= 0 {
		return false
	}
	if _, held := s.held(); held {
		return false
	}
	c, err := s.candidates(wave)
	if err != nil {
		return false
	}
	taken := c.online[:min(missing, len(c.online))]
	s.add(taken...)
	return len(taken) > 0
}
