package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/peel/scheduler/simulate"
	"github.com/seed-c01c3da5/zester/reconciler/plan/backtest"
	"github.com/seed-c01c3da5/zester/settings/schedule/forecast"
	"github.com/seed-c01c3da5/zester/settings/schedule/window"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const simulateManual = `simulate does in seconds what the schedules of a config repo will do in months.
It runs the scheduler of every peel, the code that peels run, with a clock of
its own: it shows what runs when, which fires meet a run in flight, a closed
window or a changed clock, and the load of the fleet. It changes nothing. DIR is
a working tree of the repo, by default the current directory, with changes that
are not committed. The exit code is 1 if the repo is invalid.

The peels and their facts are those of the live fleet, or those of --facts: a
file of peels as for target eval --file.

Runs succeed. They take as long as the median of the recorded runs of the last
30 days in the live fleet: those with return_job. Those of other entries take
about as long as half of the runs that their peels have counted. Entries that
never ran take 1m, and so do all with --facts, unless --took says otherwise:

  --took 5m --took backup=2h      backup takes 2h; entries that never ran 5m

A timeout of the entry counts. Every peel starts at --from with an empty
history.

A peel that is --away is down, as after a power cut: its runs in flight are
interrupted, and what it misses is made up as catch_up says. An --outage is the
same for all peels. Peels that only lose the bus or the masters run on, so that
has no effect here.

  --away db-01=2026-06-01T22:00:00Z..2026-06-02T06:00:00Z

MISSED are fires that did not start in time and are not made up. OVERLAPS are
fires that came while as many runs were in flight as the entry may have;
if_running decides what becomes of them. SKIPPED are fires that a rule kept from
running. CUT are runs that a timeout, the next run or a power cut ended.

-o svg draws the load. -o jsonl prints every run as a line of JSON, peel by
peel: {"peel", "entry", "trigger", "nominal", "started", "ended", "result"},
where a result is done, timeout, replaced or interrupted, and a run that is in
flight at the end has neither of the last two. -o json:

  {"from": …, "until": …, "zone": …, "peels": …, "runs": …,
   "hours": [{"runs": …,       begun in this hour after "from"
              "peak": …,       most begun in one minute
              "in_flight": …}, …],
   "worst": [{"at": …, "runs": …, "in_flight": …,
              "entries": [{"entry": …, "runs": …}, …]}, …],
                               at most ten minutes, each with its three
                               largest entries
   "entries": [{"entry": …, "peels": …, "takes_seconds": …, "measured": true,
                "runs": …, "late": …, "caught_up": …, "interrupted": …,
                "cut": …, "overran": …, "missed": …, "overlaps": …,
                "waited": …,
                "skipped": {REASON: {"fires": …, "first": time,
                                     "peel": …}, …},
                "peak": …, "peak_at": …, "hours": [runs, …]}, …],
   "clock_changes": [{"at": …, "zone": …, "shift_seconds": …, "entry": …,
                      "wall_times": […], "fires": [time, …]}, …]}`

// Output formats of simulate, besides those that every command has.
const formSVG form = "svg"

// simulateForm is an output format of simulate.
type simulateForm struct{ *form }

func (f simulateForm) Set(s string) error {
	if s == string(formSVG) {
		*f.form = formSVG
		return nil
	}
	if err := f.form.Set(s); err != nil {
		return fmt.Errorf("%w or svg", err)
	}
	return nil
}

// defaultTook is the assumed duration of a run if its entry has no recorded runs.
const defaultTook = time.Minute

// simulateFlags holds the flags of simulate.
type simulateFlags struct {
	forecastFlags
	away, outages, took []string
}

