package wire_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/peel/wire"
)

var reportMade = time.Date(2026, 3, 1, 12, 30, 0, 0, time.UTC)

// scheduleState is a report on two entries that uses every field.
func scheduleState() wire.ScheduleState {
	hour := reportMade.Unix() / 3600
	counts := wire.FireCounts{Ran: 7, Failed: 1, Late: 2, Overran: 3, Skipped: 4, Missed: 5, Manual: 6}
	skips := map[string]uint64{"blackout": 4}
	return wire.ScheduleState{
		Peel: "p", Commit: "c0ffee", Digest: "d", Version: "v1", Zone: "UTC", Time: reportMade, Started: reportMade.Add(-time.Hour), More: 1, V: wire.Version,
		Entries: []wire.EntryReport{
			{Name: "a", Local: true, State: "active", Since: reportMade},
			{
				Name: "b", State: "paused_errors", Why: "3 runs in a row failed", Since: reportMade, Breaker: "open", Next: reportMade, Latest: reportMade,
				RunTimes: wire.RunTimes{Nominal: reportMade, Fired: reportMade, Started: reportMade, Ended: reportMade, Succeeded: reportMade},
				Error:    "no", Job: wire.NewJID(), Running: 1, InRow: 3, Counts: counts, Median: time.Second, P95: time.Minute, Skips: skips,
				Hours:    []wire.ScheduleHour{{Hour: hour - 48, FireCounts: counts, Pending: 1, Skips: skips}, {Hour: hour}},
				Problems: []wire.FireReport{{Nominal: reportMade, Started: reportMade, Took: time.Second, Result: "failed", Error: "no", Job: wire.NewJID()}},
			},
		},
	}
}

func TestReportOnAScheduleRoundTrip(t *testing.T) {
	want := scheduleState()
	got, err := wire.DecodeSchedule(message(t, wire.ScheduleStateOf("p"), want))
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(inUTC(got)) != fmt.Sprint(want) || !reflect.DeepEqual(got.Entries[1].Hours, want.Entries[1].Hours) {
		t.Errorf("got  %+v\nwant %+v", inUTC(got), want)
	}
	if !got.Entries[0].Next.IsZero() {
		t.Errorf("a time that is not set is read as %v", got.Entries[0].Next)
	}
}

// inUTC has the times of a report in UTC.
func inUTC(r wire.ScheduleState) wire.ScheduleState {
	r.Time, r.Started = r.Time.UTC(), r.Started.UTC()
	for i := range r.Entries {
		e := &r.Entries[i]
		for _, at := range []*time.Time{&e.Since, &e.Next, &e.Latest, &e.Nominal, &e.Fired, &e.Started, &e.Ended, &e.Succeeded} {
			*at = at.UTC()
		}
		for j := range e.Problems {
			e.Problems[j].Nominal, e.Problems[j].Started = e.Problems[j].Nominal.UTC(), e.Problems[j].Started.UTC()
		}
	}
	return r
}

