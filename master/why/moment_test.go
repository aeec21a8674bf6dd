package why

import (
	"testing"
	"time"
)

func london(t testing.TB) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation("Europe/London")
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

func TestTimesAsPeopleWriteThem(t *testing.T) {
	zone, now := london(t), time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		text string
		span time.Duration
		want []string // instants
		gap  string
	}{
		{"2026-06-01T09:00", time.Minute, []string{"2026-06-01T08:00:00Z"}, ""},
		{"2026-06-01 09:00:30", time.Second, []string{"2026-06-01T08:00:30Z"}, ""},
		{"2026-06-01T09:00:00+05:30", time.Minute, []string{"2026-06-01T03:30:00Z"}, ""},
		{"2026-06-01T09:00:01Z", time.Second, []string{"2026-06-01T09:00:01Z"}, ""},
		{"07:59", time.Minute, []string{"2026-11-23T07:59:00Z"}, ""},
		{"08:01", time.Minute, []string{"2026-11-22T08:01:00Z"}, ""}, // yesterday: today's has not come
		{"2026-10-25T01:30", time.Minute, []string{"2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"}, ""},
		{"2026-03-29T01:30", time.Minute, nil, "2026-03-29T01:00:00Z"},
	} {
		m, err := ParseMoment(c.text, zone, now)
		if err != nil || m.Span != c.span || len(m.At) != len(c.want) {
			t.Errorf("%s: %+v, %v", c.text, m, err)
			continue
		}
		for i, at := range m.At {
			if got := at.UTC().Format(time.RFC3339); got != c.want[i] {
				t.Errorf("%s: %s, want %s", c.text, got, c.want[i])
			}
		}
		if c.gap != "" && m.First().UTC().Format(time.RFC3339) != c.gap {
			t.Errorf("%s: the first instant after the gap is %s, want %s", c.text, m.First(), c.gap)
		}
	}
	for _, text := range []string{"", "noon", "25:00", "2026-13-01T00:00", "2026-06-01"} {
		if m, err := ParseMoment(text, zone, now); err == nil {
			t.Errorf("%q is read as %+v", text, m)
		}
	}
}

// Each instant of a moment shows its wall time, and there are two at most.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"2026-06-01T09:00", "2026-10-25T01:30", "2026-03-29T01:30:01", "02:30", "2026-06-01T09:00:00+05:30"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := ParseMoment(text, london(t), time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC))
		if err != nil {
			return
		}
		if len(m.At) > 2 || len(m.At) == 0 && m.Gap == (Gap{}) || m.Span <= 0 {
			t.Fatalf("%q: %+v", text, m)
		}
		for _, at := range m.At {
			if got := at.Format(WallForm); got != m.Wall {
				t.Errorf("%q: the clocks show %s at %s, want %s", text, got, at, m.Wall)
			}
		}
	})
}
