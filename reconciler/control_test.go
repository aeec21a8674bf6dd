package reconciler_test

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// refused asks for what is to be refused, and returns why it is.
func (s *site) refused(verb string, question any) string {
	s.t.Helper()
	data, err := canon.Marshal(question)
	if err != nil {
		s.t.Fatal(err)
	}
	msg, err := s.ops.Request(wire.API("sync", verb, "op"), data, time.Minute)
	if err != nil {
		s.t.Fatal(err)
	}
	if code := msg.Header.Get("Nats-Service-Error-Code"); code != "409" {
		s.t.Errorf("sync %s: code %q", verb, code)
	}
	return msg.Header.Get("Nats-Service-Error")
}

func condition(s status.Sync, kind status.Type) (c status.Condition) {
	for _, c := range s.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return c
}

// shrunk is a site of web peels at which a commit waits that takes three of their five entries.
func shrunk(t *testing.T, peels int) (*site, status.Sync) {
	s := newSite(t, fleetFiles())
	for i := range peels {
		s.peel(target.PeelID(fmt.Sprintf("web-%02d", i)), nil)
	}
	s.start()
	s.settled(peels)
	s.commit("too much", map[string]string{"settings/common.yaml": "schedule:\n  a: {module: test.ping, interval: 1h}\n"})
	out := s.now()
	if !out.Is(status.GuardBlocked) || len(out.Blocked) != 64 {
		t.Fatalf("%+v", out)
	}
	return s, out
}

func TestAnApprovedPlanGoesOut(t *testing.T) {
	s, blocked := shrunk(t, 3)
	if why := s.refused("approve", status.ApproveRequest{Hash: strings.Repeat("0", 64)}); !strings.Contains(why, blocked.Blocked) {
		t.Errorf("another plan: %s", why)
	}
	if why := s.refused("approve", status.ApproveRequest{Hash: blocked.Blocked[:7]}); !strings.Contains(why, "8 digits") {
		t.Errorf("too short: %s", why)
	}
	var out status.Sync
	s.ask("approve", status.ApproveRequest{Hash: blocked.Blocked[:8]}, &out)
	if out.Is(status.GuardBlocked) || out.Blocked != "" || out.LastGood.Commit != out.Observed || len(s.entries("web-00")) != 2 {
		t.Errorf("web-00 has %v, %+v", s.entries("web-00"), out)
	}
	if why := s.refused("approve", status.ApproveRequest{Hash: blocked.Blocked}); !strings.Contains(why, "no revision waits") {
		t.Errorf("again: %s", why)
	}
}

func TestAnApprovalIsOfThePlanThatWasLookedAt(t *testing.T) {
	s, blocked := shrunk(t, 3)
	s.peel("web-99", nil)
	out := s.settled(4)
	if !out.Is(status.GuardBlocked) || out.Blocked == blocked.Blocked || out.Blocked == "" {
		t.Errorf("with a peel more the plan is still %s: %+v", blocked.Blocked, out)
	}
	if why := s.refused("approve", status.ApproveRequest{Hash: blocked.Blocked}); !strings.Contains(why, out.Blocked) || len(s.entries("web-00")) != 5 {
		t.Errorf("the plan of before: %s; web-00 has %v", why, s.entries("web-00"))
	}
	s.ask("approve", status.ApproveRequest{Hash: out.Blocked}, &out)
	if out.Is(status.GuardBlocked) || len(s.entries("web-99")) != 2 {
		t.Errorf("web-99 has %v, %+v", s.entries("web-99"), out)
	}
}

func TestABlockedRevisionStaysBlockedInTheNextTerm(t *testing.T) {
	s, blocked := shrunk(t, 3)
	s.stop()
	for i := range 12 { // with these the change would be small enough
		s.peel(target.PeelID(fmt.Sprintf("other-%02d", i)), nil)
	}
	s.start()
	out := s.settled(15)
	if !out.Is(status.GuardBlocked) || out.Blocked == "" || out.Blocked == blocked.Blocked || len(s.entries("web-00")) != 5 || len(s.entries("other-00")) != 4 {
		t.Errorf("web-00 has %v, other-00 has %v, %+v", s.entries("web-00"), s.entries("other-00"), out)
	}
}

func TestACommitMayAllowItselfToRemoveMuchButNotAll(t *testing.T) {
	s, _ := shrunk(t, 3)
	s.commit("meant\n\nZester-Allow: change, remove, peels", map[string]string{"README.md": "x"})
	if out := s.now(); out.Is(status.GuardBlocked) || len(s.entries("web-00")) != 2 {
		t.Errorf("web-00 has %v, %+v", s.entries("web-00"), out)
	}
	s.commit("nothing left\n\nZester-Allow: change, remove, peels", map[string]string{"top.yaml": "base: {}\n"})
	if out := s.now(); !out.Is(status.GuardBlocked) || len(s.entries("web-00")) != 2 {
		t.Errorf("web-00 has %v, %+v", s.entries("web-00"), out)
	}
}

