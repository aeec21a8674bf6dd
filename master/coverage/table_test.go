package coverage

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	fleetpkg "github.com/seed-c01c3da5/zester/master/fleet"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

func of(table *Table) MetricsSource {
	return MetricsSource{Health: table.Health, Summaries: table.Summaries, Problems: table.Problems}
}

// TestReportsOfAPeelBecomeMetrics has a real table follow what a peel says.
func TestReportsOfAPeelBecomeMetrics(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		nc := b.Conn(t, grants.RoleMaster, "m1")
		js, err := jetstream.New(nc)
		if err != nil {
			t.Fatal(err)
		}
		follow := func() *Table {
			t.Helper()
			fleet := fleetpkg.New(nc, slog.New(slog.DiscardHandler))
			table, err := New(Options{JetStream: js, Fleet: fleet})
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(scrapeSource(t, of(table)), "\n"); got != "zester_coverage_ready 0\nzester_coverage_reports_refused_total 0" {
				t.Errorf("before the table runs:\n%s", got)
			}
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			for _, run := range []func(context.Context) error{fleet.Run, table.Run} {
				running.Go(func() {
					if err := run(ctx); err != nil {
						t.Error(err)
					}
				})
			}
			t.Cleanup(func() { cancel(); running.Wait() })
			<-table.Ready()
			return table
		}
		entry := map[string]any{"module": "test.ping", "every": "1h"}
		schedule, err := canon.Marshal(map[string]any{"schedule": map[string]any{"backup": entry}})
		if err != nil {
			t.Fatal(err)
		}
		doc := settings.Document{V: settings.OpenVersion, Peel: "db.01", Generation: 1, Digest: settings.DigestOf(schedule), Settings: schedule}
		data, err := doc.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := js.Publish(t.Context(), wire.SettingsKey("db_01"), data); err != nil {
			t.Fatal(err)
		}
		table := follow()
		source := of(table)
		peel := b.Conn(t, grants.RolePeel, "db_01")
		say := func(subject string, data []byte) {
			t.Helper()
			if _, err := peel.Request(subject, data, time.Minute); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		e := ledger.EntryReport{State: "active", Since: time.Now(), From: time.Now().Add(-2 * time.Hour)}
		var fires []ledger.Run
		report := func(outcomes ...ledger.Outcome) {
			t.Helper()
			now := time.Now()
			for _, o := range outcomes {
				at := ledger.At(now).Add(time.Duration(len(fires)-100) * time.Second)
				f := ledger.Run{Fire: ledger.Fire{Era: 1, Nominal: at, Outcome: o}, Count: 1}
				switch o {
				case ledger.Skipped:
					f.Why = ledger.InBlackout
				case ledger.Failed:
					e.Notes = []ledger.Note{{Era: 1, Nominal: at, Outcome: o, Started: at, Error: "exit status 1"}}
					fallthrough
				default:
					e.Took.Add(2 * time.Second)
					e.Started, e.Ended, e.Succeeded = at, at.Add(2*time.Second), at.Add(2*time.Second)
				}
				fires = append(fires, f)
			}
			e.Runs = ledger.AppendRuns(nil, fires)
			r := ledger.Report{
				Peel: "db.01", Zone: ledger.Zone{Name: "UTC"}, Digest: string(doc.Digest), Time: now, Started: now, Entries: []ledger.EntryReport{e},
			}
			r.Marks = r.Marks.Add(ledger.Mark{Kind: ledger.Starts, At: now.Add(-2 * time.Hour)})
			data, err := ledger.Encode(&r)
			if err != nil {
				t.Fatal(err)
			}
			say(wire.ScheduleStateOf("db_01"), data)
		}
		alive := func() {
			t.Helper()
			if err := errors.Join(peel.Publish(wire.Heartbeat("db_01"), nil), peel.Flush()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		alive()
		say(wire.ScheduleStateOf("db_01"), []byte("no report"))
		report() // masters know it from here on
		report(ledger.Ran, ledger.Ran, ledger.Ran, ledger.Skipped)
		report(ledger.Ran, ledger.Failed)
		has := func(source MetricsSource, want ...string) {
			t.Helper()
			got := scrapeSource(t, source)
			for _, line := range want {
				if !slices.Contains(got, line) {
					t.Errorf("no %s in\n%s", line, strings.Join(got, "\n"))
				}
			}
		}
		counters := []string{
			"zester_coverage_ready 1", "zester_coverage_reports_refused_total 1", `zester_coverage_peels{state="reporting"} 1`,
			`zester_entry_runs_total{entry="backup",result="ok"} 4`, `zester_entry_runs_total{entry="backup",result="failed"} 1`,
			`zester_entry_skipped_total{entry="backup",reason="blackout"} 1`, `zester_entry_duration_seconds_bucket{entry="backup",le="5"} 5`,
			`zester_entry_duration_seconds_sum{entry="backup"} 10`,
		}
		has(source, append(counters, `zester_entry_peels{entry="backup",state="active"} 1`, `zester_entry_problems{entry="backup",problem="failed"} 1`)...)
		source.Cells = table.Cells
		has(source, append(counters, `zester_entry_peels{entry="backup",peel="db.01",state="active"} 1`, `zester_entry_problems{entry="backup",peel="db.01",problem="failed"} 1`)...)
		later := of(follow()) // as a master that starts now
		alive()               // which it has to hear, too
		has(later, "zester_coverage_ready 1", `zester_entry_runs_total{entry="backup",result="ok"} 0`,
			`zester_entry_duration_seconds_count{entry="backup"} 0`, `zester_entry_problems{entry="backup",problem="failed"} 1`)
		report(ledger.Ran)
		has(later, `zester_entry_runs_total{entry="backup",result="ok"} 1`, `zester_entry_runs_total{entry="backup",result="failed"} 0`, `zester_entry_duration_seconds_count{entry="backup"} 1`)
		time.Sleep(time.Hour) // without a heartbeat
		has(source, `zester_coverage_peels{state="not_reporting"} 1`, `zester_coverage_peels{state="reporting"} 0`)
	})
}
