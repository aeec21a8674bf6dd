package progress

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/auth/access"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// maxErrors bounds the error texts of states that are kept for one peel, in bytes.
const maxErrors = 4096

// stateRuns are the newest reports of the peels on runs of all their states.
type stateRuns struct {
	of     map[string]stateRun // by wire form of the peel
	read   bool                // all reports that were stored when RunStates began were read
	counts status.HostCounts   // of HostCounts; nil after a change of anything that it reads
}

// A stateRun is the newest report of one peel on a run of all its states.
type stateRun struct {
	wire.StateRun
	sequence uint64           // of its stream
	state    status.HostState // if the run was of the wanted settings
}

// RunStates reads the reports of the peels on their states, as Run reads those on their settings.
func (p *Progress) RunStates(ctx context.Context, js jetstream.JetStream) error {
	stream, err := js.Stream(ctx, wire.StreamStates)
	if err != nil {
		return fmt.Errorf("cannot read the reports of the peels on their states: %w", err)
	}
	if stream.CachedInfo().State.Msgs == 0 {
		p.mu.Lock()
		p.states.read, p.states.counts = true, nil
		p.mu.Unlock()
	}
	return p.follow(ctx, js, "states", p.onStateRun)
}

// onStateRun handles one message of the stream states.
func (p *Progress) onStateRun(m jetstream.Msg) {
	meta, err := m.Metadata()
	if err != nil {
		p.log.Warn("report on states refused", "err", err)
		return
	}
	run, err := wire.DecodeStateRun(&nats.Msg{Subject: m.Subject(), Header: m.Headers(), Data: m.Data()})
	p.mu.Lock()
	if err == nil {
		trimErrors(run.States)
		p.states.of[wire.Sender(m.Subject())] = stateRun{run, meta.Sequence.Stream, hostState(&run)}
	}
	p.states.read = p.states.read || meta.NumPending == 0
	p.states.counts = nil
	p.mu.Unlock()
	if err != nil {
		p.refusals.Warn(wire.Sender(m.Subject())+" states", "report on states refused", "err", err)
		return
	}
	select {
	case p.reported <- struct{}{}:
	default:
	}
}

// trimErrors removes the errors beyond maxErrors.
func trimErrors(states []wire.StateOutcome) {
	size := 0
	for i := range states {
		if size += len(states[i].Error); size > maxErrors {
			states[i].Error = ""
		}
	}
}

// hostState returns how a host is after a run of its wanted settings.
func hostState(r *wire.StateRun) status.HostState {
	ran := 0
	for _, n := range r.Counts {
		ran += n
	}
	drifted := slices.ContainsFunc(r.States, func(s wire.StateOutcome) bool {
		return s.Result == "would_change" && s.Cause == "drift"
	})
	switch {
	case r.Counts["failed"] > 0:
		return status.HostFailed
	case drifted:
		return status.HostDrifted
	case r.Counts["would_change"] > 0, len(r.Owed) > 0:
		return status.HostPending
	case ran == 0, r.Canceled > 0, r.Counts["unknown"] > 0:
		return status.HostUnknown
	}
	return status.HostClean
}

// hasStatesLocked reports whether the wanted settings of a peel have states.
func (p *Progress) hasStatesLocked(id target.PeelID) bool {
	if p.plan == nil {
		return false
	}
	e := p.plan.Peels[id]
	return e != nil && len(e.States) > 0
}

// hostStateLocked returns how a peel compares with the states in its wanted settings; empty if these have none, or
// reports are still being read.
func (p *Progress) hostStateLocked(id target.PeelID) status.HostState {
	r := p.states.of[id.Wire()]
	switch {
	case !p.states.read || !p.hasStatesLocked(id):
		return ""
	case r.Peel != id:
		return status.HostNever
	case settings.Digest(r.Digest) != p.wanted[id]:
		return status.HostOther
	}
	return r.state
}

// HostCounts returns the number of peels by host state; nil while reports are still being read, or settings are not
// wanted yet. A peel without states in its wanted settings does not count.
func (p *Progress) HostCounts() status.HostCounts {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.states.read || p.plan == nil {
		return nil
	}
	if p.states.counts != nil { // metrics ask each second
		return maps.Clone(p.states.counts)
	}
	counts := make(status.HostCounts, len(status.HostStates))
	for _, s := range status.HostStates {
		counts[s] = 0
	}
	for id := range p.plan.Peels {
		if s := p.hostStateLocked(id); s != "" {
			counts[s]++
		}
	}
	p.states.counts = counts
	return maps.Clone(counts)
}

// States returns at most most peels of a set after an ID whose wanted settings have states, in order. ok is false while
// reports are still being read, or settings are not wanted yet.
func (p *Progress) States(of access.Peels, after target.PeelID, most int) (page status.SyncStatesPage, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.states.read || p.plan == nil {
		return page, false
	}
	var ids []target.PeelID
	for id := range p.plan.Peels {
		if id > after && of.Has(id) && p.hasStatesLocked(id) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	if len(ids) > most {
		ids = ids[:most]
		page.Next = ids[most-1]
	}
	for _, id := range ids {
		page.Peels = append(page.Peels, p.statesLocked(id))
	}
	return page, true
}

// StatesOf returns the states of the peels of ids whose wanted settings have states, in the order of ids. ok is as of
// [Progress.States].
func (p *Progress) StatesOf(ids []target.PeelID) (list []status.States, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.states.read || p.plan == nil {
		return nil, false
	}
	for _, id := range ids {
		if p.hasStatesLocked(id) {
			list = append(list, p.statesLocked(id))
		}
	}
	return list, true
}

// statesLocked joins the wanted settings of a peel with its report on its states.
func (p *Progress) statesLocked(id target.PeelID) status.States {
	r := p.states.of[id.Wire()].StateRun
	if r.Peel != id {
		r = wire.StateRun{}
	}
	s := status.States{
		Peel:   id,
		State:  p.hostStateLocked(id),
		Wanted: p.wanted[id],
		Commit: settings.Commit(r.Commit),
		Digest: settings.Digest(r.Digest),
		Test:   r.Test,
		Time:   r.Time,
		Counts: r.Counts,
		Owed:   r.Owed,
	}
	for _, o := range r.States {
		s.Results = append(s.Results, status.StateResult(o))
	}
	return s
}

// NewFailure describes the first state that failed in the newest run of a peel and that had not failed with other
// settings; empty if there is none. Only a run of the settings with the digest counts, and if its report came after a
// sequence of the stream states.
func (p *Progress) NewFailure(id target.PeelID, digest settings.Digest, after uint64) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.states.of[id.Wire()]
	if r.Peel != id || settings.Digest(r.Digest) != digest || r.sequence <= after {
		return ""
	}
	for _, s := range r.States {
		if s.Result == "failed" && !s.Before {
			return fmt.Sprintf("state %s failed: %s", s.State, s.Error)
		}
	}
	return ""
}
