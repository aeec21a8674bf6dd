// File auditlog.go stores the audit log of a bus, the stream audit, and reads it. Call [OpenLog], then [Log.Write] for
// each action and [Log.List] for a page of entries; [Log.Run] watches the chain.
//
// An entry is written for every dispatch, cancel and schedule command, every change of tokens, people and enrolled
// peels, and every command about revisions, whether it was done, refused or failed. A call of an assistant's tool has
// an entry too, written before the call is carried out. A request for a job that is repeated under its ID adds no
// entry, unless it ends otherwise: first it failed, and then the job was dispatched.
//
// Guarantees: only masters can write to the log; the server refuses to remove or change an entry, and masters have no
// permission to change, purge, restore or delete the stream. Each entry has the digest of the one before it: a master
// that writes names the place that it expects, so one of several masters is next. An entry is stored before the caller
// gets its reply. An entry that cannot be stored is written in full to the log of the process. Entries are removed by
// age, or, if the stream is full, oldest first.
//
// A user could push the entries of others out of the log. So 20 refusals of each user are stored at once and then one a
// second, and 1,000 other entries about each noun (job, user, token) at once and then five a second: by many jobs
// nobody has it left out that he made a user. Once the log is 80 % full, a user who has a quarter of it gets one entry
// about each noun a minute. What is left out is counted in the next entry of the user, which comes after ten seconds at
// most, even if the user does nothing.
//
// Known gaps: the limits are those of one master, and the quarter is of all; a master that stops forgets what it left
// out in the last ten seconds. The chain shows that an entry was replaced or removed in the middle; who keeps no head
// elsewhere cannot see that the newest entries are gone.

package audit

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/bucket"
)

const (
	subjects = "zester.audit."

	maxText    = 512     // bytes of a target or a reason
	maxArgs    = 4 << 10 // bytes
	maxUser    = 100     // bytes of a user in a subject
	writeLimit = 5 * time.Second
	writeAgain = 250 * time.Millisecond
	countEvery = 10 * time.Second
)

// A Log is the audit log of a bus. Methods may be called from several goroutines; Write, Record and Run on a nil one do
// nothing.
type Log struct {
	// BreakGlass reports whether an entry of a caller gets the mark [Entry.BreakGlass]. If the entry says that the
	// caller added a person, made is the name of the person. If BreakGlass is nil, no entry gets the mark.
	BreakGlass func(ctx context.Context, caller grants.Caller, made string) bool

	js   jetstream.JetStream
	log  *slog.Logger
	key  []byte // of the IDs of entries with hidden arguments
	kept kept

	counting atomic.Bool // countLater has been called, and what was left out is not yet counted

	turn chan struct{} // holds one value while an entry is appended; guards head
	head *Head         // after the newest entry, if this process wrote it

	mu     sync.Mutex
	status Status
}

// OpenLog returns the log on the connection of a master. Entries that cannot be stored are written to log.
func OpenLog(js jetstream.JetStream, log *slog.Logger) *Log {
	return &Log{
		js: js, log: log, key: []byte(rand.Text()), kept: kept{users: map[string]*account{}},
		turn: make(chan struct{}, 1),
	}
}

// Write is [Log.Record] for what has happened: an entry that is not stored changes nothing.
func (l *Log) Write(ctx context.Context, e Entry) { _ = l.Record(ctx, e) }

// errLeftOut: the user has had more entries stored than are kept of one user.
var errLeftOut = errors.New("too many entries of this user were stored lately")

// Record stores an entry with the current time. It returns when the entry is stored, or after 5 s. It stores the entry
// also if ctx has ended. The error says why the entry is not in the log.
func (l *Log) Record(ctx context.Context, e Entry) error {
	if l == nil {
		return nil
	}
	if !l.kept.keeps(&e, time.Now(), func() bool { return l.crowded(ctx, &e) }) {
		l.countLater()
		return errLeftOut
	}
	return l.write(ctx, &e)
}

// countLater has it stored after countEvery how many entries were left out, whether or not [Log.Run] runs.
func (l *Log) countLater() {
	if l.counting.CompareAndSwap(false, true) {
		time.AfterFunc(countEvery, l.count)
	}
}

func (l *Log) count() {
	l.counting.Store(false)
	omitted, more := l.kept.omitted(time.Now())
	for _, e := range omitted {
		_ = l.write(context.Background(), &e)
	}
	if more && !l.js.Conn().IsClosed() {
		l.countLater()
	}
}

// leaveOut has the next entry of the user count what e counted.
func (l *Log) leaveOut(e *Entry) {
	if e.LeftOut > 0 {
		l.kept.giveBack(e, time.Now())
		l.countLater()
	}
}

func (l *Log) write(ctx context.Context, e *Entry) error {
	e.Time = time.Now().UTC()
	if l.BreakGlass != nil {
		made := ""
		if e.Action == "user.add" {
			made = e.Target
		}
		e.BreakGlass = l.BreakGlass(ctx, grants.Caller{User: e.User, Role: e.Role}, made)
	}
	bound(e)
	err := l.store(ctx, e)
	if err != nil {
		l.log.Error("audit entry not stored", "user", e.User, "role", e.Role, "from", e.From, "action", e.Action,
			"target", e.Target,
			"function", e.Function, "args", e.Args, "jid", e.JID, "count", e.Count, "peels", e.Peels,
			"peels_hash", e.PeelsHash,
			"agent", e.Agent, "held", e.Held, "result", e.Result, "reason", e.Reason, "left_out", e.LeftOut, "err", err)
	}
	return err
}

