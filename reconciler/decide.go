package reconciler

import (
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/control"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/reconciler/rollout"
	"github.com/seed-c01c3da5/zester/reconciler/source"
	"github.com/seed-c01c3da5/zester/reconciler/status"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/target"
	"github.com/seed-c01c3da5/zester/settings/top"
)

// lookEvery is how often a rollout under way is looked at, besides at each report.
const lookEvery = time.Second

// A kind says what the loop does next.
type kind string

const (
	doNothing kind = "wait"

	// Jobs of the worker. The loop does not wait for a task: its result is an event.
	doJudge     kind = "judge"     // verify, read and compile the head, compare it with what peels have
	doCompare   kind = "compare"   // find out whether the head descends from the pinned revision
	doMeasure   kind = "measure"   // find out what peels had reported before a rollout
	doPrepare   kind = "prepare"   // compile what the record says, find the documents that the bucket lacks
	doPublish   kind = "publish"   // write these documents
	doRepublish kind = "republish" // find peels that do not run what was published long ago

	doYield kind = "yield" // give the lease back

	// Changes of the record.
	doClaim        kind = "claim"
	doReleasePin   kind = "release pin"
	doEndApproval  kind = "end approval"
	doRefuse       kind = "refuse"
	doBlock        kind = "block"
	doFreeze       kind = "freeze"
	doEnforce      kind = "enforce"
	doBeginRollout kind = "begin rollout"
	doStep         kind = "step" // a wave begins, is replenished, soaks or ends
	doComplete     kind = "complete"
	doRollBack     kind = "roll back"
	doFinish       kind = "finish" // every document was written
)

// A reason says in one word why the fleet does not move.
type reason string

const (
	otherSource    reason = "OtherSource"    // the record is of another repo, branch or path
	branchNotRead  reason = "BranchNotRead"  // no commit of the branch is at hand
	revisionPinned reason = "Pinned"         // new commits wait for an unpin
	rolledBack     reason = "RolledBack"     // the head was rolled back and waits for a retry
	updatesPaused  reason = "Paused"         // new commits wait for a resume
	headRefused    reason = "Refused"        // the head does not compile, or may not be served
	headBlocked    reason = "Blocked"        // the head waits for approval
	headFrozen     reason = "Frozen"         // the head waits for the end of a freeze
	headInForce    reason = "InForce"        // all peels have the head, or get it when they return
	waveWaits      reason = "Wave"           // a wave is not over
	tryAgainLater  reason = "TryAgainLater"  // a task or a write failed
	noRevision     reason = "NoRevision"     // nothing was ever in force
	revisionServed reason = "RevisionServed" // all documents of the revision in force are written
)

// An action is what the loop does next, and why.
type action struct {
	kind   kind
	reason reason
	until  time.Time       // doNothing: when to decide again at the latest; zero: at the next event
	commit settings.Commit // of doJudge, doCompare, doMeasure
	next   record.Record   // of a change of the record, and of doPublish
}

// isTask reports whether the worker does it.
func (a action) isTask() bool {
	switch a.kind {
	case doJudge, doCompare, doMeasure, doPrepare, doPublish, doRepublish:
		return true
	}
	return false
}

// A goal is what peels are to have. Equal goals give a peel the same revision.
type goal struct {
	commit  settings.Commit // in force
	rollout settings.Commit // goes out in waves to members
	members string
}

func goalOf(r *record.Record) goal {
	g := goal{commit: r.Commit}
	if r.Rollout != nil {
		g.rollout, g.members = r.Rollout.Commit, string(r.Rollout.Members)
	}
	return g
}

// A basis is what a plan depends on besides its revision.
type basis struct {
	changes    uint64 // of the fleet and of the identities that decrypt secrets, in this term
	generation uint64 // of the newest document
}

// A session is what does not change while this master leads.
type session struct {
	owner   string        // this master
	own     record.Source // that it follows
	repo    string        // URL of the repo, without credentials
	yieldAt time.Time     // when it gives the lease back if the fleet follows another source
}

// A state is all that decide looks at: the record, and what this term has observed. Only the loop changes it.
type state struct {
	session
	now         time.Time
	record      record.Record
	source      branch
	changes     uint64 // see basis
	judged      *judgement
	compared    comparison
	measured    *measurement
	prepared    *prepared
	step        rollout.Step // of the rollout under way, for the peels as they are
	failed      failures
	republishAt time.Time
	shown       shown
}

