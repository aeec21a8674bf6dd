// Package horizon says what a fleet does if every link is cut now: what still runs, what stops, what goes stale, and
// which credential ends first. Call [Look] with what the masters know. It is pure.
//
// A peel needs no master to run its schedule: it has its settings on the disk, with its secrets and the contents of
// files. So what counts is what has reached it before the cut, entries whose life ends, and entries that only a person
// can resume.
//
// Known gaps: what a command needs from the network is not known. Entries of peel.yaml are not known to masters, nor
// are pauses by people. Fires are counted without splay, as if runs took no time.
package horizon

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/peel/catalogue"
	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/schedule/forecast"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Length is the time that a horizon covers.
const Length = 72 * time.Hour

const (
	outboxItems = 10_000 // messages that a peel keeps for the masters: peel/outbox.MaxItems
	ever        = 400 * 24 * time.Hour
)

// A Fleet is what the masters know at the cut.
type Fleet struct {
	Cut   time.Time
	Zone  *time.Location // of entries that name none
	Peels []status.Peel  // without those that are decommissioned
	// Schedules are the entries of the wanted settings, by their digest.
	Schedules   map[settings.Digest]schedule.Set
	Credentials []credential.Held
	Tokens      []credential.Token
	Sync        *status.Sync // nil: not known
}

// A State says what a peel does after the cut.
type State string

// The states of a peel, the best first.
const (
	Runs    State = "runs"    // it runs all its entries, each to the end of its life
	Partly  State = "partly"  // some of its entries do not run
	Older   State = "older"   // it runs other settings than the fleet is to have
	Nothing State = "nothing" // it has no settings, or no entries
)

// A Horizon is what a fleet does after the cut.
type Horizon struct {
	Cut     time.Time     `json:"cut"`
	Until   time.Time     `json:"until"`
	Counts  map[State]int `json:"counts"`  // of peels by state
	Runs    int           `json:"runs"`    // up to Until, of all entries on all peels
	Entries []Entry       `json:"entries"` // by name; one for each variant
	Peels   []Peel        `json:"peels"`   // by ID
	Stale   []Stale       `json:"stale"`
	// the one that ends first comes first; those that never end are left out
	Credentials []Credential `json:"credentials"`
	Endless     int          `json:"endless"` // credentials that never end
}

// An Entry is one entry on the peels where its fires are the same.
type Entry struct {
	Entry string    `json:"entry"`
	Peels int       `json:"peels"`
	Runs  int       `json:"runs"`            // of one peel
	About bool      `json:"about,omitempty"` // Runs is not exact: the entry counts from earlier runs
	Last  time.Time `json:"last,omitzero"`   // the last fire up to Until
	Stops string    `json:"stops,omitempty"` // why it does not fire any more after Last; empty: it goes on
}

// A Peel is one peel after the cut.
type Peel struct {
	Peel       target.PeelID   `json:"peel"`
	State      State           `json:"state"`
	Commit     settings.Commit `json:"commit,omitempty"` // of the settings that it runs
	Entries    int             `json:"entries"`          // of the wanted settings that run
	Runs       int             `json:"runs"`
	Why        []string        `json:"why,omitempty"`       // if State is not Runs
	Credential time.Time       `json:"credential,omitzero"` // when its credential ends
}

// A Stale is something that masters or peels no longer learn.
type Stale struct {
	What string `json:"what"`
	Text string `json:"text"`
}

// A Credential is one that ends.
type Credential struct {
	Kind string    `json:"kind"` // a role of the bus, or token
	Name string    `json:"name"`
	Ends time.Time `json:"ends"`
	Then string    `json:"then"` // what that means
}

// fires is what one entry does up to the end.
type fires struct {
	runs  int
	last  time.Time
	stops string
}

// A look holds what Look has computed so far.
type look struct {
	Fleet
	until  time.Time
	fires  map[string]fires // by [schedule.Entry.Hash]
	ends   map[target.PeelID]time.Time
	out    *Horizon
	seen   map[string]int // index in Horizon.Entries, by name and hash
	loaded int            // most runs of one peel that are reported
}