// bound limits an entry to less than 8 KiB, and to more if its texts are full of characters that JSON escapes.
func bound(e *Entry) {
	for _, text := range []*string{
		&e.Target, &e.Reason, &e.Function, &e.PeelsHash, &e.Agent, &e.Held, (*string)(&e.JID),
	} {
		*text = Bounded(*text, maxText)
	}
	e.Args = Bounded(e.Args, maxArgs)
	e.Peels = slices.Clone(e.Peels[:min(len(e.Peels), MaxPeels)])
	for i := range e.Peels {
		e.Peels[i] = Bounded(e.Peels[i], maxText/4)
	}
}

// subjectOf returns the subject of an entry: its action and its user, so that the bus can count the entries of a user.
func subjectOf(e *Entry) string { return subjects + e.Action + "." + token(e.User) }

// token makes one token of a subject of a user's name.
func token(user string) string {
	if user == "" {
		return "_"
	}
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-:", r) {
			return r
		}
		return '_'
	}, user[:min(len(user), maxUser)])
}

// store appends an entry within writeLimit.
func (l *Log) store(ctx context.Context, e *Entry) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeLimit)
	defer cancel()
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return fmt.Errorf("cannot store it within %v: other entries were not stored either", writeLimit)
	}
	id := l.idOf(e)
	for first := true; ; first = false {
		stored, err := l.append(ctx, id, e)
		if err == nil && !stored && first { // an earlier request has this entry, but not how many were left out
			l.leaveOut(e)
		}
		if err == nil || l.js.Conn().IsClosed() {
			return err
		}
		l.head = nil
		if bucket.IsConflict(err) { // another master was faster
			continue
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("cannot store it within %v: %w", writeLimit, err)
		case <-time.After(writeAgain):
		}
	}
}

// idOf returns the ID under which the bus stores an entry. Requests to begin or cancel a job that are repeated have the
// same ID if they end alike, so that the bus drops the entries of all but the first. Any other request has another ID.
// Nobody can guess hidden arguments by the ID, as the key of a Log is random; so such a request that is repeated to
// another master has an entry of each.
func (l *Log) idOf(e *Entry) string {
	if e.JID == "" || !slices.Contains([]string{ActionDispatch, actionSecrets, actionCancel}, e.Action) {
		return rand.Text()
	}
	if e.Result == Done && e.Action != actionCancel {
		return e.Action + "." + string(e.JID) // a job is dispatched once
	}
	same := *e
	same.Seq, same.Prev, same.Time = 0, "", time.Time{}
	same.Reason, same.LeftOut = "", 0
	text, err := same.Text()
	if err != nil {
		return rand.Text()
	}
	mac := hmac.New(sha256.New, l.key)
	if e.hidden == nil {
		mac = sha256.New()
	}
	mac.Write(e.hidden)
	mac.Write([]byte(text))
	return hex.EncodeToString(mac.Sum(nil))
}

// append publishes an entry once, as the one after the newest. stored is false if the bus has an entry with the same ID
// and drops this one.
func (l *Log) append(ctx context.Context, id string, e *Entry) (stored bool, err error) {
	if l.head == nil {
		head, err := l.newest(ctx)
		if err != nil {
			return false, err
		}
		l.head = &head
	}
	e.Seq, e.Prev = l.head.Seq+1, l.head.Digest
	text, err := e.Text()
	if err != nil {
		return false, err
	}
	msg := &nats.Msg{Subject: subjectOf(e), Data: []byte(text), Header: nats.Header{nats.MsgIdHdr: {id}}}
	ack, err := l.js.PublishMsg(ctx, msg, jetstream.WithExpectLastSequence(l.head.Seq))
	switch {
	case err != nil:
		return false, err
	case !ack.Duplicate:
		*l.head = HeadOf(Line{Seq: ack.Sequence, Text: text})
		l.kept.stored(e.User, len(text), time.Now())
	}
	return !ack.Duplicate, nil
}

// newest returns the head after the newest entry. Its digest is empty if the entry was removed by its age.
func (l *Log) newest(ctx context.Context) (Head, error) {
	s, err := l.js.Stream(ctx, wire.StreamAudit)
	if err != nil {
		return Head{}, err
	}
	last := s.CachedInfo().State.LastSeq
	if last == 0 {
		return Head{}, nil
	}
	msg, err := s.GetMsg(ctx, last)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return Head{Seq: last}, nil
	}
	if err != nil {
		return Head{}, err
	}
	return HeadOf(Line{Seq: last, Text: string(msg.Data)}), nil
}

// repeats is how long after a job was made a repeated request for it writes the entry again, in case the master that
// made the job died before it did. For twice as long the bus drops an entry that it has.
const repeats = time.Minute

// IsRepeat reports whether the request for a job that was made at a time needs no entry any more.
func IsRepeat(made time.Time) bool { return time.Since(made) > repeats }
