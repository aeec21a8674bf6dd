// Package backtest tests changed schedule entries against the past: it computes what they would have done in the last
// days, with the recorded durations of runs. Call [Of] with the changes and a [Past]; [Result.Lines] is for people.
//
// For each entry it counts the fires that would have come while the run before was in flight, those that windows and
// blackouts keep from running, and those that come while another entry of the same peel runs; and for all of them the
// load by the minute. A run is taken to last as long as 95 of 100 recorded runs of its entry.
//
// The package is pure. It ignores the lives of entries, so that an entry that is to begin tomorrow is tested too.
//
// Known gaps: of an entry without records the durations are estimates from what its peels have counted, and of one
// that never ran there is none, so that its overlaps are not known. Fires are compared without splay; only the load
// has it. Other entries are those of the first peel with the change.
package backtest

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/schedule/forecast"
	"github.com/seed-c01c3da5/zester/settings/schedule/window"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Bounds of a test.
const (
	MinPast = time.Hour
	MaxPast = 90 * 24 * time.Hour

	maxEntries = 50      // changes that are tested
	maxFires   = 200_000 // of one entry that are looked at: a fire every 13 s for 30 days
	maxPairs   = 3       // other entries that an entry overlaps, the most often first
)

// A Change is one entry that changes in the same way on some peels.
type Change struct {
	Entry         string
	Peels         []target.PeelID
	Before, After *schedule.Entry // nil: there is none
	Beside        schedule.Set    // all entries of these peels after the change
}

// A Past is what is known of the runs of a time.
type Past struct {
	From, Until time.Time
	Zone        *time.Location // of entries that name none; nil is [time.Local]
	// Recorded is when the oldest record is from; zero: there is none. Records are kept for 7 days.
	Recorded  time.Time
	Durations map[string]Durations // of runs, by entry
}

// Durations are how long the recorded runs of an entry took.
type Durations struct {
	Runs        int
	Median, P95 time.Duration
	Counted     bool // no run was recorded: peels have counted them, so that Median and P95 are about right
}

// DurationsOf returns the median and the 95th percentile of runs.
func DurationsOf(took []time.Duration) Durations {
	if len(took) == 0 {
		return Durations{}
	}
	took = slices.Clone(took)
	slices.Sort(took)
	rank := func(percent int) time.Duration { return took[(percent*len(took)+99)/100-1] }
	return Durations{Runs: len(took), Median: rank(50), P95: rank(95)}
}

// A Result is what changed entries would have done.
type Result struct {
	From     time.Time `json:"from"`
	Until    time.Time `json:"until"`
	Recorded time.Time `json:"recorded,omitzero"` // since when there are records of runs; absent: there are none
	Entries  []Entry   `json:"entries"`           // by name; those that are removed are left out
	More     int       `json:"more,omitempty"`    // changes that were not tested
	Load     Load      `json:"load"`
}

// An Entry is what one changed entry would have done on each of its peels.
type Entry struct {
	Entry  string  `json:"entry"`
	Peels  int     `json:"peels"`
	Before int     `json:"fires_before"` // without the change
	Fires  int     `json:"fires"`        // with it, inside its windows
	Runs   int     `json:"recorded_runs"`
	Median float64 `json:"median_seconds"` // of the recorded runs
	P95    float64 `json:"p95_seconds"`
	// Counted: no run was recorded. The runs are those that peels have counted, and Median and P95 are about right.
	Counted bool `json:"counted,omitempty"`
	// Overlaps are fires that come while maxrunning runs are in flight, if each takes P95; IfRunning says what becomes
	// of them.
	Overlaps  int                `json:"overlaps"`
	IfRunning schedule.IfRunning `json:"if_running"`
	Outside   int                `json:"outside"`  // nominal times outside the windows
	Blackout  int                `json:"blackout"` // nominal times in a blackout
	// fires whose run of P95 would last beyond the windows or into a blackout
	Into   int    `json:"into"`
	Beside []Pair `json:"beside"` // other entries of the first peel, the most fires first
}

// A Pair counts the fires of an entry at which another one runs, or begins to run before the run of the fire has ended.
type Pair struct {
	Entry string `json:"entry"`
	Fires int    `json:"fires"`
}