func TestReportsOnSchedulesThatAreRefused(t *testing.T) {
	long := strings.Repeat("x", 257)
	many := map[string]uint64{}
	for i := range wire.MaxReported + 1 {
		many[fmt.Sprint("r", i)] = 1
	}
	for name, change := range map[string]func(*wire.ScheduleState, *wire.EntryReport){
		"a newer version":              func(r *wire.ScheduleState, _ *wire.EntryReport) { r.V = wire.Version + 1 },
		"no peel":                      func(r *wire.ScheduleState, _ *wire.EntryReport) { r.Peel = "" },
		"a long commit":                func(r *wire.ScheduleState, _ *wire.EntryReport) { r.Commit = strings.Repeat("x", 1025) },
		"fewer than no more entries":   func(r *wire.ScheduleState, _ *wire.EntryReport) { r.More = -1 },
		"too many more entries":        func(r *wire.ScheduleState, _ *wire.EntryReport) { r.More = 1001 },
		"too many entries":             func(r *wire.ScheduleState, _ *wire.EntryReport) { r.Entries = entries(1001) },
		"an entry without a name":      func(r *wire.ScheduleState, _ *wire.EntryReport) { r.Entries[0].Name = "" },
		"a long name":                  func(_ *wire.ScheduleState, e *wire.EntryReport) { e.Name = long },
		"entries out of order":         func(r *wire.ScheduleState, _ *wire.EntryReport) { slices.Reverse(r.Entries) },
		"an entry twice":               func(r *wire.ScheduleState, e *wire.EntryReport) { e.Name = r.Entries[0].Name },
		"a long reason for the state":  func(_ *wire.ScheduleState, e *wire.EntryReport) { e.Why = long + long },
		"a long error":                 func(_ *wire.ScheduleState, e *wire.EntryReport) { e.Error = long },
		"a job that is none":           func(_ *wire.ScheduleState, e *wire.EntryReport) { e.Job = "x" },
		"fewer than no runs in flight": func(_ *wire.ScheduleState, e *wire.EntryReport) { e.Running = -1 },
		"a duration below 0":           func(_ *wire.ScheduleState, e *wire.EntryReport) { e.P95 = -1 },
		"too many reasons":             func(_ *wire.ScheduleState, e *wire.EntryReport) { e.Skips = many },
		"a reason without a name":      func(_ *wire.ScheduleState, e *wire.EntryReport) { e.Skips = map[string]uint64{"": 1} },
		"a long reason of an hour":     func(_ *wire.ScheduleState, e *wire.EntryReport) { e.Hours[1].Skips = map[string]uint64{long: 1} },
		"too many hours":               func(_ *wire.ScheduleState, e *wire.EntryReport) { e.Hours = make([]wire.ScheduleHour, 50) },
		"hours out of order":           func(_ *wire.ScheduleState, e *wire.EntryReport) { slices.Reverse(e.Hours) },
		"an hour twice":                func(_ *wire.ScheduleState, e *wire.EntryReport) { e.Hours[0].Hour = e.Hours[1].Hour },
		"an hour that is to come":      func(_ *wire.ScheduleState, e *wire.EntryReport) { e.Hours[1].Hour++ },
		"an hour of three days ago":    func(_ *wire.ScheduleState, e *wire.EntryReport) { e.Hours[0].Hour -= 24 },
		"too many fires":               func(_ *wire.ScheduleState, e *wire.EntryReport) { e.Problems = make([]wire.FireReport, 9) },
		"a long result of a fire":      func(_ *wire.ScheduleState, e *wire.EntryReport) { e.Problems[0].Result = long },
		"a long error of a fire":       func(_ *wire.ScheduleState, e *wire.EntryReport) { e.Problems[0].Error = long },
		"a fire's job that is none":    func(_ *wire.ScheduleState, e *wire.EntryReport) { e.Problems[0].Job = "x" },
		"too many skips":               func(_ *wire.ScheduleState, e *wire.EntryReport) { e.Skips = map[string]uint64{"blackout": 1<<32 + 1} },
		"too many skips in an hour": func(_ *wire.ScheduleState, e *wire.EntryReport) {
			e.Hours[1].Skips = map[string]uint64{"blackout": 1<<32 + 1}
		},
		"too many runs in an hour":    func(_ *wire.ScheduleState, e *wire.EntryReport) { e.Hours[1].Ran = 1<<32 + 1 },
		"too many failed in an hour":  func(_ *wire.ScheduleState, e *wire.EntryReport) { e.Hours[1].Failed = 1<<32 + 1 },
		"too many late in an hour":    func(_ *wire.ScheduleState, e *wire.EntryReport) { e.Hours[1].Late = 1<<32 + 1 },
		"too many that overran":       func(_ *wire.ScheduleState, e *wire.EntryReport) { e.Hours[1].Overran = 1<<32 + 1 },
		"too many skipped in an hour": func(_ *wire.ScheduleState, e *wire.EntryReport) { e.Hours[1].Skipped = 1<<32 + 1 },
		"too many missed in an hour":  func(_ *wire.ScheduleState, e *wire.EntryReport) { e.Hours[1].Missed = 1<<32 + 1 },
		"too many by hand in an hour": func(_ *wire.ScheduleState, e *wire.EntryReport) { e.Hours[1].Manual = 1<<32 + 1 },
		"too many that are pending":   func(_ *wire.ScheduleState, e *wire.EntryReport) { e.Hours[1].Pending = 1<<32 + 1 },
	} {
		r := scheduleState()
		change(&r, &r.Entries[1])
		if got, err := wire.DecodeSchedule(message(t, wire.ScheduleStateOf("p"), r)); err == nil || got.Peel != "" {
			t.Errorf("a report with %s: %v, %v", name, got.Peel, err)
		}
	}
	if _, err := wire.DecodeSchedule(message(t, wire.ScheduleStateOf("q"), scheduleState())); !errors.Is(err, wire.ErrForged) {
		t.Errorf("a report on the subject of another peel: %v", err)
	}
	if _, err := wire.DecodeSchedule(&nats.Msg{Subject: wire.ScheduleStateOf("p"), Data: make([]byte, wire.MaxScheduleSize+1)}); err == nil || !strings.Contains(err.Error(), "limit") {
		t.Errorf("a report that is too large: %v", err)
	}
}

func entries(n int) (list []wire.EntryReport) {
	for i := range n {
		list = append(list, wire.EntryReport{Name: fmt.Sprintf("e%04d", i)})
	}
	return list
}
