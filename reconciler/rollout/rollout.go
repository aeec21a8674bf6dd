// Package rollout decides how a revision goes to the fleet in waves: which peels a wave takes, when it has passed or
// failed, and when a freeze holds a revision. It is pure: no I/O, and the time is an argument.
//
// Call [Begin] for a revision with waves, then [Next] at each event. While Next returns a [Step] that is Changed, store
// Step.Rollout and write the documents that follow from it before the next call. The stage of a rollout has a
// [record.Phase]; stepper.run has one case for each.
//
// Guarantees:
//   - A wave takes only peels that are online, in the fixed order of their marks, see [record.MarkPeel]. While it is
//     under way no more peels have the revision than it allowed at its beginning, whichever peels appear, go offline or
//     return. Only a peel that the revision no longer changes leaves a rollout; another one takes its place.
//   - A member that misses more than two heartbeats while another peel is online has failed, and a peel that has failed
//     counts as failed until the rollout ends. A wave passes only while all but max_failures of its members are online
//     and have not failed.
//   - If every peel that a revision changes is away for a minute, that is no verdict: the wave waits without a
//     deadline, its soak begins again, and its members have 5 min to return after the first peel that does. A wave that
//     has no peels yet takes the first that return.
//   - Each step has a state, and each state that waits has a reason.
//
// Known gaps: an error that a member reported before it got the revision does not count, even if a rollout that this
// one replaced had caused it. If a wave takes all peels that a revision changes and all of them go away, it waits for
// one of them or for another commit. When another master takes the lead, members that an outage kept away have less
// than 5 min.
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
	"github.com/seed-c01c3da5/zester/settings/policy"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
	"github.com/seed-c01c3da5/zester/settings/target/peelindex"
)

const (
	// applyLimit is how long an online member may take to apply the revision before it counts as failed.
	applyLimit = 5 * time.Minute
	// lostLimit is how long a member may be lost. It is longer than the time between the last heartbeats of two peels
	// that go away at once.
	lostLimit = 45 * time.Second
	// outageLimit is how long all peels that the revision changes must be away before that is an outage.
	outageLimit = time.Minute
	// returnLimit is how long members may take to return after a time when all peels that the revision changes were
	// away.
	returnLimit = 5 * time.Minute
	maxFailures = 5   // failures that are described
	maxFailure  = 200 // bytes of a description
	maxKnown    = 10_000
)

// A Peel is the observed state of one peel that the revision changes.
type Peel struct {
	ID       target.PeelID
	Presence Presence
	Applied  bool          // it runs the revision
	Lacking  time.Duration // how long it has been online without running the revision
	Lost     time.Duration // how long it has missed more than two heartbeats while another peel that changes was online
	// description of a failed run of an entry that the revision adds or changes; empty if there is none
	Run    string
	State  string   // description of a state that failed with the revision and not before; empty if there is none
	Errors []string // of its last report
	Report uint64   // sequence of that report in the stream applied; 0 if there is none
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
	Freezes []policy.Freeze  // of the revision in force
	Paused  string           // who paused new commits and when, for people; empty if nobody did
	Outage  Outage
}

// An Outage says when all peels that the revision changes were away at once, in this term.
type Outage struct {
	Began time.Time // of the one that lasts; zero if none does
	Last  time.Time // when they were last away; zero if they never were
}

// Update notes whether all peels are away now.
func (o *Outage) Update(peels []Peel, now time.Time) {
	if len(peels) == 0 || slices.ContainsFunc(peels, func(p Peel) bool { return p.Presence != Away }) {
		o.Began = time.Time{}
		return
	}
	if o.Last = now; o.Began.IsZero() {
		o.Began = now
	}
}

// lasts reports whether all peels are away, and have been for longer than a connection takes to come back.
func (o *Outage) lasts(now time.Time) bool {
	return !o.Began.IsZero() && now.Sub(o.Began) >= outageLimit
}

// A State is the state of a rollout.
type State string

