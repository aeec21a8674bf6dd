package join_test

import (
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage/join"
	"github.com/seed-c01c3da5/zester/peel/ledger"
)

// BenchmarkHours joins 48 hours of 20 entries that ran well: six each 5 minutes, six each hour, four each night, four
// intervals.
func BenchmarkHours(b *testing.B) {
	begins, now := day, day.Add(48*time.Hour)
	m := ledger.Marks{}.Add(ledger.Mark{Kind: ledger.Starts, At: begins})
	var entries []join.Entry
	add := func(n int, fields map[string]any, first, step time.Duration) {
		var list []ledger.Fire
		for at := begins.Add(first); !at.After(now); at = at.Add(step) {
			list = append(list, ledger.Fire{Era: 1, Nominal: at, Outcome: ledger.Ran})
		}
		for range n {
			entries = append(entries, join.Entry{
				Plan: plan(b, fields), IsActive: true, From: begins, Fires: ledger.Group(list), Marks: []ledger.Mark{{Kind: ledger.Begins, Era: 1, At: begins}},
			})
		}
	}
	add(6, fields{"cron": "*/5 * * * *"}, 5*time.Minute, 5*time.Minute)
	add(6, fields{"cron": "7 * * * *"}, 7*time.Minute, time.Hour)
	add(4, fields{"cron": "30 2 * * *"}, 150*time.Minute, 24*time.Hour)
	add(4, fields{"interval": "10m"}, 10*time.Minute, 10*time.Minute)
	b.ReportAllocs()
	for b.Loop() {
		r := join.New(m, now, now, nil)
		for i := range entries {
			if hours := r.Hours(&entries[i], nil); hours[0].Missed+hours[0].Unexpected > 0 {
				b.Fatal(hours[0])
			}
		}
	}
}

// BenchmarkPlan computes the times of 48 hours.
func BenchmarkPlan(b *testing.B) {
	r := join.New(nil, day.Add(48*time.Hour), day.Add(48*time.Hour), nil)
	for b.Loop() {
		e := join.Entry{Plan: plan(b, quarter), IsActive: true, From: day}
		r.Hours(&e, nil)
	}
}
