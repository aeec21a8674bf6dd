package coverage

import (
	"fmt"
	"slices"
	"time"
	"unique"

	"github.com/seed-c01c3da5/zester/master/coverage/join"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	// clockTolerance is how far the time of a report may be from its arrival.
	clockTolerance = 2 * time.Minute
	// documentGrace is how long a peel may take to have a new document.
	documentGrace = 2 * time.Minute
	// overdueAfter is how long a peel may not report: two intervals with their jitter, and a minute.
	overdueAfter = 2*wire.ScheduleInterval + wire.ScheduleInterval/5 + time.Minute
)

// A peel is what the table knows of one peel. Times are Unix seconds, to be small.
type peel struct {
	id       target.PeelID
	rows     []row  // of the entries in the report or in the document, by name
	hours    []byte // the verdicts of the rows, packed
	problems []verdict.Problem
	standing *standing // in the sums of the table; nil: it is not in them

	document *document             // nil: there is none
	wanted   uint64                // digest of the document
	stored   int64                 // when the document was stored
	has      uint64                // digest of the settings on the peel
	arrivals []arrival             // of the entries of the document
	former   map[string]arrival    // of the entries whose arrival the document has replaced
	revision unique.Handle[source] // that was in force when the document was written
	zone     unique.Handle[string]
	// uncomputed is how many active entries of the document have fires that this master cannot compute, and the name of
	// the first.
	uncomputed struct {
		n     int
		first unique.Handle[string]
	}

	noted map[string][]verdict.Ended // by entry, see [Options]

	lastReport
	judged  int64 // up to when fires were judged of a peel that does not report, or that reports lists
	lists   lists
	changed uint64 // its last change, of those that the table counts
}

// lastReport is what the table knows of the newest report of a peel.
type lastReport struct {
	arrived int64  // 0: there is none
	offset  int64  // of the peel's clock when it was made
	memory  uint32 // since when the peel's disk has refused its lists; 0: it has not
	from    uint32 // since when it has all fires, if it lacks some of the last 47 hours; 0: it has all
}

func newPeel() *peel { return &peel{zone: unique.Make("")} }

// A row is one entry on one peel.
type row struct {
	name      unique.Handle[string]
	detail    *detail // nil: there is nothing to tell
	next      uint32
	succeeded uint32
	since     uint32
	started   uint32
	ended     uint32
	state     state
	// the settings of the peel have the entry, or had it since this row was made; only such rows count for the fleet
	published bool
	is        condition
	exit      uint8 // of the run that ended: 0 if it succeeded, its exit code, or noExit
}

// A condition is what holds of an entry; its parts are bits.
type condition uint8

const (
	running condition = 1 << iota // a run is in flight
	planned                       // its list is compared with its plan
)

// with returns the condition with a part, if that holds.
func (c condition) with(part condition, holds bool) condition {
	if holds {
		c |= part
	}
	return c
}

// A detail is what few entries have.
type detail struct {
	why   string
	err   string
	inRow uint64 // failures
}

// A state is the state of an entry in a report.
type state uint8

// states are the words of a [state]. Others are "other", and "" stands for an entry that the report does not have.
var states = []string{
	"", stateActive, "disabled", "paused_manual", "paused_errors", "paused_invalid", "exhausted", "other",
}

// stateActive is the state of an entry that fires.
const stateActive = "active"

func stateOf(word string) state { return state(max(slices.Index(states[:len(states)-1], word), 0)) }

func (s state) String() string { return states[s] }

// hasSchedule reports whether anything is expected of the peel.
func (p *peel) hasSchedule() bool { return len(p.rows) > 0 }

// clockIsWrong reports whether the newest report was made by a wrong clock.
func (p *peel) clockIsWrong() bool {
	return p.offset > int64(clockTolerance.Seconds()) || -p.offset > int64(clockTolerance.Seconds())
}

// isStale reports whether the peel reported other settings than those that it should have had for a while.
func (p *peel) isStale() bool {
	return p.arrived > 0 && p.document != nil && p.has != p.wanted &&
		p.arrived > p.stored+int64(documentGrace.Seconds())
}

// publishes reports whether an entry counts for the fleet: a peel may claim any other.
func (p *peel) publishes(entry string) bool {
	i, found := slices.BinarySearchFunc(p.rows, entry, compareName)
	return found && p.rows[i].published
}

