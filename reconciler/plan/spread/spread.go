// Package spread proposes splay with which the runs of a fleet begin at different times, and writes it into the files
// of the config repo. Call [Propose].
//
// The delays are those of splay_mode: host: each peel has the same delay at every fire. Intervals from the epoch with
// the same length also get different phases. Other intervals count from the runs of each peel, which begin at different
// times already.
//
// Package forecast computes the load before and after; the one after comes from the changed files. Only lines of the
// entries change. An entry whose lines cannot be changed one by one is left as it is and named in [Proposal.ByHand].
package spread

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/aymanbagabas/go-udiff"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/plan/edit"
	"github.com/seed-c01c3da5/zester/reconciler/plan/review"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/schedule/forecast"
	"github.com/seed-c01c3da5/zester/settings/schedule/window"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target/peelindex"
)

// Options say what is spread.
type Options struct {
	Entries  string           // a glob for the names of entries
	Within   time.Duration    // the longest delay
	Forecast forecast.Options // the time whose load counts
}

// A Proposal is a change of a config repo.
type Proposal struct {
	Before, After *forecast.Forecast
	Entries       []Entry  // that change, sorted by name
	ByHand        []string // positions of entries whose lines cannot be changed
	Patch         string   // of the files, for git apply; empty if nothing changes
}

// An Entry is what a proposal changes in all entries of a name.
type Entry struct {
	Name  string
	Splay time.Duration // with splay_mode: host
	Phase time.Duration // 0: it stays
}

// lengths are the delays that are tried.
var lengths = []time.Duration{
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 20 * time.Minute,
	30 * time.Minute,
	time.Hour, 2 * time.Hour, 4 * time.Hour, 8 * time.Hour, 12 * time.Hour,
}

// Limits of a proposal.
const (
	checkedFires = 50   // of an entry, which have to stay in its windows and before the next fire
	enough       = 1.05 // a peak is as good as the lowest one up to this factor
)

// A ref is the name of an entry and the longest delay that it can have.
type ref struct {
	name    string
	longest time.Duration
	phase   time.Duration
}

// Propose compiles a revision for a fleet and proposes a change. The error is one of package plan if the revision has
// mistakes.
func Propose(files fs.FS, fleet *peelindex.Index, o Options) (*Proposal, error) {
	compiled, err := plan.NewCompiler().Compile(files, fleet)
	if err != nil {
		return nil, err
	}
	groups := review.Groups(compiled)
	p := &Proposal{}
	if p.Before, err = forecast.Make(groups, o.Forecast); err != nil {
		return nil, err
	}
	p.After = p.Before
	refs, err := find(groups, o)
	if err != nil || len(refs) == 0 {
		return p, err
	}
	if p.Entries, err = choose(groups, refs, o, peak(p.Before)); err != nil || len(p.Entries) == 0 {
		return p, err
	}
	return p, p.write(files, fleet, compiled, o)
}

// find returns the entries that can be spread, sorted by name.
func find(groups []forecast.Group, o Options) ([]ref, error) {
	byName, names, matched := map[string]*ref{}, map[string]bool{}, false
	epoch := map[time.Duration][]string{} // entries by their interval
	for _, g := range groups {
		for name, e := range g.Schedule {
			names[name] = true
			is, err := path.Match(o.Entries, name)
			if err != nil {
				return nil, fmt.Errorf("cannot use %q as a glob for entries: %w", o.Entries, err)
			}
			matched = matched || is
			if !is || !e.Enabled || e.Clock.IsZero() || e.Clock.After > 0 || e.Splay.Min > 0 {
				continue
			}
			t, err := e.Timing(o.Forecast.Zone)
			if err != nil {
				return nil, fmt.Errorf("cannot spread entry %s: %w", name, err)
			}
			if t.FollowsRuns() {
				continue
			}
			if byName[name] == nil {
				byName[name] = &ref{name: name, longest: o.Within}
				if d := e.Clock.Interval.Duration; d > 0 && e.Clock.Phase == 0 {
					epoch[d] = append(epoch[d], name)
				}
			}
			byName[name].longest = min(byName[name].longest, longest(e, t, o))
		}
	}
	if !matched {
		return nil, fmt.Errorf("no peel has an entry %s%s", o.Entries,
			strictyaml.Suggest(o.Entries, slices.Sorted(maps.Keys(names))))
	}
	for interval, list := range epoch {
		slices.Sort(list)
		for i, name := range list {
			byName[name].phase = (interval * time.Duration(i) / time.Duration(len(list))).Truncate(time.Minute)
		}
	}
	var refs []ref
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		if byName[name].longest >= lengths[0] {
			refs = append(refs, *byName[name])
		}
	}
	return refs, nil
}

// longest returns the longest delay with which an entry fires before its next fire and while its windows are open.
func longest(e *schedule.Entry, t schedule.Timing, o Options) (d time.Duration) {
	for _, l := range lengths {
		if l > o.Within || !fits(e, t, l, o) {
			return d
		}
		d = l
	}
	return d
}

