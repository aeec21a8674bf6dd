package progress

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/master/auth/access"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// If more than manyLacking peels are lacking, they are counted at most once in countEvery.
const (
	manyLacking = 1000
	countEvery  = 250 * time.Millisecond
)

// stateLocked returns the state of a wanted peel.
func (p *Progress) stateLocked(id target.PeelID) status.State {
	lacks, lacking := p.lacking[id]
	_, behind := p.behind[id]
	switch {
	case !lacking:
		return status.Applied
	case behind || lacks.failed && p.reachable(id):
		return status.Failed
	case !p.reachable(id):
		return status.Offline
	}
	return status.Pending
}

// A PeelView is the state of one peel for a rollout.
type PeelView struct {
	Online, Applied bool
	Errors          []string // of its last report, and of the plan that holds it back
	Sequence        uint64   // of the report in the stream applied; 0: there is none
}

// View returns the state of one peel.
func (p *Progress) View(id target.PeelID) PeelView {
	p.mu.Lock()
	defer p.mu.Unlock()
	peel := p.peelLocked(id)
	return PeelView{
		Online:   peel.Online,
		Applied:  peel.State == status.Applied,
		Errors:   peel.Errors,
		Sequence: p.reports[id.Wire()].sequence,
	}
}

// Forget drops the reports of a peel that was removed.
func (p *Progress) Forget(id target.PeelID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.states.of[id.Wire()].Peel == id {
		delete(p.states.of, id.Wire())
		p.states.counts = nil
	}
	p.outdated = nil
	if p.reports[id.Wire()].Peel == id {
		delete(p.reports, id.Wire())
		delete(p.trouble, id.Wire())
	}
	p.former = slices.DeleteFunc(slices.Clone(p.former), func(other target.PeelID) bool { return other == id })
}

// Peel returns one peel for the status.
func (p *Progress) Peel(id target.PeelID) status.Peel {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.peelLocked(id)
}

// Errors returns the errors that peels report now, of settings and schedules, by peel.
func (p *Progress) Errors() map[target.PeelID][]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := map[target.PeelID][]string{}
	for w := range p.trouble {
		if r := p.reports[w]; len(r.Errors) > 0 {
			all[r.Peel] = slices.Clone(r.Errors)
		}
	}
	return all
}

// PausedErrors returns the first peels by ID, at most most, that have settings and entries paused by failures.
func (p *Progress) PausedErrors(most int) (list []status.PausedEntries) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for w := range p.trouble {
		r := p.reports[w]
		if _, wanted := p.wanted[r.Peel]; wanted && len(r.PausedErrors) > 0 {
			list = append(list, status.PausedEntries{Peel: r.Peel, Entries: r.PausedErrors})
		}
	}
	sorting.Func(list, func(a, b status.PausedEntries) int { return cmp.Compare(a.Peel, b.Peel) })
	return list[:min(len(list), most)]
}

// Outdated returns the first peels by ID, at most most, whose wanted settings have states and whose reports do not say
// that they understand states.
func (p *Progress) Outdated(most int) []target.PeelID {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.outdated == nil {
		p.outdated = []target.PeelID{}
		for _, r := range p.reports {
			if p.isOutdatedLocked(&r.Applied) {
				p.outdated = append(p.outdated, r.Peel)
			}
		}
		slices.Sort(p.outdated)
	}
	return slices.Clone(p.outdated[:min(len(p.outdated), most)])
}

// isOutdatedLocked reports whether the wanted settings of the peel of a report have states and the report does not say
// that it understands states. It is false for the zero report.
func (p *Progress) isOutdatedLocked(r *wire.Applied) bool {
	return !slices.Contains(r.Features, wire.FeatureStates) && p.hasStatesLocked(r.Peel)
}

// Counts returns the numbers of peels by state, without decommissioned peels.
func (p *Progress) Counts() (c status.Counts) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.countLocked()
}

// CountsOf returns the counts, and when a peel last came to run its wanted settings. ok is false unless this one
// revision is wanted.
func (p *Progress) CountsOf(commit settings.Commit) (c status.Counts, reached time.Time, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.commit != commit {
		return c, reached, false
	}
	return p.countLocked(), p.reached, true
}