// Load counts the changed entries alone, on all their peels.
type Load struct {
	Before Peaks `json:"before"`
	After  Peaks `json:"after"`
}

// Peaks are the largest numbers in one minute, the first minute of them.
type Peaks struct {
	Starts   float64   `json:"starts"` // expected
	StartsAt time.Time `json:"starts_at,omitzero"`
	// InFlight is the expected number of runs at a time, if each takes P95.
	InFlight   float64   `json:"in_flight"`
	InFlightAt time.Time `json:"in_flight_at,omitzero"`
}

// Of returns what the changed entries would have done.
func Of(changes []Change, past Past) (*Result, error) {
	if past.Zone == nil {
		past.Zone = time.Local
	}
	past.From, past.Until = past.From.Truncate(time.Minute).In(past.Zone), past.Until.Truncate(time.Minute).In(
		past.Zone,
	)
	r := &Result{From: past.From, Until: past.Until, Recorded: past.Recorded, Entries: []Entry{}}
	if r.More = max(0, len(changes)-maxEntries); r.More > 0 {
		changes = changes[:maxEntries]
	}
	for _, c := range changes {
		if c.After == nil {
			continue
		}
		e, err := past.entry(c)
		if err != nil {
			return nil, fmt.Errorf("cannot test %s: %w", c.Entry, err)
		}
		r.Entries = append(r.Entries, e)
	}
	sorting.Stable(r.Entries, func(a, b Entry) int { return strings.Compare(a.Entry, b.Entry) })
	var err error
	if r.Load.Before, err = past.peaks(changes, func(c Change) *schedule.Entry { return c.Before }); err != nil {
		return nil, err
	}
	r.Load.After, err = past.peaks(changes, func(c Change) *schedule.Entry { return c.After })
	return r, err
}

func (p *Past) entry(c Change) (Entry, error) {
	took := p.Durations[c.Entry]
	e := Entry{
		Entry: c.Entry, Peels: len(c.Peels), Runs: took.Runs, Median: seconds(took.Median), P95: seconds(took.P95),
		Counted:   took.Counted,
		IfRunning: c.After.Overlap.IfRunning, Beside: []Pair{},
	}
	before, _, err := p.fires(c.Before)
	if err != nil {
		return e, err
	}
	fires, timing, err := p.fires(c.After)
	if err != nil {
		return e, err
	}
	e.Before, e.Fires = len(before), len(fires)
	if c.After.Clock.Interval == (schedule.Interval{}) || c.After.Clock.IntervalFrom != schedule.FromEnd {
		e.Overlaps = overlaps(fires, took.P95, c.After.Overlap)
	}
	for _, at := range fires {
		if took.P95 > 0 && timing.Window(at.Add(took.P95)) != window.Open {
			e.Into++
		}
	}
	e.Beside, err = p.beside(c, fires)
	if !c.After.Enabled {
		return e, err
	}
	n := 0
	for at := range timing.Between(p.From, p.Until) {
		switch timing.Window(at) {
		case window.Outside:
			e.Outside++
		case window.Blackout:
			e.Blackout++
		}
		if n++; n == maxFires {
			break
		}
	}
	return e, err
}

// overlaps returns how many fires come while as many runs as allowed are in flight, if each run takes as long as given.
// A fire that is skipped does not run.
func overlaps(fires []time.Time, took time.Duration, o schedule.Overlap) (n int) {
	limit := o.MaxRunning
	if o.IfRunning == schedule.IfRunningAllow {
		limit = 1 // there is none: every fire beside another run counts
	}
	var ends []time.Time // of the runs in flight, sorted
	waits := false       // a queued fire, which runs when the first of them ends
	for _, at := range fires {
		for len(ends) > 0 && !ends[0].After(at) {
			if waits {
				waits, ends = false, append(ends, ends[0].Add(took))
			}
			ends = ends[1:]
		}
		if len(ends) >= limit {
			n++
			switch o.IfRunning {
			case schedule.IfRunningSkip:
				continue
			case schedule.IfRunningQueue:
				waits = true
				continue
			}
			ends = ends[1:] // it is cancelled, or does not count
		}
		ends = append(ends, at.Add(took))
	}
	return n
}

