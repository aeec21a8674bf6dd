package peel

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/peel/wire"
)

// errCanceled is the cause of the end of work whose job was canceled.
var errCanceled = errors.New("the job was canceled")

// rememberedCancels is how many canceled jobs are kept in mind whose request has not come: a cancel may overtake it.
const rememberedCancels = 1024

// A flight is an admitted request until it is answered.
type flight struct {
	order
	stop context.CancelCauseFunc // of work that has started
	over bool                    // it is answered, or about to be
}

// flights are the admitted requests that are not answered, and the jobs that were canceled. Each flight is answered
// once: by whoever ends it first.
type flights struct {
	mu       sync.Mutex
	aloft    map[wire.JID][]*flight
	canceled []wire.JID // oldest first
}

func newFlights() *flights { return &flights{aloft: map[wire.JID][]*flight{}} }

// enter begins a flight. It is over already where the job was canceled before.
func (f *flights) enter(o order) *flight {
	f.mu.Lock()
	defer f.mu.Unlock()
	fl := &flight{order: o, over: slices.Contains(f.canceled, o.JID)}
	if !fl.over {
		f.aloft[o.JID] = append(f.aloft[o.JID], fl)
	}
	return fl
}

// begin lets the work of a flight start; false if that is over.
func (f *flights) begin(ctx context.Context, fl *flight) (work context.Context, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fl.over {
		return nil, false
	}
	work, fl.stop = context.WithCancelCause(ctx)
	return work, true
}

// land ends a flight; true for the caller who has to answer.
func (f *flights) land(fl *flight) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.remove(fl)
}

func (f *flights) remove(fl *flight) bool {
	if fl.over {
		return false
	}
	fl.over = true
	if fl.stop != nil {
		fl.stop(nil)
	}
	rest := slices.DeleteFunc(f.aloft[fl.JID], func(other *flight) bool { return other == fl })
	if f.aloft[fl.JID] = rest; len(rest) == 0 {
		delete(f.aloft, fl.JID)
	}
	return true
}

// cancel stops the work of a job, keeps it from starting, and returns the flights that were waiting, for the caller to
// answer. Work that has started is answered where it ends.
func (f *flights) cancel(jid wire.JID) (waiting []*flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Contains(f.canceled, jid) {
		if len(f.canceled) == rememberedCancels {
			f.canceled = slices.Delete(f.canceled, 0, 1)
		}
		f.canceled = append(f.canceled, jid)
	}
	for _, fl := range slices.Clone(f.aloft[jid]) {
		if fl.stop != nil {
			fl.stop(errCanceled)
		} else if f.remove(fl) {
			waiting = append(waiting, fl)
		}
	}
	return waiting
}

// cancel is called for every cancel on the bus, those of jobs of others included. Masters alone may publish there, but
// a neighbour could aim an answer of the server at the subject, so it is read.
func (p *Peel) cancel(msg *nats.Msg) {
	event, err := wire.DecodeCancel(msg)
	if err != nil {
		p.log.Warn("cancel dropped", "err", err)
		return
	}
	for _, fl := range p.flights.cancel(event.JID) {
		p.log.Info("request canceled before its turn", "jid", event.JID, "function", fl.Function)
		p.reply(fl.order, canceled(wire.Result{}))
	}
}

// canceled marks what work gave that was stopped, or never started, because its job was canceled.
func canceled(r wire.Result) wire.Result {
	r.Success, r.Outcome, r.Error = false, wire.Canceled, errCanceled.Error()
	return r
}
