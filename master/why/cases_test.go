package why

import (
	"encoding/json"
	"errors"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/coverage/cause"
	"github.com/seed-c01c3da5/zester/master/coverage/join"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

var update = flag.Bool("update", false, "write the answers in testdata")

// at reads a time of UTC.
func at(t testing.TB, text string) time.Time {
	t.Helper()
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02"} {
		if at, err := time.Parse(layout, text); err == nil {
			return at
		}
	}
	t.Fatalf("cannot read the time %s", text)
	return time.Time{}
}

// entry parses a schedule entry.
func entry(t testing.TB, yaml string) *schedule.Entry {
	t.Helper()
	n, err := strictyaml.Parse("entry", []byte("backup: {module: cmd.run, "+yaml+"}\nother: {module: cmd.run, interval: 1h}\n"))
	if err != nil {
		t.Fatal(err)
	}
	set, err := schedule.ParseSet(n)
	if err != nil {
		t.Fatal(err)
	}
	return set["backup"]
}

const nightly = "cron: '30 2 * * *', timezone: Europe/London"

// A world is what the sources say in a test. It begins with an entry that ran in the last two nights, and with a report of
// ten minutes ago.
type world struct {
	*Found
	t     testing.TB
	e     *ledger.EntryReport // of Report
	fires []ledger.Fire       // of the list of e
	hours []ledger.Run        // fires of which the list has only the number
}

const (
	before = "2026-11-22T02:30"
	night  = "2026-11-23T02:30"
	old    = "2026-11-20T02:30" // before the list of the report begins
)

func newWorld(t testing.TB) *world {
	w := &world{t: t, Found: &Found{
		Peel: "web-01", Entry: "backup", Now: at(t, "2026-11-23T08:00"),
		Document: Document{
			Commit: "1f3ac0129f3ac0129f3ac0129f3ac0129f3ac012", Digest: "d1", Written: at(t, "2026-11-01T00:00"), Entry: entry(t, nightly),
			Names: []string{"backup", "other"}, Places: []string{"backup", "other"},
			Origin: settings.Origin{
				File: "settings/web.yaml", Line: 3, Commit: "77aa12bc77aa12bc77aa12bc77aa12bc77aa12bc",
				Author: "Ada <ada@example.com>", Time: at(t, "2026-10-31T16:20"),
			},
		},
		Report: &ledger.Report{
			Peel: "web-01", Commit: "1f3ac0129f3ac0129f3ac0129f3ac0129f3ac012", Digest: "d1", Version: "1.4.0",
			Zone: ledger.Zone{Name: "Europe/London"}, Time: at(t, "2026-11-23T07:50"), Started: at(t, "2026-10-20T09:00"),
			Entries: []ledger.EntryReport{{
				State: "active", Since: at(t, "2026-11-01T00:00"), From: at(t, "2026-11-21T07:50"),
				Next: at(t, "2026-11-24T02:30"), Latest: at(t, "2026-11-24T02:30"),
			}},
		},
		Presence: Presence{LastSeen: at(t, "2026-11-23T07:59:40"), Online: true},
		Revisions: []status.Attempt{
			{Commit: "99bb12bc99bb12bc99bb12bc99bb12bc99bb12bc", Outcome: status.OutcomeRejected, Began: at(t, "2026-11-20T10:00")},
			{Commit: "1f3ac0129f3ac0129f3ac0129f3ac0129f3ac012", Outcome: status.OutcomeApplied, Began: at(t, "2026-10-31T23:59:50")},
		},
	}}
	w.e = &w.Report.Entries[0]
	w.starts("2026-10-20T09:00")
	w.ran(night, "")
	w.e.Notes[0].Outcome = ledger.Ran

	return w
}

// asked has the peel tell fires of the question of [old], when it was asked.
func (w *world) asked(fires ...ledger.Fire) {
	w.Time = old
	w.Asked = &Asked{Since: at(w.t, "2026-11-16T08:00"), Fires: ledger.Group(fires), Job: "20261123080000123456"}
}

// sinceTheReport has a fire of 07:55 that may start until 10:55, and a report from before it; the peel tells fires of it.
func (w *world) sinceTheReport(fires ...ledger.Fire) {
	w.timed("cron: '55 7 * * *', splay: 15m")
	w.e.Next, w.e.Latest = at(w.t, "2026-11-23T07:55"), at(w.t, "2026-11-23T10:55")
	for i := range fires {
		fires[i].Nominal = w.e.Next
	}
	w.asked(fires...)
	w.Time = ""
}

// answer explains the fire, with the report as a master decodes it.
func (w *world) answer() (*api.WhyAnswer, error) {
	if w.e != nil {
		if w.e.Timing == 0 && w.Document.Entry != nil {
			w.e.Timing = ledger.TimingOf(w.Document.Entry.TimingHash())
		}
		if len(w.e.Marks) == 0 {
			w.e.Marks = ledger.Marks{{Kind: ledger.Begins, Era: 1, At: w.e.Since}}
		}
		for i := range w.fires {
			w.fires[i].Era = max(w.fires[i].Era, 1)
		}
		w.e.Runs = ledger.AppendRuns(nil, append(w.hours, ledger.Group(w.fires)...))
	}
	if w.Report != nil {
		data, err := ledger.Encode(w.Report)
		if err != nil {
			w.t.Fatal(err)
		}
		if w.Report, err = ledger.Decode(&nats.Msg{Subject: wire.ScheduleStateOf("web-01"), Data: data}); err != nil {
			w.t.Fatal(err)
		}
	}
	return w.Explain()
}