// A branch is what the source has told.
type branch struct {
	attempt  uint64          // number of looks at the branch that have ended
	answers  uint64          // see [source.Event]
	head     settings.Commit // the newest commit at hand, empty before the first
	observed settings.Commit // where the branch was last seen
	read     time.Time       // when it was seen there
	err      error           // why the newest look failed, nil if it did not
}

// An outgoing is how a revision would go to the fleet.
type outgoing struct {
	own, both top.Safety      // of the revision, and the stricter of it and the one in force
	base      bool            // the revision in force is at hand, so that waves can go back to it
	peels     []target.PeelID // that it changes
	fleet     *target.Index
}

// inWaves reports whether the revision goes out in waves. The first of all does not: there is nothing to go back to.
func (o outgoing) inWaves(r *record.Record) bool {
	return r.Commit != "" && o.base && len(o.both.Waves) > 0
}

// frozen returns the freeze that holds the revision, if one does and nobody has let the revision through.
func (o outgoing) frozen(r *record.Record, now time.Time) (rollout.Hold, bool) {
	if r.Commit == "" || r.Approved != nil && r.Approved.Override != "" {
		return rollout.Hold{}, false
	}
	return rollout.Frozen(o.both.Freezes, o.peels, o.fleet, now)
}

// A judgement is what the worker found out about a commit that would go to the fleet.
type judgement struct {
	commit  settings.Commit
	info    gitrepo.Commit
	passed  []status.Attempt // commits between the last one that was tried and this one, the oldest first
	made    basis            // that it was made for
	arrived basis            // when it arrived
	attempt uint64           // the newest look at the branch when it was made
	refused *refused         // nil: it may be served
	guard   record.Judgement
	out     outgoing
	signed  status.Condition // SourceVerified; without a type if commits need not be signed
	moved   status.Condition // HistoryRewritten if it goes out
	change  *control.Judged  // what it changes; nil if it is refused
}

// A comparison says whether the head descends from the pinned revision.
type comparison struct {
	head, pinned settings.Commit
	descends     bool
}

// A measurement is what peels had reported before a rollout of a commit.
type measurement struct {
	commit            settings.Commit
	sequence, reports uint64 // the newest of job-events and of applied
}

// Failures are the last errors by what failed, each until it is tried again.
type failures struct{ judge, serve, write failure }

type failure struct {
	err   error
	cause cause
	until time.Time
}

// A cause is what a task depends on: with another one it is tried at once.
type cause struct {
	attempt uint64
	head    settings.Commit
	goal    goal
	changes uint64
}

func (s *state) cause() cause {
	return cause{s.source.attempt, s.source.head, goalOf(&s.record), s.changes}
}

func (s *state) basis() basis { return basis{s.changes, s.record.Generation} }

// holds reports whether what failed is not to be tried yet.
func (f failure) holds(s *state) bool {
	return f.err != nil && f.cause == s.cause() && s.now.Before(f.until)
}

// decide returns what to do next. It is the only place that says what the reconciler does; whatever it looks at is in s.
func decide(s *state) action {
	if s.record.CheckSource(s.own) != nil {
		return otherFleet(s)
	}
	if s.failed.write.holds(s) {
		return action{kind: doNothing, reason: tryAgainLater, until: s.failed.write.until}
	}
	all := action{kind: doNothing}
	for _, step := range []func(*state) action{claim, releasePin, endApproval, follow, serve, republish} {
		a := step(s)
		if a.kind != doNothing {
			return a
		}
		if all.reason == "" {
			all.reason = a.reason
		}
		all.until = earlier(all.until, a.until)
	}
	return all
}

// otherFleet waits for sync.adopt, and then gives the lease back: another master may follow what the fleet follows.
func otherFleet(s *state) action {
	if s.now.Before(s.yieldAt) {
		return action{kind: doNothing, reason: otherSource, until: s.yieldAt}
	}
	return action{kind: doYield, reason: otherSource}
}

// claim puts the source into a record that names none, as an earlier version wrote it.
func claim(s *state) action {
	if s.record.Source == s.own || s.record.Time.IsZero() {
		return wait("")
	}
	return action{kind: doClaim, next: s.record}
}

