package peel_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// scheduleState is the newest report on the schedule that the bus stores.
func (b *bench) scheduleState() *ledger.Report {
	b.t.Helper()
	stream, err := b.bus.JetStream(b.t).Stream(b.t.Context(), wire.StreamScheduleState)
	if err != nil {
		b.t.Fatal(err)
	}
	stored, err := stream.GetLastMsgForSubject(b.t.Context(), wire.ScheduleStateOf(id.Wire()))
	for range 10 {
		if !errors.Is(err, jetstream.ErrMsgNotFound) {
			break
		}
		time.Sleep(time.Second) // a report is heard before the stream has it
		stored, err = stream.GetLastMsgForSubject(b.t.Context(), wire.ScheduleStateOf(id.Wire()))
	}
	if err != nil {
		b.t.Fatal(err)
	}
	r, err := ledger.Decode(&nats.Msg{Subject: stored.Subject, Data: stored.Data})
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

func TestPeelReportsWhatHappenedToItsFires(t *testing.T) {
	run(t, func(b *bench) {
		b.start()
		digest := b.give(1, `
schedule:
  beat: {module: test.ping, interval: 1m}
  bad: {module: cmd.run, args: {argv: [/nonexistent]}, cron: "*/10 * * * *"}`)
		time.Sleep(time.Hour + 12*time.Minute)
		r := b.scheduleState()
		if r.Digest != string(digest) || r.Commit == "" || r.Zone.Name != "UTC" || r.Peel != id || time.Since(r.Time) > 11*time.Minute {
			t.Errorf("%+v", r)
		}
		if len(r.Entries) != 2 || r.Entries[0].Place != 0 || r.Entries[1].Place != 1 {
			t.Fatalf("%+v", r.Entries)
		}
		bad, good := r.Entries[0], r.Entries[1]
		if n := number(&bad, ledger.Failed); n < 6 || bad.InRow != uint64(n) || bad.Error == "" || len(bad.Notes) < 6 || bad.Notes[0].Error == "" {
			t.Errorf("%+v", bad)
		}
		if n := good.Notes[0]; n.Commit != "beef" || n.Generation != 1 {
			t.Errorf("the note of a run has not its settings: %+v", n)
		}
		if n := number(&good, ledger.Ran); n < 60 || number(&good, ledger.Failed) > 0 || len(good.Fires) > 3 || good.Took.Runs != uint64(n) {
			t.Errorf("%+v", good)
		}
	})
}

// number returns how many fires of an entry have an outcome.
func number(e *ledger.EntryReport, outcome ledger.Outcome) (n int) {
	for _, r := range e.Fires {
		if r.Outcome == outcome {
			n += r.Count
		}
	}
	return n
}

// newest returns the newest fire of an entry.
func newest(e *ledger.EntryReport) (r ledger.Run) {
	if n := len(e.Fires); n > 0 {
		r = e.Fires[n-1]
	}
	return r
}

// A reading collects the reports on the schedule that a master hears.
type reading struct {
	b    *bench
	msgs chan *nats.Msg
}

func (b *bench) readReports() reading {
	b.t.Helper()
	r := reading{b, make(chan *nats.Msg, 10_000)}
	if _, err := b.nc.ChanSubscribe(wire.AllScheduleStates, r.msgs); err != nil {
		b.t.Fatal(err)
	}
	return r
}

// expect waits for a report of which ok is true of entry e.
func (r reading) expect(what string, within time.Duration, ok func(*ledger.EntryReport) bool) {
	r.b.t.Helper()
	late := time.After(within)
	var last strings.Builder
	for {
		select {
		case msg := <-r.msgs:
			report, err := ledger.Decode(msg)
			if err != nil {
				r.b.t.Fatal(err)
			}
			if e := report.Entry("e", []string{"e"}); e != nil {
				if ok(e) {
					return
				}
				fmt.Fprintf(&last, "\n%s: %+v", report.Time.Format(time.TimeOnly), *e)
			}
		case <-late:
			r.b.t.Fatalf("%s was not reported within %v:%s", what, within, last.String())
		}
	}
}

// until waits for a time, and forgets the reports until one second before.
func (r reading) until(at time.Time) {
	time.Sleep(time.Until(at.Add(-time.Second)))
	r.heard()
	time.Sleep(time.Second)
}

// heard is how many reports came since the last call.
func (r reading) heard() int {
	synctest.Wait()
	n := len(r.msgs)
	for range n {
		<-r.msgs
	}
	return n
}

// A change of class is reported within 6 s: the stream's confirmation, and at least 5 s between two reports.
func TestChangeOfClassIsReportedAtOnce(t *testing.T) {
	const soon = 6 * time.Second
	for name, c := range map[string]struct {
		entry string
		act   func(*bench, reading)
	}{
		"first failure and recovery": {`{module: settings.get, args: {key: flag}, cron: "0 * * * *"}`, func(b *bench, r reading) {
			r.until(date(1, 0))
			r.expect("the failure", soon, func(e *ledger.EntryReport) bool {
				return e.InRow == 1 && e.Error != "" && newest(e).Outcome == ledger.Failed
			})
			time.Sleep(time.Until(date(1, 50)))
			b.give(2, "flag: true\nschedule:\n  e: {module: settings.get, args: {key: flag}, cron: \"0 * * * *\"}")
			r.until(date(2, 0))
			r.expect("the recovery", soon, func(e *ledger.EntryReport) bool { return e.InRow == 0 && e.Error == "" && !e.Succeeded.IsZero() })
		}},
		"a pause and its end": {`{module: test.ping, cron: "0 * * * *"}`, func(b *bench, r reading) {
			time.Sleep(time.Minute)
			r.heard()
			b.call("schedule.pause", map[string]any{"entry": "e", "reason": "a move", "for": "30m"})
			r.expect("the pause", soon, func(e *ledger.EntryReport) bool {
				return e.State == "paused_manual" && strings.Contains(e.Why, "a move") && e.Next.IsZero() && time.Since(e.Since) < soon
			})
			time.Sleep(29*time.Minute + 50*time.Second)
			r.heard()
			r.expect("its end", 10*time.Second+soon, func(e *ledger.EntryReport) bool { return e.State == "active" && e.Next.Equal(date(1, 0)) })
		}},
		"failures in a row": {`{module: test.fail, cron: "* * * * *", pause_after_errors: 3}`, func(_ *bench, r reading) {
			r.expect("the pause", 3*time.Minute+soon, func(e *ledger.EntryReport) bool { return e.State == "paused_errors" && e.InRow == 3 })
		}},
		"a breaker": {`{module: test.fail, cron: "* * * * *", breaker: {threshold: 3, reset_after: 1h}}`, func(_ *bench, r reading) {
			r.expect("the breaker", 3*time.Minute+soon, func(e *ledger.EntryReport) bool { return e.Breaker == "open" })
		}},
		"a late run": {`{module: test.sleep, args: {duration: 1m}, cron: "0 * * * *", splay: {min: 10m, max: 10m1s}, late_after: 5m}`, func(_ *bench, r reading) {
			r.until(date(1, 10))
			r.expect("the late run, which goes on", soon+time.Second, func(e *ledger.EntryReport) bool {
				return e.Running == 1 && newest(e).Late && newest(e).Why == ledger.Runs
			})
		}},
		"an overrun": {`{module: test.sleep, args: {duration: 3h}, cron: "0 * * * *"}`, func(_ *bench, r reading) {
			r.until(date(2, 0))
			r.expect("the overrun, which goes on", soon, func(e *ledger.EntryReport) bool {
				return e.Running == 1 && newest(e).Why == ledger.AlreadyRunning && e.Fires[0].Overran && e.Fires[0].Why == ledger.Runs
			})
		}},
		"a timeout": {`{module: test.sleep, args: {duration: 3h}, timeout: 5m, cron: "0 * * * *"}`, func(_ *bench, r reading) {
			r.until(date(1, 5))
			r.expect("the timeout", soon, func(e *ledger.EntryReport) bool {
				return newest(e).Overran && number(e, ledger.Failed) == 1
			})
		}},
		"a fire that waits too long": {`{module: test.sleep, args: {duration: 5h}, cron: "0 * * * *", if_running: queue, start_deadline: 20m}`, func(_ *bench, r reading) {
			r.until(date(2, 20))
			r.expect("the missed fire", time.Minute+soon, func(e *ledger.EntryReport) bool { return number(e, ledger.Missed) == 1 })
		}},
		"a stop": {`{module: test.ping, cron: "0 * * * *"}`, func(b *bench, r reading) {
			time.Sleep(time.Until(date(1, 30)))
			b.stop()
			time.Sleep(3 * time.Hour)
			r.heard()
			b.start()
			r.expect("what was missed", 11*time.Second, func(e *ledger.EntryReport) bool {
				return number(e, ledger.Missed) == 3 && number(e, ledger.Ran) == 1 && newest(e).Why == ledger.Down
			})
		}},
		"a reload": {`{module: test.ping, cron: "0 * * * *"}`, func(b *bench, r reading) {
			time.Sleep(time.Minute)
			r.heard()
			b.give(2, "schedule:\n  e: {module: test.ping, cron: \"0 5 * * *\", start_deadline: 10m, splay: 1h}")
			r.expect("the new timing", soon, func(e *ledger.EntryReport) bool {
				latest := e.Latest.Sub(date(5, 10))
				return e.Next.Equal(date(5, 0)) && latest >= 0 && latest < time.Hour && time.Since(e.Since) < soon
			})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(b *bench) {
				r := b.readReports()
				b.start()
				b.give(1, "schedule:\n  e: "+c.entry)
				r.expect("the entry", 15*time.Second, func(e *ledger.EntryReport) bool { return e.State == "active" && e.Name == "" })
				c.act(b, r)
			})
		})
	}
}

