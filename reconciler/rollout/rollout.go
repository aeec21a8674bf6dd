// Package rollout decides how a revision goes to the fleet in waves: which peels a wave takes, when it has passed or
// failed, and when a freeze holds a revision. It is pure: no I/O, and the time is an argument.
//
// Call [Begin] for a revision with waves, then [Next] at each event. While Next returns a [Step] that is Changed, store
// Step.Rollout and write the documents that follow from it before the next call.
//
// Guarantees:
//   - A wave takes only peels that are online, in the fixed order of their marks, see [record.MarkPeel]. While it is under way no more peels have
//     the revision than it allowed at its beginning, whichever peels appear, go offline or return.
//   - A member that goes offline before it has applied the revision is replaced, at most twice in one wave. It gets the
//     revision in force again. Only such a member, and one that the revision no longer changes, leaves a rollout.
//   - A peel that has failed counts as failed until the rollout ends.
//   - If every peel that a revision changes is away for 5 min, the waves pass without peels. A manual gate still waits for a
//     person. The peels get the revision when they return.
//   - Each step has a state, and each state that waits has a reason.
//
// Known gap: an error that a member reported before it got the revision does not count, even if a rollout that this one
// replaced had caused it.
package rollout

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/target"
	"github.com/seed-c01c3da5/zester/settings/target/peelindex"
	"github.com/seed-c01c3da5/zester/settings/top"
)

const (
	// applyLimit is how long an online member may take to apply the revision before it counts as failed.
	applyLimit = 5 * time.Minute
	// awayLimit is how long all peels that a revision changes must be away before its waves pass without peels.
	awayLimit = 5 * time.Minute
	// maxReplaced bounds the members of one wave that are replaced: a revision that kills its peels must not be given to one
	// peel after the other.
	maxReplaced = 2
	maxFailures = 5   // failures that are described
	maxFailure  = 200 // bytes of a description
	maxKnown    = 10_000
)

// A Peel is the observed state of one peel that the revision changes.
type Peel struct {
	ID       target.PeelID
	Presence Presence
	Seen     time.Time     // time of its last message; zero if there was none
	Applied  bool          // it runs the revision
	Lacking  time.Duration // how long it has been online without running the revision
	Run      string        // description of a failed run of an entry that the revision adds or changes; empty if there is none
	State    string        // description of a state that failed with the revision and not before; empty if there is none
	Errors   []string      // of its last report
	Report   uint64        // sequence of that report in the stream applied; 0 if there is none
}

// A Presence says whether a peel is online.
type Presence uint8

// The presences.
const (
	Away    Presence = iota
	Unknown          // the master has listened for too short a time to know
	Online
)

// Observed holds the inputs of [Next] besides the rollout.
type Observed struct {
	Now     time.Time
	Peels   []Peel           // the peels that the revision changes, in any order
	Fleet   *peelindex.Index // to evaluate targets
	Freezes []top.Freeze     // of the revision in force
	Paused  string           // who paused new commits and when, for people; empty if nobody did
}

// A State is the state of a rollout.
type State string

// The states. A rollout in the states Failed and Complete ends.
const (
	Waits    State = "waits"
	Soaks    State = "soaks"
	AtGate   State = "gate"   // the wave has passed, and a person has to open its gate
	Passed   State = "passed" // the wave has passed, and a pause or a freeze holds the next one
	Failed   State = "failed"
	Complete State = "complete"
)

// Counts are numbers of members by state; they add up to Peels.
type Counts struct {
	Peels, Applied, Pending, Away, Failed int
}

// A Step is the result of [Next].
type Step struct {
	Rollout record.Rollout
	Changed bool // Rollout differs from the argument of Next
	State   State
	Reason  string    // for people
	Until   time.Time // latest end of the state; zero if there is none
	Frozen  bool      // a freeze holds the rollout
	Counts  Counts
}

// Begin returns the record with a rollout of a revision, in place of the one under way, in the waves of the revision in force,
// which has some. after are the newest sequences of the streams.
func Begin(r record.Record, commit settings.Commit, after record.Sequences, now time.Time) record.Record {
	next := record.Rollout{Commit: commit, Started: now, Sequences: after, Waves: r.Waves}
	if r.Approved != nil && r.Approved.Commit == commit {
		next.Override = r.Approved.Override
	}
	r = r.WithoutApproval()
	r.Rollout = &next
	return r
}

// Next returns the next step of a rollout.
func Next(r record.Rollout, o Observed) Step {
	s := &stepper{Rollout: r, Observed: o, marks: make([]record.Mark, len(o.Peels))}
	for i, p := range o.Peels {
		s.marks[i] = record.MarkPeel(p.ID)
	}
	s.prune()
	s.noteFailures()
	step := s.next()
	step.Rollout, step.Changed, step.Counts, step.Frozen = s.Rollout, s.changed, s.counts(), s.frozen
	return step
}

// A stepper makes one step.
type stepper struct {
	record.Rollout
	Observed
	marks   []record.Mark // of Peels
	changed bool
	frozen  bool
}

// byMark orders peels by mark. i and j are indexes in Peels.
func (s *stepper) byMark(i, j int) int { return bytes.Compare(s.marks[i][:], s.marks[j][:]) }

// prune drops members that the revision no longer changes.
func (s *stepper) prune() {
	var members []record.Mark
	for _, m := range s.marks {
		if s.Members.Has(m) {
			members = append(members, m)
		}
	}
	if len(members) != s.Members.Len() {
		s.Members, s.changed = record.NewMarks(members), true
	}
}

