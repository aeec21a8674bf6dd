package decide

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/reconciler/rollout"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/policy"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// isolating has mistakes of the revision in force hold peels back.
func isolating(peels ...target.PeelID) cond {
	return func(s *State) {
		served(0)(s)
		p := &plan.Plan{Mistakes: &plan.Error{Errors: []strictyaml.Error{{Pos: strictyaml.Pos{File: "a.yaml", Line: 3, Column: 1}, Msg: "broken"}}}}
		p.Behind = map[target.PeelID]strictyaml.Error{}
		for _, id := range peels {
			p.Behind[id] = strictyaml.Error{}
		}
		s.Prepared.Base.Plan = p
	}
}

func unread(reason gitrepo.Reason) cond {
	return func(s *State) { s.Source.Err = &gitrepo.Error{Reason: reason, Subject: "repo", Msg: "why"} }
}

func failed(of func(*Failures) *Failure, err error) cond {
	return func(s *State) { of(&s.Failed).Err = err }
}

// TestConditions has the conditions with a reason for each state: type, status, reason, the last digit of the revision,
// and words of the message.
func TestConditions(t *testing.T) {
	git := &gitrepo.Error{Reason: gitrepo.Unreachable, Subject: "repo", Msg: "no route"}
	const inForce = "Ready true InForce 1"
	for name, c := range map[string]struct {
		state *State
		want  []string
	}{
		"a new master": {stateOf(), []string{"Ready false NoRevision - no revision has been brought"}},
		"in force":     {stateOf(served(0)), []string{inForce}},
		"another goal": {stateOf(served(0), rolls(1, rollout.Waits, false)), []string{
			"Ready false NoRevision", "RolloutProgressing true Wave 2 wave 1 of 1 (canary) waits",
		}},
		"not sent to all yet": {stateOf(served(0), undone), []string{"Ready false NoRevision"}},
		"in force with a rollout": {stateOf(rolls(1, rollout.Waits, false), served(0)), []string{
			inForce, "RolloutProgressing true Wave 2 wave 1 of 1 (canary)",
		}},
		"another source": {stateOf(served(0), other), []string{
			"Ready false OtherSource - the fleet follows /another", "Stalled true OtherSource - zester sync adopt",
		}},
		"a write fails":    {stateOf(served(0), failed(writing, errors.New("no room"))), []string{"Ready false PublishFailed - no room"}},
		"the worker fails": {stateOf(served(0), failed(serving, errors.New("no key"))), []string{"Ready false PublishFailed - no key"}},
		"both fail": {stateOf(served(0), failed(writing, errors.New("no room")), failed(serving, errors.New("no key"))), []string{
			"Ready false PublishFailed - no room",
		}},
		"the worker cannot read": {stateOf(served(0), failed(serving, git)), []string{inForce, "FetchFailed true Unreachable - no route"}},
		"a judgement cannot":     {stateOf(served(0), failed(judging, git)), []string{inForce, "FetchFailed true Unreachable - no route"}},
		"a judgement fails":      {stateOf(served(0), failed(judging, errors.New("no disk"))), []string{inForce}},
		"the branch first": {stateOf(served(0), unread(gitrepo.NotFound), failed(judging, git)), []string{
			inForce, "FetchFailed true " + string(gitrepo.NotFound) + " - why",
		}},
		"stalled": {stateOf(served(0), unread(gitrepo.HostKey)), []string{
			inForce, "FetchFailed true " + string(gitrepo.HostKey) + " - why", "Stalled true " + string(gitrepo.HostKey) + " - why",
		}},
		"another error of the source": {stateOf(served(0), func(s *State) { s.Source.Err = errors.New("no room") }), []string{
			inForce, "FetchFailed true Failed - no room",
		}},
		"broken": {stateOf(served(0), head(2), judged(broken)), []string{inForce, "CompileFailed true  2 broken"}},
		"broken, and pinned": {stateOf(served(0), pinned(false), head(2), judged(broken)), []string{
			inForce, "Suspended true Pinned - to 00000000 by  at 0001-01-01T00:00:00Z: new commits wait for zester sync unpin",
		}},
		"broken, but in force": {stateOf(served(0), judged(broken)), []string{inForce}},
		"broken, but rolled back": {stateOf(served(0), head(2), judged(broken), skipped), []string{
			inForce, "HeadSkipped true RolledBack 2 zester sync retry", "RolloutProgressing false WaveFailed 2",
		}},
		"blocked by its author": {stateOf(served(0), head(2), judged(Judgement{Refused: &Refused{
			Kind: status.GuardBlocked, Reason: "NoPeels", Messages: []string{"one", "two"},
		}})), []string{inForce, "GuardBlocked true NoPeels 2 one\ntwo"}},
		"unsigned": {stateOf(served(0), head(2), judged(Judgement{Signed: status.Condition{
			Type: status.SourceVerified, Reason: "NoSignature", Message: "no signature",
		}, Refused: forged.Refused})), []string{inForce, "SourceVerified false NoSignature - no signature"}},
		"isolated": {stateOf(isolating("web-2", "web-1")), []string{
			inForce, "CompileFailed true Isolated 1 2 peels keep what they have: web-1, web-2",
		}},
		"isolated nobody":              {stateOf(isolating()), []string{inForce, "CompileFailed true Isolated 1 no peel stays behind"}},
		"isolated, a newer is broken":  {stateOf(isolating("web-1"), head(2), judged(broken)), []string{inForce, "CompileFailed true  2 broken"}},
		"isolated, a newer is blocked": {stateOf(isolating("web-1"), head(2), blocked("plan")), []string{inForce, "GuardBlocked true TooManyChanges 2 too much"}},
		"facts wait":                   {stateOf(served(0), waits("h", false), served(0)), []string{inForce, "GuardBlocked true FactsChanged 1 too much"}},
		"facts are approved":           {stateOf(waits("h", true), served(0)), []string{inForce}},
		"facts wait, and a commit": {stateOf(waits("h", false), served(0), head(2), blocked("plan")), []string{
			inForce, "GuardBlocked true TooManyChanges 2 too much",
		}},
		"pinned until newer": {stateOf(served(0), pinned(true)), []string{inForce, "Suspended true Pinned - or for a newer commit"}},
		"paused":             {stateOf(served(0), paused), []string{inForce, "Suspended true Paused - by ann at 0001-01-01T00:00:00Z: new commits wait for zester sync resume"}},
		"pinned and paused":  {stateOf(served(0), paused, pinned(false)), []string{inForce, "Suspended true Pinned"}},
		"working":            {stateOf(served(0), func(s *State) { s.Shown.Reading = true }), []string{inForce, "Reconciling true Attempt"}},
		"the rollout ended": {stateOf(served(0), func(s *State) { s.Shown.Completed, s.Shown.Completion = rev(1), "all have it" }), []string{
			inForce, "RolloutProgressing false Completed 1 all have it",
		}},
		"an earlier rollout ended": {stateOf(served(0), func(s *State) { s.Shown.Completed, s.Shown.Completion = rev(3), "all have it" }), []string{inForce}},
		"history was rewritten": {stateOf(served(0), func(s *State) {
			s.Shown.Moved = status.Condition{Type: status.HistoryRewritten, Status: true, Reason: "Rewritten", Message: "lost 2"}
		}), []string{inForce, "HistoryRewritten true Rewritten - lost 2"}},
	} {
		var got []string
		for _, c := range c.state.Show(false).Sync.Conditions {
			rev := "-"
			if c.ObservedRevision != "" {
				rev = string(c.ObservedRevision[len(c.ObservedRevision)-1:])
			}
			got = append(got, fmt.Sprintf("%s %v %s %s %s", c.Type, c.Status, c.Reason, rev, c.Message))
		}
		for _, want := range c.want {
			if !slices.ContainsFunc(got, func(text string) bool { return hasWords(text, want) }) {
				t.Errorf("%s: there is no %q in\n%s", name, want, strings.Join(got, "\n"))
			}
		}
		if len(got) != len(c.want) {
			t.Errorf("%s: %d conditions, want %d:\n%s", name, len(got), len(c.want), strings.Join(got, "\n"))
		}
	}
}

