package top

import (
	"cmp"
	"slices"
	"time"
)

// Safety is how a revision limits its rollout: limits, waves and freezes. A change from one revision to another is
// subject to [Safety.Stricter] of both, so no commit removes its own canary, gate, limit or freeze.
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

// Stricter returns the Safety of a change from s, which is in force, to other: the lower limit of each kind, the waves of
// both by [StricterWaves], and the freezes of both.
func (s Safety) Stricter(other Safety) Safety {
	limits := s.LimitsOrDefault().Stricter(other.LimitsOrDefault())
	freezes := slices.Clone(s.Freezes)
	for _, f := range other.Freezes {
		if !slices.ContainsFunc(freezes, f.equal) {
			freezes = append(freezes, f)
		}
	}
	return Safety{Limits: &limits, Waves: StricterWaves(s.Waves, other.Waves), Freezes: freezes}
}

// StricterWaves returns the waves for a change from a revision with the waves a to one with the waves b.
//
// Two waves of one name become one with fewer peels, the longer soak, fewer failures, a manual gate if either has one, and
// the shorter deadline. A wave that only one revision has keeps its position among the others, and has at most as many
// peels as the next wave of the other revision.
//
// Two waves of one name with different targets, or with a target and a number, stay two waves: a target that selects
// no peel must not replace a canary. The wave with a target comes before the one with a number, and the wave of a
// before the one of b.
func StricterWaves(a, b []Wave) (waves []Wave) {
	for len(a) > 0 && len(b) > 0 {
		x, y := a[0], b[0]
		switch {
		case x.Name == y.Name && x.Target == y.Target:
			waves = append(waves, x.stricter(y))
			a, b = a[1:], b[1:]
		case x.Name == y.Name && x.Target != "":
			waves, a, b = append(waves, x.stricter(y)), a[1:], slices.Concat([]Wave{y.stricter(x)}, b[1:])
		case x.Name == y.Name:
			waves, b, a = append(waves, y.stricter(x)), b[1:], slices.Concat([]Wave{x.stricter(y)}, a[1:])
		case takesFirst(a, b):
			x.Peels = x.Peels.stricter(y.Peels)
			waves, a = append(waves, x), a[1:]
		default:
			y.Peels = y.Peels.stricter(x.Peels)
			waves, b = append(waves, y), b[1:]
		}
	}
	return slices.Concat(waves, a, b)
}

// takesFirst reports whether the first wave of a comes before the first wave of b, which has another name.
func takesFirst(a, b []Wave) bool {
	x, y := a[0], b[0]
	inB := slices.ContainsFunc(b, func(w Wave) bool { return w.Name == x.Name })
	inA := slices.ContainsFunc(a, func(w Wave) bool { return w.Name == y.Name })
	switch {
	case inA != inB:
		return inA
	case x.Target != "" || y.Target != "":
		return x.Target != ""
	}
	return cmp.Or(cmp.Compare(x.Peels.Count, y.Peels.Count), cmp.Compare(x.Peels.Percent, y.Peels.Percent)) <= 0
}

// stricter returns w with the stricter value of each field except the target.
func (w Wave) stricter(o Wave) Wave {
	w.Peels = w.Peels.stricter(o.Peels)
	w.Soak = max(w.Soak, o.Soak)
	w.MaxFailures = w.MaxFailures.stricter(o.MaxFailures)
	w.Gate = max(w.Gate, o.Gate) // manual is above auto
	w.Deadline = shorter(w.Deadline, o.Deadline)
	return w
}

func (q Quantity) stricter(o Quantity) Quantity {
	return Quantity{min(q.Count, o.Count), min(q.Percent, o.Percent)}
}

// shorter returns the shorter of two deadlines; zero is no deadline.
func shorter(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}
