// Package decide returns what the reconciler does next, and why: [Next] is a pure function of a [State].
//
// Call [Next] with the present [State], carry out the [Action], and call [State.Show] for the status and its
// conditions. Read decide.go first, then state.go and conditions.go.
//
// Guarantees: nothing here reads a clock, the bus or a disk. Every state in which the fleet does not follow the branch
// has a [Reason] and a condition.
package decide

import (
	"cmp"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/reconciler/rollout"
	"github.com/seed-c01c3da5/zester/reconciler/source"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/status"
)

// evaluateEvery is how often a rollout or a freeze is evaluated, besides after each report.
const evaluateEvery = time.Second

// A Kind is the kind of an action of the loop.
type Kind string

const (
	DoNothing Kind = "wait"

	// Tasks of the worker. The loop does not wait for a task: its result is an event.
	DoJudge     Kind = "judge"     // verify, read and compile the head, compare it with the settings of peels
	DoCompare   Kind = "compare"   // find out whether the head descends from the pinned revision
	DoMeasure   Kind = "measure"   // find the newest report and run before a rollout
	DoPrepare   Kind = "prepare"   // compile the revisions of the record, find the documents that the bucket lacks
	DoPublish   Kind = "publish"   // write these documents
	DoRepublish Kind = "republish" // find peels that do not run a revision published long ago

	DoYield Kind = "yield" // give the lease back

	// Changes of the record.
	DoClaim        Kind = "claim"
	DoReleasePin   Kind = "release pin"
	DoEndApproval  Kind = "end approval"
	DoRefuse       Kind = "refuse"
	DoBlock        Kind = "block"
	DoUnblock      Kind = "unblock"
	DoFreeze       Kind = "freeze"
	DoEnforce      Kind = "enforce"
	DoBeginRollout Kind = "begin rollout"
	DoStep         Kind = "step" // a wave begins, is replenished, soaks or ends
	DoComplete     Kind = "complete"
	DoRollBack     Kind = "roll back"
	DoFinish       Kind = "finish" // every document was written
	DoNoteFacts    Kind = "facts"  // what new facts take begins to wait for a person, or no longer does
	DoNoteLost     Kind = "lost"   // the bus is an older copy
)

// A Reason says in one word why the fleet does not move.
type Reason string

const (
	otherSource    Reason = "OtherSource"    // the record names another repo, branch or path
	branchNotRead  Reason = "BranchNotRead"  // no commit of the branch was read
	revisionPinned Reason = "Pinned"         // new commits wait for an unpin
	rolledBack     Reason = "RolledBack"     // the head was rolled back and waits for a retry
	updatesPaused  Reason = "Paused"         // new commits wait for a resume
	headRefused    Reason = "Refused"        // the head does not compile, or may not be served
	headBlocked    Reason = "Blocked"        // the head waits for approval
	headFrozen     Reason = "Frozen"         // the head waits for the end of a freeze
	headInForce    Reason = "InForce"        // all peels have the head, or get it when they return
	waveWaits      Reason = "Wave"           // a wave is not over
	tryAgainLater  Reason = "TryAgainLater"  // a task or a write failed
	noRevision     Reason = "NoRevision"     // nothing was ever in force
	revisionServed Reason = "RevisionServed" // all documents of the revision in force are written
)

// An Action is what the loop does next, and why.
type Action struct {
	Kind   Kind
	Reason Reason
	Until  time.Time       // DoNothing: when to decide again at the latest; zero: at the next event
	Commit settings.Commit // of DoJudge, DoCompare, DoMeasure
	Next   record.Record   // of a change of the record, and of DoPublish
}

// IsTask reports whether the worker carries out the action.
func (a Action) IsTask() bool {
	switch a.Kind {
	case DoJudge, DoCompare, DoMeasure, DoPrepare, DoPublish, DoRepublish:
		return true
	}
	return false
}

// Next returns the next action. It depends on s only, and nothing else decides what the reconciler does.
func Next(s *State) Action {
	if s.Record.CheckSource(s.Own) != nil {
		return waitForAdoption(s)
	}
	if s.Failed.Write.holds(s) {
		return Action{Kind: DoNothing, Reason: tryAgainLater, Until: s.Failed.Write.Until}
	}
	all := Action{Kind: DoNothing}
	for _, step := range []func(*State) Action{claim, noteLost, releasePin, endApproval, follow, serve, republish} {
		a := step(s)
		all.Reason = cmp.Or(all.Reason, a.Reason)
		if a.Kind != DoNothing {
			a.Reason = all.Reason // holds while the action is carried out
			return a
		}
		all.Until = Earlier(all.Until, a.Until)
	}
	return all
}

