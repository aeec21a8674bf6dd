package evidence

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

	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/coverage/cause"
	"github.com/seed-c01c3da5/zester/master/coverage/evidence/acts"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/master/coverage/why"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/reconciler/status"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/schedule/entryyaml"
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
	set, err := entryyaml.ParseSet(n)
	if err != nil {
		t.Fatal(err)
	}
	return set["backup"]
}

const nightly = "cron: '30 2 * * *', timezone: Europe/London"

// A world is what the sources say in a test. It begins with an entry that ran each night, and with a report of ten minutes ago.
type world struct {
	*Found
	t testing.TB
	e *wire.EntryReport
}

func newWorld(t testing.TB) *world {
	e := wire.EntryReport{
		Name: "backup", State: "active", Since: at(t, "2026-11-01T00:00"), Next: at(t, "2026-11-24T02:30"), Latest: at(t, "2026-11-24T02:30"),
		RunTimes: wire.RunTimes{
			Nominal: at(t, "2026-11-23T02:30"), Fired: at(t, "2026-11-23T02:30"), Started: at(t, "2026-11-23T02:30:01"), Ended: at(t, "2026-11-23T02:31:13"),
			Succeeded: at(t, "2026-11-23T02:31:13"),
		},
		Counts: wire.FireCounts{Ran: 22}, Median: 70 * time.Second, P95: 75 * time.Second,
		Hours: []wire.ScheduleHour{hour(t, "2026-11-23T02:00", wire.FireCounts{Ran: 1})},
	}
	w := &world{t: t, Found: &Found{
		Peel: "web-01", Entry: "backup", Now: at(t, "2026-11-23T08:00"),
		Document: Document{
			Commit: "1f3ac0129f3ac0129f3ac0129f3ac0129f3ac012", Digest: "d1", Written: at(t, "2026-11-01T00:00"), Entry: entry(t, nightly), Names: []string{"backup", "other"},
			Origin: settings.Origin{File: "settings/web.yaml", Line: 3, Commit: "77aa12bc77aa12bc77aa12bc77aa12bc77aa12bc", Author: "Ada <ada@example.com>", Time: at(t, "2026-10-31T16:20")},
		},
		Report: &wire.ScheduleState{
			Peel: "web-01", Commit: "1f3ac0129f3ac0129f3ac0129f3ac0129f3ac012", Digest: "d1", Version: "1.4.0", Zone: "Europe/London",
			Time: at(t, "2026-11-23T07:50"), Started: at(t, "2026-10-20T09:00"), Entries: []wire.EntryReport{e},
		},
		Presence: Presence{LastSeen: at(t, "2026-11-23T07:59:40"), Online: true},
		Revisions: []status.Attempt{
			{Commit: "99bb12bc99bb12bc99bb12bc99bb12bc99bb12bc", Outcome: status.OutcomeRejected, Began: at(t, "2026-11-20T10:00")},
			{Commit: "1f3ac0129f3ac0129f3ac0129f3ac0129f3ac012", Outcome: status.OutcomeApplied, Began: at(t, "2026-10-31T23:59:50")},
		},
	}}
	w.e = &w.Report.Entries[0]
	return w
}

func hour(t testing.TB, text string, c wire.FireCounts) wire.ScheduleHour {
	return wire.ScheduleHour{Hour: at(t, text).Unix() / 3600, FireCounts: c}
}

// timed gives the entry another timing.
func (w *world) timed(yaml string) { w.Document.Entry = entry(w.t, yaml) }

// skipped makes the last fire a skip.
func (w *world) skipped(reason string) {
	w.e.Fired, w.e.Started, w.e.Ended = at(w.t, "2026-11-22T02:30"), at(w.t, "2026-11-22T02:30"), at(w.t, "2026-11-22T02:31")
	w.e.Counts.Skipped, w.e.Skips = 1, map[string]uint64{reason: 1}
	h := hour(w.t, "2026-11-23T02:00", wire.FireCounts{Skipped: 1})
	h.Skips = map[string]uint64{reason: 1}
	w.e.Hours = []wire.ScheduleHour{h}
	w.e.Problems = []wire.FireReport{{Nominal: at(w.t, "2026-11-23T02:30"), Result: reason}}
}

