// Package quota keeps the streams to which all peels write from filling up, and one peel from taking the room of all.
//
// Call [New] and [Trimmer.Run] in every master: a Trimmer purges messages. An [Account] limits what masters store for a
// peel in a bucket where the server cannot count by peel.
//
// A stream that refuses messages when it is full (job-returns) is trimmed: at 80 % of its messages or bytes the oldest
// are purged down to 70 %. Returns of live jobs stay: those before the first of them go by sequence, those between them
// one by one, at about 75 µs each. If live jobs alone hold more than 70 %, the stream fills up and then refuses
// returns, which the peels keep in their outboxes and send again; /readyz and zester doctor report it from 95 % on. A
// purge depends on the state of the stream alone, so several masters may purge at once, without a lease.
//
// A peel's share is a sixteenth of a stream, in messages and in bytes. While less than half of a stream is used, every
// peel may take more. In one that is more than half full, each look reads the sizes and subjects of 128 of the newest
// messages and of 128 in a row from a random place. The messages of a peel that has more than a sixteenth of either are
// counted by the server, and if it has more than its share, its oldest are purged down to half of it, returns of live
// jobs included. Nothing is kept in memory for each message.
//
// # Room while no master runs
//
// Nothing is trimmed then. A stream of 4,000,000 messages takes at most 1.4 GB of the server's memory, about 350 B a
// message.
//
//   - job-returns gets only the returns of jobs that were already sent: masters store those of scheduled runs. Above
//     80 % it has room for 800,000 messages and 819 MiB: a job of 10,000 targets with 64 KiB each takes 625 MiB. A
//     return for which there is no room waits in its peel's outbox.
//   - job-events gets the reports of scheduled runs, about 650 B each. Its 2 GiB hold 3,300,000 of them: 27 h of 10,000
//     peels with a reported run every 5 minutes (33 a second), 5.5 h with one every minute (167 a second). For a day at
//     that rate it would need 14,400,000 messages: 9.4 GB on disk and 5 GB of memory. Beyond its limits the oldest
//     reports are lost.
//   - jobs and active are written by masters alone.
//
// Known gaps: a flood that adds half of job-events within 5 s can push out the oldest reports before it is seen.
// Each master has its own [Account], in memory, which begins empty.
package quota

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/peel/loglimit"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

const (
	highWater = 80 // percent of a limit at which a stream is trimmed
	lowWater  = 70 // percent down to which it is

	lookEvery   = 5 * time.Second
	requestWait = 5 * time.Second // for one answer of the server
	walkBatch   = 4096            // headers on their way from the server
	purgesEach  = 2000            // messages that are purged one by one before the state is read again
	purgesOnce  = 16              // of these requests at the same time
)

// Options are the dependencies of a Trimmer.
type Options struct {
	JetStream jetstream.JetStream
	// Live returns the IDs of all jobs that have not ended, those with undecodable records included: their returns are
	// kept too. If it returns an error, no return is purged.
	Live func(ctx context.Context) (map[wire.JID]bool, error)
	Log  *slog.Logger // nil: nothing is logged
}

// A Trimmer purges the oldest messages of streams that are nearly full, and the messages of a peel beyond its share.
type Trimmer struct {
	js       jetstream.JetStream
	live     func(ctx context.Context) (map[wire.JID]bool, error)
	log      *slog.Logger
	refusals *loglimit.Limiter
	streams  []*shared
	removed  atomic.Uint64
}

// A shared stream is a stream to which all peels write. Only the goroutine of Run uses its fields.
type shared struct {
	name   string
	filter string                   // subjects to which peels publish; empty: all
	of     func(peel string) string // the subjects of one peel, by its wire ID
	// strange returns a pattern for subjects like this one if no job can have it, else an empty string.
	strange func(subject string) string

	sampled uint64               // last sequence when the stream was sampled
	counted map[string]time.Time // by the peel's wire ID: when its messages may be counted again

	walked uint64            // every message before it belonged to a job in passed
	passed map[wire.JID]bool // live jobs whose returns a walk has passed
}

