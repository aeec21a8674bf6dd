package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/settings/schedule/forecast"
	"github.com/seed-c01c3da5/zester/settings/schedule/window"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const forecastManual = `forecast says from a config repo alone how many runs its schedules start in each minute, over all peels of a file:
which minutes are the worst, and what each entry has to do with it. DIR is a working tree of the repo; what is not
committed counts. It asks no master. A repo that is refused ends it with 1 and every error.

--facts names the file of the peels, as target eval --file reads it:

  peels:
    web-01: {facts: {os: ubuntu}}

The numbers are expectations. A random splay spreads the runs of a fire evenly over its length; splay_mode: host puts
each peel where it will be; an interval counts from the runs before, which nobody knows here, so it is spread evenly
over its length. Runs that needs, run_on_start or people make are not foreseen.

-o json:
  {"from": …, "until": …, "zone": …, "peels": …,
   "runs": …,                  expected in all of the time
   "per_minute": [runs, …],    one number for each minute from "from" on
   "worst": [{"at": …, "runs": …, "entries": [{"entry": …, "runs": …}, …]}, …],
                               ten minutes at most, each with the three entries that have most of it
   "entries": [{"entry": …, "peels": …, "runs": …, "runs_per_day": …,
                "peak": …,             the most runs in one minute
                "spread_seconds": …,   over how long the runs of one fire come
                "spread_by": …,        none, random, host or interval
                "explanation": …}, …]}
An entry that is not the same on all peels stands there several times.

-o svg: a picture, a row for each hour and a column for each minute of it.`

// forecastForm is a value of -o of forecast, which can draw as well.
type forecastForm struct {
	*form
	svg bool
}

func (f *forecastForm) Set(s string) error {
	if f.svg = s == "svg"; f.svg {
		return nil
	}
	if err := f.form.Set(s); err != nil {
		return fmt.Errorf("%w or svg", err)
	}
	return nil
}

// forecastFlags are what forecast is asked for.
type forecastFlags struct {
	form                           forecastForm
	facts, from, length, zone, out string
}

func (a *app) forecastCommand() *cobra.Command {
	f := forecastFlags{form: forecastForm{form: &a.output}}
	cmd := &cobra.Command{
		Use:   "forecast DIR",
		Short: "Show how many runs a config repo starts in each minute",
		Long:  forecastManual,
		Args:  words("directory of the config repo"),
		RunE:  func(cmd *cobra.Command, args []string) error { return a.forecast(cmd.Context(), args[0], f) },
	}
	flags := cmd.Flags()
	flags.VarP(&f.form, "output", "o", "output `FORMAT`: table, json, yaml, name or svg")
	flags.StringVar(&f.facts, "facts", "", "`FILE` with the peels and their facts")
	flags.StringVar(&f.from, "from", "", "`INSTANT` of the first minute, such as 2026-06-01T09:00:00+01:00 (default: now)")
	flags.StringVar(&f.length, "for", "24h", "`TIME` to look ahead, up to 7d")
	flags.StringVar(&f.zone, "zone", "", "IANA `ZONE` of entries that name none, and of the output (default: that of this host)")
	flags.StringVar(&f.out, "out", "", "`FILE` to write to")
	return cmd
}

func (f *forecastFlags) options() (forecast.Options, error) {
	o := forecast.Options{From: time.Now(), Zone: time.Local}
	var err error
	if f.from != "" {
		if o.From, err = instant("from", f.from); err != nil {
			return o, err
		}
	}
	if o.For, err = strictyaml.ParseDuration(f.length); err != nil {
		return o, usageError("cannot use --for: %w", err)
	}
	if o.For < time.Minute || o.For > forecast.MaxFor || o.For%time.Minute != 0 {
		return o, usageError("cannot use --for %s: it is between 1m and 7d, in whole minutes", f.length)
	}
	if f.zone != "" {
		o.Zone, err = window.Zone(f.zone)
	}
	return o, err
}

func (a *app) forecast(ctx context.Context, dir string, flags forecastFlags) error {
	if flags.facts == "" {
		return usageError("zester schedule forecast needs --facts: a file of the peels and their facts, as zester target eval --file reads it")
	}
	o, err := flags.options()
	if err != nil {
		return err
	}
	groups, err := a.groups(ctx, dir, flags.facts)
	if err != nil {
		return err
	}
	f, err := forecast.Make(groups, o)
	if err != nil {
		return err
	}
	if flags.out == "" {
		return a.showForecast(f, flags)
	}
	var text bytes.Buffer
	into := *a
	into.out, into.columns = &text, 0
	if err := into.showForecast(f, flags); err != nil {
		return err
	}
	if err := os.WriteFile(flags.out, text.Bytes(), 0o644); err != nil {
		return fmt.Errorf("cannot write the forecast: %w", err)
	}
	return nil
}

// groups compiles the repo for the peels of a file: those with equal settings are a group.
func (a *app) groups(ctx context.Context, dir, facts string) ([]forecast.Group, error) {
	index, err := readIndex(facts)
	if err != nil {
		return nil, err
	}
	compiled, err := compileAt(ctx, place{repo: dir}, index)
	if err != nil {
		return nil, err
	}
	for _, w := range compiled.Warnings {
		fmt.Fprintln(a.errOut, "warning:", plain(w.String()))
	}
	members := map[*plan.Effective][]target.PeelID{}
	for _, id := range slices.Sorted(maps.Keys(compiled.Peels)) {
		e := compiled.Peels[id]
		members[e] = append(members[e], id)
	}
	var groups []forecast.Group
	for e, peels := range members {
		groups = append(groups, forecast.Group{Peels: peels, Schedule: e.Schedule})
	}
	return groups, nil
}

// forecastAnswer is what forecast prints as data.
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

func (a *app) showForecast(f *forecast.Forecast, flags forecastFlags) error {
	if flags.form.svg {
		return f.SVG(a.out, "Runs expected in each minute")
	}
	zone := flags.zone
	if zone == "" {
		zone = hostZone()
	}
	out := answerOf(f, zone)
	names := make([]string, len(out.Entries))
	for i, e := range out.Entries {
		names[i] = e.Entry
	}
	return a.print(out, names, func() error { return a.forecastTables(f, out) })
}

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
	entries := table{header: []string{"ENTRY", "PEELS", "RUNS/DAY", "PEAK", "SPREAD", "BY", "MEANING"}, narrow: []string{"MEANING"}, drop: []string{"BY", "SPREAD"}}
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
