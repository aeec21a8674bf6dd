// Package forecast computes what schedules will do. [Make] returns how many runs a fleet starts in each minute, [Fires]
// when one entry fires. The functions are pure.
//
// A forecast is an expected value. A fire without splay is one run of each peel in the minute of its nominal time. With
// random splay the runs are spread evenly over the possible delays; with splay_mode: host each peel has its known
// delay. The runs of an interval are spread evenly over time, because it counts from runs that the repo does not know.
// Windows are applied again after the delay, to the minute.
//
// The cost depends on the number of different timings, not of peels; only splay_mode: host is computed for each peel,
// once for an entry.
//
// Known gaps: long runs, failures, needs, run_on_start and the commands of operators are ignored.
package forecast

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// MaxFor is the longest time that a forecast covers.
const MaxFor = 7 * 24 * time.Hour

const (
	worstMinutes     = 10 // minutes in [Forecast.Worst]
	maxContributions = 3  // entries in [Minute.Contributions]
)

// Group is a set of peels with the same schedule. No peel is in two groups.
type Group struct {
	Peels    []target.PeelID
	Schedule schedule.Set
}

// Options say which time a forecast covers.
type Options struct {
	From time.Time      // truncated to the minute
	For  time.Duration  // whole minutes, up to MaxFor
	Zone *time.Location // zone of the forecast and of entries that name none; nil is [time.Local]
}

// Forecast is the expected number of runs of a fleet.
type Forecast struct {
	From    time.Time // a whole minute, in the zone of the options
	Peels   int
	Minutes []float64 // runs expected in each minute from From on
	Worst   []Minute  // up to ten with the most runs, most first
	Entries []Entry   // most runs first
}

// Minute is one minute with its expected runs.
type Minute struct {
	At            time.Time
	Runs          float64
	Contributions []Contribution // the up to three entries with the most runs
}

// Contribution is the expected number of runs of one entry in a minute.
type Contribution struct {
	Entry string
	Runs  float64
}

// Entry is the forecast of one entry, on all peels where it has the same timing, splay, windows and life.
type Entry struct {
	Name    string
	Peels   int
	Runs    float64       // expected in the time of the forecast
	Peak    float64       // highest number of runs in one minute
	Spread  time.Duration // the runs of one fire are spread over this duration
	By      Cause
	Meaning string // [schedule.Entry.Explain]
}

// Cause is the reason why the runs of one fire are spread over [Entry.Spread].
type Cause string

// The causes.
const (
	ByNothing  Cause = "none"
	ByRandom   Cause = "random"   // splay
	ByHost     Cause = "host"     // splay_mode: host
	ByInterval Cause = "interval" // an interval, which counts from each peel's own runs
)

// Until returns the exclusive end of the forecast.
func (f *Forecast) Until() time.Time {
	return f.From.Add(time.Duration(len(f.Minutes)) * time.Minute)
}

// Number formats a number of runs with three digits; 100 and more have no fraction.
func Number(runs float64) string {
	if runs >= 100 {
		return strconv.FormatFloat(runs, 'f', 0, 64)
	}
	return strconv.FormatFloat(runs, 'g', 3, 64)
}

// Total returns the number of runs in all minutes.
func (f *Forecast) Total() float64 {
	sum := 0.0
	for _, runs := range f.Minutes {
		sum += runs
	}
	return sum
}