// noteFailures records the members that have failed.
func (s *stepper) noteFailures() {
	texts := map[int]string{} // by index in Peels
	for i, p := range s.Peels {
		if !s.Members.Has(s.marks[i]) || s.Failed.Has(s.marks[i]) {
			continue
		}
		if text := s.failure(p); text != "" {
			texts[i] = text
		}
	}
	var failed []record.Mark
	for _, i := range slices.SortedFunc(maps.Keys(texts), s.byMark) {
		failed = append(failed, s.marks[i])
		if len(s.Failures) < maxFailures {
			s.Failures = append(slices.Clip(s.Failures), record.Cut(string(s.Peels[i].ID)+": "+texts[i], maxFailure))
		}
	}
	if len(failed) > 0 {
		s.Failed, s.changed = s.Failed.With(failed...), true
	}
}

// failure describes how a member has failed, empty if it has not: a run of an entry that the revision adds or changes failed,
// or a state that had not failed before, or it reported a new error, or it is online and has not applied the revision in time.
func (s *stepper) failure(p Peel) string {
	if p.Run != "" {
		return p.Run
	}
	if p.State != "" {
		return p.State
	}
	if p.Report > s.Reports {
		for _, text := range p.Errors {
			if !s.Known.Has(record.MarkError(p.ID, text)) {
				return text
			}
		}
	}
	if !p.Applied && p.Lacking >= applyLimit && s.Stage.Soaking.IsZero() {
		return fmt.Sprintf("it has not applied the revision within %s", applyLimit)
	}
	return ""
}

// counts counts the members.
func (s *stepper) counts() (c Counts) {
	for i, p := range s.Peels {
		m := s.marks[i]
		if !s.Members.Has(m) {
			continue
		}
		c.Peels++
		switch {
		case s.Failed.Has(m):
			c.Failed++
		case p.Applied:
			c.Applied++
		case p.Presence == Away:
			c.Away++
		default:
			c.Pending++
		}
	}
	return c
}

// next returns the next step. It calls itself after each step that needs no new observation.
func (s *stepper) next() Step {
	wave, stage := s.Wave(), &s.Stage
	switch {
	case len(s.Peels) == 0:
		return s.complete()
	case stage.Taken.IsZero():
		return s.take(wave)
	case s.Failed.Len() > wave.MaxFailures.Within(stage.Size):
		return s.fail(s.failures(stage.Size))
	case stage.Soaking.IsZero():
		return s.wait(wave)
	}
	if end := stage.Soaking.Add(wave.Soak); s.Now.Before(end) && stage.Passed.IsZero() {
		c := s.counts()
		return Step{State: Soaks, Until: end, Reason: fmt.Sprintf("%d of %d peels have applied the revision and are watched", c.Applied, c.Peels)}
	}
	if stage.Passed.IsZero() {
		stage.Passed, s.changed = s.Now, true
	}
	if wave.Gate == top.GateManual && stage.OpenedBy == "" {
		return Step{State: AtGate, Reason: fmt.Sprintf("wave %s has passed and waits for zester sync approve %s", wave.Name, wave.Name)}
	}
	return s.advance()
}

// advance begins the next wave, or ends the rollout after the last.
func (s *stepper) advance() Step {
	if hold, held := s.held(); held {
		return Step{State: Passed, Reason: hold.Reason, Until: hold.Until}
	}
	if s.Stage.Wave+1 >= len(s.Waves) {
		return s.complete()
	}
	s.Stage, s.changed = record.Stage{Wave: s.Stage.Wave + 1, Since: s.Now}, true
	return s.next()
}

// complete ends the rollout, unless it is held.
func (s *stepper) complete() Step {
	if hold, held := s.held(); held {
		return Step{State: Passed, Reason: hold.Reason, Until: hold.Until}
	}
	away, had := 0, false
	for i, p := range s.Peels {
		had = had || s.Members.Has(s.marks[i])
		if p.Presence == Away && !p.Applied {
			away++
		}
	}
	reason := "every wave has passed"
	if !had {
		reason = "no peel that the revision changes is online"
	}
	switch {
	case len(s.Peels) == 0:
		reason = "the revision changes no peel"
	case away == 1:
		reason += "; 1 peel is away and takes the revision when it returns"
	case away > 1:
		reason += fmt.Sprintf("; %d peels are away and take the revision when they return", away)
	}
	return Step{State: Complete, Reason: reason}
}

func (s *stepper) fail(why string) Step {
	return Step{State: Failed, Reason: fmt.Sprintf("wave %s failed: %s", s.Wave().Name, why)}
}

// failures describes why too many peels have failed.
func (s *stepper) failures(size int) string {
	text := strings.Join(s.Failures, "; ")
	if more := s.Failed.Len() - len(s.Failures); more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return fmt.Sprintf("%d of %d peels, %d may: %s", s.Failed.Len(), size, s.Wave().MaxFailures.Within(size), text)
}

// held returns the pause or freeze that keeps the revision from more peels, if there is one.
func (s *stepper) held() (Hold, bool) {
	if s.Paused != "" {
		return Hold{Reason: s.Paused}, true
	}
	if s.Override != "" {
		return Hold{}, false
	}
	var peels []target.PeelID
	for i, p := range s.Peels {
		if !s.Members.Has(s.marks[i]) {
			peels = append(peels, p.ID)
		}
	}
	hold, held := Frozen(s.Freezes, peels, s.Fleet, s.Now)
	s.frozen = held
	return hold, held
}