// New returns a trimmer of job-returns and job-events. It starts nothing.
func New(o Options) *Trimmer {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	t := &Trimmer{js: o.JetStream, live: o.Live, log: o.Log, refusals: loglimit.New(o.Log)}
	t.streams = []*shared{
		{name: wire.KV(wire.BucketJobReturns), of: returnsOf, strange: strangeReturn, counted: map[string]time.Time{}},
		{
			name:    wire.StreamJobEvents,
			filter:  wire.SaidBy("*"),
			of:      wire.SaidBy,
			strange: noneStrange,
			counted: map[string]time.Time{},
		},
	}
	return t
}

func returnsOf(peel string) string { return wire.KVSubject(wire.BucketJobReturns, "*."+peel) }

func noneStrange(string) string { return "" }

// Removed returns how many times messages of a peel beyond its share were purged.
func (t *Trimmer) Removed() uint64 { return t.removed.Load() }

// Run checks the streams every 5 s until ctx ends, and returns nil.
func (t *Trimmer) Run(ctx context.Context) error {
	// A random delay, so that masters that start together do not purge together.
	select {
	case <-ctx.Done():
		return nil
	case <-time.After(rand.N(lookEvery)):
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		for _, s := range t.streams {
			if err := t.look(ctx, s); err != nil && ctx.Err() == nil {
				t.log.Warn("stream not trimmed", "stream", s.name, "err", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// look trims one stream and checks the shares of peels.
func (t *Trimmer) look(ctx context.Context, s *shared) error {
	asking, cancel := context.WithTimeout(ctx, requestWait)
	defer cancel()
	stream, err := t.js.Stream(asking, s.name)
	if err != nil {
		return err
	}
	if crowded(bucket.UsageOf(stream.CachedInfo())) {
		err = t.checkShares(ctx, s, stream)
	}
	return errors.Join(err, t.trim(ctx, s, stream))
}

// trim purges the oldest messages of a stream that refuses messages at its limits.
func (t *Trimmer) trim(ctx context.Context, s *shared, stream jetstream.Stream) error {
	if full := bucket.UsageOf(stream.CachedInfo()); !full.Refuses || full.Full()*100 < highWater {
		return nil
	}
	for {
		c, err := t.plan(ctx, s, stream)
		if err != nil {
			return err
		}
		if err := c.purge(ctx, stream); err != nil {
			s.walked = 0
			return err
		}
		if c.messages > 0 {
			t.log.Info("oldest messages purged, the stream was nearly full", "stream", s.name, "messages", c.messages)
		}
		if !c.partial() {
			if !c.enough() {
				t.refusals.Warn(s.name, "stream not trimmed to 70 %: live jobs hold the rest", "stream", s.name)
			}
			return nil
		}
	}
}

// plan walks over the oldest messages until it has found enough to purge. The state of the stream is read before the
// live jobs are: a return of a job that began later is not walked over.
func (t *Trimmer) plan(ctx context.Context, s *shared, stream jetstream.Stream) (*cut, error) {
	info, err := stream.Info(ctx)
	if err != nil {
		return nil, err
	}
	live, err := t.live(ctx)
	if err != nil {
		return nil, err
	}
	c := newCut(info, live)
	c.resume(s)
	if c.enough() {
		return c, nil
	}
	err = t.read(ctx, s, part{s.filter, c.from, walkBatch}, func(m jetstream.Msg, seq uint64) (more bool) {
		return c.add(m.Subject(), seq, sizeOf(m))
	})
	if err != nil {
		return nil, err
	}
	s.walked, s.passed = c.next, c.passed
	return c, nil
}

// overhead is how many bytes a stored message takes in addition to its subject and data.
const overhead = 100

// sizeOf returns about how many bytes of the stream a message takes, from its headers.
func sizeOf(m jetstream.Msg) uint64 {
	n, _ := strconv.ParseUint(m.Headers().Get(nats.MsgSize), 10, 64)
	return n + uint64(len(m.Subject())) + overhead
}

// A cut is what one step of a trim purges: all messages before a sequence, and some between returns of live jobs.
type cut struct {
	live   map[wire.JID]bool
	last   uint64 // sequence of the last message that may be purged
	wanted excess // at the begin of the walk
	excess excess // minus the messages found so far

	from, next uint64            // the walk begins at from; it has passed every message before next
	passed     map[wire.JID]bool // live jobs that it has passed
	before     uint64            // all messages before it are purged; 0: none
	subjects   []string          // of messages that are purged one by one
	messages   int               // that are purged
}

func newCut(info *jetstream.StreamInfo, live map[wire.JID]bool) *cut {
	excess := excessOf(info)
	return &cut{last: info.State.LastSeq, live: live, passed: map[wire.JID]bool{}, wanted: excess, excess: excess}
}

// An excess is how much a stream has above 70 % of its limits; negative: below.
type excess struct{ messages, bytes int64 }

func excessOf(info *jetstream.StreamInfo) (e excess) {
	if limit := info.Config.MaxMsgs; limit > 0 {
		e.messages = int64(info.State.Msgs) - limit*lowWater/100
	}
	if limit := info.Config.MaxBytes; limit > 0 {
		e.bytes = int64(info.State.Bytes) - limit*lowWater/100
	}
	return e
}

func (e excess) none() bool { return e.messages <= 0 && e.bytes <= 0 }

// covers reports whether e is at least half of another excess.
func (e excess) covers(other excess) bool {
	return e.messages >= other.messages/2 && other.messages > 0 || e.bytes >= other.bytes/2 && other.bytes > 0
}

// resume begins where the last walk ended, if the jobs that it passed still live.
func (c *cut) resume(s *shared) {
	if s.walked > c.last+1 {
		return // the stream was made again
	}
	for jid := range s.passed {
		if !c.live[jid] {
			return
		}
	}
	if len(s.passed) > 0 {
		c.from, c.next, c.passed = s.walked, s.walked, s.passed
	}
}

// enough reports whether the stream is at 70 % or less afterwards.
func (c *cut) enough() bool { return c.excess.none() }

// partial reports whether the walk has ended early.
func (c *cut) partial() bool { return !c.enough() && len(c.subjects) == purgesEach }

// add takes the next message of the walk, whose subject has its job's ID as third token, and reports whether the walk
// goes on.
func (c *cut) add(subject string, seq, size uint64) (more bool) {
	if seq > c.last {
		return false
	}
	c.next = seq + 1
	if tokens := strings.SplitN(subject, ".", 4); len(tokens) == 4 {
		if jid := wire.JID(tokens[2]); c.live[jid] {
			c.passed[jid] = true
			return true
		}
	}
	switch {
	case len(c.passed) == 0:
		c.before = seq + 1
	case strings.Contains(subject, ".."):
		return true // the server purges nothing under it; a peel can make one
	default:
		c.subjects = append(c.subjects, subject)
	}
	c.messages++
	c.excess.messages--
	c.excess.bytes -= int64(size)
	return !c.enough() && len(c.subjects) < purgesEach
}

// purge purges what the walk has found, unless another master has purged most of it meanwhile. It may be repeated.
func (c *cut) purge(ctx context.Context, stream jetstream.Stream) error {
	if c.messages == 0 {
		return nil
	}
	info, err := stream.Info(ctx)
	if err != nil {
		return err
	}
	if !excessOf(info).covers(c.wanted) {
		c.before, c.subjects, c.messages = 0, nil, 0
	}
	if c.before > 0 {
		if err := stream.Purge(ctx, jetstream.WithPurgeSequence(c.before)); err != nil {
			return err
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(purgesOnce)
	for _, subject := range c.subjects {
		g.Go(func() error {
			return stream.Purge(ctx, jetstream.WithPurgeSubject(subject), jetstream.WithPurgeSequence(c.next))
		})
	}
	return g.Wait()
}
