// Package rules says which alerts begin, grow and end, and what receivers are to be told. It is pure: [Step] takes the alerts as
// they were, the rules and the present problems, and returns the alerts as they are; [Alert.Due] returns the message that a
// receiver lacks.
//
// An alert is one rule with one entry, or with one trouble of whole peels or revisions, and the group of peels that have it. It begins
// when the group has been large enough for the time under for:, and ends when it has been too small for 5 minutes. Each time
// it begins again within a day, that time is multiplied by four, up to a day, so that a trouble that comes and goes is told a few
// times and then lasts. While an alert lasts, it grows
//   - when it has a kind of trouble that it has not had since it began, such as missed besides failed;
//   - when its group has at least twice the peels of the last message, such as two instead of one, but at most once in 5 minutes.
//
// Guarantees: what peels report cannot fill the memory of masters nor the chats of people, and one peel cannot keep the alerts of
// others from beginning. An alert about an entry with fewer than 10 peels takes a place of one of them, which has 50. A place is free
// again when its alert has ended, receivers have been told, and an hour has passed since the alert began. So at most 50 alerts of a
// peel begin in an hour. All peels together have 500 places, and there are at most 1,000 alerts about entries. Entries with troubles
// for which there is no place are one alert of their rule: too_many_alerts, with the peels concerned. A receiver that was away
// learns the newest state of each alert in one message, so nothing waits in queues.
package rules

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/master/alert/receiver"
	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/reconciler/notify/outbound"
	"github.com/seed-c01c3da5/zester/settings/target"
	"github.com/seed-c01c3da5/zester/settings/top"
)

// Bounds.
const (
	MaxAlerts  = 1000               // about entries; of others a rule has at most one of each kind
	maxPlaces  = MaxAlerts / 2      // alerts about entries that take a place of a peel
	maxOfPeel  = 50                 // places of one peel
	widespread = 10                 // peels with which an alert takes the place of none
	placeKept  = time.Hour          // for which an alert keeps its place at least
	growEvery  = 5 * time.Minute    // between two messages about more peels
	maxNames   = 5                  // peels that a message names
	maxText    = 256                // bytes of a reason or error
	endAfter   = 5 * time.Minute    // without its trouble an alert ends
	endMost    = 24 * time.Hour     // the same of one that came and went
	memory     = 24 * time.Hour     // for which an ended alert is kept
	memoryMost = 7 * 24 * time.Hour // the same while a receiver has not been told of its end
)

// TooMany is the kind of the alert about entries with troubles for which there was no place.
const TooMany verdict.Kind = "too_many_alerts"

// A Rule is an alert rule with the peels that its target selects.
type Rule struct {
	top.Alert
	Peels   int                         // selected
	Selects func(id target.PeelID) bool // nil: all are
}

// receivers returns the receivers of the rule that there are.
func (r *Rule) receivers(all []string) []string {
	if len(r.Notify) == 0 {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(name string) bool { return !slices.Contains(r.Notify, name) })
}

// An Alert is one alert as it is stored. Exactly one of Entry and Trouble is set.
type Alert struct {
	Rule    string       `json:"rule"`
	Entry   string       `json:"entry,omitempty"`
	Trouble verdict.Kind `json:"trouble,omitempty"` // of whole peels, or of revisions

	Progress
	Peel  target.PeelID  `json:"peel,omitempty"`  // whose place it takes; empty: of none
	Kinds []verdict.Kind `json:"kinds,omitempty"` // of troubles that it has had since it began while it was not silenced

	Told map[string]Mark `json:"told,omitempty"` // by receiver

	Seen    `json:"seen"`
	Silence string `json:"-"` // ID of the silence that holds now; empty: none
	Old     bool   `json:"-"` // whether its condition holds is not known now
}