// hasWords reports whether text begins with the first four words of want, and has the rest of it.
func hasWords(text, want string) bool {
	parts := strings.SplitN(want, " ", 5)
	if !strings.HasPrefix(text, strings.Join(parts[:min(4, len(parts))], " ")) {
		return false
	}
	return len(parts) < 5 || strings.Contains(text, parts[4])
}

func TestConditionsKeepTheTimeOfTheirLastChange(t *testing.T) {
	later := noon.Add(time.Hour)
	was := []status.Condition{
		{Type: status.Ready, Status: true, LastTransitionTime: noon},
		{Type: status.Suspended, Status: true, LastTransitionTime: noon},
		{Type: status.SourceVerified, Status: true, LastTransitionTime: noon},
	}
	got := transitions(was, []status.Condition{
		{Type: status.Ready, Status: true, Reason: "InForce", Message: strings.Repeat("x", status.MaxMessage+1)},
		{Type: status.Suspended},
		{Type: status.Frozen},
		{Type: status.RolloutProgressing, Reason: "Completed"},
		{},
	}, later)
	want := map[status.Type]time.Time{
		status.Ready: noon, status.Suspended: later, status.RolloutProgressing: later, status.SourceVerified: noon,
	}
	if len(got) != len(want) {
		t.Errorf("%+v", got)
	}
	for _, c := range got {
		if !c.LastTransitionTime.Equal(want[c.Type]) || len(c.Message) > status.MaxMessage {
			t.Errorf("%s since %v, want %v, with a message of %d bytes", c.Type, c.LastTransitionTime, want[c.Type], len(c.Message))
		}
	}
}

