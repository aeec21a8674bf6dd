package decide

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/archive"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/reconciler/rollout"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/policy"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
	"github.com/seed-c01c3da5/zester/settings/target/peelindex"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// rev returns the commit with a number, 0 for none.
func rev(n int) settings.Commit {
	if n == 0 {
		return ""
	}
	return settings.Commit(fmt.Sprintf("%040x", n))
}

func revision(n int) *archive.Revision {
	h, _ := gitrepo.ParseHash(string(rev(n)))
	return &archive.Revision{Commit: gitrepo.Commit{Hash: h}}
}

// A cond changes a state.
type cond func(*State)

// stateOf returns the state of a term that has read the branch at commit 1, which is in force and served, with changes.
func stateOf(changes ...cond) *State {
	s := &State{Now: noon, Session: Session{Owner: "m1", YieldAt: noon.Add(50 * time.Second)}, RepublishAt: noon.Add(time.Minute), Changes: 1}
	s.Record.Commit, s.Record.Done, s.Record.Generation, s.Record.Safety = rev(1), true, 1, canary
	s.Record.Served = 1
	s.Source = Branch{Attempt: 1, Head: rev(1)}
	for _, change := range changes {
		change(s)
	}
	return s
}

func head(n int) cond { return func(s *State) { s.Source.Head = rev(n) } }

// judged has the head judged for the fleet as it is.
func judged(j Judgement) cond {
	return func(s *State) {
		j.Commit, j.Info, j.Made, j.Arrived, j.Attempt = s.Source.Head, revision(0).Commit, s.Basis(), s.Basis(), s.Source.Attempt
		s.Judged = &j
	}
}

var (
	canary = policy.Safety{Waves: []policy.Wave{{Name: "canary"}}}
	good   = Judgement{Guard: record.Judgement{Hash: "plan"}, Out: Outgoing{Own: canary}} // goes to all, as Base is not set
	large  = Judgement{Guard: record.Judgement{Hash: "plan", Exceeded: "too much"}}
	noBase = Judgement{Guard: record.Judgement{Hash: "plan", Unreadable: "nothing to go back to"}}
	broken = Judgement{Refused: &Refused{Kind: status.CompileFailed, Messages: []string{"top.yaml:1:1: broken"}}}
	forged = Judgement{Refused: &Refused{Kind: status.SourceVerified, Messages: []string{"no signature"}}}
	inWave = Judgement{Guard: record.Judgement{Hash: "plan"}, Out: Outgoing{Base: true, Own: canary}}
)

// served has the worker prepare what the record says, with documents that the bucket lacks.
func served(lacking int) cond {
	return func(s *State) {
		c := Compiled{revision(1), &plan.Plan{}, s.Changes}
		s.Prepared = &Prepared{Goal: GoalOf(&s.Record), Changes: s.Changes, Lacking: lacking, Base: c, Next: Compiled{revision(2), &plan.Plan{}, s.Changes}}
	}
}

func change(f func(r *record.Record)) cond { return func(s *State) { f(&s.Record) } }

func pinned(untilNewer bool) cond {
	return change(func(r *record.Record) { r.Pinned = &record.Pin{Commit: rev(1), Head: rev(1), UntilNewer: untilNewer} })
}

func blocked(hash string) cond {
	return func(s *State) {
		s.Record.Blocked = &record.Blocked{Commit: s.Source.Head, Hash: hash, Reason: "too much", Kind: "TooManyChanges", Sent: string(s.Record.Commit)}
	}
}

func approved(hash string) cond {
	return func(s *State) { s.Record.Approved = &record.Approval{Commit: s.Source.Head, Hash: hash} }
}

func compared(descends bool) cond {
	return func(s *State) { s.Compared = Comparison{s.Source.Head, rev(1), descends} }
}

