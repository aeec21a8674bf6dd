// File standing.go keeps what is wrong with the peels that report, by kind and entry, so that nobody who asks for it
// looks at the problems of each peel. A peel leaves the sums when it changes ([Table.release]) and when it no longer
// reports, and the next one who asks counts it anew ([Table.wrong]). Time alone ends that a peel reports, so a scan of
// all peels notes when it may for the first of them.

package coverage

import (
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	fleetpkg "github.com/seed-c01c3da5/zester/master/fleet"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// standings are the sums of peels that report.
type standings struct {
	members map[groupKey]*members
	peels   map[verdict.Kind]int // by their worst problem
	well    int
	lull    lull
}

// members are the peels with one kind of problem with one entry.
type members struct {
	problems map[*peel]verdict.Problem
	group    *Group // made of them; nil: they have changed since
}

// A standing is how a peel counts in the sums.
type standing struct {
	worst verdict.Kind // empty: it is well
	keys  []groupKey   // of its problems
}

// well is the standing of all peels without a problem.
var well = &standing{}

func newStandings() *standings {
	return &standings{members: map[groupKey]*members{}, peels: map[verdict.Kind]int{}}
}

// count adds a peel with its problems.
func (s *standings) count(p *peel, problems []verdict.Problem) *standing {
	if len(problems) == 0 {
		s.well++
		return well
	}
	is, worst := &standing{}, 0
	for i := range problems {
		problem := &problems[i]
		byHand := problem.Kind == verdict.Paused && p.isPausedByHand(problem.Entry)
		key := groupKey{problem.Kind, problem.Entry, byHand}
		if rank := key.rank(); i == 0 || rank < worst {
			worst, is.worst = rank, key.kind
		}
		in := s.members[key]
		if in == nil {
			in = &members{problems: map[*peel]verdict.Problem{}}
			s.members[key] = in
		}
		if before, has := in.problems[p]; !has || problem.Since.Before(before.Since) {
			in.problems[p] = *problem
		}
		in.group = nil
		is.keys = append(is.keys, key)
	}
	s.peels[is.worst]++
	return is
}

// drop takes a peel out of the sums, if it is in them.
func (s *standings) drop(p *peel) {
	is := p.standing
	switch p.standing = nil; is {
	case nil:
		return
	case well:
		s.well--
		return
	}
	if s.peels[is.worst]--; s.peels[is.worst] == 0 {
		delete(s.peels, is.worst)
	}
	for _, key := range is.keys {
		in := s.members[key]
		if in == nil {
			continue // the peel has two problems of one kind
		}
		in.group = nil
		if delete(in.problems, p); len(in.problems) == 0 {
			delete(s.members, key)
		}
	}
}

// groups returns the sums in any order.
func (s *standings) groups() (list []Group) {
	for key, in := range s.members {
		if in.group == nil {
			in.group = &Group{Kind: key.kind, Entry: key.entry, ByHand: key.byHand}
			for _, problem := range in.problems {
				in.group.add(&problem)
			}
		}
		g := *in.group
		g.Sample = slices.Clone(g.Sample)
		list = append(list, g)
	}
	return list
}

// A lull is the time after a scan of all peels in which those that reported then still do, unless they change.
type lull struct {
	turn      uint64             // of [fleet.Fleet.Presences]
	silent    time.Time          // when the first of them may be silent, on the clock of this host
	overdue   time.Time          // when the first report may be overdue, on the clock of the table
	unsettled map[*peel]struct{} // that have changed, or did not report
}

// holds reports whether the lull lasts.
func (l *lull) holds(turn uint64, host, table time.Time) bool {
	return l.turn == turn && host.Before(l.silent) && table.Before(l.overdue)
}

// settle notes that a peel reports, and until when it does if it says nothing more.
func (l *lull) settle(p *peel, silent, overdue time.Time) {
	delete(l.unsettled, p)
	if silent.Before(l.silent) {
		l.silent = silent
	}
	if overdue.Before(l.overdue) {
		l.overdue = overdue
	}
}

// eachUnsettledLocked calls visit for the peels with a schedule that have changed or did not report when it was called
// before; for all of them if time or the fleet may have ended that others report. visit must not ask the fleet.
func (t *Table) eachUnsettledLocked(visit func(p *peel, isAbsent bool, seen fleetpkg.Presence)) {
	host, table, connected := time.Now(), t.clock.now(), time.Since(t.connected())
	l := &t.standings.lull
	t.o.Fleet.Presences(func(turn uint64, of func(id target.PeelID, wireID string) fleetpkg.Presence) {
		look := func(key string, p *peel) {
			if !p.hasSchedule() {
				delete(l.unsettled, p)
				return
			}
			seen := of(p.id, key)
			isAbsent := seen.Silent || p.isOverdue(table, connected)
			visit(p, isAbsent, seen)
			if isAbsent {
				l.unsettled[p] = struct{}{}
			} else {
				l.settle(p, seen.Until, table.Add(p.dueIn(table, connected)))
			}
		}
		if !l.holds(turn, host, table) {
			*l = lull{turn, host.Add(overdueAfter), table.Add(overdueAfter), map[*peel]struct{}{}}
			for key, p := range t.peels {
				look(key, p)
			}
			return
		}
		for p := range l.unsettled {
			if key := p.id.Wire(); t.peels[key] == p {
				look(key, p)
			} else {
				delete(l.unsettled, p)
			}
		}
	})
}

// eachLocked calls visit for those of some peels that have a schedule; nil: of all. It asks the fleet once for all of
// them, so visit must not.
func (t *Table) eachLocked(
	peels map[target.PeelID]bool, visit func(p *peel, isAbsent bool, seen fleetpkg.Presence),
) {
	now, connected := t.clock.now(), time.Since(t.connected())
	t.o.Fleet.Presences(func(_ uint64, of func(id target.PeelID, wireID string) fleetpkg.Presence) {
		for key, p := range t.selectedLocked(peels) {
			if p.hasSchedule() {
				seen := of(p.id, key)
				visit(p, seen.Silent || p.isOverdue(now, connected), seen)
			}
		}
	})
}
