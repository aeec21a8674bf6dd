package dispatch

import (
	"sync/atomic"
	"time"

	"github.com/seed-c01c3da5/zester/master/job"
)

// Stats are counts since the dispatcher was made.
type Stats struct {
	Dispatched  uint64                // jobs that were published
	Refused     uint64                // requests that made no job
	Stored      uint64                // returns that counted
	Ended       map[job.Status]uint64 // jobs by how they ended
	Resent      uint64                // requests that went out again because their target was silent
	Unreachable uint64                // targets that stayed silent after that
	Strangers   uint64                // acks and returns from peels that were no targets
	Forged      uint64                // acks that were dropped and returns that counted as failed, because they were damaged or contradicted their subject
	Late        uint64                // returns that came while their job ended
	Retried     uint64                // writes that were tried again
	Fenced      uint64                // ends that were not written because another master owned the job
	Took        Durations             // of the jobs that ended, from record to end
}

// Durations say how long something took, how often.
type Durations struct {
	Count uint64
	Sum   time.Duration
	Upto  map[float64]uint64 // how many took at most so many seconds, each including the shorter ones
}

// bounds are what jobs are told apart by, in seconds.
var bounds = [...]float64{0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800}

// histogram counts durations. The last count is of those above all bounds.
type histogram struct {
	counts [len(bounds) + 1]atomic.Uint64
	sum    atomic.Int64
}

func (h *histogram) add(took time.Duration) {
	i := 0
	for i < len(bounds) && took.Seconds() > bounds[i] {
		i++
	}
	h.counts[i].Add(1)
	h.sum.Add(int64(took))
}

func (h *histogram) read() Durations {
	d := Durations{Sum: time.Duration(h.sum.Load()), Upto: map[float64]uint64{}}
	for i := range h.counts {
		d.Count += h.counts[i].Load()
		if i < len(bounds) {
			d.Upto[bounds[i]] = d.Count
		}
	}
	return d
}

type counters struct {
	dispatched, refused, stored, resent, unreachable atomic.Uint64
	strangers, forged, late, retried, fenced         atomic.Uint64
	complete, partial, timeout, failed, canceled     atomic.Uint64
	took                                             histogram
}

func (c *counters) ended(j *job.Job) {
	c.of(j.Status).Add(1)
	c.took.add(max(0, j.Updated.Sub(j.Created)))
}

func (c *counters) of(s job.Status) *atomic.Uint64 {
	switch s {
	case job.Complete:
		return &c.complete
	case job.Partial:
		return &c.partial
	case job.Timeout:
		return &c.timeout
	case job.Failed:
		return &c.failed
	}
	return &c.canceled
}

// Stats returns the counts. Each is exact; together they are not of one moment.
func (d *Dispatcher) Stats() Stats {
	c := &d.counts
	s := Stats{
		Dispatched: c.dispatched.Load(), Refused: c.refused.Load(), Stored: c.stored.Load(), Resent: c.resent.Load(),
		Unreachable: c.unreachable.Load(), Strangers: c.strangers.Load(), Forged: c.forged.Load(),
		Late: c.late.Load(), Retried: c.retried.Load(), Fenced: c.fenced.Load(),
		Ended: map[job.Status]uint64{}, Took: c.took.read(),
	}
	for _, status := range []job.Status{job.Complete, job.Partial, job.Timeout, job.Failed, job.Canceled} {
		s.Ended[status] = c.of(status).Load()
	}
	return s
}
