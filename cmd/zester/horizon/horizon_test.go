package horizon_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/cmd/zester/horizon"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/outbox"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

var cut = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

func set(t *testing.T, text string) schedule.Set {
	t.Helper()
	n, err := strictyaml.Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	s, err := schedule.ParseSet(n)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// look looks at peels that have the settings of the digest full, unless they say otherwise.
func look(t *testing.T, entries string, change func(*horizon.Fleet), peels ...status.Peel) *horizon.Horizon {
	t.Helper()
	f := horizon.Fleet{Cut: cut, Zone: time.UTC, Peels: peels, Schedules: map[settings.Digest]schedule.Set{"full": set(t, entries)}}
	if change != nil {
		change(&f)
	}
	h, err := horizon.Look(f)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func applied() status.Peel {
	return status.Peel{Peel: "web-01", State: status.Applied, Wanted: "full", Digest: "full", Commit: "9b1c8f0e2d3a4b5c", Reported: cut.Add(-time.Hour)}
}

func TestEntriesAfterTheCut(t *testing.T) {
	for _, c := range []struct {
		name, entry, stops string
		runs               int
		about              bool
		last               string
	}{
		{"on the wall clock", `{module: test.ping, cron: "0 3 * * *"}`, "", 3, false, "2026-06-04T03:00:00Z"},
		{"an interval", `{module: test.ping, interval: 6h}`, "", 12, true, "2026-06-04T12:00:00Z"},
		{"an interval since the epoch", `{module: test.ping, interval: 6h, interval_from: epoch}`, "", 12, false, "2026-06-04T12:00:00Z"},
		{"its life ends", `{module: test.ping, cron: "0 3 * * *", until: "2026-06-03T00:00:00Z"}`, "ends at 2026-06-03T00:00:00Z (until)", 1, false, "2026-06-02T03:00:00Z"},
		{"its life ends before its next fire", `{module: test.ping, cron: "0 3 * * *", until: "2026-06-05T00:00:00Z"}`, "fires last at 2026-06-04T03:00:00Z", 3, false, "2026-06-04T03:00:00Z"},
		{"its life ends later", `{module: test.ping, cron: "0 3 * * *", until: "2026-06-06T00:00:00Z"}`, "", 3, false, "2026-06-04T03:00:00Z"},
		{"it ended", `{module: test.ping, cron: "0 3 * * *", until: "2026-05-05T00:00:00Z"}`, "ends at 2026-05-05T00:00:00Z (until)", 0, false, "0001-01-01T00:00:00Z"},
		{"its last instant", `{module: test.ping, at: ["2026-06-02T09:00:00Z"]}`, "fires last at 2026-06-02T09:00:00Z", 1, false, "2026-06-02T09:00:00Z"},
		{"its instants are over", `{module: test.ping, at: ["2026-05-02T09:00:00Z"]}`, "does not fire again within a year", 0, false, "0001-01-01T00:00:00Z"},
		{"once a month", `{module: test.ping, cron: "0 3 20 * *"}`, "", 0, false, "0001-01-01T00:00:00Z"},
		{"a number of runs", `{module: test.ping, cron: "0 3 * * *", max_runs: 2}`, "ends after 2 runs in all, or fewer from now on", 2, false, "2026-06-03T03:00:00Z"},
		{"a window", `{module: test.ping, cron: "0 * * * *", only_between: "08:00-10:00"}`, "", 6, false, "2026-06-04T09:00:00Z"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := look(t, "{e: "+c.entry+"}", nil, applied())
			if len(h.Entries) != 1 || len(h.Peels) != 1 {
				t.Fatalf("%+v", h)
			}
			e := h.Entries[0]
			if e.Runs != c.runs || e.About != c.about || e.Stops != c.stops || e.Last.Format(time.RFC3339) != c.last || h.Runs != c.runs {
				t.Errorf("%+v", e)
			}
			if h.Peels[0].State != horizon.Runs {
				t.Errorf("the peel is %s: %v", h.Peels[0].State, h.Peels[0].Why)
			}
		})
	}
}

func TestPeelsAfterTheCut(t *testing.T) {
	const entries = `{a: {module: test.ping, cron: "0 3 * * *"}, s: {module: state.highstate, cron: "0 4 * * *"}, off: {module: test.ping, cron: "0 5 * * *", enabled: false}}`
	for _, c := range []struct {
		name   string
		change func(*status.Peel)
		state  horizon.State
		runs   int
		why    string
	}{
		{"all is there", func(*status.Peel) {}, horizon.Runs, 6, ""},
		{"it is away, and has everything", func(p *status.Peel) { p.Online = false }, horizon.Runs, 6, ""},
		{"contents are missing", func(p *status.Peel) { p.MissingContents = 2 }, horizon.Partly, 3, "s runs states, and files that they write have not arrived: 2"},
		{"an entry is paused", func(p *status.Peel) { p.PausedErrors = []string{"a"} }, horizon.Partly, 3, "a is paused after failures, until a person resumes it"},
		{"it is behind", func(p *status.Peel) { p.Digest, p.Since = "old", cut.Add(-time.Hour) }, horizon.Older, 6, "it runs 9b1c8f0e, newer settings wait since 2026-06-01T11:00:00Z"},
		{"it is behind, and an entry is paused", func(p *status.Peel) { p.Digest, p.PausedErrors = "old", []string{"a"} }, horizon.Older, 3, "it runs 9b1c8f0e; a is paused after failures, until a person resumes it"},
		{"it could not apply them", func(p *status.Peel) {
			p.Digest, p.State, p.Errors = "old", status.Failed, []string{"no such zone"}
		}, horizon.Older, 6, "it runs 9b1c8f0e; no such zone"},
		{"it has only just joined", func(p *status.Peel) { p.Digest, p.Commit = "", "" }, horizon.Older, 6, "it runs no settings"},
		{"it never reported", func(p *status.Peel) { p.Reported = time.Time{} }, horizon.Nothing, 0, "it has never reported that settings reached it"},
		{"its settings have no entries", func(p *status.Peel) { p.Wanted, p.Digest = "other", "other" }, horizon.Nothing, 0, "its settings have no entries"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := applied()
			c.change(&p)
			h := look(t, entries, nil, p)
			if got := h.Peels[0]; got.State != c.state || got.Runs != c.runs || strings.Join(got.Why, "; ") != c.why || h.Counts[c.state] != 1 || h.Runs != c.runs {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestEntriesAreCountedOnceForEachVariant(t *testing.T) {
	other := applied()
	other.Peel, other.Wanted, other.Digest = "db-01", "other", "other"
	third := applied()
	third.Peel = "web-02"
	h := look(t, `{a: {module: test.ping, cron: "0 3 * * *"}}`, func(f *horizon.Fleet) {
		f.Schedules["other"] = set(t, `{a: {module: test.ping, cron: "0 */12 * * *"}, b: {module: test.ping, cron: "0 3 * * *"}}`)
	}, applied(), third, other)
	var got []string
	for _, e := range h.Entries {
		got = append(got, strings.Repeat("*", e.Peels)+e.Entry+strings.Repeat(".", e.Runs))
	}
	if want := []string{"**a...", "*a......", "*b..."}; !slices.Equal(got, want) || h.Runs != 15 || h.Peels[0].Peel != "db-01" {
		t.Errorf("%q, want %q; %d runs", got, want, h.Runs)
	}
}

func TestWhichCredentialEndsFirst(t *testing.T) {
	in := func(h int) time.Time { return cut.Add(time.Duration(h) * time.Hour) }
	h := look(t, `{a: {module: test.ping, cron: "0 3 * * *"}}`, func(f *horizon.Fleet) {
		f.Credentials = []credential.Held{
			{Role: grants.RoleOperator, Name: "ada", Expires: in(50)},
			{Role: grants.RolePeel, Name: "web-01", Expires: in(30), Renews: true},
			{Role: grants.RolePeel, Name: "db-01", Expires: in(1)}, // which is not looked at
			{Role: grants.RoleSite, Name: "berlin", Expires: in(20)},
			{Role: grants.RoleMaster, Name: "m1"},
		}
		f.Tokens = []credential.Token{
			{Name: "ci", Expires: in(40)},
			{Name: "revoked", Expires: in(2), Revoked: in(-1)},
			{Name: "over", Expires: in(-2)},
			{Name: "endless"},
		}
	}, applied())
	var got []string
	for _, c := range h.Credentials {
		got = append(got, c.Kind+" "+c.Name+": "+c.Then)
	}
	want := []string{
		"site berlin: its peels stay away until zester auth issue makes another",
		"peel web-01: its schedule goes on; it gets another by itself once it reaches a master",
		"token ci: masters refuse it over HTTP",
		"operator ada: the bus refuses it until another is made",
	}
	if !slices.Equal(got, want) || h.Endless != 2 || !h.Peels[0].Credential.Equal(in(30)) {
		t.Errorf("%q\nwant %q; %d never end; that of the peel at %s", got, want, h.Endless, h.Peels[0].Credential)
	}
}

func TestWhatGoesStale(t *testing.T) {
	h := look(t, `{a: {module: test.ping, interval: 20s, return_job: true}}`, func(f *horizon.Fleet) {
		f.Sync = &status.Sync{LastGood: status.Revision{Commit: "9b1c8f0e2d3a4b5c"}, Rollout: &status.Rollout{Commit: "4f2a9c1d7e0b", Wave: 2, Waves: 3}}
	}, applied())
	texts := map[string]string{}
	for _, s := range h.Stale {
		texts[s.What] = s.Text
	}
	for what, want := range map[string]string{
		"settings": "no commit after 9b1c8f0e reaches a peel; the rollout of 4f2a9c1d stays at wave 2 of 3",
		"results":  "one peel reports 12960 runs and keeps the newest 10000 of them: it drops older ones from about 56 h on",
		"coverage": "masters do not know what happened to fires until the peel reports; peels keep the list of fires for 48 h",
	} {
		if texts[what] != want {
			t.Errorf("%s: %s, want %s", what, texts[what], want)
		}
	}
	few := look(t, `{a: {module: test.ping, interval: 20s}}`, nil, applied())
	if few.Stale[1].What != "results" || few.Stale[1].Text != "peels keep the results of up to 10000 reported runs each and send them later" {
		t.Errorf("%+v", few.Stale)
	}
	if outbox.MaxItems != 10_000 || ledger.Kept != 48*time.Hour {
		t.Errorf("peels keep %d messages and fires of %v, which the texts have otherwise", outbox.MaxItems, ledger.Kept)
	}
}

func TestAZoneThatThisHostLacksIsAnError(t *testing.T) {
	e := schedule.New("a")
	e.Module, e.Clock.Interval.Duration, e.Clock.Zone = "test.ping", time.Hour, "Mars/Base"
	_, err := horizon.Look(horizon.Fleet{Cut: cut, Peels: []status.Peel{applied()}, Schedules: map[settings.Digest]schedule.Set{"full": {"a": e}}})
	if err == nil || !strings.HasPrefix(err.Error(), "cannot compute the fires of a on web-01: ") {
		t.Error(err)
	}
}
