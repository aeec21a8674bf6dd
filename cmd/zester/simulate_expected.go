package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/plan/review"
	"github.com/seed-c01c3da5/zester/settings/schedule/forecast"
	"github.com/seed-c01c3da5/zester/settings/schedule/window"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target/peelindex"
)

const expectedManual = `--expected instead adds up the expected runs of all peels in each minute, up to
7d: the worst minutes, and the share of each entry. It runs no scheduler.
A random splay spreads the runs of a fire evenly over its length. With
splay_mode: host each run has its exact time. An interval counts from earlier
runs, which are not known here: its runs are spread evenly over its length. Runs
by needs, by run_on_start and of people are not counted.

--expected -o json:
  {"from": …, "until": …, "zone": …, "peels": …,
   "runs": …,                  expected in the whole time
   "per_minute": [runs, …],    one number for each minute after "from"
   "worst": [{"at": …, "runs": …, "entries": [{"entry": …, "runs": …}, …]}, …],
                               at most ten minutes, each with its three
                               largest entries
   "entries": [{"entry": …, "peels": …, "runs": …, "runs_per_day": …,
                "peak": …,             largest number of runs in one minute
                "spread_seconds": …,   time between first and last run of a fire
                "spread_by": …,        none, random, host or interval
                "explanation": …}, …]}
An entry that differs between peels is listed once for each variant.`

// forecastFlags holds the flags of all commands that compute the load of a config repo.
type forecastFlags struct {
	facts, from, length, zone string
}

func (f *forecastFlags) options() (o forecast.Options, err error) {
	if o.From, err = fromInstant(f.from); err != nil {
		return o, err
	}
	if o.For, err = strictyaml.ParseDuration(f.length); err != nil {
		return o, usageError("cannot use --for: %w", err)
	}
	if o.For < time.Minute || o.For > forecast.MaxFor || o.For%time.Minute != 0 {
		return o, usageError("cannot use --for %s: it is between 1m and 7d, in whole minutes", f.length)
	}
	o.Zone = time.Local
	if f.zone != "" {
		o.Zone, err = window.Zone(f.zone)
	}
	return o, err
}

// expected prints the expected load of a config repo in each minute.
func (a *app) expected(ctx context.Context, dir string, flags forecastFlags) error {
	o, err := flags.options()
	if err != nil {
		return err
	}
	fleet, err := a.fleet(ctx, flags.facts)
	if err != nil {
		return err
	}
	groups, err := a.groups(ctx, dir, fleet)
	if err != nil {
		return err
	}
	f, err := forecast.Make(groups, o)
	if err != nil {
		return err
	}
	out := answerOf(f, cmp.Or(flags.zone, hostZone()))
	names := make([]string, len(out.Entries))
	for i, e := range out.Entries {
		names[i] = e.Entry
	}
	return a.print(out, names, func() error { return a.forecastTables(f, out) })
}

// groups compiles the repo for a fleet. Peels with equal settings are one group.
func (a *app) groups(ctx context.Context, dir string, fleet *peelindex.Index) ([]forecast.Group, error) {
	compiled, err := compileAt(ctx, place{repo: dir}, fleet)
	if err != nil {
		return nil, err
	}
	for _, w := range compiled.Warnings {
		fmt.Fprintln(a.errOut, "warning:", plain(w.String()))
	}
	return review.Groups(compiled), nil
}

// forecastAnswer is the data of simulate --expected.
type forecastAnswer struct {
	From      time.Time       `json:"from"`
	Until     time.Time       `json:"until"`
	Zone      string          `json:"zone"`
	Peels     int             `json:"peels"`
	Runs      float64         `json:"runs"`
	PerMinute []float64       `json:"per_minute"`
	Worst     []worstMinute   `json:"worst"`
	Entries   []forecastEntry `json:"entries"`
}

type worstMinute struct {
	At      time.Time     `json:"at"`
	Runs    float64       `json:"runs"`
	Entries []minuteShare `json:"entries"`
}

type minuteShare struct {
	Entry string  `json:"entry"`
	Runs  float64 `json:"runs"`
}

type forecastEntry struct {
	Entry       string         `json:"entry"`
	Peels       int            `json:"peels"`
	Runs        float64        `json:"runs"`
	RunsPerDay  float64        `json:"runs_per_day"`
	Peak        float64        `json:"peak"`
	Spread      float64        `json:"spread_seconds"`
	SpreadBy    forecast.Cause `json:"spread_by"`
	Explanation string         `json:"explanation"`
}

func answerOf(f *forecast.Forecast, zone string) forecastAnswer {
	days := f.Until().Sub(f.From).Hours() / 24
	out := forecastAnswer{
		From: f.From, Until: f.Until(), Zone: zone, Peels: f.Peels, Runs: thousandths(f.Total()),
		Worst: []worstMinute{}, Entries: []forecastEntry{},
	}
	for _, runs := range f.Minutes {
		out.PerMinute = append(out.PerMinute, thousandths(runs))
	}
	for _, m := range f.Worst {
		w := worstMinute{At: m.At, Runs: thousandths(m.Runs)}
		for _, s := range m.Contributions {
			w.Entries = append(w.Entries, minuteShare{s.Entry, thousandths(s.Runs)})
		}
		out.Worst = append(out.Worst, w)
	}
	for _, e := range f.Entries {
		out.Entries = append(out.Entries, forecastEntry{
			Entry: e.Name, Peels: e.Peels, Runs: thousandths(e.Runs), RunsPerDay: thousandths(e.Runs / days),
			Peak: thousandths(e.Peak), Spread: thousandths(e.Spread.Seconds()), SpreadBy: e.By, Explanation: e.Meaning,
		})
	}
	return out
}

func thousandths(x float64) float64 { return math.Round(x*1000) / 1000 }

func (a *app) forecastTables(f *forecast.Forecast, out forecastAnswer) error {
	const layout = "2006-01-02 15:04"
	fmt.Fprintf(a.out, "%s, %s runs from %s to %s, %s\n", count(out.Peels, "peel"), forecast.Number(out.Runs),
		out.From.Format(layout), out.Until.Format(layout), plain(out.Zone))
	worst := table{header: []string{"WORST MINUTE", "RUNS", "MOST OF THEM"}, narrow: []string{"MOST OF THEM"}}
	for _, m := range out.Worst {
		var shares []string
		for _, s := range m.Entries {
			shares = append(shares, s.Entry+" "+forecast.Number(s.Runs))
		}
		worst.add(m.At.Format(layout), forecast.Number(m.Runs), strings.Join(shares, ", "))
	}
	entries := table{
		header: []string{"ENTRY", "PEELS", "RUNS/DAY", "PEAK", "SPREAD", "BY", "MEANING"},
		narrow: []string{"MEANING"},
		drop:   []string{"BY", "SPREAD"},
	}
	for i, e := range out.Entries {
		entries.add(e.Entry, fmt.Sprint(e.Peels), forecast.Number(e.RunsPerDay), forecast.Number(e.Peak),
			f.Entries[i].Spread.Round(time.Second).String(), string(e.SpreadBy), e.Explanation)
	}
	for _, t := range []table{worst, entries} {
		if len(t.rows) == 0 {
			continue
		}
		fmt.Fprintln(a.out)
		if err := a.printTable(t); err != nil {
			return err
		}
	}
	return nil
}
