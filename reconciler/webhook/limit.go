package webhook

import (
	"slices"
	"sync"
	"time"
)

const (
	replayWindow = 10 * time.Minute
	maxSeen      = 20_000 // two for each delivery
	maxSources   = 10_000
	perMinute    = 1_200
)

// seen holds the IDs and bodies of the deliveries of ten minutes, at most the newest 20,000.
type seen struct {
	mu    sync.Mutex
	at    map[string]time.Time
	order []string
}

// before reports whether one of the keys was seen before, and adds all of them.
func (s *seen) before(now time.Time, keys ...string) (known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.order) > 0 && (len(s.order)+len(keys) > maxSeen || now.Sub(s.at[s.order[0]]) >= replayWindow) {
		delete(s.at, s.order[0])
		s.order = s.order[1:]
	}
	if s.at == nil {
		s.at = map[string]time.Time{}
	}
	for _, key := range keys {
		if _, ok := s.at[key]; ok {
			known = true
			continue
		}
		s.at[key] = now
		s.order = append(s.order, key)
	}
	return known
}

// forget removes keys, so that the delivery counts as new if it comes again.
func (s *seen) forget(keys ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range keys {
		delete(s.at, key)
	}
	s.order = slices.DeleteFunc(s.order, func(k string) bool { return slices.Contains(keys, k) })
}

// sources counts the requests of each address in the present minute.
type sources struct {
	mu     sync.Mutex
	minute time.Time
	count  map[string]int
}

// admit reports whether a source may make one more request.
func (s *sources) admit(source string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if minute := now.Truncate(time.Minute); !minute.Equal(s.minute) {
		s.minute, s.count = minute, map[string]int{}
	}
	n, known := s.count[source]
	if n >= perMinute || (!known && len(s.count) >= maxSources) {
		return false
	}
	s.count[source]++
	return true
}