// starts makes the peel's process one that started at a time.
func (w *world) starts(when string) {
	w.Report.Started = at(w.t, when)
	w.Report.Marks = w.Report.Marks.Add(ledger.Mark{Kind: ledger.Starts, At: at(w.t, when)})
}

func (w *world) fire(when string, o ledger.Outcome, why ledger.Reason) ledger.Fire {
	return ledger.Fire{Nominal: at(w.t, when), Outcome: o, Why: why}
}

// list makes these the fires of the list.
func (w *world) list(fires ...ledger.Fire) { w.fires, w.e.Notes = fires, nil }

// number makes the list one that has only the number of the fires of an hour.
func (w *world) number(n int, f ledger.Fire) {
	w.list()
	f.Era = 1
	w.hours = append(w.hours, ledger.Run{Fire: f, Hour: true, Count: n, Step: 59 * time.Minute})
}

// timed gives the entry another timing.
func (w *world) timed(yaml string) { w.Document.Entry = entry(w.t, yaml) }

// never makes the peel one that has not reported.
func (w *world) never() { w.Report, w.e = nil, nil }

// lacks makes the entry one that nothing has but stored data.
func (w *world) lacks() {
	w.Document.Entry, w.Document.Origin, w.Report.Entries, w.e = nil, settings.Origin{}, nil, nil
}

// skipped makes the last fire a skip.
func (w *world) skipped(reason ledger.Reason) {
	w.list(w.fire(before, ledger.Ran, ""), w.fire(night, ledger.Skipped, reason))
}

// missed makes the last fire one that did not start in time.
func (w *world) missed(reason ledger.Reason) {
	w.list(w.fire(before, ledger.Ran, ""), w.fire(night, ledger.Missed, reason))
}

// pending makes the last fire one that has not ended.
func (w *world) pending(reason ledger.Reason) {
	w.list(w.fire(before, ledger.Ran, ""), w.fire(night, ledger.Pending, reason))
}

// ran makes the last fire a run that took 72 s and did not go well.
func (w *world) ran(nominal, text string) {
	w.list(w.fire(before, ledger.Ran, ""), w.fire(nominal, ledger.Ran, ""))
	started := at(w.t, nominal).Add(time.Second)
	if text != "" {
		w.fires[1].Outcome = ledger.Failed
	}
	w.e.Started, w.e.Ended, w.e.Error = started, started.Add(72*time.Second), text
	w.e.Notes = append(w.e.Notes, ledger.Note{
		Era: 1, Nominal: at(w.t, nominal), Outcome: w.fires[1].Outcome, Started: started, Took: 72 * time.Second, Error: text,
	})
}

// byHand adds a run that a person asked for.
func (w *world) byHand(when, by, text string) {
	f := ledger.Fire{Class: ledger.Hand, Nominal: at(w.t, when), Outcome: ledger.Ran}
	if text != "" {
		f.Outcome = ledger.Failed
	}
	w.fires = append(w.fires, f)
	w.e.Notes = append(w.e.Notes, ledger.Note{
		Era: 1, Class: ledger.Hand, Nominal: f.Nominal, Outcome: f.Outcome, Started: f.Nominal, Took: time.Minute, Error: text, By: by,
	})
}

// twenty makes the entry one that is due each 20 minutes, and asks for the fire of 02:40.
func (w *world) twenty(fires ...ledger.Fire) {
	w.timed("cron: '*/20 * * * *'")
	w.list(fires...)
	w.e.From = at(w.t, "2026-11-23T02:00")
	w.Time = "2026-11-23T02:40"
}

// did adds an act of an operator.
func (w *world) did(when, function, args string) {
	w.Acts = append(w.Acts, Act{Entry: audit.Entry{
		EntryPlace: audit.EntryPlace{Seq: uint64(41 + len(w.Acts))}, Time: at(w.t, when), User: "lee", Action: "job.dispatch", Target: "web-01", Function: function, Args: args, Count: 1, EntryPeels: audit.EntryPeels{Peels: []string{"web-01"}}, Result: audit.Done,
	}})
}

// unsure makes an act one on peels that nobody can name.
func (w *world) unsure(i int) {
	w.Acts[i].Target, w.Acts[i].Count, w.Acts[i].Unsure = "role:db", 40, "the facts of the fleet were not read yet"
}

const ran = wire.JID("3MSR6mQUzrOOEOdcjdLNBJoZPWi")

// recorded adds the record of a run.
func (w *world) recorded(nominal, started string, status job.Status, trigger string) {
	stamp := func(text string) string { return at(w.t, text).Format(time.RFC3339Nano) }
	w.Jobs = append(w.Jobs, job.Job{Spec: job.Spec{JID: ran, Function: "cmd.run", Metadata: map[string]string{
		job.MetaSource: job.SourceSchedule, job.MetaSchedule: "backup", job.MetaTrigger: trigger, job.MetaNominal: stamp(nominal), job.MetaFired: stamp(started), job.MetaStarted: stamp(started),
		job.MetaFinished: at(w.t, started).Add(72 * time.Second).Format(time.RFC3339Nano), job.MetaCommit: "77aa12bc77aa12bc77aa12bc77aa12bc77aa12bc", job.MetaFile: "settings/web.yaml:3", job.MetaAuthor: "Ada <ada@example.com>",
	}}, Status: status})
}

// away makes the report one of yesterday evening.
func (w *world) away() {
	w.Presence = Presence{LastSeen: at(w.t, "2026-11-22T22:04:10")}
	w.Report.Time = at(w.t, "2026-11-22T22:00")
	w.e.Next, w.e.Latest = at(w.t, night), at(w.t, night)
	w.list(w.fire(before, ledger.Ran, ""))
}

