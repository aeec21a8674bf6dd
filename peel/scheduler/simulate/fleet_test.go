package simulate_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/scheduler/simulate"
	"github.com/seed-c01c3da5/zester/settings/schedule/forecast"
	"github.com/seed-c01c3da5/zester/settings/target"
)

var monday = time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)

func span(from, until time.Duration) simulate.Span {
	return simulate.Span{From: monday.Add(from), Until: monday.Add(until)}
}

// options are those of three days in which runs of an entry named slow take 90 minutes, and others a minute.
func options() simulate.Options {
	return simulate.Options{From: monday, For: 72 * time.Hour, Zone: time.UTC, Takes: func(entry string) time.Duration {
		if entry == "slow" {
			return 90 * time.Minute
		}
		return time.Minute
	}}
}

func peels(prefix string, n int) (list []target.PeelID) {
	for i := range n {
		list = append(list, target.PeelID(fmt.Sprintf("%s-%02d", prefix, i)))
	}
	return list
}

func run(t *testing.T, groups []forecast.Group, o simulate.Options) *simulate.Result {
	t.Helper()
	r, err := simulate.Run(t.Context(), groups, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func entry(t *testing.T, r *simulate.Result, name string) simulate.Entry {
	t.Helper()
	i := slices.IndexFunc(r.Entries, func(e simulate.Entry) bool { return e.Name == name })
	if i < 0 {
		t.Fatalf("no entry %s", name)
	}
	return r.Entries[i]
}

const everyRule = `
hourly: {module: test.ping, cron: "0 * * * *", catch_up: run_all}
slow: {module: test.ping, interval: 1h, interval_from: start, if_running: queue}
strict: {module: test.ping, interval: 20m, timeout: 30s, only_between: "08:00-18:00"}`

// Peels with one schedule share the work. The result is the one that each of them gives alone.
func TestAPeelThatStandsForOthersCountsAsAllOfThem(t *testing.T) {
	groups := []forecast.Group{
		{Peels: peels("same", 7), Schedule: parse(t, everyRule)},
		{Peels: peels("spread", 5), Schedule: parse(t, `{hourly: {module: test.ping, cron: "0 * * * *", splay: 9m}, own: {module: test.ping, interval: 7m, splay: 1m, splay_mode: host}}`)},
	}
	o := options()
	o.Away = map[target.PeelID][]simulate.Span{"same-03": {span(5*time.Hour, 9*time.Hour), span(8*time.Hour, 10*time.Hour)}, "spread-01": {span(-time.Hour, time.Hour)}}
	o.Outages = []simulate.Span{span(30*time.Hour+20*time.Second, 33*time.Hour)}
	shared := run(t, groups, o)
	var runs []simulate.PeelRun
	o.Ran = func(r simulate.PeelRun) error { runs = append(runs, r); return nil }
	if alone := run(t, groups, o); !reflect.DeepEqual(shared, alone) {
		t.Errorf("shared:\n%+v\nalone:\n%+v", shared, alone)
	}
	minutes, done := map[time.Time]uint32{}, map[simulate.Outcome]int{}
	for _, r := range runs {
		minutes[r.Started.Truncate(time.Minute)]++
		done[r.Result]++
		for _, s := range append(o.Away[r.Peel], o.Outages...) {
			if !r.Started.Before(s.From) && r.Started.Before(s.Until) {
				t.Errorf("%s ran %s at %v, while it was down", r.Peel, r.Entry, r.Started)
			}
		}
	}
	total := uint32(0)
	for i, h := range shared.Hours {
		for m := range 60 {
			n := minutes[monday.Add(time.Duration(60*i+m)*time.Minute)]
			if total += n; n > h.Peak || n > shared.Worst[0].Runs {
				t.Errorf("hour %d has a minute with %d runs, its peak is %d, that of the fleet %d", i, n, h.Peak, shared.Worst[0].Runs)
			}
		}
	}
	if int(total) != len(runs) || done[simulate.Done] < 2000 || done[simulate.TimedOut] == 0 || done[simulate.Interrupted] == 0 || done[""] == 0 {
		t.Errorf("%d runs, %d in the hours, %v", len(runs), total, done)
	}
}

func TestTheLoadIsCountedInMinutesAndHours(t *testing.T) {
	r := run(t, []forecast.Group{
		{Peels: peels("a", 3), Schedule: parse(t, `{noon: {module: test.ping, cron: "0 12 * * *"}, slow: {module: test.ping, cron: "59 11 * * *"}}`)},
		{Peels: peels("b", 2), Schedule: parse(t, `{noon: {module: test.ping, cron: "0 12 * * *", enabled: true}}`)},
	}, options())
	if r.Peels != 5 || len(r.Hours) != 72 || r.Hours[11] != (simulate.Hour{Runs: 3, Peak: 3, InFlight: 3}) || r.Hours[12] != (simulate.Hour{Runs: 5, Peak: 5, InFlight: 8}) ||
		r.Hours[13] != (simulate.Hour{InFlight: 3}) || r.Hours[14] != (simulate.Hour{}) {
		t.Errorf("%d peels, hours %v", r.Peels, r.Hours[10:16])
	}
	want := simulate.Minute{At: monday.Add(12 * time.Hour), Runs: 5, InFlight: 8, Contributions: []simulate.Contribution{{Entry: "noon", Runs: 5}}}
	if len(r.Worst) != 6 || !reflect.DeepEqual(r.Worst[0], want) || r.Worst[3].Runs != 3 {
		t.Errorf("worst minutes: %v", r.Worst)
	}
	if e := entry(t, r, "noon"); e.Peels != 5 || e.Runs != 15 || e.Peak != 5 || !e.PeakAt.Equal(want.At) || e.Hours[12] != 5 {
		t.Errorf("%+v", e)
	}
}

func TestOverlapsWindowsAndOutagesAreCountedByReason(t *testing.T) {
	o := options()
	o.Away = map[target.PeelID][]simulate.Span{"a-01": {span(90*time.Second, 3*time.Hour+10*time.Minute)}}
	r := run(t, []forecast.Group{{Peels: peels("a", 2), Schedule: parse(t, `
hourly: {module: test.ping, cron: "0 * * * *", catch_up: run_all}
slow: {module: test.ping, cron: "1 * * * *"}
office: {module: test.ping, cron: "30 * * * *", only_between: "08:00-18:00"}
short: {module: test.ping, interval: 12h, timeout: 30s}`)}}, o)
	if e := entry(t, r, "hourly"); e.CaughtUp != 3 || e.Runs != 2*71 || e.Skipped() != 0 {
		t.Errorf("hourly: %+v", e)
	}
	if e := entry(t, r, "slow"); e.Interrupted != 1 || e.Overlaps() != e.Skips[ledger.AlreadyRunning].Fires || e.Overlaps() < 60 ||
		e.Skips[ledger.AlreadyRunning].Peel != "a-00" || !e.Skips[ledger.AlreadyRunning].First.Equal(monday.Add(61*time.Minute)) {
		t.Errorf("slow: %+v", e)
	}
	if e := entry(t, r, "slow"); e.Missed != 3 || e.Overran == 0 {
		t.Errorf("slow: %+v", e)
	}
	if e := entry(t, r, "office"); e.Runs != 2*3*10 || e.Skips[ledger.OutsideWindow].Fires != 2*3*14-3 {
		t.Errorf("office: %+v", e)
	}
	if e := entry(t, r, "short"); e.Cut != e.Runs || e.Cut == 0 {
		t.Errorf("short: %+v", e)
	}
}

func TestSimulationsAreRefusedThatAreTooLarge(t *testing.T) {
	o := options()
	group := forecast.Group{Peels: peels("a", 1), Schedule: parse(t, everyRule)}
	for _, length := range []time.Duration{0, 90 * time.Second, 3653 * 24 * time.Hour} {
		o.For = length
		if _, err := simulate.Run(t.Context(), []forecast.Group{group}, o); err == nil || !strings.Contains(err.Error(), "between 1m and 366d") {
			t.Errorf("%v: %v", length, err)
		}
	}
	var text strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&text, "e%d: {module: test.ping, interval: 1d}\n", i)
	}
	group.Schedule, o.For = parse(t, text.String()), 90*24*time.Hour
	if _, err := simulate.Run(t.Context(), []forecast.Group{group}, o); err == nil || err.Error() != "cannot simulate 1000 different entries for 90 days at once: 46 days are possible" {
		t.Error(err)
	}
	o.For, o.Ran = 3*time.Hour, func(simulate.PeelRun) error { return errors.New("full") }
	group.Schedule = parse(t, everyRule)
	if _, err := simulate.Run(t.Context(), []forecast.Group{group}, o); err == nil || err.Error() != "full" {
		t.Error(err)
	}
}