// waitForAdoption waits for sync.adopt until YieldAt, and then gives the lease back: another master may have the
// fleet's source.
func waitForAdoption(s *State) Action {
	if s.Now.Before(s.YieldAt) {
		return Action{Kind: DoNothing, Reason: otherSource, Until: s.YieldAt}
	}
	return Action{Kind: DoYield, Reason: otherSource}
}

// claim sets the source in a record of an earlier version, which names none.
func claim(s *State) Action {
	if s.Record.Source == s.Own || s.Record.Time.IsZero() {
		return wait("")
	}
	return Action{Kind: DoClaim, Next: s.Record}
}

// noteLost records that the bus is an older copy, again if more peels say so. It comes before new documents: they make
// the bus newer than all that peels have, and the next master would find nothing.
func noteLost(s *State) Action {
	if s.Lost == nil {
		return wait("")
	}
	found := *s.Lost
	if before := s.Record.Lost; before != nil && !found.From.After(before.Until) { // the same copy
		if found.Peels <= before.Peels {
			return wait("")
		}
		found.From = before.From
	}
	next := s.Record
	next.Lost = &found
	return Action{Kind: DoNoteLost, Next: next}
}

// Earlier returns the first of two times; zero is never.
func Earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func wait(why Reason) Action { return Action{Kind: DoNothing, Reason: why} }

// releasePin ends a pin with UntilNewer when the head descends from the pinned commit, is not the head at the time of
// the pin, and was not rolled back.
func releasePin(s *State) Action {
	p, head := s.Record.Pinned, s.Source.Head
	if p == nil || !p.UntilNewer || head == "" || head == p.Head || head == p.Commit ||
		s.Record.FindSkipped(head) != nil {
		return wait("")
	}
	if s.Compared.Head != head || s.Compared.Pinned != p.Commit {
		return s.unlessFailed(s.Failed.Judge, Action{Kind: DoCompare, Commit: head})
	}
	if !s.Compared.Descends {
		return wait("")
	}
	next := s.Record
	next.Pinned = nil
	return Action{Kind: DoReleasePin, Next: next}
}

// endApproval drops an approval, and the wait for one, when the head is another commit.
func endApproval(s *State) Action {
	if s.Source.Head == "" || !s.Record.IsOutdated(s.Source.Head) {
		return wait("")
	}
	return Action{Kind: DoEndApproval, Next: s.Record.WithoutApproval()}
}

// unlessFailed returns a, or a wait while a failure holds.
func (s *State) unlessFailed(f Failure, a Action) Action {
	if f.holds(s) {
		return Action{Kind: DoNothing, Reason: tryAgainLater, Until: f.Until}
	}
	return a
}

// follow moves the record to the head of the branch, unless a pin, a pause, a refusal, an approval or a freeze holds it
// back.
func follow(s *State) Action {
	r, head := &s.Record, s.Source.Head
	approving := r.Blocked != nil || r.Approved != nil // it concerns the head, or endApproval had dropped it
	switch {
	case r.Pinned != nil:
		return wait(revisionPinned)
	case head == "":
		return wait(branchNotRead)
	case r.FindSkipped(head) != nil:
		return wait(rolledBack)
	case r.IsSent(head) && s.Judged != nil && s.Judged.Commit == head:
		return stay(s)
	case r.Suspended != nil && !approving && !r.IsSent(head):
		return wait(updatesPaused)
	case r.IsSent(head), !s.isJudged():
		a := Action{Kind: DoJudge, Commit: head}
		if _, held := s.headHold(); held {
			a.Reason = headFrozen // until it is judged anew, after a change of the fleet
		}
		return s.unlessFailed(s.Failed.Judge, a)
	case s.Judged.Refused != nil:
		return refuse(s)
	}
	if b := r.Judge(head, s.Judged.Guard); b != nil {
		return block(s, b)
	}
	if r.Blocked != nil { // it waited, compared with a revision that is no longer in force or under way
		next := *r
		next.Blocked = nil
		return Action{Kind: DoUnblock, Next: next}
	}
	if r.Suspended != nil {
		return wait(updatesPaused)
	}
	return send(s)
}

