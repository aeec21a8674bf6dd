package top

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/settings/canon"
)

func TestAlertRulesOfAFileAreRead(t *testing.T) {
	p := policy(t, `
nodegroups: {data: 'db-* or cache-*'}
alerts:
  quiet:   {on: [not_reporting], min_peels: 2%, for: 15m, notify: [ops]}
  backups: {entries: 'backup*', target: N@data, on: [missed, failed, late, failed], for: 10m, notify: oncall}
  sync:    {on: [refused, stalled, wave_failed, held]}
`)
	want := []Alert{
		{Name: "backups", Entries: "backup*", Target: "db-* or cache-*", On: []Trouble{Missed, Failed, Late}, For: 10 * time.Minute, MinPeels: Quantity{1, 100}, Notify: []string{"oncall"}},
		{Name: "quiet", On: []Trouble{NotReporting}, For: 15 * time.Minute, MinPeels: Quantity{MaxPeels, 2}, Notify: []string{"ops"}},
		{Name: "sync", On: []Trouble{Refused, Stalled, WaveFailed, Held}, MinPeels: Quantity{1, 100}},
	}
	if !EqualAlerts(p.Alerts, want) {
		t.Errorf("rules are\n%+v, want\n%+v", p.Alerts, want)
	}
	if at := p.Alerts[0].Pos.String(); at != "zester.yaml:5:3" {
		t.Errorf("the first rule is at %s", at)
	}
	data, err := canon.Marshal(p.Alerts)
	var back []Alert
	if err == nil {
		err = canon.Unmarshal(data, &back)
	}
	if err != nil || !EqualAlerts(back, want) {
		t.Errorf("after a way over the bus: %+v, %v", back, err)
	}
}

func TestARuleCoversItsTroublesAndEntries(t *testing.T) {
	a := Alert{Entries: "backup-*", On: []Trouble{Failed, NotReporting, Stalled}}
	for _, c := range []struct {
		trouble Trouble
		entry   string
		want    bool
	}{
		{Failed, "backup-db", true}, {Failed, "report", false}, {Missed, "backup-db", false}, {NotReporting, "", true}, {Stalled, "", true}, {Held, "", false},
	} {
		if got := a.Covers(c.trouble, c.entry); got != c.want {
			t.Errorf("%s of %q: %v", c.trouble, c.entry, got)
		}
	}
}

// Every field of a rule counts: a field that is not compared would not reach the masters when it alone changes.
func TestRulesThatDifferAreNotEqual(t *testing.T) {
	whole := Alert{Name: "a", Entries: "b*", Target: "db-*", On: []Trouble{Failed}, For: time.Minute, MinPeels: Quantity{1, 100}, Notify: []string{"ops"}}
	fields := reflect.TypeFor[Alert]()
	for i := range fields.NumField() {
		other := whole
		field := reflect.ValueOf(&other).Elem().Field(i)
		field.SetZero()
		if equal := EqualAlerts([]Alert{whole}, []Alert{other}); equal != (fields.Field(i).Name == "Pos") {
			t.Errorf("without %s: equal is %v", fields.Field(i).Name, equal)
		}
	}
}

func TestDefaultRulesCoverWhatAFleetNeeds(t *testing.T) {
	for _, trouble := range []Trouble{Failed, Missed, NotReporting, Refused, Stalled} {
		if !slices.ContainsFunc(DefaultAlerts, func(a Alert) bool { return a.Covers(trouble, "") && len(a.Notify) == 0 }) {
			t.Errorf("no default rule covers %s", trouble)
		}
	}
	if p := policy(t, "alerts: {}"); p.Alerts != nil {
		t.Errorf("an empty map has rules: %+v", p.Alerts)
	}
}

func TestTooManyRulesAreRefused(t *testing.T) {
	var text strings.Builder
	text.WriteString("alerts:\n")
	for i := range MaxAlerts + 1 {
		text.WriteString("  r" + strings.Repeat("i", i%8) + string(rune('a'+i%26)) + string(rune('a'+i/26)) + ": {on: failed}\n")
	}
	if _, err := ParsePolicy(parse(t, "zester.yaml", text.String())); err == nil || !strings.Contains(err.Error(), "the limit is 100") {
		t.Errorf("error is %v", err)
	}
}
