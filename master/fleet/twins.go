package fleet

import (
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	// rememberedInstances is the number of processes of one peel that are remembered.
	rememberedInstances = 4
	// duplicateFor is the number of intervals for which a peel counts as a duplicate after its processes alternated.
	duplicateFor = 2 * missedHeartbeats
)

// instances are the processes that sent heartbeats under one peel ID, the newest last. A peel that restarts becomes a
// new process, so a heartbeat of an earlier process shows that two share the ID.
type instances struct {
	recent     []string
	alternated time.Time     // when an earlier process last sent a heartbeat after a later one
	every      time.Duration // between heartbeats, as the last one said; 0: there was none
}

// onHeartbeat records a heartbeat and reports whether the peel has become a duplicate.
func (i *instances) onHeartbeat(beat wire.Beat, at time.Time) bool {
	i.every = beat.Every
	instance := beat.Instance
	place := slices.Index(i.recent, instance)
	if place >= 0 && place == len(i.recent)-1 {
		return false
	}
	if place >= 0 {
		i.recent = append(slices.Delete(i.recent, place, place+1), instance)
		first := !i.duplicate(at)
		i.alternated = at
		return first
	}
	if len(i.recent) == rememberedInstances {
		i.recent = slices.Delete(i.recent, 0, 1)
	}
	i.recent = append(i.recent, instance)
	return false
}

func (i *instances) duplicate(now time.Time) bool {
	return !i.alternated.IsZero() && now.Sub(i.alternated) < duplicateFor*i.every
}

// Duplicate reports whether heartbeats of two processes under the ID of a peel alternated in the last six intervals,
// which is three minutes for a small fleet. Both processes run each request.
func (f *Fleet) Duplicate(id target.PeelID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.alternated[id.Wire()]
	return s != nil && f.ids[id.Wire()] == id && s.instances.duplicate(time.Now())
}

// Duplicates returns the peels whose ID two processes share, sorted.
func (f *Fleet) Duplicates() (ids []target.PeelID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	for w, s := range f.alternated {
		switch id, known := f.ids[w]; {
		case !s.instances.duplicate(now):
			delete(f.alternated, w)
		case known:
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}