// fires returns the fires of an entry in the past, none for nil, without its splay and life.
func (p *Past) fires(e *schedule.Entry) (all []time.Time, timing schedule.Timing, err error) {
	if e == nil {
		return nil, timing, nil
	}
	lasting := *e
	lasting.Life = schedule.Life{}
	if timing, err = e.Timing(p.Zone); err != nil {
		return nil, timing, err
	}
	timing = timing.Seen(p.From)
	for at := range forecast.Fires(&lasting, timing, p.From, p.Until) {
		if all = append(all, at); len(all) == maxFires {
			break
		}
	}
	return all, timing, nil
}

// beside returns the other entries that would have run at the same time.
func (p *Past) beside(c Change, fires []time.Time) ([]Pair, error) {
	pairs := []Pair{}
	own := p.Durations[c.Entry].P95
	for _, name := range slices.Sorted(maps.Keys(c.Beside)) {
		other := c.Beside[name]
		took := p.Durations[name].P95
		if name == c.Entry || own == 0 && took == 0 {
			continue
		}
		begins, _, err := p.fires(other)
		if err != nil {
			return nil, err
		}
		if n := meet(fires, own, begins, took); n > 0 {
			pairs = append(pairs, Pair{name, n})
		}
	}
	sorting.Stable(pairs, func(a, b Pair) int { return cmp.Compare(b.Fires, a.Fires) })
	return pairs[:min(maxPairs, len(pairs))], nil
}

// meet returns how many of the runs that begin at fires share an instant with one of the other runs. Both lists are
// sorted.
func meet(fires []time.Time, took time.Duration, others []time.Time, otherTook time.Duration) (n int) {
	i := 0
	for _, at := range fires {
		for i < len(others) && others[i].Add(otherTook).Before(at) {
			i++
		}
		if i < len(others) && !others[i].After(at.Add(took)) {
			n++
		}
	}
	return n
}

// peaks returns the largest load of one side of the changes.
func (p *Past) peaks(changes []Change, side func(Change) *schedule.Entry) (Peaks, error) {
	byEntry := map[string][]forecast.Group{}
	for _, c := range changes {
		if e := side(c); e != nil {
			lasting := *e
			lasting.Life = schedule.Life{}
			byEntry[c.Entry] = append(byEntry[c.Entry], forecast.Group{
				Peels:    c.Peels,
				Schedule: schedule.Set{c.Entry: &lasting},
			})
		}
	}
	minutes := max(0, int(p.Until.Sub(p.From)/time.Minute))
	starts, inFlight := make([]float64, minutes), make([]float64, minutes)
	for name, groups := range byEntry {
		own, err := p.starts(groups, minutes)
		if err != nil {
			return Peaks{}, err
		}
		lasts := max(1, int((p.Durations[name].P95+time.Minute-1)/time.Minute))
		running := 0.0
		for i, n := range own {
			running += n
			if i >= lasts {
				running -= own[i-lasts]
			}
			starts[i] += n
			inFlight[i] += running
		}
	}
	var out Peaks
	out.Starts, out.StartsAt = p.largest(starts)
	out.InFlight, out.InFlightAt = p.largest(inFlight)
	return out, nil
}

// starts returns the expected starts in each minute of the past.
func (p *Past) starts(groups []forecast.Group, minutes int) (all []float64, err error) {
	for len(all) < minutes {
		f, err := forecast.Make(groups, forecast.Options{
			From: p.From.Add(time.Duration(len(all)) * time.Minute), Zone: p.Zone,
			For: min(forecast.MaxFor, time.Duration(minutes-len(all))*time.Minute),
		})
		if err != nil {
			return nil, err
		}
		all = append(all, f.Minutes...)
	}
	return all, nil
}

// largest returns the largest of the minutes, rounded to 0.001, and the first minute that has it.
func (p *Past) largest(minutes []float64) (n float64, at time.Time) {
	for i, x := range minutes {
		if x = math.Round(1000*x) / 1000; x > n {
			n, at = x, p.From.Add(time.Duration(i)*time.Minute)
		}
	}
	return n, at
}

func seconds(d time.Duration) float64 { return math.Round(1000*d.Seconds()) / 1000 }
