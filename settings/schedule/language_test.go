package schedule

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/settings/schedule/cron"
	"github.com/seed-c01c3da5/zester/settings/schedule/window"
)

func TestEveryFieldIsRead(t *testing.T) {
	day := func(text string) (d window.Days) {
		if err := d.Add(text); err != nil {
			t.Fatal(err)
		}
		return d
	}
	for text, set := range map[string]func(*Entry){
		"interval_from: start":                     func(e *Entry) { e.Clock.IntervalFrom = FromStart },
		"interval_from: epoch, phase: 7m":          func(e *Entry) { e.Clock.IntervalFrom, e.Clock.Phase = FromEpoch, 7*time.Minute },
		"splay: {min: 1m, max: 5m}":                func(e *Entry) { e.Splay.Min, e.Splay.Max = time.Minute, 5*time.Minute },
		"jitter: 5m, splay_mode: host":             func(e *Entry) { e.Splay.Max, e.Splay.Mode = 5*time.Minute, SplayHost },
		"only_between: 22:00-06:00":                func(e *Entry) { e.Windows.Rules.Hours = []window.Hours{{From: 1320, To: 360}} },
		"only_between: [12:00-13:00, 08:00-09:00]": func(e *Entry) { e.Windows.Rules.Hours = []window.Hours{{From: 480, To: 540}, {From: 720, To: 780}} },
		"only_on: mon-fri":                         func(e *Entry) { e.Windows.Rules.On = day("1-5") },
		"not_on: [saturday, 0]":                    func(e *Entry) { e.Windows.Rules.NotOn = day("sat-sun") },
		"blackout: 2026-12-24/2027-01-06":          func(e *Entry) { e.Windows.Rules.Blackout = day("2026-12-24/2027-01-06") },
		"blackout: ['2026-12-24T18:00:00Z/2026-12-25T06:00:00Z']": func(e *Entry) {
			e.Windows.Rules.Blackout = day("2026-12-24T18:00:00Z/2026-12-25T06:00:00Z")
		},
		"outside: defer":                           func(e *Entry) { e.Windows.Outside = OutsideDefer },
		"not_before: 2026-06-01T09:00:00Z":         func(e *Entry) { e.Life.NotBefore = instant(t, "2026-06-01T09:00:00Z") },
		"until: '2026-06-01T10:00:00+01:00'":       func(e *Entry) { e.Life.Until = instant(t, "2026-06-01T09:00:00Z").UTC() },
		"max_runs: 3":                              func(e *Entry) { e.Life.MaxRuns = 3 },
		"delete_after_run: true":                   func(e *Entry) { e.Life.DeleteAfterRun = true },
		"if_running: queue":                        func(e *Entry) { e.Overlap.IfRunning = IfRunningQueue },
		"if_running: cancel, group: disk":          func(e *Entry) { e.Overlap.IfRunning, e.Overlap.Group = IfRunningCancel, "disk" },
		"if_running: allow":                        func(e *Entry) { e.Overlap.IfRunning = IfRunningAllow },
		"catch_up: run_all, catch_up_max: 5":       func(e *Entry) { e.Missed.CatchUp, e.Missed.CatchUpMax = CatchUpRunAll, 5 },
		"catch_up: run_once":                       func(e *Entry) { e.Missed.CatchUp = CatchUpRunOnce },
		"start_deadline: 0":                        func(e *Entry) { e.Missed.StartDeadline = 0 },
		"late_after: 30s":                          func(e *Entry) { e.Missed.LateAfter = 30 * time.Second },
		"retry: {attempts: 3, backoff: 10s}":       func(e *Entry) { e.Failures.Retry = Retry{Attempts: 3, Backoff: 10 * time.Second} },
		"breaker: {threshold: 3, reset_after: 5m}": func(e *Entry) { e.Failures.Breaker = Breaker{Threshold: 3, ResetAfter: 5 * time.Minute} },
		"pause_after_errors: 10":                   func(e *Entry) { e.Failures.PauseAfter = 10 },
		"return_job: failures":                     func(e *Entry) { e.ReturnJob = ReturnFailures },
		"needs: {entry: backup}":                   func(e *Entry) { e.Needs = Needs{Entry: "backup", On: NeedsSuccess} },
		"needs: {entry: backup, on: done}":         func(e *Entry) { e.Needs = Needs{Entry: "backup", On: NeedsDone} },
	} {
		want := New("x")
		want.Module, want.Clock.Interval = "cmd.run", Interval{Duration: time.Hour}
		set(want)
		if got := entry(t, "{module: cmd.run, interval: 1h, "+text+"}"); !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n got %+v\nwant %+v", text, got, want)
		}
	}
}