// stops gives the entry a state in which it does not fire, and asks for the night after that.
func (w *world) stops(state, why string) {
	w.e.State, w.e.Why, w.e.Since, w.e.Next, w.e.Latest = state, why, at(w.t, "2026-11-22T18:00"), time.Time{}, time.Time{}
	w.list(w.fire(before, ledger.Ran, ""))
	w.Time = night
}

// began makes the entry one that has its timing since a time of this morning.
func (w *world) began(when string) {
	w.e.Since = at(w.t, when)
	w.list()
	w.Document.Written, w.Time = at(w.t, when).Add(-10*time.Second), night
}

// stored asks for a night that the report does not have any more, of which masters have stored verdicts.
func (w *world) stored(c verdict.Counts, reasons ...join.Reason) {
	w.Time = old
	hour := join.HourOf(at(w.t, w.Time))
	w.Past = &Past{Hour: hour, Stored: true, Verdicts: &join.Hour{Hour: hour, Counts: c, Reasons: reasons}}
}

// down is a fire of an hour that was missed while the peel was down.
var down = join.Reason{Verdict: join.Missed, Why: string(ledger.Down), N: 1}

// caused makes the peel have a problem since a time, of which a cause is known.
func (w *world) caused(word cause.Word, text, since string) {
	w.Cause = &Cause{cause.Finding{Word: word, Commit: w.Document.Origin.Commit, Text: text}, at(w.t, since)}
}

// A fireCase is a question about one fire, and what the answer must say.
type fireCase struct {
	name   string
	is     api.WhyVerdict
	reason string
	set    func(*world)
}

