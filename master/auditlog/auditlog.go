// Package auditlog stores the audit log of a bus, the stream audit, and reads it. Call [Open], then [Log.Write] for each action and
// [Log.List] for a page of entries.
//
// An entry is written for every dispatch, cancel and schedule command, every change of tokens, people and enrolled peels, and
// every command about revisions, whether it was done, refused or failed. A call of an assistant's tool has an entry too, written
// before the call is carried out.
//
// Guarantees: only masters can write to the log; the server refuses to remove or change an entry, and masters have no permission
// to change, purge, restore or delete the stream. An entry is stored before the caller gets its reply. An entry that cannot be stored is written in full
// to the log of the process. Entries are removed by age, or, if the stream is full, oldest first.
//
// Refused requests cost their sender nothing, so a user could fill the log with them. Of each user 20 refusals are stored at
// once and then one a second; the next entry has the number of refusals that were left out.
package auditlog

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/time/rate"

	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

const (
	subjects = "zester.audit."
	stream   = "audit"

	maxText     = 512     // bytes of a target or a reason
	maxArgs     = 4 << 10 // bytes
	keepAtOnce  = 20
	keepEvery   = time.Second
	maxRefusers = 1024
	writeLimit  = 5 * time.Second
	writeAgain  = 250 * time.Millisecond
)

// A Log is the audit log of a bus. Methods may be called from several goroutines; Write on a nil one does nothing.
type Log struct {
	js  jetstream.JetStream
	log *slog.Logger

	mu       sync.Mutex
	refusers map[string]*refuser // by user
}

// A refuser is a user of whom requests were refused.
type refuser struct {
	kept    *rate.Limiter
	leftOut int
}

// Open returns the log on the connection of a master. Entries that cannot be stored are written to log.
func Open(js jetstream.JetStream, log *slog.Logger) *Log {
	return &Log{js: js, log: log, refusers: map[string]*refuser{}}
}

// Write stores an entry with the current time. It returns when the entry is stored, or after 5 s.
func (l *Log) Write(ctx context.Context, e audit.Entry) {
	if l == nil || !l.keeps(&e) {
		return
	}
	e.Time = time.Now().UTC()
	bound(&e)
	if err := l.store(ctx, &e); err != nil {
		l.log.Error("audit entry not stored", "user", e.User, "role", e.Role, "from", e.From, "action", e.Action, "target", e.Target,
			"function", e.Function, "args", e.Args, "jid", e.JID, "count", e.Count, "peels", e.Peels, "peels_hash", e.PeelsHash, "agent", e.Agent, "held", e.Held, "result", e.Result, "reason", e.Reason, "err", err)
	}
}

// keeps reports whether an entry is to be stored, and sets its LeftOut.
func (l *Log) keeps(e *audit.Entry) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.refusers[e.User]
	if r == nil && e.Result != audit.Refused {
		return true
	}
	if r == nil {
		if len(l.refusers) >= maxRefusers {
			clear(l.refusers)
		}
		r = &refuser{kept: rate.NewLimiter(rate.Every(keepEvery), keepAtOnce)}
		l.refusers[e.User] = r
	}
	if e.Result == audit.Refused && !r.kept.Allow() {
		r.leftOut++
		return false
	}
	e.LeftOut, r.leftOut = r.leftOut, 0
	return true
}

// bound limits an entry to less than 8 KiB.
func bound(e *audit.Entry) {
	for _, text := range []*string{&e.Target, &e.Reason, &e.Function, &e.PeelsHash, &e.Agent, &e.Held, (*string)(&e.JID)} {
		*text = audit.Bounded(*text, maxText)
	}
	e.Args = audit.Bounded(e.Args, maxArgs)
	e.Peels = slices.Clone(e.Peels[:min(len(e.Peels), audit.MaxPeels)])
	for i := range e.Peels {
		e.Peels[i] = audit.Bounded(e.Peels[i], maxText/4)
	}
}

// store repeats the publish until the bus has stored it, under one message ID, so that the entry is stored once.
func (l *Log) store(ctx context.Context, e *audit.Entry) error {
	data, err := canon.Marshal(e)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeLimit)
	defer cancel()
	msg := &nats.Msg{Subject: subjects + e.Action, Data: data, Header: nats.Header{nats.MsgIdHdr: {rand.Text()}}}
	for {
		if _, err = l.js.PublishMsg(ctx, msg); err == nil || l.js.Conn().IsClosed() {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("cannot store it within %v: %w", writeLimit, err)
		case <-time.After(writeAgain):
		}
	}
}
