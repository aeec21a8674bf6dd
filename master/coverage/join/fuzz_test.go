package join_test

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage/join"
	"github.com/seed-c01c3da5/zester/peel/ledger"
)

// Each planned time has one verdict, whatever a peel reports, and no run is lost.
func FuzzJoin(f *testing.F) {
	kinds := []map[string]any{
		{"cron": "*/7 * * * *"},
		{"cron": "0 2,9 * * *", "splay": "20m", "only_between": "08:00-20:00"},
		{"interval": "45s", "interval_from": "epoch"},
		{"interval": "8m"},
		{"interval": "10m", "interval_from": "start", "run_on_start": true},
		{"after": "3h"},
		{"cron": "*/10 * * * *", "needs": map[string]any{"entry": "a", "on": "done"}},
	}
	seed := func(text string) []byte { return ledger.AppendRuns(nil, fires(f, text)) }
	f.Add(uint8(0), uint16(600), seed("10:02 ran, 10:09 failed, 10:16 skipped already_running, era 2, 10:09 ran, 10:23 missed down, era 3, 10:30 hand ran"), []byte("\x01\x10\x00\x10\x00\x02\x20\x00\x40\x00"))
	f.Add(uint8(2), uint16(0), seed("10:00 hour 200 ran, 10:00 hour 9 missed, 10:00:45 pending runs"), []byte(nil))
	f.Add(uint8(6), uint16(9), seed("10:00 ran, 10:10 ran, 10:20 ran, 10:20 needs ran, 10:30 start ran"), []byte("\x01\x10\x00\x10\x00"))

	f.Fuzz(func(t *testing.T, kind uint8, behind uint16, runs, eras []byte) {
		list, err := ledger.ParseRuns(runs)
		if err != nil {
			t.Skip()
		}
		arrived := day.Add(36 * time.Hour)
		made := arrived.Add(time.Duration(int16(behind)) * time.Second)
		var marks ledger.Marks
		for ; len(eras) >= 5 && len(marks) < ledger.MaxMarks; eras = eras[5:] {
			old := day.Add(time.Duration(binary.LittleEndian.Uint16(eras[1:])) * 4 * time.Second)
			at := day.Add(time.Duration(binary.LittleEndian.Uint16(eras[3:])) * 4 * time.Second)
			marks = marks.Add(ledger.Mark{Kind: ledger.Starts + ledger.Kind(eras[0]&1), Old: old, At: at, Step: at.Sub(old), Known: eras[0]&2 != 0})
		}
		fields := kinds[int(kind)%len(kinds)]
		e := join.Entry{
			Plan: plan(t, fields), IsActive: true, From: day, Fires: list,
			Marks: []ledger.Mark{{Kind: ledger.Begins, At: day.Add(time.Duration(kind) * time.Hour)}},
		}
		e.Needed = &join.Entry{Fires: list, From: day}
		r := join.New(marks, made, arrived, nil)
		if _, needs := fields["needs"]; needs || fields["cron"] == nil && fields["interval_from"] != "epoch" {
			r.Hours(&e, nil)
			return
		}

		begins := e.Marks[0].At // in the first era, of which nothing says that its clock was wrong
		counted, planned := map[int64]int{}, 0
		numbered := map[int64]bool{}
		for i := range list {
			if list[i].Hour {
				numbered[list[i].Nominal.Unix()/3600] = true
			}
		}
		r.Join(&e, func(s join.Span) {
			if s.Verdict == join.Unexpected || s.Hour {
				return
			}
			if s.Fire != nil && s.Fire.Class != ledger.Timer {
				return
			}
			for i, at := 0, s.At(); i < s.Count(); at = at.Add(time.Second) {
				if s.Has(at) {
					counted[at.Unix()]++
					i++
				}
			}
		})
		wrong := join.Measure(marks, made, arrived).IsWrong()
		until := made
		if wrong {
			until = arrived
		}
		for at, ok := e.Plan.Next(begins); ok && !at.After(until.Add(-join.Margin)); at, ok = e.Plan.Next(at) {
			if numbered[at.Unix()/3600] || join.IsWrong(r, 0) {
				continue
			}
			planned++
			if counted[at.Unix()] != 1 {
				t.Fatalf("%s has %d verdicts", at, counted[at.Unix()])
			}
		}
		var sum, pending uint64
		for _, h := range r.Hours(&e, nil) {
			if h.Expected != h.Ran+h.Skipped+h.Missed+h.Unknown || h.Failed > h.Ran || h.Late > h.Ran || h.Overran > h.Ran {
				t.Fatalf("%+v", h)
			}
			sum, pending = sum+h.Expected, pending+h.Pending
		}
		if sum+pending < uint64(planned) {
			t.Fatalf("%d planned, %d counted, %d pending", planned, sum, pending)
		}
	})
}