// fireCases has a question for each end that a fire can come to, and for each reason.
var fireCases = []fireCase{
	{"ran", api.WhyRan, "", func(w *world) {}},
	{"ran_without_a_note", api.WhyRan, "", func(w *world) { w.e.Notes = nil }},
	{"ran_job", api.WhyRan, "", func(w *world) { w.recorded(night, night+":01", job.Complete, "timer"); w.Time = "02:30" }},
	{"ran_job_before_the_report", api.WhyRan, "", func(w *world) {
		w.pending(ledger.Runs)
		w.recorded(night, night+":01", job.Complete, "timer")
	}},
	{"ran_while_another_is_pending", api.WhyRan, "", func(w *world) {
		w.twenty(w.fire("2026-11-23T02:20", ledger.Failed, ""), w.fire("2026-11-23T02:40", ledger.Ran, ""), w.fire("2026-11-23T07:40", ledger.Pending, ledger.Runs))
	}},
	{"ran_by_its_start", api.WhyRan, "", func(w *world) {
		w.timed("interval: 6h")
		w.ran("2026-11-23T04:59:58", "")
		w.e.Notes[0].Started, w.Time = at(w.t, "2026-11-23T05:00:07"), "05:00:07"
	}},
	{"ran_and_is_exhausted_since", api.WhyRan, "", func(w *world) {
		w.timed(nightly + ", max_runs: 1")
		w.e.State, w.e.Since, w.Time = "exhausted", at(w.t, night), night
	}},
	{"ran_twice", api.WhyRan, "", func(w *world) { // the clock was set back by an hour at 03:00
		w.Report.Marks = w.Report.Marks.Add(ledger.Mark{Kind: ledger.Clock, Old: at(w.t, "2026-11-23T03:00"), At: at(w.t, "2026-11-23T02:00"), Step: -time.Hour})
		again := w.fire(night, ledger.Ran, "")
		again.Era = 2
		w.list(w.fire(night, ledger.Ran, ""), again)
	}},
	{"not_due_but_it_ran", api.WhyRan, "", func(w *world) {
		w.list(w.fire("2026-11-23T04:00", ledger.Ran, ""))
		w.Time = "04:00"
	}},
	{"made_up", api.WhyRan, "", func(w *world) {
		w.timed(nightly + ", catch_up: run_once")
		w.recorded(night, "2026-11-23T07:10", job.Complete, "catch_up")
	}},
	{"running", api.WhyRunning, "in_flight", func(w *world) {
		w.pending(ledger.Runs)
		w.e.Running, w.e.Started, w.e.Ended = 1, at(w.t, night+":07"), at(w.t, "2026-11-22T02:31")
	}},
	{"failed", api.WhyFailed, "", func(w *world) { w.ran(night, "exit status 1: \x1b[31mdisk full\n") }},
	{"failed_job", api.WhyFailed, "", func(w *world) {
		w.ran(night, "exit status 1")
		w.recorded(night, night+":01", job.Failed, "timer")
	}},
	{"interrupted", api.WhyFailed, "interrupted", func(w *world) {
		w.list(w.fire(night, ledger.Interrupted, ""))
		w.starts("2026-11-23T02:30:40")
	}},
	{"late", api.WhyLate, "late", func(w *world) {
		w.timed(nightly + ", late_after: 10m")
		w.ran(night, "")
		w.fires[1].Late, w.e.Notes[0].Started = true, at(w.t, "2026-11-23T02:55")
	}},
	{"overran", api.WhyOverran, "overran", func(w *world) { w.fires[1].Overran = true }},
	{"missed_while_down", api.WhyMissed, "down", func(w *world) { w.missed(ledger.Down); w.starts("2026-11-23T06:00") }},
	{"missed_while_suspended", api.WhyMissed, "deadline_exceeded", func(w *world) { w.missed(ledger.DeadlineExceeded) }},
	{"missed_and_not_made_up", api.WhyMissed, "catch_up", func(w *world) {
		w.timed(nightly + ", catch_up: run_once")
		w.missed(ledger.NotMadeUp)
	}},
	{"unaccounted", api.WhyMissed, "unaccounted", func(w *world) { w.list(w.fire(before, ledger.Ran, "")) }},
	{"clock_set_near_it", api.WhyUnknown, "clock", func(w *world) {
		w.list(w.fire(before, ledger.Ran, ""))
		w.Report.Marks = w.Report.Marks.Add(ledger.Mark{Kind: ledger.Clock, Old: at(w.t, night), At: at(w.t, night+":30"), Step: 30 * time.Second})
	}},
	{"down_while_the_clock_was_set", api.WhyMissed, "down", func(w *world) {
		w.list(w.fire(before, ledger.Ran, ""))
		by, down := 5*time.Hour, 4*time.Hour
		set, up := at(w.t, "2026-11-22T12:00"), at(w.t, "2026-11-23T06:00")
		w.Report.Marks = w.Report.Marks.Add(ledger.Mark{Kind: ledger.Clock, Old: set, At: set.Add(by), Step: by})
		w.Report.Marks = w.Report.Marks.Add(ledger.Mark{Kind: ledger.Starts, Old: up.Add(by - down), At: up, Step: -by, Known: true})
	}},
	{"other_settings", api.WhyUnknown, "other_settings", func(w *world) { w.Report.Digest, w.Report.Commit = "d0", "0e0e0e0e0e0e" }},
	{"outcome_of_a_newer_peel", api.WhyUnknown, "other", func(w *world) { w.list(w.fire(night, ledger.Other, "solar_storm")) }},
	{"one_of_many_in_an_hour", api.WhyUnknown, "one_of_several", func(w *world) {
		w.timed("cron: '* * * * *'")
		w.number(80, w.fire("2026-11-23T02:00", ledger.Ran, ""))
		w.number(60, w.fire("2026-11-23T02:00", ledger.Skipped, ledger.AlreadyRunning))
		w.Time = "2026-11-23T02:40"
	}},
	{"all_of_many_in_an_hour", api.WhySkipped, "already_running", func(w *world) {
		w.timed("cron: '* * * * *'")
		w.number(60, w.fire("2026-11-23T02:00", ledger.Skipped, ledger.AlreadyRunning))
		w.Time = "2026-11-23T02:40"
	}},
	{"splay", api.WhyWaiting, "splay", func(w *world) {
		w.timed("cron: '40 7 * * *', splay: 30m")
		w.list(w.fire("2026-11-23T07:40", ledger.Pending, ledger.Splay))
	}},
	{"waits", api.WhyWaiting, "waits", func(w *world) {
		w.timed(nightly + ", if_running: queue")
		w.pending(ledger.Waits)
	}},
	{"owed", api.WhyWaiting, "owed", func(w *world) {
		w.timed(nightly + ", catch_up: run_once")
		w.pending(ledger.Owed)
	}},
	{"held", api.WhyWaiting, "held", func(w *world) {
		w.timed(nightly + ", only_between: '09:00-17:00', outside: defer")
		w.pending(ledger.Held)
	}},
	{"held_by_the_document", api.WhyWaiting, "held", func(w *world) {
		w.timed(nightly + ", only_between: '09:00-17:00', outside: defer")
		w.away()
	}},
	{"pending_and_no_report_since", api.WhyUnknown, "not_reporting", func(w *world) {
		w.pending(ledger.Waits)
		w.Report.Time = at(w.t, "2026-11-23T05:00")
	}},
	{"too_old", api.WhyUnknown, "too_old", func(w *world) { w.Time = old }},
	{"list_begins_later", api.WhyUnknown, "too_old", func(w *world) {
		w.list()
		w.e.From, w.Time = at(w.t, "2026-11-23T05:00"), night
	}},
	{"stored_missed", api.WhyMissed, "down", func(w *world) { w.stored(verdict.Counts{Expected: 1, Missed: 1}, down) }},
	{"stored_ran", api.WhyRan, "", func(w *world) { w.stored(verdict.Counts{Expected: 1, Ran: 1}) }},
	{"stored_failed", api.WhyFailed, "", func(w *world) { w.stored(verdict.Counts{Expected: 1, Ran: 1, Failed: 1}) }},
	{"stored_late", api.WhyLate, "late", func(w *world) { w.stored(verdict.Counts{Expected: 1, Ran: 1, Late: 1}) }},
	{"stored_overran", api.WhyOverran, "overran", func(w *world) { w.stored(verdict.Counts{Expected: 1, Ran: 1, Overran: 1}) }},
	{"stored_skipped", api.WhySkipped, "circuit_open", func(w *world) {
		w.stored(verdict.Counts{Expected: 1, Skipped: 1}, join.Reason{Verdict: join.Skipped, Why: "circuit_open", N: 1})
	}},
	{"stored_unknown", api.WhyUnknown, "no_report", func(w *world) {
		w.stored(verdict.Counts{Expected: 1, Unknown: 1}, join.Reason{Verdict: join.Unknown, Why: join.NoReport, N: 1})
	}},
	{"stored_several", api.WhyUnknown, "one_of_several", func(w *world) {
		w.timed("cron: '*/20 * * * *'")
		w.stored(verdict.Counts{Expected: 3, Ran: 2, Missed: 1}, down)
		w.Time = "2026-11-20T02:40"
	}},
	{"stored_in_part", api.WhyUnknown, "not_counted", func(w *world) {
		w.timed("cron: '*/20 * * * *'")
		w.stored(verdict.Counts{Expected: 1, Missed: 1}, down)
		w.Time = "2026-11-20T02:40"
	}},
	{"stored_without_it", api.WhyUnknown, "too_old", func(w *world) { w.stored(verdict.Counts{}); w.Past.Verdicts = nil }},
	{"stored_unread", api.WhyUnknown, "too_old", func(w *world) {
		w.stored(verdict.Counts{})
		w.Past, w.Unread = nil, []Unread{{SourceHistory, "timeout"}}
	}},
	{"stored_before_a_change", api.WhyUnknown, "other_settings", func(w *world) {
		w.stored(verdict.Counts{Expected: 1, Missed: 1}, down)
		w.e.Since = at(w.t, "2026-11-21T05:00")
	}},
	{"stored_not_in_schedule_now", api.WhyUnknown, "other_settings", func(w *world) {
		w.stored(verdict.Counts{Expected: 1, Missed: 1}, down)
		w.lacks()
	}},
	{"stored_without_a_report", api.WhyMissed, "down", func(w *world) {
		w.stored(verdict.Counts{Expected: 1, Missed: 1}, down)
		w.never()
	}},
	{"stored_but_the_report_has_it", api.WhyRan, "", func(w *world) {
		w.stored(verdict.Counts{Expected: 1, Missed: 1}, down)
		w.Past.Hour, w.Time = join.HourOf(at(w.t, night)), night
	}},

	{"asked_ran", api.WhyRan, "", func(w *world) {
		w.stored(verdict.Counts{Expected: 1, Missed: 1}, down)
		w.asked(ledger.Fire{Nominal: at(w.t, old), Outcome: ledger.Ran})
	}},
	{"asked_failed_by_hand", api.WhyFailed, "", func(w *world) {
		w.asked(ledger.Fire{Nominal: at(w.t, old).Add(time.Minute), Outcome: ledger.Failed, Class: ledger.Hand})
		w.Time = "2026-11-20T02:31"
	}},
	{"asked_missed", api.WhyMissed, "down", func(w *world) {
		w.asked(ledger.Fire{Nominal: at(w.t, old), Outcome: ledger.Missed, Why: ledger.Down})
	}},
	{"asked_and_it_is_away", api.WhyUnknown, "too_old", func(w *world) {
		w.Presence.Online, w.Time = false, old
		w.Unread = []Unread{{SourcePeel, "it is away, and was last heard at Mon 2026-11-23 07:59:40 GMT"}}
	}},
	{"asked_without_it", api.WhyUnknown, "not_counted", func(w *world) { w.asked() }},
	{"asked_without_it_but_stored", api.WhyMissed, "down", func(w *world) {
		w.stored(verdict.Counts{Expected: 1, Missed: 1}, down)
		w.asked()
	}},

	{"paused_perhaps", api.WhyUnknown, "unread", func(w *world) {
		w.did("2026-11-22T18:00", "schedule.pause", `entry="backup" reason="new disk"`)
		w.unsure(0)
		w.began("2026-11-23T07:00")
	}},
	{"resumed_perhaps", api.WhyUnknown, "unread", func(w *world) {
		w.did("2026-11-22T18:00", "schedule.pause", `entry="backup" reason="new disk"`)
		w.did("2026-11-22T19:00", "schedule.resume", `entry="backup"`)
		w.unsure(1)
		w.began("2026-11-23T07:00")
	}},
	{"paused_perhaps_but_it_ran", api.WhyRan, "", func(w *world) {
		w.did("2026-11-22T18:00", "schedule.pause", `entry="backup" reason="new disk"`)
		w.unsure(0)
	}},

	{"cause_likely", api.WhyFailed, "", func(w *world) {
		w.ran(night, "exit status 1")
		w.caused(cause.Likely, "likely commit 77aa12bc by Ada: 7 of 7 runs failed with it, 0 of 89 without", night)
	}},
	{"cause_none", api.WhyFailed, "", func(w *world) {
		w.ran(night, "exit status 1")
		w.caused(cause.None, "no commit explains it: none is known that reached the peels before", night)
	}},
	{"cause_of_a_later_problem", api.WhyFailed, "", func(w *world) {
		w.ran(night, "exit status 1")
		w.caused(cause.Likely, "likely commit 77aa12bc by Ada: 7 of 7 runs failed with it, 0 of 89 without", "2026-11-23T05:30")
	}},

	{"not_reporting", api.WhyUnknown, "not_reporting", func(w *world) { w.away() }},
	{"last_known_of_an_interval", api.WhyRan, "", func(w *world) {
		w.timed("interval: 6h")
		w.away()
		w.e.Next, w.e.Latest = at(w.t, "2026-11-23T00:30"), at(w.t, "2026-11-23T00:30")
	}},
	{"report_due", api.WhyUnknown, "report_due", func(w *world) {
		w.timed("cron: '*/5 * * * *'")
		w.e.Next, w.e.Latest = at(w.t, "2026-11-23T07:55"), at(w.t, "2026-11-23T07:55")
	}},
	{"may_start", api.WhyWaiting, "may_start", func(w *world) {
		w.timed("cron: '55 7 * * *', splay: 15m")
		w.e.Next, w.e.Latest = at(w.t, "2026-11-23T07:55"), at(w.t, "2026-11-23T08:10")
	}},
	{"asked_ran_since_the_report", api.WhyRan, "", func(w *world) {
		w.sinceTheReport(ledger.Fire{Outcome: ledger.Ran})
	}},
	{"asked_splay", api.WhyWaiting, "splay", func(w *world) {
		w.sinceTheReport(ledger.Fire{Outcome: ledger.Pending, Why: ledger.Splay})
	}},
	{"asked_ran_and_reported_pending", api.WhyRan, "", func(w *world) {
		w.sinceTheReport(ledger.Fire{Outcome: ledger.Ran})
		w.Report.Time = at(w.t, "2026-11-23T07:56")
		w.list(w.fire("2026-11-23T07:55", ledger.Pending, ledger.Runs))
	}},
	{"asked_not_started", api.WhyWaiting, "may_start", func(w *world) { w.sinceTheReport() }},
	{"never_reported", api.WhyUnknown, "never_reported", func(w *world) { w.never() }},
	{"unread", api.WhyRan, "", func(w *world) { w.Unread = []Unread{{SourceAudit, "timeout"}} }},
	{"unread_report", api.WhyUnknown, "unread", func(w *world) {
		w.never()
		w.Unread = []Unread{{SourceReport, "timeout"}}
	}},

	{"already_running", api.WhySkipped, "already_running", func(w *world) { w.skipped(ledger.AlreadyRunning) }},
	{"queue_full", api.WhySkipped, "queue_full", func(w *world) { w.timed(nightly + ", if_running: queue"); w.skipped(ledger.QueueFull) }},
	{"superseded", api.WhySkipped, "superseded", func(w *world) { w.skipped(ledger.Superseded) }},
	{"outside_window", api.WhySkipped, "outside_window", func(w *world) {
		w.timed(nightly + ", only_between: '08:00-18:00', only_on: [mon-fri]")
		w.skipped(ledger.OutsideWindow)
	}},
	{"blackout", api.WhySkipped, "blackout", func(w *world) {
		w.timed(nightly + ", blackout: [2026-11-20/2026-11-24]")
		w.skipped(ledger.InBlackout)
	}},
	{"calendar_before_any_report", api.WhySkipped, "outside_window", func(w *world) {
		w.timed(nightly + ", not_on: [2026-11-23]")
		w.never()
	}},
	{"circuit_open", api.WhySkipped, "circuit_open", func(w *world) {
		w.timed(nightly + ", breaker: {threshold: 3, reset_after: 30h}, pause_after_errors: 0")
		w.skipped(ledger.CircuitOpen)
		w.e.Breaker, w.e.InRow, w.e.Error = "open", 3, "exit status 1"
	}},
	{"needs_unmet", api.WhySkipped, "needs_unmet", func(w *world) {
		w.timed("needs: {entry: other, on: success}")
		w.skipped(ledger.NeedsUnmet)
		w.fires[0].Class, w.fires[1].Class = ledger.Needs, ledger.Needs
	}},
	{"skipped_once", api.WhySkipped, "skipped_once", func(w *world) {
		w.skipped(ledger.SkippedOnce)
		w.did("2026-11-22T17:00", "schedule.skip", `entry="backup" reason="new \"disk\""`)
	}},
	{"max_runs", api.WhySkipped, "max_runs", func(w *world) { w.timed(nightly + ", max_runs: 22"); w.skipped(ledger.MaxRuns) }},
	{"paused", api.WhySkipped, "paused", func(w *world) {
		w.timed(nightly + ", if_running: queue")
		w.skipped(ledger.Paused)
	}},
	{"disabled_while_waiting", api.WhySkipped, "disabled", func(w *world) { w.skipped(ledger.Disabled) }},
	{"removed", api.WhySkipped, "removed", func(w *world) {
		w.skipped(ledger.Removed)
		w.Document.Entry, w.e.State, w.e.Name = nil, "removed", "backup"
	}},

	{"disabled", api.WhyNone, "disabled", func(w *world) {
		w.timed(nightly + ", enabled: false")
		w.stops("disabled", "")
	}},
	{"disabled_before_any_report", api.WhyNone, "disabled", func(w *world) {
		w.timed(nightly + ", enabled: false")
		w.never()
	}},
	{"paused_manual", api.WhyNone, "paused_manual", func(w *world) { w.stops("paused_manual", "paused by lee until 2026-11-24T18:00:00Z: new disk") }},
	{"paused_then", api.WhyNone, "paused_manual", func(w *world) {
		w.did("2026-11-22T18:00", "schedule.pause", `entry="backup" for="1d" reason="new disk"`)
		w.did("2026-11-23T07:00", "schedule.resume", `entry="backup"`)
		w.began("2026-11-23T07:00")
	}},
	{"paused_errors", api.WhyNone, "paused_errors", func(w *world) {
		w.stops("paused_errors", "5 runs in a row failed")
		w.e.InRow, w.e.Error = 5, "exit status 1"
	}},
	{"paused_invalid", api.WhyNone, "paused_invalid", func(w *world) { w.stops("paused_invalid", "zone Mars/Olympus is unknown") }},
	{"exhausted", api.WhyNone, "exhausted", func(w *world) { w.stops("exhausted", "it has had all its runs") }},
	{"not_in_schedule_then", api.WhyNone, "not_in_schedule", func(w *world) { w.began("2026-11-23T05:00") }},
	{"not_in_schedule_now", api.WhyNone, "not_in_schedule", func(w *world) {
		w.lacks()
		w.recorded("2026-11-20T02:30", "2026-11-20T02:30:01", job.Complete, "timer")
		w.Time = night
	}},
	{"not_due_yet", api.WhyNone, "not_due_yet", func(w *world) { w.began("2026-11-23T05:00"); w.Time = "" }},
	{"not_due", api.WhyNone, "not_due", func(w *world) { w.Time = "2026-11-23T03:15" }},
	{"not_due_interval", api.WhyNone, "not_due", func(w *world) { w.timed("interval: 6h"); w.Time = "2026-11-23T05:00" }},
	{"not_before", api.WhyNone, "not_before", func(w *world) {
		w.timed(nightly + ", not_before: 2026-12-01T00:00:00Z")
		w.list()
		w.Time = before
	}},
	{"needs", api.WhyNone, "needs", func(w *world) { w.timed("needs: {entry: other, on: success}"); w.Time = "2026-11-23T05:00" }},
	{"clock_gap", api.WhyNone, "clock_gap", func(w *world) {
		w.timed("cron: '30 1 * * *', timezone: Europe/London, dst_gap: skip")
		w.spring()
		w.Time = "2026-03-29T01:30"
	}},
	{"clock_gap_moved", api.WhyRan, "", func(w *world) {
		w.timed("cron: '30 1 * * *', timezone: Europe/London")
		w.spring()
		w.Time = "2026-03-29 01:30"
	}},
	{"clock_repeat", api.WhyNone, "clock_repeat", func(w *world) {
		w.timed("cron: '30 1 * * *', timezone: Europe/London")
		w.autumn()
		w.Time = "2026-10-25T01:30:00Z"
	}},
	{"clock_repeat_first", api.WhyRan, "", func(w *world) {
		w.timed("cron: '30 1 * * *', timezone: Europe/London")
		w.autumn()
		w.Time = "2026-10-25T01:30"
	}},
	{"clock_behind", api.WhyUnknown, "clock", func(w *world) {
		w.list(w.fire(before, ledger.Ran, ""))
		w.Report.Time, w.Stored = at(w.t, "2026-11-23T01:50"), at(w.t, "2026-11-23T07:50")
	}},
	{"by_hand", api.WhyRan, "", func(w *world) {
		w.byHand("2026-11-23T05:12:09", "lee", "")
		w.recorded("2026-11-23T05:12:09", "2026-11-23T05:12:09", job.Complete, "manual")
		w.did("2026-11-23T05:12:08", "schedule.run", `entry="backup"`)
		w.Time = "05:12"
	}},
	{"by_hand_failed", api.WhyFailed, "", func(w *world) { w.byHand("2026-11-23T07:00", "ann", "exit status 9"); w.Time = "07:00" }},
	{"a_run_by_hand_failed_later", api.WhyRan, "", func(w *world) { w.byHand("2026-11-23T07:00", "ann", "exit status 9") }},
	{"a_run_by_hand_in_the_same_second", api.WhyRan, "", func(w *world) {
		w.fires = append(w.fires, ledger.Fire{Class: ledger.Hand, Nominal: at(w.t, night), Outcome: ledger.Failed})
		w.recorded(night, night, job.Failed, "manual")
	}},
	{"canary", api.WhyFailed, "", func(w *world) {
		w.ran(night, "exit status 3")
		w.e.Notes[0].Commit, w.e.InRow = "644e60d0644e60d0644e60d0644e60d0644e60d0", 1
		w.Revisions = append([]status.Attempt{{
			Commit: "644e60d0644e60d0644e60d0644e60d0644e60d0", Outcome: status.OutcomeRolledBack, Reason: "wave canary: backup failed on web-01",
			Began: at(w.t, "2026-11-23T02:28"), Ended: at(w.t, "2026-11-23T02:31:20"),
		}}, w.Revisions...)
	}},
	{"generation_before", api.WhyFailed, "", func(w *world) {
		w.ran(night, "exit status 3")
		w.e.Notes[0].Generation = uint64(at(w.t, "2026-11-23T02:28").UnixMilli())
		w.Document.Written = at(w.t, "2026-11-23T02:31:30")
	}},
	{"generation_now", api.WhyRan, "", func(w *world) { w.e.Notes[0].Generation = uint64(w.Document.Written.UnixMilli()) }},
	{"in_peel_yaml", api.WhyRan, "", func(w *world) {
		w.Document = Document{Commit: w.Document.Commit, Written: w.Document.Written, Names: []string{"other"}}
		w.e.Name = "backup"
	}},
}

