package fleet

import (
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	// OfflineAfter is how long a peel counts as online after its last message if its heartbeats have the shortest
	// interval: [missedHeartbeats] of them.
	OfflineAfter = missedHeartbeats * wire.MinHeartbeat

	missedHeartbeats = 3

	// knownSoonest is an interval with 10 % of jitter and the time on the way. A feed knows no sooner that a peel is
	// offline.
	knownSoonest = wire.MinHeartbeat + wire.MinHeartbeat/6

	// maxDelay is how long a heartbeat may take that was sent before the connection ended.
	maxDelay = time.Second
)

// Heartbeats of the whole fleet in a second, at most.
const (
	HeartbeatRate = 300
	// ConfirmRate holds where the server reports connections, so that heartbeats only confirm what it says.
	ConfirmRate = 30
)

// Interval returns the time between two heartbeats of each of n peels that together send rate a second.
func Interval(n, rate int) time.Duration {
	every := (time.Duration(n) * time.Second / time.Duration(rate)).Round(time.Second)
	return min(max(every, wire.MinHeartbeat), wire.MaxHeartbeat)
}

// seen has the presence of a peel.
type seen struct {
	last      time.Time // of its last message; zero: none
	left      time.Time // messages up to this time were sent before its last connection ended; zero: it has not ended
	instances instances
}

// seenLocked returns the presence of a peel, and creates it if there is none.
func (f *Fleet) seenLocked(wireID string) *seen {
	s := f.seen[wireID]
	if s == nil {
		s = &seen{}
		f.seen[wireID] = s
	}
	return s
}

// every returns the interval that the feed announces. All masters of a bus count the peels of one stream, so they
// announce the same interval, unless one of them is still reading.
func (f *Fleet) every() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.connections {
		return Interval(len(f.ids), ConfirmRate)
	}
	return Interval(len(f.ids), HeartbeatRate)
}

// Presence returns the time of the peel's last message, zero if there was none, and whether the peel is online.
func (f *Fleet) Presence(id target.PeelID) (lastSeen time.Time, online bool) {
	p := f.presence(id)
	return p.Last, p.Online
}

func (f *Fleet) presence(id target.PeelID) (p Presence) {
	f.Presences(func(_ uint64, of func(target.PeelID, string) Presence) { p = of(id, id.Wire()) })
	return p
}

// Gone reports whether a peel is not online and has missed more than two heartbeats.
func (f *Fleet) Gone(id target.PeelID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := id.Wire()
	s := f.seen[w]
	if known, ok := f.ids[w]; ok && known != id || s == nil {
		s = &seen{}
	}
	last := s.last
	if last.Before(f.since) {
		last = f.since
	}
	return !f.onlineLocked(s) && time.Since(last) >= s.lasts()
}

// onlineLocked reports whether a peel is online. A peel that connects sends a heartbeat within the shortest interval.
func (f *Fleet) onlineLocked(s *seen) bool {
	return s != nil && !s.last.IsZero() && s.last.After(s.left) && time.Since(s.last) < s.lasts()
}

// lasts returns how long a peel counts as online after a message.
func (s *seen) lasts() time.Duration {
	return missedHeartbeats * max(s.instances.every, wire.MinHeartbeat)
}

// Unknown reports whether the feed has listened for too short a time to know if a silent peel is online: shorter than
// one interval. If the server reports connections, less time is enough.
func (f *Fleet) Unknown(id target.PeelID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := id.Wire()
	s := f.seen[w]
	if known, ok := f.ids[w]; ok && known != id || f.onlineLocked(s) {
		return false
	}
	return f.unknownLocked(s)
}

// Silent reports whether a peel is known to be offline: it is not online, and the feed has listened for long enough.
func (f *Fleet) Silent(id target.PeelID) bool { return f.presence(id).Silent }

// Presence is what a feed knows of the connection of a peel.
type Presence struct {
	Last   time.Time // of its last message; zero: there was none
	Online bool
	Silent bool // see [Fleet.Silent]
	// Until is when a peel that is not silent may become silent because time passes. Later messages of it delay that;
	// what else makes it silent sooner counts in the turns of [Fleet.Presences].
	Until time.Time
}

