package apiserver

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"sync"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/settings/schedule/forecast"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

const (
	loadKept    = time.Minute // the forecast of the whole fleet
	loadEntries = 3           // of the worst minute
	loadsAtOnce = 1           // of a master: one of 10,000 peels takes a core for a second
)

// A loadForecast keeps the forecast of the whole fleet.
type loadForecast struct {
	mu    sync.Mutex // guards what follows
	load  *api.Load  // nil: none is kept
	until time.Time
}

// Load returns how many runs are expected on the peels within the limits of the caller, hour by hour.
func (s *Server) Load(ctx context.Context, from grants.Caller, q api.LoadRequest) (reply *api.Load, err error) {
	waited := s.forecasts.Do(ctx, func() { reply, err = s.load(ctx, from, q) })
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
	if peels != nil || q.Entry != "" || span != forecast.MaxFor {
		return s.forecast(s.o.Coverage.Schedules(peels, match), begin, span)
	}
	s.whole.mu.Lock()
	defer s.whole.mu.Unlock()
	if s.whole.load != nil && s.whole.load.From.Equal(begin) && time.Now().Before(s.whole.until) {
		return s.whole.load, nil
	}
	s.whole.load, err = s.forecast(s.o.Coverage.Schedules(nil, nil), begin, span)
	s.whole.until = time.Now().Add(loadKept)
	return s.whole.load, err
}

// forecast adds up the forecasts of all zones.
func (s *Server) forecast(
	zones map[*time.Location][]forecast.Group, from time.Time, span time.Duration,
) (*api.Load, error) {
	a := &api.Load{Master: s.o.ID, From: from}
	minutes := make([]float64, span/time.Minute)
	for zone, groups := range zones {
		f, err := forecast.Make(groups, forecast.Options{From: from, For: span, Zone: zone})
		if err != nil {
			return nil, err
		}
		a.Peels += f.Peels
		for i, runs := range f.Minutes {
			minutes[i] += runs
		}
	}
	a.Hours = make([]api.LoadHour, span/time.Hour)
	worst := 0
	for i, runs := range minutes {
		a.Hours[i/60].Runs += runs
		if runs > minutes[worst] {
			worst = i
		}
	}
	for i := range a.Hours {
		a.Hours[i].At = from.Add(time.Duration(i) * time.Hour)
	}
	var err error
	a.Worst.At, a.Worst.Runs = from.Add(time.Duration(worst)*time.Minute), minutes[worst]
	a.Worst.Entries, err = mostIn(zones, a.Worst.At)
	return a, err
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