// stay ends the rollout if the branch went back to the revision in force, unless new commits are paused.
func stay(s *State) Action {
	r, head := &s.Record, s.Source.Head
	switch {
	case r.Rollout == nil || head == r.Rollout.Commit:
		return wait(headInForce)
	case r.Suspended != nil:
		return wait(updatesPaused)
	}
	next := r.Enforced(head, r.Safety, false, s.Now)
	return Action{
		Kind: DoEnforce,
		Next: s.noted(next, status.OutcomeProgressing, "the branch went back to it from "+r.Rollout.Commit.Short()),
	}
}

// isJudged reports whether there is a judgement of the head that is valid for the present fleet.
func (s *State) isJudged() bool {
	j, r := s.Judged, &s.Record
	switch {
	case j == nil || j.Commit != s.Source.Head:
		return false
	case j.Refused != nil && j.Refused.Kind == status.SourceVerified && j.Attempt != s.Source.Attempt:
		return false // the keys may have changed
	case j.Made == s.Basis():
		return true
	}
	// A fleet may change all the time. A revision that needs no approval goes out if nothing has changed since the
	// judgement arrived.
	free := j.Refused == nil && r.Blocked == nil && r.Approved == nil && r.Judge(j.Commit, j.Guard) == nil
	return free && j.Arrived == s.Basis()
}

// noted returns the record with the outcome of the judged revision in its history, and the commits before it as
// superseded.
func (s *State) noted(r record.Record, outcome status.Outcome, why string) record.Record {
	if last := r.LastAttempt(); last != nil && last.Commit != s.Judged.Commit {
		for _, c := range s.Judged.Passed {
			r = r.Noted(attemptOn(c, s.Owner, status.OutcomeSuperseded,
				"by "+s.Judged.Commit.Short()+", before it was tried"), s.Now)
		}
	}
	return r.Noted(attemptOn(s.Judged.Info, s.Owner, outcome, why), s.Now)
}

func attemptOn(c gitrepo.Commit, owner string, outcome status.Outcome, why string) status.Attempt {
	return status.Attempt{
		Commit:  settings.Commit(c.Hash.String()),
		Author:  source.Byline(c),
		Message: c.Subject(),
		Outcome: outcome,
		Reason:  why,
		Master:  owner,
	}
}

// refuse records that the head does not compile or is not allowed.
func refuse(s *State) Action {
	next := s.noted(s.Record, status.OutcomeRejected, s.Judged.Refused.Messages[0])
	if slices.EqualFunc(next.History, s.Record.History, status.Attempt.Equal) {
		return wait(headRefused)
	}
	return Action{Kind: DoRefuse, Next: next}
}

// block records that the head waits for the approval of its plan.
func block(s *State, b *record.Blocked) Action {
	if before := s.Record.Blocked; before != nil && *before == *b {
		return wait(headBlocked)
	}
	next := s.noted(s.Record.WithoutApproval(), status.OutcomeBlocked, b.Reason)
	next.Blocked = b
	return Action{Kind: DoBlock, Next: next}
}

// send puts the head in force, or begins its waves.
func send(s *State) Action {
	r, j := s.Record, s.Judged
	if j.Guard.Facts != "" { // a person has approved it, and so has seen what facts take with this revision
		r.Facts = record.Facts{}
	}
	if hold, frozen := j.Out.frozen(&r, s.Now); frozen {
		next := s.noted(r, status.OutcomeBlocked, hold.Reason)
		if !slices.EqualFunc(next.History, r.History, status.Attempt.Equal) {
			return Action{Kind: DoFreeze, Next: next}
		}
		return Action{Kind: DoNothing, Reason: headFrozen, Until: Earlier(hold.Until, s.Now.Add(evaluateEvery))}
	}
	if !j.Out.inWaves(&r) {
		next := r.WithoutApproval().Enforced(j.Commit, j.Out.Own, false, s.Now)
		next.Guarded = j.Out.Guarded
		return Action{Kind: DoEnforce, Next: s.noted(next, status.OutcomeProgressing, "")}
	}
	if s.Measured == nil || s.Measured.Commit != j.Commit {
		return s.unlessFailed(s.Failed.Judge, Action{Kind: DoMeasure, Commit: j.Commit})
	}
	next := rollout.Begin(r, j.Commit, s.Measured.Sequences, s.Now)
	next.Rollout.Guarded = j.Out.Guarded
	return Action{Kind: DoBeginRollout, Next: s.noted(next, status.OutcomeProgressing, "")}
}

