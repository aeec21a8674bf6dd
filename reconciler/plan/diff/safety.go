// File safety.go returns how a change would go out: its limits, its waves and gates, a freeze that holds it, and the
// rules that it weakens. Call [SafetyOf] with the plans of both revisions. It is pure: time is an argument.

package diff

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/settings/policy"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Safety holds the limits, waves and freezes of the base, which govern the change to the head. The first revision of a
// fleet, and one that changes no peel, have neither waves nor a freeze.
type Safety struct {
	Limits policy.Limits `json:"limits"`
	// Weakens are the rules of the base that go or get wider with the head: see [policy.Safety.Weakened]. If there is
	// one, the change waits for approval, also if it changes no peel. The first revision of a fleet weakens nothing.
	Weakens []string `json:"weakens,omitempty"`
	Waves   []Wave   `json:"waves,omitempty"`
	Freeze  *Freeze  `json:"freeze,omitempty"` // nil if none holds when the change would be merged
}

// A Wave is one step of the rollout. After the last one the revision goes to all peels.
type Wave struct {
	Name   string `json:"name"`
	Peels  string `json:"peels"`            // a number or a share, as in zester.yaml
	Target string `json:"target,omitempty"` // selects the peels of the wave, empty for all
	// peels with the revision after the wave, if all are online and earlier waves took peels of its target
	Reach       int    `json:"reach"`
	Soak        string `json:"soak,omitempty"`
	MaxFailures string `json:"max_failures"`
	Gate        string `json:"gate,omitempty"` // "manual": a person lets the next wave begin
	Deadline    string `json:"deadline,omitempty"`
}

// A Freeze is a freeze that holds the revision.
type Freeze struct {
	Reason string          `json:"reason"`          // the freezes that hold, as in zester.yaml
	Until  time.Time       `json:"until,omitzero"`  // zero: for more than two years
	Peels  []target.PeelID `json:"peels,omitempty"` // that change and are frozen, sorted
}

// SafetyOf returns how a change of the peels touched would go out at a time.
func SafetyOf(base, head *plan.Plan, touched []target.PeelID, at time.Time) (s Safety, err error) {
	s.Limits = base.Limits
	if base.TopEmpty {
		return s, nil
	}
	if s.Weakens = base.Safety().Weakened(head.Safety()); len(touched) == 0 {
		return s, nil
	}
	for _, w := range base.Waves {
		peels, err := among(head, w.Target, touched)
		if err != nil {
			return s, fmt.Errorf("cannot find the peels of wave %s: %w", w.Name, err)
		}
		s.Waves = append(s.Waves, Wave{
			Name:        w.Name,
			Peels:       w.Peels.String(),
			Target:      w.Target,
			Reach:       min(w.Peels.Of(len(touched)), len(peels)),
			Soak:        span(w.Soak),
			MaxFailures: w.MaxFailures.String(),
			Gate:        string(w.Gate),
			Deadline:    span(w.Deadline),
		})
	}
	s.Freeze, err = freezeAt(base.Freezes, head, touched, at)
	return s, err
}

// SafetyReason says that a change weakens rules, for people. weakens is not empty.
func SafetyReason(weakens []string) string {
	return "it weakens the rules in force: " + strings.Join(weakens, "; ")
}

// SafetyHash returns the hash of a plan with the given hash that weakens rules. So the approval of a plan is for these
// rules.
func SafetyHash(plan string, weakens []string) string {
	if len(weakens) == 0 {
		return plan
	}
	sum := sha256.Sum256([]byte(plan + " " + strings.Join(weakens, "\n")))
	return hex.EncodeToString(sum[:])
}