// Troubled returns at most most peels that failed, sorted by ID, and the first pending peel by ID, empty if there is
// none.
func (p *Progress) Troubled(most int) (failing []status.Peel, late target.PeelID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var failed []target.PeelID
	for id := range p.lacking {
		switch state := p.stateLocked(id); {
		case state == status.Failed:
			failed = append(failed, id)
		case state == status.Pending && (late == "" || id < late):
			late = id
		}
	}
	slices.Sort(failed)
	for _, id := range failed[:min(most, len(failed))] {
		failing = append(failing, p.peelLocked(id))
	}
	return failing, late
}

// countLocked implements Counts.
func (p *Progress) countLocked() (c status.Counts) {
	if len(p.lacking) > manyLacking && time.Since(p.last.at) < countEvery {
		return p.last.Counts
	}
	c.Peels, c.Applied = len(p.wanted), len(p.wanted)-len(p.lacking)
	for id := range p.lacking {
		switch p.stateLocked(id) {
		case status.Failed:
			c.Failed++
		case status.Offline:
			c.Offline++
		default:
			c.Pending++
		}
	}
	p.last = counted{c, time.Now()}
	return c
}

// reachable reports whether a peel is online or may be: a master that has just started does not know yet.
func (p *Progress) reachable(id target.PeelID) bool {
	_, online := p.fleet.Presence(id)
	return online || p.fleet.Unknown(id)
}

// peelLocked joins the wanted settings of a peel with its report.
func (p *Progress) peelLocked(id target.PeelID) status.Peel {
	report := p.reports[id.Wire()].Applied
	if report.Peel != id {
		report = wire.Applied{}
	}
	_, online := p.fleet.Presence(id)
	s := status.Peel{
		Peel:            id,
		Online:          online,
		Commit:          settings.Commit(report.Commit),
		Generation:      report.Generation,
		Digest:          settings.Digest(report.Digest),
		Wanted:          p.wanted[id],
		Errors:          report.Errors,
		PausedErrors:    report.PausedErrors,
		Stale:           report.Stale,
		MissingContents: report.MissingContents,
		Features:        report.Features,
		Outdated:        p.isOutdatedLocked(&report),
		Reload: status.Reload{
			Started: report.Started,
			Stopped: report.Stopped,
			Changed: report.Changed,
			Kept:    report.Kept,
		},
		Reported: report.Time,
	}
	if _, wanted := p.wanted[id]; !wanted {
		s.State = status.Decommissioned
		return s
	}
	s.State, s.Since, s.HostState = p.stateLocked(id), p.lacking[id].since, p.hostStateLocked(id)
	if mistake, ok := p.behind[id]; ok {
		s.Errors = append(slices.Clone(s.Errors), mistake.Error())
	}
	return s
}

// Pending returns the pending peels with their wanted digests.
func (p *Progress) Pending() map[target.PeelID]settings.Digest {
	p.mu.Lock()
	defer p.mu.Unlock()
	peels := map[target.PeelID]settings.Digest{}
	for id := range p.lacking {
		if p.stateLocked(id) == status.Pending {
			peels[id] = p.wanted[id]
		}
	}
	return peels
}

// Page returns at most most peels of a set that a request selects, in order. Its cursor need not be a peel.
func (p *Progress) Page(of access.Peels, q status.PeelsRequest, most int) status.SyncPeelsPage {
	p.mu.Lock()
	defer p.mu.Unlock()
	ids := slices.AppendSeq(slices.Clone(p.former), maps.Keys(p.wanted))
	if q.Behind {
		ids = slices.Collect(maps.Keys(p.lacking))
	}
	ids = slices.DeleteFunc(ids, func(id target.PeelID) bool { return !of.Has(id) })
	slices.Sort(ids)
	start, found := slices.BinarySearch(ids, q.Cursor)
	if found {
		start++
	}
	end := min(start+most, len(ids))
	page := status.SyncPeelsPage{}
	if end < len(ids) && end > start {
		page.Next = ids[end-1]
	}
	for _, id := range ids[start:end] {
		page.Peels = append(page.Peels, p.peelLocked(id))
	}
	return page
}

// Peels returns those of some peels that are known, in the order of the argument.
func (p *Progress) Peels(ids []target.PeelID) []status.Peel {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := []status.Peel{}
	for _, id := range ids {
		if _, wanted := p.wanted[id]; wanted || slices.Contains(p.former, id) {
			list = append(list, p.peelLocked(id))
		}
	}
	return list
}
