package reconciler

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/archive"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/reconciler/rollout"
	"github.com/seed-c01c3da5/zester/reconciler/status"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/target"
	"github.com/seed-c01c3da5/zester/settings/top"
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
type cond func(*state)

// stateOf returns the state of a term that has read the branch at commit 1, which is in force and served, with changes.
func stateOf(changes ...cond) *state {
	s := &state{now: noon, session: session{owner: "m1", yieldAt: noon.Add(yieldAfter)}, republishAt: noon.Add(time.Minute), changes: 1}
	s.record.Commit, s.record.Done, s.record.Generation = rev(1), true, 1
	s.source = branch{attempt: 1, head: rev(1)}
	for _, change := range changes {
		change(s)
	}
	return s
}

func head(n int) cond { return func(s *state) { s.source.head = rev(n) } }

// judged has the head judged for the fleet as it is.
func judged(j judgement) cond {
	return func(s *state) {
		j.commit, j.info, j.made, j.arrived, j.attempt = s.source.head, revision(0).Commit, s.basis(), s.basis(), s.source.attempt
		s.judged = &j
	}
}

var (
	good   = judgement{guard: record.Judgement{Hash: "plan"}}
	large  = judgement{guard: record.Judgement{Hash: "plan", Exceeded: "too much"}}
	broken = judgement{refused: &refused{kind: status.CompileFailed, messages: []string{"top.yaml:1:1: broken"}}}
	forged = judgement{refused: &refused{kind: status.SourceVerified, messages: []string{"no signature"}}}
	inWave = judgement{guard: record.Judgement{Hash: "plan"}, out: outgoing{base: true, both: top.Safety{Waves: []top.Wave{{Name: "canary"}}}}}
)

// served has the worker prepare what the record says, with documents that the bucket lacks.
func served(lacking int) cond {
	return func(s *state) {
		c := compiled{revision(1), &plan.Plan{}, s.changes}
		s.prepared = &prepared{goal: goalOf(&s.record), changes: s.changes, lacking: lacking, base: c, next: compiled{revision(2), &plan.Plan{}, s.changes}}
	}
}

func change(f func(r *record.Record)) cond { return func(s *state) { f(&s.record) } }

func pinned(untilNewer bool) cond {
	return change(func(r *record.Record) { r.Pinned = &record.Pin{Commit: rev(1), Head: rev(1), UntilNewer: untilNewer} })
}

func blocked(hash string) cond {
	return func(s *state) {
		s.record.Blocked = &record.Blocked{Commit: s.source.head, Hash: hash, Reason: "too much"}
	}
}

func approved(hash string) cond {
	return func(s *state) { s.record.Approved = &record.Approval{Commit: s.source.head, Hash: hash} }
}

func compared(descends bool) cond {
	return func(s *state) { s.compared = comparison{s.source.head, rev(1), descends} }
}

func rolls(members int, is rollout.State, changed bool) cond {
	return func(s *state) {
		s.record.Rollout = &record.Rollout{Commit: rev(2), Waves: []top.Wave{{Name: "canary"}}}
		for i := range members {
			s.record.Rollout.Members = s.record.Rollout.Members.With(record.MarkPeel(target.PeelID(fmt.Sprint(i))))
		}
		s.step = rollout.Step{Rollout: *s.record.Rollout, State: is, Changed: changed}
	}
}

func paused(s *state)   { s.record.Suspended = &record.Approval{By: "ann"} }
func skipped(s *state)  { s.record.Skipped = []record.Skipped{{Commit: s.source.head}} }
func undone(s *state)   { s.record.Done = false }
func facts(s *state)    { s.changes++ }
func looked(s *state)   { s.source.attempt++ }
func measured(s *state) { s.measured = &measurement{commit: s.source.head} }
func minute(s *state)   { s.now = s.republishAt }
func nothing(s *state)  { s.record = record.Record{} }
func other(s *state)    { s.record.Source = record.Source{Repo: "/another"} }

// during has the judgement made before a change of the fleet that came before it arrived.
func during(s *state) { s.judged.made.changes-- }

func failing(of func(*failures) *failure) cond {
	return func(s *state) {
		*of(&s.failed) = failure{err: errors.New("no disk"), cause: s.cause(), until: s.now.Add(time.Second)}
	}
}

