package master_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/job"
	ledgerpkg "github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// hourly is an entry that runs at half past each hour and reports its runs as jobs.
var hourly = map[string]any{"schedule": map[string]any{"backup": map[string]any{
	"module": "test.ping", "cron": "30 * * * *", "timezone": "UTC", "return_job": true,
}}}

// sources returns the sources of the facts of an answer, without the times in them.
func sources(w *api.WhyAnswer) (names []string) {
	for _, f := range w.Facts {
		name, _, _ := strings.Cut(f.Source, " at ")
		names = append(names, name)
	}
	return names
}

// told publishes a report of a peel with entries of peel.yaml.
func (s *site) told(id target.PeelID, entries ...ledgerpkg.EntryReport) {
	s.t.Helper()
	began := time.Now().Add(-time.Hour)
	r := ledgerpkg.Report{Peel: id, Version: "1.4.0", Zone: ledgerpkg.Zone{Name: "UTC"}, Time: time.Now(), Started: began, Entries: entries}
	r.Marks = r.Marks.Add(ledgerpkg.Mark{Kind: ledgerpkg.Starts, At: began})
	data, err := ledgerpkg.Encode(&r)
	if err == nil {
		_, err = s.bus.Conn(s.t, grants.RolePeel, id.Wire()).Request(wire.ScheduleStateOf(id.Wire()), data, time.Second)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

func TestWhyFollowsAFireFromTheSettingsToTheJob(t *testing.T) {
	if testing.Short() {
		t.Skip("hours of a bus")
	}
	atSite(t, func(t *testing.T, s *site) {
		s.master("m1")
		s.peels("web-01", "db-01")
		s.give("web-01", hourly)
		began := time.Now() // shortly after midnight
		time.Sleep(40 * time.Minute)
		bob := s.people("bob")
		due := began.Truncate(time.Hour).Add(30 * time.Minute)

		ran, err := api.CoverageExplain.Ask(t.Context(), bob, api.WhyRequest{Peel: "web-01", Entry: "backup", Time: "00:30"})
		if err != nil {
			t.Fatal(err)
		}
		if ran.Verdict != api.WhyRan || !ran.Nominal.Equal(due) || ran.Job == "" || ran.Started.Before(due) {
			t.Errorf("%+v", ran)
		}
		if j := s.record(ran.Job); j.Metadata[job.MetaSchedule] != "backup" {
			t.Errorf("it names the job %+v", j)
		}
		for _, want := range []string{"record of job " + string(ran.Job), "document of commit ", "presence"} {
			if !slices.Contains(sources(ran), want) {
				t.Errorf("no fact is from the %s: %q", want, sources(ran))
			}
		}
		if !slices.ContainsFunc(ran.Unread, func(text string) bool { return strings.HasPrefix(text, "history of revisions: no reconciler replies") }) {
			t.Errorf("no master has a config repo, and %q", ran.Unread)
		}

		// A pause is known from the audit log.
		spec := job.Spec{JID: wire.NewJID(), Function: "schedule.pause", Args: map[string]any{"entry": "backup", "reason": "new disk"}, Targets: []target.PeelID{"web-01"}, TargetExpr: "web-01"}
		if _, err := api.JobDispatch.Ask(t.Context(), bob, spec); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		paused, err := api.CoverageExplain.Ask(t.Context(), bob, api.WhyRequest{Peel: "web-01", Entry: "backup", Time: due.Add(time.Hour).Format(time.RFC3339)})
		if err != nil || paused.Verdict != api.WhyNone || paused.Reason != "paused_manual" || !strings.Contains(paused.Text, "paused by bob") || !strings.Contains(paused.Text, "new disk") {
			t.Errorf("%+v, %v", paused, err)
		}
		if strings.Contains(strings.Join(sources(paused), " "), "record") {
			t.Errorf("a fire that was not names a job: %q", sources(paused))
		}
	})
}

func TestWhyReadsTheNewestReportAndNamesASourceThatItCannotRead(t *testing.T) {
	if testing.Short() {
		t.Skip("hours of a bus")
	}
	atSite(t, func(t *testing.T, s *site) {
		s.master("m1")
		s.peels("web-01")
		time.Sleep(3 * time.Hour)
		due := time.Now().Add(-30 * time.Minute)
		run := ledgerpkg.Run{Fire: ledgerpkg.Fire{Era: 1, Nominal: due, Outcome: ledgerpkg.Missed, Why: ledgerpkg.DeadlineExceeded}, Count: 1}
		missed := ledgerpkg.EntryReport{Name: "other", State: "active", Since: due.Add(-24 * time.Hour), Runs: ledgerpkg.AppendRuns(nil, []ledgerpkg.Run{run})}
		s.told("web-01", missed)
		bob := s.people("bob")
		ask := func() *api.WhyAnswer {
			t.Helper()
			w, err := api.CoverageExplain.Ask(t.Context(), bob, api.WhyRequest{Peel: "web-01", Entry: "other"})
			if err != nil {
				t.Fatal(err)
			}
			return w
		}
		if w := ask(); w.Verdict != api.WhyMissed || w.Reason != "deadline_exceeded" || !w.Nominal.Equal(due) || !slices.Contains(sources(w), "report of web-01") {
			t.Errorf("%+v", w)
		}
		// An entry that nobody can look for may exist.
		if err := s.js.DeleteStream(t.Context(), wire.StreamScheduleState); err != nil {
			t.Fatal(err)
		}
		if w := ask(); w.Verdict != api.WhyUnknown || w.Reason != "unread" || !slices.ContainsFunc(w.Unread, func(text string) bool { return strings.HasPrefix(text, "reports on schedules: ") }) {
			t.Errorf("%+v", w)
		}
	})
}

func TestWhyAnswersWithinTheLimitsOfTheCaller(t *testing.T) {
	atSite(t, func(t *testing.T, s *site) {
		s.master("m1")
		s.peels("web-01", "db-01")
		s.give("web-01", hourly)
		s.give("db-01", hourly)
		kim := s.limited("kim", grants.Limits{Functions: []string{"test.*"}})
		lee, bob := s.limited("lee", grants.Limits{Target: "web-*"}), s.people("bob")
		creds, err := s.bus.Keys.Creds(grants.RoleAuditor, "eve", 0)
		if err != nil {
			t.Fatal(err)
		}
		eve, err := api.Connect(api.ClientOptions{URL: s.bus.URL(), Creds: creds, Connect: []nats.Option{nats.InProcessServer(s.bus)}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(eve.Close)
		for _, c := range []struct {
			who         *api.Client
			peel        target.PeelID
			entry, time string
			code        api.Code
			text        string
		}{
			{lee, "web-01", "backup", "", "", ""},
			{eve, "db-01", "backup", "", "", ""},
			{kim, "db-01", "backup", "", "", ""}, // whose limits are only about functions
			{lee, "db-01", "backup", "", api.CodeForbidden, "cannot explain a fire of db-01: "},
			{lee, "db-02", "backup", "", api.CodeForbidden, "cannot explain a fire of db-02: "},
			{bob, "db-02", "backup", "", api.CodeNotFound, `no such peel: "db-02" has never told its facts; did you mean "db-01"?`},
			{bob, "web-01", "bakcup", "", api.CodeNotFound, `no such entry: neither the settings nor the reports of web-01 have a schedule entry "bakcup"; did you mean "backup"?`},
			{bob, "web-01", "backup", "9999-01-01T00:00", api.CodeInvalid, "it has not come yet; zester schedule next web-01 backup lists what comes"},
			{bob, "web-01", "backup", "1999-01-01T00:00", api.CodeInvalid, "masters know what became of fires for 35 days"},
			{bob, "web-01", "backup", "noon", api.CodeInvalid, `cannot use the time "noon": write it like `},
			{bob, "web 01", "backup", "", api.CodeInvalid, `peel ID "web 01" has ' ' at 4`},
			{bob, "web-01", "", "", api.CodeInvalid, "it needs an entry, and entry and time have at most 256 bytes"},
			{bob, "web-01", strings.Repeat("x", 257), "", api.CodeInvalid, "it needs an entry"},
		} {
			_, err := api.CoverageExplain.Ask(t.Context(), c.who, api.WhyRequest{Peel: c.peel, Entry: c.entry, Time: c.time})
			if code := api.CodeOf(err); code != c.code || c.text != "" && !strings.Contains(err.Error(), c.text) {
				t.Errorf("%s asks about %.20s on %s at %q: %s, %v", c.who.User(), c.entry, c.peel, c.time, code, err)
			}
		}
	})
}
