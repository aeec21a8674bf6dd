package apiserver

import (
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/settings"
)

func TestAPeelJoinedWhenItWasAcceptedLast(t *testing.T) {
	at := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	steps := []credential.Step{{State: credential.Pending, Time: at}}
	if got := joined(steps); !got.IsZero() {
		t.Errorf("a host that waits joined at %s", got)
	}
	for i, state := range []credential.EnrollState{credential.Accepted, credential.Revoked, credential.Pending, credential.Accepted, credential.Revoked} {
		steps = append(steps, credential.Step{State: state, Time: at.Add(time.Duration(i) * time.Hour)})
	}
	if got := joined(steps); !got.Equal(at.Add(3 * time.Hour)) {
		t.Errorf("it joined at %s", got)
	}
}

func TestSettingsAreRowsWithTheirOrigins(t *testing.T) {
	values := map[string]any{
		"_states":  map[string]any{"files": "sealed"},
		"region":   "<east>",
		"schedule": map[string]any{"backup": map[string]any{"interval": "1h"}, "other": nil},
		"states":   map[string]any{"backup": strings.Repeat("é", api.MaxPeelValue+1)},
	}
	origins := map[string]settings.Origin{"backup": {File: "a.yaml"}, "state:backup": {File: "b.yaml"}, "": {File: "c.yaml"}}
	rows, err := settingsOf(values, origins)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range rows {
		file := ""
		if r.Origin != nil {
			file = r.Origin.File
		}
		got = append(got, r.Key+" "+file)
	}
	if want := "region ,schedule:backup a.yaml,schedule:other ,states:backup b.yaml"; strings.Join(got, ",") != want {
		t.Errorf("%q, want %q", got, want)
	}
	if rows[0].Value != `"<east>"` {
		t.Errorf("a value: %s", rows[0].Value)
	}
	if v := rows[3].Value; len([]rune(v)) != api.MaxPeelValue || !strings.HasSuffix(v, "é…") {
		t.Errorf("a long value: %q", v)
	}
	if _, err := settingsOf(map[string]any{"bad": func() {}}, nil); err == nil || !strings.Contains(err.Error(), "the setting bad") {
		t.Error(err)
	}
}

func TestTheWorstProblemOfAnEntryIsShown(t *testing.T) {
	problems := []verdict.Problem{
		{Kind: verdict.Late, Entry: "a"},
		{Kind: verdict.Failed, Entry: "a"},
		{Kind: verdict.Missed, Entry: "b"},
		{Kind: verdict.Disagrees},
	}
	for entry, want := range map[string]verdict.Kind{"a": verdict.Failed, "b": verdict.Missed, "": verdict.Disagrees} {
		if got := worstWith(entry, problems); got == nil || got.Class != want {
			t.Errorf("%q: %+v, want %s", entry, got, want)
		}
	}
	if got := worstWith("c", problems); got != nil {
		t.Errorf("%+v", got)
	}
	byHand := &api.PeelEntry{CoverageRow: api.CoverageRow{State: pausedByHand}, Problem: &api.PeelProblem{Class: verdict.Paused}}
	byItself := &api.PeelEntry{CoverageRow: api.CoverageRow{State: "paused_errors"}, Problem: byHand.Problem}
	if rankOf(byItself) >= rankOf(byHand) || rankOf(byHand) >= rankOf(&api.PeelEntry{}) {
		t.Error("the order of pauses")
	}
}
