package scheduler_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/scheduler"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/schedule"
)

func TestHistorySurvivesARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "state")
		h := start(t, scheduler.Options{StateFile: file})
		h.takes["e"] = 90 * time.Second
		h.results["e"] = func() wire.Result { return wire.Result{Error: "no"} }
		h.apply(one(t, "interval: 1m"))
		time.Sleep(3 * time.Minute)
		before := h.entry("e")
		h.shut()
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("state file %v, %v", info, err)
		}
		h = start(t, scheduler.Options{StateFile: file})
		defer h.shut()
		h.apply(one(t, "interval: 1m"))
		after := h.entry("e")
		if after.Runs != 1 || after.FailuresInRow != 1 || after.Error != "no" || after.Skips[ledger.AlreadyRunning] != 1 {
			t.Errorf("%+v", after)
		}
		if !after.Ended.Equal(before.Ended) || !after.Nominal.Equal(before.Nominal) || !after.Seen.Equal(before.Seen) {
			t.Errorf("before %+v, after %+v", before, after)
		}
	})
}

// A commit that changes what an entry does, and nothing that its history says, costs the host's disk no write.
func TestStateIsStoredWhenItHasChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "state")
		h := start(t, scheduler.Options{StateFile: file})
		defer h.shut()
		h.results["e"] = func() wire.Result { return wire.Result{Error: "no"} }
		stored := func(change string) bool {
			before, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte("untouched"), 0o600); err != nil {
				t.Fatal(err)
			}
			h.apply(one(t, change))
			time.Sleep(2 * time.Second)
			after, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if string(after) == "untouched" {
				if err := os.WriteFile(file, before, 0o600); err != nil {
					t.Fatal(err)
				}
				return false
			}
			return true
		}
		h.apply(one(t, "interval: 1h"))
		time.Sleep(2 * time.Second)
		if stored("interval: 1h, args: {n: 1}") {
			t.Error("the state is stored although an entry has other arguments alone")
		}
		if !stored("interval: 2h, args: {n: 1}") {
			t.Error("a new timing is not stored")
		}
		time.Sleep(2 * time.Hour)
		if n := h.entry("e").FailuresInRow; n != 1 {
			t.Fatalf("%d failures", n)
		}
		if !stored("interval: 2h, args: {n: 2}") {
			t.Error("forgiven failures are not stored")
		}
	})
}

func TestIntervalGoesOnInItsRhythmAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "state")
		h := start(t, scheduler.Options{StateFile: file})
		h.apply(one(t, "interval: 1h"))
		time.Sleep(80 * time.Minute)
		h.shut()
		h = start(t, scheduler.Options{StateFile: file})
		h.apply(one(t, "interval: 1h"))
		time.Sleep(45 * time.Minute)
		h.expectRuns("e", 40*time.Minute)
		h.shut()
		time.Sleep(10 * time.Hour) // what was missed is not made up
		h = start(t, scheduler.Options{StateFile: file})
		defer h.shut()
		h.apply(one(t, "interval: 1h"))
		time.Sleep(time.Hour)
		h.expectRuns("e", 55*time.Minute)
	})
}

func TestRunOnStartFiresOncePerProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "state")
		for range 3 {
			h := start(t, scheduler.Options{StateFile: file})
			h.apply(one(t, "interval: 1h, run_on_start: true"))
			time.Sleep(10 * time.Minute)
			h.expectRuns("e", 0)
			h.shut()
		}
	})
}

func TestRestartWithTheClockSetBackRunsNoFixedTimeTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "state")
		h := start(t, scheduler.Options{StateFile: file, Zone: time.UTC})
		h.apply(one(t, `cron: "30 0-23 * * *"`))
		time.Sleep(40 * time.Minute)
		h.shut()
		var c tamper
		c.set(-30 * time.Minute)
		h = c.host(t, scheduler.Options{StateFile: file, Zone: time.UTC})
		defer h.shut()
		h.apply(one(t, `cron: "30 0-23 * * *"`))
		time.Sleep(25 * time.Minute)
		h.expectRuns("e")
	})
}

