// Package forecast says what schedules will do: when one entry fires, and how many runs a whole fleet starts in each
// minute. It is arithmetic alone, on what the repo says and the peels it says it for.
//
// A forecast is an expectation. A fire without splay is one run of each peel in the minute of its nominal time. With
// a random splay the runs are spread evenly over the delays that the fire can get; with the host's splay each peel has
// its own, which is known. An interval counts from runs that the repo knows nothing of, so its runs are spread evenly
// over time. Windows are looked at again after the delay, to the minute. Runs that take long, fail or are made by
// needs, by run_on_start or by people are not foreseen.
//
// The cost follows the number of different timings, not that of peels: only the host's splay is computed for each of
// them, once for an entry.
package forecast

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// MaxFor is the longest time that a forecast covers.
const MaxFor = 7 * 24 * time.Hour

const (
	worstMinutes = 10
	mostShares   = 3 // entries named of a minute
)

// Group is a set of peels with the schedule they share. No peel is in two groups.
type Group struct {
	Peels    []target.PeelID
	Schedule schedule.Set
}

// Options say what a forecast covers.
type Options struct {
	From time.Time      // the seconds are cut off
	For  time.Duration  // whole minutes, up to MaxFor
	Zone *time.Location // of entries that name none, and of the answer; nil is [time.Local]
}

// Forecast is what a fleet's schedules will do.
type Forecast struct {
	From    time.Time // a whole minute, in the zone of the options
	Peels   int
	Minutes []float64 // runs expected in each minute from From on
	Worst   []Minute  // up to ten with the most runs, most first
	Entries []Entry   // most runs first
}

// Minute is one minute with what runs in it.
type Minute struct {
	At     time.Time
	Runs   float64
	Shares []Share // of the up to three entries that have most of it
}

// Share is an entry's part of a minute.
type Share struct {
	Entry string
	Runs  float64
}

// Entry is what becomes of one entry, on all peels where it has the same timing, splay, windows and life.
type Entry struct {
	Name    string
	Peels   int
	Runs    float64 // expected in the time of the forecast
	Peak    float64 // the most of them in one minute
	Spread  time.Duration
	By      Cause
	Meaning string // [schedule.Entry.Explain]
}

// Cause is why runs of one fire do not come together: over [Entry.Spread] they are spread by it.
type Cause string

// The causes.
const (
	ByNothing  Cause = "none"
	ByRandom   Cause = "random"   // splay
	ByHost     Cause = "host"     // splay_mode: host
	ByInterval Cause = "interval" // which counts from each peel's own runs
)

// Until is the end of the forecast, which is no part of it.
func (f *Forecast) Until() time.Time {
	return f.From.Add(time.Duration(len(f.Minutes)) * time.Minute)
}

// Number writes a number of runs, or a part of one, with three digits, and large ones without a fraction.
func Number(runs float64) string {
	if runs >= 100 {
		return strconv.FormatFloat(runs, 'f', 0, 64)
	}
	return strconv.FormatFloat(runs, 'g', 3, 64)
}

// Total is the number of runs in all minutes.
func (f *Forecast) Total() float64 {
	sum := 0.0
	for _, runs := range f.Minutes {
		sum += runs
	}
	return sum
}

// Make computes a forecast. The error is about options out of range, or a zone that this host does not know.
func Make(groups []Group, o Options) (*Forecast, error) {
	if o.For < time.Minute || o.For > MaxFor || o.For%time.Minute != 0 {
		return nil, fmt.Errorf("cannot forecast %v: it is between 1m and %dd, in whole minutes", o.For, MaxFor/(24*time.Hour))
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
	for _, l := range loads { // again, as the profiles of all entries may be too much to keep
		p.compute(l)
		for i, m := range f.Worst {
			if runs := p.minutes[m.At.Sub(f.From)/time.Minute]; runs > 0 {
				f.Worst[i].share(l.entry.Name, runs)
			}
		}
	}
	slices.SortStableFunc(f.Entries, func(a, b Entry) int { return cmp.Compare(b.Runs, a.Runs) })
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
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(f.Minutes[b], f.Minutes[a]) })
	for _, i := range order[:min(worstMinutes, len(order))] {
		f.Worst = append(f.Worst, Minute{At: f.From.Add(time.Duration(i) * time.Minute), Runs: f.Minutes[i]})
	}
}

// share notes the part of an entry if it is among the largest.
func (m *Minute) share(name string, runs float64) {
	i, _ := slices.BinarySearchFunc(m.Shares, runs, func(s Share, runs float64) int { return cmp.Compare(runs, s.Runs) })
	m.Shares = slices.Insert(m.Shares, i, Share{name, runs})
	m.Shares = m.Shares[:min(len(m.Shares), mostShares)]
}

// load is an entry with all peels that have it.
type load struct {
	entry  *schedule.Entry
	timing schedule.Timing
	peels  [][]target.PeelID
	count  int

	offsets map[delays][]bin // of the host's splay, as far as they are known
}

// gather finds the different entries of all groups, sorted by name.
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
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(strings.Compare(loads[a].entry.Name, loads[b].entry.Name), strings.Compare(a, b))
	})
	sorted := make([]*load, len(keys))
	for i, key := range keys {
		sorted[i] = loads[key]
	}
	return sorted, nil
}

// keyOf is equal for entries that differ in nothing that a forecast looks at.
func keyOf(e *schedule.Entry) string {
	same := schedule.Entry{Name: e.Name, Clock: e.Clock, Splay: e.Splay, Windows: e.Windows, Life: e.Life}
	return string(same.Canonical())
}