func judging(f *failures) *failure { return &f.judge }
func serving(f *failures) *failure { return &f.serve }
func writing(f *failures) *failure { return &f.write }

// frozenFor has a freeze hold the revision that was judged.
func frozenFor(s *state) {
	fleet := target.NewIndex()
	fleet.Put("web-01", nil)
	s.judged.out = outgoing{peels: []target.PeelID{"web-01"}, fleet: fleet, both: top.Safety{Freezes: []top.Freeze{{}}}}
}

// TestDecide has one line for each state and event.
func TestDecide(t *testing.T) {
	for _, c := range []struct {
		name string
		s    *state
		kind kind
		why  reason
	}{
		{"a new fleet, before the branch is read", stateOf(nothing, head(0)), doNothing, branchNotRead},
		{"a new fleet", stateOf(nothing), doJudge, ""},
		{"the first revision goes to all", stateOf(nothing, judged(inWave)), doEnforce, ""},
		{"another repo", stateOf(other, head(2)), doNothing, otherSource},
		{"another repo for as long as it may be offered", stateOf(other, func(s *state) { s.now = s.yieldAt }), doYield, otherSource},
		{"an old record names no source", stateOf(func(s *state) { s.own.Repo, s.record.Time = "h/a", noon }), doClaim, ""},
		{"a term begins", stateOf(), doJudge, ""},
		{"the head is in force, and its documents are looked at", stateOf(judged(good)), doPrepare, ""},
		{"all is done", stateOf(judged(good), served(0)), doNothing, headInForce},
		{"the bucket lacks documents", stateOf(judged(good), served(3)), doPublish, ""},
		{"the last document is written", stateOf(judged(good), undone, served(0)), doFinish, ""},
		{"the fleet changes", stateOf(judged(good), served(0), facts), doPrepare, ""},
		{"the fleet changes before documents are written", stateOf(judged(good), served(3), facts), doPublish, ""},
		{"a minute has passed", stateOf(judged(good), served(0), minute), doRepublish, ""},

		{"a commit", stateOf(head(2), served(0)), doJudge, ""},
		{"a good commit", stateOf(head(2), served(0), judged(good)), doEnforce, ""},
		{"a good commit, and the fleet changed meanwhile", stateOf(head(2), served(0), facts, judged(good), during), doEnforce, ""},
		{"a good commit, and the fleet changed since", stateOf(head(2), served(0), judged(good), facts), doJudge, ""},
		{"a commit while the network is away", stateOf(head(2), judged(good), looked), doEnforce, ""},
		{"a broken commit", stateOf(head(2), judged(broken)), doRefuse, ""},
		{"a broken commit that was noted", noted(stateOf(head(2), judged(broken), served(0))), doNothing, headRefused},
		{"a broken commit, and the fleet changes", noted(stateOf(head(2), judged(broken), served(0), facts)), doJudge, ""},
		{"a broken commit, and another look", noted(stateOf(head(2), judged(broken), served(0), looked)), doNothing, headRefused},
		{"an unsigned commit, and another look", noted(stateOf(head(2), judged(forged), served(0), looked)), doJudge, ""},
		{"a commit cannot be read", stateOf(head(2), served(0), failing(judging)), doNothing, tryAgainLater},
		{"a commit cannot be read, and the fleet changed", stateOf(head(2), facts, failing(judging)), doPrepare, tryAgainLater},
		{"a newer commit after one that cannot be read", stateOf(failing(judging), head(2)), doJudge, ""},

		{"a large commit", stateOf(head(2), judged(large)), doBlock, ""},
		{"it waits", stateOf(head(2), judged(large), blocked("plan"), served(0)), doNothing, headBlocked},
		{"it waits, and the fleet changes", stateOf(head(2), judged(large), blocked("plan"), served(0), facts), doJudge, ""},
		{"it waits, and its plan has changed", stateOf(head(2), judged(large), blocked("before")), doBlock, ""},
		{"it waits, and is within the limits now", stateOf(head(2), judged(good), blocked("plan"), served(0)), doNothing, headBlocked},
		{"it is approved", stateOf(head(2), judged(large), approved("plan")), doEnforce, ""},
		{"it is approved, and the fleet changed", stateOf(head(2), judged(large), approved("plan"), facts), doJudge, ""},
		{"it is approved, and the fleet changed while it was judged", stateOf(head(2), facts, judged(large), during, approved("plan")), doJudge, ""},
		{"another plan is approved", stateOf(head(2), judged(large), approved("before")), doBlock, ""},
		{"the head moves under what waits", stateOf(head(2), judged(large), blocked("plan"), head(3)), doEndApproval, ""},
		{"the head moves under an approval", stateOf(head(2), judged(large), approved("plan"), head(3)), doEndApproval, ""},
		{"the head moves back under an approval", stateOf(head(2), judged(large), approved("plan"), head(1)), doEndApproval, ""},

		{"paused", stateOf(head(2), paused, served(0)), doNothing, updatesPaused},
		{"paused, and the fleet changes", stateOf(head(2), paused, served(0), facts), doPrepare, updatesPaused},
		{"paused, and half published", stateOf(paused, judged(good), undone, served(3)), doPublish, ""},
		{"paused, and what waits is approved", stateOf(head(2), judged(large), paused, approved("plan"), served(0)), doNothing, updatesPaused},
		{"paused, and the plan that waits changes", stateOf(head(2), judged(large), paused, blocked("plan"), served(0), facts), doJudge, ""},

		{"pinned", stateOf(head(2), pinned(false), served(0)), doNothing, revisionPinned},
		{"pinned, and half published", stateOf(head(2), pinned(false), undone, served(3)), doPublish, ""},
		{"pinned until newer, at the head", stateOf(pinned(true), served(0)), doNothing, revisionPinned},
		{"pinned until newer, and a commit", stateOf(head(2), pinned(true), served(0)), doCompare, ""},
		{"pinned until newer, and a commit that comes after", stateOf(head(2), pinned(true), compared(true)), doReleasePin, ""},
		{"pinned until newer, and a commit of another history", stateOf(head(2), pinned(true), compared(false), served(0)), doNothing, revisionPinned},
		{"pinned until newer, and a commit that was rolled back", stateOf(head(2), skipped, pinned(true), served(0)), doNothing, revisionPinned},
		{"a commit that was rolled back", stateOf(head(2), skipped, served(0)), doNothing, rolledBack},

		{"frozen", stateOf(head(2), judged(good), frozenFor), doFreeze, ""},
		{"frozen, and noted", frozenNoted(), doNothing, headFrozen},
		{"frozen, and let through", stateOf(head(2), judged(good), frozenFor, overridden), doEnforce, ""},

		{"waves, and what peels have reported", stateOf(head(2), judged(inWave)), doMeasure, ""},
		{"waves begin", stateOf(head(2), judged(inWave), measured), doBeginRollout, ""},
		{"a wave is chosen before a document is written", stateOf(head(2), rolls(0, rollout.Waits, true), judged(good), served(2)), doStep, ""},
		{"no peel of the wave is online, and peels have another revision", stateOf(head(2), rolls(0, rollout.Waits, false), judged(good), served(2)), doPublish, ""},
		{"a wave has its peels", stateOf(head(2), rolls(1, rollout.Waits, false), judged(good)), doPrepare, ""},
		{"a wave is published", stateOf(head(2), rolls(1, rollout.Waits, true), judged(good), served(1)), doPublish, ""},
		{"a wave soaks", stateOf(head(2), rolls(1, rollout.Soaks, false), judged(good), served(0)), doNothing, headInForce},
		{"a wave ends", stateOf(head(2), rolls(1, rollout.Passed, true), judged(good), served(0)), doStep, ""},
		{"a wave fails", stateOf(head(2), rolls(1, rollout.Failed, true), judged(good), served(0)), doRollBack, ""},
		{"the last wave has passed", stateOf(head(2), rolls(1, rollout.Complete, false), judged(good), served(0)), doComplete, ""},
		{"a newer commit in waves", stateOf(head(3), rolls(1, rollout.Soaks, false), judged(inWave), measured), doBeginRollout, ""},
		{"the branch goes back in waves", stateOf(rolls(1, rollout.Soaks, false), judged(good)), doEnforce, ""},

		{"the record cannot be written", stateOf(head(2), judged(good), failing(writing)), doNothing, tryAgainLater},
		{"documents cannot be written", stateOf(judged(good), failing(serving)), doNothing, headInForce},
		{"documents cannot be written, and the fleet changes", stateOf(judged(good), failing(serving), facts), doPrepare, ""},
	} {
		a := decide(c.s)
		if a.kind != c.kind || c.kind == doNothing && a.reason != c.why {
			t.Errorf("%s: %s, %q; want %s, %q", c.name, a.kind, a.reason, c.kind, c.why)
		}
	}
}

