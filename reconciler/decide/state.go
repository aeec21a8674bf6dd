package decide

import (
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/archive"
	"github.com/seed-c01c3da5/zester/reconciler/control"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/progress"
	"github.com/seed-c01c3da5/zester/reconciler/publish"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/reconciler/rollout"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/policy"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
	"github.com/seed-c01c3da5/zester/settings/target/peelindex"
)

// A Goal names the revisions that peels should have. Equal goals give each peel the same revision.
type Goal struct {
	commit  settings.Commit // the revision in force
	rollout settings.Commit // the revision of members; empty without a rollout
	members string
	facts   string // the hash of the change by facts that a person has approved
}

// GoalOf returns the goal of a record.
func GoalOf(r *record.Record) Goal {
	g := Goal{commit: r.Commit}
	if r.Rollout != nil {
		g.rollout, g.members = r.Rollout.Commit, string(r.Rollout.Members)
	}
	if r.Facts.Approved != nil {
		g.facts = r.Facts.Hash
	}
	return g
}

// A Basis identifies the inputs of a plan besides its revision. Plans of one revision with equal bases are equal.
type Basis struct {
	Changes    uint64 // number of changes of the fleet and of the identities that decrypt secrets, in this term
	generation uint64 // of the newest document
	// The revisions in force and under way, with which the revision is compared.
	inForce, rollout settings.Commit
}

// A Session holds the values that do not change while this master leads.
type Session struct {
	Owner   string        // this master
	Own     record.Source // the source of this master
	Repo    string        // URL of the repo, without credentials
	YieldAt time.Time     // when it gives the lease back if the fleet follows another source
}

// A State is the input of [Next]: the record, and the observations of this term. Only the loop changes it.
type State struct {
	Session
	Now         time.Time
	Record      record.Record
	Source      Branch
	Changes     uint64 // see [Basis]
	Judged      *Judgement
	Compared    Comparison
	Measured    *Measurement
	Prepared    *Prepared
	Step        rollout.Step // of the rollout under way: see [State.Observe]
	Failed      Failures
	RepublishAt time.Time
	Lost        *record.Lost // found in this term; nil: nothing
	Shown       Shown
}

// A Branch is the result of the last attempt to read the branch.
type Branch struct {
	Attempt  uint64          // number of attempts that have ended
	Answers  uint64          // see [source.Event]
	Head     settings.Commit // the newest commit in the store, empty before the first
	Observed settings.Commit // where the branch was last seen
	Read     time.Time       // when it was seen there
	Err      error           // why the attempt failed, nil if it succeeded
}

// An Outgoing holds the rules and the peels for sending a revision to the fleet.
type Outgoing struct {
	Own   policy.Safety   // rules of the revision, for the one after it; those of the record govern this one
	Base  bool            // the revision in force can be read, so that waves can be rolled back to it
	Peels []target.PeelID // the peels that the revision changes
	// Guarded are the settings that the revision gives them.
	Guarded *record.Guarded
	Fleet   *peelindex.Index
}

// inWaves reports whether the revision goes out in waves. The first revision of a fleet does not, as there is none to
// roll back to, nor one that a person has approved while the revision in force cannot be read.
func (o Outgoing) inWaves(r *record.Record) bool {
	return r.Commit != "" && o.Base && len(r.Waves) > 0
}

// frozen returns the freeze that holds the revision, unless a person has overridden it.
func (o Outgoing) frozen(r *record.Record, now time.Time) (rollout.Hold, bool) {
	if r.Commit == "" || r.Approved != nil && r.Approved.Override.Holds(now) {
		return rollout.Hold{}, false
	}
	return rollout.HoldOf(r.Freezes, o.Peels, o.Fleet, now)
}

// A Judgement is the worker's result about a commit that would go to the fleet.
type Judgement struct {
	Commit  settings.Commit
	Info    gitrepo.Commit
	Passed  []gitrepo.Commit // commits between the last one that was tried and this one, the oldest first
	Made    Basis            // when the judgement began
	Arrived Basis            // when the loop received it
	Attempt uint64           // Branch.Attempt when it began
	Refused *Refused         // nil: the revision is allowed
	Guard   record.Judgement
	Out     Outgoing
	Signed  status.Condition // SourceVerified; without a type if commits need not be signed
	Moved   status.Condition // HistoryRewritten once the revision goes out
	Change  *control.Judged  // its plan; nil if it is refused
}

// A Refused says why a revision does not go to the fleet. No approval changes that.
type Refused struct {
	Kind     status.Type // CompileFailed, GuardBlocked or SourceVerified
	Reason   string
	Where    string   // path:line of the first mistake
	Messages []string // one for each mistake, one at least
}