// spring moves the reports of the world to the day on which daylight saving begins in London.
func (w *world) spring() { w.day("2026-03-29T08:00", "2026-03-29T01:00") }

// autumn moves them to the day on which it ends.
func (w *world) autumn() { w.day("2026-10-25T08:00", "2026-10-25T00:30") }

func (w *world) day(now, fire string) {
	w.Now, w.Report.Time = at(w.t, now), at(w.t, now).Add(-10*time.Minute)
	began := at(w.t, now).Add(-99 * time.Hour)
	w.Report.Started, w.e.Since, w.Document.Written, w.Revisions = began, began, began, nil
	w.Report.Marks = ledger.Marks{}.Add(ledger.Mark{Kind: ledger.Starts, At: began})
	w.ran(fire, "")
	w.fires = w.fires[1:]
	w.e.From, w.e.Next, w.e.Latest = began, at(w.t, fire).Add(24*time.Hour), at(w.t, fire).Add(24*time.Hour)
}

// The answers in testdata are also what the command line prints in its own test.
func TestEachEndOfAFireIsExplained(t *testing.T) {
	files := map[string]bool{}
	for _, c := range fireCases {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			c.set(w)
			got, err := w.answer()
			if err != nil {
				t.Fatal(err)
			}
			if got.Verdict != c.is || got.Reason != c.reason {
				t.Errorf("%s, %q: %s\nwant %s, %q", got.Verdict, got.Reason, got.Text, c.is, c.reason)
			}
			for _, fact := range got.Facts {
				if fact.Source == "" || fact.Text == "" || fact.About == "" {
					t.Errorf("a fact without its parts: %+v", fact)
				}
			}
			text, err := json.MarshalIndent(got, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata", c.name+".json")
			files[file] = true
			if *update {
				if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if string(want) != string(text)+"\n" {
				t.Errorf("%s is not the answer; -update writes it anew:\n%s", file, text)
			}
		})
	}
	stored, err := filepath.Glob("testdata/*.json")
	if err != nil || len(stored) != len(files) {
		t.Errorf("%d answers in testdata, %d questions, %v", len(stored), len(files), err)
	}
}

