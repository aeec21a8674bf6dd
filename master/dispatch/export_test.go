package dispatch

import (
	"context"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// Steps are the points at which a test may stop a master, in their order.
var Steps = []string{
	string(stepAllowed), string(stepCreated), string(stepAnnounced), string(stepRunning), string(stepHalfSent), string(stepSent),
	string(stepReturned), string(stepEnded), string(stepArchived), string(stepTold), string(stepRemoved),
}

// StepBatch is the one that only jobs in batches come to.
const StepBatch = string(stepBatchWritten)

// StepEnded is the one between the final record and its event.
const StepEnded = string(stepEnded)

// LimitLive lets so many jobs that have not ended be dispatched. It must be called before the first request.
func (d *Dispatcher) LimitLive(n int) { d.maxLive = n }

// LimitLiveBytes lets the requests of jobs that have not ended take so many bytes. It must be called before the first request.
func (d *Dispatcher) LimitLiveBytes(n int) { d.maxLiveBytes = n }

// Watches reports whether a job is dispatched or watched here.
func (d *Dispatcher) Watches(jid wire.JID) bool { return d.find(jid) != nil }

// OnStep has f called at each step. It must be called before Run.
func (d *Dispatcher) OnStep(f func(step string)) { d.reached = func(s step) { f(string(s)) } }

// Overrun leaves no room for messages that wait, so that the client drops most of them. It must be called before Run.
func (d *Dispatcher) Overrun() { d.messages = make(chan *nats.Msg) }

// LimitPending lets so many bytes of messages wait to be counted. It must be called before Run.
func (d *Dispatcher) LimitPending(bytes int64) { d.maxBytes = bytes }

// Deafen ends the subscriptions of a job without a sign to its watch.
func (d *Dispatcher) Deafen(jid wire.JID) {
	for _, sub := range d.find(jid).subs {
		_ = sub.Unsubscribe()
	}
}

// InCluster makes the dispatcher behave as on a bus of several servers. It must be called before Run.
func (d *Dispatcher) InCluster() { d.clustered = func() bool { return true } }

// Reclaim takes over a job that was listed.
func (s *Scanner) Reclaim(ctx context.Context, listed *job.Job) error { return s.reclaim(ctx, listed) }

// Held says what is kept in memory for jobs that have not ended: watches, answers that wait for one, and bytes.
func (d *Dispatcher) Held() (watches, waiting, bytes int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.watches), len(d.waiting), d.liveBytes
}