// date is a time of the day on which the tests begin.
func date(hour, minute int) time.Time {
	return time.Date(2026, 1, 1, hour, minute, 0, 0, time.UTC)
}

func TestPeelWithoutNewsReportsEveryTenMinutes(t *testing.T) {
	run(t, func(b *bench) {
		r := b.readReports()
		b.start()
		b.give(1, "schedule:\n  e: {module: test.ping, cron: \"* * * * *\"}\n  always: {module: test.fail, cron: \"* * * * *\"}")
		time.Sleep(2 * time.Minute)
		r.heard()
		time.Sleep(5 * time.Hour)
		if n := r.heard(); n < 5*60/11-1 || n > 5*60/9+1 {
			t.Errorf("%d reports in five hours, while one entry fails all the time", n)
		}
	})
}

// Ten entries that change their class every minute make no more than one report in 5 s.
func TestReportsOfABusyPeelAreFiveSecondsApart(t *testing.T) {
	run(t, func(b *bench) {
		r := b.readReports()
		b.start()
		var yaml strings.Builder
		yaml.WriteString("schedule:\n")
		for i := range 10 {
			fmt.Fprintf(&yaml, "  e%d: {module: test.sleep, args: {duration: %ds}, timeout: 3s, interval: 1s, interval_from: epoch, if_running: queue, pause_after_errors: 0, late_after: 1s}\n", i, i)
		}
		b.give(1, yaml.String())
		time.Sleep(30 * time.Second)
		r.heard()
		time.Sleep(10 * time.Minute)
		if n := r.heard(); n < 20 || n > 121 {
			t.Errorf("%d reports in ten minutes", n)
		}
	})
}

