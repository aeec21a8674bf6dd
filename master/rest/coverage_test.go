package rest_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// schedule publishes settings of a peel with an entry that fires every five minutes.
func (s *system) schedule(id target.PeelID, entry string) {
	s.t.Helper()
	raw, err := canon.Marshal(map[string]any{"schedule": map[string]any{entry: map[string]any{"module": "test.ping", "cron": "*/5 * * * *", "timezone": "UTC"}}})
	if err != nil {
		s.t.Fatal(err)
	}
	d := settings.Document{
		V: settings.OpenVersion, Peel: id, Commit: settings.Commit(strings.Repeat("a", 40)), Generation: 1, Digest: settings.DigestOf(raw), Settings: raw,
	}
	data, err := d.Encode()
	if err == nil {
		_, err = s.js.Publish(s.t.Context(), wire.SettingsKey(id.Wire()), data)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	synctest.Wait()
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
