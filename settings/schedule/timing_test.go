package schedule

import (
	"slices"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/settings/schedule/window"
)

// timing reads the timing of an entry in flow style that lacks the rest.
func timing(t testing.TB, text string) Timing {
	t.Helper()
	tm, err := entry(t, "{module: test.ping, "+text[1:]).Timing(time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	return tm
}

func instant(t testing.TB, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func fires(tm Timing, from, until time.Time) []time.Time {
	var out []time.Time
	for at, ok := tm.Next(from); ok && !at.After(until); at, ok = tm.Next(at) {
		out = append(out, at)
	}
	return out
}

func TestSeveralExpressionsFireAtTheEarliest(t *testing.T) {
	e := entry(t, "{module: test.ping, cron: ['0 4 * * *', '30 3 * * *', '0 4 * * *'], timezone: Asia/Tokyo}")
	tm, err := e.Timing(time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	got := fires(tm, instant(t, "2026-01-01T00:00:00+09:00"), instant(t, "2026-01-02T03:30:00+09:00"))
	want := []time.Time{instant(t, "2026-01-01T03:30:00+09:00"), instant(t, "2026-01-01T04:00:00+09:00"), instant(t, "2026-01-02T03:30:00+09:00")}
	if !slices.EqualFunc(got, want, time.Time.Equal) {
		t.Errorf("got %v", got)
	}
	if got[0].Location().String() != "Asia/Tokyo" {
		t.Errorf("in %s", got[0].Location())
	}
}

func TestTheDefaultZoneServesEntriesWithoutOne(t *testing.T) {
	tokyo, err := window.Zone("Asia/Tokyo")
	if err != nil {
		t.Fatal(err)
	}
	after := instant(t, "2026-01-01T00:00:00Z")
	for text, want := range map[string]string{
		"{module: test.ping, cron: '0 4 * * *'}":                          "2026-01-02T04:00:00+09:00",
		"{module: test.ping, cron: '0 4 * * *', timezone: Europe/London}": "2026-01-01T04:00:00Z",
	} {
		tm, err := entry(t, text).Timing(tokyo)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := tm.Next(after); !got.Equal(instant(t, want)) {
			t.Errorf("%s: got %v", text, got)
		}
	}
	tm, _ := entry(t, "{module: test.ping, cron: '0 4 * * *'}").Timing(nil)
	if got, _ := tm.Next(after); got.Location() != time.Local {
		t.Errorf("without a default: %v", got.Location())
	}
}

func TestIntervalCountsFromTheGivenTime(t *testing.T) {
	tm, err := entry(t, "{module: test.ping, interval: 90m}").Timing(nil)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	if got, ok := tm.Next(now); !ok || got != now.Add(90*time.Minute) || !tm.FollowsRuns() {
		t.Errorf("got %v %v", got, ok)
	}
}

func TestMonthlyKeepsTheDayClampedToTheLast(t *testing.T) {
	tm, err := entry(t, "{module: test.ping, interval: monthly, timezone: Europe/London}").Timing(nil)
	if err != nil {
		t.Fatal(err)
	}
	for from, want := range map[string]string{
		"2026-01-31T10:30:05Z":      "2026-02-28T10:30:05Z",
		"2028-01-31T10:30:05Z":      "2028-02-29T10:30:05Z",
		"2026-03-15T10:00:00Z":      "2026-04-15T10:00:00+01:00",
		"2026-12-31T00:00:00Z":      "2027-01-31T00:00:00Z",
		"2026-02-28T01:30:00Z":      "2026-03-28T01:30:00Z",
		"2026-05-31T00:30:00+01:00": "2026-06-30T00:30:00+01:00",
	} {
		if got, ok := tm.Next(instant(t, from)); !ok || !got.Equal(instant(t, want)) {
			t.Errorf("after %s: got %v", from, got)
		}
	}
}

func TestSplayNeverReachesTheNextCronFire(t *testing.T) {
	cronTiming := timing(t, "{cron: '0 2,3 * * *', timezone: America/New_York}")
	nominal := instant(t, "2026-01-01T02:00:00-05:00")
	if got := cronTiming.SplayBound(nominal, 15*time.Minute); got != 15*time.Minute {
		t.Errorf("a short splay: %v", got)
	}
	if got := cronTiming.SplayBound(nominal, 5*time.Hour); got != time.Hour {
		t.Errorf("a splay over the gap: %v", got)
	}
	if got := cronTiming.SplayBound(nominal, 0); got != 0 {
		t.Errorf("no splay: %v", got)
	}
	interval := timing(t, "{interval: 1h}")
	if got := interval.SplayBound(nominal, 5*time.Hour); got != 5*time.Hour {
		t.Errorf("an interval: %v", got)
	}
}