// A crash is a process whose state file is as it was at that moment.
func TestCrashLosesNoMoreThanASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		h := start(t, scheduler.Options{StateFile: filepath.Join(dir, "state")})
		h.apply(one(t, "interval: 1s"))
		time.Sleep(100 * time.Second)
		synctest.Wait()
		data, err := os.ReadFile(filepath.Join(dir, "state"))
		if err != nil {
			t.Fatal(err)
		}
		runs := uint64(len(h.runs("e")))
		h.shut()
		if err := os.WriteFile(filepath.Join(dir, "crashed"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		h = start(t, scheduler.Options{StateFile: filepath.Join(dir, "crashed")})
		defer h.shut()
		h.apply(one(t, "interval: 1s"))
		if e := h.entry("e"); e.Runs+1 < runs {
			t.Errorf("%d of %d runs remembered", e.Runs, runs)
		}
	})
}

func TestAFileGrowsByLittleForARunAndNotWhenIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "state")
		h := start(t, scheduler.Options{StateFile: file})
		defer h.shut()
		size := func() int64 {
			synctest.Wait()
			info, err := os.Stat(file)
			if err != nil {
				t.Fatal(err)
			}
			return info.Size()
		}
		h.apply(parse(t, "a: {module: test.ping, interval: 10s}\nb: {module: test.ping, interval: 10s, splay: 300ms}"))
		time.Sleep(11 * time.Second)
		before := size()
		time.Sleep(60 * time.Second)
		if bytes := (size() - before) / 12; bytes < 100 || bytes > 2000 {
			t.Errorf("%d bytes for a run", bytes)
		}
		h.apply(nil)
		time.Sleep(2 * time.Second)
		before = size()
		time.Sleep(time.Hour)
		if n := size() - before; n != 0 {
			t.Errorf("%d bytes while idle", n)
		}
		written := func(args int) bool { // the schedule is stored again once it is applied with these
			before := size()
			h.apply(parse(t, fmt.Sprintf("a: {module: test.ping, cron: '@daily', args: {n: %d}}\nb: {module: test.ping, interval: 24h}", args)))
			time.Sleep(2 * time.Second)
			return size() != before
		}
		for i, args := range []int{1, 1, 2, 2} {
			if got, want := written(args), i == 0; got != want { // other arguments alone are no history
				t.Errorf("schedule %d: written is %v", i, got)
			}
		}
	})
}

func TestStateFileThatCannotBeUnderstoodIsMovedAside(t *testing.T) {
	for name, data := range map[string]string{"garbage": "\x00\x01", "of something else": `{"v":1,"entries":{"e":{"runs":1}}}`} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				file := filepath.Join(t.TempDir(), "state")
				if err := os.WriteFile(file, []byte(data), 0o600); err != nil {
					t.Fatal(err)
				}
				var j journal
				h := start(t, scheduler.Options{StateFile: file, Log: j.logger()})
				defer h.shut()
				h.apply(one(t, "interval: 1m"))
				time.Sleep(time.Minute)
				h.expectRuns("e", time.Minute)
				if kept, err := os.ReadFile(file + ".bad"); err != nil || string(kept) != data {
					t.Errorf("%q, %v", kept, err)
				}
				if j.count("pauses and counts of runs are lost") != 1 || !strings.Contains(h.Damage(), "are lost") {
					t.Errorf("not told: %q", h.Damage())
				}
			})
		})
	}
}

func TestStateFileThatCannotBeReadIsTold(t *testing.T) {
	s, err := scheduler.New(scheduler.Options{
		StateFile: t.TempDir(), // a directory
		Exec:      func(context.Context, scheduler.Fire) wire.Result { return wire.Result{} },
	})
	if err != nil || s.Damage() == "" {
		t.Error(s.Damage(), err)
	}
}