func TestAPauseKeepsNewCommitsFromTheFleetOverTerms(t *testing.T) {
	s := newSite(t, fleetFiles())
	s.peel("web-01", nil)
	s.start()
	first := s.settled(1)
	var out status.Sync
	s.ask("pause", nil, &out)
	if c := condition(out, status.Suspended); !c.Status || !strings.Contains(c.Message, "by op at ") {
		t.Errorf("%+v", c)
	}
	if why := s.refused("pause", nil); !strings.Contains(why, "op has done so") {
		t.Errorf("again: %s", why)
	}
	s.commit("waits", map[string]string{"settings/web.yaml": "schedule:\n  x: {module: test.ping, interval: 30m}\n"})
	s.stop()
	s.start()
	s.peel("web-02", nil)
	out = s.settled(2)
	if !out.Is(status.Suspended) || out.LastGood.Commit != first.LastGood.Commit || out.Observed == out.LastGood.Commit {
		t.Errorf("%+v", out)
	}
	if got := strings.Join(s.entries("web-02"), ""); got != "abcdw" {
		t.Errorf("a new peel has %s", got)
	}
	s.ask("resume", nil, &out)
	if got := strings.Join(s.entries("web-01"), ""); out.Is(status.Suspended) || got != "abcdx" {
		t.Errorf("web-01 has %s, %+v", got, out)
	}
	if why := s.refused("resume", nil); !strings.Contains(why, "nothing is paused") {
		t.Errorf("again: %s", why)
	}
}

func TestARefusedCommitMovesItsTransitionOnce(t *testing.T) {
	s := newSite(t, fleetFiles())
	s.peel("web-01", nil)
	s.start()
	s.settled(1)
	s.commit("broken", map[string]string{"top.yaml": "base: ["})
	first := condition(s.now(), status.CompileFailed)
	s.commit("broken still", map[string]string{"top.yaml": "base: {"})
	second := condition(s.now(), status.CompileFailed)
	if !second.Status || second.ObservedRevision == first.ObservedRevision || !second.LastTransitionTime.Equal(first.LastTransitionTime) {
		t.Errorf("%+v, then %+v", first, second)
	}
}

func TestChangedFactsDoNotReadTheBranch(t *testing.T) {
	s := newSite(t, fleetFiles())
	s.peel("web-01", target.Facts{"os": "ubuntu"})
	s.start()
	s.settled(1)
	watch := s.bus.Conn(t, "peel", "web-01", nats.ReconnectBufSize(-1))
	sub, err := watch.SubscribeSync(wire.Settings("web-01"))
	if err != nil {
		t.Fatal(err)
	}
	if err := watch.Flush(); err != nil {
		t.Fatal(err)
	}
	var before, after status.Sync
	s.ask("status", nil, &before)
	s.peel("web-01", target.Facts{"os": "debian"})
	msg, err := sub.NextMsg(time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if doc, err := settings.Decode(msg.Data, "web-01"); err != nil || doc.Origins["deb"].File != "settings/deb.yaml" {
		t.Errorf("%+v, %v", doc, err)
	}
	s.ask("status", nil, &after)
	if !after.Read.Equal(before.Read) {
		t.Errorf("the branch was read at %v, then at %v", before.Read, after.Read)
	}
}

// TestWhatPeopleOrderIsTold also holds that questions are not.
func TestWhatPeopleOrderIsTold(t *testing.T) {
	s := newSite(t, fleetFiles())
	s.peel("web-00", nil)
	s.start()
	s.settled(1)
	var out status.Sync
	s.ask("status", nil, &out)
	s.ask("pause", nil, &out)
	s.refused("approve", status.ApproveRequest{Hash: strings.Repeat("0", 64)})
	s.ask("resume", nil, &out)
	js, err := jetstream.New(s.nc)
	if err != nil {
		t.Fatal(err)
	}
	page, err := audit.OpenLog(js, slog.New(slog.DiscardHandler)).List(t.Context(), audit.Query{Action: "sync"})
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, e := range slices.Backward(page.Entries) {
		if e.Action == "sync.now" {
			continue // settled asks for it
		}
		told = append(told, fmt.Sprint(e.Action, " ", e.User, " ", e.Target, " ", e.Result))
		if e.Role != grants.RoleOperator || e.From == "" {
			t.Errorf("%s comes without what the bus says of its sender: %+v", e.Action, e)
		}
	}
	want := "sync.pause op  done, sync.approve op " + strings.Repeat("0", 64) + " refused, sync.resume op  done"
	if got := strings.Join(told, ", "); got != want {
		t.Errorf("the audit log has %s, want %s", got, want)
	}
}

func TestAPinTakesBackWhatWaitsForApproval(t *testing.T) {
	s, blocked := shrunk(t, 3)
	var out status.Sync
	s.ask("pin", status.PinRequest{Revision: string(blocked.LastGood.Commit)}, &out)
	if out.Blocked != "" || out.Is(status.GuardBlocked) || out.Pinned == nil || out.LastGood.Commit != blocked.LastGood.Commit {
		t.Errorf("%+v", out)
	}
	if why := s.refused("approve", status.ApproveRequest{Hash: blocked.Blocked}); !strings.Contains(why, "no revision waits") {
		t.Errorf("approved while pinned: %s", why)
	}
	s.ask("unpin", nil, &out)
	if !out.Is(status.GuardBlocked) || out.Blocked != blocked.Blocked || len(s.entries("web-00")) != 5 {
		t.Errorf("without the pin: web-00 has %v, %+v", s.entries("web-00"), out)
	}
}

func TestAnApprovalDuringAPauseCountsAfterIt(t *testing.T) {
	s, blocked := shrunk(t, 3)
	var out status.Sync
	s.ask("pause", nil, &out)
	s.ask("approve", status.ApproveRequest{Hash: blocked.Blocked}, &out)
	if !out.Is(status.Suspended) || len(s.entries("web-00")) != 5 {
		t.Errorf("paused: web-00 has %v, %+v", s.entries("web-00"), out)
	}
	s.ask("resume", nil, &out)
	if out.Is(status.GuardBlocked) || out.LastGood.Commit != out.Observed || len(s.entries("web-00")) != 2 {
		t.Errorf("web-00 has %v, %+v", s.entries("web-00"), out)
	}
}
