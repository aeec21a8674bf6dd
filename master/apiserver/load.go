package apiserver

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/settings/schedule/forecast"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	loadKept    = time.Minute
	maxLoads    = 16 // forecasts that are kept, each of 90 KB
	loadEntries = 3  // of the worst minute
	loadsAtOnce = 1  // of a master: one of 10,000 peels takes a core for a second
	loadsEach   = 4  // of a caller, which are carried out or wait
)

// A loadKey is what a kept forecast is about.
type loadKey struct {
	peels [sha256.Size]byte // a digest of their IDs; zero: all peels
	entry string
	span  time.Duration
}

// loadKeyOf returns the key of a forecast. It has the peels in place of caller and target, so that a change of limits
// or facts holds at once.
func loadKeyOf(peels map[target.PeelID]bool, entry string) loadKey {
	if peels == nil {
		return loadKey{entry: entry}
	}
	h := sha256.New()
	for _, id := range slices.Sorted(maps.Keys(peels)) {
		fmt.Fprintln(h, id)
	}
	return loadKey{peels: [sha256.Size]byte(h.Sum(nil)), entry: entry}
}

// A keptLoad is a forecast.
type keptLoad struct {
	load    *api.Load
	minutes []float64 // runs, of [forecast.MaxFor] alone
	until   time.Time
}

// loadForecasts keeps forecasts for [loadKept], at most maxLoads.
type loadForecasts struct {
	mu   sync.Mutex // guards what follows
	kept map[loadKey]keptLoad
}

// get returns a forecast that begins at an hour and is still kept.
func (l *loadForecasts) get(key loadKey, begin time.Time) (keptLoad, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k, known := l.kept[key]
	return k, known && k.load.From.Equal(begin) && time.Now().Before(k.until)
}

// put keeps a forecast in the place of those that have ended, or else of the oldest.
func (l *loadForecasts) put(key loadKey, k keptLoad) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kept == nil {
		l.kept = map[loadKey]keptLoad{}
	}
	delete(l.kept, key)
	for len(l.kept) >= maxLoads {
		oldest := slices.MinFunc(slices.Collect(maps.Keys(l.kept)), func(a, b loadKey) int {
			return l.kept[a].until.Compare(l.kept[b].until)
		})
		delete(l.kept, oldest)
	}
	l.kept[key] = k
}

// Load returns how many runs are expected on the peels within the limits of the caller, hour by hour.
func (s *Server) Load(ctx context.Context, from grants.Caller, q api.LoadRequest) (reply *api.Load, err error) {
	waited := s.forecasts.DoFor(ctx, from.User, func() { reply, err = s.load(ctx, from, q) })
	return reply, cmp.Or(waited, err)
}

func (s *Server) load(ctx context.Context, from grants.Caller, q api.LoadRequest) (*api.Load, error) {
	span := forecast.MaxFor
	if q.For != "" {
		d, err := strictyaml.ParseDuration(q.For)
		if err != nil || d < time.Hour || d > forecast.MaxFor {
			return nil, fmt.Errorf("%w: for is %.16q, want 1h to 7d", errInvalid, q.For)
		}
		span = d.Truncate(time.Hour)
	}
	if q.Entry == "*" {
		q.Entry = ""
	}
	if q.Entry != "" && !grants.IsGlob(q.Entry) {
		return nil, fmt.Errorf("%w: %.100q is no glob for entries, such as backup*", errInvalid, q.Entry)
	}
	peels, err := s.coveredFor(ctx, from, q.Target)
	if err != nil {
		return nil, err
	}
	match := func(entry string) bool {
		matched, _ := path.Match(q.Entry, entry)
		return matched || q.Entry == ""
	}
	begin := time.Now().UTC().Truncate(time.Hour)
	key := loadKeyOf(peels, q.Entry)
	key.span = span
	if kept, known := s.loads.get(key, begin); known {
		return kept.load, nil
	}
	zones := s.o.Coverage.Schedules(peels, match)
	week := key
	week.span = forecast.MaxFor
	whole, known := s.loads.get(week, begin)
	if !known {
		if whole, err = s.forecast(zones, begin); err != nil {
			return nil, err
		}
		s.loads.put(week, whole)
	}
	if span == forecast.MaxFor {
		return whole.load, nil
	}
	a := *whole.load
	a.Hours = a.Hours[:span/time.Hour]
	a.Worst = worstOf(begin, whole.minutes[:span/time.Minute])
	if a.Worst.Entries, err = mostIn(zones, a.Worst.At); err != nil {
		return nil, err
	}
	s.loads.put(key, keptLoad{load: &a, until: whole.until})
	return &a, nil
}

// worstOf returns the first minute with the most runs, without its entries.
func worstOf(from time.Time, minutes []float64) api.LoadMinute {
	worst := slices.Index(minutes, slices.Max(minutes))
	return api.LoadMinute{At: from.Add(time.Duration(worst) * time.Minute), Runs: minutes[worst]}
}

// forecast adds up the forecasts of all zones.
func (s *Server) forecast(zones map[*time.Location][]forecast.Group, from time.Time) (keptLoad, error) {
	a := &api.Load{Master: s.o.ID, From: from}
	minutes := make([]float64, forecast.MaxFor/time.Minute)
	for zone, groups := range zones {
		f, err := forecast.Make(groups, forecast.Options{From: from, For: forecast.MaxFor, Zone: zone})
		if err != nil {
			return keptLoad{}, err
		}
		a.Peels += f.Peels
		for i, runs := range f.Minutes {
			minutes[i] += runs
		}
	}
	a.Hours = make([]api.LoadHour, forecast.MaxFor/time.Hour)
	for i, runs := range minutes {
		a.Hours[i/60].Runs += runs
	}
	for i := range a.Hours {
		a.Hours[i].At = from.Add(time.Duration(i) * time.Hour)
	}
	a.Worst = worstOf(from, minutes)
	var err error
	a.Worst.Entries, err = mostIn(zones, a.Worst.At)
	return keptLoad{a, minutes, time.Now().Add(loadKept)}, err
}

// mostIn returns the entries with the most runs in a minute.
func mostIn(zones map[*time.Location][]forecast.Group, minute time.Time) ([]api.LoadEntry, error) {
	runs := map[string]float64{}
	for zone, groups := range zones {
		f, err := forecast.Make(groups, forecast.Options{From: minute, For: time.Minute, Zone: zone})
		if err != nil {
			return nil, err
		}
		for _, e := range f.Entries {
			if e.Runs > 0 {
				runs[e.Name] += e.Runs
			}
		}
	}
	names := sorting.Values(maps.Keys(runs), func(a, b string) int {
		return cmp.Or(cmp.Compare(runs[b], runs[a]), cmp.Compare(a, b))
	})
	entries := []api.LoadEntry{}
	for _, name := range names[:min(loadEntries, len(names))] {
		entries = append(entries, api.LoadEntry{Entry: name, Runs: runs[name]})
	}
	return entries, nil
}
