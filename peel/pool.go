package peel

import (
	"fmt"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/seed-c01c3da5/zester/peel/catalogue"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

const (
	queueLength = 64 // requests in each queue
	maxReaders  = 64 // read-only requests that run at once, of masters and of people each
)

// incoming are received messages. Those of masters and of people are apart, so that neither can fill the queue of the
// other.
type incoming struct {
	masters, people chan *nats.Msg
	subscriptions   []*nats.Subscription
}

// subscribe receives requests from now on, until they are closed.
func (p *Peel) subscribe(nc *nats.Conn) (*incoming, error) {
	in := &incoming{masters: make(chan *nats.Msg, 4*queueLength), people: make(chan *nats.Msg, queueLength)}
	id := p.o.ID.Wire()
	for subject, to := range map[string]chan *nats.Msg{
		wire.Cmd(id):         in.masters,
		wire.AllCancels:      in.masters,
		wire.Direct(id, "*"): in.people,
	} {
		sub, err := nc.ChanSubscribe(subject, to)
		if err != nil {
			return nil, fmt.Errorf("cannot listen for requests: %w", err)
		}
		in.subscriptions = append(in.subscriptions, sub)
	}
	return in, nil
}

// close ends the subscriptions. The connection stays, to send reports.
func (in *incoming) close() {
	for _, sub := range in.subscriptions {
		_ = sub.Unsubscribe() // fails on a closed connection only
	}
}

// A workerPool runs requests. Those of masters and of people have queues of their own, so that neither can fill the
// queues of the other.
type workerPool struct {
	masters, people queues
	workers         sync.WaitGroup
	run             func(*request)
}

type queues struct {
	readers  errgroup.Group // read-only requests that run
	host     chan *request  // requests that change the host
	schedule chan *request  // requests that change the schedule, or end it
	prompts  chan *request  // requests that ask a model, which can take minutes
}

// newWorkerPool starts workers for requests that change the host, one for requests that change the schedule, and one
// for prompts.
func newWorkerPool(workers int, run func(*request)) *workerPool {
	w := &workerPool{run: run}
	for _, q := range []*queues{&w.masters, &w.people} {
		q.host, q.schedule, q.prompts = make(chan *request, queueLength), make(chan *request,
			queueLength), make(chan *request, queueLength)
		q.readers.SetLimit(maxReaders)
	}
	w.workers.Go(func() { w.work(w.masters.schedule, w.people.schedule) })
	w.workers.Go(func() { w.work(w.masters.prompts, w.people.prompts) })
	for range workers {
		w.workers.Go(func() { w.work(w.masters.host, w.people.host) })
	}
	return w
}

// work runs queued requests until both queues are closed. If both hold requests it takes either at random.
func (w *workerPool) work(masters, people <-chan *request) {
	for masters != nil || people != nil {
		select {
		case r, open := <-masters:
			if !open {
				masters = nil
				continue
			}
			w.run(r)
		case r, open := <-people:
			if !open {
				people = nil
				continue
			}
			w.run(r)
		}
	}
}

// close runs the queued requests and returns when the last request has ended.
func (w *workerPool) close() {
	for _, q := range []*queues{&w.masters, &w.people} {
		close(q.host)
		close(q.schedule)
		close(q.prompts)
		_ = q.readers.Wait()
	}
	w.workers.Wait()
}

// enqueue starts or queues a request. It returns false if there is no room for it.
func (w *workerPool) enqueue(r *request) bool {
	q := &w.masters
	if r.direct != nil {
		q = &w.people
	}
	if runsAtOnce(r.Function) {
		return q.readers.TryGo(func() error { w.run(r); return nil })
	}
	queue := q.host
	switch {
	case strings.HasPrefix(r.Function, "schedule."), r.Function == catalogue.Wipe:
		queue = q.schedule
	case r.Function == catalogue.Prompt:
		queue = q.prompts
	}
	select {
	case queue <- r:
		return true
	default:
		return false
	}
}

// runsAtOnce reports whether a function needs no place in a queue: it changes nothing, or does not exist.
func runsAtOnce(function string) bool {
	f, known := catalogue.Lookup(function)
	return !known || f.ReadOnly
}
