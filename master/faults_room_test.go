package master_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const returnsStream = "KV_job-returns"

// A storing is a return that the bus has stored.
type storing struct {
	wire.Return
	sequence uint64
	purged   bool // since then
}

// A ledger holds every return that the bus has stored, also those that were purged since then. A site in which nothing is
// purged needs none.
type ledger struct {
	mu   sync.Mutex
	all  map[wire.JID]map[target.PeelID]map[uint64]wire.Return // by sequence
	next uint64                                                // sequence from which the bucket is read the next time

	noRoom, second int // attempts of peels that the bus refused: it was full, or it had a return
}

// keepLedger begins to record.
func (s *site) keepLedger() {
	s.t.Helper()
	s.ledger = &ledger{all: map[wire.JID]map[target.PeelID]map[uint64]wire.Return{}, next: 1}
	for subject, heard := range map[string]nats.MsgHandler{
		wire.StoredOf("*", "*"): func(msg *nats.Msg) {
			if jid, ok := wire.StoredSubject(msg.Subject); ok {
				s.ledger.add(jid, job.Republished(msg))
			}
		},
		wire.ReturnOf("*", "*"): func(msg *nats.Msg) {
			if jid, peel, err := wire.JobSubject(msg.Subject); err == nil && msg.Header.Get("Nats-Expected-Last-Subject-Sequence") != "" {
				s.ledger.refused(jid, target.PeelID(peel))
			}
		},
	} {
		if _, err := s.js.Conn().Subscribe(subject, heard); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (l *ledger) add(jid wire.JID, r job.StoredReturn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	id := target.PeelID(r.Sender)
	if l.all[jid] == nil {
		l.all[jid] = map[target.PeelID]map[uint64]wire.Return{}
	}
	if l.all[jid][id] == nil {
		l.all[jid][id] = map[uint64]wire.Return{}
	}
	if _, known := l.all[jid][id][r.Sequence]; !known {
		l.all[jid][id][r.Sequence] = *job.ReadReturn(jid, id, r.Data)
	}
}

// refused counts an attempt that a peel makes only after the bus has refused a return.
func (l *ledger) refused(jid wire.JID, id target.PeelID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.all[jid][id]) > 0 {
		l.second++
	} else {
		l.noRoom++
	}
}

// fill records what the bucket has and the ledger did not hear, as it does not while the bus is away.
func (s *site) fill() {
	s.t.Helper()
	next := s.ledger.next
	s.readReturns(next, func(jid wire.JID, r job.StoredReturn) {
		s.ledger.add(jid, r)
		next = r.Sequence + 1
	})
	s.ledger.next = next
}

// readReturns reads the bucket of returns from a sequence on.
func (s *site) readReturns(from uint64, got func(wire.JID, job.StoredReturn)) {
	s.t.Helper()
	c := jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from, MaxRequestBatch: 1024}
	err := bucket.Drain(s.t.Context(), s.js, returnsStream, c, func(m jetstream.Msg, meta *jetstream.MsgMetadata) (more bool) {
		if jid, id, ok := returnKey(m.Subject()); ok {
			got(jid, job.StoredReturn{Sender: string(id), Sequence: meta.Sequence.Stream, Data: m.Data()})
		}
		return true
	})
	if err != nil {
		s.t.Error(err)
	}
}

// returnKey takes a subject of the bucket of returns apart.
func returnKey(subject string) (jid wire.JID, id target.PeelID, ok bool) {
	rest, ok := strings.CutPrefix(subject, "$KV.job-returns.")
	if !ok {
		return "", "", false
	}
	token, peel, ok := strings.Cut(rest, ".")
	return wire.JID(token), target.PeelID(peel), ok
}

// storings returns, by job and peel, every return that is stored and those of the ledger, in the order of storing.
func (s *site) storings() map[wire.JID]map[target.PeelID][]storing {
	s.t.Helper()
	there := &ledger{all: map[wire.JID]map[target.PeelID]map[uint64]wire.Return{}}
	s.readReturns(1, there.add)
	known := there
	if s.ledger != nil {
		s.fill()
		known = s.ledger
	}
	known.mu.Lock()
	defer known.mu.Unlock()
	all := map[wire.JID]map[target.PeelID][]storing{}
	for jid, peels := range known.all {
		all[jid] = map[target.PeelID][]storing{}
		for id, returns := range peels {
			for sequence, r := range returns {
				_, is := there.all[jid][id][sequence]
				all[jid][id] = append(all[jid][id], storing{r, sequence, !is})
			}
			slices.SortFunc(all[jid][id], func(a, b storing) int { return cmp.Compare(a.sequence, b.sequence) })
		}
	}
	return all
}

