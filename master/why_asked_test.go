package master_test

import (
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	ledgerpkg "github.com/seed-c01c3da5/zester/peel/ledger"
)

// A report goes back 48 h, or less if it was cut. The peel keeps its fires for seven days, and is asked for them.
func TestWhyAsksThePeelForAFireThatItsReportLacks(t *testing.T) {
	if testing.Short() {
		t.Skip("an hour of a bus")
	}
	atSite(t, func(t *testing.T, s *site) {
		s.master("m1")
		peel := s.peels("web-01")[0]
		s.give("web-01", map[string]any{"schedule": map[string]any{"backup": map[string]any{
			"module": "test.ping", "cron": "30 * * * *", "timezone": "UTC", "return_job": false,
		}}})
		due := time.Now().Truncate(time.Hour).Add(30 * time.Minute)
		time.Sleep(40 * time.Minute)
		s.told("web-01", ledgerpkg.EntryReport{Name: "backup", State: "active", From: time.Now()})
		bob := s.people("bob")
		ask := func() *api.WhyAnswer {
			t.Helper()
			w, err := api.CoverageExplain.Ask(t.Context(), bob, api.WhyRequest{Peel: "web-01", Entry: "backup", Time: due.Format(time.RFC3339)})
			if err != nil {
				t.Fatal(err)
			}
			return w
		}

		w := ask()
		if w.Verdict != api.WhyRan || w.Facts[0].Text != "the list of its fires: ran" || !strings.HasPrefix(w.Facts[0].Source, "schedule.fires on web-01, job ") || len(w.Unread) != 1 {
			t.Errorf("%+v", w)
		}
		log, err := audit.OpenLog(s.js, nil).List(t.Context(), audit.Query{Action: audit.ActionDispatch})
		if err != nil || len(log.Entries) != 1 || log.Entries[0].User != "bob" || log.Entries[0].Function != "schedule.fires" {
			t.Errorf("audit log: %+v, %v", log, err)
		}

		peel.kill()
		time.Sleep(5 * time.Minute)
		if w := ask(); len(w.Unread) != 2 || !strings.HasPrefix(w.Unread[0], "fires of 7 days that the peel keeps: it is away, and was last heard at ") {
			t.Errorf("%+v", w)
		}
	})
}

// A run that succeeds is not reported at once. The peel knows of it.
func TestWhyKnowsOfARunThatNoReportHasYet(t *testing.T) {
	if testing.Short() {
		t.Skip("an hour of a bus")
	}
	atSite(t, func(t *testing.T, s *site) {
		s.master("m1")
		s.peels("web-01")
		s.give("web-01", map[string]any{"schedule": map[string]any{"backup": map[string]any{
			"module": "test.ping", "cron": "*/15 * * * *", "timezone": "UTC", "return_job": false,
		}}})
		bob := s.people("bob")
		for range 4 {
			due := time.Now().Truncate(15 * time.Minute).Add(15 * time.Minute)
			time.Sleep(time.Until(due) + 10*time.Second)
			w, err := api.CoverageExplain.Ask(t.Context(), bob, api.WhyRequest{Peel: "web-01", Entry: "backup"})
			if err != nil || w.Verdict != api.WhyRan || !w.Nominal.Equal(due) {
				t.Errorf("10 s after %v: %+v, %v", due, w, err)
			}
		}
	})
}
