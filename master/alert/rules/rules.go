// Package rules decides which alerts begin, grow and end, and which messages are due. It is pure: [Step] takes the
// previous alerts, the rules and the present problems, and returns the present alerts; [Alert.Due] returns the message
// that is due to a receiver.
//
// An alert belongs to a rule and an entry, or to a rule and a trouble of whole peels or of revisions. Its group is the
// peels that have the trouble now. An alert begins when its group has been large enough (min_peels of the rule) for the
// time under for:. It ends when the group has been too small for 5 minutes. If it begins again within a day of its end,
// those 5 minutes are multiplied by four, each time again, up to a day. So a trouble that comes and goes causes a few
// messages, and then one alert that lasts. An alert that lasts grows
//   - when it has a kind of trouble that it has not had since it began, such as missed besides failed;
//   - when its group has at least twice the peels of the last message, such as two instead of one, but at most once in
//     5 minutes.
//
// Guarantees: peels cannot fill the memory of masters or the chats of people, and one peel cannot prevent the alerts of
// other peels. For that, a rule has room for 100 alerts about entries. Each counts for the peel of its group for which
// fewest count: at most 10 of a rule count for one peel, and at most 50 are about one peel alone. An alert gives its
// room back when it has ended, its receivers have got the message about the end, an hour has passed since it began, and
// another one needs the room. The entries for which there is no room share one alert of their rule, too_many_alerts,
// which names the peels. A receiver that was away gets one message about each alert, with its newest state; no messages
// are queued.
package rules

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/master/outbound"
	"github.com/seed-c01c3da5/zester/settings/policy"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Bounds.
const (
	// MaxOfRule is the highest number of alerts of one rule about entries. A rule has at most one alert of each other
	// kind.
	MaxOfRule  = 100
	maxAlone   = MaxOfRule / 2      // of them, about one peel alone
	maxOfPeel  = MaxOfRule / 10     // of them, that count for one peel
	roomKept   = time.Hour          // least time from the beginning of an alert until it gives its room back
	growEvery  = 5 * time.Minute    // least time between two messages about more peels
	maxNames   = 5                  // peels that a message names
	maxText    = 256                // bytes of a reason or error
	endAfter   = 5 * time.Minute    // for which the trouble has to be gone before an alert ends
	endMost    = 24 * time.Hour     // longest such time of an alert that came and went
	memory     = 24 * time.Hour     // for which an alert is kept after its end
	memoryMost = 7 * 24 * time.Hour // longest such time if a receiver has not got the message about the end
)

// tooMany is the trouble of the alert about the entries for which there is no room.
const tooMany verdict.Kind = "too_many_alerts"

// A Rule is a rule of zester.yaml with the peels that its target selects.
type Rule struct {
	policy.Alert
	Peels   int                         // number of selected peels
	Selects func(id target.PeelID) bool // nil: all peels are selected
}

// receivers returns the receivers in all that the rule notifies.
func (r *Rule) receivers(all []string) []string {
	if len(r.Notify) == 0 {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(name string) bool { return !slices.Contains(r.Notify, name) })
}

// An Alert is one alert. Exactly one of Entry and Trouble is set. The fields with JSON names are stored.
type Alert struct {
	Rule    string       `json:"rule"`
	Entry   string       `json:"entry,omitempty"`
	Trouble verdict.Kind `json:"trouble,omitempty"` // of whole peels or of revisions

	Progress
	Peel  target.PeelID  `json:"peel,omitempty"`  // for which the alert counts; empty: it is not about an entry
	Kinds []verdict.Kind `json:"kinds,omitempty"` // kinds of trouble since it began, without those during silences

	Told map[string]Mark `json:"told,omitempty"` // what each receiver was told last, by its name

	Seen    `json:"seen"`
	Silence string `json:"-"` // ID of the silence that applies now; empty: none does
	Old     bool   `json:"-"` // it is not known now whether its condition holds
}

