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
	publishWindow = 512             // pending puts
	publishBytes  = 32 << 20        // data of pending puts in bytes, exceeded by at most one put
	ackWait       = 5 * time.Second // wait for the next acknowledgement before the keys are read
	maxSends      = 5               // attempts of one put
)

// A Write replaces the value of the document's peel in the bucket, whose revision must still be Revision (see
// [Held.Revision]).
type Write struct {
	Document *Document
	Revision uint64
}

// A ConflictError names peels whose key was written by another master since it was read. The caller has to stop
// publishing and load again.
type ConflictError struct {
	Peels []target.PeelID // sorted, at least one
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("cannot publish the settings of %s: another master wrote them (%d peels in all)", e.Peels[0],
		len(e.Peels))
}

// An UnfitError names a peel whose document is too large, the first one of all.
type UnfitError struct {
	Peel target.PeelID
	Err  error
}

func (e *UnfitError) Error() string { return e.Err.Error() }

func (e *UnfitError) Unwrap() error { return e.Err }

// Publish stores documents, up to 512 at a time, each only if the key still has the revision of the write. It returns
// the new revisions of all documents that are known to be stored, also together with an error. If the outcome of a put
// is unknown (the connection or the server failed), Publish reads the key before it repeats the put, so nothing is
// stored twice.
//
// After the first conflict or error Publish sends nothing more and waits for the pending puts. A document that is too
// large does not keep the others from their peels: its error, an [*UnfitError], is returned when all are stored. The
// error of a conflict is a [*ConflictError]. Publish takes the next write only when it can send it, so writes can make
// documents on demand.
func (s *Store) Publish(ctx context.Context, writes iter.Seq[Write]) (map[target.PeelID]uint64, error) {
	nc := s.js.Conn()
	inbox := nc.NewInbox()
	acks, err := nc.SubscribeSync(inbox + ".*")
	if err != nil {
		return nil, fmt.Errorf("cannot publish settings: %w", err)
	}
	p := publisher{
		store:   s,
		nc:      nc,
		inbox:   inbox + ".",
		acks:    acks,
		pending: map[string]*put{},
		stored:  map[target.PeelID]uint64{},
	}
	for w := range writes {
		if len(p.pending) == publishWindow || p.bytes > publishBytes {
			p.wait(ctx, publishWindow/2) // half of them, as each wait flushes the connection
		}
		if p.failed != nil || len(p.conflicts) > 0 {
			break
		}
		p.put(w)
	}
	p.wait(ctx, 0)
	if err := acks.Unsubscribe(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		p.fail(err)
	}
	if len(p.conflicts) > 0 {
		slices.Sort(p.conflicts)
		return p.stored, errors.Join(&ConflictError{Peels: p.conflicts}, p.failed)
	}
	if p.failed == nil && p.unfit != nil {
		return p.stored, p.unfit
	}
	return p.stored, p.failed
}

// put is a write whose outcome is not known yet.
type put struct {
	peel     target.PeelID
	revision uint64
	data     []byte
	sent     int // times
}

type publisher struct {
	store *Store
	nc    *nats.Conn
	inbox string // prefix of reply subjects; each send has its own token
	acks  *nats.Subscription

	next      uint64          // token of the next put
	pending   map[string]*put // by token
	bytes     int             // total data of pending
	stored    map[target.PeelID]uint64
	conflicts []target.PeelID
	failed    error       // the first error
	unfit     *UnfitError // of the first document that is too large
}

func (p *publisher) fail(err error) {
	if p.failed == nil {
		p.failed = err
	}
}

// skip records that a document is too large, and goes on with the others.
func (p *publisher) skip(peel target.PeelID, err error) {
	if p.unfit == nil {
		p.unfit = &UnfitError{peel, err}
	}
}

func (p *publisher) put(w Write) {
	data, err := w.Document.Encode()
	if err != nil {
		p.skip(w.Document.Peel, err)
		return
	}
	p.send(&put{peel: w.Document.Peel, revision: w.Revision, data: data})
}

// send sends w and makes it pending, unless the store's check fails. If the connection fails, w stays pending as if its
// acknowledgement were lost.
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
	p.add(token, w)
	msg := nats.NewMsg(keySubject(w.peel))
	msg.Reply = p.inbox + token
	msg.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(w.revision, 10))
	msg.Data = w.data
	if err := p.nc.PublishMsg(msg); errors.Is(err, nats.ErrMaxPayload) {
		p.take(token)
		p.skip(w.peel, fmt.Errorf("cannot publish the settings of %s: %w", w.peel, err))
	}
}

func (p *publisher) add(token string, w *put) {
	p.pending[token] = w
	p.bytes += len(w.data)
}

// take removes a pending put and returns it, nil if it is not pending.
func (p *publisher) take(token string) *put {
	w := p.pending[token]
	if w != nil {
		delete(p.pending, token)
		p.bytes -= len(w.data)
	}
	return w
}

// wait handles acknowledgements until at most the given number of puts and publishBytes are pending.
func (p *publisher) wait(ctx context.Context, puts int) {
	for len(p.pending) > puts || p.bytes > publishBytes {
		limited, cancel := context.WithTimeout(ctx, ackWait)
		msg, err := p.acks.NextMsgWithContext(limited)
		cancel()
		switch {
		case err == nil:
			p.onAck(ctx, msg)
		case errors.Is(err, nats.ErrNoResponders): // one put was lost; it stays pending until resolve
		case ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
			p.resolve(ctx)
		default:
			p.abandon(err)
		}
	}
}

func (p *publisher) onAck(ctx context.Context, msg *nats.Msg) {
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
	case ack.Error.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
		ack.Error.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant:
		p.compare(ctx, w)
	case ack.Error.Code == 503: // no leader now; it stays pending until resolve
		p.add(token, w)
	default:
		p.fail(fmt.Errorf("cannot publish the settings of %s: %w", w.peel, ack.Error))
	}
}

// resolve reads the keys of all pending puts and repeats the puts that were lost.
func (p *publisher) resolve(ctx context.Context) {
	for token := range maps.Clone(p.pending) {
		if p.compare(ctx, p.take(token)); p.failed != nil {
			p.abandon(p.failed) // the other keys would fail after the same timeout
			return
		}
	}
}

// compare reads the key of w and handles the three cases: w is stored, the old document is, or another master's.
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

// abandon drops all pending puts.
func (p *publisher) abandon(err error) {
	if w := slices.Collect(maps.Values(p.pending)); len(w) > 0 {
		p.fail(fmt.Errorf("cannot tell whether the settings of %s were stored (%d peels in all): %w", w[0].peel,
			len(w), err))
	}
	clear(p.pending)
	p.bytes = 0
}