// sum says what became of the returns of jobs.
func (s *site) sum(jids []wire.JID) string {
	s.t.Helper()
	stored, purged, again, counted, storings := 0, 0, 0, 0, s.storings()
	for _, jid := range jids {
		counted += s.record(jid).ReturnCount
		for _, returns := range storings[jid] {
			stored++
			again += len(returns) - 1
			if returns[0].purged {
				purged++
			}
		}
	}
	return fmt.Sprintf("%d returns stored, %d of them counted, %d purged, %d stored again after that; attempts refused: %d for want of room, %d as second",
		stored, counted, purged, again, s.ledger.noRoom, s.ledger.second)
}

// squeeze gives the bucket of returns other limits for a while. Masters then purge returns of jobs that have ended.
func (c *chaos) squeeze(pause time.Duration, limit func(*jetstream.StreamConfig, jetstream.StreamState)) {
	c.fill()
	stream, err := c.js.Stream(c.t.Context(), returnsStream)
	if err != nil {
		c.t.Error(err)
		return
	}
	info := stream.CachedInfo()
	tight := info.Config
	limit(&tight, info.State)
	if _, err := c.js.UpdateStream(c.t.Context(), tight); err != nil {
		c.t.Error(err)
	}
	time.Sleep(pause)
	c.liveReturnsStay()
	if _, err := c.js.UpdateStream(c.t.Context(), info.Config); err != nil {
		c.t.Error(err)
	}
}

// full leaves no room for a return that is not there.
func full(bytes bool) func(*jetstream.StreamConfig, jetstream.StreamState) {
	return func(c *jetstream.StreamConfig, _ jetstream.StreamState) {
		if bytes {
			c.MaxBytes = 1
		} else {
			c.MaxMsgs = 1
		}
	}
}

// crowd stores 500 returns of jobs that nobody knows, so that no peel of the site has more than its share of the bucket.
func (c *chaos) crowd() {
	for n := range 500 {
		subject := fmt.Sprintf("$KV.job-returns.%s.other%d", wire.NewJID(), n%100)
		if _, err := c.js.Publish(c.t.Context(), subject, []byte("x")); err != nil {
			c.t.Error(err)
			return
		}
	}
}

// nearlyFull leaves a fifth of the bucket free, from which on masters trim it.
func nearlyFull(c *jetstream.StreamConfig, state jetstream.StreamState) {
	c.MaxMsgs = int64(state.Msgs) * 5 / 4
}

// liveReturnsStay fails the test if a return of a live job is not stored any longer.
func (c *chaos) liveReturnsStay() {
	c.ledger.mu.Lock()
	heard := map[wire.JID][]target.PeelID{}
	for jid, peels := range c.ledger.all {
		heard[jid] = slices.Collect(maps.Keys(peels))
	}
	c.ledger.mu.Unlock()
	there := map[wire.JID]map[target.PeelID]bool{}
	c.readReturns(1, func(jid wire.JID, r job.StoredReturn) {
		if there[jid] == nil {
			there[jid] = map[target.PeelID]bool{}
		}
		there[jid][target.PeelID(r.Sender)] = true
	})
	live, _, err := c.store.ListLive(c.t.Context()) // after the bucket: what is live now was so when the bucket was read
	if err != nil {
		c.t.Error(err)
	}
	for _, j := range live {
		for _, id := range heard[j.JID] {
			c.kept++
			if !there[j.JID][id] {
				c.t.Errorf("%s is %s and what %s returned is gone", j.JID, j.Status, id)
			}
		}
	}
}

// deafen has a process hear nothing for a while and then lose its connection: it never learns what was answered.
func (p *process) deafen(pause time.Duration) {
	p.setDeaf(true)
	time.Sleep(pause)
	p.setCut(true)
	p.setDeaf(false)
	time.Sleep(time.Second)
	p.setCut(false)
}