func TestEveryTimingIsRead(t *testing.T) {
	for text, check := range map[string]func(Clock) bool{
		"at: 2026-06-01T09:00:00Z": func(c Clock) bool { return len(c.At) == 1 },
		"at: ['2026-06-01T09:00:00Z', '2026-06-01T09:00:00+01:00', '2026-06-01T10:00:00+01:00']": func(c Clock) bool { return len(c.At) == 2 && c.At[0].Before(c.At[1]) },
		"after: 10m":                                           func(c Clock) bool { return c.After == 10*time.Minute },
		"when: every monday at 9am":                            func(c Clock) bool { return len(c.Cron) == 1 && c.Cron[0].Text == "0 9 * * 1" && c.When != "" },
		"when: every 90 minutes":                               func(c Clock) bool { return c.Interval.Duration == 90*time.Minute },
		"when: every day at 5pm in Asia/Tokyo":                 func(c Clock) bool { return c.Zone == "Asia/Tokyo" },
		"schedule: first of the month at noon":                 func(c Clock) bool { return c.Cron[0].Text == "0 12 1 * *" },
		"cron: '0 2 * * *', dst_gap: shift, dst_overlap: both": func(c Clock) bool { return c.Changes == cron.Changes{Gap: cron.GapShift, Repeat: cron.RepeatBoth} },
	} {
		if got := entry(t, "{module: cmd.run, "+text+"}").Clock; !check(got) {
			t.Errorf("%s: %+v", text, got)
		}
	}
	if e := entry(t, "{module: cmd.run, needs: {entry: backup}}"); !e.Clock.IsZero() {
		t.Errorf("got %+v", e.Clock)
	}
}

func TestPromptIsShortForItsModule(t *testing.T) {
	short := entry(t, "{prompt: check the disks, model: small, opts: {n: 1}, interval: 1h}")
	long := entry(t, "{module: prompt.run, args: {prompt: check the disks, model: small, opts: {n: 1}}, interval: 1h}")
	if string(short.Canonical()) != string(long.Canonical()) {
		t.Errorf("got %+v", short)
	}
}

// Each file in testdata/full holds a schedule with mistakes in fields of all kinds; .want has what is said
// about it.
func TestMistakesInAllFieldsAreRefusedByNameAndPosition(t *testing.T) {
	refused(t, "testdata/full/*.yaml", 3)
}

func TestCalendarsBecomeTheirDays(t *testing.T) {
	calendars, err := ParseCalendars(node(t, "zester.yaml", "holidays: [2026-12-25, 2026-12-26, sun]\nfreeze: 2026-12-20T18:00:00Z/2027-01-03T06:00:00Z"))
	if err != nil {
		t.Fatal(err)
	}
	n := node(t, "f", "x: {module: test.ping, interval: 1h, not_on: [sat, holidays], blackout: freeze}\ny: {module: test.ping, interval: 1h, only_on: [mon]}")
	if err := CheckFields(n); err != nil {
		t.Errorf("in a layer: %v", err)
	}
	if _, err := ParseSet(n); err == nil || !strings.Contains(err.Error(), "f:1:52: schedule.x.not_on: there is no calendar holidays here; zester.yaml names calendars") {
		t.Errorf("before: %v", err)
	}
	expanded := calendars.Expand(n)
	set, err := ParseSet(expanded)
	if err != nil {
		t.Fatal(err)
	}
	want := entry(t, "{module: test.ping, interval: 1h, not_on: [0, 6, 2026-12-25, 2026-12-26], blackout: ['2026-12-20T18:00:00Z/2027-01-03T06:00:00Z']}")
	if string(set["x"].Canonical()) != string(want.Canonical()) {
		t.Errorf("got %+v", set["x"].Windows)
	}
	if expanded.Get("y") != n.Get("y") || n.Get("x").Get("blackout").Value != "freeze" {
		t.Error("what names no calendar was copied, or the document changed")
	}
	if again := calendars.Expand(expanded); again != expanded {
		t.Error("expanded again")
	}
}

func TestBadCalendarsAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"[a]":            "f:1:1: calendars: must be a map of calendars, not a list",
		"sat: [sun]":     `f:1:1: calendars: "sat" is a weekday and cannot be the name of a calendar`,
		"a: [b]\nb: sat": `f:1:5: calendars.a: "b" is not a weekday, date or range; a calendar cannot contain another calendar`,
		"a: {b: c}":      "f:1:4: calendars.a: must be a weekday, date or range, not a map",
		"a: ['2026-1']":  `f:1:5: calendars.a: "2026-1" is not a weekday, date, range or calendar; write sat, mon-fri, 2026-12-24, 2026-12-24/2027-01-06, 2026-12-24T18:00:00Z/2027-01-02T06:00:00Z or a name under calendars`,
	} {
		if _, err := ParseCalendars(node(t, "f", text)); err == nil || err.Error() != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestEntriesThatNeedEachOtherAreLeftOut(t *testing.T) {
	set, err := ParseSet(node(t, "f", `
a: {module: test.ping, needs: {entry: b}}
b: {module: test.ping, needs: {entry: c}}
c: {module: test.ping, needs: {entry: a}}
d: {module: test.ping, needs: {entry: a}}
e: {module: test.ping, interval: 1h, needs: {entry: f}}
f: {module: test.ping, interval: 1h}
g: {module: test.ping, needs: {entry: nothing}}
h: {module: test.ping, needs: {entry: broken}}
broken: {module: test.ping}
`))
	want := []string{
		"f:2:31: schedule.a.needs: needs go round in a circle: a needs b needs c needs a",
		"f:3:31: schedule.b.needs: needs go round in a circle: b needs c needs a needs b",
		"f:4:31: schedule.c.needs: needs go round in a circle: c needs a needs b needs c",
		"f:8:31: schedule.g.needs: there is no entry nothing in this schedule",
		"f:10:1: schedule.broken: a timing is missing: interval, cron, at, after or when",
	}
	if err == nil || err.Error() != strings.Join(want, "\n") {
		t.Errorf("got\n%v", err)
	}
	if got := slices.Sorted(maps.Keys(set)); !slices.Equal(got, []string{"d", "e", "f", "h"}) {
		t.Errorf("set: %v", got)
	}
}

func TestEntriesOfAGroupAgree(t *testing.T) {
	set, err := ParseSet(node(t, "f", `
a: {module: test.ping, interval: 1h, group: g, maxrunning: 2}
b: {module: test.ping, interval: 1h, group: g, maxrunning: 2}
c: {module: test.ping, interval: 1h, group: g}
d: {module: test.ping, interval: 1h, group: other}
e: {enabled: false, group: g}
`))
	want := "f:4:45: schedule.c.group: maxrunning 1 and if_running skip differ from those of entry a (2, skip); a group shares them"
	if err == nil || err.Error() != want || len(set) != 4 {
		t.Errorf("%d entries, %v", len(set), err)
	}
}

func TestEpochIntervalsAreALattice(t *testing.T) {
	for _, c := range []struct{ fields, from, want string }{
		{"interval: 90m, interval_from: epoch", "1970-01-01T00:00:00Z", "1970-01-01T01:30:00Z"},
		{"interval: 90m, interval_from: epoch", "1970-01-01T01:29:59.999999999Z", "1970-01-01T01:30:00Z"},
		{"interval: 90m, interval_from: epoch", "1969-12-31T23:00:00Z", "1970-01-01T00:00:00Z"},
		{"interval: 90m, interval_from: epoch, phase: 7m", "2022-03-23T10:00:00Z", "2022-03-23T10:37:00Z"},
		{"interval: 1d, interval_from: epoch, phase: 4h", "2026-06-01T04:00:00Z", "2026-06-02T04:00:00Z"},
		{"interval: monthly, interval_from: epoch", "2026-06-01T00:00:00Z", "2026-07-01T00:00:00Z"},
		{"interval: monthly, interval_from: epoch, phase: 36h", "2026-06-01T00:00:00Z", "2026-06-02T12:00:00Z"},
		{"interval: monthly, interval_from: epoch, timezone: Asia/Tokyo", "2026-06-01T00:00:00Z", "2026-07-01T00:00:00+09:00"},
	} {
		tm := timing(t, "{"+c.fields+"}")
		if got, ok := tm.Next(instant(t, c.from)); !ok || !got.Equal(instant(t, c.want)) || tm.FollowsRuns() {
			t.Errorf("%s after %s: %v %v", c.fields, c.from, got, ok)
		}
	}
	if _, ok := timing(t, "{interval: 90m, interval_from: epoch}").Next(instant(t, "2300-01-01T00:00:00Z")); ok {
		t.Error("fires in a year that nanoseconds cannot count")
	}
}

func TestInstantsFireOnce(t *testing.T) {
	tm := timing(t, "{at: ['2026-06-01T09:00:00Z', '2026-06-01T08:00:00Z'], timezone: Europe/London}")
	got := slices.Collect(tm.Between(instant(t, "2026-06-01T07:00:00Z"), instant(t, "2030-06-01T07:00:00Z")))
	if len(got) != 2 || got[0].Format(time.RFC3339) != "2026-06-01T09:00:00+01:00" {
		t.Errorf("got %v", got)
	}
	if at, ok := tm.Next(instant(t, "2026-06-01T09:00:00Z")); ok {
		t.Errorf("fires at %v", at)
	}
}

func TestAfterCountsFromWhenTheEntryWasSeen(t *testing.T) {
	tm := timing(t, "{after: 10m}")
	seen := instant(t, "2026-06-01T09:00:00Z")
	if at, ok := tm.Next(seen); ok {
		t.Errorf("fires at %v without having been seen", at)
	}
	at, ok := tm.Seen(seen).Next(seen)
	if !ok || !at.Equal(seen.Add(10*time.Minute)) {
		t.Errorf("got %v %v", at, ok)
	}
	if _, again := tm.Seen(seen).Next(at); again {
		t.Error("fires again")
	}
	if interval := timing(t, "{interval: 1h}"); !reflect.DeepEqual(interval, interval.Seen(seen)) {
		t.Error("another timing changed")
	}
}

func TestWindowsFollowTheZoneOfTheEntry(t *testing.T) {
	tm := timing(t, "{interval: 1h, only_between: '22:00-06:00', not_on: saturday, timezone: Australia/Sydney}")
	at := instant(t, "2026-06-06T05:59:00+10:00") // Saturday, the window of Friday
	if got := tm.Window(at); got != window.Open {
		t.Errorf("at %v: %q", at, got)
	}
	opens, ok := tm.Opens(at.Add(time.Minute))
	if !ok || !opens.Equal(instant(t, "2026-06-07T22:00:00+10:00")) {
		t.Errorf("opens at %v %v", opens, ok)
	}
	if got := (Timing{}).Window(at); got != window.Open {
		t.Errorf("without windows: %q", got)
	}
}

func TestHostSplayIsFixedAndSpread(t *testing.T) {
	s := Splay{Min: time.Minute, Max: 11 * time.Minute, Mode: SplayHost}
	first := s.Offset("web-1", "disk", s.Max)
	if again := s.Offset("web-1", "disk", s.Max); again != first {
		t.Errorf("%v, then %v", first, again)
	}
	if s.Offset("web-1d", "isk", s.Max) == s.Offset("web-1", "disk", s.Max) || s.Offset("web-1", "cpu", s.Max) == first || s.Offset("web-2", "disk", s.Max) == first {
		t.Error("other names have the same offset")
	}
	var buckets [10]int
	for i := range 10_000 {
		d := s.Offset(fmt.Sprintf("web-%d", i), "disk", s.Max)
		if d < s.Min || d >= s.Max {
			t.Fatalf("%v is not in [%v, %v)", d, s.Min, s.Max)
		}
		buckets[(d-s.Min)/time.Minute]++
	}
	for i, n := range buckets {
		if n < 850 || n > 1150 {
			t.Errorf("minute %d has %d of 10,000 peels", i, n)
		}
	}
	if d := s.Offset("web-1", "disk", 30*time.Second); d < 0 || d >= 30*time.Second {
		t.Errorf("a bound below min: %v", d)
	}
	if d := (Splay{}).Offset("web-1", "disk", 0); d != 0 {
		t.Errorf("no splay: %v", d)
	}
}

// semanticCase is a case about more than one expression; its meta tells the fields.
type semanticCase struct {
	ID, Kind, Expr, Zone string
	Created, Last, Now   time.Time
	From                 time.Time
	Deadline             *int `json:"starting_deadline_s"`
	Expect               json.RawMessage
	Spec                 struct {
		Interval, Phase, Timezone string
		Cron                      []string
	}
}

// leftOut are the cases that only a running scheduler can answer; it does so in TestCasesOfSalt of peel/scheduler.
var leftOut = map[string]string{
	"salt-0001": "skipping one occurrence by hand is state of the scheduler",
	"salt-0002": "the schedule of fires around a blackout is the scheduler's; windows have the blackout",
	"salt-0004": "deferring is the scheduler's; windows say when one opens",
	"salt-0005": "skipping one occurrence by hand is state of the scheduler",
}

// semanticDeviations are the cases that our rules answer otherwise.
var semanticDeviations = map[string]string{
	"temporal-0006": "an entry has one timing; two entries are the union",
}

func TestSemanticCasesOfOtherSchedulers(t *testing.T) {
	data, err := os.ReadFile("testdata/semantic.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []semanticCase }
	if err := json.Unmarshal(data, &file); err != nil || len(file.Cases) != 13 {
		t.Fatal(len(file.Cases), err)
	}
	for _, c := range file.Cases {
		t.Run(c.ID, func(t *testing.T) {
			switch {
			case leftOut[c.ID] != "":
			case c.Kind == "missed":
				c.missed(t)
			case c.Kind == "interval_seq":
				c.sequence(t)
			case c.Kind == "spec_error":
				_, err := ParseEntry("x", node(t, "f", fmt.Sprintf("{module: test.ping, cron: %q, timezone: %s}", c.Spec.Cron, c.Spec.Timezone)))
				if err == nil || !strings.Contains(err.Error(), "an entry has one zone") {
					t.Errorf("got %v", err)
				}
			default:
				t.Errorf("kind %s", c.Kind)
			}
		})
	}
}

// missed asks for the fires since the last one, or since the entry is there.
func (c semanticCase) missed(t *testing.T) {
	since := c.Last
	if since.IsZero() {
		since = c.Created
	}
	if c.Deadline != nil {
		since = c.Now.Add(-time.Duration(*c.Deadline) * time.Second)
	}
	tm := timing(t, fmt.Sprintf("{cron: %q, timezone: %s}", c.Expr, c.Zone))
	got := slices.Collect(tm.Between(since, c.Now))
	var want []time.Time
	if string(c.Expect) == `"no_error"` {
		if len(got) != 2 {
			t.Errorf("got %v", got)
		}
		return
	}
	if err := json.Unmarshal(c.Expect, &want); err != nil {
		t.Fatal(err)
	}
	if !slices.EqualFunc(got, want, time.Time.Equal) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func (c semanticCase) sequence(t *testing.T) {
	var want []time.Time
	if err := json.Unmarshal(c.Expect, &want); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("{module: test.ping, interval: %s, interval_from: epoch, phase: %s", c.Spec.Interval, c.Spec.Phase)
	until := want[len(want)-1]
	if semanticDeviations[c.ID] != "" {
		if _, err := ParseEntry("x", node(t, "f", fmt.Sprintf("%s, cron: %q}", text, c.Spec.Cron))); err == nil {
			t.Error("two timings are accepted")
		}
		lattice, crons := timing(t, "{"+strings.TrimPrefix(text, "{module: test.ping, ")+"}"), timing(t, fmt.Sprintf("{cron: %q, timezone: %s}", c.Spec.Cron, c.Zone))
		got := slices.Concat(slices.Collect(lattice.Between(c.From, until)), slices.Collect(crons.Between(c.From, until)))
		slices.SortFunc(got, time.Time.Compare)
		if !slices.EqualFunc(got, want, time.Time.Equal) {
			t.Errorf("as two entries: %v", got)
		}
		return
	}
	tm := timing(t, "{"+strings.TrimPrefix(text, "{module: test.ping, ")+"}")
	if got := slices.Collect(tm.Between(c.From, until)); !slices.EqualFunc(got, want, time.Time.Equal) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func FuzzParseAllFields(f *testing.F) {
	for _, pattern := range []string{"testdata/*/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Fuzz(checkSet)
}

func BenchmarkNextOnLattice(b *testing.B) {
	tm := timing(b, "{interval: 90m, interval_from: epoch, phase: 7m}")
	from := time.Date(2026, 3, 7, 12, 0, 0, 0, time.UTC)
	b.ReportAllocs()
	for b.Loop() {
		tm.Next(from)
	}
}

func BenchmarkHostOffset(b *testing.B) {
	s := Splay{Max: 15 * time.Minute, Mode: SplayHost}
	b.ReportAllocs()
	for b.Loop() {
		s.Offset("web-0001.example.com", "disk_check", s.Max)
	}
}
