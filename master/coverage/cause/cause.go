// Package cause names the commit that a problem followed, or says that no commit explains it. Call [Of] with the
// problem and the commits that may be its cause. Coverage, alerts, the console and the command line show its text.
//
// A commit is a candidate if it changed the entry of the problem. It is a possible cause if at least four fifths of the
// peels with the problem got it within two hours, or two periods of the entry if that is longer, before the problem
// began there. It is a likely cause if every one of these peels had it before the problem began, and the runs show it:
// the share of runs that failed with it is at least ten times that without it, or none of at least 30 runs failed
// without it.
//
// The caller leaves out what has a cause of its own: runs that a person started, or that the stop or the end of the
// peel interrupted, fires that a peel missed because it was down, and peels that are offline. It passes the commit with
// which a run failed, which need not be the one that the peel has now.
//
// A commit is no cause if the problem began before the commit reached the peels, if it did not change the entry, or if
// at least four fifths of the peels that ran with it are well. If no commit is the cause and no run of an entry has
// ever succeeded, it has failed since it began.
//
// The package is pure: it reads no clock and no store. It compares times and counts; it does not know what a commit
// says. A problem of peels without an entry has no runs to count, so its cause is at most possible.
package cause

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	// before the beginning of a problem, in which a cause reached the peel; or periods, if that is longer
	window  = 2 * time.Hour
	periods = 2  // of the entry
	times   = 10 // the share of failed runs with a likely cause is so many times that without it
	enough  = 30 // runs without a failure that show that an entry was well before
	ofFive  = 4  // fifths that count as "most"
)

// A Problem is what went wrong with one entry, or with peels as a whole, and which peels are well.
type Problem struct {
	Entry  string        // empty: of the peels as a whole
	Period time.Duration // between two fires of the entry; 0: not known
	Peels  []Peel        // with the problem, and others that have the entry
	// Explained says that the problem has another cause on peels that are not among these: they were stopped or down,
	// or a person ran the entry.
	Explained bool
	// Ran is the commit that the failed runs had, if the time at which it reached the peels is unknown. Else it is
	// empty.
	Ran settings.Commit
}

// A Peel is one peel of a [Problem].
type Peel struct {
	ID    target.PeelID
	Onset time.Time // when the problem began here; zero: the peel is well
	Runs  []Tally   // of the entry, also before the problem; empty: not known
	Never bool      // no run of the entry has ever succeeded here; always false if the problem is not that runs fail
}

// A Tally counts runs that started in [From, Until]. One that a commit reached in the middle counts neither with nor
// without it.
type Tally struct {
	From, Until  time.Time
	Runs, Failed uint64
}

// A Commit may be the cause of a problem.
type Commit struct {
	Hash            settings.Commit
	Author, Subject string // empty: not known
	Changed         bool   // it changed the entry of the problem; without an entry: any setting of the peels
	// Reached is when the first settings with the commit reached each peel. A peel is absent if they did not, or if
	// that is not known.
	Reached map[target.PeelID]time.Time
}

// A Word says how certain a cause is.
type Word string

// The words.
const (
	Likely   Word = "likely"   // times and runs agree
	Possible Word = "possible" // the times agree
	None     Word = "none"     // no commit explains the problem
)

// A Share is a number of runs and how many of them failed.
type Share struct {
	Runs   uint64 `json:"runs"`
	Failed uint64 `json:"failed"`
}

// A Finding is the cause of a problem.
type Finding struct {
	Word Word `json:"cause"`
	// with [None]: the first candidate, which Text says why it is not the cause
	Commit  settings.Commit `json:"commit,omitempty"`
	Author  string          `json:"author,omitempty"`
	Subject string          `json:"subject,omitempty"`
	With    Share           `json:"with"`    // runs with the commit
	Without Share           `json:"without"` // runs before it, and on peels that it did not reach
	Text    string          `json:"text"`    // one line for people
	// Common is what peels with the problem have in common though no commit explains it: that no run of the entry ever
	// succeeded, or of peels that do not report see [Common]. Text begins with it.
	Common string `json:"-"`
}

// sinceItBegan is in the place of a commit if none explains a failure and no run of the entry has ever succeeded.
const sinceItBegan = "it has failed since it began"

// Of returns the cause of a problem: the first of the commits that is likely, else the first that is possible. The
// commit that last changed the entry comes first, then older ones. Commits that reached no peel with the problem are
// left out.
func Of(p Problem, commits []Commit) Finding {
	if !slices.ContainsFunc(p.Peels, func(peel Peel) bool { return !peel.Onset.IsZero() }) {
		text := "there is no problem"
		if p.Explained {
			text = "no commit explains it: the peel was stopped or down, or a person ran the entry"
		}
		return Finding{Word: None, Text: text}
	}
	f := p.best(commits)
	if f.Word == None && !slices.ContainsFunc(p.Peels, func(peel Peel) bool { return !peel.Never }) {
		return Finding{Word: None, Common: sinceItBegan, Text: sinceItBegan + ": no run has succeeded"}
	}
	return f
}

// best judges the commits, and returns the first that is likely, else the first that is possible, else why none is.
func (p *Problem) best(commits []Commit) Finding {
	var best *Finding
	for _, c := range commits {
		if !p.concerns(c) {
			continue
		}
		f := p.judge(c)
		switch {
		case f.Word == Likely:
			return f
		case best == nil || best.Word == None && f.Word == Possible:
			best = &f
		}
	}
	switch {
	case best == nil && p.Ran != "":
		text := fmt.Sprintf("it ran with commit %s, and it is not known when that reached the peels", p.Ran.Short())
		return Finding{Word: None, Commit: p.Ran, Text: text}
	case best == nil:
		return Finding{Word: None, Text: "no commit explains it: none is known that reached the peels before"}
	}
	return *best
}

