package scheduler_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/scheduler"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// crash returns what a process would find that starts now, were this one killed.
func crash(t *testing.T, o scheduler.Options) scheduler.Options {
	t.Helper()
	synctest.Wait()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Dir(o.StateFile))); err != nil {
		t.Fatal(err)
	}
	o.StateFile = filepath.Join(dir, filepath.Base(o.StateFile))
	return o
}

// records are the runs that are not seen through.
func records(t *testing.T, o scheduler.Options) []scheduler.OpenRun {
	t.Helper()
	store, state, err := scheduler.OpenStore(crash(t, o).StateFile, slog.New(slog.DiscardHandler))
	if err != nil || store.Damage() != "" {
		t.Fatal(store.Damage(), err)
	}
	return state.Open
}

const interrupted = "interrupted: the peel was killed or its host went down while it ran"

func TestRunThatAKillCutsOffIsRecordedAndReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state"), Zone: time.UTC}
		set := parse(t, `
        e: {module: test.ping, args: {a: 1}, cron: "5 * * * *", splay: {min: 1m, max: 61s}, return_job: true}
        failing: {module: test.ping, interval: 4m, return_job: failures, breaker: {threshold: 1, reset_after: 1h}}
        silent: {module: test.ping, interval: 7m}
        changed: {module: test.ping, interval: 7m, args: {a: 1}, return_job: true}`)
		first := start(t, o)
		first.takes = map[string]time.Duration{"e": time.Hour, "silent": time.Hour, "changed": time.Hour}
		first.answer("failing", failure)
		first.apply(set)
		time.Sleep(7 * time.Minute) // silent and changed have just begun
		crashed := crash(t, o)
		first.stop()
		first.shut()

		h := start(t, crashed)
		h.apply(set)
		if e := h.entry("e"); e.Interrupted != 1 || e.Runs != 1 || e.Failures != 0 || e.FailuresInRow != 0 || e.Error != interrupted || !e.Ended.IsZero() {
			t.Errorf("%+v", e)
		}
		for _, name := range []string{"e", "silent", "changed"} {
			if e := h.entry(name); len(e.Last) != 1 || !e.Last[0].Interrupted || e.Last[0].Error != interrupted || !e.Last[0].Ended.IsZero() {
				t.Errorf("%s: %+v", name, e.Last)
			}
		}
		reports := map[string]scheduler.Fire{}
		for _, f := range h.reported() {
			reports[f.Name] = f
		}
		if len(h.reported()) != 2 || len(reports) != 2 {
			t.Fatalf("reported: %+v", h.reported())
		}
		begin := first.begin
		for _, run := range first.all() {
			if f := reports[run.Name]; run.Name == "e" && (f.JID != run.JID || f.Entry.Args["a"] != int64(1) || h.entry("e").Last[0].Job != string(f.JID) ||
				!f.Nominal.Equal(begin.Add(5*time.Minute)) || f.Fired.Before(begin.Add(6*time.Minute)) || !f.Started.Equal(run.Started)) {
				t.Errorf("%+v is reported as %+v", run, f)
			}
		}
		if e := h.entry("failing"); e.Runs != 1 || e.Interrupted != 0 || e.BreakerState != scheduler.BreakerOpen {
			t.Errorf("%+v", e)
		}
		time.Sleep(2 * time.Second)
		if left := records(t, crashed); len(left) != 0 {
			t.Errorf("left on disk: %v", left)
		}
		again := crash(t, crashed)
		h.shut()
		h = start(t, again)
		defer h.shut()
		h.apply(set)
		if e := h.entry("e"); len(h.reported()) != 0 || e.Interrupted != 1 || len(e.Last) != 1 {
			t.Errorf("the second start reports %v, %+v", h.reported(), e)
		}
	})
}

func TestInterruptedRunOfAnEntryThatChangedIsReportedWithoutItsArguments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state")}
		h := start(t, o)
		h.takes["e"] = time.Hour
		h.apply(one(t, "interval: 1m, args: {a: 1}, return_job: true"))
		time.Sleep(time.Minute)
		crashed := crash(t, o)
		h.stop()
		h.shut()
		h = start(t, crashed)
		defer h.shut()
		h.apply(one(t, "interval: 1m, args: {a: 2}, return_job: true"))
		if r := h.reported(); len(r) != 1 || r[0].Entry.Module != "test.ping" || r[0].Entry.Args != nil {
			t.Errorf("%+v", r)
		}
	})
}

