// File standing.go keeps what is wrong with the peels that report, by kind and entry, so that nobody who asks for it
// looks at the problems of each peel. A peel leaves the sums when it changes ([Table.release]) and when it no longer
// reports, and the next one who asks counts it anew ([Table.wrong]). Whether peels report is looked up each time,
// because time alone changes it.

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

// eachLocked calls visit for those of some peels that have a schedule; nil: of all. It asks the fleet once for all of
// them, so visit must not.
func (t *Table) eachLocked(
	peels map[target.PeelID]bool, visit func(p *peel, isAbsent bool, seen fleetpkg.Presence),
) {
	now, connected := t.clock.now(), time.Since(t.connected())
	t.o.Fleet.Presences(func(of func(id target.PeelID, wireID string) fleetpkg.Presence) {
		for key, p := range t.selectedLocked(peels) {
			if p.hasSchedule() {
				seen := of(p.id, key)
				visit(p, seen.Silent || p.isOverdue(now, connected), seen)
			}
		}
	})
}