func (a *app) simulateCommand() *cobra.Command {
	var f simulateFlags
	expected := false
	cmd := &cobra.Command{
		Use:   "simulate [DIR]",
		Short: "Show what the schedules of a config repo will do in months",
		Long:  simulateManual + "\n\n" + expectedManual,
		Args:  atMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := append(args, ".")[0]
			if !expected {
				return a.simulate(cmd.Context(), dir, f)
			}
			for _, name := range []string{"away", "outage", "took"} {
				if cmd.Flags().Changed(name) {
					return usageError("--%s does not go with --expected: it counts runs, and does not run them", name)
				}
			}
			if a.output == formSVG {
				return usageError("--expected cannot be drawn: -o json has the runs of each minute")
			}
			return a.expected(cmd.Context(), dir, f.forecastFlags)
		},
	}
	flags := cmd.Flags()
	flags.VarP(simulateForm{&a.output}, "output", "o",
		"output `FORMAT`: "+strings.Join(append(formsOf(prints), string(formSVG)), ", "))
	factsFlag(flags, &f.facts, " (default: the live fleet)")
	fromFlag(flags, &f.from, "of the beginning")
	flags.StringVar(&f.length, "for", "7d", "`TIME` to simulate, up to 366d")
	flags.BoolVar(&expected, "expected", false, "add up the expected runs of each minute, up to 7d")
	flags.StringArrayVar(&f.away, "away", nil, "`PEEL=FROM..TO`, instants between which a peel is down")
	flags.StringArrayVar(&f.outages, "outage", nil, "`FROM..TO`, instants between which all peels are down")
	flags.StringArrayVar(&f.took, "took", nil, "`[ENTRY=]TIME` that a run takes")
	zoneFlag(flags, &f.zone)
	return cmd
}

// options returns the options of the simulation without Away.
func (f *simulateFlags) options() (o simulate.Options, err error) {
	if o.From, err = fromInstant(f.from); err != nil {
		return o, err
	}
	o.From = o.From.Truncate(time.Minute)
	if o.For, err = strictyaml.ParseDuration(f.length); err != nil {
		return o, usageError("cannot use --for: %w", err)
	}
	if o.For < time.Minute || o.For > simulate.MaxFor || o.For%time.Minute != 0 {
		return o, usageError("cannot use --for %s: it is between 1m and %dd, in whole minutes", f.length,
			simulate.MaxFor/(24*time.Hour))
	}
	o.Zone = time.Local
	if f.zone != "" {
		if o.Zone, err = window.Zone(f.zone); err != nil {
			return o, err
		}
	}
	for _, text := range f.outages {
		s, err := f.span("outage", text, text, o)
		if err != nil {
			return o, err
		}
		o.Outages = append(o.Outages, s)
	}
	return o, nil
}

// span parses FROM..TO in the value of a flag.
func (f *simulateFlags) span(flag, value, text string, o simulate.Options) (s simulate.Span, err error) {
	from, to, ok := strings.Cut(text, "..")
	if !ok {
		return s, usageError(
			"cannot use --%s %q: it has no FROM..TO, such as 2026-06-01T22:00:00Z..2026-06-02T06:00:00Z", flag, value,
		)
	}
	if s.From, err = instant(flag, from); err != nil {
		return s, err
	}
	if s.Until, err = instant(flag, to); err != nil {
		return s, err
	}
	switch until := o.From.Add(o.For); {
	case !s.From.Before(s.Until):
		return s, usageError("cannot use --%s %q: its end is not after its beginning", flag, value)
	case !s.From.Before(until) || !s.Until.After(o.From):
		return s, usageError("cannot use --%s %q: the simulation is from %s to %s", flag, value,
			o.From.Format(time.RFC3339), until.Format(time.RFC3339))
	}
	return s, nil
}

// spansAway parses --away. Each peel must be one of the fleet.
func (f *simulateFlags) spansAway(o simulate.Options,
	groups []forecast.Group,
) (map[target.PeelID][]simulate.Span, error) {
	var known []string
	for _, g := range groups {
		for _, id := range g.Peels {
			known = append(known, string(id))
		}
	}
	slices.Sort(known)
	away := map[target.PeelID][]simulate.Span{}
	for _, value := range f.away {
		peel, text, ok := strings.Cut(value, "=")
		if !ok {
			return nil, usageError("cannot use --away %q: it is PEEL=FROM..TO; --outage FROM..TO is of all peels",
				value)
		}
		if _, found := slices.BinarySearch(known, peel); !found {
			return nil, usageError("cannot use --away %q: no peel of the fleet is %s%s", value, peel,
				strictyaml.Suggest(peel, known))
		}
		s, err := f.span("away", value, text, o)
		if err != nil {
			return nil, err
		}
		away[target.PeelID(peel)] = append(away[target.PeelID(peel)], s)
	}
	return away, nil
}