// Progress says whether and since when an alert waits, lasts or has ended. Its condition holds while its group is large
// enough.
type Progress struct {
	// since when its condition holds, if the alert has not begun or has ended
	Waits time.Time `json:"waits,omitzero"`
	// since when its condition held when the alert began; zero: it has never begun
	Began   time.Time `json:"began,omitzero"`
	Clear   time.Time `json:"clear,omitzero"`    // since when its condition does not hold, if the alert lasts
	Ended   time.Time `json:"ended,omitzero"`    // zero while it lasts
	Episode int       `json:"episode,omitempty"` // how often it has begun
	Flaps   int       `json:"flaps,omitempty"`   // how often it began again within a day
	Size    int       `json:"size,omitempty"`    // of the group when it last began or grew, without silenced peels
	Grew    time.Time `json:"grew,omitzero"`     // when Size was set last
	Loud    bool      `json:"loud,omitempty"`    // since it began there was a time without a silence
}

// Seen describes the group of an alert in the last step in which its condition held.
type Seen struct {
	Troubles []verdict.Kind  `json:"troubles,omitempty"`
	Peels    int             `json:"peels,omitempty"` // 0 for revisions
	Names    []target.PeelID `json:"names,omitempty"` // the first peels, at most 5
	Text     string          `json:"text,omitempty"`
}

// A Mark is what the last message about an alert told a receiver.
type Mark struct {
	Episode int  `json:"episode"`
	Size    int  `json:"size,omitempty"`
	Kinds   int  `json:"kinds,omitempty"` // number of Alert.Kinds
	On      bool `json:"on,omitempty"`    // the alert lasts
}

// ID returns RULE/ENTRY or RULE:TROUBLE.
func (a *Alert) ID() string {
	if a.Entry != "" {
		return a.Rule + "/" + a.Entry
	}
	return a.Rule + ":" + string(a.Trouble)
}

// Subject returns the entry or the trouble.
func (a *Alert) Subject() string { return cmp.Or(a.Entry, string(a.Trouble)) }

// Lasts reports whether the alert has begun and not ended.
func (a *Alert) Lasts() bool { return !a.Began.IsZero() && a.Ended.IsZero() }

// isOld reports whether it is not known now whether the condition of a trouble holds.
func (in *Input) isOld(trouble verdict.Kind) bool {
	switch t := policy.Trouble(trouble); {
	case t.OfRevisions():
		return in.Blind
	case t.OfFleet():
		return false
	}
	return in.Stale
}

// Equal reports whether two alerts are the same apart from Seen. A change of Seen alone is not stored.
func (a Alert) Equal(b Alert) bool {
	x, y := a.Progress, b.Progress
	for _, at := range []*time.Time{
		&x.Waits, &x.Began, &x.Clear, &x.Ended, &x.Grew, &y.Waits, &y.Began, &y.Clear, &y.Ended, &y.Grew,
	} {
		*at = at.UTC() // a time that was decoded may have another zone
	}
	return x == y && a.Rule == b.Rule && a.Entry == b.Entry && a.Trouble == b.Trouble && a.Peel == b.Peel &&
		slices.Equal(a.Kinds, b.Kinds) && maps.Equal(a.Told, b.Told)
}

// Input is the input of [Step].
type Input struct {
	Now       time.Time
	Rules     []Rule
	Problems  []verdict.Problem
	Silences  []api.Silence // that have not ended
	Receivers []string      // names of all receivers
	Stale     bool          // problems of peels are not known: alerts about them stay as they are
	Blind     bool          // problems of revisions are not known: alerts about them stay as they are
}

// Outcome is what Step returns besides the alerts.
type Outcome struct {
	Groups map[string][]target.PeelID // the group of each alert whose condition holds, sorted, by the ID of the alert
	// pairs of an entry and a peel for which there is no room; the alerts tooMany are about them
	Dropped int
}

