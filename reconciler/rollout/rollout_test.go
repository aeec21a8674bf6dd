package rollout

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/settings/policy"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
	"github.com/seed-c01c3da5/zester/settings/target/peelindex"
)

var start = time.Date(2026, 6, 1, 9, 0, 0, 0, time.UTC) // a Monday

func safety(t testing.TB, text string) policy.Safety {
	t.Helper()
	doc, err := strictyaml.Parse("zester.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.ParsePolicy(doc)
	if err != nil {
		t.Fatal(err)
	}
	return policy.Safety{Waves: p.Waves, Freezes: p.Freezes}
}

// A scene is a rollout with a fleet whose peels the revision changes.
type scene struct {
	t       testing.TB
	r       record.Rollout
	now     time.Time
	peels   map[target.PeelID]*Peel
	fleet   *peelindex.Index
	freezes []policy.Freeze
	paused  string
	outage  Outage
	lost    map[target.PeelID]time.Time
	last    Step
}

// newScene has n peels p0, p1, … that are online, in the order of waves by order.
func newScene(t testing.TB, policy string, n int) *scene {
	both := safety(t, policy)
	s := &scene{t: t, now: start, peels: map[target.PeelID]*Peel{}, lost: map[target.PeelID]time.Time{}, fleet: peelindex.New(), freezes: both.Freezes}
	s.r = *Begin(record.Record{Safety: both}, "c", record.Sequences{Sequence: 10, Reports: 20}, start).Rollout
	for i := range n {
		s.join(target.PeelID(fmt.Sprintf("p%d", i)))
	}
	return s
}

func (s *scene) join(id target.PeelID) {
	s.peels[id] = &Peel{ID: id, Presence: Online}
	s.fleet.Put(id, target.Facts{})
}

// order returns the peels in the order of waves.
func (s *scene) order() (ids []target.PeelID) {
	for id := range s.peels {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b target.PeelID) int {
		x, y := record.MarkPeel(a), record.MarkPeel(b)
		return bytes.Compare(x[:], y[:])
	})
	return ids
}

// step takes steps until nothing changes.
func (s *scene) step() Step {
	s.t.Helper()
	for range 100 {
		if s.stepOnce(); !s.last.Changed {
			return s.last
		}
	}
	s.t.Fatal("a rollout changes without end")
	return s.last
}

func (s *scene) stepOnce() {
	o := Observed{Now: s.now, Fleet: s.fleet, Freezes: s.freezes, Paused: s.paused}
	online := false
	for _, p := range s.peels {
		online = online || p.Presence == Online
	}
	for _, p := range s.peels {
		switch {
		case p.Presence == Online || !online:
			delete(s.lost, p.ID)
		case p.Presence == Away && s.lost[p.ID].IsZero():
			s.lost[p.ID] = s.now
		}
		if p.Lost = 0; !s.lost[p.ID].IsZero() {
			p.Lost = s.now.Sub(s.lost[p.ID])
		}
		o.Peels = append(o.Peels, *p)
	}
	s.outage.Update(o.Peels, s.now)
	o.Outage = s.outage
	s.last = Next(s.r, o)
	s.r = s.last.Rollout
}

func (s *scene) wait(d time.Duration) { s.now = s.now.Add(d) }

// want checks the state, part of the reason, and the members by their place.
func (s *scene) want(state State, reason string, members ...int) {
	s.t.Helper()
	got := s.step()
	if got.State != state || !strings.Contains(got.Reason, reason) {
		s.t.Fatalf("%s: %q (until %s), want %s: %q", got.State, got.Reason, got.Until, state, reason)
	}
	for i, id := range s.order() {
		if s.r.Has(id) != slices.Contains(members, i) {
			s.t.Fatalf("%s at place %d is a member: %v, want %v", id, i, s.r.Has(id), members)
		}
	}
}

func (s *scene) at(places ...int) (peels []*Peel) {
	ids := s.order()
	for _, i := range places {
		peels = append(peels, s.peels[ids[i]])
	}
	return peels
}

func (s *scene) apply(places ...int) {
	for _, p := range s.at(places...) {
		p.Applied = true
	}
}

func (s *scene) set(presence Presence, places ...int) {
	for _, p := range s.at(places...) {
		p.Presence = presence
	}
}