// constants returns the values of the string constants of a type in a file.
func constants(t *testing.T, file, name string) (values []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); !ok || kind.Name != name {
			return true
		}
		if literal, ok := spec.Values[0].(*ast.BasicLit); ok {
			text, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, text)
		}
		return true
	})
	return values
}

// A reason or state that a peel can report, and a verdict, has a question in fireCases.
func TestEveryReasonAndVerdictHasAQuestion(t *testing.T) {
	reasons, verdicts := map[string]bool{}, map[string]bool{}
	for _, c := range fireCases {
		verdicts[string(c.is)] = true
		reasons[c.reason] = true
	}
	want := append(constants(t, "../../peel/ledger/ledger.go", "Reason"), "outside_window", "blackout") // those are other packages'
	states := constants(t, "../../peel/scheduler/rules_state.go", "State")
	if len(want) < 20 || len(states) != 7 {
		t.Fatalf("found only the reasons %q and states %q", want, states)
	}
	want = slices.DeleteFunc(want, func(reason string) bool { return reason == "runs" }) // which is in_flight
	for _, reason := range append(want, slices.DeleteFunc(states, func(s string) bool { return s == "active" })...) {
		if !reasons[reason] {
			t.Errorf("no question has the reason %q among %q", reason, slices.Sorted(maps.Keys(reasons)))
		}
	}
	for _, is := range constants(t, "../api/why_answer.go", "WhyVerdict") {
		if !verdicts[is] {
			t.Errorf("no question has the verdict %q", is)
		}
	}
}