// Step returns the present alerts by ID. before are those that the last step returned; Step does not change them.
func Step(before map[string]Alert, in Input) (map[string]Alert, Outcome) {
	in.Now = in.Now.UTC().Round(0) // as it is after it was stored
	s := stepper{
		Input: in, found: find(in), further: map[string]*group{}, after: make(map[string]Alert, len(before)),
		room: map[holder]int{}, full: map[holder]bool{}, Outcome: Outcome{Groups: map[string][]target.PeelID{}},
	}
	for _, id := range slices.Sorted(maps.Keys(before)) {
		a := before[id]
		a.Old = in.isOld(a.Trouble)
		switch {
		case a.Old:
			s.keep(a)
		case a.Trouble == tooMany:
			s.further[id] = &group{Alert: a} // whether it holds depends on the other alerts
		default:
			s.advance(a, s.found[id], true)
		}
	}
	fresh := slices.DeleteFunc(slices.Collect(maps.Keys(s.found)), func(id string) bool {
		_, known := before[id]
		return known
	})
	sorting.Func(fresh, func(a, b string) int { // if there is not room for all, the largest groups matter most
		return cmp.Or(len(s.found[b].peels)-len(s.found[a].peels), strings.Compare(a, b))
	})
	for _, id := range fresh {
		s.advance(s.found[id].Alert, s.found[id], false)
	}
	for _, id := range slices.Sorted(maps.Keys(s.further)) {
		s.advance(s.further[id].Alert, s.further[id], true)
	}
	return s.after, s.Outcome
}

// A stepper makes one step.
type stepper struct {
	Input
	Outcome
	found   map[string]*group
	further map[string]*group // groups of the alerts tooMany
	after   map[string]Alert
	room    map[holder]int  // number of alerts about entries
	full    map[holder]bool // none of its alerts may be forgotten in this step
}

// A holder is a rule, or a peel in a rule.
type holder struct {
	rule string
	peel target.PeelID // empty: the rule
}

// advance brings an alert to its present state, and keeps it if it waits, lasts or has ended lately. An alert that is
// new, and not known from the last step, needs room.
func (s *stepper) advance(a Alert, g *group, known bool) {
	peels, holds := g.holds()
	if holds {
		s.hold(&a, g, peels)
	} else {
		s.release(&a)
	}
	switch gone := a.Waits.IsZero() && (a.Began.IsZero() || !a.Ended.IsZero() && s.forgets(&a)); {
	case gone:
		return
	case !known && !s.place(&a, peels):
		s.drop(g, peels)
		return
	}
	s.keep(a)
	if holds {
		s.Groups[a.ID()] = peels
	}
}

func (s *stepper) keep(a Alert) {
	s.after[a.ID()] = a
	s.count(&a, 1)
}

// count adds n to the numbers of alerts that have an alert like a.
func (s *stepper) count(a *Alert, n int) {
	if a.Entry != "" {
		s.room[holder{a.Rule, a.Peel}] += n
		s.room[holder{rule: a.Rule}] += n
	}
}

// place reports whether there is room for a new alert, and sets the peel for which it counts.
func (s *stepper) place(a *Alert, peels []target.PeelID) bool {
	if a.Entry == "" {
		return true
	}
	a.Peel = slices.MinFunc(peels, func(p, q target.PeelID) int {
		return s.room[holder{a.Rule, p}] - s.room[holder{a.Rule, q}]
	})
	most := MaxOfRule
	if len(peels) == 1 {
		most = maxAlone
	}
	return s.fits(holder{a.Rule, a.Peel}, maxOfPeel) && s.fits(holder{rule: a.Rule}, most)
}

// fits reports whether one more alert of a holder is within a limit. If not, it forgets the one that ended first of
// those that may be.
func (s *stepper) fits(h holder, limit int) bool {
	if s.room[h] < limit {
		return true
	}
	if s.full[h] {
		return false
	}
	var first *Alert
	for _, a := range s.after {
		switch {
		case a.Entry == "" || a.Rule != h.rule || h.peel != "" && a.Peel != h.peel, first != nil && !earlier(&a, first):
		case !a.Old && !a.Ended.IsZero() && a.Waits.IsZero() && s.Now.Sub(a.Began) >= roomKept && s.settled(&a):
			first = &a
		}
	}
	if s.full[h] = first == nil; first == nil {
		return false
	}
	delete(s.after, first.ID())
	s.count(first, -1)
	return true
}

// earlier reports whether an alert ended before another one.
func earlier(a, b *Alert) bool {
	return cmp.Or(a.Ended.Compare(b.Ended), strings.Compare(a.ID(), b.ID())) < 0
}

