package evidence

import (
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage/why"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/ledger"
)

// lists makes the report one with a list of fires.
func (w *world) lists(fires ...ledger.Fire) *ledger.EntryReport {
	e := ledger.EntryReport{
		State: "active", Since: at(w.t, "2026-11-01T00:00"), Next: at(w.t, "2026-11-24T02:30"), From: at(w.t, "2026-11-21T07:50"),
		Timing: ledger.TimingOf(w.Document.Entry.TimingHash()), Marks: []ledger.Mark{{Kind: ledger.Begins, Era: 1, At: at(w.t, "2026-11-01T00:00")}},
	}
	for i := range fires {
		if fires[i].Era == 0 {
			fires[i].Era = 1
		}
	}
	e.Fires = ledger.Group(fires)
	w.Lists = &ledger.Report{
		Peel: "web-01", Commit: w.Report.Commit, Digest: "d1", Version: "1.4.0", Zone: ledger.Zone{Name: "Europe/London"},
		Time: w.Report.Time, Started: w.Report.Started, Entries: []ledger.EntryReport{e},
	}
	w.Lists.Marks = w.Lists.Marks.Add(ledger.Mark{Kind: ledger.Starts, At: at(w.t, "2026-10-20T09:00")})
	w.Report, w.e, w.Document.Places = reported(w.Lists), nil, []string{"backup", "other"}

	return &w.Lists.Entries[0]
}

func (w *world) fire(when string, o ledger.Outcome, why ledger.Reason) ledger.Fire {
	return ledger.Fire{Nominal: at(w.t, when), Outcome: o, Why: why}
}

