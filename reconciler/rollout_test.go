package reconciler_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/master/auth"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/reconciler/status"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const newWeb = "schedule:\n  x: {module: test.ping, interval: 30m}\n"

// inWaves is a site of four web peels that are online and run the first revision, in the order of the waves, and the
// commit that has begun to go out to them.
func inWaves(t *testing.T, waves string) (s *site, peels []target.PeelID, commit settings.Commit) {
	files := fleetFiles()
	files["zester.yaml"] = file("waves: " + waves + "\n")
	s = newSite(t, files)
	for i := range 4 {
		id := target.PeelID(fmt.Sprintf("web-%02d", i))
		s.peel(id, nil)
		s.lives(id)
		peels = append(peels, id)
	}
	slices.SortFunc(peels, func(a, b target.PeelID) int { return strings.Compare(place(a), place(b)) })
	s.start()
	if out := s.settled(4); out.Writes != 4 || out.Rollout != nil {
		t.Fatalf("the first revision: %+v", out)
	}
	for _, id := range peels {
		s.applies(id)
	}
	return s, peels, settings.Commit(s.commit("x for w", map[string]string{"settings/web.yaml": newWeb}).String())
}

func place(id target.PeelID) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:])
}

// lives lets a peel be heard.
func (s *site) lives(id target.PeelID) {
	s.t.Helper()
	nc := s.bus.Conn(s.t, auth.RolePeel, id.Wire())
	defer nc.Close()
	if err := nc.Publish(wire.Heartbeat(id.Wire()), nil); err != nil {
		s.t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		s.t.Fatal(err)
	}
}

// applies has a peel report that it runs what it was given.
func (s *site) applies(id target.PeelID, errs ...string) {
	s.t.Helper()
	doc := s.document(id)
	s.publish(id, wire.SettingsApplied(id.Wire()), wire.Applied{
		Peel: id, Commit: string(doc.Commit), Generation: doc.Generation, Digest: string(doc.Digest), Errors: errs, V: wire.Version,
	})
}

// fails has a peel report a run of an entry that failed, in the version that it was given.
func (s *site) fails(id target.PeelID, entry string) {
	s.t.Helper()
	jid := wire.NewJID()
	s.publish(id, wire.ScheduledOf(jid, id.Wire()), wire.ScheduledResult{
		JID: jid, Peel: id, Entry: entry, Function: "test.ping", Commit: string(s.document(id).Origins[entry].Commit), V: wire.Version,
	})
}

// until waits for a status.
func (s *site) until(what string, ok func(status.Sync) bool) status.Sync {
	s.t.Helper()
	for {
		out := s.now()
		if ok(out) {
			return out
		}
		if s.asked > 4900 || s.t.Context().Err() != nil {
			s.t.Fatalf("%s does not come: %+v, %+v", what, out, out.Rollout)
		}
	}
}

func inWave(n int) func(status.Sync) bool {
	return func(s status.Sync) bool { return s.Rollout != nil && s.Rollout.Wave == n }
}

// reached checks that just the first n peels have the new revision.
func (s *site) reached(peels []target.PeelID, n int) {
	s.t.Helper()
	for i, id := range peels {
		want := "abcdw"
		if i < n {
			want = "abcdx"
		}
		if got := strings.Join(s.entries(id), ""); got != want {
			s.t.Errorf("peel %d, %s, has %s, want %s", i, id, got, want)
		}
	}
}

func TestARevisionGoesOutInWaves(t *testing.T) {
	s, peels, head := inWaves(t, "[{name: canary, peels: 1}, {name: half, peels: 40%}]")
	first := s.until("the canary", inWave(1))
	s.reached(peels, 1)
	if first.LastGood.Commit == head || first.LastAttempted != head || !first.Is(status.RolloutProgressing) {
		t.Errorf("%+v", first)
	}
	last := target.PeelID("web-x")
	for place(last) < place(peels[3]) {
		last += "x"
	}
	s.peel(last, nil) // is given the revision of its place
	s.until("a new peel", func(out status.Sync) bool { return out.Counts.Peels == 5 })
	if got := strings.Join(s.entries(last), ""); got != "abcdw" {
		t.Errorf("the new peel has %s", got)
	}
	s.applies(peels[0])
	s.until("the second wave", inWave(2))
	s.reached(peels, 2)
	s.applies(peels[1])
	out := s.until("the end", func(out status.Sync) bool { return out.LastGood.Commit == head })
	s.reached(append(peels, last), 5)
	if out.Rollout != nil || out.Is(status.RolloutProgressing) {
		t.Errorf("%+v", out)
	}
}

