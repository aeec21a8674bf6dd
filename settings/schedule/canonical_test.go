package schedule

import (
	"reflect"
	"testing"
)

func TestEqualEntriesHaveEqualCanonicalBytes(t *testing.T) {
	for _, pair := range [][2]string{
		{"{module: cmd.run, interval: 1h, args: {a: 1, b: [2]}}", "{args: {b: [2], a: 1}, interval: 60m, module: cmd.run}"},
		{"{module: cmd.run, interval: 1h}", "{command: cmd.run, every: 1h}"},
		{"{module: cmd.run, interval: 1h, splay: 5m, args: {}}", "{module: cmd.run, interval: hourly, jitter: 300s, payload: {}}"},
		{"{module: cmd.run, interval: 1h}", "{module: cmd.run, interval: 1h, args: {}, maxrunning: 1, enabled: true, return_job: false, run_on_start: false, splay: 0}"},
		{"{module: cmd.run, cron: '0  4 * * SUN'}", "{module: cmd.run, cron: ['00 4 * * 7']}"},
		{"{module: cmd.run, cron: ['0 4 * * *', '0 5 * * *']}", "{module: cmd.run, cron: ['0 5 * * *', '0 4 * * *', '0 4 * * *']}"},
		{"{module: cmd.run, cron: 'CRON_TZ=Asia/Tokyo 0 4 * * *'}", "{module: cmd.run, cron: '0 4 * * *', timezone: Asia/Tokyo}"},
		{"{module: cmd.run, cron: '@Daily'}", "{module: cmd.run, cron: '0 0 * * *'}"},
	} {
		a, b := entry(t, pair[0]), entry(t, pair[1])
		if string(a.Canonical()) != string(b.Canonical()) || a.TimingHash() != b.TimingHash() {
			t.Errorf("differ:\n%s\n%s", a.Canonical(), b.Canonical())
		}
	}
}

func TestSpellingsOfAllFieldsMakeNoDifference(t *testing.T) {
	for _, pair := range [][2]string{
		{"{module: cmd.run, when: every monday at 9am}", "{module: cmd.run, cron: '0 9 * * 1'}"},
		{"{module: cmd.run, when: every 90 minutes}", "{module: cmd.run, interval: 90m}"},
		{"{module: cmd.run, at: '2026-06-01T09:00:00+01:00'}", "{module: cmd.run, at: ['2026-06-01T08:00:00Z', '2026-06-01T08:00:00Z']}"},
		{"{module: cmd.run, interval: 1h, only_on: [mon, tue, 3]}", "{module: cmd.run, interval: 1h, only_on: [1-3]}"},
		{"{module: cmd.run, interval: 1h, only_between: ['8:00-9:00']}", "{module: cmd.run, interval: 1h, only_between: '08:00 - 09:00'}"},
		{"{module: cmd.run, interval: 1h, splay: {max: 5m}}", "{module: cmd.run, interval: 1h, splay: 5m}"},
		{"{module: cmd.run, interval: 1h, blackout: [2026-12-24, 2026-12-20]}", "{module: cmd.run, interval: 1h, blackout: [2026-12-20, 2026-12-24]}"},
		{"{module: cmd.run, interval: 1h}", "{module: cmd.run, interval: 1h, interval_from: end, splay_mode: random, outside: skip, if_running: skip, " +
			"catch_up: skip, catch_up_max: 100, start_deadline: 3h, pause_after_errors: 0}"},
	} {
		a, b := entry(t, pair[0]), entry(t, pair[1])
		if string(a.Canonical()) != string(b.Canonical()) || a.TimingHash() != b.TimingHash() {
			t.Errorf("differ:\n%s\n%s", a.Canonical(), b.Canonical())
		}
	}
}

func TestEveryFieldMakesADifference(t *testing.T) {
	seen := make(map[string]string)
	for text, retimed := range map[string]bool{
		"": false, "interval_from: start": true, "interval_from: epoch": true, "interval_from: epoch, phase: 1m": true,
		"splay: 5m": false, "splay: {min: 1m, max: 5m}": false, "splay: 5m, splay_mode: host": false,
		"only_between: '08:00-09:00'": false, "only_on: mon": false, "not_on: mon": false, "blackout: mon": false, "outside: defer": false,
		"blackout: 2026-01-01": false, "blackout: '2026-01-01T00:00:00Z/2026-01-02T00:00:00Z'": false,
		"not_before: '2026-01-01T00:00:00Z'": false, "until: '2026-01-01T00:00:00Z'": false, "max_runs: 1": false, "delete_after_run: true": false,
		"if_running: queue": false, "group: g": false, "catch_up: run_once": false, "catch_up_max: 5": false, "start_deadline: 1h": false,
		"late_after: 1m": false, "retry: {attempts: 1, backoff: 0}": false, "breaker: {threshold: 1, reset_after: 1m}": false,
		"pause_after_errors: 10": false, "return_job: failures": false, "needs: {entry: y}": false, "needs: {entry: y, on: done}": false,
	} {
		e := entry(t, "{module: cmd.run, interval: 1h, "+text+"}")
		b := string(e.Canonical())
		if other, dup := seen[b]; dup {
			t.Errorf("%q and %q are taken for equal", text, other)
		}
		seen[b] = text
		if got := e.TimingHash() != entry(t, "{module: cmd.run, interval: 1h}").TimingHash(); got != retimed {
			t.Errorf("%q: the timing differs: %v", text, got)
		}
	}
	cron := entry(t, "{module: cmd.run, cron: '@daily'}")
	for _, text := range []string{"cron: '@daily', dst_gap: skip", "cron: '@daily', dst_overlap: last", "at: '2026-01-01T00:00:00Z'", "after: 1h"} {
		if e := entry(t, "{module: cmd.run, "+text+"}"); e.TimingHash() == cron.TimingHash() {
			t.Errorf("%q: the timing is equal", text)
		}
	}
}