func TestQuestionsThatHaveNoAnswer(t *testing.T) {
	for _, c := range []struct {
		time, entry string
		err         error
		want        string
	}{
		{"tomorrow", "backup", ErrTime, `cannot use the time "tomorrow": write it like 2026-06-01T09:00, 09:00 or 2026-06-01T09:00:00+01:00; without an offset it is a time of the entry's zone`},
		{"2026-11-24T02:30", "backup", ErrTime, "cannot use the time Tue 2026-11-24 02:30:00 GMT: it has not come yet; zester schedule next web-01 backup lists what comes"},
		{"2026-10-01T02:30", "backup", ErrTime, "cannot use the time Thu 2026-10-01 02:30:00 BST: masters know what became of fires for 35 days; the earliest time is Mon 2026-10-19 09:00:00 BST"},
		{"", "bakcup", ErrNoEntry, `no such entry: neither the settings nor the reports of web-01 have a schedule entry "bakcup"; did you mean "backup"?`},
		{"", "zzz", ErrNoEntry, `no such entry: neither the settings nor the reports of web-01 have a schedule entry "zzz"`},
	} {
		w := newWorld(t)
		if w.Time = c.time; c.entry != w.Entry {
			w.Entry, w.Document.Entry = c.entry, nil
		}
		if _, err := w.answer(); !errors.Is(err, c.err) || err.Error() != c.want {
			t.Errorf("%s at %q: %v\nwant %s", c.entry, c.time, err, c.want)
		}
	}
}

