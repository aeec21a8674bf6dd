package api

import (
	"sync"

	"github.com/nats-io/nats.go"
)

const (
	// backlogBytes bounds the received messages that wait to be read. A job of 10,000 peels with 64 KiB of output each
	// is twenty times that, and a person may read it in a pager.
	backlogBytes = 32 << 20
	// messageBytes is what a message takes beside its data, from above.
	messageBytes = 1 << 10
)

// A backlog keeps messages in their order until they are read. It drops messages beyond its size.
type backlog struct {
	arrived chan *nats.Msg // from the connection, which leaves out what does not fit
	next    chan *nats.Msg
	done    chan struct{}
	rest    []*nats.Msg // that were not read before end
	end     func()      // stops it, however often it is called
}

// newBacklog returns a backlog that works until end is called.
func newBacklog() *backlog {
	b := &backlog{arrived: make(chan *nats.Msg, followBuffer), next: make(chan *nats.Msg), done: make(chan struct{})}
	var passing sync.WaitGroup
	passing.Go(b.pass)
	b.end = sync.OnceFunc(func() { close(b.done); passing.Wait() })
	return b
}

func (b *backlog) pass() {
	var waiting []*nats.Msg
	bytes := 0
	for {
		var next chan *nats.Msg
		var first *nats.Msg
		if len(waiting) > 0 {
			next, first = b.next, waiting[0]
		}
		select {
		case <-b.done:
			b.rest = waiting
			for len(b.arrived) > 0 {
				b.rest = append(b.rest, <-b.arrived)
			}
			return
		case m := <-b.arrived:
			if size := len(m.Data) + messageBytes; bytes+size <= backlogBytes {
				waiting, bytes = append(waiting, m), bytes+size
			}
		case next <- first:
			bytes -= len(first.Data) + messageBytes
			waiting[0] = nil
			waiting = waiting[1:]
		}
	}
}