// Make computes a forecast. It returns an error if the options are out of range or this host does not know a zone.
func Make(groups []Group, o Options) (*Forecast, error) {
	if o.For < time.Minute || o.For > MaxFor || o.For%time.Minute != 0 {
		return nil, fmt.Errorf("cannot forecast %v: it is between 1m and %dd, in whole minutes", o.For,
			MaxFor/(24*time.Hour))
	}
	if o.Zone == nil {
		o.Zone = time.Local
	}
	f := &Forecast{From: o.From.Truncate(time.Minute).In(o.Zone), Minutes: make([]float64, o.For/time.Minute)}
	for _, g := range groups {
		f.Peels += len(g.Peels)
	}
	loads, err := gather(groups, f.From)
	if err != nil {
		return nil, err
	}
	p := profile{from: f.From, minutes: make([]float64, len(f.Minutes))}
	for _, l := range loads {
		p.compute(l)
		for i, runs := range p.minutes {
			f.Minutes[i] += runs
		}
		f.Entries = append(f.Entries, p.sum())
	}
	f.findWorst()
	for _, l := range loads { // computed again, as the profiles of all entries would take too much memory
		p.compute(l)
		for i, m := range f.Worst {
			if runs := p.minutes[m.At.Sub(f.From)/time.Minute]; runs > 0 {
				f.Worst[i].add(Contribution{l.entry.Name, runs})
			}
		}
	}
	sorting.Stable(f.Entries, func(a, b Entry) int { return cmp.Compare(b.Runs, a.Runs) })
	return f, nil
}

// findWorst picks the minutes with the most runs; of equal ones the earlier.
func (f *Forecast) findWorst() {
	order := make([]int, 0, len(f.Minutes))
	for i, runs := range f.Minutes {
		if runs > 0 {
			order = append(order, i)
		}
	}
	sorting.Stable(order, func(a, b int) int { return cmp.Compare(f.Minutes[b], f.Minutes[a]) })
	for _, i := range order[:min(worstMinutes, len(order))] {
		f.Worst = append(f.Worst, Minute{At: f.From.Add(time.Duration(i) * time.Minute), Runs: f.Minutes[i]})
	}
}

// add keeps a contribution if it is among the largest of the minute.
func (m *Minute) add(c Contribution) {
	i, _ := slices.BinarySearchFunc(m.Contributions,
		c.Runs, func(c Contribution, runs float64) int { return cmp.Compare(runs, c.Runs) })
	m.Contributions = slices.Insert(m.Contributions, i, c)
	m.Contributions = m.Contributions[:min(len(m.Contributions), maxContributions)]
}

// load is an entry with all peels that run it.
type load struct {
	entry  *schedule.Entry
	timing schedule.Timing
	peels  [][]target.PeelID
	count  int

	offsets map[delays][]bin // delays of splay_mode: host that are computed already
}

// gather returns the different entries of all groups, sorted by name.
func gather(groups []Group, from time.Time) ([]*load, error) {
	loads := map[string]*load{}
	known := map[*schedule.Entry]*load{} // groups share entries
	for _, g := range groups {
		for _, e := range g.Schedule {
			if !e.Enabled {
				continue
			}
			l := known[e]
			if l == nil {
				key := keyOf(e)
				if l = loads[key]; l == nil {
					t, err := e.Timing(from.Location())
					if err != nil {
						return nil, fmt.Errorf("cannot forecast entry %s: %w", e.Name, err)
					}
					l = &load{entry: e, timing: t.Seen(from)}
					loads[key] = l
				}
				known[e] = l
			}
			l.peels, l.count = append(l.peels, g.Peels), l.count+len(g.Peels)
		}
	}
	keys := make([]string, 0, len(loads))
	for key, l := range loads {
		if l.count > 0 {
			keys = append(keys, key)
		}
	}
	sorting.Func(keys, func(a, b string) int {
		return cmp.Or(strings.Compare(loads[a].entry.Name, loads[b].entry.Name), strings.Compare(a, b))
	})
	sorted := make([]*load, len(keys))
	for i, key := range keys {
		sorted[i] = loads[key]
	}
	return sorted, nil
}

// keyOf returns a key that is equal for entries with the same forecast.
func keyOf(e *schedule.Entry) string {
	same := schedule.Entry{Name: e.Name, Clock: e.Clock, Splay: e.Splay, Windows: e.Windows, Life: e.Life}
	return string(same.Canonical())
}