func rolls(members int, is rollout.State, changed bool) cond {
	return func(s *State) {
		s.Record.Rollout = &record.Rollout{Commit: rev(2), Waves: []policy.Wave{{Name: "canary"}}}
		for i := range members {
			s.Record.Rollout.Members = s.Record.Rollout.Members.With(record.MarkPeel(target.PeelID(fmt.Sprint(i))))
		}
		s.Step = rollout.Step{Rollout: *s.Record.Rollout, State: is, Changed: changed}
	}
}

// taking has new facts take what waits.
func taking(hash string) cond {
	return func(s *State) { s.Prepared.Facts.Hash, s.Prepared.Facts.Reason = hash, "too much" }
}

// waits has a change by facts wait, or be approved.
func waits(hash string, approved bool) cond {
	return func(s *State) {
		s.Record.Facts = record.Facts{Hash: hash, Reason: "too much"}
		if approved {
			s.Record.Facts.Approved = &record.Approval{Hash: hash, By: "ann"}
		}
	}
}

func paused(s *State)   { s.Record.Suspended = &record.Approval{By: "ann"} }
func skipped(s *State)  { s.Record.Skipped = []record.Skipped{{Commit: s.Source.Head}} }
func undone(s *State)   { s.Record.Done = false }
func facts(s *State)    { s.Changes++ }
func looked(s *State)   { s.Source.Attempt++ }
func measured(s *State) { s.Measured = &Measurement{Commit: s.Source.Head} }
func minute(s *State)   { s.Now = s.RepublishAt }
func nothing(s *State)  { s.Record = record.Record{} }
func other(s *State)    { s.Record.Source = record.Source{Repo: "/another"} }

// during has the judgement made before a change of the fleet that came before it arrived.
func during(s *State) { s.Judged.Made.Changes-- }

func failing(of func(*Failures) *Failure) cond {
	return func(s *State) {
		*of(&s.Failed) = Failure{Err: errors.New("no disk"), Cause: s.Cause(), Until: s.Now.Add(time.Second)}
	}
}

func judging(f *Failures) *Failure { return &f.Judge }
func serving(f *Failures) *Failure { return &f.Serve }
func writing(f *Failures) *Failure { return &f.Write }

// frozenFor has a freeze hold the revision that was judged.
func frozenFor(s *State) {
	fleet := peelindex.New()
	fleet.Put("web-01", nil)
	s.Judged.Out = Outgoing{Peels: []target.PeelID{"web-01"}, Fleet: fleet}
	s.Record.Freezes = []policy.Freeze{{}}
}

// lost has peels report settings that the bus does not know, of so many seconds after noon.
func lost(peels, from, until int) *record.Lost {
	at := func(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }
	return &record.Lost{From: at(from), Until: at(until), Peel: "web-01", Peels: peels}
}

func TestALossIsNotedAgainOnlyForMorePeels(t *testing.T) {
	for _, c := range []struct {
		name                string
		before, found, want *record.Lost
	}{
		{"the first peel", nil, lost(1, 0, 9), lost(1, 0, 9)},
		{"a peel with ever newer settings", lost(1, 0, 9), lost(1, 0, 20), nil},
		{"more peels", lost(1, 0, 9), lost(2, 0, 8), lost(2, 0, 8)},
		{"more peels in a later term, after documents were written", lost(1, 0, 9), lost(2, 5, 8), lost(2, 0, 8)},
		{"fewer peels in a later term", lost(2, 0, 9), lost(1, 0, 9), nil},
		{"another old copy", lost(2, 0, 9), lost(1, 20, 30), lost(1, 20, 30)},
	} {
		s := stateOf(judged(good), served(3))
		s.Record.Lost, s.Lost = c.before, c.found
		switch a := Next(s); {
		case c.want == nil && a.Kind != DoPublish:
			t.Errorf("%s: %s", c.name, a.Kind)
		case c.want != nil && (a.Kind != DoNoteLost || *a.Next.Lost != *c.want):
			t.Errorf("%s: %s of %+v", c.name, a.Kind, a.Next.Lost)
		}
	}
}

