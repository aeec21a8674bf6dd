package simulate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/scheduler"
	"github.com/seed-c01c3da5/zester/peel/scheduler/simulate"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/schedule/forecast"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func BenchmarkHost(b *testing.B) {
	var text strings.Builder
	for i := range 20 {
		timing := []string{"interval: 1h, splay: 5m", `cron: "%d * * * *", splay: 10m, splay_mode: host`, `cron: "%d */4 * * *", splay: 15m`, `cron: "%d 2 * * *"`}[i%4]
		if strings.Contains(timing, "%d") {
			timing = fmt.Sprintf(timing, i)
		}
		fmt.Fprintf(&text, "e%02d: {module: test.ping, %s}\n", i, timing)
	}
	set := parse(b, text.String())
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	n := 0
	for b.Loop() {
		h := simulate.NewHost(simulate.HostOptions{
			Peel: "web-01", Zone: time.UTC,
			Exec:    func(scheduler.Fire) (time.Duration, bool) { n++; return time.Minute, true },
			Ended:   func(scheduler.Fire, wire.Result, time.Time) {},
			Skipped: func(string, ledger.Reason, time.Time, int) {},
		})
		h.Start(from, set)
		h.Run(from.AddDate(0, 0, 90))
	}
	b.ReportMetric(float64(b.Elapsed())/float64(n), "ns/run")
	b.ReportMetric(float64(n)/float64(b.N), "runs")
}

// The goal is a minute on two processors.
func BenchmarkThousandPeelsForNinetyDays(b *testing.B) {
	var text strings.Builder
	for i := range 20 {
		timing := []string{"interval: 1h, splay: 5m", `cron: "%d * * * *", splay: 10m, splay_mode: host`, `cron: "%d */4 * * *", splay: 15m`, `cron: "%d 2 * * *"`}[i%4]
		if strings.Contains(timing, "%d") {
			timing = fmt.Sprintf(timing, i)
		}
		fmt.Fprintf(&text, "e%02d: {module: test.ping, %s}\n", i, timing)
	}
	g := forecast.Group{Schedule: parse(b, text.String())}
	for i := range 1000 {
		g.Peels = append(g.Peels, target.PeelID(fmt.Sprintf("web-%04d", i)))
	}
	for b.Loop() {
		r, err := simulate.Run(b.Context(), []forecast.Group{g}, simulate.Options{
			From: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), For: 90 * 24 * time.Hour, Zone: time.UTC,
			Takes: func(string) time.Duration { return time.Minute },
		})
		if err != nil {
			b.Fatal(err)
		}
		n := 0.0
		for _, h := range r.Hours {
			n += float64(h.Runs)
		}
		b.ReportMetric(n, "runs")
	}
}