// entriesIn returns the names of all entries, sorted.
func entriesIn(groups []forecast.Group) []string {
	names := map[string]bool{}
	for _, g := range groups {
		for name := range g.Schedule {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// takes parses --took, which overrides measured durations. Each entry must be in the schedules.
func (f *simulateFlags) takes(names []string,
	measured map[string]time.Duration,
) (func(entry string) time.Duration, error) {
	byEntry, byDefault := maps.Clone(measured), defaultTook
	for _, value := range f.took {
		entry, text, ok := strings.Cut(value, "=")
		if !ok {
			text = value
		}
		d, err := strictyaml.ParseDuration(text)
		if err != nil {
			return nil, usageError("cannot use --took %q: %w", value, err)
		}
		switch {
		case !ok:
			byDefault = d
		case !slices.Contains(names, entry):
			return nil, usageError("cannot use --took %q: no peel has an entry %s%s", value, entry,
				strictyaml.Suggest(entry, names))
		default:
			byEntry[entry] = d
			delete(measured, entry)
		}
	}
	return func(entry string) time.Duration {
		if d, ok := byEntry[entry]; ok {
			return d
		}
		return byDefault
	}, nil
}

func (a *app) simulate(ctx context.Context, dir string, f simulateFlags) error {
	collectSeldom()
	o, err := f.options()
	if err != nil {
		return err
	}
	fleet, err := a.fleet(ctx, f.facts)
	if err != nil {
		return err
	}
	groups, err := a.groups(ctx, dir, fleet)
	if err != nil {
		return err
	}
	if o.Away, err = f.spansAway(o, groups); err != nil {
		return err
	}
	names, measured := entriesIn(groups), map[string]time.Duration{}
	if f.facts == "" {
		if measured, err = a.medians(ctx, names); err != nil {
			return err
		}
	}
	if o.Takes, err = f.takes(names, measured); err != nil {
		return err
	}
	changes, err := simulate.ClockChanges(groups, o.From, o.From.Add(o.For), o.Zone)
	if err != nil {
		return err
	}
	if a.output == formJSONL {
		o.Ran = func(r simulate.PeelRun) error { return encode(a.out, r, "", "") }
	}
	line := newProgress(a.errOut)
	o.Progress = func(done, peels int) { line.show("simulated %d of %s", done, count(peels, "peel")) }
	r, err := simulate.Run(ctx, groups, o)
	line.clear()
	if err != nil || a.output == formJSONL {
		return err
	}
	if a.output == formSVG {
		return r.SVG(a.out)
	}
	out := simulationOf(r, changes, measured, cmp.Or(f.zone, hostZone()))
	simulated := make([]string, len(r.Entries))
	for i, e := range r.Entries {
		simulated[i] = e.Name
	}
	return a.print(out, simulated, func() error { return a.simulationTables(out) })
}

// measuredFor is how far back recorded runs are read.
const measuredFor = 30 * 24 * time.Hour

// medians returns the median duration of each entry that has recorded runs.
func (a *app) medians(ctx context.Context, names []string) (map[string]time.Duration, error) {
	now := time.Now()
	past := backtest.Past{From: now.Add(-measuredFor), Until: now, Durations: map[string]backtest.Durations{}}
	if err := a.withClient(func(client *api.Client) error { return a.measure(ctx, client, names, &past) }); err != nil {
		return nil, err
	}
	medians := map[string]time.Duration{}
	for name, d := range past.Durations {
		if d.Runs > 0 {
			medians[name] = d.Median
		}
	}
	return medians, nil
}
