package rest_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// give publishes settings for a peel.
func (s *system) give(id target.PeelID, values map[string]any) {
	s.t.Helper()
	raw, err := canon.Marshal(values)
	if err != nil {
		s.t.Fatal(err)
	}
	store := settings.NewStore(s.js)
	_, revision, err := store.Get(s.t.Context(), id)
	if err != nil {
		s.t.Fatal(err)
	}
	doc := &settings.Document{V: settings.OpenVersion, Peel: id, Generation: uint64(time.Now().UnixMilli()), Digest: settings.DigestOf(raw), Settings: raw, Commit: "1f3ac0129f3ac0129f3ac0129f3ac0129f3ac012"}
	if _, err := store.Publish(s.t.Context(), slices.Values([]settings.Write{{Document: doc, Revision: revision}})); err != nil {
		s.t.Fatal(err)
	}
}

func TestWhyOverHTTPProvesWhatBecameOfAFire(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		reader := s.reader()
		s.peel("web-01", nil, nil)
		s.give("web-01", map[string]any{"schedule": map[string]any{"backup": map[string]any{"module": "test.ping", "cron": "30 2 * * *", "timezone": "UTC"}}})
		time.Sleep(190 * time.Minute)
		a := s.ask(reader, "GET", "/api/v1/coverage/backup/why?peel=web-01&time=03:00", nil)
		var w api.WhyAnswer
		if err := json.Unmarshal(a.body, &w); err != nil || a.status != 200 {
			t.Fatalf("%d, %s, %v", a.status, a.body, err)
		}
		if w.Entry != "backup" || w.Verdict != api.WhyNone || w.Reason != "not_due" || !strings.Contains(w.Text, "is due every day at 02:30") {
			t.Errorf("%+v", w)
		}
		if !slices.ContainsFunc(w.Facts, func(f api.WhyFact) bool { return f.About == "timing" && f.Source == "document of commit 1f3ac012" }) {
			t.Errorf("no fact proves the timing: %+v", w.Facts)
		}
		refused(t, s.ask(reader, "GET", "/api/v1/coverage/backup/why", nil), 400, "peel")
		refused(t, s.ask(reader, "GET", "/api/v1/coverage/back/why?peel=web-01", nil), 404, "no such entry")
	})
}