func TestEntriesAtChangesOfClocksAreNamed(t *testing.T) {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	set := parse(t, `
night: {module: test.ping, cron: "30 2 * * *"}
dropped: {module: test.ping, cron: "15,45 2 * * *", dst_gap: skip, dst_overlap: both}
elapsed: {module: test.ping, cron: "*/30 * * * *"}
day: {module: test.ping, cron: "30 4 * * *"}
there: {module: test.ping, cron: "30 1 * * *", timezone: America/New_York}
sundays: {module: test.ping, cron: "30 2 * * mon"}`)
	groups := []forecast.Group{{Peels: peels("a", 1), Schedule: set}, {Peels: peels("b", 1), Schedule: set}}
	list, err := simulate.ClockChanges(groups, time.Date(2026, 3, 20, 0, 0, 0, 0, time.UTC), time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC), zone)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range list {
		var line strings.Builder
		line.WriteString(fmt.Sprint(c.At.Format(time.RFC3339), " ", c.Zone, " ", c.Shift, " ", c.Entry, " ", c.Wall, ":"))
		for _, at := range c.Fires {
			line.WriteString(" " + at.Format("15:04-07"))
		}
		got = append(got, line.String())
	}
	want := []string{
		"2026-03-29T03:00:00+02:00 Europe/Berlin 1h0m0s dropped [02:15 02:45]:",
		"2026-03-29T03:00:00+02:00 Europe/Berlin 1h0m0s night [02:30]: 03:00+02",
		"2026-10-25T02:00:00+01:00 Europe/Berlin -1h0m0s dropped [02:15 02:45]: 02:15+02 02:45+02 02:15+01 02:45+01",
		"2026-10-25T02:00:00+01:00 Europe/Berlin -1h0m0s night [02:30]: 02:30+02",
		"2026-11-01T01:00:00-05:00 America/New_York -1h0m0s there [01:30]: 01:30-04",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestTheDrawingIsXML(t *testing.T) {
	set := parse(t, everyRule)
	set["</text><script>"] = set["hourly"]
	delete(set, "hourly")
	set["</text><script>"].Name = "</text><script>"
	r := run(t, []forecast.Group{{Peels: peels("a", 1), Schedule: set}}, options())
	var b bytes.Buffer
	if err := r.SVG(&b); err != nil {
		t.Fatal(err)
	}
	shapes := 0
	for d := xml.NewDecoder(bytes.NewReader(b.Bytes())); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := token.(xml.StartElement); ok && s.Name.Local == "rect" {
			shapes++
		}
	}
	if bytes.Contains(b.Bytes(), []byte("<script")) || shapes < 72+24 {
		t.Errorf("%d shapes in\n%s", shapes, &b)
	}
}