func TestScheduleRunsOnWhenItsStateCannotBeStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "gone")
		var j journal
		h := start(t, scheduler.Options{StateFile: filepath.Join(dir, "state"), Log: j.logger()})
		h.apply(one(t, "interval: 1s"))
		time.Sleep(time.Hour)
		if n := len(h.runs("e")); n != 3600 {
			t.Errorf("%d runs", n)
		}
		if n := j.count("history of runs is in memory only"); n < 50 || n > 61 {
			t.Errorf("%d log lines in an hour", n)
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		h.shut()
		if state := read(t, filepath.Join(dir, "state")); state.Entries["e"].Runs != 3600 {
			t.Errorf("%+v", state.Entries["e"])
		}
	})
}

func TestForgottenAreTheEntriesThatLeftLongestAgo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "state")
		h := start(t, scheduler.Options{StateFile: file})
		entry := one(t, "interval: 1h")["e"]
		for i := range 1200 {
			h.apply(schedule.Set{nameOf(i): entry})
			time.Sleep(10 * time.Millisecond)
		}
		h.shut()
		if entries := read(t, file).Entries; !entries[nameOf(198)].Seen.IsZero() || entries[nameOf(199)].Seen.IsZero() {
			t.Error("want the last entry and the 1,000 before it")
		}
	})
}

func TestAnEntryThatWasRemovedIsToldOfForTwoDays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{Zone: time.UTC})
		defer h.shut()
		h.apply(one(t, "interval: 1h"))
		time.Sleep(time.Hour)
		h.apply(nil)
		for _, want := range []int{1, 0} {
			time.Sleep(47 * time.Hour) // then 94 hours
			a, err := h.Account(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got := a.Removed; len(got) != want || want > 0 && (got[0].Name != "e" || got[0].State != scheduler.StateRemoved) {
				t.Errorf("%v after the removal it tells of %d entries, want %d", time.Since(h.begin)-time.Hour, len(got), want)
			}
			for _, e := range a.Removed {
				if mark := e.List.Marks[len(e.List.Marks)-1]; mark.Kind != ledger.Rests || mark.Why != ledger.Removed {
					t.Errorf("its list ends with the mark %+v", mark)
				}
			}
		}
	})
}

func nameOf(i int) string {
	return "entry-" + string(rune('a'+i/676%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i%26))
}

func TestLongErrorIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{})
		defer h.shut()
		h.results["e"] = func() wire.Result { return wire.Result{Error: "x" + strings.Repeat("é", 1<<20)} }
		h.apply(one(t, "interval: 1m"))
		time.Sleep(time.Minute)
		if e := h.entry("e"); len(e.Error) != 1023 || strings.ContainsRune(e.Error, '�') {
			t.Errorf("%d bytes", len(e.Error))
		}
	})
}

func TestStateOfEveryKindOfEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{Zone: time.UTC})
		defer h.shut()
		set := parse(t, `
        a: {module: test.ping, interval: 90m}
        b: {module: cmd.run, cron: ["0 */4 * * *", "5 5 * * mon"], timezone: Europe/London}
        c: {enabled: false}
        d: {module: test.ping, interval: monthly}
        e: {module: test.ping, interval: 2h, splay: 1h}
        f: {module: test.ping, at: ["2000-01-01T05:00:00+02:00", "2000-01-02T00:00:00Z"], timezone: Asia/Tokyo}
        g: {module: test.ping, after: 90s}
        h: {module: test.ping, interval: 2h, interval_from: epoch, phase: 10m}
        i: {module: test.ping, interval: 2h, interval_from: start}
        j: {module: test.ping, cron: "0 2 * * *", dst_gap: skip}
        k: {module: test.ping, needs: {entry: a}}`)
		set["z"] = &schedule.Entry{
			Name: "z", Module: "test.ping", Enabled: true,
			Clock: schedule.Clock{Interval: schedule.Interval{Duration: time.Hour}, IntervalFrom: schedule.FromEnd, Zone: "Mars/Olympus"},
		}
		h.apply(set)
		list, err := h.State(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []struct {
			name   string
			state  scheduler.State
			timing string
			next   time.Duration
		}{
			{"a", scheduler.StateActive, "interval 1h30m", 90 * time.Minute},
			{"b", scheduler.StateActive, "cron 0 */4 * * * | 5 5 * * mon in Europe/London", 4 * time.Hour},
			{"c", scheduler.StateDisabled, "", 0},
			{"d", scheduler.StateActive, "interval monthly", 31 * 24 * time.Hour},
			{"e", scheduler.StateActive, "interval 2h", 2 * time.Hour},
			{"f", scheduler.StateActive, "at 2000-01-01T03:00:00Z | 2000-01-02T00:00:00Z", 3 * time.Hour},
			{"g", scheduler.StateActive, "after 1m30s", 90 * time.Second},
			{"h", scheduler.StateActive, "interval 2h from epoch + 10m", 10 * time.Minute},
			{"i", scheduler.StateActive, "interval 2h from start", 2 * time.Hour},
			{"j", scheduler.StateActive, "cron 0 2 * * * (dst_gap skip, dst_overlap auto)", 2 * time.Hour},
			{"k", scheduler.StateActive, "", 0},
			{"z", scheduler.StateInvalid, "interval 1h", 0},
		} {
			e := list[i]
			if e.Name != want.name || e.State != want.state || e.Timing != want.timing {
				t.Errorf("%+v, want %+v", e, want)
			}
			if want.next == 0 {
				if !e.NextFire.IsZero() || !e.NextNominal.IsZero() {
					t.Errorf("%s has a next fire: %+v", want.name, e)
				}
				continue
			}
			if !e.NextNominal.Equal(h.begin.Add(want.next)) || e.NextFire.Before(e.NextNominal) {
				t.Errorf("%s: next %v, fire %v", want.name, e.NextNominal, e.NextFire)
			}
		}
		if why := list[11].Why; !strings.Contains(why, "Mars/Olympus") {
			t.Errorf("why %q", why)
		}
	})
}

func TestEntryThatTheHostIsNotAbleToRunIsPausedUntilItChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{Zone: time.UTC, Able: func(e *schedule.Entry) error {
			if e.Module == "test.ping" {
				return nil
			}
			return errors.New("no " + e.Module)
		}})
		defer h.shut()
		h.apply(one(t, "interval: 1h, args: {a: 1}"))
		h.apply(parse(t, "e: {module: test.pong, interval: 1h}\nf: {module: test.ping, interval: 1h}\ng: {module: x.y, interval: 1h, enabled: false}"))
		time.Sleep(90 * time.Minute)
		if e := h.entry("e"); e.State != scheduler.StateInvalid || e.Why != "no test.pong" || !e.NextFire.IsZero() {
			t.Errorf("%+v", e)
		}
		if err := h.Start(t.Context(), "e", "ada"); !errors.Is(err, scheduler.ErrNotActive) {
			t.Errorf("by hand: %v", err)
		}
		if e := h.entry("g"); e.State != scheduler.StateDisabled {
			t.Errorf("%+v", e)
		}
		h.expectRuns("e")
		h.expectRuns("f", time.Hour)
		h.apply(one(t, "interval: 1h"))
		time.Sleep(time.Hour)
		h.expectRuns("e", 150*time.Minute)
	})
}

// read returns what is in the file of a schedule.
func read(t testing.TB, file string) scheduler.StoredState {
	t.Helper()
	store, state, err := scheduler.OpenStore(file, slog.New(slog.DiscardHandler))
	if err != nil || store.Damage() != "" {
		t.Fatal(store.Damage(), err)
	}
	return state
}