// TestDecide has one line for each state and event.
func TestDecide(t *testing.T) {
	for _, c := range []struct {
		name string
		s    *State
		kind Kind
		why  Reason
	}{
		{"a new fleet, before the branch is read", stateOf(nothing, head(0)), DoNothing, branchNotRead},
		{"a new fleet", stateOf(nothing), DoJudge, ""},
		{"the first revision goes to all", stateOf(nothing, judged(inWave)), DoEnforce, ""},
		{"another repo", stateOf(other, head(2)), DoNothing, otherSource},
		{"another repo for as long as it may be offered", stateOf(other, func(s *State) { s.Now = s.YieldAt }), DoYield, otherSource},
		{"an old record names no source", stateOf(func(s *State) { s.Own.Repo, s.Record.Time = "h/a", noon }), DoClaim, ""},
		{"a term begins", stateOf(), DoJudge, ""},
		{"the head is in force, and its documents are looked at", stateOf(judged(good)), DoPrepare, headInForce},
		{"all is done", stateOf(judged(good), served(0)), DoNothing, headInForce},
		{"the bucket lacks documents", stateOf(judged(good), served(3)), DoPublish, headInForce},
		{"the last document is written", stateOf(judged(good), undone, served(0)), DoFinish, ""},
		{"the fleet changes", stateOf(judged(good), served(0), facts), DoPrepare, headInForce},
		{"the fleet changes before documents are written", stateOf(judged(good), served(3), facts), DoPublish, headInForce},
		{"a minute has passed", stateOf(judged(good), served(0), minute), DoRepublish, headInForce},
		{"facts begin to wait", stateOf(judged(good), served(2), taking("h1")), DoNoteFacts, headInForce},
		{"facts wait, and others get theirs", stateOf(judged(good), waits("h1", false), served(2), taking("h1")), DoPublish, headInForce},
		{"facts wait", stateOf(judged(good), waits("h1", false), served(0), taking("h1")), DoNothing, headInForce},
		{"more facts wait", stateOf(judged(good), waits("h1", false), served(0), taking("h2")), DoNoteFacts, headInForce},
		{"facts are as before", stateOf(judged(good), waits("h1", false), served(0)), DoNoteFacts, headInForce},
		{"a person approves facts", stateOf(judged(good), waits("h1", false), served(0), taking("h1"), waits("h1", true)), DoPrepare, headInForce},
		{"approved facts are written", stateOf(judged(good), waits("h1", true), served(2)), DoPublish, headInForce},
		{"approved facts were written", stateOf(judged(good), waits("h1", true), served(0)), DoNoteFacts, headInForce},

		{"a commit", stateOf(head(2), served(0)), DoJudge, ""},
		{"a good commit", stateOf(head(2), served(0), judged(good)), DoEnforce, ""},
		{"a good commit, and the fleet changed meanwhile", stateOf(head(2), served(0), facts, judged(good), during), DoEnforce, ""},
		{"a good commit, and the fleet changed since", stateOf(head(2), served(0), judged(good), facts), DoJudge, ""},
		{"a commit while the network is away", stateOf(head(2), judged(good), looked), DoEnforce, ""},
		{"a broken commit", stateOf(head(2), judged(broken)), DoRefuse, ""},
		{"a broken commit that was noted", noted(stateOf(head(2), judged(broken), served(0))), DoNothing, headRefused},
		{"a broken commit, and the fleet changes", noted(stateOf(head(2), judged(broken), served(0), facts)), DoJudge, ""},
		{"a broken commit, and another look", noted(stateOf(head(2), judged(broken), served(0), looked)), DoNothing, headRefused},
		{"an unsigned commit, and another look", noted(stateOf(head(2), judged(forged), served(0), looked)), DoJudge, ""},
		{"a commit cannot be read", stateOf(head(2), served(0), failing(judging)), DoNothing, tryAgainLater},
		{"a commit cannot be read, and the fleet changed", stateOf(head(2), facts, failing(judging)), DoPrepare, tryAgainLater},
		{"a newer commit after one that cannot be read", stateOf(failing(judging), head(2)), DoJudge, ""},

		{"a large commit", stateOf(head(2), judged(large)), DoBlock, ""},
		{"a commit after one that cannot be read", stateOf(head(2), judged(noBase)), DoBlock, ""},
		{"it is approved, and has nothing to go back to", stateOf(head(2), judged(noBase), approved("plan")), DoEnforce, ""},
		{"it waits", stateOf(head(2), judged(large), blocked("plan"), served(0)), DoNothing, headBlocked},
		{"it waits, and the fleet changes", stateOf(head(2), judged(large), blocked("plan"), served(0), facts), DoJudge, ""},
		{"it waits, and its plan has changed", stateOf(head(2), judged(large), blocked("before")), DoBlock, ""},
		{"it waits, and is within the limits now", stateOf(head(2), judged(good), blocked("plan"), served(0)), DoNothing, headBlocked},
		{"it waits, and another revision is in force now", stateOf(head(3), judged(good), blocked("plan"), change(func(r *record.Record) { r.Commit = rev(2) })), DoJudge, ""},
		{"it waits, and is within the limits of another revision in force", stateOf(head(3), blocked("plan"), change(func(r *record.Record) { r.Commit = rev(2) }), judged(good)), DoUnblock, ""},
		{"it waited, compared with another revision in force", stateOf(head(3), change(func(r *record.Record) { r.Commit = rev(2) }), judged(good), served(0)), DoEnforce, ""},
		{"it is approved", stateOf(head(2), judged(large), approved("plan")), DoEnforce, ""},
		{"it is approved, and the fleet changed", stateOf(head(2), judged(large), approved("plan"), facts), DoJudge, ""},
		{"it is approved, and the fleet changed while it was judged", stateOf(head(2), facts, judged(large), during, approved("plan")), DoJudge, ""},
		{"another plan is approved", stateOf(head(2), judged(large), approved("before")), DoBlock, ""},
		{"the head moves under what waits", stateOf(head(2), judged(large), blocked("plan"), head(3)), DoEndApproval, ""},
		{"the head moves under an approval", stateOf(head(2), judged(large), approved("plan"), head(3)), DoEndApproval, ""},
		{"the head moves back under an approval", stateOf(head(2), judged(large), approved("plan"), head(1)), DoEndApproval, ""},

		{"paused", stateOf(head(2), paused, served(0)), DoNothing, updatesPaused},
		{"paused, and the fleet changes", stateOf(head(2), paused, served(0), facts), DoPrepare, updatesPaused},
		{"paused, and half published", stateOf(paused, judged(good), undone, served(3)), DoPublish, headInForce},
		{"paused, and what waits is approved", stateOf(head(2), judged(large), paused, approved("plan"), served(0)), DoNothing, updatesPaused},
		{"paused, and the plan that waits changes", stateOf(head(2), judged(large), paused, blocked("plan"), served(0), facts), DoJudge, ""},

		{"pinned", stateOf(head(2), pinned(false), served(0)), DoNothing, revisionPinned},
		{"pinned, and half published", stateOf(head(2), pinned(false), undone, served(3)), DoPublish, revisionPinned},
		{"pinned until newer, at the head", stateOf(pinned(true), served(0)), DoNothing, revisionPinned},
		{"pinned until newer, and a commit", stateOf(head(2), pinned(true), served(0)), DoCompare, ""},
		{"pinned until newer, and a commit that comes after", stateOf(head(2), pinned(true), compared(true)), DoReleasePin, ""},
		{"pinned until newer, and a commit of another history", stateOf(head(2), pinned(true), compared(false), served(0)), DoNothing, revisionPinned},
		{"pinned until newer, and a commit that was rolled back", stateOf(head(2), skipped, pinned(true), served(0)), DoNothing, revisionPinned},
		{"a commit that was rolled back", stateOf(head(2), skipped, served(0)), DoNothing, rolledBack},

		{"frozen", stateOf(head(2), judged(good), frozenFor), DoFreeze, ""},
		{"frozen, and noted", frozenNoted(), DoNothing, headFrozen},
		{"frozen, and its documents are looked at again", frozenNoted(func(s *State) { s.Prepared = nil }), DoPrepare, headFrozen},
		{"frozen, and the fleet changes", frozenNoted(facts), DoJudge, headFrozen},
		{"frozen, and a newer commit", frozenNoted(head(3)), DoJudge, ""},
		{"frozen, and its plan is approved", stateOf(head(2), judged(large), frozenFor, approved("plan")), DoFreeze, ""},
		{"frozen, and let through another freeze", stateOf(head(2), judged(good), frozenFor, overridden, func(s *State) { s.Record.Approved.Override.Until = noon }), DoFreeze, ""},
		{"frozen, and let through", stateOf(head(2), judged(good), frozenFor, overridden), DoEnforce, ""},

		{"waves, and what peels have reported", stateOf(head(2), judged(inWave)), DoMeasure, ""},
		{"waves begin", stateOf(head(2), judged(inWave), measured), DoBeginRollout, ""},
		{"a wave is chosen before a document is written", stateOf(head(2), rolls(0, rollout.Waits, true), judged(good), served(2)), DoStep, ""},
		{"no peel of the wave is online, and peels have another revision", stateOf(head(2), rolls(0, rollout.Waits, false), judged(good), served(2)), DoPublish, headInForce},
		{"a wave has its peels", stateOf(head(2), rolls(1, rollout.Waits, false), judged(good)), DoPrepare, headInForce},
		{"a wave is published", stateOf(head(2), rolls(1, rollout.Waits, true), judged(good), served(1)), DoPublish, headInForce},
		{"a wave soaks", stateOf(head(2), rolls(1, rollout.Soaks, false), judged(good), served(0)), DoNothing, headInForce},
		{"a wave ends", stateOf(head(2), rolls(1, rollout.Passed, true), judged(good), served(0)), DoStep, ""},
		{"a wave fails", stateOf(head(2), rolls(1, rollout.Failed, true), judged(good), served(0)), DoRollBack, ""},
		{"the last wave has passed", stateOf(head(2), rolls(1, rollout.Complete, false), judged(good), served(0)), DoComplete, ""},
		{"a newer commit in waves", stateOf(head(3), rolls(1, rollout.Soaks, false), judged(inWave), measured), DoBeginRollout, ""},
		{"a wave fails, and the fleet changes", stateOf(head(2), rolls(1, rollout.Failed, true), judged(good), served(0), facts), DoRollBack, ""},
		{"a wave fails, and documents of it are not written", stateOf(head(2), rolls(1, rollout.Failed, true), judged(good), served(2)), DoRollBack, ""},
		{"a wave ends, and the fleet changes", stateOf(head(2), rolls(1, rollout.Passed, true), judged(good), served(0), facts), DoStep, ""},
		{"a wave soaks, and the fleet changes", stateOf(head(2), rolls(1, rollout.Soaks, false), judged(good), served(0), facts), DoPrepare, headInForce},
		{"the branch goes back in waves, and new commits are paused", stateOf(rolls(1, rollout.Soaks, false), paused, judged(good), served(0)), DoNothing, updatesPaused},
		{
			"pinned until newer, and the head is that of the pin",
			stateOf(head(2), pinned(true), change(func(r *record.Record) { r.Pinned.Head = rev(2) }), compared(true), served(0)),
			DoNothing, revisionPinned,
		},
		{"pinned until newer, and the head comes back to the pinned commit", stateOf(pinned(true), change(func(r *record.Record) { r.Pinned.Head = rev(3) }), compared(true), served(0)), DoNothing, revisionPinned},
		{"the branch goes back in waves", stateOf(rolls(1, rollout.Soaks, false), judged(good)), DoEnforce, ""},

		{"the record cannot be written", stateOf(head(2), judged(good), failing(writing)), DoNothing, tryAgainLater},
		{"documents cannot be written", stateOf(judged(good), failing(serving)), DoNothing, headInForce},
		{"documents cannot be written, and the fleet changes", stateOf(judged(good), failing(serving), facts), DoPrepare, headInForce},
	} {
		a := Next(c.s)
		if a.Kind != c.kind || (a.IsTask() || c.kind == DoNothing) && a.Reason != c.why {
			t.Errorf("%s: %s, %q; want %s, %q", c.name, a.Kind, a.Reason, c.kind, c.why)
		}
	}
}