// serve writes the documents of the record's revisions, and then continues the rollout under way.
func serve(s *State) Action {
	r, p := &s.Record, s.Prepared
	switch {
	case r.Commit == "":
		return wait(noRevision)
	case p == nil || p.Goal != GoalOf(r):
		return s.unlessFailed(s.Failed.Serve, Action{Kind: DoPrepare})
	case r.Rollout != nil && s.Step.State == rollout.Failed:
		return roll(s) // before anything is written or prepared again: the fleet may change all the time
	case r.Rollout != nil && r.Rollout.Members.Len() == 0:
		// Choose the first wave before peels of a superseded rollout would be written back to the revision in force.
		if a := roll(s); a.Kind != DoNothing || p.Lacking == 0 {
			return a
		}
	}
	if a := noteFacts(s); a.Kind != DoNothing {
		return a
	}
	switch {
	case p.Lacking > 0:
		next := s.Record
		next.Generation = settings.NextGeneration(next.Generation, s.Now)
		next.Facts.Taken = p.Facts.Taken
		return Action{Kind: DoPublish, Next: next}
	case r.Rollout != nil:
		// The rollout goes on with what was prepared last. Who is a member does not depend on facts that changed since.
		if a := roll(s); a.Kind != DoNothing || p.Changes == s.Changes {
			return a
		}
		return s.unlessFailed(s.Failed.Serve, Action{Kind: DoPrepare})
	case p.Changes != s.Changes:
		return s.unlessFailed(s.Failed.Serve, Action{Kind: DoPrepare})
	case !r.Done || r.Served == 0:
		return Action{Kind: DoFinish, Next: finished(s)}
	}
	return wait(revisionServed)
}

// finished returns the record once all documents of the revision in force are written.
func finished(s *State) record.Record {
	next := s.Record
	if at := next.AttemptAt(next.Commit); at != nil && at.Outcome == status.OutcomeProgressing {
		a := *at
		a.Outcome, a.Master = status.OutcomeApplied, s.Owner
		next = next.Noted(a, s.Now)
	}
	next.Done, next.Served, next.Guarded = true, max(next.Generation, 1), nil
	return next
}

// noteFacts records what waits of the changes that new facts make. An approval ends once the documents that it lets out
// are written; what is left then waits on its own.
func noteFacts(s *State) Action {
	p, last := s.Prepared, &s.Record.Facts
	switch {
	case last.Approved != nil && p.Lacking > 0, last.Approved == nil && last.Hash == p.Facts.Hash:
		return wait("")
	}
	next := s.Record
	next.Facts = record.Facts{}
	if p.Facts.Hash != "" {
		next.Facts = p.Facts.Facts
	}
	next.Facts.Taken = last.Taken // what is taken now is recorded with its documents
	if last.Approved != nil {     // a person has seen what facts took so far
		next.Facts.Taken = nil
	}
	return Action{Kind: DoNoteFacts, Next: next}
}

// roll returns the action for the present step of the rollout.
func roll(s *State) Action {
	r, step := s.Record, s.Step
	switch {
	case step.State == rollout.Failed:
		r.Rollout = &step.Rollout
		next := s.withWaves(r).RolledBack(step.Reason, s.Now)
		return Action{
			Kind: DoRollBack,
			Next: next.Noted(attemptOn(s.Prepared.Next.Revision.Commit, s.Owner, status.OutcomeRolledBack,
				step.Reason), s.Now),
		}
	case step.State == rollout.Complete:
		safety := s.Prepared.Next.Plan.Safety()
		next := s.withWaves(r).Enforced(r.Rollout.Commit, safety, false, s.Now)
		next.Guarded = r.Rollout.Guarded
		return Action{Kind: DoComplete, Next: next}
	case step.Changed:
		r.Rollout = &step.Rollout
		return Action{Kind: DoStep, Next: s.withWaves(r)}
	}
	return Action{Kind: DoNothing, Reason: waveWaits, Until: Earlier(step.Until, s.Now.Add(evaluateEvery))}
}

// withWaves returns the record with the waves of the rollout under way in the history.
func (s *State) withWaves(r record.Record) record.Record {
	commit := r.Rollout.Commit
	at := r.AttemptAt(commit)
	if at == nil {
		return r
	}
	return r.NotedWaves(commit, s.Step.Waves(*at, s.Now))
}

// republish writes the documents again of peels that do not run them.
func republish(s *State) Action {
	if s.Now.Before(s.RepublishAt) {
		return Action{Kind: DoNothing, Until: s.RepublishAt}
	}
	return Action{Kind: DoRepublish}
}
