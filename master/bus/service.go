package bus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/peel/wire"
)

// stopGrace bounds how long a service that stops lets its handlers work.
const stopGrace = 2 * time.Second

var errFull = errors.New("too many requests at once, or this master is stopping; ask again")

// A Request is a request of a client.
type Request struct {
	msg   *nats.Msg
	until time.Time // the caller waits until then; zero: it did not say
}

// Data returns the body.
func (r *Request) Data() []byte { return r.msg.Data }

// Subject returns the subject, whose last token is the user.
func (r *Request) Subject() string { return r.msg.Subject }

// Headers returns the headers.
func (r *Request) Headers() nats.Header { return r.msg.Header }

// Reply returns the subject on which the caller waits.
func (r *Request) Reply() string { return r.msg.Reply }

// Until returns until when the caller waits; zero if it did not say.
func (r *Request) Until() time.Time { return r.until }

// Late reports whether the caller has given up. A late request that waited in a queue must not be carried out: its
// caller may have repeated it.
func (r *Request) Late() bool { return !r.until.IsZero() && time.Now().After(r.until) }

// A Service serves subjects in the queue group of the masters. Make it with [NewService], then call Handle or
// HandleEach for each subject, and Stop once.
//
// It subscribes by itself, because the service framework of NATS only drains its subscriptions: one that is drained
// while the connection is away comes back with the connection, on the server alone, and swallows its share of the
// requests until the next time.
type Service struct {
	nc   *nats.Conn
	subs []*nats.Subscription
	work context.Context // of the handlers of HandleEach
	end  context.CancelFunc

	mu      sync.Mutex
	stopped bool // no handler of HandleEach may begin
	serving sync.WaitGroup
}

// NewService returns a service whose handlers get the values of ctx, and 2 s after Stop was called.
func NewService(ctx context.Context, nc *nats.Conn) *Service {
	s := &Service{nc: nc}
	s.work, s.end = context.WithCancel(context.WithoutCancel(ctx))
	return s
}

// Handle serves a subject. The handler must not wait: requests of the subject come one after the other.
func (s *Service) Handle(subject string, handler func(*Request)) error {
	sub, err := s.nc.QueueSubscribe(subject, wire.MastersQueue, func(m *nats.Msg) {
		handler(&Request{m, wire.CallerWaits(m.Header, time.Now())})
	})
	if err != nil {
		return fmt.Errorf("cannot serve %s: %w", subject, err)
	}
	s.subs = append(s.subs, sub)
	return nil
}

// HandleEach serves a subject with a goroutine for each request, as many at once as slots has room for; one more is
// refused. The context of the handler ends 2 s after Stop was called.
func (s *Service) HandleEach(subject string, slots chan struct{}, handler func(context.Context, *Request)) error {
	return s.Handle(subject, func(r *Request) {
		if !s.begin(slots, func() { handler(s.work, r) }) {
			_ = SendReply(s.nc, r, nil, codeUnavailable, errFull)
		}
	})
}

func (s *Service) begin(slots chan struct{}, do func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return false
	}
	select {
	case slots <- struct{}{}:
		s.serving.Go(func() { defer func() { <-slots }(); do() })
		return true
	default:
		return false
	}
}

// Leave ends the subscriptions. It returns when the handlers have received all requests that the server sent before it
// learned of that, or after 2 s.
func (s *Service) Leave() {
	if s.nc.IsConnected() {
		for _, sub := range s.subs {
			_ = sub.Drain()
		}
		WaitForHandlers(s.nc, stopGrace)
	}
	for _, sub := range s.subs { // those that were not drained must not come back with the connection
		_ = sub.Unsubscribe()
	}
	s.subs = nil
}

// Stop leaves, lets the handlers of HandleEach work for 2 s, and returns when they have returned.
func (s *Service) Stop() {
	s.Leave()
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	late := time.AfterFunc(stopGrace, s.end)
	s.serving.Wait()
	late.Stop()
	s.end()
}
