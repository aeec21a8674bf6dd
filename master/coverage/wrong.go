package coverage

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	fleetpkg "github.com/seed-c01c3da5/zester/master/fleet"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// maxSample bounds the peels that a [Group] names.
const maxSample = 5

// A Group is one kind of problem with one entry, on all peels that have it.
type Group struct {
	Kind   verdict.Kind
	Entry  string          // empty: with peels as a whole
	ByHand bool            // of [verdict.Paused]: a person paused the entry
	Peels  int             // with the problem
	Since  time.Time       // when it began on the first of them
	Text   string          // of the peel on which it began first
	Sample []target.PeelID // the first by name

	first target.PeelID // on which it began first
}

// A groupKey identifies a group.
type groupKey struct {
	kind   verdict.Kind
	entry  string
	byHand bool
}

// rank orders problems, the worst first.
func (k groupKey) rank() int { return verdict.Rank(k.kind, k.byHand) }

// Wrong is what is wrong with the fleet now.
type Wrong struct {
	Groups []Group              // the worst first; those of more peels before others of the same kind
	Peels  map[verdict.Kind]int // each peel counts in the worst kind that it has
	Well   int                  // peels with a schedule and without a problem
}

// Wrong returns what is wrong with some peels; nil: with all. The error is [ErrBehind] if the table gives no verdicts.
func (t *Table) Wrong(peels map[target.PeelID]bool) (w Wrong, err error) {
	if err := t.err(); err != nil {
		return w, fmt.Errorf("%w: %w", ErrBehind, err)
	}
	return t.wrong(peels), nil
}

// wrong reads the sums for all peels, and adds up the problems of some.
func (t *Table) wrong(peels map[target.PeelID]bool) (w Wrong) {
	t.mu.Lock()
	defer t.mu.Unlock()
	sums := &t.standings
	if peels != nil {
		sums = newStandings()
	}
	silent := &Group{Kind: verdict.NotReporting}
	visit := func(p *peel, isAbsent bool, seen fleetpkg.Presence) {
		switch {
		case isAbsent:
			if peels == nil {
				t.standings.drop(p)
			}
			problem := p.notReporting(seen)
			silent.add(&problem)
		case peels != nil:
			sums.count(p, p.reported(t))
		case p.standing == nil:
			p.standing = sums.count(p, p.reported(t))
		}
	}
	if peels == nil {
		t.eachUnsettledLocked(visit)
	} else {
		t.eachLocked(peels, visit)
	}
	w.Peels, w.Well, w.Groups = maps.Clone(sums.peels), sums.well, sums.groups()
	if silent.Peels > 0 {
		w.Peels[verdict.NotReporting] = silent.Peels
		w.Groups = append(w.Groups, *silent)
	}
	sorting.Func(w.Groups, func(a, b Group) int {
		return cmp.Or(
			cmp.Compare(a.key().rank(), b.key().rank()), cmp.Compare(b.Peels, a.Peels), cmp.Compare(a.Entry, b.Entry),
		)
	})
	return w
}

func (g *Group) key() groupKey { return groupKey{g.Kind, g.Entry, g.ByHand} }

// isPausedByHand reports whether a person paused an entry on the peel.
func (p *peel) isPausedByHand(entry string) bool {
	i, found := slices.BinarySearchFunc(p.rows, entry, compareName)
	return found && p.rows[i].state.String() == "paused_manual"
}

// add counts a problem of one more peel.
func (g *Group) add(p *verdict.Problem) {
	if c := p.Since.Compare(g.Since); g.Peels == 0 || c < 0 || c == 0 && p.Peel < g.first {
		g.Since, g.Text, g.first = p.Since, p.Text, p.Peel
	}
	g.Peels++
	i, _ := slices.BinarySearch(g.Sample, p.Peel)
	if i < maxSample {
		g.Sample = slices.Insert(g.Sample, i, p.Peel)
		g.Sample = g.Sample[:min(len(g.Sample), maxSample)]
	}
}

// Ahead counts the planned runs of each of the next hours. The first of them begins when the present hour ends. If
// match is nil, all entries count. Windows, delays and needs are not applied.
func (t *Table) Ahead(hours int, match func(entry string) bool) []HourSum {
	now := t.clock.now()
	from := now.Truncate(time.Hour).Add(time.Hour)
	list := make([]HourSum, hours)
	for i := range list {
		list[i].Hour = from.Add(time.Duration(i) * time.Hour)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, peels := range t.planned(match) {
		plan := t.documents.plan(key.spec, key.zone)
		if plan == nil || !key.spec.entry.Enabled {
			continue
		}
		for i := range list {
			list[i].Expected += uint64(plan.Count(list[i].Hour, list[i].Hour.Add(time.Hour))) * uint64(peels)
		}
	}
	return list
}

// A plannedKey is a timing in a zone.
type plannedKey struct {
	spec *spec
	zone string
}

// planned returns how many peels have each timing. The caller holds the lock.
func (t *Table) planned(match func(entry string) bool) map[plannedKey]int {
	timings := map[plannedKey]int{}
	for s, peels := range t.documents.peels {
		for i, name := range s.document.names {
			if s.document.specs[i].entry != nil && (match == nil || match(name)) {
				timings[plannedKey{s.document.specs[i], s.zone.Value()}] += peels
			}
		}
	}
	return timings
}

// Worst returns the worst problem of each of some peels that has one. The error is [ErrBehind] if the table gives no
// verdicts.
func (t *Table) Worst(ids []target.PeelID) (map[target.PeelID]verdict.Problem, error) {
	if err := t.err(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBehind, err)
	}
	now, connected := t.clock.now(), t.connected()
	worst := map[target.PeelID]verdict.Problem{}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range ids {
		p := t.peels[id.Wire()]
		if p == nil {
			continue
		}
		best := 0
		for i, problem := range t.problemsOf(p, now, connected) {
			byHand := problem.Kind == verdict.Paused && p.isPausedByHand(problem.Entry)
			if rank := verdict.Rank(problem.Kind, byHand); i == 0 || rank < best {
				best = rank
				worst[id] = problem
			}
		}
	}
	return worst, nil
}