// noted has the loop note what decide wants to be noted.
func noted(s *State) *State {
	s2 := *s
	s2.Changes, s2.Source.Attempt = s.Judged.Made.Changes, s.Judged.Attempt
	s.Record = Next(&s2).Next
	return s
}

func frozenNoted(then ...cond) *State {
	s := stateOf(head(2), judged(good), frozenFor)
	s.Record = Next(s).Next
	served(0)(s)
	for _, c := range then {
		c(s)
	}
	return s
}

func overridden(s *State) {
	s.Record.Approved = &record.Approval{Commit: s.Source.Head, Override: &record.Override{Reason: "outage"}}
}

// A world carries out actions as the worker and the bus would. Commits are numbers: 3 is broken, 4 too large, 5 and 6 go
// out in waves, of which those of 6 fail.
type world struct {
	*State
	rand *rand.Rand
}

func (w *world) judgement() Judgement {
	switch w.Source.Head {
	case rev(3):
		return broken
	case rev(4):
		return large
	case rev(5), rev(6):
		return inWave
	}
	return good
}

// apply carries out an action, and reports false if there was nothing to do.
func (w *world) apply(a Action) bool {
	s := w.State
	switch a.Kind {
	case DoNothing:
		return false
	case DoJudge:
		judged(w.judgement())(s)
		if s.Judged.Info = revision(1).Commit; s.Source.Head != "" {
			s.Judged.Info.Hash, _ = gitrepo.ParseHash(string(s.Source.Head))
		}
	case DoCompare:
		s.Compared = Comparison{s.Source.Head, s.Record.Pinned.Commit, w.rand.IntN(2) == 0}
	case DoMeasure:
		s.Measured = &Measurement{Commit: a.Commit}
	case DoPrepare:
		served(w.rand.IntN(3))(s)
		w.observe()
	case DoPublish:
		s.Record = a.Next
		s.Prepared.Lacking = 0
	case DoRepublish:
		s.RepublishAt = s.Now.Add(time.Minute)
	default:
		s.Record, s.Measured = a.Next, nil
		w.observe()
	}
	return true
}