// The states. A rollout in the states Failed and Complete ends.
const (
	Waits    State = "waits"
	AllAway  State = status.AllAway // every peel that the revision changes is away
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
	Changes int // peels that the revision changes

	ended map[int]Counts // of the waves that passed in this step, when they did
}

// Begin returns the record with a rollout of a revision, in place of the one under way, in the waves of the revision in
// force, which has some. after are the newest sequences of the streams.
func Begin(r record.Record, commit settings.Commit, after record.Sequences, now time.Time) record.Record {
	next := record.Rollout{
		Commit:    commit,
		Started:   now,
		Sequences: after,
		Waves:     r.Waves,
		Stage:     record.Stage{Phase: record.Choosing, Entered: now},
	}
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
	step := s.run()
	step.Rollout = s.Rollout
	step.Changed = s.changed
	step.Changes = len(s.Peels)
	step.Counts = s.counts()
	step.Frozen = s.frozen
	step.ended = s.ended
	return step
}

// A stepper makes one step.
type stepper struct {
	record.Rollout
	Observed
	marks   []record.Mark // of Peels
	changed bool
	frozen  bool
	ended   map[int]Counts
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
	for _, i := range sorting.Values(maps.Keys(texts), s.byMark) {
		failed = append(failed, s.marks[i])
		if len(s.Failures) < maxFailures {
			s.Failures = append(slices.Clip(s.Failures), record.Cut(string(s.Peels[i].ID)+": "+texts[i], maxFailure))
		}
	}
	if len(failed) > 0 {
		s.Failed, s.changed = s.Failed.With(failed...), true
	}
}

// failure describes how a member has failed, empty if it has not: a run of an entry that the revision adds or changes
// failed, or a state that had not failed before, or it reported a new error, or it is online and has not applied the
// revision in time, or it is lost.
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
	if p.Lost >= lostLimit && s.Now.Sub(s.Outage.Last) >= returnLimit {
		return "it went away after it was given the revision"
	}
	if !p.Applied && p.Lacking >= applyLimit && s.Stage.Phase == record.Applying {
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
		case p.Presence == Away:
			c.Away++
		case p.Applied:
			c.Applied++
		default:
			c.Pending++
		}
	}
	return c
}

// run returns the next step. It enters phases until one waits for something, or the rollout ends.
func (s *stepper) run() Step {
	for {
		if len(s.Peels) == 0 {
			return s.complete()
		}
		var step Step // without a state if another phase has begun
		switch wave := s.Wave(); s.Stage.Phase {
		case record.Applying:
			step = s.apply(wave)
		case record.Soaking:
			step = s.soak(wave)
		case record.Passed:
			step = s.pass(wave)
		default:
			step = s.choose(wave)
		}
		if step.State != "" {
			return step
		}
	}
}

// enter begins a phase.
func (s *stepper) enter(p record.Phase) Step {
	if p == record.Passed {
		if s.ended == nil {
			s.ended = map[int]Counts{}
		}
		s.ended[s.Stage.Wave] = s.counts()
	}
	s.Stage.Phase, s.Stage.Entered, s.changed = p, s.Now, true
	return Step{}
}

// outage returns the step while all peels are away. The deadline of the wave waits as well.
func (s *stepper) outage() Step {
	s.holdDeadline()
	return Step{
		State:  AllAway,
		Reason: "every peel that the revision changes is away; the first that return are the next in this wave",
	}
}

func (s *stepper) holdDeadline() {
	if !s.Stage.Since.IsZero() {
		s.Stage.Since, s.changed = time.Time{}, true
	}
}

func (s *stepper) runDeadline() {
	if s.Stage.Since.IsZero() {
		s.Stage.Since, s.changed = s.Now, true
	}
}

