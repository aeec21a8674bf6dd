package coverage_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"

	"github.com/seed-c01c3da5/zester/master/coverage"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/peel"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// TestAnHourWithoutMastersLeavesNothingOpen has twenty real peels, of which one is down for a while and one all the time, lets bus and
// master be away for an hour, and wants a verdict on every fire within a minute after they are back.
func TestAnHourWithoutMastersLeavesNothingOpen(t *testing.T) {
	bubble(t, func(t *rig) {
		var peels []peel.Options
		var stops []func()
		for i := range 20 {
			o := peel.Options{ID: target.PeelID(fmt.Sprintf("host-%02d", i)), DataDir: t.TempDir(), Zone: time.UTC}
			t.document(o.ID, map[string]map[string]any{"tick": cron("*/5 * * * *"), "hourly": cron(fmt.Sprintf("%d * * * *", i+1))})
			peels, stops = append(peels, o), append(stops, t.peel(o))
		}
		_, stop := t.master()
		t.sleepUntil("00:27")
		stop()
		t.bus.Stop(t)
		const down, gone = 3, 7
		t.sleepUntil("00:42")
		stops[down]()
		stops[gone]()
		t.sleepUntil("01:02")
		t.peel(peels[down])
		t.sleepUntil("01:27")
		t.bus.Start(t)
		table, _ := t.master()
		back := time.Now()
		time.Sleep(time.Minute)
		synctest.Wait()

		for i, p := range peels {
			want := map[string]string{"tick": "expected 17, ran 17", "hourly": "expected 2, ran 2"}
			switch i {
			case down:
				want = map[string]string{"tick": "expected 17, ran 13, missed 4", "hourly": "expected 2, ran 2"}
			case gone:
				want = map[string]string{"tick": "expected 17, ran 17", "hourly": "expected 2, ran 2"} // or unknown, after its last report
			}
			cells, err := table.Cells(coverage.Query{Peels: map[target.PeelID]bool{p.ID: true}})
			if err != nil || len(cells) != len(want) {
				t.Errorf("%s: %d entries, %v", p.ID, len(cells), err)
			}
			for _, c := range cells {
				if i == gone && c.Counts.Unknown > 0 {
					c.Counts.Ran, c.Counts.Unknown = c.Counts.Ran+c.Counts.Unknown, 0
				}
				if got := text(c.Counts); got != want[c.Entry] {
					t.Errorf("%s on %s, %s after the return: %s, want %s", c.Entry, p.ID, time.Since(back), got, want[c.Entry])
				}
			}
		}
		for _, problem := range table.Problems() {
			if problem.Peel != peels[gone].ID || problem.Kind != verdict.NotReporting {
				t.Errorf("%s of %s on %s: %s", problem.Kind, problem.Entry, problem.Peel, problem.Text)
			}
		}
	})
}

// sleepUntil lets time pass until a time of the day of the bubble. Real peels send heartbeats of their own.
func (t *rig) sleepUntil(clock string) {
	t.Helper()
	time.Sleep(time.Until(hhmm(t, clock)))
}

// TestTenThousandPeelsSendLessThanFortyReportsASecond counts the reports of ten real peels in two hours, with entries that fire every
// minute and one that always fails. When masters or the bus return, every peel reports once: that is not in the mean.
func TestTenThousandPeelsSendLessThanFortyReportsASecond(t *testing.T) {
	const peels, hours, limit = 10, 2, 40.0 / 10_000
	bubble(t, func(t *rig) {
		entries := map[string]map[string]any{"fails": {"module": "test.fail", "cron": "*/5 * * * *", "timezone": "UTC"}}
		for i := range 5 {
			entries[fmt.Sprint("minutely-", i)] = cron("* * * * *")
		}
		for i := range peels {
			o := peel.Options{ID: target.PeelID(fmt.Sprint("host-", i)), DataDir: t.TempDir(), Zone: time.UTC}
			t.document(o.ID, entries)
			t.peel(o)
		}
		t.sleepUntil("00:10")
		sent := func() uint64 {
			t.Helper()
			info, err := t.js.Stream(t.Context(), wire.StreamScheduleState)
			if err != nil {
				t.Fatal(err)
			}
			return info.CachedInfo().State.LastSeq
		}
		before := sent()
		time.Sleep(hours * time.Hour)
		n := sent() - before
		rate := float64(n) / peels / (hours * 3600)
		t.Logf("%d reports: %.1f a second of 10,000 peels", n, rate*10_000)
		if rate > limit || n < peels*hours*4 {
			t.Errorf("%d peels sent %d reports in %d h", peels, n, hours)
		}
	})
}