// observe has the peels of the rollout do what is expected of its revision.
func (w *world) observe() {
	r := w.Record.Rollout
	if r == nil {
		w.Step = rollout.Step{}
		return
	}
	fleet, o := peelindex.New(), rollout.Observed{Now: w.Now}
	for i := range 4 {
		id := target.PeelID(fmt.Sprint("web-", i))
		fleet.Put(id, nil)
		p := rollout.Peel{ID: id, Presence: rollout.Online, Applied: r.Has(id)}
		if r.Has(id) && r.Commit == rev(6) {
			p.Run = "run of x failed"
		}
		o.Peels = append(o.Peels, p)
	}
	if o.Fleet = fleet; w.Record.Suspended != nil {
		o.Paused = "paused"
	}
	w.Step = rollout.Next(*r, o)
}

// randomState returns a state as any history of events may leave it.
func randomState(r *rand.Rand) *State {
	any := func(all ...cond) cond { return all[r.IntN(len(all))] }
	same := func(*State) {}
	changes := []cond{any(same, nothing), any(head(1), head(2), head(3), head(4), head(5), head(6)), any(same, served(0), served(2)), any(same, pinned(true), pinned(false))}
	if r.IntN(2) == 0 {
		changes = append(changes, rolls(r.IntN(3), rollout.Waits, false))
	}
	changes = append(changes, any(same, blocked("plan"), blocked("before"), approved("plan"), approved("before")), any(same, paused), any(same, skipped),
		any(same, judged(good), judged(large), judged(broken), judged(inWave)), any(same, measured), any(same, facts), any(same, looked),
		any(same, undone), any(same, failing(judging), failing(serving), failing(writing)), any(same, minute), head(1+r.IntN(6)))
	return stateOf(changes...)
}