// disagreement returns why masters do not believe the peel's settings or clock; empty if they do.
func (p *peel) disagreement(t *Table) string {
	switch {
	case p.arrived == 0:
		return ""
	case p.clockIsWrong():
		d := time.Duration(p.offset) * time.Second
		if d > 0 {
			return fmt.Sprintf("clock: it is %s ahead", d)
		}
		return fmt.Sprintf("clock: it is %s behind", -d)
	case p.isStale():
		return "document: it runs other settings than those that were published " + at(p.stored).Format(time.RFC3339)
	}
	if p.memory != 0 {
		since := at(int64(p.memory)).Format(time.RFC3339)
		return "disk: it has refused the lists of fires since " + since +
			"; a restart of the peel loses what happened since"
	}
	zone := p.zone.Value()
	isNamed := zone != "" && zone != "Local"
	text := ""
	switch isKnown := isNamed && t.zones.location(zone) != nil; {
	case isNamed && !isKnown:
		text = fmt.Sprintf("zone: masters do not know %.64q", zone)
	case p.uncomputed.n == 0:
		return ""
	case isKnown:
		text = "document: this master cannot read all entries"
	default:
		text = "zone: the peel does not know the name of its host's zone, which /etc/timezone may have"
	}
	switch n := p.uncomputed.n; n {
	case 0:
		return text
	case 1:
		return fmt.Sprintf("%s; the fires of %s are not checked", text, p.uncomputed.first.Value())
	default:
		return fmt.Sprintf("%s; the fires of %s and %d more are not checked", text, p.uncomputed.first.Value(), n-1)
	}
}

// at returns the instant of Unix seconds, zero for 0.
func at(seconds int64) time.Time {
	if seconds == 0 {
		return time.Time{}
	}
	return time.Unix(seconds, 0).UTC()
}

// seconds returns Unix seconds, 0 for the zero time and for times that do not fit.
func seconds(at time.Time) uint32 {
	s := at.Unix()
	if at.IsZero() || s < 0 || s > 1<<32-1 {
		return 0
	}
	return uint32(s)
}

func compareName(r row, name string) int {
	switch have := r.name.Value(); {
	case have < name:
		return -1
	case have > name:
		return 1
	}
	return 0
}

// noExit is in a row if a run failed without an exit code, or with this one.
const noExit = 255

// exitOf returns the field exit of a row, by whether the last run succeeded and by its error.
func exitOf(succeeded bool, text string) uint8 {
	if succeeded {
		return 0
	}
	if code, ok := wire.ParseExitCode(text); ok {
		return uint8(code)
	}
	return noExit
}

// want replaces the document of a peel.
func (t *Table) want(p *peel, doc *settings.Document, s *document, stored time.Time) {
	arrivals, former := p.arrivalsOf(doc, s, stored)
	p.arrivals, p.former, p.revision = arrivals, former, unique.Make(source{commit: doc.Commit})
	if digest := t.digest(string(doc.Digest)); p.document != nil && digest != p.wanted {
		p.lists.former, p.lists.digest = p.document, p.wanted
	}
	p.id = doc.Peel
	t.documents.follow(p, s, p.zone)
	p.wanted = t.digest(string(doc.Digest))
	p.stored = stored.Unix()
	p.adopt(t, s.names)
}

// adopt makes rows of the entries of the document that the peel has not reported. Rows that it has reported stay until
// it reports again.
func (p *peel) adopt(t *Table, names []string) {
	verdicts, had := unpack(p.hours, len(p.rows)), unpackTook(p.lists.took, len(p.rows))
	var rows []row
	var hours [][]join.Hour
	var tooks []took
	add := func(i int) {
		rows, hours, tooks = append(rows, p.rows[i]), append(hours, verdicts[i]), append(tooks, had[i])
	}
	i := 0
	for _, name := range names {
		for ; i < len(p.rows) && compareName(p.rows[i], name) < 0; i++ {
			if p.rows[i].state != 0 {
				add(i)
			}
		}
		if i < len(p.rows) && compareName(p.rows[i], name) == 0 {
			add(i)
			i++
		} else {
			rows, hours, tooks = append(rows, row{name: unique.Make(name)}), append(hours, nil), append(tooks, took{})
		}
		if r := &rows[len(rows)-1]; !r.published {
			t.total(name, false).replace(nil, hours[len(hours)-1])
			r.published = true
		}
	}
	for ; i < len(p.rows); i++ {
		if p.rows[i].state != 0 {
			add(i)
		}
	}
	t.release(p, rows)
	p.rows, p.hours, p.lists.took = append(make([]row, 0, len(rows)), rows...), pack(hours), packTook(tooks)
}
