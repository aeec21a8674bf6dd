package peel

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/seed-c01c3da5/zester/peel/wire"
)

// errCanceled is the cause of the end of work whose job was canceled.
var errCanceled = errors.New("the job was canceled")

// maxCanceled is how many canceled jobs are remembered: a cancel may arrive before its request.
const maxCanceled = 1024

// pending is the part of a request that [pendingRequests] guards.
type pending struct {
	stop     context.CancelCauseFunc // of work that has started, else nil
	finished bool                    // a reply was sent or is about to be
}

// pendingRequests are the accepted requests without a reply, and the jobs that were canceled. Each request gets one
// reply, by the caller for which finish returns true or to which cancel returns the request.
type pendingRequests struct {
	mu       sync.Mutex
	requests []*request // at most some hundred: the queues and the readers bound them
	canceled []wire.JID // oldest first
}

// add adds a request. It returns false if its job was canceled before.
func (p *pendingRequests) add(r *request) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if slices.Contains(p.canceled, r.JID) {
		return false
	}
	p.requests = append(p.requests, r)
	return true
}

// count returns the number of accepted requests without a reply.
func (p *pendingRequests) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.requests)
}

// start returns the context for the work of a request; ok is false if the request is finished.
func (p *pendingRequests) start(ctx context.Context, r *request) (work context.Context, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.finished {
		return nil, false
	}
	work, r.stop = context.WithCancelCause(ctx)
	return work, true
}

// finish removes a request and reports whether the caller has to reply to it.
func (p *pendingRequests) finish(r *request) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.finishLocked(r)
}

func (p *pendingRequests) finishLocked(r *request) bool {
	if r.finished {
		return false
	}
	r.finished = true
	if r.stop != nil {
		r.stop(nil)
	}
	p.requests = slices.DeleteFunc(p.requests, func(other *request) bool { return other == r })
	return true
}

// cancel stops the work of a job and keeps it from starting. It returns the requests that had not started: the caller
// replies to them. A request that had started is replied to when its work ends.
func (p *pendingRequests) cancel(jid wire.JID) (notStarted []*request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Contains(p.canceled, jid) {
		if len(p.canceled) == maxCanceled {
			p.canceled = slices.Delete(p.canceled, 0, 1)
		}
		p.canceled = append(p.canceled, jid)
	}
	for _, r := range slices.Clone(p.requests) {
		if r.JID != jid {
			continue
		}
		if r.stop != nil {
			r.stop(errCanceled)
		} else if p.finishLocked(r) {
			notStarted = append(notStarted, r)
		}
	}
	return notStarted
}