func TestRunThatEndedInTheLastSecondBeforeAKillIsNotInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state")}
		h := start(t, o)
		h.takes["e"] = 500 * time.Millisecond
		set := one(t, "interval: 1m, return_job: true, max_runs: 1")
		h.store = func(scheduler.Fire) bool { time.Sleep(10 * time.Second); return true }
		h.apply(set)
		time.Sleep(time.Minute + 600*time.Millisecond) // the state file has the start and not the end
		crashed := crash(t, o)
		h.stop()
		h.shut()
		h = start(t, crashed)
		h.apply(set)
		if e := h.entry("e"); e.Runs != 1 || e.Interrupted != 0 || e.State != scheduler.StateExhausted || !e.Last[0].Success || e.Last[0].Ended.Sub(e.Last[0].Started) != 500*time.Millisecond {
			t.Errorf("%+v", e)
		}
		if len(h.reported()) != 1 {
			t.Error("its report, which was not stored, is lost")
		}
		crashed = crash(t, crashed)
		h.shut()
		h = start(t, crashed)
		defer h.shut()
		h.apply(set)
		if len(h.reported()) != 0 {
			t.Error("it is reported twice")
		}
	})
}

func TestInterruptedRunCountsTowardsMaxRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state")}
		set := one(t, "interval: 1m, max_runs: 1")
		h := start(t, o)
		h.takes["e"] = time.Hour
		h.apply(set)
		time.Sleep(time.Minute)
		crashed := crash(t, o)
		h.stop()
		h.shut()
		h = start(t, crashed)
		defer h.shut()
		h.apply(set)
		time.Sleep(time.Hour)
		h.expectRuns("e")
		if e := h.entry("e"); e.State != scheduler.StateExhausted {
			t.Errorf("%+v", e)
		}
	})
}

func TestStopLeavesNoRecordOfARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state")}
		h := start(t, o)
		h.takes["e"] = 8 * time.Second
		h.apply(one(t, "interval: 1m"))
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := len(records(t, o)); n != 1 {
			t.Errorf("%d records of a run in flight", n)
		}
		h.shut()
		if left := records(t, o); len(left) != 0 {
			t.Errorf("left on disk: %v", left)
		}
	})
}

func TestRunsThatStartTogetherAllHaveARecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const runs = 16
		var j journal
		var entries strings.Builder
		for i := range runs {
			fmt.Fprintf(&entries, "e%d: {module: test.ping, interval: 1m}\n", i)
		}
		o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state"), Log: j.logger()}
		h := start(t, o)
		for i := range runs {
			h.takes[fmt.Sprintf("e%d", i)] = 5 * time.Second
		}
		h.apply(parse(t, entries.String()))
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := len(records(t, o)); n != runs || j.count("without a record") != 0 {
			t.Errorf("%d records of %d runs\n%s", n, runs, j.lines)
		}
		h.shut()
	})
}

// A byte that the disk has changed costs one record, and is told. No list claims to have all fires of before: else masters
// would take those of the lost record for missed.
func TestADamagedRecordIsLeftOutAndTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state")}
		h := start(t, o)
		set := parse(t, "e: {module: test.ping, interval: 1m}\nf: {module: test.ping, interval: 1m}")
		h.apply(set)
		for _, name := range []string{"e", "f"} {
			h.must(h.Pause(t.Context(), name, scheduler.Override{By: "ann"}))
		}
		time.Sleep(2 * time.Second)
		h.shut()
		data, err := os.ReadFile(o.StateFile)
		if err != nil {
			t.Fatal(err)
		}
		lost := 0
		for at := range data {
			if at%7 > 0 {
				continue
			}
			bad := bytes.Clone(data)
			bad[at] ^= 1
			if err := os.WriteFile(o.StateFile, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			h := start(t, o)
			h.alien = true
			h.apply(set)
			for _, name := range []string{"e", "f"} {
				e := h.entry(name)
				if e.State != scheduler.StatePaused {
					lost++
				}
				if e.List.From.Before(ledger.At(h.begin)) {
					t.Errorf("byte %d: the list of %s is complete since %v", at, name, h.begin.Sub(e.List.From))
				}
			}
			if h.Damage() == "" {
				t.Errorf("byte %d: not told", at)
			}
			h.shut()
		}
		if lost == 0 || lost > 2*len(data)/7/2 {
			t.Errorf("%d pauses are lost by %d damages", lost, len(data)/7)
		}
	})
}