func TestWavesFollowOneAnother(t *testing.T) {
	s := newScene(t, "waves: [{name: a, peels: 1, soak: 10m}, {name: b, peels: 50%, soak: 5m}]", 4)
	s.want(Waits, "0 of 1 peels have applied the revision", 0)
	s.apply(0)
	s.want(Soaks, "1 of 1", 0)
	if !s.last.Until.Equal(start.Add(10 * time.Minute)) {
		t.Errorf("until %s", s.last.Until)
	}
	s.wait(10*time.Minute - 1)
	s.want(Soaks, "", 0)
	s.wait(1)
	s.want(Waits, "1 of 2", 0, 1)
	s.apply(1)
	s.step()
	s.wait(5 * time.Minute)
	s.want(Complete, "every wave has passed", 0, 1)
}

// A wave without soak passes in the step in which the next one begins.
func TestAWaveKeepsTheNumbersOfItsEnd(t *testing.T) {
	s := newScene(t, "waves: [{name: a, peels: 1}, {name: b, peels: 50%}]", 4)
	s.step()
	seen := status.Attempt{Steps: s.last.Waves(status.Attempt{}, s.now)}
	s.apply(0)
	s.stepOnce()
	seen.Steps = s.last.Waves(seen, s.now)
	if a, b := seen.Steps[0], seen.Steps[1]; a.Passed.IsZero() || a.Peels != 1 || a.Applied != 1 || b.Peels != 2 || b.Applied != 1 {
		t.Errorf("after the first wave: %+v", seen.Steps)
	}
	s.apply(1)
	s.stepOnce()
	seen.Steps = s.last.Waves(seen, s.now)
	if b := seen.Steps[1]; s.last.State != Complete || b.Passed.IsZero() || b.Peels != 2 || b.Applied != 2 {
		t.Errorf("at the end, %s: %+v", s.last.State, seen.Steps)
	}
}

// The attempt keeps the newest approvals.
func TestAGateStaysOpenWhenItsApprovalIsForgotten(t *testing.T) {
	s := newScene(t, "waves: [{name: a, peels: 1, gate: manual}, {name: b, peels: 50%}]", 4)
	s.step()
	seen := status.Attempt{Approvals: []status.Approval{{What: gatePrefix + "a", By: "ada"}}}
	seen = status.Attempt{Steps: s.last.Waves(seen, s.now)}
	if by := s.last.Waves(seen, s.now)[0].ApprovedBy; by != "ada" {
		t.Errorf("the gate was opened by %q", by)
	}
}

func TestAWaveTakesOnlinePeelsInTheirOrder(t *testing.T) {
	s := newScene(t, "waves: [{name: a, peels: 2}]", 5)
	s.set(Away, 0, 2)
	s.want(Waits, "0 of 2", 1, 3)
	s.set(Online, 0, 2)
	s.want(Waits, "0 of 2", 1, 3)
}

// A peel that the revision kills is a failure of its wave, whether it has applied the revision before or not.
func TestAMemberThatGoesAwayHasFailed(t *testing.T) {
	for _, applied := range []bool{false, true} {
		s := newScene(t, "waves: [{name: a, peels: 2, soak: 1h}]", 9)
		s.want(Waits, "0 of 2", 0, 1)
		s.apply(1)
		if applied {
			s.apply(0)
			s.want(Soaks, "2 of 2", 0, 1)
		}
		s.set(Away, 0)
		s.step()
		s.wait(lostLimit - 1)
		if got := s.step(); got.State == Failed || got.Counts.Away != 1 {
			t.Fatalf("applied %v: before its time: %+v", applied, got)
		}
		s.wait(1)
		s.want(Failed, "wave a failed: 1 of 2 peels, 0 may: "+string(s.order()[0])+": it went away", 0, 1)
	}
}

func TestAMemberThatReturnsInTimeIsWaitedFor(t *testing.T) {
	s := newScene(t, "waves: [{name: a, peels: 2}]", 9)
	s.step()
	s.apply(1)
	s.set(Away, 0)
	s.wait(lostLimit - 1)
	s.want(Waits, "1 of 2 peels have applied the revision, 1 went away", 0, 1)
	s.set(Online, 0)
	s.wait(lostLimit)
	s.want(Waits, "1 of 2", 0, 1)
	s.apply(0)
	s.want(Complete, "", 0, 1)
}

