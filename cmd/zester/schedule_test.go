package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/peel/scheduler"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// A cronCase is one of settings/schedule/cron/testdata/cron.json, which names the sources.
type cronCase struct {
	ID, Kind, Use, Zone, Expr, Expr5, From, Until string
	Inclusive                                     bool
	Expect, Cronie                                json.RawMessage
}

func TestScheduleExplainAgreesWithCron(t *testing.T) {
	data, err := os.ReadFile("../../settings/schedule/cron/testdata/cron.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []cronCase }
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	tried := map[string]int{}
	for _, c := range file.Cases {
		if (c.Use == "accept" || c.Use == "differs") && !c.Inclusive && c.check(t) {
			tried[c.Kind]++
		}
	}
	if tried["next"] < 90 || tried["runs"] < 100 || tried["parse_error"] < 30 {
		t.Errorf("cases tried: %v", tried)
	}
}

// check reports whether the case is one of the command.
func (c *cronCase) check(t *testing.T) bool {
	if c.Expr5 != "" {
		c.Expr = c.Expr5
	}
	want := c.Expect
	if c.Use == "differs" {
		want = c.Cronie
	}
	args := []string{"schedule", "explain", "-o", "json", "--cron", c.Expr}
	if c.Zone != "" {
		args = append(args, "--zone", c.Zone)
	}
	if c.From != "" {
		args = append(args, "--from", c.From)
	}
	switch c.Kind {
	case "next":
		args = append(args, "-n", "1")
		want = slices.Concat([]byte("["), want, []byte("]"))
	case "runs":
		args = append(args, "--until", c.Until)
	case "parse_error":
		if _, code := next(t, args); c.Use == "accept" && code != exitFailed {
			t.Errorf("%s: %q ended with %d", c.ID, c.Expr, code)
		}
		return true
	default:
		return false
	}
	got, code := next(t, args)
	if string(want) == "[null]" { // it never fires
		if code != exitFailed {
			t.Errorf("%s: %q ended with %d: %v", c.ID, c.Expr, code, got)
		}
		return true
	}
	var expected []time.Time
	if err := json.Unmarshal(want, &expected); err != nil {
		t.Fatalf("%s: %s: %v", c.ID, want, err)
	}
	if code != exitOK || !slices.EqualFunc(got, expected, time.Time.Equal) {
		t.Errorf("%s: %v ended with %d: %v, want %v", c.ID, args, code, got, expected)
	}
	return true
}

// next runs the command and reads what it prints, which has these names and no others.
func next(t *testing.T, args []string) ([]time.Time, int) {
	t.Helper()
	var out, errOut bytes.Buffer
	code := run(t.Context(), args, &out, &errOut)
	if code != exitOK {
		if out.Len() > 0 || errOut.Len() == 0 {
			t.Errorf("%v ended with %d: %s%s", args, code, &out, &errOut)
		}
		return nil, code
	}
	var answer map[string]json.RawMessage
	if err := json.Unmarshal(out.Bytes(), &answer); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	if names := slices.Sorted(maps.Keys(answer)); !slices.Equal(names, []string{"explanation", "expression", "fires", "zone"}) {
		t.Errorf("%v has %v", args, names)
	}
	var fires []time.Time
	if err := json.Unmarshal(answer["fires"], &fires); err != nil || fires == nil {
		t.Errorf("%v: fires %s: %v", args, answer["fires"], err)
	}
	return fires, code
}

func TestTheExamplesHaveNoFaults(t *testing.T) {
	for repo, warning := range map[string]string{
		"fleet":   "",
		"secrets": "settings/db/backup.yaml: warning: the MAC was not checked, because there is no identity here; a master checks it\n",
	} {
		var out, errOut bytes.Buffer
		if code := run(t.Context(), []string{"lint", "../../examples/" + repo}, &out, &errOut); code != exitOK || out.String()+errOut.String() != warning {
			t.Errorf("%s: %d: %s%s", repo, code, &out, &errOut)
		}
	}
}

// A run by hand is not the last run of a schedule.
func TestTheLastRunInAListIsNotOneByHand(t *testing.T) {
	fire := time.Date(2026, 6, 1, 9, 0, 0, 0, time.UTC)
	timed := scheduler.RunRecord{Trigger: wire.TriggerTimer, Started: fire}
	byHand := scheduler.RunRecord{Trigger: wire.TriggerManual, Started: fire.Add(time.Hour)}
	for _, c := range []struct {
		started time.Time
		running int
		last    []scheduler.RunRecord
		want    time.Time
	}{
		{fire, 0, []scheduler.RunRecord{timed}, fire},
		{byHand.Started, 0, []scheduler.RunRecord{timed, byHand}, fire},
		{byHand.Started, 0, []scheduler.RunRecord{byHand}, byHand.Started},
		{fire.Add(2 * time.Hour), 1, []scheduler.RunRecord{timed, byHand}, fire.Add(2 * time.Hour)},
		{},
	} {
		var e scheduler.ListedEntry
		e.Started = c.started
		e.Running = c.running
		e.Last = c.last
		if got := lastFire(&e); !got.Equal(c.want) {
			t.Errorf("%+v: %v, want %v", c, got, c.want)
		}
	}
}
