package feed

import (
	"time"

	"github.com/seed-c01c3da5/zester/settings/target"
)

// A peel is online while it is heard: its heartbeats, its facts, and where the bus tells it, its connections. Heartbeats
// are not stored, so for the first [knownAfter] nothing is known of a peel that was not heard yet.
const (
	// OfflineAfter is how long a peel counts as online after it was heard: three of its heartbeats.
	OfflineAfter = 90 * time.Second

	// knownAfter is more than the longest pause between two heartbeats of a peel.
	knownAfter = 35 * time.Second

	// onTheWay is how long after the end of a peel's connection heartbeats may arrive that it sent before.
	onTheWay = time.Second
)

// Presence returns when the peel was last heard, zero for never, and whether it is online.
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

// Unknown reports whether it cannot be told yet if a peel is online: heartbeats have been heard for too short a time.
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

// Disconnected records that the last connection of a peel has ended. It is offline until it connects or is heard again.
func (f *Feed) Disconnected(wireID string) {
	now := time.Now()
	f.hear(wireID, now)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left[wireID] = now.Add(onTheWay)
}

// listens records since when heartbeats are heard.
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

// forgetStrangers drops what was heard, too long ago to matter, from peels without facts.
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
