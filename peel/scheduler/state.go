package scheduler

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
)

// EntryState is the state of one entry, from [Scheduler.State].
type EntryState struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	// the reason for the state; empty for a disabled entry and for most active ones
	Why    string `json:"why,omitempty"`
	Module string `json:"module"`
	Timing string `json:"timing"` // "interval 1h30m", "cron 0 */4 * * * in Europe/London"
	// NextNominal is the next time of the timing; NextFire adds the splay that was drawn. If the windows are closed
	// then, both are the next time at which the entry may run. Both are zero if there is none.
	NextNominal time.Time    `json:"next_nominal,omitzero"`
	NextFire    time.Time    `json:"next_fire,omitzero"`
	Running     int          `json:"running"` // runs in flight
	NextClass   ledger.Class `json:"-"`       // of NextFire
	Left        *uint64      `json:"-"`       // runs that max_runs still allows; nil: no limit
	// when the run of NextFire must have started to be neither missed nor late
	Latest time.Time `json:"-"`
	// BreakerState is "closed" for an entry without a breaker.
	BreakerState BreakerState `json:"breaker_state"`
	History
}

// A ListedEntry is one entry in the data of the functions schedule.list and schedule.history.
type ListedEntry struct {
	EntryState
	Source string          `json:"source"`           // "settings" or "peel.yaml"
	Commit settings.Commit `json:"commit,omitempty"` // that last changed the entry
	Origin string          `json:"origin,omitempty"` // file:line
	Author string          `json:"author,omitempty"`
}

// A ListedBreaker is the data of the function schedule.breaker.
type ListedBreaker struct {
	State BreakerState `json:"state"`
	Breaker
	FailuresInRow uint64 `json:"failures_in_row"`
}

func (o *owner) state() []EntryState {
	now := o.s.now()
	list := make([]EntryState, 0, len(o.set))
	for _, name := range slices.Sorted(maps.Keys(o.set)) {
		e := o.entries[name]
		o.settleHeld(e, now)
		o.trim(e, now.Wall)
		s := EntryState{
			Name: name, Module: e.Spec.Module, Timing: e.Spec.Clock.String(),
			Running: len(e.runs), BreakerState: e.Breaker.State(), History: e.Clone(),
		}
		s.State, s.Why = e.State(now, e.hasAllRuns())
		if limit := e.MaxRuns(); limit > 0 {
			left := limit - min(limit, e.allRuns())
			s.Left = &left
		}
		if e.IsActive() && e.Next.Trigger != "" {
			s.NextNominal, s.NextFire = o.nextRun(e)
			s.NextClass = ledger.ClassOf(e.Next.Trigger)
			due := s.NextFire
			if !due.Equal(o.time(e.Next, e.Next.At)) { // its splay is not drawn yet
				due = due.Add(e.Spec.Splay.Max)
			}
			s.Latest = e.Latest(s.NextNominal, due, maxSleep)
		}
		list = append(list, s)
	}
	return list
}

// removed returns the states of the entries that were removed from the schedule in the last 48 hours.
func (o *owner) removed() (list []EntryState) {
	now := o.s.now()
	for _, name := range slices.Sorted(maps.Keys(o.entries)) {
		if e := o.entries[name]; e.Spec == nil && len(e.List.Marks) > 0 && now.Wall.Sub(e.Left) < ledger.Kept {
			o.trim(e, now.Wall)
			list = append(list, EntryState{
				Name:         name,
				State:        StateRemoved,
				Running:      len(e.runs),
				BreakerState: e.Breaker.State(),
				History:      e.Clone(),
			})
		}
	}
	return list
}

// trim drops what the list of an entry no longer has, and keeps it for the days after.
func (o *owner) trim(e *entry, now time.Time) { e.forget(e.List.Forget(o.marks, now)) }

// forget notes what the list has forgotten.
func (e *entry) forget(code []byte) {
	if code != nil {
		e.Past = append(e.Past, code)
		e.dirty = true
	}
}

// shorten has the longest list begin later, until there are at most limit fires in all of them.
func (o *owner) shorten(limit int, now time.Time) {
	n := 0
	for _, e := range o.entries {
		n += e.List.Len()
	}
	for n > limit {
		longest := slices.MaxFunc(slices.Collect(maps.Values(o.entries)), func(a, b *entry) int {
			return cmp.Or(cmp.Compare(a.List.Len(), b.List.Len()), cmp.Compare(b.Name, a.Name))
		})
		before := longest.List.Len()
		longest.forget(longest.List.Shorten(o.marks, now))
		if n -= before - longest.List.Len(); before == longest.List.Len() {
			return // all of it is of this hour
		}
	}
}

// nextRun returns when an entry with a planned fire may run next.
func (o *owner) nextRun(e *entry) (nominal, fire time.Time) {
	nominal, fire = o.time(e.Next, e.Next.Nominal), o.time(e.Next, e.Next.At)
	if e.Next.Held || e.Next.Trigger != wire.TriggerTimer || e.ClosedBy(nominal) == "" {
		return nominal, fire
	}
	for _, at := range o.ahead(e, 1) {
		return at, at
	}
	return time.Time{}, time.Time{}
}

// change returns what the next write stores.
func (o *owner) change() Change {
	c := Change{
		State: StoredState{
			Entries: make(map[string]History, len(o.entries)),
			Marks:   slices.Clone(o.marks),
			Moment:  o.moment(o.s.now()),
		},
		Fires: make(map[string][]ledger.Fire),
		Past:  make(map[string][][]byte),
	}
	now := o.s.now().Wall
	o.shorten(ledger.MaxFires, now)
	for name, e := range o.entries {
		o.trim(e, now)
		if e.Seen.IsZero() && e.Paused == nil && len(e.Last) == 0 {
			continue
		}
		if e.dirty || len(e.Unsaved) > 0 {
			c.Dirty = append(c.Dirty, name)
		}
		if len(e.Unsaved) > 0 {
			c.Fires[name], e.Unsaved = e.Unsaved, nil
		}
		if len(e.Past) > 0 {
			c.Past[name], e.Past = e.Past, nil
		}
		e.dirty = false
		c.State.Entries[name] = o.stored(e)
	}
	slices.Sort(c.Dirty)
	return c
}

// stored returns the history of an entry as it is stored.
func (o *owner) stored(e *entry) History {
	h := e.History
	if !e.Rhythm.OnWall() {
		h.Anchored = o.clocks.Base.At(e.anchor())
	} else if e.begun {
		h.Anchored = time.Time{}
	}
	if p := e.Next; p.Trigger == wire.TriggerTimer && p.OnWall && !p.Held && p.At > p.Nominal {
		h.Delayed = &Delay{Nominal: o.time(p, p.Nominal), At: o.time(p, p.At)}
	}
	return h
}