// TestEveryStateEndsOnTheHeadOrSaysWhyNot holds that the loop never runs in circles, never waits without a reason, and that
// without orders and with a healthy remote the fleet gets the head unless one of the known reasons holds it.
func TestEveryStateEndsOnTheHeadOrSaysWhyNot(t *testing.T) {
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 0))
		w := &world{randomState(r), r}
		if w.Record.Commit == "" {
			w.Record = record.Record{} // nothing waits for a fleet that never had a revision
		}
		w.observe()
		last, trail := Action{}, []Kind{}
		for idle := 0; idle < 60; {
			last = Next(w.State)
			if !w.apply(last) {
				idle++
				w.Now = w.Now.Add(time.Minute) // more than any soak or pause
				w.observe()
				continue
			}
			if trail = append(trail, last.Kind); len(trail) > 2000 {
				t.Fatalf("seed %d does not end: %v", seed, trail[:60])
			}
		}
		reached := w.Record.Commit == w.Source.Head && w.Record.Rollout == nil && w.Record.Done && w.Prepared.Lacking == 0
		held := map[Reason]bool{revisionPinned: true, rolledBack: true, updatesPaused: true, headRefused: true, headBlocked: true}[last.Reason]
		if w.Record.Rollout != nil {
			held = held || w.Record.Suspended != nil // a rollout that began before a pause waits in its wave
		}
		if !reached && !held {
			t.Fatalf("seed %d ends with %s, %q: %+v after %v", seed, last.Kind, last.Reason, w.Record, trail)
		}
	}
}