// Presences calls visit with a function that returns the presence of a peel by its ID and its wire ID. It is for those
// who ask about many peels: the feed waits until visit returns. turn changes with all but time that can make a peel
// silent.
func (f *Fleet) Presences(visit func(turn uint64, of func(id target.PeelID, wireID string) Presence)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	visit(f.turn, func(id target.PeelID, wireID string) Presence {
		s := f.seen[wireID]
		if known, ok := f.ids[wireID]; ok && known != id {
			return Presence{Silent: true}
		}
		p := Presence{Online: f.onlineLocked(s)}
		p.Silent = !p.Online && !f.unknownLocked(s)
		switch {
		case p.Online:
			p.Until = s.last.Add(s.lasts())
		case !p.Silent:
			p.Until = f.since.Add(knownSoonest)
		}
		if s != nil {
			p.Last = s.last
		}
		return p
	})
}

// unknownLocked reports whether the feed has listened for too short a time to know if a peel that is not online is
// offline.
func (f *Fleet) unknownLocked(s *seen) bool {
	knownAfter := knownSoonest
	if !f.connections {
		every := Interval(len(f.ids), HeartbeatRate)
		knownAfter = every + every/6
	}
	return (s == nil || s.left.IsZero()) && time.Since(f.since) < knownAfter
}

// FollowsConnections has the feed announce the longer interval for a server that reports connections. Call it before
// Run if you call [Fleet.Connected] and [Fleet.Disconnected].
func (f *Fleet) FollowsConnections() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.connections = true
}

// Connected records that a peel has made a connection to the bus.
func (f *Fleet) Connected(wireID string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seenLocked(wireID).left = time.Time{}
	f.markSeenLocked(wireID, time.Now())
}

// Disconnected records that the last connection of a peel has ended. The peel is offline until its next connection or
// message.
func (f *Fleet) Disconnected(wireID string) {
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.markSeenLocked(wireID, now)
	f.seenLocked(wireID).left = now.Add(maxDelay)
	f.turn++
}

// setSince records when the feed began to receive heartbeats.
func (f *Fleet) setSince(since time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.since = since
}

// markSeen records the time of a message of a peel.
func (f *Fleet) markSeen(wireID string, at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.markSeenLocked(wireID, at)
}

func (f *Fleet) markSeenLocked(wireID string, at time.Time) {
	if s := f.seenLocked(wireID); at.After(s.last) {
		s.last = at
	}
}

// onHeartbeat records that a peel is online, logs if a second process uses its ID, and replies with the interval of
// heartbeats if the peel requests it.
func (f *Fleet) onHeartbeat(msg *nats.Msg, at time.Time) {
	beat, ok := wire.DecodeHeartbeat(msg)
	if !ok {
		return
	}
	wireID := wire.Sender(msg.Subject)
	f.mu.Lock()
	f.markSeenLocked(wireID, at)
	s := f.seenLocked(wireID)
	if beat.Every < s.instances.every {
		f.turn++
	}
	alternates := s.instances.onHeartbeat(beat, at)
	if alternates {
		f.alternated[wireID] = s
	}
	f.mu.Unlock()
	if alternates {
		f.log.Error(
			"two processes are connected under one peel ID, and both run what masters send: "+
				"give one of them an ID of its own",
			"peel", wireID,
		)
	}
	if msg.Reply != "" && f.isReady() { // else the peels are not counted yet
		f.announce(msg)
	}
}

// announce replies to a heartbeat with the interval. A peel without a reply requests it again with its next heartbeat.
func (f *Fleet) announce(msg *nats.Msg) {
	if err := msg.RespondMsg(wire.NewInterval(f.every())); err != nil {
		f.log.Debug("interval of heartbeats not announced", "peel", wire.Sender(msg.Subject), "err", err)
	}
}

// forgetOffline removes the presence of offline peels without facts.
func (f *Fleet) forgetOffline() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for w, s := range f.seen {
		if _, ok := f.ids[w]; !ok && !f.onlineLocked(s) {
			delete(f.seen, w)
			delete(f.alternated, w)
		}
	}
}