// drop adds a group without room to the group of the alert tooMany.
func (s *stepper) drop(g *group, peels []target.PeelID) {
	s.Dropped += len(peels)
	about := Alert{Rule: g.Rule, Trouble: tooMany}
	f := s.further[about.ID()]
	if f == nil {
		f = &group{Alert: about}
		s.further[about.ID()] = f
	}
	if f.rule == nil {
		every := *g.rule
		every.MinPeels = policy.Quantity{} // the group of each entry was large enough
		f.rule, f.peels = &every, map[target.PeelID]trouble{}
	}
	f.entries++
	for _, p := range peels {
		f.add(tooMany, p, "")
		t := f.peels[p]
		t.n++
		t.text = fmt.Sprintf("%d more entries of %s have troubles, and no alert of their own: see zester coverage %s",
			t.n, p, p)
		f.peels[p] = t
	}
}

// hold brings an alert whose condition holds to its present state.
func (s *stepper) hold(a *Alert, g *group, peels []target.PeelID) {
	a.Seen = Seen{Troubles: g.kinds, Peels: len(peels), Names: slices.Clone(peels[:min(len(peels), maxNames)])}
	first := target.PeelID("") // the key of the trouble of revisions
	if len(peels) > 0 {
		first = peels[0]
	}
	a.Text = outbound.Line(g.peels[first].text, maxText)
	if !a.Lasts() {
		if a.Waits.IsZero() {
			a.Waits = s.Now
		}
		if s.Now.Sub(a.Waits) < g.rule.For {
			return
		}
		switch {
		case a.Episode > 0 && s.Now.Sub(a.Ended) <= memory:
			a.Flaps++
		default:
			a.Flaps = 0
		}
		a.Began, a.Waits, a.Ended = a.Waits, time.Time{}, time.Time{}
		a.Size, a.Kinds, a.Loud = 0, nil, false
		for _, name := range g.rule.receivers(s.Receivers) {
			if _, known := a.Told[name]; !known {
				// so that the receiver gets the message about the end even if it is away until then
				*a = a.With(name, Mark{Episode: a.Episode})
			}
		}
		a.Episode++
	}
	a.Clear = time.Time{}
	loud, kinds := s.silence(a, g, peels)
	if a.Silence == "" {
		a.Loud = true
		s.grow(a, g, max(loud, g.entries), kinds)
	}
}

// grow notes the kinds of trouble that are new in an alert, and its size n if that has doubled.
func (s *stepper) grow(a *Alert, g *group, n int, kinds kindSet) {
	for i, k := range g.kinds {
		if kinds&(1<<i) != 0 && !slices.Contains(a.Kinds, k) {
			a.Kinds = append(slices.Clip(a.Kinds), k)
		}
	}
	if n = max(1, n); a.Size == 0 || n >= 2*a.Size && s.Now.Sub(a.Grew) >= growEvery {
		a.Size, a.Grew = n, s.Now
	}
}

// release brings an alert whose condition does not hold to its present state.
func (s *stepper) release(a *Alert) {
	a.Waits, a.Silence = time.Time{}, ""
	if !a.Lasts() {
		return
	}
	if a.Clear.IsZero() {
		a.Clear = s.Now
	}
	if s.ruleOf(a) == nil || s.Now.Sub(a.Clear) >= patience(a.Flaps) {
		a.Ended, a.Clear = a.Clear, time.Time{}
	}
}

// patience returns how long the trouble of an alert has to be gone before the alert ends.
func patience(flaps int) time.Duration {
	wait := endAfter
	for range flaps {
		if wait *= 4; wait >= endMost {
			return endMost
		}
	}
	return wait
}

func (s *stepper) ruleOf(a *Alert) *Rule {
	if i := slices.IndexFunc(s.Rules, func(r Rule) bool { return r.Name == a.Rule }); i >= 0 {
		return &s.Rules[i]
	}
	return nil
}

// forgets reports whether an alert that has ended need not be kept any more.
func (s *stepper) forgets(a *Alert) bool {
	age := s.Now.Sub(a.Ended)
	return age > memory && s.settled(a) || age > memoryMost
}

// settled reports whether every receiver of an alert that has ended got the message about the end.
func (s *stepper) settled(a *Alert) bool {
	return !slices.ContainsFunc(Receivers(a, s.Rules, s.Receivers), func(name string) bool {
		_, due := a.Due(name, s.Now)
		return due
	})
}