// Message returns all messages, one a line.
func (r *Refused) Message() string { return strings.Join(r.Messages, "\n") }

// Observe decides about the rollout under way, for the present state of its peels; o is nil if that is not known,
// because the goal is not prepared.
func (s *State) Observe(o *rollout.Observed) {
	switch r := s.Record.Rollout; {
	case r == nil:
		s.Step = rollout.Step{}
	case o != nil:
		s.Step = rollout.Next(*r, *o)
	case s.Step.Rollout.Commit != r.Commit:
		s.Step = rollout.Step{}
	}
}

// headHold returns the freeze that holds the head, if nothing else does. A revision that was in force when it was
// judged has no fleet: it is judged anew first.
func (s *State) headHold() (h rollout.Hold, held bool) {
	r, j := &s.Record, s.Judged
	if j == nil || j.Out.Fleet == nil || j.Commit != s.Source.Head || j.Refused != nil || r.Pinned != nil ||
		r.Suspended != nil || r.IsSent(j.Commit) ||
		r.FindSkipped(j.Commit) != nil || r.Judge(j.Commit, j.Guard) != nil {
		return h, false
	}
	return j.Out.frozen(r, s.Now)
}

// A Comparison is the result of DoCompare.
type Comparison struct {
	Head, Pinned settings.Commit
	Descends     bool // Head descends from Pinned
}

// A Measurement holds the newest sequences of streams before a rollout of a commit.
type Measurement struct {
	Commit settings.Commit
	record.Sequences
}

// A Compiled is a revision with its plan for the fleet at Changes.
type Compiled struct {
	Revision *archive.Revision
	Plan     *plan.Plan
	Changes  uint64 // see [Basis]
}

// A Prepared holds the compiled revisions of a goal, and the documents that the bucket lacks for it.
type Prepared struct {
	Goal    Goal
	Changes uint64   // see [Basis]
	Base    Compiled // the revision in force
	Next    Compiled // the revision that goes out in waves; zero if there is none
	Lacking int      // number of documents in Due
	Due     *publish.Due
	Watched map[target.PeelID]progress.Entries // the entries whose runs count for the rollout
	Facts   Facts                              // what new facts take
}

// Facts holds what new facts of peels take from them. Fields as in [record.Facts].
type Facts struct {
	record.Facts                        // with what facts took as it will be once the documents are written
	Keep         map[target.PeelID]bool // the peels that keep what they have; true: the revision that goes out
	Change       *control.Judged        // what waits; nil if nothing does
}

// ChangesPeel reports whether the revision that goes out gives a peel other settings than the one in force.
func (p *Prepared) ChangesPeel(id target.PeelID) bool {
	e, old := p.Next.Plan.Peels[id], p.Base.Plan.Peels[id]
	return e != nil && (old == nil || old.Digest != e.Digest)
}

// Failures are the last errors of each kind of action, until it succeeds.
type Failures struct{ Judge, Serve, Write Failure }

// A Failure says why a task or a write failed. It is not tried again until Until, unless the cause changes.
type Failure struct {
	Err   error
	Cause Cause
	Until time.Time
}

// A Cause identifies the inputs of a task. A task that failed is tried again at once if they change.
type Cause struct {
	attempt uint64
	head    settings.Commit
	goal    Goal
	changes uint64
}

// Cause returns the present inputs of a task.
func (s *State) Cause() Cause {
	return Cause{s.Source.Attempt, s.Source.Head, GoalOf(&s.Record), s.Changes}
}

// Basis returns the present inputs of a plan.
func (s *State) Basis() Basis {
	b := Basis{Changes: s.Changes, generation: s.Record.Generation, inForce: s.Record.Commit}
	if s.Record.Rollout != nil {
		b.rollout = s.Record.Rollout.Commit
	}
	return b
}

// holds reports whether the failed action has to wait.
func (f Failure) holds(s *State) bool {
	return f.Err != nil && f.Cause == s.Cause() && s.Now.Before(f.Until)
}

// A Shown holds the values of the status that cannot be computed from the rest of the state.
type Shown struct {
	Reading    bool // an attempt to read the branch is under way
	working    bool // a task is under way
	good       status.Revision
	Written    settings.Commit
	Writes     int              // documents that were written for Written
	Moved      status.Condition // HistoryRewritten of the revision that was sent last
	Completed  settings.Commit  // the last revision whose waves have all passed
	Completion string           // the reason of its last step, for people
	Order      control.Carried  // the last order that was carried out
	conditions []status.Condition
}
