package forecast_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/schedule/forecast"
	"github.com/seed-c01c3da5/zester/settings/schedule/window"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func peels(n int) []target.PeelID {
	ids := make([]target.PeelID, n)
	for i := range ids {
		ids[i] = target.PeelID(fmt.Sprintf("peel-%05d", i))
	}
	return ids
}

func expect(t testing.TB, o forecast.Options, groups ...forecast.Group) *forecast.Forecast {
	t.Helper()
	if o.Zone == nil {
		o.Zone = time.UTC
	}
	f, err := forecast.Make(groups, o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-6*(1+math.Abs(b)) }

func TestWithoutSplayAllPeelsRunInTheMinuteOfTheFire(t *testing.T) {
	f := expect(t, forecast.Options{From: instant(t, "2026-06-01T00:00:30Z"), For: time.Hour},
		forecast.Group{Peels: peels(3), Schedule: set(t, `a: {cron: "0,30 * * * *"}`)})
	if f.Minutes[0] != 3 || f.Minutes[30] != 3 || f.Total() != 6 || f.Peels != 3 {
		t.Errorf("%v of %d peels", f.Minutes, f.Peels)
	}
	if len(f.Worst) != 2 || !f.Worst[0].At.Equal(instant(t, "2026-06-01T00:00:00Z")) || f.Worst[0].Runs != 3 {
		t.Errorf("worst: %+v", f.Worst)
	}
	if e := f.Entries[0]; e.Name != "a" || e.Peels != 3 || e.Runs != 6 || e.Peak != 3 || e.Spread != 0 || e.By != forecast.ByNothing {
		t.Errorf("%+v", e)
	}
}

func TestRandomSplayIsSpreadEvenlyOverItsLength(t *testing.T) {
	f := expect(t, forecast.Options{From: instant(t, "2026-06-01T00:00:00Z"), For: time.Hour},
		forecast.Group{Peels: peels(100), Schedule: set(t, `a: {cron: "10 * * * *", splay: 150s}`)})
	for i, want := range map[int]float64{9: 0, 10: 40, 11: 40, 12: 20, 13: 0} {
		if !near(f.Minutes[i], want) {
			t.Errorf("minute %d: %g runs, want %g", i, f.Minutes[i], want)
		}
	}
	if e := f.Entries[0]; e.Spread != 150*time.Second || e.By != forecast.ByRandom {
		t.Errorf("%+v", e)
	}
	f = expect(t, forecast.Options{From: instant(t, "2026-06-01T00:00:00Z"), For: time.Hour},
		forecast.Group{Peels: peels(100), Schedule: schedule.Set{"a": with(entry(t, `cron: "10 * * * *"`), func(e *schedule.Entry) {
			e.Splay = schedule.Splay{Min: 2 * time.Minute, Max: 4 * time.Minute, Mode: schedule.SplayRandom}
		})}})
	if !near(f.Minutes[12], 50) || !near(f.Minutes[13], 50) || !near(f.Total(), 100) {
		t.Errorf("from 2m to 4m: %v", f.Minutes[8:16])
	}
}

func with(e schedule.Entry, change func(*schedule.Entry)) *schedule.Entry {
	change(&e)
	return &e
}

func TestSplayOfAFireBeforeReachesIn(t *testing.T) {
	f := expect(t, forecast.Options{From: instant(t, "2026-06-01T00:15:00Z"), For: 30 * time.Minute},
		forecast.Group{Peels: peels(60), Schedule: set(t, `a: {cron: "0 0 * * *", splay: 30m}`)})
	if !near(f.Minutes[0], 2) || !near(f.Minutes[14], 2) || !near(f.Total(), 30) {
		t.Errorf("%v", f.Minutes)
	}
}

func TestSplayEndsWithTheNextFire(t *testing.T) {
	f := expect(t, forecast.Options{From: instant(t, "2026-06-01T00:00:00Z"), For: time.Hour},
		forecast.Group{Peels: peels(60), Schedule: set(t, `a: {cron: "*/10 * * * *", splay: 3h}`)})
	for i, runs := range f.Minutes {
		if !near(runs, 6) {
			t.Errorf("minute %d: %g runs, want 6", i, runs)
		}
	}
}

func TestTheForecastHasTheSplayOfEachHost(t *testing.T) {
	ids := peels(200)
	e := with(entry(t, `cron: "20 * * * *", splay: 15m`), func(e *schedule.Entry) { e.Splay.Mode = schedule.SplayHost })
	from := instant(t, "2026-06-01T00:00:00Z")
	f := expect(t, forecast.Options{From: from, For: 2 * time.Hour}, forecast.Group{Peels: ids, Schedule: schedule.Set{"e": e}})
	want := make([]float64, 120)
	for _, id := range ids {
		offset := e.Splay.Offset(string(id), "e", 15*time.Minute)
		want[20+offset/time.Minute]++
		want[80+offset/time.Minute]++
	}
	for i := range want {
		if f.Minutes[i] != want[i] {
			t.Errorf("minute %d: %g runs, want %g", i, f.Minutes[i], want[i])
		}
	}
}

func TestIntervalsAreSpreadOverTime(t *testing.T) {
	o := forecast.Options{From: instant(t, "2026-06-01T00:00:00Z"), For: 24 * time.Hour}
	f := expect(t, o, forecast.Group{Peels: peels(100), Schedule: set(t, `a: {interval: 10m}`)})
	if !near(f.Minutes[0], 10) || !near(f.Minutes[1439], 10) || f.Entries[0].Spread != 10*time.Minute || f.Entries[0].By != forecast.ByInterval {
		t.Errorf("%g runs a minute: %+v", f.Minutes[0], f.Entries[0])
	}
	f = expect(t, o, forecast.Group{Peels: peels(100), Schedule: set(t, `a: {interval: 10m, splay: 20m}`)})
	if !near(f.Minutes[0], 5) {
		t.Errorf("with a delay of ten minutes in the middle: %g runs a minute, want 5", f.Minutes[0])
	}
}

func TestIntervalBeginsEverywhereAtOnceWithItsLife(t *testing.T) {
	e := with(entry(t, `interval: 10m, splay: 4m`), func(e *schedule.Entry) { e.Life.NotBefore = instant(t, "2026-06-01T00:20:00Z") })
	o := forecast.Options{From: instant(t, "2026-06-01T00:00:00Z"), For: time.Hour}
	f := expect(t, o, forecast.Group{Peels: peels(120), Schedule: schedule.Set{"e": e}})
	for i, want := range map[int]float64{19: 0, 20: 30 + 10, 23: 30 + 10, 24: 10, 59: 10} {
		if !near(f.Minutes[i], want) {
			t.Errorf("minute %d: %g runs, want %g", i, f.Minutes[i], want)
		}
	}
	e = with(*e, func(e *schedule.Entry) { e.Life.MaxRuns = 2 })
	if f := expect(t, o, forecast.Group{Peels: peels(120), Schedule: schedule.Set{"e": e}}); !near(f.Total(), 240) {
		t.Errorf("two runs at most of each: %g runs, want 240", f.Total())
	}
}

func TestWindowsCloseAfterTheSplayToo(t *testing.T) {
	o := forecast.Options{From: instant(t, "2026-06-01T00:00:00Z"), For: 2 * time.Hour}
	e := with(entry(t, `cron: "50 0 * * *", splay: 20m`), func(e *schedule.Entry) { e.Windows.Rules = hours(t, "00:00-01:00") })
	if f := expect(t, o, forecast.Group{Peels: peels(100), Schedule: schedule.Set{"e": e}}); !near(f.Total(), 50) || f.Minutes[60] != 0 {
		t.Errorf("skipped: %g runs, want 50", f.Total())
	}
	e = with(entry(t, `interval: 2m`), func(e *schedule.Entry) {
		e.Windows = schedule.Windows{Rules: hours(t, "01:00-01:30"), Outside: schedule.OutsideDefer}
	})
	if f := expect(t, o, forecast.Group{Peels: peels(100), Schedule: schedule.Set{"e": e}}); f.Minutes[59] != 0 || !near(f.Minutes[60], 150) || !near(f.Minutes[61], 50) {
		t.Errorf("deferred: %v", f.Minutes[58:63])
	}
}

func TestEqualTimingsOfGroupsAreOneEntry(t *testing.T) {
	o := forecast.Options{From: instant(t, "2026-06-01T00:00:00Z"), For: 24 * time.Hour}
	ids := peels(10)
	f := expect(t, o,
		forecast.Group{Peels: ids[:4], Schedule: set(t, "a: {cron: '@daily', timeout: 2m}\nb: {cron: '0 5 * * *'}\noff: {cron: '@daily', enabled: false}")},
		forecast.Group{Peels: ids[4:9], Schedule: set(t, "a: {cron: '0 0 * * *', timeout: 1m}\nb: {cron: '0 6 * * *'}")},
		forecast.Group{Peels: ids[9:], Schedule: set(t, "c: {cron: '0 0 * * *'}")})
	var got []string
	for _, e := range f.Entries {
		got = append(got, fmt.Sprintf("%s %d %g", e.Name, e.Peels, e.Runs))
	}
	if want := []string{"a 9 9", "b 5 5", "b 4 4", "c 1 1"}; !slices.Equal(got, want) || f.Peels != 10 {
		t.Errorf("%s of %d peels, want %s", got, f.Peels, want)
	}
	if s := fmt.Sprint(f.Worst[0].Contributions); f.Worst[0].Runs != 10 || s != "[{a 9} {c 1}]" {
		t.Errorf("the worst minute has %g runs: %s", f.Worst[0].Runs, s)
	}
}

func TestDaylightSavingCounts(t *testing.T) {
	zone, err := window.Zone("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	group := forecast.Group{Peels: peels(1), Schedule: set(t, "a: {cron: '30 2 * * *'}\nb: {cron: '30 1 * * *'}")}
	for from, want := range map[string][]int{
		"2026-03-08T00:00:00-05:00": {90, 120}, // 02:30 is jumped over and runs at 03:00
		"2026-11-01T00:00:00-04:00": {90, 210}, // 01:30 comes again after 150 minutes and does not run
	} {
		f := expect(t, forecast.Options{From: instant(t, from), For: 5 * time.Hour, Zone: zone}, group)
		var got []int
		for i, runs := range f.Minutes {
			if runs > 0 {
				got = append(got, i)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("from %s: runs in minutes %v, want %v", from, got, want)
		}
	}
}

// Over a long time the sum of all minutes is the number of fires, but for the last fire before each end, whose splay
// reaches over it.
func TestSumOfMinutesIsTheNumberOfFires(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	from := instant(t, "2026-10-24T00:00:00Z")
	for range 150 {
		fields := fmt.Sprintf(`cron: "*/%d %d-%d * * *"`, 1+r.IntN(40), r.IntN(12), 12+r.IntN(12))
		if r.IntN(3) == 0 {
			fields = fmt.Sprintf(`interval: %ds`, 30+r.IntN(10000))
		} else {
			fields += fmt.Sprintf(", splay: %ds", r.IntN(4000))
		}
		e := with(entry(t, fields+", timezone: Europe/Berlin"), func(e *schedule.Entry) {
			if r.IntN(2) == 0 {
				e.Splay.Mode = schedule.SplayHost
			}
		})
		start := from.Add(time.Duration(r.IntN(3000)) * time.Minute)
		n, days := 1+r.IntN(50), 1+r.IntN(3)
		f := expect(t, forecast.Options{From: start, For: time.Duration(days) * 24 * time.Hour},
			forecast.Group{Peels: peels(n), Schedule: schedule.Set{"e": e}})
		timing, err := e.Timing(nil)
		if err != nil {
			t.Fatal(err)
		}
		fires := 0
		for range forecast.Fires(e, timing, start.Add(-1), f.Until().Add(-1)) {
			fires++
		}
		if off := math.Abs(f.Total()-float64(fires*n)) / float64(n); off > 1+1e-6 {
			t.Errorf("%s from %s for %d days on %d peels: %g runs of %d fires", fields, start, days, n, f.Total(), fires)
		}
	}
}

func TestForecastRefusesTimesOutOfRange(t *testing.T) {
	for _, d := range []time.Duration{0, -time.Hour, 90 * time.Second, forecast.MaxFor + time.Minute} {
		if _, err := forecast.Make(nil, forecast.Options{For: d}); err == nil {
			t.Errorf("%v is taken", d)
		}
	}
}

func BenchmarkForecast(b *testing.B) {
	timings := map[string]string{
		"random": "cron: '%d %d * * *', splay: 30m", "often": "cron: '%d-59/5 %d-23 * * *', splay: 4m",
		"interval": "interval: %dm%ds",
	}
	for _, kind := range []string{"random", "often", "interval", "host"} {
		b.Run(kind+"/peels=10000/entries=50/24h", func(b *testing.B) {
			s := schedule.Set{}
			for i := range 50 {
				text := timings[kind]
				if kind == "host" {
					text = timings["often"]
				}
				e := entry(b, fmt.Sprintf(text, 1+i%5, i%24))
				e.Name = fmt.Sprintf("e%d", i)
				if kind == "host" {
					e.Splay.Mode = schedule.SplayHost
				}
				s[e.Name] = &e
			}
			groups := []forecast.Group{{Peels: peels(10_000), Schedule: s}}
			o := forecast.Options{From: instant(b, "2026-06-01T00:00:00Z"), For: 24 * time.Hour, Zone: time.UTC}
			for b.Loop() {
				if _, err := forecast.Make(groups, o); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