// TestWhatWasAttempted has the newest revision that was tried or waits, and its errors.
func TestWhatWasAttempted(t *testing.T) {
	for name, c := range map[string]struct {
		state  *State
		commit settings.Commit
		errors []string
	}{
		"in force":             {stateOf(served(0)), rev(1), nil},
		"pinned":               {stateOf(served(0), pinned(false), head(2), skipped), rev(1), nil},
		"blocked":              {stateOf(served(0), head(2), blocked("plan"), skipped), rev(2), []string{"too much"}},
		"rolled back":          {stateOf(served(0), head(2), skipped), rev(2), []string{""}},
		"broken":               {stateOf(served(0), head(2), judged(broken)), rev(2), []string{"top.yaml:1:1: broken"}},
		"not judged yet":       {stateOf(served(0), head(2)), rev(1), nil},
		"frozen":               {stateOf(head(3), served(0), judged(good), frozenFor), rev(3), nil},
		"in waves":             {stateOf(head(2), served(0), rolls(1, rollout.Waits, false)), rev(2), nil},
		"isolated":             {stateOf(isolating("web-1")), rev(1), []string{"a.yaml:3:1: broken"}},
		"isolated, but pinned": {stateOf(isolating("web-1"), pinned(false)), rev(1), []string{"a.yaml:3:1: broken"}},
	} {
		got := c.state.Show(false).Sync
		if got.LastAttempted != c.commit || !slices.Equal(got.Errors, c.errors) {
			t.Errorf("%s: %s, %q, want %s, %q", name, got.LastAttempted, got.Errors, c.commit, c.errors)
		}
	}
}

