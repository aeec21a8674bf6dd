package audit

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/time/rate"
)

// How many entries of a user are kept.
const (
	refusalsAtOnce = 20
	refusalEvery   = time.Second
	entriesAtOnce  = 1000 // about one noun, such as job or user
	entryEvery     = time.Second / 5
	crowdedEvery   = time.Minute
	crowdedFrom    = 0.8  // of the log that is full: from then on the share counts
	share          = 0.25 // of the log
	askAgain       = 10 * time.Second
	maxUsers       = 1024 // from then on, users whose limits are unused are forgotten
	shortArgs      = 256  // bytes of the arguments, once entriesAtOnce are used up
)

// kept decides which entries are stored, by user.
type kept struct {
	mu    sync.Mutex
	users map[string]*account
}

// An account is a user's part of the log.
type account struct {
	refused        *rate.Limiter
	nouns          map[string]*limits
	leftOut        int
	last           Entry     // that was left out
	entries, bytes int64     // that this process stored
	asked          time.Time // when the bus was asked for the share
	isCrowded      bool      // then
}

// limits are for the entries about one noun, so that a user who dispatches many jobs cannot have it left out that he
// made a user.
type limits struct{ entries, crowded *rate.Limiter }

// of returns the limits for an entry.
func (a *account) of(e *Entry) *limits {
	noun, _, _ := strings.Cut(e.Action, ".")
	l := a.nouns[noun]
	if l == nil {
		l = &limits{
			entries: rate.NewLimiter(rate.Every(entryEvery), entriesAtOnce),
			crowded: rate.NewLimiter(rate.Every(crowdedEvery), 1),
		}
		a.nouns[noun] = l
	}
	return l
}

// keeps reports whether an entry is to be stored, and sets its LeftOut. crowded reports whether the user has more than
// the share.
func (k *kept) keeps(e *Entry, now time.Time, crowded func() bool) bool {
	k.mu.Lock()
	a := k.account(e.User, now)
	limits := a.of(e)
	limit := limits.entries
	if e.Result == Refused {
		limit = a.refused
	}
	busy := limit.TokensAt(now) < float64(limit.Burst())/2
	ask := busy && now.Sub(a.asked) > askAgain
	if ask {
		a.asked = now
	}
	k.mu.Unlock()
	if ask { // not under the lock, because it is a request to the bus
		is := crowded()
		k.mu.Lock()
		a.isCrowded = is
		k.mu.Unlock()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !limit.AllowN(now, 1) || busy && a.isCrowded && !limits.crowded.AllowN(now, 1) {
		a.leftOut, a.last = a.leftOut+1, *e
		return false
	}
	if busy {
		e.Args = Bounded(e.Args, shortArgs)
	}
	e.LeftOut, a.leftOut = a.leftOut, 0
	return true
}

// isIdle reports whether a new account would keep the same entries at now, but for the share of the log.
func (a *account) isIdle(now time.Time) bool {
	isFull := func(l *rate.Limiter) bool { return l.TokensAt(now) >= float64(l.Burst()) }
	for _, l := range a.nouns {
		if !isFull(l.entries) || !isFull(l.crowded) {
			return false
		}
	}
	return a.leftOut == 0 && isFull(a.refused)
}

// account returns the account of a user. Callers hold mu.
func (k *kept) account(user string, now time.Time) *account {
	a := k.users[user]
	if a == nil {
		if len(k.users) >= maxUsers {
			maps.DeleteFunc(k.users, func(_ string, a *account) bool { return a.isIdle(now) })
		}
		a = &account{refused: rate.NewLimiter(rate.Every(refusalEvery), refusalsAtOnce), nouns: map[string]*limits{}}
		k.users[user] = a
	}
	return a
}

// stored counts an entry of a user.
func (k *kept) stored(user string, bytes int, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	a := k.account(user, now)
	a.entries, a.bytes = a.entries+1, a.bytes+int64(bytes)
}

// giveBack counts anew what an entry counted that the bus dropped.
func (k *kept) giveBack(e *Entry, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	a := k.account(e.User, now)
	if a.leftOut == 0 {
		a.last = *e
	}
	a.leftOut += e.LeftOut
}

// omitted returns an entry for each user whose last entries were left out. more reports whether one must wait, because
// its user has too much of the log.
func (k *kept) omitted(now time.Time) (entries []Entry, more bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, user := range slices.Sorted(maps.Keys(k.users)) {
		a := k.users[user]
		switch {
		case a.leftOut == 0:
			continue
		case a.isCrowded && !a.of(&a.last).crowded.AllowN(now, 1):
			more = true
			continue
		}
		entries = append(entries, Entry{
			User:    a.last.User,
			Role:    a.last.Role,
			From:    a.last.From,
			Action:  ActionOmitted,
			Target:  a.last.Action,
			Result:  a.last.Result,
			LeftOut: a.leftOut,
		})
		a.leftOut = 0
	}
	return entries, more
}

// crowded reports whether the log is nearly full and the user of an entry has more than his share of it. The bus counts
// the entries of the user, and this process knows how long they are.
func (l *Log) crowded(ctx context.Context, e *Entry) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeLimit)
	defer cancel()
	s, err := l.js.Stream(ctx, wire.StreamAudit)
	if err != nil {
		return false // nothing is stored then
	}
	state, most := s.CachedInfo().State, s.CachedInfo().Config.MaxBytes
	if most <= 0 || float64(state.Bytes) < crowdedFrom*float64(most) {
		return false
	}
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(subjects+"*.*."+token(e.User)))
	if err != nil {
		return false
	}
	var count uint64
	for _, n := range info.State.Subjects {
		count += n
	}
	return float64(count)*l.kept.length(e.User, float64(state.Bytes)/float64(max(1, state.Msgs))) > share*float64(most)
}

// length returns the bytes of an entry of a user on average, or mean if this process has stored none.
func (k *kept) length(user string, mean float64) float64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	if a := k.users[user]; a != nil && a.entries > 0 {
		return float64(a.bytes) / float64(a.entries)
	}
	return mean
}