func TestDifferentEntriesHaveDifferentCanonicalBytes(t *testing.T) {
	texts := []string{
		"{module: cmd.run, interval: 1h}", "{module: cmd.run, interval: 2h}", "{module: cmd.run, interval: monthly}", "{module: test.ping, interval: 1h}",
		"{module: cmd.run, interval: monthly, timezone: Asia/Tokyo}",
		"{module: cmd.run, interval: 1h, args: {a: 3}}", "{module: cmd.run, interval: 1h, args: {a: 3.0}}", "{module: cmd.run, interval: 1h, args: {a: '3'}}",
		"{module: cmd.run, interval: 1h, args: {a: [1, 2]}}", "{module: cmd.run, interval: 1h, args: {a: [[1], 2]}}", "{module: cmd.run, interval: 1h, args: {a: [[1, 2]]}}",
		"{module: cmd.run, interval: 1h, args: {a: ~}}", "{module: cmd.run, interval: 1h, args: {a: {}}}", "{module: cmd.run, interval: 1h, args: {a: []}}",
		"{module: cmd.run, interval: 1h, args: {a: true}}", "{module: cmd.run, interval: 1h, args: {a: '', b: ''}}", "{module: cmd.run, interval: 1h, args: {ab: ''}}",
		"{module: cmd.run, interval: 1h, splay: 1s}", "{module: cmd.run, interval: 1h, maxrunning: 2}", "{module: cmd.run, interval: 1h, run_on_start: true}",
		"{module: cmd.run, interval: 1h, return_job: true}", "{module: cmd.run, interval: 1h, enabled: false}", "{module: cmd.run, interval: 1h, timeout: 1h}",
		"{module: cmd.run, interval: 1h, timezone: UTC}",
		"{module: cmd.run, cron: '0 4 * * *'}", "{module: cmd.run, cron: '0 4 * * *', timezone: UTC}", "{module: cmd.run, cron: '0 4 1 * *'}",
		"{module: cmd.run, cron: ['0 4 * * *', '0 5 * * *']}", "{module: cmd.run, cron: '0 0-23 * * *'}", "{module: cmd.run, cron: '0 * * * *'}",
		"{module: cmd.run, cron: '0 4 */2 * 1'}", "{module: cmd.run, cron: '0 4 1-31/2 * 1'}",
	}
	seen := make(map[string]string)
	for _, text := range texts {
		b := string(entry(t, text).Canonical())
		if other, dup := seen[b]; dup {
			t.Errorf("%s and %s are taken for equal", text, other)
		}
		seen[b] = text
	}
}

func TestDiffSortsEntriesByTheEffectOfAReload(t *testing.T) {
	set := func(text string) Set {
		s, err := ParseSet(node(t, "f", text))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	old := set(`
kept: {module: test.ping, interval: 1h, args: {a: 1, b: 2}}
alias: {module: test.ping, interval: 1h}
args: {module: test.ping, interval: 1h}
splay: {module: test.ping, cron: "@daily"}
zone: {module: test.ping, interval: 1h}
off: {module: test.ping, interval: 1h}
retimed: {module: test.ping, interval: 1h}
kind: {module: test.ping, interval: 1h}
moved: {module: test.ping, cron: "@daily"}
gone: {module: test.ping, interval: 1h}
`)
	is := set(`
# The same, written otherwise.
kept: {args: {b: 2, a: 1}, interval: 60m, module: test.ping}
alias: {command: test.ping, every: 1h}
args: {module: test.ping, interval: 1h, args: {x: 1}}
splay: {module: test.ping, cron: "@daily", splay: 5m}
zone: {module: test.ping, interval: 1h, timezone: Asia/Tokyo}
off: {module: test.ping, interval: 1h, enabled: false}
retimed: {module: test.ping, interval: 2h}
kind: {module: test.ping, cron: "@daily"}
moved: {module: test.ping, cron: "@daily", timezone: Asia/Tokyo}
new: {module: test.ping, interval: 1h}
`)
	want := Changes{
		Added: []string{"new"}, Removed: []string{"gone"}, Retimed: []string{"kind", "moved", "retimed"},
		Swapped: []string{"args", "off", "splay", "zone"}, Kept: []string{"alias", "kept"},
	}
	if got := Diff(old, is); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got := Diff(nil, nil); !reflect.DeepEqual(got, Changes{}) {
		t.Errorf("nothing: %+v", got)
	}
}

func TestSettingsWinOverStaticEntriesAndMaskThem(t *testing.T) {
	static := Set{"a": entry(t, "{module: test.ping, interval: 1h}"), "b": entry(t, "{module: test.ping, interval: 1h}")}
	pushed := Set{"b": entry(t, "enabled: false"), "c": entry(t, "{module: test.ping, interval: 2h}")}
	got := Merge(static, pushed)
	if len(got) != 3 || got["a"] != static["a"] || got["b"] != pushed["b"] || got["c"] != pushed["c"] || len(static) != 2 {
		t.Errorf("got %v", got)
	}
	if got := Merge(nil, pushed); len(got) != 2 {
		t.Errorf("without static entries: %v", got)
	}
	if got := Merge(static, nil); !reflect.DeepEqual(got, static) {
		t.Errorf("settings gone: %v", got)
	}
}

func BenchmarkCanonical(b *testing.B) {
	e := entry(b, "{module: cmd.run, args: {command: df, list: [1, 2]}, cron: '0 */4 * * *', splay: 5m}")
	b.ReportAllocs()
	for b.Loop() {
		e.Canonical()
	}
}