// earlier returns the first of two times; zero is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func wait(why reason) action { return action{kind: doNothing, reason: why} }

// releasePin ends a pin until newer when there is a commit that comes after the pinned one, that was not known when it was
// pinned, and that was not rolled back.
func releasePin(s *state) action {
	p, head := s.record.Pinned, s.source.head
	if p == nil || !p.UntilNewer || head == "" || head == p.Head || head == p.Commit || s.record.FindSkipped(head) != nil {
		return wait("")
	}
	if s.compared.head != head || s.compared.pinned != p.Commit {
		return s.unlessFailed(s.failed.judge, action{kind: doCompare, commit: head})
	}
	if !s.compared.descends {
		return wait("")
	}
	next := s.record
	next.Pinned = nil
	return action{kind: doReleasePin, next: next}
}

// endApproval drops an approval, and a revision that waits for one, when the branch has moved on.
func endApproval(s *state) action {
	if s.source.head == "" || !s.record.IsOutdated(s.source.head) {
		return wait("")
	}
	return action{kind: doEndApproval, next: s.record.WithoutApproval()}
}

// unlessFailed returns a, or a wait while a failure holds.
func (s *state) unlessFailed(f failure, a action) action {
	if f.holds(s) {
		return action{kind: doNothing, reason: tryAgainLater, until: f.until}
	}
	return a
}

// follow brings the record to the head of the branch, unless something holds it back.
func follow(s *state) action {
	r, head := &s.record, s.source.head
	asked := r.Blocked != nil || r.Approved != nil // of the head: endApproval has seen to that
	switch {
	case r.Pinned != nil:
		return wait(revisionPinned)
	case head == "":
		return wait(branchNotRead)
	case r.FindSkipped(head) != nil:
		return wait(rolledBack)
	case r.IsSent(head) && s.judged != nil && s.judged.commit == head:
		if r.Rollout == nil || head == r.Rollout.Commit {
			return wait(headInForce)
		}
		next := s.noted(*r, status.OutcomeProgressing, "") // the branch went back: the rollout ends
		return action{kind: doEnforce, next: next.Enforced(head, r.Safety, false, s.now)}
	case r.Suspended != nil && !asked && !r.IsSent(head):
		return wait(updatesPaused)
	case r.IsSent(head), !s.isJudged():
		return s.unlessFailed(s.failed.judge, action{kind: doJudge, commit: head})
	case s.judged.refused != nil:
		return refuse(s)
	}
	if b := r.Judge(head, s.judged.guard); b != nil {
		return block(s, b)
	}
	if r.Suspended != nil {
		return wait(updatesPaused)
	}
	return send(s)
}

// isJudged reports whether the judgement of the head holds for the fleet as it is.
func (s *state) isJudged() bool {
	j, r := s.judged, &s.record
	switch {
	case j == nil || j.commit != s.source.head:
		return false
	case j.refused != nil && j.refused.kind == status.SourceVerified && j.attempt != s.source.attempt:
		return false // the keys may have changed
	case j.made == s.basis():
		return true
	}
	// A fleet may change all the time. What needs no approval goes out if nothing has changed since the judgement arrived.
	free := j.refused == nil && r.Blocked == nil && r.Approved == nil && r.Judge(j.commit, j.guard) == nil
	return free && j.arrived == s.basis()
}

// noted returns the record with what became of the revision that was judged, and of those that were passed over for it.
func (s *state) noted(r record.Record, outcome status.Outcome, why string) record.Record {
	if last := r.LastAttempt(); last != nil && last.Commit != s.judged.commit {
		for _, a := range s.judged.passed {
			r = r.Noted(a, s.now)
		}
	}
	return r.Noted(attemptOn(s.judged.info, s.owner, outcome, why), s.now)
}

func attemptOn(c gitrepo.Commit, owner string, outcome status.Outcome, why string) status.Attempt {
	return status.Attempt{
		Commit: settings.Commit(c.Hash.String()), Author: source.Byline(c), Message: c.Subject(), Outcome: outcome, Reason: why, Master: owner,
	}
}