// apply waits until all members have applied the revision or have failed. Members that the revision no longer changes
// are replaced.
func (s *stepper) apply(wave policy.Wave) Step {
	if s.hasFailed(wave) {
		return s.fail(s.failures(s.Stage.Size))
	}
	if s.Outage.lasts(s.Now) {
		return s.outage()
	}
	s.runDeadline()
	replaced := s.replace(wave)
	c := s.counts()
	switch {
	case c.Peels == 0 && s.Stage.Size == 0:
		return s.enter(record.Passed) // there is no member to watch
	case c.Peels == 0:
		return s.enter(record.Choosing)
	case !replaced && c.Pending+c.Away == 0:
		return s.enter(record.Soaking)
	}
	reason := fmt.Sprintf("%d of %d peels have applied the revision", c.Applied, c.Peels)
	if c.Away > 0 {
		reason += fmt.Sprintf(", %d went away", c.Away)
	}
	return s.waiting(wave, reason)
}

// soak watches the members for the time of the wave, and longer while too many of them may be dead.
func (s *stepper) soak(wave policy.Wave) Step {
	switch {
	case s.hasFailed(wave):
		return s.fail(s.failures(s.Stage.Size))
	case s.Outage.lasts(s.Now):
		return s.enter(record.Applying)
	}
	end, c := s.Stage.Entered.Add(wave.Soak), s.counts()
	if s.Now.Before(end) {
		return Step{
			State:  Soaks,
			Until:  end,
			Reason: fmt.Sprintf("%d of %d peels have applied the revision and are watched", c.Applied, c.Peels),
		}
	}
	if why := s.uncertain(wave); why != "" {
		return Step{State: Soaks, Reason: why}
	}
	return s.enter(record.Passed)
}

// uncertain says that more members may be dead than may fail, empty if not.
func (s *stepper) uncertain(wave policy.Wave) string {
	n := 0
	for i, p := range s.Peels {
		if m := s.marks[i]; p.Presence != Online && s.Members.Has(m) && !s.Failed.Has(m) {
			n++
		}
	}
	if s.Failed.Len()+n <= wave.MaxFailures.Within(s.Stage.Size) {
		return ""
	}
	return fmt.Sprintf("%d of %d peels with the revision are not online", n, s.Members.Len())
}

// pass waits for the gate of the wave, and begins the next wave, or ends the rollout after the last.
func (s *stepper) pass(wave policy.Wave) Step {
	if s.hasFailed(wave) {
		return s.fail(s.failures(s.Stage.Size))
	}
	if wave.Gate == policy.GateManual && s.Stage.OpenedBy == "" {
		return Step{
			State: AtGate,
			Reason: fmt.Sprintf("wave %s has passed and waits for zester sync approve %s --revision %s", wave.Name,
				wave.Name, s.Commit.Short()),
		}
	}
	if hold, held := s.held(); held {
		return Step{State: Passed, Reason: hold.Reason, Until: hold.Until}
	}
	if why := s.uncertain(wave); why != "" {
		return Step{State: Passed, Reason: why}
	}
	if s.Stage.Wave+1 >= len(s.Waves) {
		return s.complete()
	}
	s.Stage = record.Stage{Wave: s.Stage.Wave + 1}
	return s.enter(record.Choosing)
}

// hasFailed reports whether more members have failed than may.
func (s *stepper) hasFailed(wave policy.Wave) bool {
	return s.Failed.Len() > wave.MaxFailures.Within(s.Stage.Size)
}

// complete ends the rollout, unless it is held.
func (s *stepper) complete() Step {
	if hold, held := s.held(); held {
		return Step{State: Passed, Reason: hold.Reason, Until: hold.Until}
	}
	away := 0
	for _, p := range s.Peels {
		if p.Presence == Away && !p.Applied {
			away++
		}
	}
	reason := "every wave has passed"
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
	if s.Override.Holds(s.Now) {
		return Hold{}, false
	}
	var peels []target.PeelID
	for i, p := range s.Peels {
		if !s.Members.Has(s.marks[i]) {
			peels = append(peels, p.ID)
		}
	}
	hold, held := HoldOf(s.Freezes, peels, s.Fleet, s.Now)
	s.frozen = held
	return hold, held
}