// A freeze that holds the revision under way and the newest one: a condition names each.
func TestTwoRevisionsThatAFreezeHolds(t *testing.T) {
	j := inWave
	j.Out.Peels, j.Out.Fleet = []target.PeelID{"web"}, peelindex.New()
	j.Out.Fleet.Put("web", nil)
	s := stateOf(head(3), rolls(1, rollout.Waits, false), judged(j), served(0), change(func(r *record.Record) {
		freeze, err := strictyaml.Parse("zester.yaml", []byte("freeze: [{calendar: '2026-01-01T11:00:00Z/2026-01-01T13:00:00Z'}]"))
		if err != nil {
			t.Fatal(err)
		}
		p, err := policy.ParsePolicy(freeze)
		if err != nil {
			t.Fatal(err)
		}
		r.Freezes = p.Freezes
	}))
	s.Step.Frozen, s.Step.Reason, s.Step.Until = true, "freeze", noon.Add(time.Hour)
	shown := s.Show(false).Sync
	named := map[status.Type]settings.Commit{}
	for _, c := range shown.Conditions {
		if c.Status {
			named[c.Type] = c.ObservedRevision
		}
	}
	if named[status.RolloutProgressing] != rev(2) || named[status.Frozen] != rev(3) || shown.Frozen.Commit != rev(3) {
		t.Errorf("%v, frozen %+v", named, shown.Frozen)
	}
	if all := FrozenOf(s); len(all) != 2 {
		t.Errorf("an override may name %+v", all)
	}
}