// noted has the loop note what decide wants to be noted.
func noted(s *state) *state {
	s2 := *s
	s2.changes, s2.source.attempt = s.judged.made.changes, s.judged.attempt
	s.record = decide(&s2).next
	return s
}

func frozenNoted() *state {
	s := stateOf(head(2), judged(good), frozenFor)
	s.record = decide(s).next
	served(0)(s)
	return s
}

func overridden(s *state) {
	s.record.Approved = &record.Approval{Commit: s.source.head, Override: "outage"}
}

// A world carries out actions as the worker and the bus would. Commits are numbers: 3 is broken, 4 too large, 5 and 6 go
// out in waves, of which those of 6 fail.
type world struct {
	*state
	rand *rand.Rand
}

func (w *world) judgement() judgement {
	switch w.source.head {
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
func (w *world) apply(a action) bool {
	s := w.state
	switch a.kind {
	case doNothing:
		return false
	case doJudge:
		judged(w.judgement())(s)
		if s.judged.info = revision(1).Commit; s.source.head != "" {
			s.judged.info.Hash, _ = gitrepo.ParseHash(string(s.source.head))
		}
	case doCompare:
		s.compared = comparison{s.source.head, s.record.Pinned.Commit, w.rand.IntN(2) == 0}
	case doMeasure:
		s.measured = &measurement{commit: a.commit}
	case doPrepare:
		served(w.rand.IntN(3))(s)
		w.observe()
	case doPublish:
		s.record = a.next
		s.prepared.lacking = 0
	case doRepublish:
		s.republishAt = s.now.Add(time.Minute)
	default:
		s.record, s.measured = a.next, nil
		w.observe()
	}
	return true
}

// observe has the peels of the rollout do what is expected of its revision.
func (w *world) observe() {
	r := w.record.Rollout
	if r == nil {
		w.step = rollout.Step{}
		return
	}
	fleet, o := target.NewIndex(), rollout.Observed{Now: w.now}
	for i := range 4 {
		id := target.PeelID(fmt.Sprint("web-", i))
		fleet.Put(id, nil)
		p := rollout.Peel{ID: id, Presence: rollout.Online, Seen: w.now, Applied: r.Has(id)}
		if r.Has(id) && r.Commit == rev(6) {
			p.Run = "run of x failed"
		}
		o.Peels = append(o.Peels, p)
	}
	if o.Fleet = fleet; w.record.Suspended != nil {
		o.Paused = "paused"
	}
	w.step = rollout.Next(*r, o)
}

// randomState returns a state as any history of events may leave it.
func randomState(r *rand.Rand) *state {
	any := func(all ...cond) cond { return all[r.IntN(len(all))] }
	same := func(*state) {}
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
		if w.record.Commit == "" {
			w.record = record.Record{} // nothing waits for a fleet that never had a revision
		}
		w.observe()
		last, trail := action{}, []kind{}
		for idle := 0; idle < 60; {
			last = decide(w.state)
			if !w.apply(last) {
				idle++
				w.now = w.now.Add(time.Minute) // more than any soak or pause
				w.observe()
				continue
			}
			if trail = append(trail, last.kind); len(trail) > 2000 {
				t.Fatalf("seed %d does not end: %v", seed, trail[:60])
			}
		}
		reached := w.record.Commit == w.source.head && w.record.Rollout == nil && w.record.Done && w.prepared.lacking == 0
		held := map[reason]bool{revisionPinned: true, rolledBack: true, updatesPaused: true, headRefused: true, headBlocked: true}[last.reason]
		if w.record.Rollout != nil {
			held = held || w.record.Suspended != nil // a rollout that began before a pause waits in its wave
		}
		if !reached && !held {
			t.Fatalf("seed %d ends with %s, %q: %+v after %v", seed, last.kind, last.reason, w.record, trail)
		}
	}
}
