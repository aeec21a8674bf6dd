package webhook

import (
	"slices"
	"sync"
	"time"
)

const (
	replayWindow = 10 * time.Minute
	maxSeen      = 10_000
	maxSources   = 10_000
	perMinute    = 1_200
)

// seen remembers deliveries for ten minutes, the newest 10,000 at most.
type seen struct {
	mu    sync.Mutex
	at    map[string]time.Time
	order []string
}

// before reports whether a hook had this delivery already, and remembers it.
func (s *seen) before(hook, id string, now time.Time) bool {
	key := hook + "\x00" + id
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.order) > 0 && (len(s.order) >= maxSeen || now.Sub(s.at[s.order[0]]) >= replayWindow) {
		delete(s.at, s.order[0])
		s.order = s.order[1:]
	}
	if _, ok := s.at[key]; ok {
		return true
	}
	if s.at == nil {
		s.at = map[string]time.Time{}
	}
	s.at[key] = now
	s.order = append(s.order, key)
	return false
}

// forget has a delivery count as new if it comes again.
func (s *seen) forget(hook, id string) {
	key := hook + "\x00" + id
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.at, key)
	s.order = slices.DeleteFunc(s.order, func(k string) bool { return k == key })
}

// sources counts requests by address in whole minutes.
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