// Of many members most die. With some left the wave fails, as it does if the others have applied the revision.
func TestAWaveFailsIfMoreDieThanMayFail(t *testing.T) {
	s := newScene(t, "waves: [{name: a, peels: 5, soak: 1h, max_failures: 3}]", 9)
	s.step()
	s.apply(0)
	s.set(Away, 1, 2, 3)
	s.step()
	s.wait(lostLimit)
	s.want(Waits, "1 of 5", 0, 1, 2, 3, 4)
	s.apply(4)
	s.want(Soaks, "2 of 5", 0, 1, 2, 3, 4) // three may fail
	s.set(Online, 1)                       // and stays failed
	s.set(Away, 4)
	s.step()
	s.wait(lostLimit)
	s.want(Failed, "4 of 5 peels, 3 may", 0, 1, 2, 3, 4)
}

// A soak does not end while its peel is away, dead for too short a time to say so, or not known to be online.
func TestASoakEndsOnlyIfItsPeelsAreThere(t *testing.T) {
	for _, presence := range []Presence{Away, Unknown} {
		s := newScene(t, "waves: [{name: a, peels: 1, soak: 1h, gate: manual}, {name: b, peels: 2}]", 3)
		s.step()
		s.apply(0)
		s.step()
		s.wait(time.Hour)
		s.set(presence, 0)
		s.want(Soaks, "1 of 1 peels with the revision are not online", 0)
		s.set(Online, 0)
		s.want(AtGate, "", 0)
		s.r.Stage.OpenedBy = "ada"
		s.set(presence, 0)
		s.want(Passed, "1 of 1 peels with the revision are not online", 0)
		s.set(Online, 0)
		s.want(Waits, "1 of 2", 0, 1)
	}
}

func TestWhetherAPeelIsOnlineMayBeUnknown(t *testing.T) {
	s := newScene(t, "waves: [{name: a, peels: 2}]", 4)
	s.set(Unknown, 0, 1, 2, 3)
	s.want(Waits, "does not know yet which peels are online")
	s.set(Online, 0, 1, 2, 3)
	s.want(Waits, "0 of 2", 0, 1)
	s.set(Unknown, 0) // a new leader
	s.want(Waits, "0 of 2", 0, 1)
}

func TestAWaveByTargetWaitsForItsPeels(t *testing.T) {
	s := newScene(t, "waves: [{name: a, peels: 'L@p1,p2', deadline: 1h}, {name: b, peels: 50%}]", 4)
	s.peels["p1"].Presence, s.peels["p2"].Presence = Away, Away
	if got := s.step(); got.State != Waits || got.Reason != "none of the 2 peels of wave a is online" || !got.Until.Equal(start.Add(time.Hour)) {
		t.Fatalf("%+v", got)
	}
	s.wait(time.Hour - 1)
	s.peels["p2"].Presence = Online
	if s.step(); !s.r.Has("p2") || s.r.Members.Len() != 1 {
		t.Fatalf("%d members", s.r.Members.Len())
	}
	s.wait(1)
	if got := s.step(); got.State != Failed || !strings.Contains(got.Reason, "past its deadline of 1h0m0s: 0 of 1") {
		t.Fatalf("%+v", got)
	}
}

// However long an outage lasts, the first peel that returns is the canary, and the others wait for it.
func TestAWaveTakesTheFirstPeelsThatReturn(t *testing.T) {
	s := newScene(t, "waves: [{name: a, peels: 1, soak: 1h, deadline: 30m}]", 3)
	s.set(Away, 0, 1, 2)
	s.want(Waits, "none of the 3 peels of wave a is online")
	s.wait(outageLimit)
	s.want(AllAway, "every peel that the revision changes is away")
	s.wait(24 * time.Hour)
	s.want(AllAway, "every peel that the revision changes is away")
	s.set(Online, 2)
	s.want(Waits, "0 of 1", 2)
	if !s.last.Until.Equal(s.now.Add(30 * time.Minute)) {
		t.Errorf("the deadline is %v", s.last.Until)
	}
	s.set(Online, 0, 1)
	s.apply(2)
	s.want(Soaks, "", 2)
}

// An outage during a wave is no verdict about its peels, and does not end its soak. They have some time to return after others.
func TestAnOutageIsNoVerdict(t *testing.T) {
	for _, soaks := range []bool{false, true} {
		s := newScene(t, "waves: [{name: a, peels: 1, soak: 10m, deadline: 30m}]", 4)
		s.step()
		if soaks {
			s.apply(0)
			s.want(Soaks, "", 0)
		}
		s.set(Away, 0, 1, 2, 3)
		s.step()
		s.wait(outageLimit)
		s.want(AllAway, "every peel that the revision changes is away", 0)
		s.wait(time.Hour)
		s.want(AllAway, "every peel that the revision changes is away", 0)
		s.set(Online, 1, 2, 3)
		s.step()
		s.wait(returnLimit - 1)
		s.want(Waits, "1 went away", 0)
		if soaks {
			s.set(Online, 0)
			s.apply(0)
			s.want(Soaks, "1 of 1", 0)
			if !s.last.Until.Equal(s.now.Add(10 * time.Minute)) {
				t.Errorf("the soak ends %v", s.last.Until)
			}
			continue
		}
		s.wait(1)
		s.want(Failed, "it went away after it was given the revision", 0)
	}
}

