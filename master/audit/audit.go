// Package audit keeps who did what: every dispatch, cancel and schedule command, every change of tokens, people and
// enrolled peels, and every order about what Git brings to the fleet, whether it was done, refused or failed.
//
// The log is the stream audit. Masters alone can write to it, the server refuses to remove or to change an entry, and
// the credentials of masters do not reach what would end the stream. An entry is stored before whoever asked has his
// answer; one that cannot be stored is in the log of the process instead, with all that it says. It ends by age, or, if
// that comes first, by the size of the stream, oldest first.
//
// Refusals are free for whoever makes them, so somebody could push the past out of the log with them. Of those of one
// user 20 are kept at once and one a second from then on; the next entry says how many were left out.
package audit

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/time/rate"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

// A Result says what came of an action.
type Result string

// The results.
const (
	Done    Result = "done"
	Refused Result = "refused" // not allowed, not valid, or in conflict with what is
	Failed  Result = "failed"  // it could not be done, or whether it was is not known
)

// An Entry is one thing that somebody did or tried to do.
type Entry struct {
	Seq      uint64      `json:"seq"` // its place in the log, once it is there
	Time     time.Time   `json:"time"`
	User     string      `json:"user"`
	Role     grants.Role `json:"role,omitempty"`   // "" for tokens and masters
	From     string      `json:"from,omitempty"`   // address of the host that asked
	Action   string      `json:"action"`           // noun.verb, such as job.dispatch
	Target   string      `json:"target,omitempty"` // a target expression, or the name of what it is about
	Function string      `json:"function,omitempty"`
	Args     string      `json:"args,omitempty"` // of the function, as NAME=JSON; long values are cut, secrets hidden
	JID      wire.JID    `json:"jid,omitempty"`
	Count    int         `json:"count,omitempty"` // peels
	Peels    []string    `json:"peels,omitempty"` // the first [MaxPeels] of them
	// PeelsHash is the SHA-256 in hex of the sorted IDs of all peels, each followed by a newline.
	PeelsHash string `json:"peels_hash,omitempty"`
	Result    Result `json:"result"`
	Reason    string `json:"reason,omitempty"`   // why it was not done
	LeftOut   int    `json:"left_out,omitempty"` // refusals of the user before this entry that were not kept
}

// By fills in of whom a request is, as the bus vouches for it.
func (e Entry) By(a grants.Caller) Entry {
	e.User, e.Role, e.From = a.User, a.Role, a.From
	return e
}

// Ended fills in what came of the action. An error counts as refused where refused is true.
func (e Entry) Ended(err error, refused bool) Entry {
	switch {
	case err == nil:
		e.Result = Done
	case refused:
		e.Result, e.Reason = Refused, err.Error()
	default:
		e.Result, e.Reason = Failed, err.Error()
	}
	return e
}

// MaxPeels is how many peels an entry names.
const MaxPeels = 5

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
	refusers map[string]*refuser
}

// refuser is what is remembered of a user whose actions were refused.
type refuser struct {
	kept    *rate.Limiter
	leftOut int
}

// Open returns the log on the connection of a master. log gets what could not be stored.
func Open(js jetstream.JetStream, log *slog.Logger) *Log {
	return &Log{js: js, log: log, refusers: map[string]*refuser{}}
}

// Write stores an entry, whose time is now, and returns when it is there or cannot be.
func (l *Log) Write(ctx context.Context, e Entry) {
	if l == nil || !l.keeps(&e) {
		return
	}
	e.Time = time.Now().UTC()
	e.bound()
	if err := l.store(ctx, &e); err != nil {
		l.log.Error("audit entry not stored", "user", e.User, "role", e.Role, "from", e.From, "action", e.Action, "target", e.Target,
			"function", e.Function, "args", e.Args, "jid", e.JID, "count", e.Count, "peels", e.Peels, "peels_hash", e.PeelsHash, "result", e.Result, "reason", e.Reason, "err", err)
	}
}

// keeps reports whether an entry is for the log, and enters how many before it were not.
func (l *Log) keeps(e *Entry) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.refusers[e.User]
	if r == nil && e.Result != Refused {
		return true
	}
	if r == nil {
		if len(l.refusers) >= maxRefusers {
			clear(l.refusers)
		}
		r = &refuser{kept: rate.NewLimiter(rate.Every(keepEvery), keepAtOnce)}
		l.refusers[e.User] = r
	}
	if e.Result == Refused && !r.kept.Allow() {
		r.leftOut++
		return false
	}
	e.LeftOut, r.leftOut = r.leftOut, 0
	return true
}

// bound limits an entry to less than 8 KiB.
func (e *Entry) bound() {
	for _, text := range []*string{&e.Target, &e.Reason, &e.Function, &e.PeelsHash, (*string)(&e.JID)} {
		*text = Bounded(*text, maxText)
	}
	e.Args = Bounded(e.Args, maxArgs)
	e.Peels = slices.Clone(e.Peels[:min(len(e.Peels), MaxPeels)])
	for i := range e.Peels {
		e.Peels[i] = Bounded(e.Peels[i], maxText/4)
	}
}

// Bounded cuts a text to at most so many bytes, with "…" at the end, and makes it valid UTF-8.
func Bounded(s string, most int) string {
	if len(s) > most {
		s = s[:most-3] + "…"
	}
	return strings.ToValidUTF8(s, "?")
}

// store tries again while the bus is away, under one ID, so that the entry is there once.
func (l *Log) store(ctx context.Context, e *Entry) error {
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