// What Show returned is read by others while the loop goes on.
func TestWhatIsShownSharesNoErrorsWithTheState(t *testing.T) {
	messages := []string{"top.yaml:1:1: " + strings.Repeat("broken ", status.MaxMessage)}
	s := stateOf(head(2), judged(Judgement{Refused: &Refused{Kind: status.CompileFailed, Messages: messages}}))
	long := messages[0]
	shown := s.Show(false)
	if len(shown.Sync.Errors) != 1 || len(shown.Sync.Errors[0]) > status.MaxMessage {
		t.Errorf("%d errors", len(shown.Sync.Errors))
	}
	if messages[0] != long {
		t.Error("the state was changed by showing it")
	}
	shown.Sync.Errors[0] = "changed"
	if messages[0] != long {
		t.Error("the state shares its errors with what was shown")
	}
}

// The head was in force when it was judged, a person pinned another revision in whose rules there is a freeze, and unpinned it.
func TestAFreezeHoldsNoRevisionThatIsNotJudgedYet(t *testing.T) {
	s := stateOf(judged(Judgement{}), served(0), func(s *State) {
		s.Record.Commit, s.Record.Freezes = rev(7), []policy.Freeze{{Target: "web-01"}}
	})
	if out := s.Show(false); out.Sync.Frozen != nil || Next(s).Kind != DoJudge {
		t.Errorf("%+v", out.Sync)
	}
}

// What facts took before a person approved what they take counts no more.
func TestAnApprovalOfFactsForgetsWhatTheyTook(t *testing.T) {
	s := stateOf(judged(good), waits("h1", true), served(0))
	s.Record.Facts.Taken = record.NewLosses(map[record.Mark]record.DatedLoss{{}: {Loss: record.Loss{Had: 2, Touched: 1}, Last: noon}})
	if a := Next(s); a.Kind != DoNoteFacts || a.Next.Facts.Waits() || a.Next.Facts.Approved != nil || a.Next.Facts.Taken != nil {
		t.Errorf("%+v", a.Next.Facts)
	}
}

// Later changes of facts are judged, also those that lead to settings that the guard judged with the revision.
func TestWhatTheGuardJudgedEndsWithTheLastDocument(t *testing.T) {
	s := stateOf(judged(good), undone, served(0))
	s.Record.Guarded = &record.Guarded{Settings: record.NewMarks([]record.Mark{record.MarkSettings("web-01", "digest")})}
	if a := Next(s); a.Kind != DoFinish || a.Next.Guarded != nil {
		t.Errorf("%s, guarded %v", a.Kind, a.Next.Guarded)
	}
}

// The documents that are written later have a higher generation than the one that is noted as served.
func TestTheGenerationOfTheLastDocumentIsNoted(t *testing.T) {
	s := stateOf(judged(good), undone, served(0))
	for generation, want := range map[uint64]uint64{0: 1, 7: 7} {
		s.Record.Generation = generation
		if a := Next(s); a.Kind != DoFinish || a.Next.Served != want || !a.Next.Done {
			t.Errorf("generation %d: %s, served %d", generation, a.Kind, a.Next.Served)
		}
	}
}

// Of two that hold a head back the first one is told: a person who ends it sees the second one next.
func TestTheFirstOfTwoReasonsIsTold(t *testing.T) {
	holds := []struct {
		reason Reason
		cond   cond
	}{
		{revisionPinned, pinned(false)}, {branchNotRead, head(0)}, {rolledBack, skipped}, {updatesPaused, paused}, {headRefused, judged(broken)},
	}
	for i, first := range holds {
		for _, second := range holds[i+1:] {
			s := stateOf(head(2), second.cond, first.cond, served(0))
			if second.reason == branchNotRead || first.reason == branchNotRead {
				head(0)(s)
			}
			if a := Next(s); a.Kind != DoNothing || a.Reason != first.reason {
				t.Errorf("%s and %s: %+v", first.reason, second.reason, a)
			}
		}
	}
}