// A wave whose peels the revision no longer changes takes others before it goes on.
func TestAWaveWithoutItsPeelsChoosesAgain(t *testing.T) {
	s := newScene(t, "waves: [{name: a, peels: 'L@p1,p2', soak: 1h}]", 4)
	s.peels["p2"].Presence = Away
	s.step()
	delete(s.peels, "p1")
	s.fleet.Remove("p1")
	s.want(Waits, "none of the 1 peels of wave a is online")
	s.peels["p2"].Presence = Online
	if s.step(); !s.r.Has("p2") || s.r.Members.Len() != 1 {
		t.Errorf("%d members: %+v", s.r.Members.Len(), s.last)
	}
}

// A wave whose target has none of the peels that change passes at once, and its gate holds.
func TestAWaveOfNobodyHasAGate(t *testing.T) {
	s := newScene(t, "waves: [{name: a, peels: nobody, soak: 1h, gate: manual}, {name: b, peels: 1}]", 2)
	s.want(AtGate, "wave a has passed")
	s.r.Stage.OpenedBy = "ada"
	s.want(Waits, "0 of 1", 0)
}

func TestReasonsForWhichAWaveFails(t *testing.T) {
	for name, c := range map[string]struct {
		do     func(p *Peel)
		failed string
	}{
		"a run":                                 {func(p *Peel) { p.Run = "run 1 of x failed" }, "run 1 of x failed"},
		"a state":                               {func(p *Peel) { p.State = "state nginx failed: no such file" }, "state nginx failed: no such file"},
		"an error":                              {func(p *Peel) { p.Errors, p.Report = []string{"old", "bad"}, 21 }, "bad"},
		"an old error":                          {func(p *Peel) { p.Errors, p.Report = []string{"old"}, 21 }, ""},
		"an error that another one had":         {func(p *Peel) { p.Errors, p.Report = []string{"other"}, 21 }, "other"},
		"the newest report before the rollout":  {func(p *Peel) { p.Errors, p.Report = []string{"bad"}, 20 }, ""},
		"just in time":                          {func(p *Peel) { p.Lacking = applyLimit - 1 }, ""},
		"too late":                              {func(p *Peel) { p.Lacking = applyLimit }, "it has not applied the revision within 5m0s"},
		"it applied the revision after a while": {func(p *Peel) { p.Applied, p.Lacking = true, applyLimit }, ""},
	} {
		s := newScene(t, "waves: [{name: a, peels: 2, soak: 1h}]", 3)
		s.at(0)[0].Errors, s.at(0)[0].Report = []string{"old"}, 5
		s.at(1)[0].Errors, s.at(1)[0].Report = []string{"other"}, 5
		s.step()
		c.do(s.at(0)[0])
		got := s.step()
		if (got.State == Failed) != (c.failed != "") || !strings.HasSuffix(got.Reason, c.failed) {
			t.Errorf("%s: %s: %s", name, got.State, got.Reason)
		}
	}
}

// The time to apply the revision ends when the soak begins: a new leader may not have read the report yet.
func TestLatenessDoesNotCountInASoak(t *testing.T) {
	s := newScene(t, "waves: [{name: a, peels: 1, soak: 1h}]", 2)
	s.step()
	s.apply(0)
	s.want(Soaks, "", 0)
	p := s.at(0)[0]
	p.Applied, p.Lacking = false, applyLimit
	s.want(Soaks, "", 0)
}

func TestAFailedPeelIsNotForgotten(t *testing.T) {
	s := newScene(t, "waves: [{name: a, peels: 2, soak: 1h, max_failures: 1}, {name: b, peels: 3, max_failures: 50%}, {name: c, peels: 4, max_failures: 10%}]", 10)
	s.step()
	s.apply(0, 1)
	s.at(0)[0].Run = "run 1 failed"
	s.want(Soaks, "", 0, 1)
	s.at(0)[0].Run = ""
	s.set(Away, 0)
	s.wait(time.Hour)
	s.want(Waits, "1 of 3", 0, 1, 2)
	if s.last.Counts != (Counts{Peels: 3, Applied: 1, Pending: 1, Failed: 1}) {
		t.Errorf("%+v", s.last.Counts)
	}
	s.apply(2)
	s.want(Failed, "wave c failed: 1 of 4 peels, 0 may: "+string(s.order()[0])+": run 1 failed", 0, 1, 2)
}

