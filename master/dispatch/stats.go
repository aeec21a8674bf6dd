package dispatch

import (
	"maps"
	"sync"
	"time"

	"github.com/seed-c01c3da5/zester/master/job"
)

// Stats are counts since the dispatcher was made.
type Stats struct {
	Dispatched  uint64                // jobs that were published
	Refused     uint64                // requests that made no job
	Stored      uint64                // returns that counted
	Ended       map[job.Status]uint64 // jobs by final status
	Resent      uint64                // requests sent again because their target was silent
	Unreachable uint64                // targets that stayed silent after that
	Strangers   uint64                // acks and returns from peels that were no targets
	// acks that were dropped and returns that counted as failed, because they were damaged or contradicted their
	// subject
	Forged  uint64
	Late    uint64    // returns that came while their job ended
	Retried uint64    // writes that were tried again
	Fenced  uint64    // times that a job belonged to another master
	Took    Durations // of the jobs that ended, from record to end
}

// Durations are a histogram.
type Durations struct {
	Count uint64
	Sum   time.Duration
	Upto  map[float64]uint64 // durations of at most so many seconds, each count including the shorter ones
}

// bounds are the limits of [Durations.Upto] in seconds.
var bounds = [...]float64{0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800}

func newStats() Stats {
	s := Stats{Ended: map[job.Status]uint64{}, Took: Durations{Upto: map[float64]uint64{}}}
	for _, status := range []job.Status{job.Complete, job.Partial, job.Timeout, job.Failed, job.Canceled} {
		s.Ended[status] = 0
	}
	for _, bound := range bounds {
		s.Took.Upto[bound] = 0
	}
	return s
}

func (s *Stats) addEnded(j *job.Job) {
	s.Ended[j.Status]++
	took := max(0, j.Updated.Sub(j.Created))
	s.Took.Count++
	s.Took.Sum += took
	for _, bound := range bounds {
		if took.Seconds() <= bound {
			s.Took.Upto[bound]++
		}
	}
}

type counters struct {
	mu    sync.Mutex
	stats Stats
}

// count changes the counts.
func (d *Dispatcher) count(add func(*Stats)) {
	d.counts.mu.Lock()
	defer d.counts.mu.Unlock()
	add(&d.counts.stats)
}

// Stats returns the counts of one moment.
func (d *Dispatcher) Stats() (s Stats) {
	d.count(func(now *Stats) {
		s = *now
		s.Ended, s.Took.Upto = maps.Clone(s.Ended), maps.Clone(s.Took.Upto)
	})
	return s
}