// refuse notes that the head does not compile or may not be served.
func refuse(s *state) action {
	next := s.noted(s.record, status.OutcomeRejected, s.judged.refused.messages[0])
	if slices.EqualFunc(next.History, s.record.History, status.Attempt.Equal) {
		return wait(headRefused)
	}
	return action{kind: doRefuse, next: next}
}

// block notes that the head waits for approval of a plan.
func block(s *state, b *record.Blocked) action {
	if before := s.record.Blocked; before != nil && *before == *b {
		return wait(headBlocked)
	}
	next := s.noted(s.record.WithoutApproval(), status.OutcomeBlocked, b.Reason)
	next.Blocked = b
	return action{kind: doBlock, next: next}
}

// send puts the head in force, or begins its waves.
func send(s *state) action {
	r, j := s.record, s.judged
	if hold, frozen := j.out.frozen(&r, s.now); frozen {
		next := s.noted(r, status.OutcomeBlocked, hold.Reason)
		if !slices.EqualFunc(next.History, r.History, status.Attempt.Equal) {
			return action{kind: doFreeze, next: next}
		}
		return action{kind: doNothing, reason: headFrozen, until: earlier(hold.Until, s.now.Add(lookEvery))}
	}
	if !j.out.inWaves(&r) {
		next := s.noted(r.WithoutApproval(), status.OutcomeProgressing, "")
		return action{kind: doEnforce, next: next.Enforced(j.commit, j.out.own, false, s.now)}
	}
	if s.measured == nil || s.measured.commit != j.commit {
		return s.unlessFailed(s.failed.judge, action{kind: doMeasure, commit: j.commit})
	}
	next := rollout.Begin(r, j.commit, j.out.both, s.measured.sequence, s.measured.reports, s.now)
	return action{kind: doBeginRollout, next: s.noted(next, status.OutcomeProgressing, "")}
}

// serve gives peels what the record says.
func serve(s *state) action {
	r, p := &s.record, s.prepared
	switch {
	case r.Commit == "":
		return wait(noRevision)
	case p == nil || p.goal != goalOf(r):
		return s.unlessFailed(s.failed.serve, action{kind: doPrepare})
	case r.Rollout != nil && r.Rollout.Members.Len() == 0:
		// The peels that a superseded rollout has reached get the first wave of this one, and do not go back before.
		if a := roll(s); a.kind != doNothing || p.lacking == 0 {
			return a
		}
	}
	switch {
	case p.lacking > 0:
		next := s.record
		next.Generation = settings.NextGeneration(next.Generation, s.now)
		return action{kind: doPublish, next: next}
	case p.changes != s.changes:
		return s.unlessFailed(s.failed.serve, action{kind: doPrepare})
	case r.Rollout != nil:
		return roll(s)
	case !r.Done:
		return action{kind: doFinish, next: finished(s)}
	}
	return wait(revisionServed)
}

// finished returns the record after all documents of the revision in force were written.
func finished(s *state) record.Record {
	next := s.record
	if last := next.LastAttempt(); last != nil && last.Commit == next.Commit && last.Outcome == status.OutcomeProgressing {
		a := *last
		a.Outcome, a.Master = status.OutcomeApplied, s.owner
		next = next.Noted(a, s.now)
	}
	next.Done = true
	return next
}

// roll takes the rollout as far as its waves permit.
func roll(s *state) action {
	r, step := s.record, s.step
	switch {
	case step.State == rollout.Failed:
		r.Rollout = &step.Rollout
		next := r.Noted(attemptOn(s.prepared.next.revision.Commit, s.owner, status.OutcomeRolledBack, step.Reason), s.now)
		return action{kind: doRollBack, next: next.RolledBack(step.Reason, s.now)}
	case step.State == rollout.Complete:
		return action{kind: doComplete, next: r.Enforced(r.Rollout.Commit, s.prepared.next.plan.Safety(), false, s.now)}
	case step.Changed:
		r.Rollout = &step.Rollout
		return action{kind: doStep, next: r}
	}
	return action{kind: doNothing, reason: waveWaits, until: earlier(step.Until, s.now.Add(lookEvery))}
}

// republish has the documents of peels that do not run them written once more.
func republish(s *state) action {
	if s.now.Before(s.republishAt) {
		return action{kind: doNothing, until: s.republishAt}
	}
	return action{kind: doRepublish}
}