// A share of max_failures is of the peels that have the revision once the wave has taken its own.
func TestAWaveMayFailByItsShareOfAllMembers(t *testing.T) {
	s := newScene(t, "waves: [{name: a, peels: 2, max_failures: 1}, {name: b, peels: 4, max_failures: 25%}]", 8)
	s.step()
	s.apply(0)
	s.at(1)[0].Run = "run 1 failed"
	s.want(Waits, "1 of 4", 0, 1, 2, 3)
}

// A member that the revision no longer changes is not replaced while the rollout is held.
func TestAPauseHoldsTheReplacementOfAMember(t *testing.T) {
	s := newScene(t, "waves: [{name: a, peels: 2, soak: 1h}]", 3)
	s.step()
	delete(s.peels, s.order()[0])
	s.paused = "paused by ada"
	s.want(Waits, "0 of 1", 0)
	s.paused = ""
	s.want(Waits, "0 of 2", 0, 1)
}

func TestManyFailuresAreCountedAndSomeNamed(t *testing.T) {
	s := newScene(t, "waves: [{name: a, peels: 100, max_failures: 9}]", 20)
	s.step()
	for _, p := range s.peels {
		p.Run = strings.Repeat("x", 1000)
	}
	got := s.step()
	if got.State != Failed || !strings.Contains(got.Reason, "20 of 20 peels, 9 may: ") || !strings.HasSuffix(got.Reason, "and 15 more") || len(got.Reason) > 1100 {
		t.Errorf("%s %d: %s", got.State, len(got.Reason), got.Reason)
	}
}

// Members have the revision already, so that a freeze of them alone holds no wave.
func TestAFreezeOfMembersHoldsNoNewPeels(t *testing.T) {
	const waves = "waves: [{name: a, peels: 1}, {name: b, peels: 2}]\nfreeze: [{calendar: mon, only_between: 08:00-10:00, targets: 'L@%s'}]"
	order := newScene(t, fmt.Sprintf(waves, "p0"), 4).order()
	for member, want := range []string{"1 of 2", "freeze"} {
		s := newScene(t, fmt.Sprintf(waves, order[member]), 4)
		s.wait(time.Hour)
		s.want(Waits, "0 of 1", 0)
		s.apply(0)
		s.now = start
		if member == 0 {
			s.want(Waits, want, 0, 1)
		} else {
			s.want(Passed, want, 0)
		}
	}
}

func TestPauseAndFreezeHoldNewPeels(t *testing.T) {
	s := newScene(t, "waves: [{name: a, peels: 1, deadline: 30m}, {name: b, peels: 2}]\nfreeze: [{calendar: mon, only_between: 08:00-10:00, targets: 'p*'}]", 4)
	s.want(Waits, "freeze (mon, between 08:00-10:00 UTC, of p*) holds the revision")
	if !s.last.Frozen || !s.last.Until.Equal(start.Add(time.Hour)) {
		t.Errorf("%+v", s.last)
	}
	s.wait(time.Hour)
	s.paused = "paused by ada"
	s.want(Waits, "paused by ada")
	s.wait(time.Hour) // its deadline has not begun
	s.paused = ""
	s.want(Waits, "0 of 1", 0)
	s.paused = "paused by ada"
	s.apply(0)
	s.want(Passed, "paused by ada", 0)
	s.paused = ""
	s.want(Waits, "1 of 2", 0, 1)
	s.apply(1)
	s.now = start
	s.want(Passed, "freeze", 0, 1) // the peels that no wave reached
	s.r.Override = &record.Override{Reason: "urgent", Until: s.now.Add(time.Minute)}
	s.paused = "paused by ada"
	s.want(Passed, "paused by ada", 0, 1) // an override is for freezes alone
	s.paused = ""
	s.wait(time.Minute)
	s.want(Passed, "freeze", 0, 1) // it has ended
	s.r.Override = &record.Override{Reason: "urgent", Until: s.now.Add(time.Minute)}
	s.want(Complete, "", 0, 1)
}

