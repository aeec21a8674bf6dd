// Package progress holds how far the peels are: what each is to run, what it reports to run, and, during a rollout,
// which runs of its schedule failed.
//
// Call [New] first and have [Progress.Run] read the reports in a goroutine of its own. [Progress.Want] says what the peels
// are to run; the other methods answer from memory. [NewRuns] and [Runs.Run] follow the runs of a rollout likewise.
//
// Guarantees:
//   - A report counts for the peel of its subject alone. The bus lets no other peel write it.
//   - A report that cannot be decoded changes nothing.
//   - Counts take time in proportion to the peels that lack something, not to the fleet.
//   - All methods may be called at the same time. None waits for the bus except Run.
//
// Known gap: above 1000 peels that lack something, counts are up to 250 ms old.
package progress

import (
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/seed-c01c3da5/zester/master/feed"
	"github.com/seed-c01c3da5/zester/peel/loglimit"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/status"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A Progress compares what the peels are to run with what they report.
type Progress struct {
	fleet    *feed.Feed
	log      *slog.Logger
	refusals *loglimit.Limiter
	reported chan<- struct{} // gets a value after a report, unless it is full

	mu      sync.Mutex
	wanted  map[target.PeelID]settings.Digest
	behind  map[target.PeelID]strictyaml.Error // of wanted, the peels that keep what they have
	reports map[string]report                  // by wire form, of which the bus lets a peel have only one
	trouble map[string]struct{}                // those of reports that have errors or entries paused by errors
	lacking map[target.PeelID]lack             // of wanted, the peels that do not run it
	former  []target.PeelID                    // have a document and no facts, sorted
	commit  settings.Commit                    // the revision of wanted; empty if wanted is of two
	plan    *plan.Plan                         // of wanted
	reached time.Time                          // when a peel last came to run what it is to run, by the bus
	counted time.Time                          // when last was counted
	last    status.Counts
}

// A lack describes a peel that does not run what it is to run.
type lack struct {
	since  time.Time // when it was given what it lacks
	failed bool      // its report has errors
}

// A report is the last report of a peel.
type report struct {
	wire.Applied
	sequence uint64 // of its stream
}

// New returns a Progress without reports. reported gets a value after each report; a full channel is left as it is.
func New(fleet *feed.Feed, reported chan<- struct{}, log *slog.Logger) *Progress {
	return &Progress{fleet: fleet, log: log, refusals: loglimit.New(log), reported: reported, reports: map[string]report{}, trouble: map[string]struct{}{}}
}

// Want replaces what the peels are to run. commit is the revision of the plan, empty if the plan is of two. Peels that the
// plan holds back are to run what heads, the stored documents, say.
func (p *Progress) Want(commit settings.Commit, wanted *plan.Plan, heads settings.Heads) {
	p.mu.Lock()
	defer p.mu.Unlock()
	changed, alike := wanted.Since(p.plan) // of the same peels, so that none is new or gone
	before, others := p.behind, p.wanted == nil
	p.counted, p.commit, p.plan, p.behind = time.Time{}, commit, wanted, wanted.Behind
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

// expectLocked sets what a peel is to run.
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

// dismissLocked drops the peels that have left the fleet, and lists those of them that still have a document.
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

// compareLocked notes whether a peel runs what it is to run. since is when it began to lack it, if it did not before.
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
