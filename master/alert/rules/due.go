package rules

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/master/notify"
)

// Receivers returns the receivers in all that get messages about an alert. If its rule no longer exists, those are the
// receivers that have got one.
func Receivers(a *Alert, rules []Rule, all []string) []string {
	s := stepper{Input: Input{Rules: rules}}
	if rule := s.ruleOf(a); rule != nil {
		return rule.receivers(all)
	}
	return slices.DeleteFunc(slices.Clone(all), func(name string) bool { _, told := a.Told[name]; return !told })
}

// Due returns the message about the alert that is due to a receiver; ok is false if none is.
func (a *Alert) Due(name string, now time.Time) (m notify.AlertMessage, ok bool) {
	mark, known := a.Told[name]
	switch {
	case a.holds() && !mark.On:
		return a.message(notify.AlertBegan, now), true
	case a.holds() && (mark.Size < a.Size || mark.Kinds < len(a.Kinds)):
		return a.message(notify.AlertGrew, now), true
	case !a.Ended.IsZero() && known && (mark.On || a.Loud && mark.Episode < a.Episode):
		return a.message(notify.AlertEnded, now), true
	}
	return m, false
}

// Repeat returns the message that tells Alertmanager again of an alert that lasts; ok is false if it does not last or
// is silenced.
func (a *Alert) Repeat(name string, now time.Time) (m notify.AlertMessage, ok bool) {
	return a.message(notify.AlertLasts, now), a.Lasts() && a.Silence == "" && a.Told[name].On
}

// holds reports whether the alert lasts, its condition is known to hold, and no silence applies to it.
func (a *Alert) holds() bool { return a.Lasts() && a.Clear.IsZero() && !a.Old && a.Silence == "" }

// With returns the alert after a receiver got a message about it.
func (a Alert) With(name string, m Mark) Alert {
	told := maps.Clone(a.Told)
	if told == nil {
		told = map[string]Mark{}
	}
	told[name] = m
	a.Told = told
	return a
}

// Now returns the mark of a receiver that got a message with the newest state.
func (a *Alert) Now() Mark { return Mark{a.Episode, a.Size, len(a.Kinds), a.Lasts()} }

func (a *Alert) message(phase notify.AlertPhase, now time.Time) notify.AlertMessage {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %s %d %d", a.ID(), a.Episode, phase, a.Size, len(a.Kinds)))
	return notify.AlertMessage{
		ID:       a.ID(),
		Event:    hex.EncodeToString(sum[:16]),
		Phase:    phase,
		Rule:     a.Rule,
		Subject:  a.Subject(),
		Troubles: a.Troubles,
		Peels:    a.Peels,
		Names:    a.Names,
		Text:     a.Text,
		Began:    a.Began,
		Ended:    a.Ended,
		Time:     now,
	}
}
