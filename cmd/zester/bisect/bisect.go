// Package bisect finds the commit after which a schedule entry began to fail, from the records of its runs alone. Call
// [Find].
//
// A record names the commit that last changed the entry, so each recorded run has already tested a commit. Which
// commit explains the failures is decided by package cause. Runs that fail and succeed in turns, an entry that failed
// before the oldest record, and one that began to fail without a commit are reported as such.
//
// Known gap: a run depends on more than its entry. A commit that changed a file that the entry reads, and not the
// entry, is only listed among the revisions that went out between the last good run and the first bad one.
package bisect

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage/cause"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A Run is the record of one run of the entry.
type Run struct {
	Peel    target.PeelID   `json:"peel"`
	Started time.Time       `json:"started"`
	Job     wire.JID        `json:"job,omitempty"`    // empty: it has no record
	Commit  settings.Commit `json:"commit,omitempty"` // that last changed the entry; empty: not known
	Good    bool            `json:"-"`
	Author  string          `json:"-"` // of the commit, as the next
	File    string          `json:"-"` // file:line of the entry
	Nominal time.Time       `json:"-"` // when it was due; zero: it was not by the clock
}

// A Verdict says what the records show.
type Verdict string

// The verdicts.
const (
	Found    Verdict = "commit"    // it began to fail after a commit: Result.Cause
	NoCommit Verdict = "no_commit" // it began to fail, and no commit explains it
	Flapping Verdict = "flapping"  // runs fail and succeed in turns
	Before   Verdict = "before"    // it fails since the oldest record
	Well     Verdict = "well"      // the newest run succeeded on each peel
)

// A Result is what the records of one entry show.
type Result struct {
	Entry   string         `json:"entry"`
	Verdict Verdict        `json:"verdict"`
	Text    string         `json:"text"` // one line for people
	Cause   *cause.Finding `json:"cause,omitempty"`
	// LastGood and FirstBad are of the peel on which the entry began to fail first.
	LastGood *Run              `json:"last_good,omitempty"`
	FirstBad *Run              `json:"first_bad,omitempty"`
	Between  []status.Revision `json:"between"` // revisions that began to go out between the two, oldest first
	Commits  []Commit          `json:"commits"` // in the order of their first runs
	Peels    []Peel            `json:"peels"`   // by ID
	From     time.Time         `json:"from"`    // of the oldest run
	Until    time.Time         `json:"until"`   // of the newest run
}

// A Commit counts the runs of one version of the entry.
type Commit struct {
	Commit settings.Commit `json:"commit,omitempty"` // empty: not known, as for entries of peel.yaml
	Author string          `json:"author,omitempty"`
	File   string          `json:"file,omitempty"`
	Good   int             `json:"good"`
	Bad    int             `json:"bad"`
	Peels  int             `json:"peels"`
	First  time.Time       `json:"first"`
	Last   time.Time       `json:"last"`
}

// A Peel counts the runs of one peel.
type Peel struct {
	Peel    target.PeelID `json:"peel"`
	Good    int           `json:"good"`
	Bad     int           `json:"bad"`
	Changes int           `json:"changes"` // how often a run ended unlike the one before
	// the first of the newest runs that all failed; zero: the newest run succeeded
	Since time.Time `json:"since,omitzero"`
}

// flaps is how often the results of a peel change before its runs are said to fail and succeed in turns: it failed,
// recovered, and failed again.
const flaps = 3

// Find returns what the records of an entry show. There is at least one run; attempts are the revisions that went out,
// in any order.
func Find(entry string, runs []Run, attempts []status.Attempt) *Result {
	runs = slices.Clone(runs)
	sorting.Stable(runs, func(a, b Run) int { return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.Job, b.Job)) })
	s := search{byPeel: map[target.PeelID][]Run{}, attempts: slices.Clone(attempts)}
	sorting.Stable(s.attempts, func(a, b status.Attempt) int { return a.Began.Compare(b.Began) })
	for _, r := range runs {
		s.byPeel[r.Peel] = append(s.byPeel[r.Peel], r)
	}
	out := &Result{
		Entry: entry, Between: []status.Revision{}, Commits: commitsOf(runs), Peels: s.peels(),
		From: runs[0].Started, Until: runs[len(runs)-1].Started,
	}
	s.edge(out)
	f := cause.Of(s.problem(out), s.candidates(out.Commits))
	out.decide(f)
	return out
}

// A search holds the sorted records.
type search struct {
	byPeel   map[target.PeelID][]Run
	attempts []status.Attempt
}

func commitsOf(runs []Run) (commits []Commit) {
	type place struct {
		commit settings.Commit
		peel   target.PeelID
	}
	index, seen := map[settings.Commit]int{}, map[place]bool{}
	for _, r := range runs {
		i, known := index[r.Commit]
		if !known {
			i, index[r.Commit] = len(commits), len(commits)
			commits = append(commits, Commit{Commit: r.Commit, Author: r.Author, File: r.File, First: r.Started})
		}
		c := &commits[i]
		c.Last = r.Started
		if r.Good {
			c.Good++
		} else {
			c.Bad++
		}
		if at := (place{r.Commit, r.Peel}); !seen[at] {
			seen[at] = true
			c.Peels++
		}
	}
	return commits
}

func (s *search) peels() (peels []Peel) {
	for id, runs := range s.byPeel {
		p := Peel{Peel: id}
		for i, r := range runs {
			changed := i > 0 && r.Good != runs[i-1].Good
			if changed {
				p.Changes++
			}
			switch {
			case r.Good:
				p.Good++
				p.Since = time.Time{}
			case changed || i == 0:
				p.Since = r.Started
				fallthrough
			default:
				p.Bad++
			}
		}
		peels = append(peels, p)
	}
	sorting.Func(peels, func(a, b Peel) int { return cmp.Compare(a.Peel, b.Peel) })
	return peels
}