// freezeAt returns the freezes that hold the change of the peels touched at a time, nil if none does.
func freezeAt(freezes []policy.Freeze, head *plan.Plan, touched []target.PeelID, at time.Time) (*Freeze, error) {
	var concerned []policy.Freeze
	var reasons []string
	frozen := map[target.PeelID]bool{}
	for _, f := range freezes {
		peels, err := among(head, f.Target, touched)
		if err != nil {
			return nil, fmt.Errorf("cannot find the frozen peels: %w", err)
		}
		if len(peels) == 0 {
			continue
		}
		if concerned = append(concerned, f); f.Holds(at) {
			reasons = append(reasons, f.String())
			for _, id := range peels {
				frozen[id] = true
			}
		}
	}
	if len(reasons) == 0 {
		return nil, nil
	}
	until, _ := policy.Thaw(concerned, at)
	peels := slices.DeleteFunc(slices.Clone(touched), func(id target.PeelID) bool { return !frozen[id] })
	return &Freeze{Reason: strings.Join(reasons, "; "), Until: until, Peels: peels}, nil
}

// among returns the peels of a list that an expression selects, all of them if it is empty.
func among(p *plan.Plan, expr string, of []target.PeelID) ([]target.PeelID, error) {
	if expr == "" {
		return of, nil
	}
	e, err := target.Parse(expr, target.Options{NoSettings: true})
	if err != nil {
		return nil, err
	}
	selected := map[target.PeelID]bool{}
	for _, id := range p.Select(e) {
		selected[id] = true
	}
	return slices.DeleteFunc(slices.Clone(of), func(id target.PeelID) bool { return !selected[id] }), nil
}

// span returns a duration without units that are zero, "" for 0.
func span(d time.Duration) string {
	if d == 0 {
		return ""
	}
	text := d.String()
	if d%time.Minute == 0 {
		text = strings.TrimSuffix(text, "0s")
	}
	if d%time.Hour == 0 {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// Lines returns lines for people about how the change would go out. touched is the number of peels that change.
func (s Safety) Lines(touched int) (lines []string) {
	lines = append(lines, fmt.Sprintf("limits: change: %s, remove: %s, peels: %s", s.Limits.Change, s.Limits.Remove,
		s.Limits.Peels))
	if len(s.Waves) > 0 {
		var steps []string
		for _, w := range s.Waves {
			steps = append(steps, w.String())
		}
		lines = append(lines, fmt.Sprintf("waves: %s → all %d", strings.Join(steps, " → "), touched))
	}
	for _, w := range s.Waves {
		if w.Reach == 0 {
			lines = append(lines, fmt.Sprintf("wave %s takes none of the changed peels: no peel is watched in it",
				w.Name))
		}
	}
	if f := s.Freeze; f != nil {
		until := "for more than two years"
		if !f.Until.IsZero() {
			until = "until " + f.Until.Format("2006-01-02 15:04 MST")
		}
		lines = append(
			lines, fmt.Sprintf(
				"frozen %s: %s; %s; zester sync approve COMMIT --override-freeze REASON after the merge lets "+
					"it out before",
				until, f.Reason, count(f.Peels),
			),
		)
	}
	return lines
}

// String describes a wave: "canary (2 of web-*, soak 10m, manual gate)".
func (w Wave) String() string {
	words := []string{fmt.Sprintf("%s (%d", w.Name, w.Reach)}
	if w.Target != "" {
		words[0] += " of " + w.Target
	}
	if w.Soak != "" {
		words = append(words, "soak "+w.Soak)
	}
	if w.Deadline != "" {
		words = append(words, "deadline "+w.Deadline)
	}
	if w.MaxFailures != "0" {
		words = append(words, w.MaxFailures+" may fail")
	}
	if w.Gate != "" {
		words = append(words, w.Gate+" gate")
	}
	return strings.Join(words, ", ") + ")"
}

// count returns the number of peels and the first three names.
func count(peels []target.PeelID) string {
	n := "1 peel"
	if len(peels) != 1 {
		n = fmt.Sprintf("%d peels", len(peels))
	}
	return n + ": " + plan.FirstOf(peels, 3)
}