// An entry that no source names may be in one that could not be read.
func TestASourceThatCannotBeReadIsNotOneThatKnowsNothing(t *testing.T) {
	w := newWorld(t)
	w.Document = Document{}
	w.never()
	w.Unread, w.Time = []Unread{{SourceDocument, "timeout"}}, night
	got, err := w.answer()
	if err != nil || got.Verdict != api.WhyUnknown || !slices.Equal(got.Unread, []string{"settings: timeout"}) {
		t.Errorf("got %+v, %v", got, err)
	}
}

// Whatever a peel reports, the answer is one of the verdicts, and every fact has a source.
func FuzzExplain(f *testing.F) {
	f.Add(int64(0), "active", "failed", "02:30", "30 2 * * *", "Europe/London", uint64(1))
	f.Add(int64(3600), "paused_errors", "missed", "2026-03-29T01:30", "* * * * *", "Asia/Kolkata", uint64(0))
	f.Fuzz(func(t *testing.T, offset int64, state, result, question, cron, zone string, n uint64) {
		w := newWorld(t)
		node, err := strictyaml.Parse("entry", []byte("backup: {module: cmd.run, cron: "+strconv.Quote(cron)+", timezone: "+strconv.Quote(zone)+"}"))
		if err == nil {
			if set, err := schedule.ParseSet(node); err == nil {
				w.Document.Entry = set["backup"]
			}
		}
		moved := time.Duration(offset%(1<<31)) * time.Second
		w.e.State, w.Time = state, question
		w.list(ledger.Fire{
			Nominal: ledger.At(at(t, night).Add(moved)), Outcome: ledger.Outcome(n % 6), Why: ledger.Reason(result),
		})
		w.Past = &Past{Hour: join.HourOf(at(t, night)), Verdicts: &join.Hour{Reasons: []join.Reason{{Verdict: join.Skipped, Why: result, N: n}}}}
		got, err := w.answer()
		if err != nil {
			if !errors.Is(err, ErrTime) && !errors.Is(err, ErrNoEntry) {
				t.Fatal(err)
			}
			return
		}
		if got.Text == "" || strings.ContainsAny(got.Text, "\n") {
			t.Errorf("%+v", got)
		}
		for _, fact := range got.Facts {
			if fact.Source == "" {
				t.Errorf("no source: %+v", fact)
			}
		}
	})
}
