package dispatch

import (
	"sync/atomic"

	"github.com/seed-c01c3da5/zester/master/job"
)

// Stats are counts since the dispatcher was made.
type Stats struct {
	Dispatched  uint64                // jobs that were published
	Refused     uint64                // requests that made no job
	Stored      uint64                // returns
	Ended       map[job.Status]uint64 // jobs by how they ended
	Resent      uint64                // requests that went out again because their target was silent
	Unreachable uint64                // targets that stayed silent after that
	Strangers   uint64                // acks and returns from peels that were no targets
	Forged      uint64                // acks and returns that contradicted their subject or could not be read
	Repeated    uint64                // returns from targets that had returned
	Late        uint64                // acks and returns after the deadline
	Retried     uint64                // writes that were tried again
	Fenced      uint64                // ends that were not written because another master owned the job
}

type counters struct {
	dispatched, refused, stored, resent, unreachable   atomic.Uint64
	strangers, forged, repeated, late, retried, fenced atomic.Uint64
	complete, partial, timeout, failed, canceled       atomic.Uint64
}

func (c *counters) ended(s job.Status) { c.of(s).Add(1) }

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
		Repeated: c.repeated.Load(), Late: c.late.Load(), Retried: c.retried.Load(), Fenced: c.fenced.Load(),
		Ended: map[job.Status]uint64{},
	}
	for _, status := range []job.Status{job.Complete, job.Partial, job.Timeout, job.Failed, job.Canceled} {
		s.Ended[status] = c.of(status).Load()
	}
	return s
}
