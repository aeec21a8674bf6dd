package master_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

// A report goes back 48 h, and the entry makes no jobs. Masters know the commit that its failures follow.
func TestWhyKnowsTheFiresOfTwoDaysAndTheCommitThatAFailureFollowed(t *testing.T) {
	if testing.Short() {
		t.Skip("hours of a bus")
	}
	atSite(t, func(t *testing.T, s *site) {
		s.master("m1")
		s.peels("web-01")
		began := time.Now().Truncate(time.Hour)
		commit := func(letter, function string, revision uint64) {
			raw, err := canon.Marshal(map[string]any{"schedule": map[string]any{"backup": map[string]any{"module": function, "cron": "30 * * * *", "timezone": "UTC"}}})
			if err != nil {
				t.Fatal(err)
			}
			hash := settings.Commit(strings.Repeat(letter, 40))
			doc := &settings.Document{
				V: settings.OpenVersion, Peel: "web-01", Generation: uint64(time.Now().UnixMilli()), Commit: hash, Digest: settings.DigestOf(raw), Settings: raw,
				Origins: map[string]settings.Origin{"backup": {Commit: hash, Author: "Ada <ada@example.com>", File: "settings/web.yaml", Line: 3}},
			}
			if _, err := settings.NewStore(s.js).Publish(t.Context(), slices.Values([]settings.Write{{Document: doc, Revision: revision}})); err != nil {
				t.Fatal(err)
			}
		}
		commit("a", "test.ping", 0)
		time.Sleep(14*time.Hour + 10*time.Minute)
		ask := func(c *api.Client, at time.Time) *api.WhyAnswer {
			t.Helper()
			w, err := api.CoverageExplain.Ask(t.Context(), c, api.WhyRequest{Peel: "web-01", Entry: "backup", Time: at.UTC().Format(time.RFC3339)})
			if err != nil {
				t.Fatal(err)
			}
			return w
		}
		about := func(w *api.WhyAnswer, name string) (text string) {
			for _, f := range w.Facts {
				if f.About == name {
					text = f.Text
				}
			}
			return text
		}
		bob := s.people("bob")
		old := ask(bob, began.Add(30*time.Minute))
		if old.Verdict != api.WhyRan || about(old, "fire") != "the list of its fires: ran" {
			t.Errorf("%+v", old)
		}
		if text := about(old, "cause"); text != "" {
			t.Errorf("a run without a problem has the cause %q", text)
		}

		_, revision, err := settings.NewStore(s.js).Get(t.Context(), "web-01")
		if err != nil {
			t.Fatal(err)
		}
		commit("b", "test.fail", revision)
		time.Sleep(30 * time.Minute)
		failed := ask(bob, began.Add(14*time.Hour+30*time.Minute))
		if failed.Verdict != api.WhyFailed || !strings.HasSuffix(failed.Text, " Possibly commit bbbbbbbb by Ada: it reached 1 of 1 peel at most 2h before.") || !strings.Contains(about(failed, "cause"), "; on web-01 the problem began at ") {
			t.Errorf("%+v", failed)
		}
		limited := ask(s.limited("lee", grants.Limits{Target: "web-*"}), began.Add(14*time.Hour+30*time.Minute))
		if limited.Verdict != api.WhyFailed || about(limited, "cause") != "" {
			t.Errorf("a caller with limits is told what all peels did: %+v", limited)
		}
	})
}