// Progress is how far an alert is.
type Progress struct {
	Waits   time.Time `json:"waits,omitzero"` // since when its condition holds while it has not begun, or has ended
	Began   time.Time `json:"began,omitzero"` // when its condition began to hold; zero: it has never begun
	Clear   time.Time `json:"clear,omitzero"` // since when its condition does not hold while it lasts
	Ended   time.Time `json:"ended,omitzero"` // zero while it lasts
	Episode int       `json:"episode,omitempty"`
	Flaps   int       `json:"flaps,omitempty"` // how often it began again within a day
	Size    int       `json:"size,omitempty"`  // of its group when messages were due about that
	Grew    time.Time `json:"grew,omitzero"`   // when Size grew last
	Loud    bool      `json:"loud,omitempty"`  // it was not silenced all the time
}

// Seen describes the group of an alert when it was last seen.
type Seen struct {
	Troubles []verdict.Kind  `json:"troubles,omitempty"`
	Peels    int             `json:"peels,omitempty"` // 0 for revisions
	Names    []target.PeelID `json:"names,omitempty"` // the first of them
	Text     string          `json:"text,omitempty"`
}

// A Mark is what a receiver was told last of an alert.
type Mark struct {
	Episode int  `json:"episode"`
	Size    int  `json:"size,omitempty"`
	Kinds   int  `json:"kinds,omitempty"` // how many of Alert.Kinds
	On      bool `json:"on,omitempty"`    // that it lasts
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

// ofRevisions reports whether the alert is about revisions and not peels.
func (a *Alert) ofRevisions() bool { return top.Trouble(a.Trouble).OfRevisions() }

// Equal reports whether two alerts differ only in what was seen, which need not be stored at once.
func (a Alert) Equal(b Alert) bool {
	x, y := a.Progress, b.Progress
	for _, at := range []*time.Time{&x.Waits, &x.Began, &x.Clear, &x.Ended, &x.Grew, &y.Waits, &y.Began, &y.Clear, &y.Ended, &y.Grew} {
		*at = at.UTC() // one that was read may have another zone
	}
	return x == y && a.Rule == b.Rule && a.Entry == b.Entry && a.Trouble == b.Trouble && a.Peel == b.Peel && slices.Equal(a.Kinds, b.Kinds) && maps.Equal(a.Told, b.Told)
}

// Input is what [Step] depends on.
type Input struct {
	Now       time.Time
	Rules     []Rule
	Problems  []verdict.Problem
	Silences  []api.Silence // that have not ended
	Receivers []string      // of this master
	Stale     bool          // problems of peels are not known: alerts about them stay as they are
	Blind     bool          // problems of revisions are not known, likewise
}

// Outcome is what Step found beside the alerts.
type Outcome struct {
	Groups  map[string][]target.PeelID // by the ID of an alert, sorted
	Dropped int                        // troubles of peels for which there is no place; alerts of the kind TooMany count them
}

// Step returns the alerts as they are now, by ID, from those that were before, which it does not change.
func Step(before map[string]Alert, in Input) (map[string]Alert, Outcome) {
	in.Now = in.Now.UTC().Round(0) // as it is stored
	s := stepper{
		Input: in, found: find(in), further: map[string]*group{}, after: make(map[string]Alert, len(before)),
		places: map[target.PeelID]int{}, Outcome: Outcome{Groups: map[string][]target.PeelID{}},
	}
	for _, id := range slices.Sorted(maps.Keys(before)) {
		a := before[id]
		a.Old = a.ofRevisions() && in.Blind || !a.ofRevisions() && in.Stale
		switch {
		case a.Old:
			s.keep(a)
		case a.Trouble == TooMany:
			s.further[id] = &group{Alert: a} // it depends on the others
		default:
			s.advance(a, s.found[id], true)
		}
	}
	fresh := slices.DeleteFunc(slices.Collect(maps.Keys(s.found)), func(id string) bool { _, known := before[id]; return known })
	slices.SortFunc(fresh, func(a, b string) int { // large groups first: they matter most if there is not room for all
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

// A group is the peels that have the troubles of an alert.
type group struct {
	Alert
	rule    *Rule
	peels   map[target.PeelID]trouble
	kinds   []verdict.Kind
	entries int // without a place, of the alert about these
}

// A trouble is what one peel of a group has.
type trouble struct {
	text  string  // of the first kind
	kinds kindSet // of group.kinds
	n     int     // entries without a place, of the alert about these
}

// A kindSet has bit i for the kind i of a group.
type kindSet uint32

// add adds a kind of trouble of a peel.
func (g *group) add(k verdict.Kind, peel target.PeelID, text string) {
	i := slices.Index(g.kinds, k)
	if i < 0 {
		i, g.kinds = len(g.kinds), append(g.kinds, k)
	}
	t, again := g.peels[peel]
	if !again {
		t.text = text
	}
	t.kinds |= 1 << i
	g.peels[peel] = t
}

// holds returns the peels of a group, sorted, and reports whether they are enough for an alert.
func (g *group) holds() (peels []target.PeelID, enough bool) {
	switch {
	case g == nil || len(g.peels) == 0:
		return nil, false
	case g.ofRevisions():
		return nil, true
	}
	return slices.Sorted(maps.Keys(g.peels)), len(g.peels) >= g.rule.MinPeels.Of(g.rule.Peels)
}

// find returns the groups of all alerts that the rules and problems make, by ID.
func find(in Input) map[string]*group {
	type kind struct {
		verdict.Kind
		entry string
	}
	kinds := map[kind][]verdict.Problem{}
	for _, p := range in.Problems {
		k := kind{p.Kind, p.Entry}
		kinds[k] = append(kinds[k], p)
	}
	sorted := slices.SortedFunc(maps.Keys(kinds), func(a, b kind) int { return cmp.Or(strings.Compare(a.entry, b.entry), cmp.Compare(a.Kind, b.Kind)) })
	found := map[string]*group{}
	for i := range in.Rules {
		rule := &in.Rules[i]
		for _, k := range sorted {
			ofRevisions := top.Trouble(k.Kind).OfRevisions()
			if !rule.Covers(top.Trouble(k.Kind), k.entry) || ofRevisions && in.Blind || !ofRevisions && in.Stale {
				continue
			}
			a := Alert{Rule: rule.Name, Entry: k.entry}
			if k.entry == "" {
				a.Trouble = k.Kind
			}
			g := found[a.ID()]
			if g == nil {
				g = &group{Alert: a, rule: rule, peels: map[target.PeelID]trouble{}}
				found[a.ID()] = g
			}
			for _, p := range kinds[k] {
				if !ofRevisions && rule.Selects != nil && !rule.Selects(p.Peel) {
					continue
				}
				g.add(k.Kind, p.Peel, p.Text)
			}
		}
	}
	return found
}

// A stepper makes one step.
type stepper struct {
	Input
	Outcome
	found   map[string]*group
	further map[string]*group // of alerts about entries without a place
	after   map[string]Alert
	places  map[target.PeelID]int // that are taken
	taken   int                   // all of them
	entries int                   // alerts about entries
	spare   []*Alert              // that may be forgotten, the one that ended first first
	counted bool                  // spare is complete
}

// advance keeps an alert as it is now, unless there is nothing to keep. An alert that was known keeps its place.
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
	case len(peels) >= widespread:
		a.Peel = ""
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

// count adds n alerts like a to those that are bounded.
func (s *stepper) count(a *Alert, n int) {
	if a.Entry != "" {
		s.entries += n
	}
	if a.Peel != "" {
		s.places[a.Peel] += n
		s.taken += n
	}
}

// place reports whether there is room for a new alert, and says in it whose place it takes: that of the peel with the fewest.
func (s *stepper) place(a *Alert, peels []target.PeelID) bool {
	if a.Entry == "" {
		return true
	}
	if len(peels) < widespread {
		peel := slices.MinFunc(peels, func(p, q target.PeelID) int { return s.places[p] - s.places[q] })
		if s.places[peel] >= maxOfPeel && !s.forget(func(o *Alert) bool { return o.Peel == peel && s.Now.Sub(o.Began) >= placeKept }) {
			return false
		}
		if s.taken >= maxPlaces && !s.forget(func(o *Alert) bool { return o.Peel != "" }) {
			return false
		}
		a.Peel = peel
	}
	return s.entries < MaxAlerts || s.forget(func(*Alert) bool { return true })
}

// forget makes room: it forgets the alert that ended first of those about entries that may be forgotten and that may accepts.
func (s *stepper) forget(may func(*Alert) bool) bool {
	if !s.counted {
		s.counted = true
		for _, a := range s.after {
			if a.Entry != "" && !a.Old && !a.Ended.IsZero() && a.Waits.IsZero() && s.settled(&a) {
				s.spare = append(s.spare, &a)
			}
		}
		slices.SortFunc(s.spare, func(a, b *Alert) int { return cmp.Or(a.Ended.Compare(b.Ended), strings.Compare(a.ID(), b.ID())) })
	}
	i := slices.IndexFunc(s.spare, may)
	if i < 0 {
		return false
	}
	delete(s.after, s.spare[i].ID())
	s.count(s.spare[i], -1)
	s.spare = slices.Delete(s.spare, i, i+1)
	return true
}

// drop adds an entry for which there was no place to the alert about these.
func (s *stepper) drop(g *group, peels []target.PeelID) {
	s.Dropped += len(peels)
	about := Alert{Rule: g.Rule, Trouble: TooMany}
	f := s.further[about.ID()]
	if f == nil {
		f = &group{Alert: about}
		s.further[about.ID()] = f
	}
	if f.rule == nil {
		every := *g.rule
		every.MinPeels = top.Quantity{} // each entry has enough
		f.rule, f.peels = &every, map[target.PeelID]trouble{}
	}
	f.entries++
	for _, p := range peels {
		f.add(TooMany, p, "")
		t := f.peels[p]
		t.n++
		t.text = fmt.Sprintf("%d more entries of %s have troubles, and no alert of their own: see zester coverage %s", t.n, p, p)
		f.peels[p] = t
	}
}

// hold advances an alert whose condition holds.
func (s *stepper) hold(a *Alert, g *group, peels []target.PeelID) {
	a.Seen = Seen{Troubles: g.kinds, Peels: len(peels), Names: slices.Clone(peels[:min(len(peels), maxNames)])}
	first := target.PeelID("") // of revisions
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
				*a = a.With(name, Mark{Episode: a.Episode}) // so that it learns of the end if it is away until then
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

// grow notes kinds of troubles that an alert has not had, and a group of n that has doubled.
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

// silence sets Silence and returns how many peels no silence is about, and the kinds of their troubles.
func (s *stepper) silence(a *Alert, g *group, peels []target.PeelID) (loud int, kinds kindSet) {
	a.Silence = ""
	var ofPeels []api.Silence
	for _, silence := range s.Silences {
		if _, is := strings.CutPrefix(silence.Match, peelPrefix); is {
			ofPeels = append(ofPeels, silence)
		} else if Matches(silence.Match, a) {
			a.Silence = silence.ID
		}
	}
	last := ""
	for _, p := range peels {
		i := slices.IndexFunc(ofPeels, func(q api.Silence) bool { return matchesPeel(q.Match, p) })
		if i < 0 {
			loud++
			kinds |= g.peels[p].kinds
		} else {
			last = ofPeels[i].ID
		}
	}
	if last != "" && loud < max(1, g.rule.MinPeels.Of(g.rule.Peels)) {
		a.Silence = cmp.Or(a.Silence, last)
	}
	return loud, kinds
}

const peelPrefix = "peel:"

// CheckMatch returns an error if a text cannot be Silence.Match.
func CheckMatch(match string) error {
	glob := strings.TrimPrefix(match, peelPrefix)
	if _, err := path.Match(glob, ""); err != nil || glob == "" || len(match) > api.MaxSilenceMatch {
		return fmt.Errorf("%.60q is not a glob like 'backups/*', 'backup-db' or 'peel:web-*' of at most %d bytes", match, api.MaxSilenceMatch)
	}
	return nil
}

// Matches reports whether a glob matches the ID of an alert, its rule or its subject.
func Matches(match string, a *Alert) bool {
	for _, text := range []string{a.ID(), a.Rule, a.Subject()} {
		if ok, _ := path.Match(match, text); ok {
			return true
		}
	}
	return false
}

func matchesPeel(match string, id target.PeelID) bool {
	ok, _ := path.Match(strings.TrimPrefix(match, peelPrefix), string(id))
	return ok
}

// release advances an alert whose condition does not hold.
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

// patience returns how long the trouble of an alert has to be gone before it ends.
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

// forgets reports whether an ended alert need not be kept.
func (s *stepper) forgets(a *Alert) bool {
	age := s.Now.Sub(a.Ended)
	return age > memory && s.settled(a) || age > memoryMost
}

// settled reports whether every receiver of an ended alert was told of its end.
func (s *stepper) settled(a *Alert) bool {
	return !slices.ContainsFunc(Receivers(a, s.Rules, s.Receivers), func(name string) bool { _, due := a.Due(name, s.Now); return due })
}

// Receivers returns which of all receivers are told of an alert. If its rule is gone, those are that know of it.
func Receivers(a *Alert, rules []Rule, all []string) []string {
	s := stepper{Input: Input{Rules: rules}}
	if rule := s.ruleOf(a); rule != nil {
		return rule.receivers(all)
	}
	return slices.DeleteFunc(slices.Clone(all), func(name string) bool { _, told := a.Told[name]; return !told })
}

// Due returns the message that a receiver lacks; ok is false if it knows all.
func (a *Alert) Due(name string, now time.Time) (m receiver.Message, ok bool) {
	mark, known := a.Told[name]
	switch {
	case a.holds() && !mark.On:
		return a.message(receiver.Began, now), true
	case a.holds() && (mark.Size < a.Size || mark.Kinds < len(a.Kinds)):
		return a.message(receiver.Grew, now), true
	case !a.Ended.IsZero() && known && (mark.On || a.Loud && mark.Episode < a.Episode):
		return a.message(receiver.Ended, now), true
	}
	return m, false
}

// Repeat returns the message for receivers that forget an alert; ok is false if they need not know of it.
func (a *Alert) Repeat(name string, now time.Time) (m receiver.Message, ok bool) {
	return a.message(receiver.Lasts, now), a.Lasts() && a.Silence == "" && a.Told[name].On
}

// holds reports whether the alert lasts, its condition is known to hold, and no silence is about it.
func (a *Alert) holds() bool { return a.Lasts() && a.Clear.IsZero() && !a.Old && a.Silence == "" }

// With returns the alert after a receiver was told a message of it.
func (a Alert) With(name string, m Mark) Alert {
	told := maps.Clone(a.Told)
	if told == nil {
		told = map[string]Mark{}
	}
	told[name] = m
	a.Told = told
	return a
}

// Now returns what a receiver knows of the alert once it was told its newest state.
func (a *Alert) Now() Mark { return Mark{a.Episode, a.Size, len(a.Kinds), a.Lasts()} }

func (a *Alert) message(phase receiver.Phase, now time.Time) receiver.Message {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %s %d %d", a.ID(), a.Episode, phase, a.Size, len(a.Kinds)))
	return receiver.Message{
		ID: a.ID(), Event: hex.EncodeToString(sum[:16]), Phase: phase, Rule: a.Rule, Subject: a.Subject(), Troubles: a.Troubles, Peels: a.Peels,
		Names: a.Names, Text: a.Text, Began: a.Began, Ended: a.Ended, Time: now,
	}
}
