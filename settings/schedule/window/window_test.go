package window

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/settings/schedule/zoneinfo"
)

func location(t testing.TB, name string) *time.Location {
	t.Helper()
	zone, err := zoneinfo.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

// rules reads rules from a short form: fields separated by ; of words separated by blanks.
func rules(t testing.TB, text string) Rules {
	t.Helper()
	var r Rules
	for part := range strings.SplitSeq(text, ";") {
		words := strings.Fields(part)
		for i, word := range words {
			var err error
			switch {
			case i == 0:
				continue
			case words[0] == "between":
				var h Hours
				h, err = ParseHours(word)
				r.Hours = append(r.Hours, h)
			default:
				err = map[string]*Days{"on": &r.On, "not": &r.NotOn, "blackout": &r.Blackout}[words[0]].Add(word)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	return r
}

func at(t testing.TB, text string, zone *time.Location) time.Time {
	t.Helper()
	if strings.HasSuffix(text, "Z") {
		when, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return when
	}
	when, err := time.ParseInLocation("2006-01-02T15:04", text, zone)
	if err != nil {
		t.Fatal(err)
	}
	return when
}

func TestOpenAndClosed(t *testing.T) {
	london := location(t, "Europe/London")
	for _, c := range []struct {
		rules, at string
		want      Verdict
	}{
		{"", "2026-06-01T03:00", Open},
		{"between 08:00-18:00", "2026-06-01T07:59", Outside},
		{"between 08:00-18:00", "2026-06-01T08:00", Open},
		{"between 08:00-18:00", "2026-06-01T17:59", Open},
		{"between 08:00-18:00", "2026-06-01T18:00", Outside},
		{"between 18:00-24:00", "2026-06-01T23:59", Open},
		{"between 18:00-24:00", "2026-06-01T00:00", Outside},
		{"between 08:00-09:00 17:00-18:00", "2026-06-01T17:30", Open},
		{"between 22:00-06:00", "2026-06-01T05:59", Open},
		{"between 22:00-06:00", "2026-06-01T06:00", Outside},
		{"between 22:00-06:00", "2026-06-01T22:00", Open},
		{"between 22:00-06:00; not sat", "2026-06-06T05:59", Open},    // Saturday, since Friday
		{"between 22:00-06:00; not sat", "2026-06-06T22:00", Outside}, // Saturday
		{"between 22:00-06:00; not sat", "2026-06-07T05:59", Outside}, // Sunday, since Saturday
		{"between 22:00-06:00; on fri", "2026-06-06T05:59", Open},
		{"on mon-fri", "2026-06-05T12:00", Open},
		{"on mon-fri", "2026-06-06T12:00", Outside},
		{"on sat-mon", "2026-06-07T12:00", Open},
		{"on 7", "2026-06-07T12:00", Open},
		{"on 2026-06-07", "2026-06-07T23:59", Open},
		{"on 2026-06-07", "2026-06-08T00:00", Outside},
		{"not 2026-12-24/2027-01-06", "2027-01-06T12:00", Outside},
		{"not 2026-12-24/2027-01-06", "2027-01-07T00:00", Open},
		{"blackout 2026-12-25", "2026-12-25T12:00", Blackout},
		{"blackout 2026-12-25; between 22:00-06:00", "2026-12-25T05:00", Blackout}, // though it opened the day before
		{"blackout 2026-06-01T10:00:00Z/2026-06-01T12:00:00Z", "2026-06-01T11:00", Blackout},
		{"blackout 2026-06-01T10:00:00Z/2026-06-01T12:00:00Z", "2026-06-01T13:00", Open},
		{"between 01:00-02:00", "2026-10-25T00:30:00Z", Open}, // the first 01:30
		{"between 01:00-02:00", "2026-10-25T01:30:00Z", Open}, // the second
		{"between 01:00-02:00", "2026-03-29T01:00:00Z", Outside},
	} {
		if got := rules(t, c.rules).At(at(t, c.at, london), london); got != c.want {
			t.Errorf("%q at %s: %q, want %q", c.rules, c.at, got, c.want)
		}
	}
}

func TestTheLineThatClosesRulesIsNamed(t *testing.T) {
	london := location(t, "Europe/London")
	for _, c := range []struct{ rules, at, want string }{
		{"", "2026-06-01T03:00", ""},
		{"between 08:00-18:00", "2026-06-01T08:00", ""},
		{"between 08:00-09:00 17:00-18:00", "2026-06-01T07:59", "only in 08:00-09:00 and 17:00-18:00"},
		{"between 22:00-06:00; not sat", "2026-06-06T22:00", "not on Saturday"},
		{"between 22:00-06:00; not sat", "2026-06-07T05:59", "only in 22:00-06:00"}, // Sunday, since Saturday
		{"on mon-fri", "2026-06-06T12:00", "only on Monday to Friday"},
		{"on mon-fri; between 08:00-18:00", "2026-06-05T07:00", "only in 08:00-18:00"},
		{"not 2026-06-01 2026-12-24/2027-01-06", "2027-01-06T12:00", "not on 2026-12-24 to 2027-01-06"},
		{"blackout sun 2026-12-25", "2026-12-25T12:00", "blackout 2026-12-25"},
		{"blackout sun 2026-12-25", "2026-12-27T12:00", "blackout Sunday"},
		{"blackout 2026-06-01T10:00:00Z/2026-06-01T12:00:00Z", "2026-06-01T11:00", "blackout 2026-06-01T10:00:00Z to 2026-06-01T12:00:00Z"},
	} {
		if got := rules(t, c.rules).ClosedBy(at(t, c.at, london), london); got != c.want {
			t.Errorf("%q at %s: %q, want %q", c.rules, c.at, got, c.want)
		}
	}
}

func TestOpening(t *testing.T) {
	for _, c := range []struct{ rules, zone, from, want string }{
		{"", "UTC", "2026-06-01T03:00", "2026-06-01T03:00"},
		{"between 08:00-18:00", "Europe/London", "2026-06-01T03:00", "2026-06-01T08:00"},
		{"between 08:00-18:00", "Europe/London", "2026-06-01T18:00", "2026-06-02T08:00"},
		{"between 22:00-06:00; not sat", "Europe/London", "2026-06-06T06:00", "2026-06-07T22:00"},
		{"between 22:00-06:00; on sat", "Europe/London", "2026-06-03T06:00", "2026-06-06T22:00"},
		{"on sat", "Europe/London", "2026-06-03T06:00", "2026-06-06T00:00"},
		{"blackout 2026-12-24/2027-01-06", "Europe/London", "2026-12-25T12:00", "2027-01-07T00:00"},
		{"blackout 2026-06-01T10:00:00Z/2026-06-01T12:00:00Z; between 08:00-18:00", "Europe/London", "2026-06-01T11:30", "2026-06-01T13:00"},
		{"blackout 2026-06-01T10:00:00Z/2026-06-01T20:00:00Z; between 08:00-18:00", "Europe/London", "2026-06-01T11:30", "2026-06-02T08:00"},
		{"between 01:00-02:00", "Europe/London", "2026-03-29T00:30:00Z", "2026-03-30T01:00"}, // jumped over
		{"between 01:30-03:00", "Europe/London", "2026-03-29T00:30:00Z", "2026-03-29T02:00"}, // its start is
		{"between 01:00-01:30", "Europe/London", "2026-10-25T00:40:00Z", "2026-10-25T01:00:00Z"},
		{"", "America/Havana", "2026-03-08T05:00:00Z", "2026-03-08T05:00:00Z"},
		{"on sun", "America/Havana", "2026-03-07T12:00", "2026-03-08T05:00:00Z"}, // a day without midnight
		{"on 2040-12-31", "America/New_York", "2026-03-07T12:00", "2040-12-31T00:00"},
		{"on 2020-12-31", "America/New_York", "2026-03-07T12:00", ""},
		{"on sat; not sat", "UTC", "2026-03-07T12:00", ""},
	} {
		zone := location(t, c.zone)
		got, ok := rules(t, c.rules).Opens(at(t, c.from, zone), zone)
		if !ok && c.want == "" {
			continue
		}
		if !ok || c.want == "" || !got.Equal(at(t, c.want, zone)) {
			t.Errorf("%q from %s: %v %v, want %s", c.rules, c.from, got, ok, c.want)
		}
	}
}

func TestOpeningAgreesWithLookingAtEachMinute(t *testing.T) {
	for _, zoneName := range []string{"America/New_York", "Europe/London", "Australia/Lord_Howe", "America/Havana", "Antarctica/Troll"} {
		zone := location(t, zoneName)
		for _, text := range []string{
			"between 02:00-03:00", "between 01:30-02:15", "between 22:00-00:30; on sat", "between 00:00-00:15; on sun", "on sun",
			"between 23:00-02:30; not sat", "blackout 2026-03-08T06:20:00Z/2026-03-08T08:40:00Z; between 01:00-04:00", "on mon; blackout sun",
		} {
			r := rules(t, text)
			for _, start := range []string{"2026-03-06T12:00", "2026-03-27T20:00", "2026-04-04T00:00", "2026-10-02T12:00", "2026-10-24T12:00", "2026-10-30T12:00"} {
				next := at(t, start, time.UTC).Add(4 * 24 * time.Hour)
				for m := next; !m.Before(at(t, start, time.UTC)); m = m.Add(-time.Minute) {
					if r.At(m, zone) == Open {
						next = m
					}
					if m.Minute()%10 != 3 || next.Sub(m) > 3*24*time.Hour || r.At(next, zone) != Open {
						continue
					}
					if got, ok := r.Opens(m, zone); !ok || !got.Equal(next) {
						t.Fatalf("%q in %s from %s: %v, want %s", text, zoneName, m, got, next)
					}
				}
			}
		}
	}
}

func TestClosing(t *testing.T) {
	for _, c := range []struct{ rules, zone, from, want string }{
		{"", "UTC", "2026-06-01T03:00", ""},
		{"between 08:00-18:00", "Europe/London", "2026-06-01T03:00", "2026-06-01T03:00"},
		{"between 08:00-18:00", "Europe/London", "2026-06-01T09:00", "2026-06-01T18:00"},
		{"between 22:00-06:00", "Europe/London", "2026-06-01T23:00", "2026-06-02T06:00"},
		{"between 22:00-06:00; on sat", "Europe/London", "2026-06-06T22:00", "2026-06-07T06:00"},
		{"on 2026-12-24/2027-01-06", "Europe/London", "2026-12-25T12:00", "2027-01-07T00:00"},
		{"on mon-sun", "UTC", "2026-06-01T03:00", ""},
		{"blackout 2026-06-01T10:00:00Z/2026-06-01T12:00:00Z", "UTC", "2026-06-01T03:00", "2026-06-01T10:00"},
		{"between 01:00-02:00", "Europe/London", "2026-10-25T00:30:00Z", "2026-10-25T02:00:00Z"}, // comes twice: open for two hours
		{"between 00:30-01:30", "Europe/London", "2026-03-29T00:45:00Z", "2026-03-29T01:00:00Z"}, // its end is jumped over
		{"between 23:00-24:00", "UTC", "2026-06-01T23:30", "2026-06-02T00:00"},
	} {
		zone := location(t, c.zone)
		got, ok := rules(t, c.rules).Closes(at(t, c.from, zone), zone)
		if !ok && c.want == "" {
			continue
		}
		if !ok || c.want == "" || !got.Equal(at(t, c.want, zone)) {
			t.Errorf("%q from %s: %v %v, want %s", c.rules, c.from, got, ok, c.want)
		}
	}
}

func TestBadWindowsAndDaysAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"17:31-17:31": `window "17:31-17:31" is empty: start and end are equal`,
		"12:30-24:01": `window "12:30-24:01": 24:01 is not a time of day`,
		"24:00-08:00": `window "24:00-08:00": only an end may be 24:00; write 00:00`,
		"00:00-24:00": `window "00:00-24:00" is the whole day; leave it out`,
		"08:60-09:00": `window "08:60-09:00": 08:60 is not a time of day`,
		"14:03":       `"14:03" is not a window; write it like 08:00-18:00`,
		"8-18":        `"8-18" is not a window; write it like 08:00-18:00`,
	} {
		if _, err := ParseHours(text); err == nil || err.Error() != want {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{
		"", "8", "mon-", "-mon", "mon-foo-bar!", "2026-13-01", "2026-02-30", "2026-01-02/2026-01-01", "2026-01-01/", "2026-01-01/mon",
		"2026-01-01T00:00:00Z", "2026-01-01T00:00:00/2026-01-02T00:00:00", "2026-01-01T00:00:00Z/2026-01-01T00:00:00Z", "a b", strings.Repeat("x", 65),
	} {
		var d Days
		if err := d.Add(text); err == nil {
			t.Errorf("%q is accepted: %+v", text, d)
		}
	}
	for _, name := range []string{"mon", "sat-mon", "Friday", "", "1a", "a/b"} {
		if err := CheckName(name); err == nil {
			t.Errorf("%q may name a calendar", name)
		}
	}
}

func TestWordsOfDays(t *testing.T) {
	r := rules(t, "on mon-fri sun 2026-12-24 2027-01-01/2027-01-02 2028-01-01/2028-01-06 holidays")
	want := []string{"Sunday to Friday", "2026-12-24", "2027-01-01 and 2027-01-02", "2028-01-01 to 2028-01-06", "calendar holidays"}
	if got := r.On.Words(); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// otherCase is a case of Alertmanager's time intervals.
type otherCase struct {
	ID, Kind, Zone string
	At             time.Time
	Expect         bool
	Window         json.RawMessage
}

// deviations are the cases that our rules answer otherwise, with the reason.
var deviations = map[string]string{
	"amwin-0016": "days from the end of a month are no window; dates are",
	"amwin-0018": "days from the end of a month are no window; dates are",
	"amwin-0020": "days from the end of a month are no window; dates are",
	"amwin-0032": "days from the end of a month are no window; dates are",
	"amwin-0029": "months are no window; cron has them",
	"amwin-0038": "a window may go over midnight",
}

func TestCasesOfAlertmanager(t *testing.T) {
	data, err := os.ReadFile("testdata/alertmanager.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []otherCase }
	if err := json.Unmarshal(data, &file); err != nil || len(file.Cases) != 15 {
		t.Fatal(len(file.Cases), err)
	}
	for _, c := range file.Cases {
		t.Run(c.ID, func(t *testing.T) {
			got, ok := c.answer(t)
			deviates := deviations[c.ID] != ""
			if (ok && got == c.Expect) == deviates {
				t.Errorf("got %v %v; deviation: %q", got, ok, deviations[c.ID])
			}
		})
	}
}

// answer gives our answer; false is a case that our windows cannot say.
func (c otherCase) answer(t *testing.T) (got, ok bool) {
	if c.Kind == "window_parse" {
		var text string
		if err := json.Unmarshal(c.Window, &text); err != nil {
			t.Fatal(err)
		}
		_, err := ParseHours(text)
		return err == nil, true
	}
	var w struct {
		Times, Weekdays, Months, Years []string
		Days                           []string `json:"days_of_month"`
	}
	if err := json.Unmarshal(c.Window, &w); err != nil {
		t.Fatal(err)
	}
	if slices.Equal(w.Days, []string{"4:6"}) && slices.Equal(w.Months, []string{"april"}) && slices.Equal(w.Years, []string{"2020"}) {
		w.Weekdays, w.Days, w.Months = []string{"2020-04-04/2020-04-06"}, nil, nil
	}
	if len(w.Days)+len(w.Months) > 0 {
		return false, false
	}
	r := rules(t, "between "+strings.Join(w.Times, " ")+"; on "+strings.ReplaceAll(strings.Join(w.Weekdays, " "), ":", "-"))
	return r.At(c.At, location(t, c.Zone)) == Open, true
}

func FuzzDays(f *testing.F) {
	for _, s := range []string{"mon", "sat-mon", "7", "2026-12-24/2027-01-06", "2026-12-24T18:00:00Z/2027-01-02T06:00:00+01:00", "holidays", "08:00-18:00", "22:00-6:00"} {
		f.Add(s, int64(1772953200))
	}
	zone := location(f, "America/New_York")
	f.Fuzz(func(t *testing.T, text string, from int64) {
		if from < -1e10 || from > 1e10 {
			return
		}
		if h, err := ParseHours(text); err == nil {
			if again, err := ParseHours(h.String()); err != nil || again != h {
				t.Errorf("%q becomes %s, which gives %v, %v", text, h, again, err)
			}
			r := Rules{Hours: []Hours{h}}
			at, ok := r.Opens(time.Unix(from, 0), zone)
			if !ok || at.Before(time.Unix(from, 0)) || r.At(at, zone) != Open {
				t.Errorf("%q opens at %v %v from %d", text, at, ok, from)
			}
		}
		var d Days
		if err := d.Add(text); err != nil {
			return
		}
		on := Rules{On: d}
		if at, ok := on.Closes(time.Unix(from, 0), zone); ok && on.At(at, zone) == Open {
			t.Errorf("%q closes at %v", text, at)
		}
		if d.Empty() || len(d.Words()) == 0 {
			t.Errorf("%q adds nothing", text)
		}
		r := Rules{Blackout: d}
		if at, ok := r.Opens(time.Unix(from, 0), zone); ok && r.At(at, zone) != Open {
			t.Errorf("%q ends at %v", text, at)
		}
	})
}

func BenchmarkAt(b *testing.B) {
	r := rules(b, "between 08:00-18:00; on mon-fri; blackout 2026-12-24/2027-01-06")
	zone := location(b, "Europe/London")
	now := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	b.ReportAllocs()
	for b.Loop() {
		r.At(now, zone)
	}
}

func BenchmarkOpens(b *testing.B) {
	r := rules(b, "between 08:00-18:00; on mon-fri; blackout 2026-12-24/2027-01-06")
	zone := location(b, "Europe/London")
	now := time.Date(2026, 12, 24, 12, 0, 0, 0, time.UTC)
	b.ReportAllocs()
	for b.Loop() {
		r.Opens(now, zone)
	}
}
