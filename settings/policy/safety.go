package policy

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Safety is how a revision limits the change that replaces it: limits, waves and freezes. The rules of the revision in
// force govern the next one, as the rules of a protected branch do. A revision with weaker rules than those in force is
// a change that a person has to approve: see [Safety.Weakened].
type Safety struct {
	Limits  *Limits  `json:"limits,omitempty"` // nil is [DefaultLimits]
	Waves   []Wave   `json:"waves,omitempty"`
	Freezes []Freeze `json:"freezes,omitempty"`
}

// LimitsOrDefault returns the limits.
func (s Safety) LimitsOrDefault() Limits {
	if s.Limits == nil {
		return DefaultLimits
	}
	return *s.Limits
}

// Weakened describes each rule of s, the rules in force, that goes or gets wider with next. It returns nothing only if
// next has every freeze of s, limits that are as low, and waves that are as strict: see [weakenedWaves]. Added freezes,
// added waves and lower limits weaken nothing. A rule that next replaces by another one counts as gone, also if the
// other one would hold as much back.
func (s Safety) Weakened(next Safety) (all []string) {
	was, is := s.LimitsOrDefault(), next.LimitsOrDefault()
	for _, l := range []struct {
		name    string
		was, is Limit
	}{{"change", was.Change, is.Change}, {"remove", was.Remove, is.Remove}, {"peels", was.Peels, is.Peels}} {
		if l.is > l.was {
			all = append(all, fmt.Sprintf("limit %s is %s in place of %s", l.name, l.is, l.was))
		}
	}
	all = append(all, weakenedWaves(s.Waves, next.Waves)...)
	for _, f := range s.Freezes {
		if !slices.ContainsFunc(next.Freezes, f.equal) {
			all = append(all, fmt.Sprintf("freeze (%s) goes", f))
		}
	}
	return all
}

// weakenedWaves describes how the waves next are weaker than was. Each wave has to stay, under its name, with its
// target and in its order. A wave may be added anywhere if it takes no more peels than the next wave that stays, as
// that one has not passed yet.
func weakenedWaves(was, next []Wave) (all []string) {
	rest := next
	for _, w := range was {
		named := func(n Wave) bool { return n.Name == w.Name }
		at := slices.IndexFunc(rest, named)
		switch {
		case at >= 0:
		case slices.ContainsFunc(next, named):
			all = append(all, fmt.Sprintf("wave %s comes earlier", w.Name))
			continue
		default:
			all = append(all, fmt.Sprintf("wave %s goes", w.Name))
			continue
		}
		for _, added := range rest[:at] {
			if !added.takesWithin(w) {
				all = append(all, fmt.Sprintf("wave %s comes before wave %s and may take other peels", added.Name,
					w.Name))
			}
		}
		all = append(all, w.weakened(rest[at])...)
		rest = rest[at+1:]
	}
	return all
}

// takesWithin reports whether w takes only peels that the wave o may take, and no more of them, in every fleet.
func (w Wave) takesWithin(o Wave) bool {
	return (o.Target == "" || w.Target == o.Target) && (w.Peels.Count <= 1 || w.Peels.within(o.Peels))
}

// weakened describes how next, a wave of the same name, is weaker than w.
func (w Wave) weakened(next Wave) (all []string) {
	add := func(weaker bool, rule, was, is string) {
		if weaker {
			all = append(all, fmt.Sprintf("wave %s: %s %s in place of %s", w.Name, rule, is, was))
		}
	}
	took := func(w Wave) string { return cmp.Or(w.Target, w.Peels.String()) }
	add(next.Target != w.Target || !next.takesWithin(w), "peels", took(w), took(next))
	add(next.Soak < w.Soak, "soak", w.Soak.String(), next.Soak.String())
	add(next.MaxFailures.Count > 0 && next.MaxFailures.Percent > 0 && !next.MaxFailures.within(w.MaxFailures),
		"max_failures", w.MaxFailures.String(), next.MaxFailures.String())
	add(next.Gate < w.Gate, "gate", string(w.Gate), "auto") // manual is above auto
	add(w.Deadline > 0 && (next.Deadline == 0 || next.Deadline > w.Deadline), "deadline", w.Deadline.String(),
		deadlineText(next.Deadline))
	return all
}

func deadlineText(d time.Duration) string {
	if d == 0 {
		return "none"
	}
	return d.String()
}

// within reports whether both limits of q are at most those of o.
func (q Quantity) within(o Quantity) bool { return q.Count <= o.Count && q.Percent <= o.Percent }