// TestADeadlineWaitsForTheEndOfAFreeze: a wave that has not taken its peels when a freeze begins has all of its time after it.
func TestADeadlineWaitsForTheEndOfAFreeze(t *testing.T) {
	s := newScene(t, "waves: [{name: a, peels: 'L@p1', deadline: 40m}]\nfreeze: [{only_between: 09:30-10:00}]", 3)
	s.peels["p1"].Presence = Away
	s.want(Waits, "none of the 1 peels")
	s.wait(30 * time.Minute)
	s.want(Waits, "holds the revision")
	s.wait(30 * time.Minute)
	s.want(Waits, "none of the 1 peels")
	s.wait(39 * time.Minute)
	s.want(Waits, "none of the 1 peels")
	s.wait(time.Minute)
	s.want(Failed, "past its deadline")
}

// TestASoakLastsOverAChangeOfTheLeader: a new leader has not read the reports of the members yet.
func TestASoakLastsOverAChangeOfTheLeader(t *testing.T) {
	s := newScene(t, "waves: [{name: a, peels: 1, soak: 1h}]", 3)
	s.step()
	s.apply(0)
	s.want(Soaks, "", 0)
	s.at(0)[0].Applied = false
	s.set(Unknown, 0, 1, 2)
	s.want(Soaks, "", 0)
	s.wait(time.Hour)
	s.want(Soaks, "not online", 0)
	s.set(Online, 0)
	s.want(Complete, "", 0)
}

func TestPeelsThatTheRevisionNoLongerChangesAreNoMembers(t *testing.T) {
	s := newScene(t, "waves: [{name: a, peels: 2, soak: 1h}]", 3)
	s.step()
	gone := s.order()[0]
	delete(s.peels, gone)
	s.want(Waits, "0 of 2", 0, 1) // the next one has its place
	s.join(gone)
	s.want(Waits, "0 of 2", 1, 2)
	clear(s.peels)
	s.want(Complete, "the revision changes no peel")
}

