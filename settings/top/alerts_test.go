package top

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/settings/canon"
	policypkg "github.com/seed-c01c3da5/zester/settings/policy"
)

func TestAlertRulesOfAFileAreRead(t *testing.T) {
	p := policy(t, `
nodegroups: {data: 'db-* or cache-*'}
alerts:
  quiet:   {on: [not_reporting], min_peels: 2%, for: 15m, notify: [ops]}
  backups: {entries: 'backup*', target: N@data, on: [missed, failed, late, failed], for: 10m, notify: oncall}
  sync:    {on: [refused, stalled, wave_failed, held]}
`)
	want := []policypkg.Alert{
		{Name: "backups", Entries: "backup*", Target: "db-* or cache-*", On: []policypkg.Trouble{policypkg.Missed, policypkg.Failed, policypkg.Late}, For: 10 * time.Minute, MinPeels: policypkg.Quantity{Count: 1, Percent: 100}, Notify: []string{"oncall"}},
		{Name: "quiet", On: []policypkg.Trouble{policypkg.NotReporting}, For: 15 * time.Minute, MinPeels: policypkg.Quantity{Count: policypkg.MaxPeels, Percent: 2}, Notify: []string{"ops"}},
		{Name: "sync", On: []policypkg.Trouble{policypkg.Refused, policypkg.Stalled, policypkg.WaveFailed, policypkg.Held}, MinPeels: policypkg.Quantity{Count: 1, Percent: 100}},
	}
	if !policypkg.EqualAlerts(p.Alerts, want) {
		t.Errorf("rules are\n%+v, want\n%+v", p.Alerts, want)
	}
	if at := p.Alerts[0].Pos.String(); at != "zester.yaml:5:3" {
		t.Errorf("the first rule is at %s", at)
	}
	data, err := canon.Marshal(p.Alerts)
	var back []policypkg.Alert
	if err == nil {
		err = canon.Unmarshal(data, &back)
	}
	if err != nil || !policypkg.EqualAlerts(back, want) {
		t.Errorf("after a way over the bus: %+v, %v", back, err)
	}
}

func TestARuleCoversItsTroublesAndEntries(t *testing.T) {
	a := policypkg.Alert{Entries: "backup-*", On: []policypkg.Trouble{policypkg.Failed, policypkg.NotReporting, policypkg.Stalled}}
	for _, c := range []struct {
		trouble policypkg.Trouble
		entry   string
		want    bool
	}{
		{policypkg.Failed, "backup-db", true}, {policypkg.Failed, "report", false}, {policypkg.Missed, "backup-db", false}, {policypkg.NotReporting, "", true}, {policypkg.Stalled, "", true}, {policypkg.Held, "", false},
	} {
		if got := a.Covers(c.trouble, c.entry); got != c.want {
			t.Errorf("%s of %q: %v", c.trouble, c.entry, got)
		}
	}
}

// Every field of a rule counts: a field that is not compared would not reach the masters when it alone changes.
func TestRulesThatDifferAreNotEqual(t *testing.T) {
	whole := policypkg.Alert{Name: "a", Entries: "b*", Target: "db-*", On: []policypkg.Trouble{policypkg.Failed}, For: time.Minute, MinPeels: policypkg.Quantity{Count: 1, Percent: 100}, Notify: []string{"ops"}}
	fields := reflect.TypeFor[policypkg.Alert]()
	for i := range fields.NumField() {
		other := whole
		field := reflect.ValueOf(&other).Elem().Field(i)
		field.SetZero()
		if equal := policypkg.EqualAlerts([]policypkg.Alert{whole}, []policypkg.Alert{other}); equal != (fields.Field(i).Name == "Pos") {
			t.Errorf("without %s: equal is %v", fields.Field(i).Name, equal)
		}
	}
}

func TestDefaultRulesCoverWhatAFleetNeeds(t *testing.T) {
	for _, trouble := range []policypkg.Trouble{policypkg.Failed, policypkg.Missed, policypkg.NotReporting, policypkg.Refused, policypkg.Stalled} {
		if !slices.ContainsFunc(policypkg.DefaultAlerts, func(a policypkg.Alert) bool { return a.Covers(trouble, "") && len(a.Notify) == 0 }) {
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
	for i := range policypkg.MaxAlerts + 1 {
		text.WriteString("  r" + strings.Repeat("i", i%8) + string(rune('a'+i%26)) + string(rune('a'+i/26)) + ": {on: failed}\n")
	}
	if _, err := policypkg.ParsePolicy(parse(t, "zester.yaml", text.String())); err == nil || !strings.Contains(err.Error(), "the limit is 100") {
		t.Errorf("error is %v", err)
	}
}
