package rollout

import (
	"fmt"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/settings/target"
	"github.com/seed-c01c3da5/zester/settings/target/peelindex"
	"github.com/seed-c01c3da5/zester/settings/top"
)

// A choice holds the peels that a wave may take, by mark, and how many of them.
type choice struct {
	online  []int // indexes in stepper.Peels
	offline int   // selected peels that are not online
	unknown bool  // the presence of some of these is not known
	size    int   // members after the wave has taken its peels
	full    bool  // earlier waves have taken as many peels as the wave may have, or peels of its target
}

// choose returns the peels that a wave may take: its target selects them and they are not members.
func (s *stepper) choose(wave top.Wave) (c choice, err error) {
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
	slices.SortFunc(c.online, s.byMark)
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

// take chooses the peels of a wave.
func (s *stepper) take(wave top.Wave) Step {
	if hold, held := s.held(); held {
		if !s.Stage.Since.IsZero() {
			s.Stage.Since, s.changed = time.Time{}, true // its deadline waits as well
		}
		return Step{State: Waits, Reason: hold.Reason, Until: hold.Until}
	}
	if s.Stage.Since.IsZero() {
		s.Stage.Since, s.changed = s.Now, true
	}
	c, err := s.choose(wave)
	if err != nil {
		return Step{State: Waits, Reason: err.Error()} // another version of zester has written the target
	}
	members, away := s.Members.Len(), s.allAway()
	switch {
	case s.Failed.Len() > wave.MaxFailures.Within(c.size):
		return s.fail(s.failures(c.size))
	case c.size > members, c.full, c.offline == 0, away.since >= awayLimit:
	case c.unknown:
		return s.waiting(wave, "the master does not know yet which peels are online")
	case away.all:
		return Step{State: Waits, Until: s.Now.Add(awayLimit - away.since), Reason: "every peel that the revision changes is away"}
	default:
		return s.waiting(wave, fmt.Sprintf("none of the %d peels of wave %s is online", c.offline, wave.Name))
	}
	s.Stage.Taken, s.Stage.Size, s.changed = s.Now, c.size, true
	s.add(c.online[:c.size-members]...)
	if c.size > members {
		return s.waiting(wave, "its peels are given the revision")
	}
	return s.next()
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

// An absence says whether all peels that the revision changes are away, and since when.
type absence struct {
	all   bool
	since time.Duration // time since the last message of any of them; zero unless all are away
}

func (s *stepper) allAway() absence {
	since := awayLimit
	for _, p := range s.Peels {
		if p.Presence != Away {
			return absence{}
		}
		if !p.Seen.IsZero() {
			since = min(since, s.Now.Sub(p.Seen))
		}
	}
	return absence{true, since}
}

// waiting waits until the deadline of the wave, and fails past it.
func (s *stepper) waiting(wave top.Wave, reason string) Step {
	if wave.Deadline == 0 {
		return Step{State: Waits, Reason: reason}
	}
	end := s.Stage.Since.Add(wave.Deadline)
	if s.Now.Before(end) {
		return Step{State: Waits, Reason: reason, Until: end}
	}
	return s.fail(fmt.Sprintf("it is past its deadline of %s: %s", wave.Deadline, reason))
}

// wait waits until the members of a wave have applied the revision. Members that are away do not count, but at least one
// member has to have applied it.
func (s *stepper) wait(wave top.Wave) Step {
	replaced := s.replace(wave)
	c := s.counts()
	if !replaced && c.Pending == 0 {
		switch {
		case c.Applied+c.Failed > 0, c.Peels == 0, s.allAway().since >= awayLimit:
			s.Stage.Soaking, s.changed = s.Now, true
			if c.Applied+c.Failed == 0 {
				s.Stage.Passed = s.Now // there is no member to watch
			}
			return s.next()
		case s.Stage.Replaced >= maxReplaced:
			return s.fail(fmt.Sprintf("%d peels went away after they were given the revision", s.Stage.Replaced+c.Away))
		}
	}
	reason := fmt.Sprintf("%d of %d peels have applied the revision", c.Applied, c.Peels)
	if c.Away > 0 {
		reason += fmt.Sprintf(", %d went away", c.Away)
	}
	return s.waiting(wave, reason)
}

// replace replaces members that went away before they applied the revision, and members that the revision no longer changes,
// by online peels. It reports whether it added any.
func (s *stepper) replace(wave top.Wave) (replaced bool) {
	var away []int
	for i, p := range s.Peels {
		if m := s.marks[i]; p.Presence == Away && !p.Applied && s.Members.Has(m) && !s.Failed.Has(m) {
			away = append(away, i)
		}
	}
	slices.SortFunc(away, s.byMark)
	if s.Members.Len() >= s.Stage.Size && (len(away) == 0 || s.Stage.Replaced >= maxReplaced) {
		return false
	}
	if _, held := s.held(); held {
		return false
	}
	c, err := s.choose(wave)
	if err != nil {
		return false
	}
	for _, i := range c.online {
		switch {
		case s.Members.Len() < s.Stage.Size:
		case len(away) > 0 && s.Stage.Replaced < maxReplaced:
			s.Members, away = s.Members.Without(s.marks[away[0]]), away[1:]
			s.Stage.Replaced++
		default:
			return replaced
		}
		s.add(i)
		replaced = true
	}
	return replaced
}
