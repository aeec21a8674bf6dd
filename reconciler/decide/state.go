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
	"github.com/seed-c01c3da5/zester/reconciler/status"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/target"
	"github.com/seed-c01c3da5/zester/settings/target/peelindex"
	"github.com/seed-c01c3da5/zester/settings/top"
)

// A Goal names the revisions that peels are to have. Equal goals give a peel the same revision.
type Goal struct {
	commit  settings.Commit // in force
	rollout settings.Commit // goes out in waves to members
	members string
}

// GoalOf returns what peels are to have by a record.
func GoalOf(r *record.Record) Goal {
	g := Goal{commit: r.Commit}
	if r.Rollout != nil {
		g.rollout, g.members = r.Rollout.Commit, string(r.Rollout.Members)
	}
	return g
}

// A Basis is what a plan depends on besides its revision.
type Basis struct {
	Changes    uint64 // of the fleet and of the identities that decrypt secrets, in this term
	generation uint64 // of the newest document
}

// A Session is what does not change while this master leads.
type Session struct {
	Owner   string        // this master
	Own     record.Source // that it follows
	Repo    string        // URL of the repo, without credentials
	YieldAt time.Time     // when it gives the lease back if the fleet follows another source
}

// A State is all that [Next] looks at: the record, and what this term has observed. Only the loop changes it.
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
	Step        rollout.Step // of the rollout under way, for the peels as they are
	Failed      Failures
	RepublishAt time.Time
	Shown       Shown
}

// A Branch is what the source has told.
type Branch struct {
	Attempt  uint64          // number of looks at the branch that have ended
	Answers  uint64          // see [source.Event]
	Head     settings.Commit // the newest commit at hand, empty before the first
	Observed settings.Commit // where the branch was last seen
	Read     time.Time       // when it was seen there
	Err      error           // why the newest look failed, nil if it did not
}

// An Outgoing is how a revision would go to the fleet.
type Outgoing struct {
	Own, Both top.Safety      // of the revision, and the stricter of it and the one in force
	Base      bool            // the revision in force is at hand, so that waves can go back to it
	Peels     []target.PeelID // that it changes
	Fleet     *peelindex.Index
}

// inWaves reports whether the revision goes out in waves. The first of all does not: there is nothing to go back to.
func (o Outgoing) inWaves(r *record.Record) bool {
	return r.Commit != "" && o.Base && len(o.Both.Waves) > 0
}

// frozen returns the freeze that holds the revision, if one does and nobody has let the revision through.
func (o Outgoing) frozen(r *record.Record, now time.Time) (rollout.Hold, bool) {
	if r.Commit == "" || r.Approved != nil && r.Approved.Override != "" {
		return rollout.Hold{}, false
	}
	return rollout.Frozen(o.Both.Freezes, o.Peels, o.Fleet, now)
}

// A Judgement is what the worker found out about a commit that would go to the fleet.
type Judgement struct {
	Commit  settings.Commit
	Info    gitrepo.Commit
	Passed  []gitrepo.Commit // between the last one that was tried and this one, the oldest first
	Made    Basis            // that it was made for
	Arrived Basis            // when it arrived
	Attempt uint64           // the newest look at the branch when it was made
	Refused *Refused         // nil: it may be served
	Guard   record.Judgement
	Out     Outgoing
	Signed  status.Condition // SourceVerified; without a type if commits need not be signed
	Moved   status.Condition // HistoryRewritten if it goes out
	Change  *control.Judged  // what it changes; nil if it is refused
}

// A Refused revision does not go to the fleet, whatever people approve.
type Refused struct {
	Kind     status.Type // CompileFailed, GuardBlocked or SourceVerified
	Reason   string
	Where    string   // path:line of the first mistake
	Messages []string // one for each mistake, one at least
}

// Message returns all messages, one a line.
func (r *Refused) Message() string { return strings.Join(r.Messages, "\n") }

// A Comparison says whether the head descends from the pinned revision.
type Comparison struct {
	Head, Pinned settings.Commit
	Descends     bool
}

// A Measurement is what peels had reported before a rollout of a commit.
type Measurement struct {
	Commit            settings.Commit
	Sequence, Reports uint64 // the newest of job-events and of applied
}

// A Compiled revision is a plan for the fleet as it was.
type Compiled struct {
	Revision *archive.Revision
	Plan     *plan.Plan
	Changes  uint64 // see [Basis]
}

// A Prepared is what peels are to have, and which documents the bucket lacks for it.
type Prepared struct {
	Goal    Goal
	Changes uint64   // see [Basis]
	Base    Compiled // the revision in force
	Next    Compiled // the revision that goes out in waves; zero if there is none
	Lacking int      // documents that the bucket lacks: those of Due
	Due     *publish.Due
	Watched map[target.PeelID]progress.Entries // the runs that say something of the revision that goes out
}

// ChangesPeel reports whether the revision that goes out gives a peel other settings than the one in force.
func (p *Prepared) ChangesPeel(id target.PeelID) bool {
	e, old := p.Next.Plan.Peels[id], p.Base.Plan.Peels[id]
	return e != nil && (old == nil || old.Digest != e.Digest)
}

// Failures are the last errors by what failed, each until it is tried again.
type Failures struct{ Judge, Serve, Write Failure }

// A Failure is why a task or a write failed, and until when it is not tried again with the same cause.
type Failure struct {
	Err   error
	Cause Cause
	Until time.Time
}

// A Cause is what a task depends on: with another one it is tried at once.
type Cause struct {
	attempt uint64
	head    settings.Commit
	goal    Goal
	changes uint64
}

// Cause returns what a task depends on now.
func (s *State) Cause() Cause {
	return Cause{s.Source.Attempt, s.Source.Head, GoalOf(&s.Record), s.Changes}
}

// Basis returns what a plan depends on now.
func (s *State) Basis() Basis { return Basis{s.Changes, s.Record.Generation} }

// holds reports whether what failed is not to be tried yet.
func (f Failure) holds(s *State) bool {
	return f.Err != nil && f.Cause == s.Cause() && s.Now.Before(f.Until)
}

// A Shown is what the status tells besides what can be computed from the rest of the state.
type Shown struct {
	Looking    bool   // at the branch
	working    bool   // a task is under way
	Waits      Reason // that Next gave last
	good       status.Revision
	Writes     int // documents that took to bring to the fleet what is named by Written
	Written    settings.Commit
	Moved      status.Condition // HistoryRewritten, of the revision that was sent last
	Completed  settings.Commit  // the last revision whose waves have all passed
	Completion string           // how they have
	Order      control.Carried  // the last order that was carried out
	conditions []status.Condition
}