// write writes what a process might have left.
func write(t testing.TB, file string, state scheduler.StoredState) {
	t.Helper()
	store, _, err := scheduler.OpenStore(file, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	saver := scheduler.NewSaver(store)
	if err := saver.Stop(func() scheduler.Change { return scheduler.Change{State: state} }, time.Now(), slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
}

func FuzzStateFile(f *testing.F) {
	f.Add(`{"e":{"seen":"2026-01-01T00:00:00Z","ended":"2026-01-01T00:00:00Z","skips":{"already_running":3}}}`)
	f.Add(`{"e":{"started":"0001-01-01T00:00:01Z","nominal":"9999-12-31T23:59:59Z"}}`)
	f.Add(`{"e":{"ended":"9999-12-31T23:59:59Z","left":"1600-01-01T00:00:00Z"}}`)
	f.Add(`{"f":{"active":"0001-01-01T00:00:00Z","nominal":"1999-01-01T00:00:00Z","timing_hash":"b7","held":"2000-01-01T00:00:00Z"}}`)
	f.Add(`{"f":{"breaker":{"transitions":[{"to":"half_open"},{"to":"x","time":"9999-01-01T00:00:00Z"}]},"last":[{}],"skip":{},"failures_in_row":1}}`)
	f.Add(`{"f":{"waiting":{"trigger":"timer","nominal":"1999-12-31T23:59:00Z","fired":"9999-01-01T00:00:00Z","since":"0001-01-01T00:00:00Z"}},"e":{"waiting":{}}}`)
	f.Fuzz(func(t *testing.T, data string) {
		synctest.Test(t, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "state")
			var state scheduler.StoredState
			if json.Unmarshal([]byte(data), &state.Entries) != nil {
				return
			}
			write(t, file, state)
			h := start(t, scheduler.Options{StateFile: file})
			h.alien = true
			defer h.shut()
			h.apply(parse(t, "e: {module: test.ping, interval: 1m}\nf: {module: test.ping, cron: \"* * * * *\"}"))
			if e := h.entry("e"); !e.NextFire.After(h.begin) || e.NextFire.After(h.begin.Add(time.Minute)) {
				t.Errorf("the interval ends at %v", e.NextFire)
			}
			if f := h.entry("f"); !f.NextFire.After(h.begin) || f.NextFire.After(h.begin.Add(3*time.Hour+time.Minute)) {
				t.Errorf("the next minute is %v", f.NextFire)
			}
		})
	})
}

// A file of which nothing can be read has one before it, with the pause of an operator.
func TestAPauseOutlivesADamagedStateFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "state")
		o := scheduler.Options{StateFile: file}
		h := start(t, o)
		h.apply(parse(t, "e: {module: test.ping, interval: 1m}\nf: {module: test.ping, interval: 1m}"))
		if err := h.Pause(t.Context(), "e", scheduler.Override{By: "ann"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		h.shut()
		h = start(t, o)
		h.apply(parse(t, "e: {module: test.ping, interval: 1m}\nf: {module: test.ping, interval: 1m}"))
		h.shut()
		for _, damaged := range []bool{true, false} { // or the file is not there: a crash came between the two names
			if damaged {
				if err := os.WriteFile(file, []byte("\x00"), 0o600); err != nil {
					t.Fatal(err)
				}
			} else if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			h = start(t, o)
			h.apply(parse(t, "e: {module: test.ping, interval: 1m}\nf: {module: test.ping, interval: 1m}"))
			if e := h.entry("e"); e.State != scheduler.StatePaused {
				t.Errorf("damaged %v: the entry is %s", damaged, e.State)
			}
			if damage := h.Damage(); strings.HasSuffix(damage, "what changed since then is lost") != damaged {
				t.Errorf("damaged %v: %q", damaged, damage)
			}
			time.Sleep(2 * time.Minute)
			h.shut()
		}
	})
}
