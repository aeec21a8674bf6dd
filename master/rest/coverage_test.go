package rest_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// schedule publishes settings of a peel with an entry that fires every five minutes.
func (s *system) schedule(id target.PeelID, entry string) *settings.Document {
	s.t.Helper()
	raw, err := canon.Marshal(map[string]any{"schedule": map[string]any{entry: map[string]any{"module": "test.ping", "cron": "*/5 * * * *", "timezone": "UTC"}}})
	if err != nil {
		s.t.Fatal(err)
	}
	d := settings.Document{
		V: settings.OpenVersion, Peel: id, Commit: settings.Commit(strings.Repeat("a", 40)), Generation: 1, Digest: settings.DigestOf(raw), Settings: raw,
		Origins: map[string]settings.Origin{entry: {Commit: settings.Commit(strings.Repeat("a", 40)), Author: "Ada <ada@example.com>"}},
	}
	data, err := d.Encode()
	if err == nil {
		_, err = s.js.Publish(s.t.Context(), wire.SettingsKey(id.Wire()), data)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	synctest.Wait()
	return &d
}

func TestCoverageIsPagedByEntryAndByPeel(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		reader := s.reader()
		s.schedule("web-01", "backup")
		s.schedule("web-02", "backup")
		s.schedule("db-01", "vacuum")
		time.Sleep(16 * time.Minute) // of which nobody reports
		for path, rows := range map[string][]string{
			"/api/v1/coverage":                      {"backup", "vacuum"},
			"/api/v1/coverage?entry=b*":             {"backup"},
			"/api/v1/coverage?cursor=backup":        {"vacuum"},
			"/api/v1/coverage?by=peel":              {"db-01", "web-01", "web-02"},
			"/api/v1/coverage/backup":               {"backup web-01", "backup web-02"},
			"/api/v1/coverage/backup?cursor=web-01": {"backup web-02"},
		} {
			c := want[api.Coverage](s.t, s.ask(reader, "GET", path, nil), 200)
			var got []string
			for _, r := range c.Rows {
				got = append(got, strings.TrimSpace(r.Entry+" "+string(r.Peel)))
				if r.Unknown == 0 || r.Expected != r.Unknown {
					t.Errorf("%s: the row %v", path, r)
				}
			}
			if strings.Join(got, ", ") != strings.Join(rows, ", ") || c.Master != "m1" || c.Total.Unknown == 0 {
				t.Errorf("%s: rows %q of %s, total %v; want %q", path, got, c.Master, c.Total, rows)
			}
		}
	})
}

func TestTheHoursAndTheProblemsOfTheFleet(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		reader := s.reader()
		for _, id := range []target.PeelID{"db-01", "mute", "web-01"} {
			s.peel(id, target.Facts{"os": "debian"}, nil)
		}
		s.schedule("web-01", "backup")
		s.schedule("db-01", "vacuum")
		time.Sleep(16 * time.Minute) // of which nobody reports

		all := want[api.Timeline](s.t, s.ask(reader, "GET", "/api/v1/timeline/hours", nil), 200)
		last := all.Hours[len(all.Hours)-1]
		if len(all.Hours) != 25 || last.Expected == 0 || len(all.Ahead) != 12 || all.Ahead[0].Expected != 24 {
			t.Errorf("%+v", all)
		}
		path := "/api/v1/timeline/hours?entry=back*&since=" + last.At.Format(time.RFC3339)
		one := want[api.Timeline](s.t, s.ask(reader, "GET", path, nil), 200)
		if len(one.Hours) != 1 || one.Hours[0].Expected*2 != last.Expected || one.Ahead[0].Expected != 12 {
			t.Errorf("%+v", one)
		}
		load := want[api.Load](s.t, s.ask(reader, "GET", "/api/v1/load", nil), 200)
		if len(load.Hours) != 7*24 || load.Hours[5].Runs != 24 || load.Peels != 2 || load.Worst.Runs != 2 ||
			len(load.Worst.Entries) != 2 || load.Worst.Entries[0].Entry != "backup" {
			t.Errorf("%+v", load)
		}
		load = want[api.Load](s.t, s.ask(reader, "GET", "/api/v1/load?for=2h&entry=vac*&target=db-*", nil), 200)
		if len(load.Hours) != 2 || load.Hours[1].Runs != 12 || load.Peels != 1 || load.Worst.Runs != 1 {
			t.Errorf("%+v", load)
		}
		refused(t, s.ask(reader, "GET", "/api/v1/load?for=8d", nil), 400, "want 1h to 7d")
		now := want[api.Now](s.t, s.ask(reader, "GET", "/api/v1/now", nil), 200)
		if now.State != api.FleetLate || now.Doubt == "" || len(now.Problems) != 1 || now.Fleet.Reporting != 0 ||
			now.Day.Value == nil || now.Sync.Error == "" {
			t.Errorf("%+v", now)
		}
		waiting := want[api.Approvals](s.t, s.ask(reader, "GET", "/api/v1/approvals", nil), 200)
		if len(waiting.Waiting) != 0 || len(waiting.Missing) == 0 {
			t.Errorf("%+v", waiting)
		}
		wrong := want[api.Problems](s.t, s.ask(reader, "GET", "/api/v1/problems", nil), 200)
		if len(wrong.Problems) != 1 || wrong.Problems[0].Class != verdict.NotReporting || wrong.Problems[0].Peels != 2 ||
			wrong.Problems[0].Finding == nil || wrong.By[verdict.NotReporting] != 2 || wrong.Reporting != 0 {
			t.Errorf("%+v", wrong)
		}
		want[object](t, s.ask(reader, "GET", "/api/v1/peels?class=faild", nil), 400)
		for query, ids := range map[string][]target.PeelID{
			"":                                  {"db-01", "mute", "web-01"},
			"?class=not_reporting":              {"db-01", "web-01"},
			"?class=not_reporting&target=web-*": {"web-01"},
			"?class=not_reporting&cursor=db-01": {"web-01"},
			"?class=failed":                     nil,
		} {
			page := want[api.PeelsPage](t, s.ask(reader, "GET", "/api/v1/peels"+query, nil), 200)
			var got []target.PeelID
			for _, p := range page.Peels {
				got = append(got, p.ID)
				if (p.Worst != nil) != (p.ID != "mute") || p.Worst != nil && p.Worst.Class != verdict.NotReporting {
					t.Errorf("%s: the worst problem of %s: %+v", query, p.ID, p.Worst)
				}
			}
			if !slices.Equal(got, ids) {
				t.Errorf("peels%s: %q, want %q", query, got, ids)
			}
			if len(ids) > 0 && !strings.Contains(page.Lacks, "no reconciler replies") {
				t.Errorf("peels%s does not say why it lacks what they run: %q", query, page.Lacks)
			}
		}
	})
}