// problem makes the last run one with a problem.
func (w *world) problem(result, text string) {
	w.e.Problems = []wire.FireReport{{
		Nominal: at(w.t, "2026-11-23T02:30"), Started: at(w.t, "2026-11-23T02:30:01"), Took: 72 * time.Second, Result: result, Error: text,
	}}
	w.e.Error = text
}

// did adds an act of an operator.
func (w *world) did(when, function, args string) {
	w.Acts = append(w.Acts, acts.Act{Entry: audit.Entry{
		Seq: uint64(41 + len(w.Acts)), Time: at(w.t, when), User: "lee", Action: "job.dispatch", Target: "web-01", Function: function, Args: args, Count: 1, Peels: []string{"web-01"}, Result: audit.Done,
	}})
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
	w.e.Nominal, w.e.Fired, w.e.Started, w.e.Ended = at(w.t, "2026-11-22T02:30"), at(w.t, "2026-11-22T02:30"), at(w.t, "2026-11-22T02:30"), at(w.t, "2026-11-22T02:31")
	w.e.Next, w.e.Latest = at(w.t, "2026-11-23T02:30"), at(w.t, "2026-11-23T02:30")
	w.e.Hours = []wire.ScheduleHour{hour(w.t, "2026-11-22T02:00", wire.FireCounts{Ran: 1})}
}

// stops gives the entry a state in which it does not fire.
func (w *world) stops(state, why string) {
	w.e.State, w.e.Why, w.e.Since, w.e.Next, w.e.Latest = state, why, at(w.t, "2026-11-22T18:00"), time.Time{}, time.Time{}
	w.e.Nominal, w.e.Fired, w.e.Started, w.e.Ended = at(w.t, "2026-11-22T02:30"), at(w.t, "2026-11-22T02:30"), at(w.t, "2026-11-22T02:30"), at(w.t, "2026-11-22T02:31")
	w.e.Hours = nil
}

// stored asks for a night that the report does not have any more, of which masters have stored counts.
func (w *world) stored(c *verdict.Counts) {
	w.Time = "2026-11-20T02:30"
	w.Past = &Past{Hour: at(w.t, w.Time).Unix() / 3600, Stored: true, Counts: c}
}

// caused makes the peel have a problem since a time, of which a cause is known.
func (w *world) caused(word cause.Word, text, since string) {
	w.Cause = &Cause{cause.Finding{Word: word, Commit: w.Document.Origin.Commit, Text: text}, at(w.t, since)}
}

// A fireCase is a question about one fire, and what the answer must say.
type fireCase struct {
	name   string
	is     why.Verdict
	reason string
	set    func(*world)
}

const night = "2026-11-23T02:30"

