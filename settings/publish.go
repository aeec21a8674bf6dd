package settings

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/seed-c01c3da5/zester/settings/puback"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	publishWindow = 512             // puts that wait for their acknowledgement
	publishBytes  = 32 << 20        // what they may hold together, with one more
	ackWait       = 5 * time.Second // for the next acknowledgement, before the keys are read
	maxSends      = 5               // of one put
)

// wrongLastInFlight is how a cluster refuses a put while another one of the same key is under way.
const wrongLastInFlight jetstream.ErrorCode = 10164

// A Write puts a document in place of what the bucket held for its peel at Revision (see [Held.Revision]).
type Write struct {
	Document *Document
	Revision uint64
}

// A ConflictError names peels whose key somebody else has written since it was read: another master leads, and the
// caller has to step back and load again.
type ConflictError struct {
	Peels []target.PeelID // sorted, at least one
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("cannot publish the settings of %s: another master wrote them (%d peels in all)", e.Peels[0], len(e.Peels))
}

// Publish stores documents, many at a time, each only over the revision that it names. It returns the new revisions
// of all that is known to be stored, beside an error too. Where a put's outcome stays unknown (the connection or the
// server went away) the key is read before the put is repeated, so that nothing is stored twice.
//
// After the first conflict or error nothing more is sent and what is under way is waited for. The error of a conflict
// is a [*ConflictError]. writes is drawn from as room comes free, so that it can make documents on the fly.
func (s *Store) Publish(ctx context.Context, writes iter.Seq[Write]) (map[target.PeelID]uint64, error) {
	nc := s.js.Conn()
	inbox := nc.NewInbox()
	acks, err := nc.SubscribeSync(inbox + ".*")
	if err != nil {
		return nil, fmt.Errorf("cannot publish settings: %w", err)
	}
	p := publisher{store: s, nc: nc, inbox: inbox + ".", acks: acks, pending: map[string]*put{}, stored: map[target.PeelID]uint64{}}
	for w := range writes {
		if len(p.pending) == publishWindow || p.bytes > publishBytes {
			p.settle(ctx, publishWindow/2) // not one: each wait has the connection write what it holds
		}
		if p.failed != nil || len(p.conflicts) > 0 {
			break
		}
		p.put(w)
	}
	p.settle(ctx, 0)
	if err := acks.Unsubscribe(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		p.fail(err)
	}
	if len(p.conflicts) > 0 {
		slices.Sort(p.conflicts)
		return p.stored, errors.Join(&ConflictError{Peels: p.conflicts}, p.failed)
	}
	return p.stored, p.failed
}

// put is one write until its outcome is known.
type put struct {
	peel     target.PeelID
	revision uint64
	data     []byte
	sent     int // times
}

type publisher struct {
	store *Store
	nc    *nats.Conn
	inbox string // each put is acknowledged on a token of its own below
	acks  *nats.Subscription

	next      uint64          // token of the next put
	pending   map[string]*put // by token
	bytes     int             // of the data of pending
	stored    map[target.PeelID]uint64
	conflicts []target.PeelID
	failed    error // the first
}

func (p *publisher) fail(err error) {
	if p.failed == nil {
		p.failed = err
	}
}

func (p *publisher) put(w Write) {
	data, err := w.Document.Encode()
	if err != nil {
		p.fail(err)
		return
	}
	p.send(&put{peel: w.Document.Peel, revision: w.Revision, data: data})
}

// send leaves w pending, unless the store's check fails. Where it cannot be written to the connection the acknowledgement stays out, as if it had been
// lost.
func (p *publisher) send(w *put) {
	if check := p.store.check; check != nil {
		if err := check(); err != nil {
			p.fail(fmt.Errorf("cannot publish the settings of %s: %w", w.peel, err))
			return
		}
	}
	token := strconv.FormatUint(p.next, 36)
	p.next++
	w.sent++
	p.keep(token, w)
	msg := nats.NewMsg(keySubject(w.peel))
	msg.Reply = p.inbox + token
	msg.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(w.revision, 10))
	msg.Data = w.data
	if err := p.nc.PublishMsg(msg); errors.Is(err, nats.ErrMaxPayload) {
		p.take(token)
		p.fail(fmt.Errorf("cannot publish the settings of %s: %w", w.peel, err))
	}
}

func (p *publisher) keep(token string, w *put) {
	p.pending[token] = w
	p.bytes += len(w.data)
}

// take returns nil for a put that is no longer pending.
func (p *publisher) take(token string) *put {
	w := p.pending[token]
	if w != nil {
		delete(p.pending, token)
		p.bytes -= len(w.data)
	}
	return w
}

// settle waits until at most so many puts are pending.
func (p *publisher) settle(ctx context.Context, puts int) {
	for len(p.pending) > puts || p.bytes > publishBytes {
		wait, cancel := context.WithTimeout(ctx, ackWait)
		msg, err := p.acks.NextMsgWithContext(wait)
		cancel()
		switch {
		case err == nil:
			p.acknowledged(ctx, msg)
		case errors.Is(err, nats.ErrNoResponders): // of one put, which stays pending until inquire
		case ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
			p.inquire(ctx)
		default:
			p.abandon(err)
		}
	}
}

func (p *publisher) acknowledged(ctx context.Context, msg *nats.Msg) {
	token := strings.TrimPrefix(msg.Subject, p.inbox)
	w := p.take(token)
	if w == nil {
		return
	}
	switch ack, err := puback.Read(msg.Data); {
	case err != nil:
		p.fail(fmt.Errorf("cannot read the acknowledgement of the settings of %s: %w", w.peel, err))
	case ack.Error == nil:
		p.stored[w.peel] = ack.Sequence
	case ack.Error.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || ack.Error.ErrorCode == wrongLastInFlight:
		p.compare(ctx, w)
	case ack.Error.Code == 503: // no leader now; for inquire
		p.keep(token, w)
	default:
		p.fail(fmt.Errorf("cannot publish the settings of %s: %w", w.peel, ack.Error))
	}
}

// inquire finds out what became of the puts whose acknowledgements stay out, and repeats those that were lost.
func (p *publisher) inquire(ctx context.Context) {
	for token := range maps.Clone(p.pending) {
		if p.compare(ctx, p.take(token)); p.failed != nil {
			p.abandon(p.failed) // rather than wait as long for every other one
			return
		}
	}
}

// compare reads what is stored in place of w: w itself, what was there before, or what somebody else wrote.
func (p *publisher) compare(ctx context.Context, w *put) {
	now, err := p.store.last(ctx, w.peel)
	switch {
	case err != nil:
		p.fail(fmt.Errorf("cannot tell whether the settings of %s were stored: %w", w.peel, err))
	case now.Sequence != w.revision && bytes.Equal(now.Data, w.data):
		p.stored[w.peel] = now.Sequence
	case now.Sequence != w.revision:
		p.conflicts = append(p.conflicts, w.peel)
	case w.sent == maxSends:
		p.fail(fmt.Errorf("cannot publish the settings of %s: no acknowledgement of %d attempts", w.peel, w.sent))
	default:
		p.send(w)
	}
}

// abandon gives up on all puts that are pending.
func (p *publisher) abandon(err error) {
	if w := slices.Collect(maps.Values(p.pending)); len(w) > 0 {
		p.fail(fmt.Errorf("cannot tell whether the settings of %s were stored (%d peels in all): %w", w[0].peel, len(w), err))
	}
	clear(p.pending)
	p.bytes = 0
}