// An entry that comes later is not in a forecast that is kept, however that is asked for.
func TestAForecastIsKeptForAMinute(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		reader := s.reader()
		for id, entry := range map[target.PeelID]string{"db-01": "vacuum", "web-01": "backup"} {
			s.peel(id, target.Facts{"os": "debian"}, nil)
			s.schedule(id, entry)
		}
		s.peel("mute", nil, nil)
		want[api.Load](s.t, s.ask(reader, "GET", "/api/v1/load", nil), 200)
		s.schedule("mute", "scrub")
		for query, runs := range map[string]float64{"?entry=*": 24, "?for=1h": 24, "?for=24h&entry=*": 24, "?entry=s*": 12} {
			load := want[api.Load](s.t, s.ask(reader, "GET", "/api/v1/load"+query, nil), 200)
			if load.Hours[0].Runs != runs {
				t.Errorf("load%s: %v runs in the first hour, want %v", query, load.Hours[0].Runs, runs)
			}
		}
		time.Sleep(time.Minute)
		load := want[api.Load](s.t, s.ask(reader, "GET", "/api/v1/load?for=1h", nil), 200)
		if len(load.Hours) != 1 || load.Hours[0].Runs != 36 || load.Worst.Runs != 3 || len(load.Worst.Entries) != 3 {
			t.Errorf("a minute later: %+v", load)
		}
	})
}

// Rows of entries that fail name the commit that the failures followed, for those who may see all peels.
func TestCoverageNamesTheCommitThatAFailureFollowed(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		reader := s.reader()
		time.Sleep(time.Minute)
		d := s.schedule("web-01", "backup")
		s.schedule("db-01", "vacuum")
		nc := s.peel("web-01", nil, nil)
		time.Sleep(11 * time.Minute)
		at := time.Now().Truncate(5 * time.Minute)
		began := at.Add(-time.Hour)
		e := ledger.EntryReport{
			State: "active", Since: began, From: began, Marks: []ledger.Mark{{Kind: ledger.Begins, Era: 1, At: began}},
			Runs: ledger.AppendRuns(nil, []ledger.Run{{Fire: ledger.Fire{Era: 1, Nominal: at, Outcome: ledger.Failed}, Count: 1}}),
			Notes: []ledger.Note{{
				Era: 1, Nominal: at, Outcome: ledger.Failed, Started: at, Took: time.Second, Error: "exit status 1",
				Job: wire.NewJID(), Commit: string(d.Commit),
			}},
		}
		e.Started, e.Ended, e.Error, e.InRow = at, at.Add(time.Second), "exit status 1", 1
		r := ledger.Report{Peel: "web-01", Digest: string(d.Digest), Time: time.Now(), Started: began, Entries: []ledger.EntryReport{e}}
		r.Marks = r.Marks.Add(ledger.Mark{Kind: ledger.Starts, At: began})
		data, err := ledger.Encode(&r)
		if err == nil {
			err = nc.Publish(wire.ScheduleStateOf("web-01"), data)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := nc.Publish(wire.Heartbeat("web-01"), nil); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		c := want[api.Coverage](s.t, s.ask(reader, "GET", "/api/v1/coverage", nil), 200)
		if len(c.Rows) != 2 || c.Rows[0].Cause != "possibly commit aaaaaaaa by Ada: it reached 1 of 1 peel at most 2h before" || c.Rows[1].Cause != "" {
			t.Errorf("%+v", c.Rows)
		}
		if c := want[api.Coverage](s.t, s.ask(reader, "GET", "/api/v1/coverage?by=peel", nil), 200); c.Rows[1].Failed != 1 || c.Rows[1].Cause != "" {
			t.Errorf("by peel: %+v", c.Rows)
		}
	})
}

func TestATableThatIsBehindGivesNoVerdicts(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		admin := s.admin()
		if err := s.js.DeleteStream(t.Context(), "schedule-state"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		a := s.ask(admin, "GET", "/api/v1/coverage", nil)
		if a.status != 503 || !strings.Contains(string(a.body), "no verdicts are given: this master has not read all reports of peels since 20") {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
}