// fires has a question for each end that a fire can come to, and for each reason.
var fires = []fireCase{
	{"ran", why.Ran, "", func(w *world) {}},
	{"ran_job", why.Ran, "", func(w *world) { w.recorded(night, night+":01", job.Complete, "timer"); w.Time = "02:30" }},
	{"ran_of_count", why.Ran, "", func(w *world) {
		w.timed("cron: '*/20 * * * *'")
		w.Time = "2026-11-23T02:40"
		w.e.Hours = []wire.ScheduleHour{hour(w.t, "2026-11-23T02:00", wire.FireCounts{Ran: 2, Late: 1, Missed: 1})}
		w.e.Problems = []wire.FireReport{{Nominal: at(w.t, "2026-11-23T02:00"), Result: "missed"}, {Nominal: at(w.t, "2026-11-23T02:20"), Result: "late"}}
	}},
	{"made_up", why.Ran, "", func(w *world) {
		w.timed(nightly + ", catch_up: run_once")
		w.recorded(night, "2026-11-23T07:10", job.Complete, "catch_up")
	}},
	{"running", why.Running, "in_flight", func(w *world) {
		w.e.Running, w.e.Ended = 1, at(w.t, "2026-11-22T02:31")
	}},
	{"failed", why.Failed, "", func(w *world) { w.problem("failed", "exit status 1: \x1b[31mdisk full\n") }},
	{"failed_job", why.Failed, "", func(w *world) {
		w.problem("failed", "exit status 1")
		w.recorded(night, night+":01", job.Failed, "timer")
	}},
	{"interrupted", why.Failed, "interrupted", func(w *world) { w.problem("interrupted", "") }},
	{"late", why.Late, "late", func(w *world) {
		w.timed(nightly + ", late_after: 10m")
		w.problem("late", "")
		w.e.Problems[0].Started = at(w.t, "2026-11-23T02:55")
	}},
	{"overran", why.Overran, "overran", func(w *world) { w.problem("overran", "") }},
	{"missed_while_down", why.Missed, "down", func(w *world) {
		w.skipped("missed")
		w.Report.Started = at(w.t, "2026-11-23T06:00")
	}},
	{"missed_while_suspended", why.Missed, "not_started", func(w *world) { w.skipped("missed") }},
	{"missed_of_count", why.Missed, "down", func(w *world) {
		w.Report.Started = at(w.t, "2026-11-23T06:00")
		w.Time = "2026-11-23T02:30"
		w.e.Nominal = at(w.t, "2026-11-22T02:30")
		w.e.Hours = []wire.ScheduleHour{hour(w.t, "2026-11-23T02:00", wire.FireCounts{Missed: 1})}
	}},
	{"not_counted", why.Missed, "not_counted", func(w *world) { w.e.Nominal, w.e.Hours = at(w.t, "2026-11-22T02:30"), nil }},
	{"other_settings", why.Unknown, "other_settings", func(w *world) {
		w.e.Nominal, w.e.Hours = at(w.t, "2026-11-22T02:30"), nil
		w.Report.Digest, w.Report.Commit = "d0", "0e0e0e0e0e0e"
	}},
	{"one_of_several", why.Unknown, "one_of_several", func(w *world) {
		w.timed("cron: '*/20 * * * *'")
		w.Time = "2026-11-23T02:40"
		w.e.Hours = []wire.ScheduleHour{hour(w.t, "2026-11-23T02:00", wire.FireCounts{Ran: 2, Missed: 1})}
	}},
	{"one_of_several_is_pending", why.Unknown, "one_of_several", func(w *world) {
		w.timed("cron: '*/20 * * * *'")
		w.Time = "2026-11-23T02:40"
		w.e.Hours = []wire.ScheduleHour{hour(w.t, "2026-11-23T02:00", wire.FireCounts{Ran: 2})}
		w.e.Hours[0].Pending = 1
	}},
	{"pending", why.Waiting, "pending", func(w *world) {
		w.timed(nightly + ", if_running: queue")
		w.e.Nominal, w.Time = at(w.t, "2026-11-22T02:30"), night
		w.e.Hours[0].FireCounts, w.e.Hours[0].Pending = wire.FireCounts{}, 1
	}},
	{"fewer_than_were_due", why.Unknown, "not_counted", func(w *world) {
		w.timed("cron: '*/20 * * * *'")
		w.Time = "2026-11-23T02:40"
		w.e.Hours = []wire.ScheduleHour{hour(w.t, "2026-11-23T02:00", wire.FireCounts{Ran: 2})}
	}},
	{"as_many_as_were_due_since_a_change", why.Ran, "", func(w *world) {
		w.timed("cron: '*/20 * * * *'")
		w.Time = "2026-11-23T02:40"
		w.e.Since = at(w.t, "2026-11-23T02:10")
		w.e.Hours = []wire.ScheduleHour{hour(w.t, "2026-11-23T02:00", wire.FireCounts{Ran: 2})}
	}},
	{"without_it", why.Unknown, "not_counted", func(w *world) {
		w.timed("cron: '*/20 * * * *'")
		w.Time = "2026-11-23T02:40"
		w.e.Hours = []wire.ScheduleHour{hour(w.t, "2026-11-23T02:00", wire.FireCounts{Missed: 1})}
		w.e.Problems = []wire.FireReport{{Nominal: at(w.t, "2026-11-23T02:00"), Result: "missed"}}
	}},
	{"too_old", why.Unknown, "too_old", func(w *world) { w.Time = "2026-11-20T02:30" }},
	{"stored_missed", why.Missed, "not_stored", func(w *world) { w.stored(&verdict.Counts{Expected: 1, Missed: 1}) }},
	{"stored_ran", why.Ran, "", func(w *world) { w.stored(&verdict.Counts{Expected: 1, Ran: 1}) }},
	{"stored_failed", why.Failed, "", func(w *world) { w.stored(&verdict.Counts{Expected: 1, Ran: 1, Failed: 1}) }},
	{"stored_late", why.Late, "late", func(w *world) { w.stored(&verdict.Counts{Expected: 1, Ran: 1, Late: 1}) }},
	{"stored_overran", why.Overran, "overran", func(w *world) { w.stored(&verdict.Counts{Expected: 1, Ran: 1, Overran: 1}) }},
	{"stored_one_late", why.Ran, "", func(w *world) {
		w.timed("cron: '*/20 * * * *'")
		w.stored(&verdict.Counts{Expected: 3, Ran: 3, Late: 1, Unexpected: 2})
		w.Time = "2026-11-20T02:40"
	}},
	{"stored_skipped", why.Skipped, "not_stored", func(w *world) { w.stored(&verdict.Counts{Expected: 1, Skipped: 1}) }},
	{"stored_unknown", why.Unknown, "not_reported", func(w *world) { w.stored(&verdict.Counts{Expected: 1, Unknown: 1}) }},
	{"stored_several", why.Unknown, "one_of_several", func(w *world) {
		w.timed("cron: '*/20 * * * *'")
		w.stored(&verdict.Counts{Expected: 3, Ran: 2, Missed: 1})
		w.Time = "2026-11-20T02:40"
	}},
	{"stored_but_one_is_named", why.Ran, "", func(w *world) {
		w.timed("cron: '*/20 * * * *'")
		w.stored(&verdict.Counts{Expected: 3, Ran: 2, Skipped: 1})
		w.e.Problems = []wire.FireReport{{Nominal: at(w.t, "2026-11-20T02:20"), Result: "already_running"}}
		w.Time = "2026-11-20T02:40"
	}},
	{"stored_in_part", why.Unknown, "not_counted", func(w *world) {
		w.timed("cron: '*/20 * * * *'")
		w.stored(&verdict.Counts{Expected: 1, Missed: 1})
		w.Time = "2026-11-20T02:40"
	}},
	{"stored_without_it", why.Unknown, "too_old", func(w *world) { w.stored(nil) }},
	{"stored_nothing", why.Unknown, "too_old", func(w *world) { w.stored(nil); w.Past.Stored = false }},
	{"stored_unread", why.Unknown, "too_old", func(w *world) {
		w.stored(nil)
		w.Past, w.Unread = nil, []Unread{{SourceHistory, "timeout"}}
	}},
	{"stored_before_a_change", why.Unknown, "other_settings", func(w *world) {
		w.stored(&verdict.Counts{Expected: 1, Missed: 1})
		w.e.Since = at(w.t, "2026-11-21T05:00")
	}},
	{"stored_not_in_schedule_now", why.Unknown, "other_settings", func(w *world) {
		w.stored(&verdict.Counts{Expected: 1, Missed: 1})
		w.Document.Entry, w.Document.Origin, w.Report.Entries, w.e = nil, settings.Origin{}, nil, nil
	}},
	{"stored_without_a_report", why.Missed, "not_stored", func(w *world) {
		w.stored(&verdict.Counts{Expected: 1, Missed: 1})
		w.Report, w.e = nil, nil
	}},
	{"stored_unknown_without_a_report", why.Unknown, "never_reported", func(w *world) {
		w.stored(&verdict.Counts{Expected: 1, Unknown: 1})
		w.Report, w.e = nil, nil
	}},
	{"stored_but_the_report_has_it", why.Missed, "not_counted", func(w *world) {
		w.stored(&verdict.Counts{Expected: 1, Ran: 1})
		w.Past.Hour, w.Time = at(w.t, night).Unix()/3600, night
		w.e.Nominal, w.e.Hours = at(w.t, "2026-11-22T02:30"), nil
	}},

	{"paused_perhaps", why.Unknown, "unread", func(w *world) {
		w.did("2026-11-22T18:00", "schedule.pause", `entry="backup" reason="new disk"`)
		w.Acts[0].Target, w.Acts[0].Count, w.Acts[0].Unsure = "role:db", 40, "the facts of the fleet were not read yet"
		w.e.Since, w.e.Nominal, w.e.Hours, w.Time = at(w.t, "2026-11-23T07:00"), at(w.t, "2026-11-22T02:30"), nil, night
	}},
	{"resumed_perhaps", why.Unknown, "unread", func(w *world) {
		w.did("2026-11-22T18:00", "schedule.pause", `entry="backup" reason="new disk"`)
		w.did("2026-11-22T19:00", "schedule.resume", `entry="backup"`)
		w.Acts[1].Target, w.Acts[1].Count, w.Acts[1].Unsure = "role:db", 40, "the facts of the fleet were not read yet"
		w.e.Since, w.e.Nominal, w.e.Hours, w.Time = at(w.t, "2026-11-23T07:00"), at(w.t, "2026-11-22T02:30"), nil, night
	}},
	{"not_paused_by_its_report", why.Missed, "not_counted", func(w *world) {
		w.did("2026-11-22T18:00", "schedule.pause", `entry="backup" reason="new disk"`)
		w.Acts[0].Target, w.Acts[0].Count, w.Acts[0].Unsure = "role:db", 40, "the facts of the fleet were not read yet"
		w.e.Nominal, w.e.Hours, w.Time = at(w.t, "2026-11-22T02:30"), nil, night
	}},
	{"paused_perhaps_but_it_ran", why.Ran, "", func(w *world) {
		w.did("2026-11-22T18:00", "schedule.pause", `entry="backup" reason="new disk"`)
		w.Acts[0].Target, w.Acts[0].Count, w.Acts[0].Unsure = "role:db", 40, "the facts of the fleet were not read yet"
		w.timed("cron: '*/20 * * * *'")
		w.e.Hours, w.Time = []wire.ScheduleHour{hour(w.t, "2026-11-23T02:00", wire.FireCounts{Ran: 3})}, "2026-11-23T02:40"
	}},

	{"cause_likely", why.Failed, "", func(w *world) {
		w.problem("failed", "exit status 1")
		w.caused(cause.Likely, "likely commit 77aa12bc by Ada: 7 of 7 runs failed with it, 0 of 89 without", night)
	}},
	{"cause_none", why.Failed, "", func(w *world) {
		w.problem("failed", "exit status 1")
		w.caused(cause.None, "no commit explains it: none is known that reached the peels before", night)
	}},
	{"cause_of_a_later_problem", why.Failed, "", func(w *world) {
		w.problem("failed", "exit status 1")
		w.caused(cause.Likely, "likely commit 77aa12bc by Ada: 7 of 7 runs failed with it, 0 of 89 without", "2026-11-23T05:30")
	}},

	{"not_reporting", why.Unknown, "not_reporting", func(w *world) { w.away() }},
	{"report_due", why.Unknown, "report_due", func(w *world) {
		w.timed("cron: '*/5 * * * *'")
		w.e.Nominal, w.e.Next, w.e.Latest = at(w.t, "2026-11-23T07:50"), at(w.t, "2026-11-23T07:55"), at(w.t, "2026-11-23T07:55")
	}},
	{"may_start", why.Waiting, "may_start", func(w *world) {
		w.timed("cron: '55 7 * * *', splay: 15m")
		w.e.Next, w.e.Latest = at(w.t, "2026-11-23T07:55"), at(w.t, "2026-11-23T08:10")
	}},
	{"held", why.Waiting, "held", func(w *world) {
		w.timed(nightly + ", only_between: '09:00-17:00', outside: defer")
		w.e.Nominal = at(w.t, "2026-11-22T02:30")
	}},
	{"never_reported", why.Unknown, "never_reported", func(w *world) { w.Report, w.e = nil, nil }},
	{"unread", why.Ran, "", func(w *world) { w.Unread = []Unread{{SourceAudit, "timeout"}} }},
	{"unread_report", why.Unknown, "unread", func(w *world) {
		w.Report, w.e, w.Unread = nil, nil, []Unread{{SourceReport, "timeout"}}
	}},
	{"unread_pauses", why.Unknown, "unread", func(w *world) {
		w.e.Nominal, w.e.Hours, w.Unread = at(w.t, "2026-11-22T02:30"), nil, []Unread{{SourceAudit, "timeout"}}
	}},

	{"already_running", why.Skipped, "already_running", func(w *world) { w.skipped("already_running") }},
	{"queue_full", why.Skipped, "queue_full", func(w *world) { w.timed(nightly + ", if_running: queue"); w.skipped("queue_full") }},
	{"deadline_exceeded", why.Skipped, "deadline_exceeded", func(w *world) { w.skipped("deadline_exceeded") }},
	{"superseded", why.Skipped, "superseded", func(w *world) { w.skipped("superseded") }},
	{"outside_window", why.Skipped, "outside_window", func(w *world) {
		w.timed(nightly + ", only_between: '08:00-18:00', only_on: [mon-fri]")
		w.skipped("outside_window")
	}},
	{"blackout", why.Skipped, "blackout", func(w *world) {
		w.timed(nightly + ", blackout: [2026-11-20/2026-11-24]")
		w.skipped("blackout")
	}},
	{"calendar_before_any_report", why.Skipped, "outside_window", func(w *world) {
		w.timed(nightly + ", not_on: [2026-11-23]")
		w.Report, w.e = nil, nil
	}},
	{"circuit_open", why.Skipped, "circuit_open", func(w *world) {
		w.timed(nightly + ", breaker: {threshold: 3, reset_after: 30h}, pause_after_errors: 0")
		w.skipped("circuit_open")
		w.e.Breaker, w.e.InRow, w.e.Error = "open", 3, "exit status 1"
	}},
	{"needs_unmet", why.Skipped, "needs_unmet", func(w *world) {
		w.timed("needs: {entry: other, on: success}")
		w.skipped("needs_unmet")
	}},
	{"skipped_once", why.Skipped, "skipped_once", func(w *world) {
		w.skipped("skipped_once")
		w.did("2026-11-22T17:00", "schedule.skip", `entry="backup" reason="new \"disk\""`)
	}},
	{"max_runs", why.Skipped, "max_runs", func(w *world) { w.timed(nightly + ", max_runs: 22"); w.skipped("max_runs") }},
	{"clock_set", why.Skipped, "clock_set", func(w *world) { w.skipped("clock_set") }},
	{"paused", why.Skipped, "paused", func(w *world) {
		w.timed(nightly + ", if_running: queue")
		w.skipped("paused")
	}},
	{"disabled_while_waiting", why.Skipped, "disabled", func(w *world) { w.skipped("disabled") }},
	{"removed", why.Skipped, "removed", func(w *world) { w.skipped("removed"); w.Document.Entry = nil }},
	{"reason_of_a_newer_peel", why.Skipped, "solar_storm", func(w *world) { w.skipped("solar_storm") }},

	{"disabled", why.None, "disabled", func(w *world) {
		w.timed(nightly + ", enabled: false")
		w.stops("disabled", "")
		w.Time = night
	}},
	{"disabled_before_any_report", why.None, "disabled", func(w *world) {
		w.timed(nightly + ", enabled: false")
		w.Report, w.e = nil, nil
	}},
	{"paused_manual", why.None, "paused_manual", func(w *world) {
		w.stops("paused_manual", "paused by lee until 2026-11-24T18:00:00Z: new disk")
		w.Time = night
	}},
	{"paused_then", why.None, "paused_manual", func(w *world) {
		w.did("2026-11-22T18:00", "schedule.pause", `entry="backup" for="1d" reason="new disk"`)
		w.did("2026-11-23T07:00", "schedule.resume", `entry="backup"`)
		w.e.Since, w.e.Nominal, w.e.Hours = at(w.t, "2026-11-23T07:00"), at(w.t, "2026-11-22T02:30"), nil
		w.Time = night
	}},
	{"paused_errors", why.None, "paused_errors", func(w *world) {
		w.stops("paused_errors", "5 runs in a row failed")
		w.e.InRow, w.e.Error, w.Time = 5, "exit status 1", night
	}},
	{"paused_invalid", why.None, "paused_invalid", func(w *world) {
		w.stops("paused_invalid", "zone Mars/Olympus is unknown")
		w.Time = night
	}},
	{"exhausted", why.None, "exhausted", func(w *world) { w.stops("exhausted", "it has had all its runs"); w.Time = night }},
	{"not_in_schedule_then", why.None, "not_in_schedule", func(w *world) {
		w.e.Since, w.e.Nominal, w.e.Hours = at(w.t, "2026-11-23T05:00"), time.Time{}, nil
		w.Document.Written, w.Time = at(w.t, "2026-11-23T04:59:50"), night
	}},
	{"not_in_schedule_now", why.None, "not_in_schedule", func(w *world) {
		w.Document.Entry, w.Document.Origin, w.Report.Entries, w.e = nil, settings.Origin{}, nil, nil
		w.recorded("2026-11-20T02:30", "2026-11-20T02:30:01", job.Complete, "timer")
		w.Time = night
	}},
	{"not_due_yet", why.None, "not_due_yet", func(w *world) {
		w.e.Since, w.Document.Written = at(w.t, "2026-11-23T05:00"), at(w.t, "2026-11-23T04:59:50")
		w.e.Nominal, w.e.Started, w.e.Fired, w.e.Ended, w.e.Hours = time.Time{}, time.Time{}, time.Time{}, time.Time{}, nil
	}},
	{"not_due", why.None, "not_due", func(w *world) { w.Time = "2026-11-23T03:15" }},
	{"not_due_interval", why.None, "not_due", func(w *world) { w.timed("interval: 6h"); w.Time = "2026-11-23T05:00" }},
	{"not_before", why.None, "not_before", func(w *world) { w.timed(nightly + ", not_before: 2026-12-01T00:00:00Z"); w.Time = "2026-11-22T02:30" }},
	{"needs", why.None, "needs", func(w *world) { w.timed("needs: {entry: other, on: success}"); w.Time = "2026-11-23T05:00" }},
	{"clock_gap", why.None, "clock_gap", func(w *world) {
		w.timed("cron: '30 1 * * *', timezone: Europe/London, dst_gap: skip")
		w.spring()
		w.Time = "2026-03-29T01:30"
	}},
	{"clock_gap_moved", why.Ran, "", func(w *world) {
		w.timed("cron: '30 1 * * *', timezone: Europe/London")
		w.spring()
		w.Time = "2026-03-29 01:30"
	}},
	{"clock_repeat", why.None, "clock_repeat", func(w *world) {
		w.timed("cron: '30 1 * * *', timezone: Europe/London")
		w.autumn()
		w.Time = "2026-10-25T01:30:00Z"
	}},
	{"clock_repeat_first", why.Ran, "", func(w *world) {
		w.timed("cron: '30 1 * * *', timezone: Europe/London")
		w.autumn()
		w.Time = "2026-10-25T01:30"
	}},
	{"clock_behind", why.Unknown, "not_reporting", func(w *world) {
		w.Report.Time, w.Stored = at(w.t, "2026-11-23T01:50"), at(w.t, "2026-11-23T07:50")
		w.e.Nominal, w.e.Fired, w.e.Started, w.e.Ended = at(w.t, "2026-11-22T02:30"), at(w.t, "2026-11-22T02:30"), at(w.t, "2026-11-22T02:30"), at(w.t, "2026-11-22T02:31")
	}},
	{"by_hand", why.Ran, "", func(w *world) {
		w.recorded("2026-11-23T05:12:09", "2026-11-23T05:12:09", job.Complete, "manual")
		w.did("2026-11-23T05:12:08", "schedule.run", `entry="backup"`)
		w.Time = "05:12"
	}},
	{"canary", why.Failed, "", func(w *world) {
		bad := settings.Commit("644e60d0644e60d0644e60d0644e60d0644e60d0")
		w.problem("failed", "exit status 3")
		w.e.Problems[0].Commit, w.e.InRow = string(bad), 1
		w.Revisions = append([]status.Attempt{{
			Commit: bad, Outcome: status.OutcomeRolledBack, Reason: "wave canary: backup failed on web-01", Began: at(w.t, "2026-11-23T02:28"), Ended: at(w.t, "2026-11-23T02:31:20"),
		}}, w.Revisions...)
	}},
	{"in_peel_yaml", why.Ran, "", func(w *world) {
		w.Document = Document{Commit: w.Document.Commit, Written: w.Document.Written, Names: []string{"other"}}
		w.e.Local = true
	}},
}