func fits(e *schedule.Entry, t schedule.Timing, d time.Duration, o Options) bool {
	at, ok := t.Next(o.Forecast.From)
	for range checkedFires {
		if !ok {
			return true
		}
		next, more := t.Next(at)
		last := at.Add(d - 1)
		if more && next.Sub(at) <= d || t.Window(at) == window.Open && t.Window(last) != window.Open ||
			!e.Life.Until.IsZero() && at.Before(e.Life.Until) && !last.Before(e.Life.Until) {
			return false
		}
		at, ok = next, more
	}
	return true
}

// choose returns the shortest delays whose peak is nearly as low as with longer ones; none if no delay lowers the peak.
func choose(groups []forecast.Group, refs []ref, o Options, before float64) ([]Entry, error) {
	type try struct {
		entries []Entry
		peak    float64
	}
	var tries []try
	lowest := before
	for _, l := range lengths {
		entries := make([]Entry, len(refs))
		for i, r := range refs {
			entries[i] = Entry{r.name, min(l, r.longest), r.phase}
		}
		if n := len(tries); n > 0 && slices.Equal(tries[n-1].entries, entries) {
			break
		}
		f, err := forecast.Make(changed(groups, entries), o.Forecast)
		if err != nil {
			return nil, err
		}
		tries = append(tries, try{entries, peak(f)})
		lowest = min(lowest, peak(f))
	}
	for _, t := range tries {
		if t.peak <= lowest*enough && t.peak < before {
			return t.entries, nil
		}
	}
	return nil, nil
}

// changed returns groups whose schedules have the proposed delays.
func changed(groups []forecast.Group, entries []Entry) []forecast.Group {
	out := make([]forecast.Group, len(groups))
	for i, g := range groups {
		out[i] = forecast.Group{Peels: g.Peels, Schedule: maps.Clone(g.Schedule)}
		for _, p := range entries {
			e := g.Schedule[p.Name]
			if e == nil {
				continue
			}
			now := *e
			now.Splay = schedule.Splay{Max: max(p.Splay, e.Splay.Max), Mode: schedule.SplayHost}
			now.Clock.Phase = max(p.Phase, e.Clock.Phase)
			out[i].Schedule[p.Name] = &now
		}
	}
	return out
}

func peak(f *forecast.Forecast) float64 {
	if len(f.Worst) == 0 {
		return 0
	}
	return f.Worst[0].Runs
}

// write makes the patch, and the forecast of the changed files.
func (p *Proposal) write(files fs.FS, fleet *peelindex.Index, compiled *plan.Plan, o Options) error {
	c := changes{files: files, byFile: map[string][]change{}, inserted: map[[3]string]bool{}}
	for _, declared := range compiled.DeclaredEntries() {
		i := slices.IndexFunc(p.Entries, func(e Entry) bool { return e.Name == declared.Entry.Name })
		if i < 0 || !declared.Entry.Enabled {
			continue
		}
		if err := c.entry(declared, p.Entries[i]); err != nil {
			p.ByHand = append(p.ByHand, declared.Pos.String())
		}
	}
	slices.Sort(p.ByHand)
	p.ByHand = slices.Compact(p.ByHand)
	contents, err := c.apply()
	if err != nil {
		return err
	}
	repo, err := edit.Read(files)
	if err != nil {
		return err
	}
	after, err := plan.NewCompiler().Compile(repo.With(contents), fleet)
	if err != nil || !onlyDelays(compiled, after) {
		for _, declared := range compiled.DeclaredEntries() {
			if slices.ContainsFunc(p.Entries, func(e Entry) bool { return e.Name == declared.Entry.Name }) {
				p.ByHand = append(p.ByHand, declared.Pos.String())
			}
		}
		slices.Sort(p.ByHand)
		p.ByHand, p.Entries = slices.Compact(p.ByHand), nil
		return nil
	}
	if p.After, err = forecast.Make(review.Groups(after), o.Forecast); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(contents)) {
		was, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		p.Patch += udiff.Unified("a/"+name, "b/"+name, string(was), string(contents[name]))
	}
	return nil
}

// onlyDelays reports whether two revisions differ in nothing but the delays and phases of entries.
func onlyDelays(before, after *plan.Plan) bool {
	same := map[[2]*plan.Effective]bool{}
	for id, was := range before.Peels {
		is := after.Peels[id]
		if is == nil {
			return false
		}
		if same[[2]*plan.Effective{was, is}] {
			continue
		}
		equal := func(a, b *schedule.Entry) bool {
			now := *b
			now.Splay, now.Clock.Phase = a.Splay, a.Clock.Phase
			return bytes.Equal(a.Canonical(), now.Canonical())
		}
		if !maps.EqualFunc(was.Schedule, is.Schedule, equal) {
			return false
		}
		same[[2]*plan.Effective{was, is}] = true
	}
	return len(before.Peels) == len(after.Peels)
}
