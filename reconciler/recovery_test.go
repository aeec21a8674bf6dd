package reconciler_test

import (
	"fmt"
	"testing"

	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func TestANewTermShowsWhatIsInForceBesideABadCommit(t *testing.T) {
	s := newSite(t, fleetFiles())
	s.peel("web-01", nil)
	s.start()
	first := s.settled(1)
	s.commit("broken", map[string]string{"top.yaml": "base: ["})
	s.now()
	s.stop()
	s.start()
	out := s.settled(1)
	if !out.Is(status.Ready) || !out.Is(status.CompileFailed) || out.LastGood.Commit != first.LastGood.Commit {
		t.Errorf("%+v", out)
	}
}

func TestARecordThatAnotherHasWrittenStopsNoRollout(t *testing.T) {
	s := newSite(t, fleetFiles())
	s.peel("web-01", nil)
	s.start()
	s.settled(1)
	kv, err := s.bus.JetStream(t).KeyValue(t.Context(), "rollout")
	if err != nil {
		t.Fatal(err)
	}
	entry, err := kv.Get(t.Context(), "state")
	if err != nil {
		t.Fatal(err)
	}
	// The same bytes again, as after a write whose acknowledgement was lost.
	if _, err := kv.Put(t.Context(), "state", entry.Value()); err != nil {
		t.Fatal(err)
	}
	head := s.commit("newer", map[string]string{"settings/web.yaml": "schedule:\n  w: {module: test.ping, interval: 2h}\n"})
	for try := 0; s.now().LastGood.Commit != settings.Commit(head.String()); try++ {
		if try == 100 {
			t.Fatalf("%+v", s.now())
		}
	}
}

func TestABlockedRevisionStaysBlockedWhenTheFleetGrows(t *testing.T) {
	files := fleetFiles()
	files["settings/web.yaml"] = file("schedule:\n  w: {module: test.ping, interval: 1h}\n  x: {module: test.ping, interval: 1h}\n  y: {module: test.ping, interval: 1h}\n")
	s := newSite(t, files)
	for i := range 3 {
		s.peel(target.PeelID(fmt.Sprintf("web-%02d", i)), nil)
	}
	s.start()
	s.settled(3)
	s.commit("w, x and y go", map[string]string{"settings/web.yaml": "{}\n"})
	if out := s.now(); !out.Is(status.GuardBlocked) {
		t.Fatalf("%+v", out)
	}
	for i := range 12 {
		s.peel(target.PeelID(fmt.Sprintf("other-%02d", i)), nil)
	}
	s.settled(15)
	s.peel("one-more", nil)
	if out := s.settled(16); !out.Is(status.GuardBlocked) || len(s.entries("web-00")) != 7 {
		t.Errorf("web-00 has %v, %+v", s.entries("web-00"), out)
	}
}