// Look returns what a fleet does from the cut on.
func Look(f Fleet) (*Horizon, error) {
	until := f.Cut.Add(Length)
	l := look{
		Fleet: f, until: until, fires: map[string]fires{}, ends: map[target.PeelID]time.Time{}, seen: map[string]int{},
		out: &Horizon{
			Cut:         f.Cut,
			Until:       until,
			Counts:      map[State]int{},
			Entries:     []Entry{},
			Peels:       []Peel{},
			Stale:       []Stale{},
			Credentials: []Credential{},
		},
	}
	l.credentials()
	for _, p := range f.Peels {
		if err := l.peel(p); err != nil {
			return nil, err
		}
	}
	sorting.Func(l.out.Peels, func(a, b Peel) int { return cmp.Compare(a.Peel, b.Peel) })
	sorting.Stable(l.out.Entries, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Entry, b.Entry), cmp.Compare(b.Peels, a.Peels))
	})
	l.stale()
	return l.out, nil
}

func (l *look) peel(p status.Peel) error {
	one := Peel{Peel: p.Peel, State: Runs, Commit: p.Commit, Credential: l.ends[p.Peel]}
	set := l.Schedules[p.Wanted]
	reported := 0
	for _, name := range slices.Sorted(maps.Keys(set)) {
		e := set[name]
		if !e.Enabled {
			continue
		}
		f, err := l.firesOf(e)
		if err != nil {
			return fmt.Errorf("cannot compute the fires of %s on %s: %w", name, p.Peel, err)
		}
		if why := keptFrom(e, &p); why != "" {
			one.Why = append(one.Why, name+" "+why)
			continue
		}
		one.Entries++
		one.Runs += f.runs
		if e.ReturnJob != schedule.ReturnNever {
			reported += f.runs
		}
		l.count(e, f)
	}
	if len(one.Why) > 0 {
		one.State = Partly
	}
	l.settle(&one, &p, len(set))
	if one.State == Nothing {
		one.Entries, one.Runs = 0, 0
	}
	l.loaded = max(l.loaded, reported)
	l.out.Runs += one.Runs
	l.out.Counts[one.State]++
	l.out.Peels = append(l.out.Peels, one)
	return nil
}

// settle sets the state of a peel that does not run the wanted settings, or has none.
func (l *look) settle(one *Peel, p *status.Peel, entries int) {
	switch {
	case p.Reported.IsZero():
		one.State, one.Why = Nothing, []string{"it has never reported that settings reached it"}
	case p.Digest != p.Wanted:
		text := "it runs " + p.Commit.Short()
		if p.Commit == "" {
			text = "it runs no settings"
		}
		if !p.Since.IsZero() {
			text += ", newer settings wait since " + p.Since.UTC().Format(time.RFC3339)
		}
		one.State, one.Why = Older, append([]string{text}, one.Why...)
	case entries == 0:
		one.State, one.Why = Nothing, []string{"its settings have no entries"}
	}
	if p.State == status.Failed && len(p.Errors) > 0 {
		one.Why = append(one.Why, p.Errors[0])
	}
}

// keptFrom says what keeps an entry from running on one peel, empty if nothing does.
func keptFrom(e *schedule.Entry, p *status.Peel) string {
	switch {
	case e.Invalid != "":
		return "is not valid: " + e.Invalid
	case slices.Contains(p.PausedErrors, e.Name):
		return "is paused after failures, until a person resumes it"
	case catalogue.RunsStates(e.Module) && p.MissingContents > 0:
		return fmt.Sprintf("runs states, and files that they write have not arrived: %d", p.MissingContents)
	}
	return ""
}

// count adds the fires of an entry on one more peel.
func (l *look) count(e *schedule.Entry, f fires) {
	key := e.Name + "\x00" + e.Hash()
	i, known := l.seen[key]
	if !known {
		i, l.seen[key] = len(l.out.Entries), len(l.out.Entries)
		about := e.Clock.Interval != schedule.Interval{} && e.Clock.IntervalFrom != schedule.FromEpoch ||
			e.Needs.Entry != ""
		l.out.Entries = append(l.out.Entries, Entry{
			Entry: e.Name,
			Runs:  f.runs,
			About: about,
			Last:  f.last,
			Stops: f.stops,
		})
	}
	l.out.Entries[i].Peels++
}