// The bus is away for a day and a half, during which the peel runs, stops and starts again.
func TestOutageOfTheBusLosesNoCount(t *testing.T) {
	if testing.Short() {
		t.Skip("34 hours of a bus in fake time")
	}
	run(t, func(b *bench) {
		b.start()
		b.give(1, "schedule:\n  e: {module: test.ping, cron: \"30 * * * *\"}")
		time.Sleep(25 * time.Minute)
		b.bus.Stop(t)
		time.Sleep(12 * time.Hour)
		b.stop()
		time.Sleep(10 * time.Hour)
		b.start()
		time.Sleep(12 * time.Hour)
		b.bus.Start(t)
		time.Sleep(time.Minute)
		e := b.scheduleState().Entries[0]
		outcomes := map[time.Time]ledger.Outcome{}
		for _, r := range e.Fires {
			for i := range r.Count {
				outcomes[r.Nominal.Add(time.Duration(i)*r.Step)] = r.Outcome
			}
		}
		for i := range 34 {
			want := ledger.Ran
			if i >= 12 && i < 22 {
				want = ledger.Missed
			}
			if at := date(i, 30); outcomes[at] != want {
				t.Errorf("hour %d: %s, want %s", i, outcomes[at], want)
			}
		}
	})
}

// What the peel sends is lost, and so is each report, until the network carries it again.
func TestReportThatIsLostIsSentAgain(t *testing.T) {
	run(t, func(b *bench) {
		network := b.mute()
		r := b.readReports()
		b.start()
		b.give(1, "schedule:\n  e: {module: test.fail, cron: \"0 * * * *\"}")
		r.expect("the entry", 15*time.Second, func(e *ledger.EntryReport) bool { return e.State == "active" })
		time.Sleep(time.Until(date(1, 0).Add(-time.Second)))
		network.lost.Store(true)
		time.Sleep(20 * time.Second)
		r.heard()
		network.lost.Store(false)
		r.expect("the failure", time.Minute, func(e *ledger.EntryReport) bool { return e.InRow == 1 })
	})
}

func TestEntriesOfTheConfigurationAreReportedAsLocal(t *testing.T) {
	run(t, func(b *bench) {
		set, err := schedule.ParseSet(strictyaml.FromValue("peel.yaml", map[string]any{"e": map[string]any{"module": "test.ping", "cron": "0 * * * *"}}))
		if err != nil {
			t.Fatal(err)
		}
		b.static = set
		r := b.readReports()
		b.start()
		r.expect("the entry", 15*time.Second, func(e *ledger.EntryReport) bool { return e.Name == "e" && e.Next.Equal(date(1, 0)) })
		if s := b.scheduleState(); s.Digest != "" || s.Version == "" {
			t.Errorf("%+v", s)
		}
	})
}
