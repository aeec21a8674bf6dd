// Package progress compares the wanted settings of each peel with its reports, and follows failed runs during a
// rollout.
//
// Call [New] first and run [Progress.Run] and [Progress.RunStates], which read the reports, each in a goroutine of its
// own. [Progress.Want] sets the wanted settings; the other methods answer from memory. [NewRuns] and [Runs.Run] follow
// the runs of a rollout.
//
// Guarantees:
//   - A report counts only for the peel of its subject. The bus lets no other peel write it.
//   - A report that cannot be decoded changes nothing.
//   - Counts take time in proportion to the peels that lack their wanted settings, not to the fleet; those of host
//     states to the fleet.
//   - A host is never clean by a report that did not arrive, nor by a run of other settings.
//   - All methods may be called at the same time. None waits for the bus except Run
//     and RunStates.
//
// Known gaps:
//   - If more than 1,000 peels lack their wanted settings, counts are up to 250 ms old.
//   - [Progress.Unknown] believes each peel that has a document: a peel that lies about its generation says that the
//     bus is an older copy, as does a host that comes from another fleet with its data directory and takes over the
//     name of such a peel. Each peel counts once in a term, and again in a later one only if documents were written
//     meanwhile.
//   - If documents are written before the first peel reports newer settings, only this term can find them: the next one
//     takes all older settings for known.
package progress

import (
	"log/slog"
	"slices"
	"sync"
	"time"

	fleetpkg "github.com/seed-c01c3da5/zester/master/fleet"
	"github.com/seed-c01c3da5/zester/peel/loglimit"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A Progress compares the wanted settings of the peels with their reports.
type Progress struct {
	fleet    *fleetpkg.Fleet
	log      *slog.Logger
	refusals *loglimit.Limiter
	reported chan<- struct{} // gets a value after a report, unless it is full

	mu      sync.Mutex
	wanted  map[target.PeelID]settings.Digest
	behind  map[target.PeelID]strictyaml.Error // peels of wanted that mistakes hold back
	reports map[string]report                  // by wire form of the peel; the bus keeps one for each
	trouble map[string]struct{}                // keys of reports with errors or with entries paused by errors
	lacking map[target.PeelID]lack             // peels of wanted that do not run the wanted settings
	former  []target.PeelID                    // peels with a document and without facts, sorted
	commit  settings.Commit                    // the revision of wanted; empty if wanted is of two
	plan    *plan.Plan                         // of wanted
	reached time.Time                          // when a peel last left lacking, by the clock of the bus
	last    counted
	states  stateRuns
	unknown unknownFinder

	outdated []target.PeelID // all that [Progress.Outdated] may return; nil: what makes it has changed
}

// counted are the counts at a time.
type counted struct {
	status.Counts
	at time.Time
}

// A lack describes a peel that does not run its wanted settings.
type lack struct {
	since  time.Time // when the wanted settings were written
	failed bool      // its report has errors
}

// A report is the last report of a peel.
type report struct {
	wire.Applied
	sequence uint64 // of its stream
}

// New returns a Progress without reports. reported gets a value after each report, unless it is full.
func New(fleet *fleetpkg.Fleet, reported chan<- struct{}, log *slog.Logger) *Progress {
	return &Progress{
		fleet:    fleet,
		log:      log,
		refusals: loglimit.New(log),
		reported: reported,
		reports:  map[string]report{},
		trouble:  map[string]struct{}{},
		states:   stateRuns{of: map[string]stateRun{}},
	}
}

// Want replaces the wanted settings. commit is the revision of the plan, empty if the plan mixes two. The wanted
// settings of a peel that the plan holds back are its stored document, which is in heads.
func (p *Progress) Want(commit settings.Commit, wanted *plan.Plan, heads settings.Heads) {
	p.mu.Lock()
	defer p.mu.Unlock()
	changed, alike := wanted.Since(p.plan) // of the same peels, so that none is new or gone
	before, others := p.behind, p.wanted == nil
	p.last, p.states.counts, p.outdated = counted{}, nil, nil
	p.commit = commit
	p.plan = wanted
	p.behind = wanted.Behind
	if others {
		p.wanted, p.lacking = make(map[target.PeelID]settings.Digest, len(wanted.Peels)), map[target.PeelID]lack{}
	}
	look := func(id target.PeelID, e *plan.Effective) {
		was, known := p.wanted[id]
		if _, behind := before[id]; !known || behind || was != e.Digest {
			others = others || !known
			p.expectLocked(id, e.Digest, heads)
		}
	}
	if alike {
		for _, id := range changed {
			look(id, wanted.Peels[id])
		}
	} else {
		for id, e := range wanted.Peels {
			look(id, e)
		}
	}
	for id := range wanted.Behind {
		_, known := p.wanted[id]
		others = others || !known
		p.expectLocked(id, heads.Of(id).Digest, heads)
	}
	if others || len(p.wanted) > len(wanted.Peels)+len(wanted.Behind) {
		p.dismissLocked(wanted, heads)
	}
}

// expectLocked sets the wanted digest of a peel.
func (p *Progress) expectLocked(id target.PeelID, digest settings.Digest, heads settings.Heads) {
	since := time.Now()
	if was, known := p.wanted[id]; !known || was != digest {
		delete(p.lacking, id)
		if held := heads.Of(id); held.Digest == digest {
			since = time.UnixMilli(int64(held.Generation)) // an earlier term has written it
		}
	}
	p.wanted[id] = digest
	p.compareLocked(id, since)
}

// dismissLocked drops the peels that have left the fleet, and sets former.
func (p *Progress) dismissLocked(wanted *plan.Plan, heads settings.Heads) {
	for id := range p.wanted {
		if _, behind := wanted.Behind[id]; wanted.Peels[id] == nil && !behind {
			delete(p.wanted, id)
			delete(p.lacking, id)
		}
	}
	p.former = nil
	for _, held := range heads {
		if _, ok := p.wanted[held.Peel]; !ok && held.Peel != "" {
			p.former = append(p.former, held.Peel)
		}
	}
	slices.Sort(p.former)
}

// compareLocked updates lacking for a peel. since is the time to record for a peel that was not in it.
func (p *Progress) compareLocked(id target.PeelID, since time.Time) {
	digest, wanted := p.wanted[id]
	_, behind := p.behind[id]
	r := p.reports[id.Wire()]
	if !wanted || !behind && r.Peel == id && settings.Digest(r.Digest) == digest {
		delete(p.lacking, id)
		return
	}
	if known, ok := p.lacking[id]; ok {
		since = known.since
	}
	p.lacking[id] = lack{since, r.Peel == id && len(r.Errors) > 0}
}