func TestOrdersThatDoNotFit(t *testing.T) {
	s := newScene(t, "waves: [{name: a, peels: 1, gate: manual}, {name: b, peels: 2}]", 3)
	begins := s.r
	s.step()
	waits := s.r
	s.apply(0)
	s.want(AtGate, "", 0)
	gate := s.r
	opened := gate
	opened.Stage.OpenedBy = "eve"
	auto := gate
	auto.Stage = record.Stage{Wave: 1, Phase: record.Passed}
	for _, c := range []struct {
		r            *record.Rollout
		wave, reason string
		want         string
	}{
		{nil, "a", "", "no revision goes out in waves"},
		{&begins, "a", "", "it has not passed"},
		{&waits, "a", "", "it has not passed"},
		{&gate, "b", "", "wave a is under way"},
		{&opened, "a", "", "eve has approved it"},
		{&auto, "b", "", "it has no manual gate"},
		{&gate, "a", "a\tb", "write one line"},
		{&gate, "a", "\xff", "write one line"},
		{&gate, "a", strings.Repeat("x", 301), "301 bytes"},
		{&gate, "%s", "", `wave "%s"`},
		{&gate, "a", strings.Repeat("x", 300), ""},
	} {
		r, err := OpenGate(record.Record{Rollout: c.r}, c.wave, status.Approval{By: "ada", Reason: c.reason, Time: start})
		refused, _ := errors.AsType[*record.Refusal](err)
		if c.want == "" && (err != nil || r.Rollout.Stage.OpenedBy != "ada" || c.r.Stage.OpenedBy != "") || c.want != "" && (refused == nil || !strings.Contains(refused.Reason, c.want)) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestAnOverrideIsForOneRevision(t *testing.T) {
	const frozen = "aaaaaaaabbbb"
	history := []status.Attempt{{Commit: frozen, Outcome: status.OutcomeBlocked}}
	before := record.Record{History: history, Approved: &record.Approval{Commit: frozen, Hash: "h", By: "eve"}}
	held := []Frozen{{Commit: "cccccccc"}, {Commit: frozen, Until: start.Add(time.Hour)}}
	r, err := OverrideFreeze(before, held, "aaaaaaaa", status.Approval{By: "ada", Reason: "outage", Time: start})
	if err != nil || *r.Approved.Override != (record.Override{Reason: "outage", Until: start.Add(time.Hour)}) || r.Approved.Hash != "h" || r.Approved.By != "ada" || len(r.History[0].Approvals) != 1 || before.Approved.Override != nil {
		t.Fatalf("%+v, %v", r, err)
	}
	waves := safety(t, "waves: [{name: a, peels: 1}]")
	r.Safety = waves
	if begun := Begin(r, frozen, record.Sequences{}, start); begun.Rollout.Override.Reason != "outage" || begun.Approved != nil {
		t.Errorf("%+v", begun)
	}
	if other := Begin(r, "other", record.Sequences{}, start); other.Rollout.Override != nil || other.Approved != nil {
		t.Errorf("%+v", other)
	}
	way := record.Record{Rollout: &record.Rollout{Commit: frozen, Waves: waves.Waves}}
	if r, err = OverrideFreeze(way, held, frozen, status.Approval{By: "ada", Reason: "outage", Time: start}); err != nil || r.Rollout.Override.Reason != "outage" || r.Approved != nil || way.Rollout.Override != nil {
		t.Errorf("%+v, %v", r, err)
	}
	for _, c := range []struct{ frozen, digits, reason, want string }{
		{"", "aaaaaaaa", "x", "no freeze holds"},
		{frozen, "aaaaaaa", "x", "8 digits"},
		{frozen, "bbbbbbbb", "x", "the freeze holds cccccccc and aaaaaaaa"},
		{frozen, "%s%s%s%s", "x", `"%s%s%s%s"`},
		{frozen, "aaaaaaaa", " ", "give a reason"},
		{frozen, "aaaaaaaa", "a\nb", "one line"},
	} {
		_, err := OverrideFreeze(before, nil, c.digits, status.Approval{By: "ada", Reason: c.reason, Time: start})
		if c.frozen != "" {
			_, err = OverrideFreeze(before, held, c.digits, status.Approval{By: "ada", Reason: c.reason, Time: start})
		}
		if refused, ok := errors.AsType[*record.Refusal](err); !ok || !strings.Contains(refused.Reason, c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestAFreezeIsForTheRevisionsOfItsPeels(t *testing.T) {
	fleet := peelindex.New()
	fleet.Put("web-1", target.Facts{})
	fleet.Put("db-1", target.Facts{})
	both := safety(t, "freeze: [{calendar: mon, targets: 'db-*'}, {calendar: tue}]")
	for _, c := range []struct {
		peels []target.PeelID
		days  int
		until string
	}{
		{[]target.PeelID{"web-1"}, 0, ""},
		{[]target.PeelID{"web-1", "db-1"}, 0, "2026-06-03T00:00:00Z"},
		{[]target.PeelID{"web-1"}, 1, "2026-06-03T00:00:00Z"},
		{[]target.PeelID{"db-1"}, 2, ""},
		{nil, 1, ""},
	} {
		h, held := HoldOf(both.Freezes, c.peels, fleet, start.AddDate(0, 0, c.days))
		if held != (c.until != "") || held && h.Until.Format(time.RFC3339) != c.until {
			t.Errorf("%+v: %+v, %v", c, h, held)
		}
	}
}

// A freeze whose target this version cannot read holds every revision.
func TestAFreezeThatCannotBeReadHoldsAll(t *testing.T) {
	fleet := peelindex.New()
	fleet.Put("web-1", target.Facts{})
	freezes := safety(t, "freeze: [{calendar: mon}]").Freezes
	freezes[0].Target = "X@(unknown"
	if h, held := HoldOf(freezes, []target.PeelID{"web-1"}, fleet, start); !held {
		t.Errorf("%+v", h)
	}
}

// TestAnyFleetLeadsToAnEnd has peels come, go, fail and apply in any order. No more peels have the revision than the waves
// allowed when they took them, a failed peel counts until the end, and each step has a state and a reason.
func TestAnyFleetLeadsToAnEnd(t *testing.T) {
	ends := map[State]int{}
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		s := newScene(t, randomPolicy(r), 1+r.IntN(12))
		failed := map[target.PeelID]bool{}
		most := 0
		for range 400 {
			s.event(r)
			before := s.r
			got := s.step()
			if s.r.Stage.Size != before.Stage.Size || s.r.Stage.Wave != before.Stage.Wave {
				online := 0
				for _, p := range s.peels {
					if p.Presence == Online {
						online++
					}
				}
				for _, w := range s.r.Waves[before.Stage.Wave : s.r.Stage.Wave+1] {
					most = max(most, w.Peels.Of(online))
				}
			}
			if s.r.Members.Len() > most {
				t.Fatalf("seed %d: %d members, %d may be", seed, s.r.Members.Len(), most)
			}
			if got.Reason == "" || !slices.Contains([]State{Waits, AllAway, Soaks, AtGate, Passed, Failed, Complete}, got.State) {
				t.Fatalf("seed %d: %+v", seed, got)
			}
			for id := range failed {
				if !s.r.Failed.Has(record.MarkPeel(id)) {
					t.Fatalf("seed %d: the failure of %s is forgotten", seed, id)
				}
			}
			for id, p := range s.peels {
				if s.r.Has(id) && p.Run != "" {
					failed[id] = true
				}
			}
			if got.State == AtGate && r.IntN(3) == 0 {
				opened, err := OpenGate(record.Record{Rollout: &s.r}, s.r.Wave().Name, status.Approval{By: "ada", Time: s.now})
				if err != nil {
					t.Fatal(err)
				}
				s.r = *opened.Rollout
			}
			if got.State == Complete || got.State == Failed {
				break
			}
		}
		ends[s.last.State]++
		if s.last.State == Complete && s.r.Failed.Len() > s.r.Waves[len(s.r.Waves)-1].MaxFailures.Within(s.r.Stage.Size) && len(s.peels) > 0 {
			t.Fatalf("seed %d: complete with %d failures", seed, s.r.Failed.Len())
		}
	}
	if ends[Complete] < 50 || ends[Failed] < 50 {
		t.Errorf("ends are %v", ends)
	}
}

func randomPolicy(r *rand.Rand) string {
	var waves []string
	for i := range 1 + r.IntN(3) {
		w := fmt.Sprintf("{name: w%d, peels: %s, soak: %dm", i, []string{"1", "2", "30%", "60%", "'p[0-4]'", "'p9*'"}[r.IntN(6)], r.IntN(20))
		w += fmt.Sprintf(", max_failures: %s", []string{"0", "1", "30%"}[r.IntN(3)])
		if r.IntN(3) == 0 {
			w += ", gate: manual"
		}
		if r.IntN(3) == 0 {
			w += ", deadline: 20m"
		}
		waves = append(waves, w+"}")
	}
	policy := "waves: [" + strings.Join(waves, ", ") + "]"
	if r.IntN(3) == 0 {
		policy += "\nfreeze: [{only_between: 10:00-11:00, targets: 'p[0-7]'}]"
	}
	return policy
}

// event changes something.
func (s *scene) event(r *rand.Rand) {
	s.wait(time.Duration(r.IntN(120)) * time.Second)
	ids := s.order()
	if len(ids) == 0 {
		s.join(target.PeelID(fmt.Sprintf("p%d", r.IntN(20))))
		return
	}
	p := s.peels[ids[r.IntN(len(ids))]]
	switch r.IntN(12) {
	case 0:
		p.Presence = Away
	case 1:
		p.Presence = Unknown
	case 2, 3, 4:
		p.Presence = Online
	case 5, 6, 7, 8:
		p.Applied = p.Applied || s.r.Has(p.ID)
	case 9:
		if r.IntN(4) == 0 {
			p.Run = "it failed"
		}
	case 10:
		if id := target.PeelID(fmt.Sprintf("p%d", r.IntN(20))); s.peels[id] == nil {
			s.join(id)
		}
	case 11:
		if r.IntN(4) == 0 {
			delete(s.peels, p.ID)
			s.fleet.Remove(p.ID)
		}
	}
}

// TestALargeWaveIsChosenAndFailsInOneStep: the work follows the number of peels.
func TestALargeWaveIsChosenAndFailsInOneStep(t *testing.T) {
	s := newScene(t, "waves: [{name: a, peels: 100%, max_failures: 100%}]", 10_000)
	for _, p := range s.peels {
		p.Errors, p.Report = []string{"old", "older"}, 21
	}
	s.step()
	if s.r.Members.Len() != 10_000 || s.r.Known.Len() != maxKnown {
		t.Fatalf("%d members, %d errors", s.r.Members.Len(), s.r.Known.Len())
	}
	for _, p := range s.peels {
		p.Run = "failed"
	}
	if s.step(); s.r.Failed.Len() != 10_000 || len(s.r.Failures) != maxFailures {
		t.Errorf("%d have failed", s.r.Failed.Len())
	}
}

func BenchmarkNext(b *testing.B) {
	s := newScene(b, "waves: [{name: a, peels: 50%}]", 10_000)
	s.step()
	o := Observed{Now: s.now, Fleet: s.fleet}
	for _, p := range s.peels {
		o.Peels = append(o.Peels, *p)
	}
	b.ReportAllocs()
	for b.Loop() {
		Next(s.r, o)
	}
}