// edge sets the last good and the first bad run of the peel on which the entry began to fail first, and what went out
// between.
func (s *search) edge(out *Result) {
	for _, p := range out.Peels {
		if p.Since.IsZero() || out.FirstBad != nil && !p.Since.Before(out.FirstBad.Started) {
			continue
		}
		out.LastGood = nil
		for _, r := range s.byPeel[p.Peel] {
			if r.Good {
				out.LastGood = &r
			} else if r.Started.Equal(p.Since) {
				out.FirstBad = &r
				break
			}
		}
	}
	if out.LastGood == nil {
		return
	}
	for _, at := range s.attempts {
		if at.Began.After(out.LastGood.Started) && !at.Began.After(out.FirstBad.Started) {
			out.Between = append(out.Between, status.Revision{
				Commit:  at.Commit,
				Author:  at.Author,
				Message: at.Message,
				Since:   at.Began,
			})
		}
	}
}

// problem returns the failures as package cause takes them.
func (s *search) problem(out *Result) cause.Problem {
	p := cause.Problem{Entry: out.Entry, Period: s.period()}
	for _, peel := range out.Peels {
		one := cause.Peel{ID: peel.Peel, Onset: peel.Since}
		for _, r := range s.byPeel[peel.Peel] {
			t := cause.Tally{From: r.Started, Until: r.Started, Runs: 1}
			if !r.Good {
				t.Failed = 1
			}
			one.Runs = append(one.Runs, t)
		}
		p.Peels = append(p.Peels, one)
	}
	return p
}

// period returns the median time between two fires of a peel, 0 if no peel has two.
func (s *search) period() time.Duration {
	var gaps []time.Duration
	for _, runs := range s.byPeel {
		for i := 1; i < len(runs); i++ {
			before, at := runs[i-1].Nominal, runs[i].Nominal
			if !before.IsZero() && at.After(before) {
				gaps = append(gaps, at.Sub(before))
			}
		}
	}
	if len(gaps) == 0 {
		return 0
	}
	slices.Sort(gaps)
	return gaps[len(gaps)/2]
}

// candidates returns the commits that arrived within the records, the newest first. Each of them changed the entry.
func (s *search) candidates(commits []Commit) (candidates []cause.Commit) {
	for _, c := range slices.Backward(commits) {
		one := cause.Commit{Hash: c.Commit, Author: c.Author, Changed: true, Reached: map[target.PeelID]time.Time{}}
		for id, runs := range s.byPeel {
			if at, ok := s.reached(runs, c.Commit); ok {
				one.Reached[id] = at
			}
		}
		for _, at := range s.attempts {
			if at.Commit == c.Commit {
				one.Subject = at.Message
			}
		}
		if c.Commit != "" && len(one.Reached) > 0 {
			candidates = append(candidates, one)
		}
	}
	return candidates
}

// reached returns when a commit reached the peel of these runs: when the first revision began to go out between the
// last run without it and the first run with it, or with that run if none is known. It is not known of a commit that
// the oldest record has already, unless it was a revision itself.
func (s *search) reached(runs []Run, c settings.Commit) (at time.Time, ok bool) {
	i := slices.IndexFunc(runs, func(r Run) bool { return r.Commit == c })
	if i < 0 {
		return time.Time{}, false
	}
	var from time.Time
	if i > 0 {
		from = runs[i-1].Started
	}
	first := -1
	for j, a := range s.attempts {
		switch {
		case !a.Began.After(from) || a.Began.After(runs[i].Started):
		case a.Commit == c:
			return a.Began, true
		case first < 0:
			first = j
		}
	}
	switch {
	case i == 0:
		return time.Time{}, false
	case first >= 0:
		return s.attempts[first].Began, true
	}
	return runs[i].Started, true
}

// decide sets the verdict and its text.
func (r *Result) decide(f cause.Finding) {
	ill := 0
	inTurns := 0
	everGood := false
	good := 0
	bad := 0
	for _, p := range r.Peels {
		good, bad = good+p.Good, bad+p.Bad
		if p.Changes >= flaps {
			inTurns++
		}
		if !p.Since.IsZero() {
			ill++
			everGood = everGood || p.Good > 0
		}
	}
	switch {
	case ill > 0 && (f.Word == cause.Likely || f.Word == cause.Possible && 2*inTurns <= ill):
		r.Verdict, r.Cause, r.Text = Found, &f, f.Text
	case 2*inTurns > ill:
		r.Verdict = Flapping
		r.Text = fmt.Sprintf(
			"it fails and succeeds in turns on %d of %s (%d good and %d bad runs): no commit divides them", inTurns,
			count(len(r.Peels), "peel"), good, bad,
		)
	case ill == 0 && bad == 0:
		r.Verdict, r.Text = Well, "all recorded runs succeeded: "+count(good, "run")
	case ill == 0:
		r.Verdict, r.Text = Well, fmt.Sprintf(
			"it does not fail now: %d of %s failed, and the newest succeeded on each peel", bad, count(good+bad, "run"),
		)
	case !everGood:
		r.Verdict, r.Text = Before, fmt.Sprintf(
			"it has failed since the oldest record on %d of %s: it began to fail before", ill,
			count(len(r.Peels), "peel"),
		)
	default:
		r.Verdict, r.Text = NoCommit, "no commit explains it: the entry was not changed between the last good and "+
			"the first bad run"
		if f.Commit != "" {
			r.Cause, r.Text = &f, f.Text
		}
	}
}

func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