func TestWhatIsShownOfTheRecord(t *testing.T) {
	pin := record.Pin{Commit: rev(1), By: "ann", Time: noon, UntilNewer: true}
	s := stateOf(served(0), waits("facts", false), blocked("plan"), func(s *State) {
		s.Record.Pinned, s.Record.Suspended = &pin, &record.Approval{By: "bob", Time: noon}
		s.Record.Skipped = []record.Skipped{{Commit: rev(3)}, {Commit: rev(4)}}
		s.Record.Facts.Peels = s.Record.Facts.Peels.With(record.MarkPeel("web-1"))
		s.Shown.Written, s.Shown.Writes = "", status.Sync{}.Writes
		s.Record.History = []status.Attempt{{Commit: rev(1)}, {Commit: rev(2)}}
	})
	shown := s.Show(false)
	sync := shown.Sync
	if p := sync.Pinned; p == nil || p.Commit != rev(1) || p.By != "ann" || !p.Time.Equal(noon) || !p.UntilNewer {
		t.Errorf("pinned: %+v", p)
	}
	if p := sync.Paused; p == nil || p.By != "bob" || !p.Time.Equal(noon) {
		t.Errorf("paused: %+v", p)
	}
	if f := sync.Facts; f == nil || f.Hash != "facts" || f.Peels != 1 || f.Reason != "too much" {
		t.Errorf("facts: %+v", f)
	}
	if sync.Blocked != "plan" || sync.Skipped != rev(4) || sync.Adopt != nil || sync.Rollout != nil {
		t.Errorf("%+v", sync)
	}
	if len(shown.Attempts) != 2 || shown.Attempts[0].Commit != rev(2) {
		t.Errorf("the newest attempt is not first: %+v", shown.Attempts)
	}
	if adopt := stateOf(other).Show(false).Sync.Adopt; adopt == nil || !strings.Contains(adopt.From, "/another") {
		t.Errorf("%+v", adopt)
	}
}

func TestTheProgressOfARollout(t *testing.T) {
	s := stateOf(served(0), rolls(1, rollout.Soaks, false), func(s *State) {
		s.Record.Rollout.Waves = []policy.Wave{{Name: "canary", Gate: policy.GateManual, Deadline: time.Hour}, {Name: "rest"}}
		s.Record.Rollout.Started = noon
		s.Step.Reason, s.Step.Until = "soaks", noon.Add(time.Minute)
		s.Step.Counts = rollout.Counts{Peels: 9, Applied: 4, Pending: 3, Away: 2, Failed: 1}
	})
	got := *s.Show(false).Sync.Rollout
	if got.Wave != 1 || got.Waves != 2 || got.Name != "canary" || got.State != string(rollout.Soaks) || got.Gate != "manual" ||
		got.Deadline != time.Hour || !got.Started.Equal(noon) || !got.Soaked.Equal(s.Step.Until) || !got.Until.Equal(s.Step.Until) {
		t.Errorf("%+v", got)
	}
	if want := (status.Counts{Peels: 9, Applied: 4, Pending: 3, Offline: 2, Failed: 1}); got.Counts != want {
		t.Errorf("%+v, want %+v", got.Counts, want)
	}
	s.Record.Rollout.Stage.Wave, s.Step.State = 1, ""
	if got := *s.Show(false).Sync.Rollout; got.Wave != 2 || got.Name != "rest" || got.State != string(rollout.Waits) || !got.Soaked.IsZero() {
		t.Errorf("%+v", got)
	}
}

func TestThePlanOfTheRolloutIsObserved(t *testing.T) {
	s := stateOf(rolls(1, rollout.Soaks, true))
	if s.Observe(nil); s.Step.State != rollout.Soaks {
		t.Error("a step was forgotten while its peels are not known")
	}
	s.Record.Rollout.Commit = rev(3)
	if s.Observe(nil); s.Step.State != "" {
		t.Error("the step of another rollout stays")
	}
	s.Step.State, s.Record.Rollout = rollout.Soaks, nil
	if s.Observe(&rollout.Observed{}); s.Step.State != "" {
		t.Error("a step stays without a rollout")
	}
}

func TestWhichPeelsARevisionChanges(t *testing.T) {
	s := stateOf(served(0))
	entry := func(digest settings.Digest) *plan.Effective { return &plan.Effective{Digest: digest} }
	s.Prepared.Base.Plan.Peels = map[target.PeelID]*plan.Effective{"same": entry("a"), "other": entry("a"), "gone": entry("a")}
	s.Prepared.Next.Plan.Peels = map[target.PeelID]*plan.Effective{"same": entry("a"), "other": entry("b"), "new": entry("a")}
	for id, want := range map[target.PeelID]bool{"same": false, "other": true, "gone": false, "new": true, "none": false} {
		if got := s.Prepared.ChangesPeel(id); got != want {
			t.Errorf("%s: %v", id, got)
		}
	}
}