// The state file is lost, and the one before it is from before the runs of half an hour: none of them is missed, and none
// runs again.
func TestNothingIsMadeUpAfterTheStateFileIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state")}
		set := parse(t, "e: {module: test.ping, cron: '* * * * *', catch_up: run_all}")
		h := start(t, o)
		h.apply(set)
		time.Sleep(5 * time.Minute)
		h.shut()
		old, err := os.ReadFile(o.StateFile)
		if err != nil {
			t.Fatal(err)
		}
		h = start(t, o)
		h.apply(set)
		time.Sleep(30 * time.Minute)
		h.shut()
		for suffix, data := range map[string][]byte{"": []byte("damage"), ".1": old} {
			if err := os.WriteFile(o.StateFile+suffix, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}

		lost := time.Now()
		h = start(t, o)
		h.apply(set)
		time.Sleep(150 * time.Second)
		ran := 0
		e := h.entry("e")
		for f := range e.List.All() {
			switch {
			case f.Outcome == ledger.Missed:
				t.Errorf("%v is missed", f.Nominal)
			case f.Outcome == ledger.Ran && !f.Nominal.Before(lost.Add(-time.Minute)):
				ran++
			case f.Outcome == ledger.Ran && f.Nominal.After(lost.Add(-29*time.Minute)):
				t.Errorf("%v ran again", f.Nominal)
			}
		}
		if ran < 2 || h.Damage() == "" {
			t.Errorf("%d runs after the start, %q", ran, h.Damage())
		}
		h.shut()
	})
}

// childEnv names the state file of the process that TestKilledProcessLeavesATrace kills.
const childEnv = "ZESTER_TEST_SCHEDULER_STATE"

// runChild runs an entry without end, and says when its function is called.
func runChild(stateFile string) {
	s, err := scheduler.New(scheduler.Options{StateFile: stateFile, Exec: func(context.Context, scheduler.Fire) wire.Result {
		_, _ = os.Stdout.WriteString("called\n")
		select {}
	}})
	if err != nil {
		panic(err)
	}
	go func() { _ = s.Run(context.Background()) }()
	node, err := strictyaml.Parse("schedule.yaml", []byte("e: {module: test.ping, interval: 1000h}"))
	if err != nil {
		panic(err)
	}
	set, err := schedule.ParseSet(node)
	if err == nil {
		_, err = s.Apply(context.Background(), set)
	}
	if err == nil {
		err = s.Start(context.Background(), "e", "")
	}
	if err != nil {
		panic(err)
	}
	select {}
}

func TestKilledProcessLeavesATrace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state")
	for n := 1; n <= 3; n++ {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), childEnv+"="+file)
		out, err := child.StdoutPipe()
		if err == nil {
			err = child.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		_ = child.Process.Kill()
		_ = child.Wait()
		if err != nil || line != "called\n" {
			t.Fatalf("the child says %q, %v", line, err)
		}
		h := start(t, scheduler.Options{StateFile: file})
		h.apply(one(t, "interval: 1000h"))
		list, err := h.State(t.Context())
		if err != nil || len(list) != 1 || list[0].Interrupted != uint64(n) || list[0].Runs != uint64(n) || len(list[0].Last) != n || !list[0].Last[n-1].Interrupted {
			t.Errorf("after %d kills: %+v, %v", n, list, err)
		}
		h.shut()
	}
}

// The interval of a run that was cut off counts from its start, not from the start of the next process.
func TestAnIntervalCountsFromTheRunThatAKillCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state")}
		h := start(t, o)
		h.takes["e"] = time.Hour
		set := parse(t, "e: {module: test.ping, interval: 1h}\nf: {module: test.ping, interval: 59m59500ms}")
		h.apply(set)
		time.Sleep(time.Hour)
		crashed := crash(t, o) // the run has just begun, and the state was stored half a second before
		h.shut()
		next := start(t, crashed)
		defer next.shut()
		next.apply(set)
		time.Sleep(time.Hour)
		want := h.begin.Add(2 * time.Hour).Sub(next.begin)
		next.expectRuns("e", want)
	})
}