// firesOf returns the fires of an entry up to the end.
func (l *look) firesOf(e *schedule.Entry) (fires, error) {
	hash := e.Hash()
	if f, known := l.fires[hash]; known {
		return f, nil
	}
	if e.Invalid != "" {
		return fires{}, nil
	}
	timing, err := e.Timing(l.Zone)
	if err != nil {
		return fires{}, err
	}
	timing = timing.Seen(l.Cut)
	var f fires
	for at := range forecast.Fires(e, timing, l.Cut, l.until) {
		f.runs++
		f.last = at
	}
	f.stops = l.stops(e, timing, f)
	l.fires[hash] = f
	return f, nil
}

// stops says why an entry does not fire after the end, empty if it does.
func (l *look) stops(e *schedule.Entry, timing schedule.Timing, f fires) string {
	life := e.Life
	limit := life.MaxRuns
	if life.DeleteAfterRun {
		limit = 1
	}
	switch {
	case e.Clock.IsZero():
		return "" // it runs after another entry
	case !life.Until.IsZero() && !life.Until.After(l.until):
		return "ends at " + life.Until.UTC().Format(time.RFC3339) + " (until)"
	case limit > 0 && f.runs >= limit:
		return fmt.Sprintf("ends after %d runs in all, or fewer from now on", limit)
	}
	for range forecast.Fires(e, timing, l.until, l.until.Add(ever)) {
		return ""
	}
	if f.runs == 0 {
		return "does not fire again within a year"
	}
	return "fires last at " + f.last.UTC().Format(time.RFC3339)
}

// credentials fills Horizon.Credentials, and Peel.Credential of each peel.
func (l *look) credentials() {
	for _, c := range l.Credentials {
		if c.Expires.IsZero() {
			l.out.Endless++
			continue
		}
		if c.Role == grants.RolePeel {
			l.ends[target.PeelID(c.Name)] = c.Expires
			if !slices.ContainsFunc(l.Peels, func(p status.Peel) bool { return string(p.Peel) == c.Name }) {
				continue
			}
		}
		l.out.Credentials = append(l.out.Credentials, Credential{
			Kind: string(c.Role),
			Name: c.Name,
			Ends: c.Expires,
			Then: then(c),
		})
	}
	for _, t := range l.Tokens {
		switch {
		case !t.Revoked.IsZero(), !t.Expires.IsZero() && !t.Expires.After(l.Cut):
		case t.Expires.IsZero():
			l.out.Endless++
		default:
			l.out.Credentials = append(l.out.Credentials, Credential{
				Kind: "token",
				Name: t.Name,
				Ends: t.Expires,
				Then: "masters refuse it over HTTP",
			})
		}
	}
	sorting.Stable(l.out.Credentials, func(a, b Credential) int {
		return cmp.Or(a.Ends.Compare(b.Ends), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
	})
}

// then says what stops when a credential expires.
func then(c credential.Held) string {
	switch {
	case c.Role == grants.RolePeel && c.Renews:
		return "its schedule goes on; it gets another by itself once it reaches a master"
	case c.Role == grants.RolePeel:
		return "its schedule goes on; it stays away until zester auth issue makes another"
	case c.Role == grants.RoleSite:
		return "its peels stay away until zester auth issue makes another"
	}
	return "the bus refuses it until another is made"
}

// stale fills Horizon.Stale.
func (l *look) stale() {
	add := func(what, format string, args ...any) {
		l.out.Stale = append(l.out.Stale, Stale{what, fmt.Sprintf(format, args...)})
	}
	if s := l.Sync; s != nil && s.LastGood.Commit != "" {
		text := fmt.Sprintf("no commit after %s reaches a peel", s.LastGood.Commit.Short())
		if s.Rollout != nil {
			text += fmt.Sprintf("; the rollout of %s stays at wave %d of %d", s.Rollout.Commit.Short(), s.Rollout.Wave,
				s.Rollout.Waves)
		}
		add("settings", "%s", text)
	}
	add("presence", "masters see every peel as offline; targets by facts use the last known facts")
	results := fmt.Sprintf("peels keep the results of up to %d reported runs each and send them later", outboxItems)
	if l.loaded > outboxItems {
		results = fmt.Sprintf(
			"one peel reports %d runs and keeps the newest %d of them: it drops older ones from about %.0f h on",
			l.loaded, outboxItems, Length.Hours()*outboxItems/float64(l.loaded),
		)
	}
	add("results", "%s", results)
	add("coverage",
		"masters do not know what happened to fires until the peel reports; peels keep the list of fires for %d h",
		int(ledger.Kept.Hours()))
	add("orders", "nobody can pause, resume or run an entry; a pause with --for ends by itself")
}