// concerns reports whether a commit reached a peel with the problem.
func (p *Problem) concerns(c Commit) bool {
	return slices.ContainsFunc(p.Peels, func(peel Peel) bool {
		_, reached := c.Reached[peel.ID]
		return reached && !peel.Onset.IsZero()
	})
}

// judge says whether one commit is the cause.
func (p *Problem) judge(c Commit) Finding {
	f := Finding{Word: None, Commit: c.Hash, Author: c.Author, Subject: c.Subject}
	f.With, f.Without = p.shares(c)
	t := p.compare(c)
	switch {
	case p.Entry != "" && !c.Changed:
		f.Text = fmt.Sprintf("no commit explains it: %s did not change %s", c.Hash.Short(), p.Entry)
	case !most(t.timely, t.ill):
		f.Text = fmt.Sprintf("no commit explains it: %s", t.because(c.Hash.Short()))
	case most(t.well, t.well+t.had):
		f.Text = fmt.Sprintf("no commit explains it: %d of %s with %s are well", t.well, count(t.well+t.had, "peel"),
			c.Hash.Short())
	case t.had == t.ill && telling(f.With, f.Without):
		f.Word = Likely
		f.Text = fmt.Sprintf("likely %s: %s", c.title(), runs(f.With, f.Without))
	default:
		f.Word = Possible
		f.Text = fmt.Sprintf("possibly %s: it reached %d of %s at most %s before", c.title(), t.timely,
			count(t.ill, "peel"), strictyaml.FormatDuration(p.window()))
		if f.With.Runs > 0 {
			f.Text += "; " + runs(f.With, f.Without)
		}
	}
	return f
}

// timing compares the times at which a commit reached the peels with the beginnings of the problem.
type timing struct {
	ill    int           // peels with the problem
	had    int           // of them, those that the commit had reached before
	timely int           // of these, those that it had reached within the window
	after  int           // of ill, those that it reached after the problem had begun
	well   int           // peels with the commit that are well
	ago    time.Duration // the longest time between commit and problem
}

func (p *Problem) compare(c Commit) (t timing) {
	for _, peel := range p.Peels {
		at, reached := c.Reached[peel.ID]
		if peel.Onset.IsZero() {
			if reached && peel.ranWith(at) {
				t.well++
			}
			continue
		}
		t.ill++
		switch before := peel.Onset.Sub(at); {
		case !reached:
		case before < 0:
			t.after++
		default:
			t.had++
			t.ago = max(t.ago, before)
			if before <= p.window() {
				t.timely++
			}
		}
	}
	return t
}

// because says why the times do not agree.
func (t timing) because(commit string) string {
	late := t.had - t.timely
	switch {
	case t.after >= late && t.after > 0:
		return fmt.Sprintf("it began before %s reached %d of %s", commit, t.after, count(t.ill, "peel"))
	case late > 0:
		return fmt.Sprintf("%s had been on %d of %s for up to %s before", commit, late, count(t.ill, "peel"),
			strictyaml.FormatDuration(t.ago.Truncate(time.Minute)))
	}
	return fmt.Sprintf("%s is not known to have reached %d of %s", commit, t.ill-t.had, count(t.ill, "peel"))
}

// ranWith reports whether a peel that a commit reached shows anything about it: a run since, or that nothing is known
// of runs.
func (p *Peel) ranWith(reached time.Time) bool {
	return len(p.Runs) == 0 || slices.ContainsFunc(p.Runs, func(t Tally) bool {
		return t.Runs > 0 && !t.From.Before(reached)
	})
}

func (p *Problem) window() time.Duration { return max(window, periods*p.Period) }

// shares returns the runs with a commit and without it.
func (p *Problem) shares(c Commit) (with, without Share) {
	for _, peel := range p.Peels {
		at, reached := c.Reached[peel.ID]
		for _, t := range peel.Runs {
			switch {
			case !reached || t.Until.Before(at):
				without.add(t)
			case !t.From.Before(at):
				with.add(t)
			}
		}
	}
	return with, without
}

func (s *Share) add(t Tally) {
	s.Runs += t.Runs
	s.Failed += t.Failed
}

// telling reports whether runs fail with a commit and not without it.
func telling(with, without Share) bool {
	switch {
	case with.Failed == 0:
		return false
	case without.Failed == 0:
		return without.Runs >= enough
	}
	return float64(with.Failed)*float64(without.Runs) >= times*float64(without.Failed)*float64(with.Runs)
}

func most(part, all int) bool { return all > 0 && 5*part >= ofFive*all }

func runs(with, without Share) string {
	return fmt.Sprintf("%d of %s failed with it, %d of %d without", with.Failed, count(int(with.Runs), "run"),
		without.Failed, without.Runs)
}

// title names a commit, its author and its subject.
func (c *Commit) title() string {
	text := "commit " + c.Hash.Short()
	if name, _, _ := strings.Cut(c.Author, " <"); name != "" {
		text += " by " + name
	}
	if c.Subject != "" {
		text += fmt.Sprintf(" (%s)", c.Subject)
	}
	return text
}

func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