func TestAWaveThatFailsIsTakenBack(t *testing.T) {
	for name, fail := range map[string]func(*site, []target.PeelID){
		"a run of what the revision changes": func(s *site, peels []target.PeelID) {
			s.applies(peels[0])
			s.fails(peels[0], "a") // not of this revision
			s.fails(peels[3], "w") // not of this wave
			s.fails(peels[0], "x")
		},
		"an error that the peel reports": func(s *site, peels []target.PeelID) { s.applies(peels[0], "no zone x") },
	} {
		t.Run(name, func(t *testing.T) {
			s, peels, head := inWaves(t, "[{name: canary, peels: 1, soak: 1h}]")
			good := s.until("the canary", inWave(1)).LastGood.Commit
			s.reached(peels, 1)
			fail(s, peels)
			check := func(out status.Sync) {
				t.Helper()
				c := condition(out, status.RolloutProgressing)
				if !out.RolledBack() || out.Skipped != head || c.Status || c.Reason != "WaveFailed" || out.LastGood.Commit != good || !out.Is(status.Ready) {
					t.Errorf("%+v", out)
				}
				if !strings.Contains(c.Message, "wave canary failed: 1 of 1 peels, 0 may: "+string(peels[0])+": ") || strings.Contains(c.Message, " of a failed") {
					t.Errorf("it says %s", c.Message)
				}
				s.reached(peels, 0)
			}
			check(s.until("the end", func(out status.Sync) bool { return out.Rollout == nil && out.RolledBack() }))
			s.stop()
			s.start() // and whoever leads next does not try it again
			check(s.settled(4))
			head = settings.Commit(s.commit("better", map[string]string{"settings/web.yaml": newWeb + "# \n", "settings/deb.yaml": newWeb}).String())
			for _, id := range peels {
				s.lives(id)
			}
			if out := s.until("the canary of the next", inWave(1)); out.Rollout.Commit != head {
				t.Errorf("%+v", out)
			}
			s.reached(peels, 1)
		})
	}
}

func TestWhoeverLeadsNextGoesOnWithTheWave(t *testing.T) {
	s, peels, head := inWaves(t, "[{name: canary, peels: 1}, {name: half, peels: 2}]")
	s.until("the canary", inWave(1))
	writes := s.writes()
	s.stop()
	s.fails(peels[0], "x") // while nobody leads
	s.start()
	s.until("the end", func(out status.Sync) bool { return out.RolledBack() })
	s.reached(peels, 0)
	if got := s.writes() - writes; got != 1 {
		t.Errorf("%d writes for one peel that goes back", got)
	}
	if doc := s.document(peels[0]); doc.Commit == head {
		t.Errorf("%s has %s", peels[0], doc.Commit)
	}
}

func TestAPauseStopsARolloutAfterItsWave(t *testing.T) {
	s, peels, head := inWaves(t, "[{name: canary, peels: 1}, {name: half, peels: 2}]")
	s.until("the canary", inWave(1))
	var out status.Sync
	s.ask("pause", nil, &out)
	s.applies(peels[0])
	out = s.until("the end of the wave", func(out status.Sync) bool { return out.Rollout.State == "passed" })
	s.now()
	s.reached(peels, 1)
	if out.Rollout.Wave != 1 || out.Rollout.Waves != 2 || !out.Is(status.Suspended) {
		t.Errorf("%+v", out)
	}
	s.ask("resume", nil, &out)
	for _, id := range peels {
		s.lives(id)
	}
	s.until("the second wave", inWave(2))
	s.reached(peels, 2)
	s.applies(peels[1])
	s.until("the end", func(out status.Sync) bool { return out.LastGood.Commit == head })
	s.reached(peels, 4)
}

func TestANewerCommitTakesThePlaceOfARollout(t *testing.T) {
	s, peels, _ := inWaves(t, "[{name: canary, peels: 1, soak: 1h}]")
	s.until("the canary", inWave(1))
	back := settings.Commit(s.commit("back", map[string]string{"settings/web.yaml": string(fleetFiles()["settings/web.yaml"].Data)}).String())
	out := s.until("the revert", func(out status.Sync) bool { return out.LastGood.Commit == back })
	s.reached(peels, 0)
	if out.Rollout != nil || out.RolledBack() {
		t.Errorf("%+v", out)
	}
}