// What became of a fire is looked up in the list.
func TestAFireIsLookedUpInTheList(t *testing.T) {
	const sunday = "2026-11-22T02:30"
	for _, c := range []struct {
		name   string
		time   string
		set    func(*world)
		is     why.Verdict
		reason string
		answer string // its beginning
	}{
		{
			"ran", "", func(w *world) { w.lists(w.fire(sunday, ledger.Ran, ""), w.fire(night, ledger.Ran, "")) },
			why.Ran, "", "The fire of Mon 2026-11-23 02:30:00 GMT ran and succeeded.",
		},
		{"ran, with a note", "", func(w *world) {
			e := w.lists(w.fire(sunday, ledger.Ran, ""), w.fire(night, ledger.Ran, ""))
			e.Notes = []ledger.Note{{Era: 1, Nominal: at(w.t, night), Outcome: ledger.Ran, Started: at(w.t, night+":05"), Took: time.Minute}}
		}, why.Ran, "", "The fire of Mon 2026-11-23 02:30:00 GMT ran: it started at Mon 2026-11-23 02:30:05 GMT, 5s after it was due, and took 1m."},
		{"ran well, and a run by hand failed later", "", func(w *world) {
			e := w.lists(w.fire(night, ledger.Ran, ""), ledger.Fire{Class: ledger.Hand, Nominal: at(w.t, "2026-11-23T07:00"), Outcome: ledger.Failed})
			e.Started, e.Ended, e.Error = at(w.t, "2026-11-23T07:00"), at(w.t, "2026-11-23T07:01"), "exit status 9"
		}, why.Ran, "", "The fire of Mon 2026-11-23 02:30:00 GMT ran and succeeded."},
		{"the run by hand", "07:00", func(w *world) {
			e := w.lists(w.fire(night, ledger.Ran, ""), ledger.Fire{Class: ledger.Hand, Nominal: at(w.t, "2026-11-23T07:00"), Outcome: ledger.Failed})
			e.Notes = []ledger.Note{{Era: 1, Class: ledger.Hand, Nominal: at(w.t, "2026-11-23T07:00"), Outcome: ledger.Failed, Error: "exit status 9", By: "ann"}}
		}, why.Failed, "", "A person ran it at Mon 2026-11-23 07:00:00 GMT (ann) and failed: exit status 9."},
		{"a run by hand in the same second", "", func(w *world) {
			w.lists(w.fire(night, ledger.Ran, ""), ledger.Fire{Class: ledger.Hand, Nominal: at(w.t, night), Outcome: ledger.Failed})
			w.recorded(night, night, job.Failed, "manual")
		}, why.Ran, "", "The fire of Mon 2026-11-23 02:30:00 GMT ran and succeeded."},
		{"one of many, while another is pending", "02:40", func(w *world) {
			w.timed("cron: '*/20 * * * *'")
			w.lists(w.fire("2026-11-23T02:20", ledger.Failed, ""), w.fire("2026-11-23T02:40", ledger.Ran, ""), w.fire("2026-11-23T07:40", ledger.Pending, ledger.Runs))
		}, why.Ran, "", "The fire of Mon 2026-11-23 02:40:00 GMT ran and succeeded."},
		{"failed", "", func(w *world) {
			e := w.lists(w.fire(night, ledger.Failed, ""))
			e.Notes = []ledger.Note{{Era: 1, Nominal: at(w.t, night), Outcome: ledger.Failed, Started: at(w.t, night), Error: "disk full"}}
		}, why.Failed, "", "The fire of Mon 2026-11-23 02:30:00 GMT ran and failed: disk full."},
		{"interrupted", "", func(w *world) { w.lists(w.fire(night, ledger.Interrupted, "")) }, why.Failed, "interrupted", "The fire of Mon 2026-11-23 02:30:00 GMT ran, and the peel's process ended"},
		{"runs", "07:40", func(w *world) {
			w.timed("cron: '*/20 * * * *'")
			e := w.lists(w.fire("2026-11-23T07:40", ledger.Pending, ledger.Runs))
			e.Started = at(w.t, "2026-11-23T07:40:01")
		}, why.Running, "in_flight", "The fire of Mon 2026-11-23 07:40:00 GMT runs: it started at Mon 2026-11-23 07:40:01 GMT, 1s after it was due and had not ended"},
		{"held", "", func(w *world) { w.lists(w.fire(night, ledger.Pending, ledger.Held)) }, why.Waiting, "pending", "The fire of Mon 2026-11-23 02:30:00 GMT is held"},
		{"pending, and no report since", "", func(w *world) {
			w.lists(w.fire(night, ledger.Pending, ledger.Waits))
			w.Lists.Time = at(w.t, "2026-11-23T05:00")
			w.Report.Time = w.Lists.Time
		}, why.Unknown, "not_reporting", "The fire of Mon 2026-11-23 02:30:00 GMT had not ended at"},
		{"skipped", "", func(w *world) { w.lists(w.fire(night, ledger.Skipped, ledger.AlreadyRunning)) }, why.Skipped, "already_running", "The fire of Mon 2026-11-23 02:30:00 GMT was skipped: the run before"},
		{"missed", "", func(w *world) { w.lists(w.fire(night, ledger.Missed, ledger.Down)) }, why.Missed, "not_started", "The fire of Mon 2026-11-23 02:30:00 GMT"},
		{"nothing", "", func(w *world) { w.lists(w.fire(sunday, ledger.Ran, "")) }, why.Missed, "not_counted", "The fire of Mon 2026-11-23 02:30:00 GMT did not happen"},
		{"nothing, and the clock was set then", "", func(w *world) {
			w.lists(w.fire(sunday, ledger.Ran, ""))
			w.Lists.Marks = w.Lists.Marks.Add(ledger.Mark{Kind: ledger.Clock, Old: at(w.t, night), At: at(w.t, night+":30"), Step: 30 * time.Second})
		}, why.Unknown, "clock", "Nobody knows what became of the fire of Mon 2026-11-23 02:30:00 GMT: the clock"},
		{"before it began", night, func(w *world) {
			e := w.lists()
			e.Since, e.Marks[0].At = at(w.t, "2026-11-23T05:00"), at(w.t, "2026-11-23T05:00")
		}, why.None, "not_in_schedule", "backup was not in the schedule"},
		{"it has had all its runs since", night, func(w *world) {
			w.timed(nightly + ", max_runs: 1")
			e := w.lists(w.fire(night, ledger.Ran, ""))
			e.State, e.Since = "exhausted", at(w.t, night)
		}, why.Ran, "", "The fire of Mon 2026-11-23 02:30:00 GMT ran and succeeded."},
		{"the start of the run of an interval", "05:00:07", func(w *world) {
			w.timed("interval: 6h")
			e := w.lists(w.fire("2026-11-23T04:59:58", ledger.Ran, ""))
			e.Notes = []ledger.Note{{Era: 1, Nominal: at(w.t, "2026-11-23T04:59:58"), Outcome: ledger.Ran, Started: at(w.t, "2026-11-23T05:00:07"), Took: time.Second}}
		}, why.Ran, "", "The fire of Mon 2026-11-23 04:59:58 GMT ran: it started at"},
		{"older than the list", "2026-11-20T02:30", func(w *world) { w.lists(w.fire(night, ledger.Ran, "")) }, why.Unknown, "too_old", "The report of web-01 goes back to"},
		{
			"the peel has other settings", "", func(w *world) { w.lists(w.fire(night, ledger.Ran, "")); w.Lists.Digest, w.Report.Digest = "d0", "d0" },
			why.Unknown, "other_settings", "web-01 runs other settings",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			c.set(w)
			w.Time = c.time
			got, err := w.Explain()
			if err != nil {
				t.Fatal(err)
			}
			if got.Verdict != c.is || got.Reason != c.reason || !strings.HasPrefix(got.Text, c.answer) {
				t.Errorf("%s, %q: %s\nwant %s, %q: %s", got.Verdict, got.Reason, got.Text, c.is, c.reason, c.answer)
			}
			for _, fact := range got.Facts {
				if fact.Source == "" || fact.Text == "" || fact.About == "" {
					t.Errorf("a fact without its parts: %+v", fact)
				}
			}
		})
	}
}
