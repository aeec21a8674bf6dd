package feed

import (
	"time"

	"github.com/seed-c01c3da5/zester/settings/target"
)

// A peel is online while its heartbeats or facts arrive, or the bus reports a connection of it. Heartbeats are not stored:
// during the first [knownAfter] a silent peel is neither online nor offline.
const (
	// OfflineAfter is how long a peel counts as online after its last message: three heartbeats.
	OfflineAfter = 90 * time.Second

	// knownAfter is longer than the pause between two heartbeats of a peel.
	knownAfter = 35 * time.Second

	// maxDelay is how long a heartbeat may take that was sent before the connection ended.
	maxDelay = time.Second
)

// Presence returns the time of the peel's last message, zero if there was none, and whether the peel is online.
func (f *Feed) Presence(id target.PeelID) (lastSeen time.Time, online bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := id.Wire()
	if known, ok := f.ids[w]; ok && known != id {
		return time.Time{}, false
	}
	return f.heard[w], f.onlineLocked(w)
}

func (f *Feed) onlineLocked(wireID string) bool {
	heard := f.heard[wireID]
	return !heard.IsZero() && time.Since(heard) < OfflineAfter && heard.After(f.left[wireID])
}

// Unknown reports whether the feed has listened for too short a time to know if a silent peel is online.
func (f *Feed) Unknown(id target.PeelID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := id.Wire()
	if known, ok := f.ids[w]; ok && known != id || f.onlineLocked(w) {
		return false
	}
	return f.left[w].IsZero() && time.Since(f.since) < knownAfter
}

// Connected records that a peel has made a connection to the bus.
func (f *Feed) Connected(wireID string) {
	f.mu.Lock()
	delete(f.left, wireID)
	f.mu.Unlock()
	f.hear(wireID, time.Now())
}

// Disconnected records that the last connection of a peel has ended. The peel is offline until its next connection or
// message.
func (f *Feed) Disconnected(wireID string) {
	now := time.Now()
	f.hear(wireID, now)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left[wireID] = now.Add(maxDelay)
}

// listens records when the feed began to receive heartbeats.
func (f *Feed) listens(since time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.since = since
}

func (f *Feed) hear(wireID string, at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if at.After(f.heard[wireID]) {
		f.heard[wireID] = at
	}
}

// forgetStrangers drops the state of peels without facts that are offline.
func (f *Feed) forgetStrangers() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for w, at := range f.heard {
		if _, ok := f.ids[w]; !ok && time.Since(at) >= OfflineAfter {
			delete(f.heard, w)
			delete(f.left, w)
			delete(f.instances, w)
		}
	}
}
