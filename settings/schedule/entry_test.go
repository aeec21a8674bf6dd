package schedule

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

var update = flag.Bool("update", false, "write the messages in testdata anew")

func node(t testing.TB, file, text string) *strictyaml.Node {
	t.Helper()
	n, err := strictyaml.Parse(file, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// entry reads one entry in flow style.
func entry(t testing.TB, text string) *Entry {
	t.Helper()
	e, err := ParseEntry("x", node(t, "f.yaml", text))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestEntryHasAllFieldsAndDefaults(t *testing.T) {
	e := entry(t, `{module: cmd.run, interval: 1h}`)
	want := New("x")
	want.Module, want.Clock.Interval = "cmd.run", Interval{Duration: time.Hour}
	if !reflect.DeepEqual(e, want) {
		t.Errorf("got  %+v\nwant %+v", e, want)
	}
	if !e.Enabled || e.Overlap.MaxRunning != 1 || e.RunOnStart || e.ReturnJob != ReturnNever || e.Splay.Max != 0 {
		t.Errorf("defaults: %+v", e)
	}
	e = entry(t, `
module: cmd.run
args: {command: "df -h", list: [1, 2.5, null, true], map: {a: b}}
cron: ["0 4 * * *", "CRON_TZ=Europe/London 30  5 * * Mon"]
timezone: Europe/London
splay: 15m
maxrunning: 3
run_on_start: true
return_job: true
enabled: true
timeout: 1d12h
`)
	if got := e.Args["list"]; !reflect.DeepEqual(got, []any{int64(1), 2.5, nil, true}) {
		t.Errorf("args: %#v", got)
	}
	if e.Clock.Cron[1].Text != "30 5 * * Mon" || e.Clock.Zone != "Europe/London" || len(e.Clock.Cron) != 2 {
		t.Errorf("clock: %+v", e.Clock)
	}
	if e.Splay.Max != 15*time.Minute || e.Overlap.MaxRunning != 3 || !e.RunOnStart || e.ReturnJob != ReturnAlways || e.Timeout != 36*time.Hour {
		t.Errorf("got %+v", e)
	}
}

func TestNamedIntervals(t *testing.T) {
	for name, want := range map[string]Interval{
		"hourly": {Duration: time.Hour}, "daily": {Duration: 24 * time.Hour}, "weekly": {Duration: 168 * time.Hour}, "monthly": {Months: 1},
		"1s": {Duration: time.Second}, "3650d": {Duration: MaxInterval}, "1d12h": {Duration: 36 * time.Hour},
	} {
		if got := entry(t, "{module: test.ping, interval: "+name+"}").Clock.Interval; got != want {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

// Each file in testdata/bad holds a schedule; the file of the same name that ends in .want holds what
// ParseSet says about it.
func TestBadSchedulesAreRefusedByNameAndPosition(t *testing.T) {
	refused(t, "testdata/bad/*.yaml", 10)
}

func refused(t *testing.T, pattern string, least int) {
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) < least {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			n := node(t, filepath.Base(file), string(data)).Get("schedule")
			set, err := ParseSet(n)
			if err == nil {
				t.Fatalf("accepted: %v", set)
			}
			got := err.Error() + "\n"
			golden := strings.TrimSuffix(file, ".yaml") + ".want"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got:\n%swant:\n%s", got, want)
			}
		})
	}
}

func TestOneBadEntryLeavesTheOthers(t *testing.T) {
	set, err := ParseSet(node(t, "f", "a: {module: test.ping, interval: 1h}\nb: {module: test.ping}\nc: {module: test.ping, cron: '0 0 31 4 *'}\nd: {module: test.ping, cron: '@daily'}"))
	errs, _ := err.(strictyaml.Errors)
	if len(errs) != 2 || errs[0].Path != "schedule.b" || errs[1].Path != "schedule.c.cron" || errs[1].Pos.Line != 3 {
		t.Errorf("errors: %v", err)
	}
	if len(set) != 2 || set["a"] == nil || set["d"] == nil {
		t.Errorf("set: %v", set)
	}
}

func TestEntriesWithMistakesCanBeKeptAsInvalid(t *testing.T) {
	n := node(t, "f", "a: {module: test.ping, interval: 1h}\nb: {module: test.ping, someday: soon}\nb.c: {module: test.ping, needs: {entry: x}}\n'd e': {}\nf: 5\n")
	set, err := ParseSet(n)
	if len(set) != 1 {
		t.Fatalf("%d entries", len(set))
	}
	fine := set["a"]
	KeepInvalid(set, n, err)
	for name, want := range map[string]string{
		"b": "f:2:24: schedule.b.someday: unknown field", "b.c": "f:3:33: schedule.b.c.needs: there is no entry x in this schedule",
		"f": "f:5:4: schedule.f: must be a map of fields, not a whole number",
	} {
		if e := set[name]; e == nil || !strings.HasPrefix(e.Invalid, want) || e.Name != name || !e.Enabled || !e.Clock.IsZero() {
			t.Errorf("%s: %+v", name, e)
		}
	}
	if len(set) != 4 || set["a"] != fine {
		t.Errorf("%d entries", len(set))
	}
	if merged := Merge(Set{"b": fine}, set); merged["b"].Invalid == "" {
		t.Error("the static entry is let through")
	}
}

func TestMoreThanTheLimitOfEntriesIsRefused(t *testing.T) {
	var b strings.Builder
	for i := range MaxEntries + 1 {
		fmt.Fprintf(&b, "e%d: {module: test.ping, interval: 1h}\n", i)
	}
	set, err := ParseSet(node(t, "f", b.String()))
	if err == nil || err.Error() != "f:1001:1: schedule: 1001 entries; a schedule has at most 1000" || len(set) != 1000 {
		t.Errorf("%d entries, %v", len(set), err)
	}
}

func TestADisabledEntryNeedsNoTiming(t *testing.T) {
	e := entry(t, "enabled: false")
	tm, err := e.Timing(nil)
	if err != nil {
		t.Fatal(err)
	}
	if at, ok := tm.Next(time.Now()); ok {
		t.Errorf("fires at %v", at)
	}
	if _, err := ParseEntry("x", node(t, "f", "{enabled: false, cron: 'x'}")); err == nil {
		t.Error("a wrong field of a disabled entry is accepted")
	}
}

func TestNullRemovesAField(t *testing.T) {
	if e := entry(t, "{module: test.ping, interval: ~, cron: '@daily', at: ~}"); len(e.Clock.Cron) != 1 {
		t.Errorf("got %+v", e.Clock)
	}
}

func TestOneLayerNeedNotBeComplete(t *testing.T) {
	for _, text := range []string{
		"~", "{}", "x: ~", "x: {}", "x: {interval: ~}", "x: {splay: 5m}", "x: {cron: '@daily', interval: ~}", "x: {enabled: false}",
	} {
		if err := CheckFields(node(t, "f", text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for text, want := range map[string]string{
		"[a]": "f:1:1: schedule: must be a map of entries, not a list",
		"x: {module: test.ping, interval: 1h, retry: {attempts: 2, interval: 5s}}": `f:1:59: schedule.x.retry.interval: unknown key; the keys are attempts, backoff`,
		"x: {module: test.ping, interval: 1h, return_job: failure}":                `f:1:50: schedule.x.return_job: must be true, false or failures, not a string (failure)`,
		"x: {intervall: 1h}":                `f:1:5: schedule.x.intervall: unknown field; did you mean "interval"?`,
		"x: {interval: 30}":                 `f:1:15: schedule.x.interval: must be a duration like 90s, 5m or 1d12h, not a whole number (30); write 30s for seconds, 30m for minutes`,
		"x y: {}":                           `f:1:1: schedule."x y": an entry's name has 1 to 128 of the characters A-Z a-z 0-9 _ . -`,
		"x: 5":                              "f:1:4: schedule.x: must be a map of fields, not a whole number (5)",
		"x: {cron: '0 0 31 2 *'}":           `f:1:11: schedule.x.cron: cron "0 0 31 2 *" never fires: no month that it names has such a day`,
		"x: {interval: 1h, cron: '@daily'}": "f:1:19: schedule.x: both interval (f:1:5) and cron (f:1:19) are set; an entry has one timing",
	} {
		if err := CheckFields(node(t, "f", text)); err == nil || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", text, err, want)
		}
	}
}

// merged lays the fields of b over those of a, as the plan does.
func merged(a, b *strictyaml.Node) *strictyaml.Node {
	out := &strictyaml.Node{Kind: strictyaml.Map, Pos: a.Pos}
	for _, p := range a.Map {
		if b.Get(p.Key) == nil {
			out.Map = append(out.Map, p)
		}
	}
	for _, p := range b.Map {
		if p.Value.Kind != strictyaml.Null {
			out.Map = append(out.Map, p)
		}
	}
	return out
}

func TestTimingsFromTwoFilesNameBothAndTheMend(t *testing.T) {
	a := node(t, "a.yaml", "module: test.ping\ninterval: 1h")
	_, err := ParseEntry("x", merged(a, node(t, "b.yaml", "cron: '@daily'")))
	want := `b.yaml:1:1: schedule.x: both interval (a.yaml:2:1) and cron (b.yaml:1:1) are set; an entry has one timing; ` +
		`where one file is to replace the timing of another, write "interval: null" (or "cron: null") in the later file for the one that goes`
	if err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
	e, err := ParseEntry("x", merged(a, node(t, "b.yaml", "cron: '@daily'\ninterval: null")))
	if err != nil || len(e.Clock.Cron) != 1 {
		t.Errorf("with the mend: %v, %v", e, err)
	}
}

func TestEntriesSurviveTheBus(t *testing.T) {
	text := "{module: cmd.run, args: {n: 300, f: 1.5, neg: -1}, cron: '0 4 * * *', splay: 5m, maxrunning: 3, return_job: true}"
	n := node(t, "f", text)
	e, err := ParseEntry("x", strictyaml.FromValue("settings", n.Any()))
	if err != nil || string(e.Canonical()) != string(entry(t, text).Canonical()) {
		t.Errorf("got %+v, %v", e, err)
	}
	_, err = ParseSet(strictyaml.FromValue("settings", map[string]any{"x": map[string]any{"module": "a.b", "interval": 30}}))
	if err == nil || !strings.HasPrefix(err.Error(), "settings: schedule.x.interval: must be a duration") {
		t.Errorf("got %v", err)
	}
}

func FuzzParseEntry(f *testing.F) {
	files, _ := filepath.Glob("testdata/*/*.yaml")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("schedule:\n  x: {module: cmd.run, cron: ['CRON_TZ=UTC 0 4 * * *', '@daily'], timezone: UTC, splay: 1d}"))
	f.Fuzz(checkSet)
}

// checkSet asks of any document what must hold for all.
func checkSet(t *testing.T, data []byte) {
	n, err := strictyaml.Parse("f", data)
	if err != nil || n.Get("schedule") == nil {
		return
	}
	n = n.Get("schedule")
	set, err := ParseSet(n)
	if fieldsErr := CheckFields(n); err == nil && fieldsErr != nil {
		// A null entry is refused by ParseSet and fine in a layer, never the other way round.
		t.Errorf("the set is fine, its fields are not: %v", fieldsErr)
	}
	again, _ := ParseSet(strictyaml.FromValue("settings", n.Any()))
	if d := Diff(set, again); len(d.Kept) != len(set) {
		t.Errorf("changed on the bus: %+v", d)
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		e := set[name]
		tm, err := e.Timing(time.UTC)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		after := time.Date(2026, 3, 29, 0, 30, 0, 0, time.UTC)
		if at, ok := tm.Next(after); ok != (e.Clock.Interval != Interval{} || len(e.Clock.Cron) > 0) && len(e.Clock.At) == 0 || ok && !at.After(after) {
			t.Errorf("%s: next is %v %v", name, at, ok)
		}
	}
}

func BenchmarkParseSetOf1000(b *testing.B) {
	var text strings.Builder
	for i := range MaxEntries {
		fmt.Fprintf(&text, "e%d: {module: cmd.run, args: {command: df}, cron: '%d */4 * * *', splay: 5m, timezone: Europe/London}\n", i, i%60)
	}
	n := node(b, "f", text.String())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseSet(n); err != nil {
			b.Fatal(err)
		}
	}
}