// spring moves the reports of the world to the day on which daylight saving begins in London.
func (w *world) spring() { w.day("2026-03-29T08:00", "2026-03-29T01:00") }

// autumn moves them to the day on which it ends.
func (w *world) autumn() { w.day("2026-10-25T08:00", "2026-10-25T00:30") }

func (w *world) day(now, fire string) {
	w.Now, w.Report.Time = at(w.t, now), at(w.t, now).Add(-10*time.Minute)
	w.Report.Started, w.e.Since, w.Document.Written = at(w.t, now).Add(-99*time.Hour), at(w.t, now).Add(-99*time.Hour), at(w.t, now).Add(-99*time.Hour)
	w.e.Nominal, w.e.Fired, w.e.Started, w.e.Ended = at(w.t, fire), at(w.t, fire), at(w.t, fire), at(w.t, fire).Add(time.Minute)
	w.e.Next, w.e.Latest = at(w.t, fire).Add(24*time.Hour), at(w.t, fire).Add(24*time.Hour)
	w.e.Hours, w.Revisions = []wire.ScheduleHour{hour(w.t, fire, wire.FireCounts{Ran: 1})}, nil
}

// The answers in testdata are also what the command line prints in its own test.
func TestEachEndOfAFireIsExplained(t *testing.T) {
	files := map[string]bool{}
	for _, c := range fires {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			c.set(w)
			got, err := w.Explain()
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

// A reason or state that a peel can report, and a verdict, has a question in fires.
func TestEveryReasonAndVerdictHasAQuestion(t *testing.T) {
	reasons, verdicts := map[string]bool{}, map[string]bool{}
	for _, c := range fires {
		verdicts[string(c.is)] = true
		reasons[c.reason] = true
	}
	want := append(constants(t, "../../../peel/ledger/ledger.go", "Reason"), "outside_window", "blackout") // those are other packages'
	states := constants(t, "../../../peel/scheduler/rules/state.go", "State")
	if len(want) < 13 || len(states) != 7 {
		t.Fatalf("found only the reasons %q and states %q", want, states)
	}
	want = slices.DeleteFunc(want, func(reason string) bool { // of fires that wait or were missed
		return slices.Contains([]string{"runs", "splay", "held", "waits", "owed", "down", "catch_up", "other"}, reason)
	})
	for _, reason := range append(want, slices.DeleteFunc(states, func(s string) bool { return s == "active" })...) {
		if !reasons[reason] {
			t.Errorf("no question has the reason %q among %q", reason, slices.Sorted(maps.Keys(reasons)))
		}
	}
	for _, is := range constants(t, "../why/why.go", "Verdict") {
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
		if _, err := w.Explain(); !errors.Is(err, c.err) || err.Error() != c.want {
			t.Errorf("%s at %q: %v\nwant %s", c.entry, c.time, err, c.want)
		}
	}
}

// An entry that no source names may be in one that could not be read.
func TestASourceThatCannotBeReadIsNotOneThatKnowsNothing(t *testing.T) {
	w := newWorld(t)
	w.Document, w.Report = Document{}, nil
	w.Unread, w.Time = []Unread{{SourceDocument, "timeout"}}, night
	got, err := w.Explain()
	if err != nil || got.Verdict != why.Unknown || !slices.Equal(got.Unread, []string{"settings: timeout"}) {
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
			if set, err := entryyaml.ParseSet(node); err == nil {
				w.Document.Entry = set["backup"]
			}
		}
		moved := time.Duration(offset%(1<<31)) * time.Second
		w.e.State, w.Time, w.e.Nominal = state, question, w.e.Nominal.Add(moved)
		w.e.Problems = []wire.FireReport{{Nominal: w.e.Nominal, Result: result}}
		w.e.Hours[0].Missed, w.e.Hours[0].Skips = n, map[string]uint64{result: n}
		got, err := w.Explain()
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
