package reconciler

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/reconciler/rollout"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A rollingBench is four web peels that are online and run the first revision.
type rollingBench struct {
	*bench
	ids  []target.PeelID // in the order of the waves
	good settings.Commit // in force when the rollout begins
}

// inWaves runs f when the first revision of a repo with waves is in force.
func inWaves(t *testing.T, waves string, f func(b *rollingBench)) {
	t.Helper()
	files := siteFiles()
	files["zester.yaml"] = text("waves: " + waves + "\n")
	inBubble(t, files, func(b *bench) {
		r := &rollingBench{bench: b, ids: webs(4)}
		for _, id := range r.ids {
			b.peel(id, nil)
		}
		b.start()
		out := b.status()
		if out.Writes != 4 || out.Rollout != nil || out.Counts.Applied != 4 {
			b.t.Fatalf("the first revision: %+v", out)
		}
		r.good = out.LastGood.Commit
		f(r)
	})
}

// next commits x in place of w, and has it seen.
func (r *rollingBench) next() settings.Commit {
	r.t.Helper()
	c := r.commit("x for w", map[string]string{"settings/web.yaml": xForW})
	r.now()
	return c
}

// reached checks that just these peels, by their place, have the new revision.
func (r *rollingBench) reached(places ...int) {
	r.t.Helper()
	for i, id := range r.ids {
		want := "abcdw"
		if slices.Contains(places, i) {
			want = "abcdx"
		}
		if got := r.entries(id); got != want {
			r.t.Errorf("peel %d, %s, has %s, want %s", i, id, got, want)
		}
	}
}

// at checks where the rollout is.
func (r *rollingBench) at(wave int, state rollout.State) status.Sync {
	r.t.Helper()
	out := r.status()
	if out.Rollout == nil || out.Rollout.Wave != wave || out.Rollout.State != string(state) || !out.Is(status.RolloutProgressing) || out.LastGood.Commit != r.good {
		r.t.Fatalf("not in wave %d, %s: %+v, %+v", wave, state, out.Rollout, out)
	}
	return out
}

// inForce checks that a revision is, with no rollout under way.
func (r *rollingBench) inForce(c settings.Commit) status.Sync {
	r.t.Helper()
	out := r.status()
	if out.Rollout != nil || out.Is(status.RolloutProgressing) || out.LastGood.Commit != c || !out.Is(status.Ready) {
		r.t.Fatalf("%s is not in force: %+v, %+v", c.Short(), out, out.Rollout)
	}
	return out
}

// takenBack checks that the revision was, and why.
func (r *rollingBench) takenBack(c settings.Commit, why string) {
	r.t.Helper()
	out := r.inForce(r.good)
	condition := conditionOf(out, status.RolloutProgressing)
	if !out.RolledBack() || out.Skipped != c || condition.Reason != "WaveFailed" || !strings.Contains(condition.Message, why) {
		r.t.Errorf("%s was not taken back for %q: %+v", c.Short(), why, out)
	}
	r.reached()
}

func conditionOf(s status.Sync, kind status.Type) (c status.Condition) {
	for _, c := range s.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return c
}

func TestARevisionGoesOutInWaves(t *testing.T) {
	inWaves(t, "[{name: canary, peels: 1, soak: 10m}, {name: half, peels: 40%, soak: 5m}]", func(r *rollingBench) {
		r.alter(silent, r.ids...)
		c := r.next()
		r.at(1, rollout.Waits)
		r.reached(0)
		r.applies(r.ids[0])
		r.after(10*time.Minute - 10*time.Second)
		out := r.at(1, rollout.Soaks)
		if s := out.Rollout.Steps; len(s) != 2 || s[0].Name != "canary" || s[0].Peels != 1 || s[0].Applied != 1 || s[0].Changes != 4 ||
			s[0].Soak != 10*time.Minute || s[0].Began.IsZero() || !s[0].Passed.IsZero() || s[1].Name != "half" || !s[1].Began.IsZero() {
			t.Errorf("the waves while the first soaks: %+v", s)
		}
		r.reached(0)
		r.after(10 * time.Second)
		out = r.at(2, rollout.Waits)
		if s := out.Rollout.Steps; len(s) != 2 || s[0].Passed.IsZero() || s[1].Peels != 2 || s[1].Applied != 1 || s[1].Began.IsZero() {
			t.Errorf("the waves while the second applies: %+v", s)
		}
		r.reached(0, 1)
		r.applies(r.ids[1])
		r.after(5*time.Minute + 2*time.Second)
		r.inForce(c)
		r.reached(0, 1, 2, 3)
		var h status.History
		if why := r.ask("history", struct{}{}, &h); why != "" {
			t.Fatal(why)
		}
		if s := h.Attempts[0].Steps; h.Attempts[0].Commit != c || len(s) != 2 || s[0].Passed.Sub(s[0].Began) < 10*time.Minute ||
			s[1].Passed.Sub(s[0].Passed) < 5*time.Minute || s[1].Peels != 2 || s[1].Applied != 2 {
			t.Errorf("the waves of the history: %+v", h.Attempts[0])
		}
	})
}

// TestAPeelThatJoinsIsInNoWaveUnderWay: it comes before the canary in the order of waves, and a second peel would have the
// revision.
func TestAPeelThatJoinsIsInNoWaveUnderWay(t *testing.T) {
	inWaves(t, "[{name: canary, peels: 1, soak: 10m}]", func(r *rollingBench) {
		joins := target.PeelID("")
		for i := 0; joins == ""; i++ {
			if id := target.PeelID(fmt.Sprintf("web-new-%d", i)); bytes.Compare(mark(id), mark(r.ids[0])) < 0 {
				joins = id
			}
		}
		c := r.next()
		r.peel(joins, nil)
		r.after(5 * time.Second)
		if got := r.entries(joins); got != "abcdw" {
			r.t.Errorf("it has %s", got)
		}
		if out := r.at(1, rollout.Soaks); out.Counts != (status.Counts{Peels: 5, Applied: 5}) || out.Rollout.Peels != 1 {
			r.t.Errorf("%+v, %+v", out.Counts, out.Rollout)
		}
		r.after(10 * time.Minute)
		r.inForce(c)
		if got := r.entries(joins); got != "abcdx" {
			r.t.Errorf("after the rollout it has %s", got)
		}
	})
}

// ranStates has a peel report a run of the states in settings.
func (r *rollingBench) ranStates(id target.PeelID, digest settings.Digest, outcomes ...wire.StateOutcome) {
	r.t.Helper()
	r.say(id, wire.StateRunOf(id.Wire()), wire.StateRun{
		Peel: id, Digest: string(digest), Counts: map[string]int{"failed": len(outcomes)}, States: outcomes, V: wire.Version,
	})
	r.after(2 * time.Second)
}

// TestAFailedStateCountsIfItRanInTheRollout: a revision that was rolled back is tried again, with the report of the first try.
func TestAFailedStateCountsIfItRanInTheRollout(t *testing.T) {
	inWaves(t, "[{name: canary, peels: 1, soak: 1h}]", func(r *rollingBench) {
		c := r.next()
		outcome := wire.StateOutcome{State: "nginx", Result: "failed"}
		r.ranStates(r.ids[0], r.document(r.ids[0]).Digest, outcome)
		r.takenBack(c, "state nginx failed")
		r.told("retry", nil)
		r.after(2 * time.Second)
		r.at(1, rollout.Soaks)
		r.ranStates(r.ids[0], r.document(r.ids[0]).Digest, outcome)
		r.takenBack(c, "state nginx failed")
	})
}

func TestAWaveThatFailsIsTakenBack(t *testing.T) {
	for name, fail := range map[string]struct {
		do  func(*rollingBench)
		why string
	}{
		"a run of what the revision changes": {func(r *rollingBench) {
			r.runs(r.ids[0], "a", wire.Result{})                       // not of this revision
			r.runs(r.ids[3], "w", wire.Result{})                       // not of this wave
			r.runs(r.ids[0], "x", wire.Result{Success: true})          // no failure
			r.runs(r.ids[0], "x", wire.Result{Outcome: wire.Canceled}) // by a person
			r.at(1, rollout.Soaks)
			r.runs(r.ids[0], "x", wire.Result{})
		}, " of x failed"},
		"a run that the end of the host cut off": {func(r *rollingBench) {
			r.at(1, rollout.Soaks)
			r.runs(r.ids[0], "x", wire.Result{Outcome: wire.Interrupted})
		}, " of x was interrupted"},
		"a run that the peel rejected": {func(r *rollingBench) {
			r.at(1, rollout.Soaks)
			r.runs(r.ids[0], "x", wire.Result{Outcome: wire.Rejected})
		}, " of x was rejected"},
		"a run that is no job": {func(r *rollingBench) {
			report := func(note ledger.Note) {
				note.Nominal, note.Started, note.Outcome = time.Now(), time.Now(), ledger.Failed
				data, err := ledger.Encode(&ledger.Report{
					Peel: r.ids[0], Digest: "d", Zone: ledger.Zone{Name: "UTC"}, Time: time.Now(), Started: time.Now(),
					Entries: []ledger.EntryReport{{State: "active", Since: time.Now(), From: ledger.At(time.Now()), Notes: []ledger.Note{note}}},
				})
				if err != nil {
					r.t.Fatal(err)
				}
				r.say(r.ids[0], wire.ScheduleStateOf(r.ids[0].Wire()), data)
				r.after(2 * time.Second)
			}
			doc := r.document(r.ids[0])
			report(ledger.Note{Commit: string(doc.Origins["x"].Commit), Generation: doc.Generation - 3_600_000}) // before the rollout
			report(ledger.Note{Commit: string(doc.Origins["a"].Commit), Generation: doc.Generation})             // not of this revision
			r.at(1, rollout.Soaks)
			report(ledger.Note{Commit: string(doc.Origins["x"].Commit), Generation: doc.Generation})
		}, "the run of x at "},
		"an error that the peel reports": {func(r *rollingBench) {
			r.at(1, rollout.Soaks)
			r.applies(r.ids[0], "no zone x")
		}, ": no zone x"},
		"a state that had not failed before": {func(r *rollingBench) {
			failed := func(id target.PeelID, digest settings.Digest, before bool) {
				r.ranStates(id, digest, wire.StateOutcome{State: "nginx", Result: "failed", Error: "no such file", Before: before})
			}
			failed(r.ids[0], "another", false)
			failed(r.ids[3], r.document(r.ids[3]).Digest, false) // not of this wave
			failed(r.ids[0], r.document(r.ids[0]).Digest, true)
			r.at(1, rollout.Soaks)
			failed(r.ids[0], r.document(r.ids[0]).Digest, false)
		}, string(webs(4)[0]) + ": state nginx failed: no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			inWaves(t, "[{name: canary, peels: 1, soak: 1h}]", func(r *rollingBench) {
				c := r.next()
				fail.do(r)
				r.takenBack(c, "wave canary failed: 1 of 1 peels, 0 may: "+string(r.ids[0])+": ")
				r.takenBack(c, fail.why)
				r.stop()
				r.start() // and whoever leads next does not try it again
				r.after(time.Minute)
				r.takenBack(c, fail.why)
				better := r.commit("better", map[string]string{"settings/web.yaml": xForW + "# mended\n"})
				r.now()
				if out := r.at(1, rollout.Soaks); out.Rollout.Commit != better {
					r.t.Errorf("%+v", out.Rollout)
				}
				r.reached(0)
			})
		})
	}
}

func TestAPeelThatIsOnlineHasFiveMinutesForARevision(t *testing.T) {
	inWaves(t, "[{name: canary, peels: 2}]", func(r *rollingBench) {
		r.alter(silent, r.ids[0])
		c := r.next()
		r.after(4*time.Minute + 50*time.Second)
		out := r.at(1, rollout.Waits)
		if out.Rollout.Peels != 2 || out.Rollout.Pending != 1 || out.Rollout.Applied != 1 {
			r.t.Errorf("%+v", out.Rollout)
		}
		r.after(20 * time.Second)
		r.takenBack(c, "1 of 2 peels, 0 may: "+string(r.ids[0])+": it has not applied the revision within 5m0s")
	})
}

func TestAsManyMayFailAsTheWaveSays(t *testing.T) {
	inWaves(t, "[{name: half, peels: 50%, soak: 10m, max_failures: 1}, {name: most, peels: 3, soak: 10m}]", func(r *rollingBench) {
		c := r.next()
		r.runs(r.ids[1], "x", wire.Result{})
		if out := r.at(1, rollout.Soaks); out.Rollout.Failed != 1 || out.Rollout.Applied != 1 {
			r.t.Errorf("%+v", out.Rollout)
		}
		r.after(10 * time.Minute)
		r.takenBack(c, "wave most failed: 1 of 3 peels, 0 may") // which allows none, and looks at the peels of both
	})
}

func TestErrorsFromBeforeTheRolloutDoNotCount(t *testing.T) {
	const old = "settings: schedule.a.new: unknown field"
	for name, c := range map[string]struct {
		had  []int // peels that report the error before
		fail bool
	}{
		"the canary had it":        {[]int{0}, false},
		"another one had the same": {[]int{3}, true},
	} {
		t.Run(name, func(t *testing.T) {
			inWaves(t, "[{name: canary, peels: 1, soak: 1m}]", func(r *rollingBench) {
				for _, i := range c.had {
					r.applies(r.ids[i], old)
				}
				r.alter(func(a *actor) { a.errors = []string{old} }, r.ids...)
				commit := r.next()
				r.after(2 * time.Minute)
				if c.fail {
					r.takenBack(commit, string(r.ids[0])+": "+old)
					return
				}
				r.inForce(commit)
			})
		})
	}
}

// A revision for peels that are all away keeps its waves, and the first peel that returns is the canary.
func TestTheFirstPeelThatReturnsIsTheCanary(t *testing.T) {
	inWaves(t, "[{name: canary, peels: 1, soak: 1h}, {name: half, peels: 50%, soak: 1h}]", func(r *rollingBench) {
		r.alter(away, r.ids...)
		r.after(2 * time.Minute)
		r.next()
		r.after(time.Hour)
		if out := r.at(1, rollout.AllAway); !strings.HasPrefix(out.Rollout.Reason, "every peel that the revision changes is away") {
			r.t.Errorf("%+v", out.Rollout)
		}
		r.reached()
		r.alter(func(a *actor) { a.away, a.takes = false, true }, r.ids[2])
		r.after(time.Minute)
		r.at(1, rollout.Soaks)
		r.reached(2)
		r.alter(func(a *actor) { a.away, a.takes = false, true }, r.ids...)
		r.after(50 * time.Minute)
		r.at(1, rollout.Soaks)
		r.reached(2)
	})
}

// A host that the revision ends is a failure of its wave, before and after it has applied the revision.
func TestARevisionThatEndsItsPeelsIsTakenBack(t *testing.T) {
	for _, after := range []time.Duration{0, 10 * time.Minute} {
		inWaves(t, "[{name: canary, peels: 1, soak: 1h}]", func(r *rollingBench) {
			if after == 0 {
				r.alter(silent, r.ids...)
			}
			c := r.next()
			r.after(after)
			r.alter(away, r.ids[0])
			r.after(3 * time.Minute)
			r.takenBack(c, "wave canary failed: 1 of 1 peels, 0 may: "+string(r.ids[0])+": it went away")
		})
	}
}

// A canary that is away for less than two heartbeats is waited for.
func TestACanaryThatRestartsIsWaitedFor(t *testing.T) {
	inWaves(t, "[{name: canary, peels: 1, soak: 10m}]", func(r *rollingBench) {
		c := r.next()
		r.alter(func(a *actor) { a.away = true }, r.ids[0])
		r.after(100 * time.Second)
		r.alter(func(a *actor) { a.away = false }, r.ids[0])
		r.after(10 * time.Minute)
		r.inForce(c)
	})
}

// TestPeelsKeepTheRevisionWhenOthersGoAway: what a wave has given stays, whichever of its peels are there.
func TestPeelsKeepTheRevisionWhenOthersGoAway(t *testing.T) {
	inWaves(t, "[{name: most, peels: 3, soak: 1h, max_failures: 2}]", func(r *rollingBench) {
		r.next()
		r.after(time.Minute)
		r.reached(0, 1, 2)
		r.alter(away, r.ids[0], r.ids[2])
		r.after(10 * time.Minute)
		if out := r.at(1, rollout.Soaks); out.Rollout.Failed != 2 {
			r.t.Errorf("%+v", out.Rollout)
		}
		r.reached(0, 1, 2)
	})
}

func TestTheNextLeaderContinuesTheWave(t *testing.T) {
	for name, test := range map[string]struct {
		meanwhile func(r *rollingBench)
		then      func(r *rollingBench, c settings.Commit)
		writes    uint64
	}{
		"a run has failed": {
			func(r *rollingBench) { r.runs(r.ids[0], "x", wire.Result{}) },
			func(r *rollingBench, c settings.Commit) { r.takenBack(c, " of x failed") }, 1,
		},
		"the soak goes on": {
			func(r *rollingBench) { r.after(8 * time.Minute) },
			func(r *rollingBench, c settings.Commit) {
				r.at(1, rollout.Soaks)
				r.reached(0)
				r.after(time.Minute + 30*time.Second)
				r.inForce(c)
			}, 3,
		},
		"a newer commit": {
			func(r *rollingBench) {
				r.commit("back", map[string]string{"settings/web.yaml": string(siteFiles()["settings/web.yaml"].Data)})
			},
			func(r *rollingBench, _ settings.Commit) { r.reached(); r.inForce(r.status().Observed) }, 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWaves(t, "[{name: canary, peels: 1, soak: 10m}]", func(r *rollingBench) {
				c := r.next()
				r.after(time.Minute)
				writes := r.writes()
				r.stop()
				test.meanwhile(r)
				r.start()
				r.after(10 * time.Second)
				test.then(r, c)
				if got := r.writes() - writes; got != test.writes {
					r.t.Errorf("%d writes, want %d", got, test.writes)
				}
			})
		})
	}
}

// Whoever takes over has never read the repo, and cannot.
func TestARolloutGoesOnWhileTheRepoIsAway(t *testing.T) {
	inWaves(t, "[{name: canary, peels: 1, soak: 2m}]", func(r *rollingBench) {
		c := r.next()
		r.stop()
		if err := os.Rename(r.dir, r.dir+".away"); err != nil {
			r.t.Fatal(err)
		}
		r.start()
		r.after(30 * time.Second)
		r.at(1, rollout.Soaks)
		r.after(time.Minute + 31*time.Second)
		if out := r.inForce(c); !out.Is(status.FetchFailed) {
			t.Errorf("%+v", out)
		}
		r.reached(0, 1, 2, 3)
	})
}

func TestAPauseStopsARolloutAfterItsWave(t *testing.T) {
	inWaves(t, "[{name: canary, peels: 1, soak: 5m}, {name: half, peels: 2}]", func(r *rollingBench) {
		c := r.next()
		r.told("pause", nil)
		r.after(time.Hour)
		if out := r.at(1, rollout.Passed); out.Rollout.Waves != 2 || !out.Is(status.Suspended) {
			r.t.Errorf("%+v", out)
		}
		r.reached(0)
		r.told("resume", nil)
		r.inForce(c)
		r.reached(0, 1, 2, 3)
	})
}

func TestAPauseBeforeTheFirstWaveHoldsIt(t *testing.T) {
	inWaves(t, "[{name: canary, peels: 1}]", func(r *rollingBench) {
		r.alter(away, r.ids...)
		r.after(2 * time.Minute)
		c := r.next()
		r.told("pause", nil)
		r.alter(func(a *actor) { a.away, a.takes = false, true }, r.ids...)
		r.after(10 * time.Minute)
		r.at(1, rollout.Waits)
		r.reached()
		r.told("resume", nil)
		r.inForce(c)
	})
}

func TestAPausedRolloutThatFailsIsTakenBack(t *testing.T) {
	inWaves(t, "[{name: canary, peels: 1, soak: 1h}]", func(r *rollingBench) {
		c := r.next()
		r.told("pause", nil)
		r.runs(r.ids[0], "x", wire.Result{})
		r.takenBack(c, " of x failed")
	})
}

func TestANewerCommitReplacesARollout(t *testing.T) {
	inWaves(t, "[{name: canary, peels: 1, soak: 1h}]", func(r *rollingBench) {
		r.next()
		r.after(time.Minute)
		writes := r.writes()
		newer := r.commit("y too", map[string]string{"settings/web.yaml": xForW + "  y: {module: test.ping, interval: 30m}\n"})
		r.now()
		if out := r.at(1, rollout.Soaks); out.Rollout.Commit != newer {
			r.t.Errorf("%+v", out.Rollout)
		}
		if got := r.entries(r.ids[0]); got != "abcdxy" || r.writes() != writes+1 {
			r.t.Errorf("the canary has %s after %d writes: it went back before", got, r.writes()-writes)
		}
		back := r.commit("back", map[string]string{"settings/web.yaml": string(siteFiles()["settings/web.yaml"].Data)})
		r.now()
		if out := r.inForce(back); out.RolledBack() {
			r.t.Errorf("%+v", out)
		}
		r.reached()
	})
}

func TestABranchThatGoesBackEndsTheRollout(t *testing.T) {
	inWaves(t, "[{name: canary, peels: 1, soak: 1h}]", func(r *rollingBench) {
		r.next()
		r.reached(0)
		r.moveTo(r.good)
		r.now()
		r.inForce(r.good)
		r.reached()
	})
}

// TestACommitCannotRemoveItsCanary: the commit that drops the waves waits for approval, and then goes out in them. The next one
// does not.
func TestACommitCannotRemoveItsCanary(t *testing.T) {
	inWaves(t, "[{name: canary, peels: 1, soak: 1h, gate: manual}]", func(r *rollingBench) {
		c := r.commit("no waves", map[string]string{"zester.yaml": "", "settings/web.yaml": xForW})
		r.told("approve", status.ApproveRequest{Hash: r.now().Blocked})
		r.at(1, rollout.Soaks)
		r.reached(0)
		r.after(time.Hour)
		r.at(1, rollout.AtGate)
		r.told("approve", status.ApproveRequest{Wave: "canary"})
		r.inForce(c)
		next := r.commit("w again", map[string]string{"settings/web.yaml": string(siteFiles()["settings/web.yaml"].Data)})
		r.now()
		r.inForce(next)
		r.reached()
	})
}

// A peel whose facts put files together that do not merge is counted, whether its place has the revision or not.
func TestPeelsThatStayBehindAreCountedInARollout(t *testing.T) {
	files := siteFiles()
	files["zester.yaml"] = text("on_error: isolate\nwaves: [{name: canary, peels: 1, soak: 1h}]\n")
	files["top.yaml"] = text("base:\n  '*': [common]\n  'web-*': [web]\n  'G@role:clash': [clash]\n")
	files["settings/clash.yaml"] = text("schedule:\n  w: {module: test.ping, cron: '@daily'}\n")
	inBubble(t, files, func(b *bench) {
		ids := webs(4)
		for _, id := range ids {
			b.peel(id, nil)
		}
		b.start()
		b.say(ids[3], wire.Fact(ids[3].Wire()), wire.Facts{Peel: ids[3], Facts: target.Facts{"role": "clash"}, V: wire.Version})
		b.after(10 * time.Second)
		b.commit("x as well", map[string]string{"settings/web.yaml": "schedule:\n  w: {module: test.ping, interval: 1h}\n  x: {module: test.ping, interval: 30m}\n"})
		if out := b.now(); out.Rollout == nil || out.Counts != (status.Counts{Peels: 4, Applied: 3, Failed: 1}) {
			b.t.Errorf("%+v, %+v", out.Counts, out)
		}
	})
}

// TestAFailureOfAnEarlierWaveCountsInALaterOne: the first wave was allowed one, and the second allows none. No peel is
// given the revision with a wave that has failed before it begins.
func TestAFailureOfAnEarlierWaveCountsInALaterOne(t *testing.T) {
	inWaves(t, "[{name: canary, peels: 1, soak: 10m, max_failures: 1}, {name: second, peels: 2, soak: 10m}]", func(r *rollingBench) {
		c := r.next()
		r.after(time.Minute)
		r.applies(r.ids[0], "settings: schedule.x: new")
		r.applies(r.ids[0]) // mends itself, and has failed
		if out := r.at(1, rollout.Soaks); out.Rollout.Failed != 1 {
			r.t.Errorf("%+v", out.Rollout)
		}
		writes := r.writes()
		r.after(10 * time.Minute)
		r.takenBack(c, "wave second failed: 1 of 2 peels, 0 may: "+string(r.ids[0])+": settings: schedule.x: new")
		if got := r.writes() - writes; got != 1 {
			r.t.Errorf("%d writes, want 1: the canary is given the revision in force", got)
		}
	})
}

// TestAPeelKeepsTheRevisionWhenFewerAreOnline: the second wave is counted in fewer peels than the first, and reaches no
// fewer.
func TestAPeelKeepsTheRevisionWhenFewerAreOnline(t *testing.T) {
	inWaves(t, "[{name: first, peels: 50%, soak: 10m}, {name: second, peels: 50%, soak: 10m}]", func(r *rollingBench) {
		r.next()
		r.after(time.Minute)
		r.reached(0, 1)
		r.alter(away, r.ids[2], r.ids[3])
		r.after(10 * time.Minute)
		r.at(2, rollout.Soaks)
		r.reached(0, 1)
	})
}

func TestACanaryByTarget(t *testing.T) {
	inWaves(t, "[{name: canary, peels: 'L@web-03,web-00 or N@none', soak: 10m}, {name: half, peels: 50%}]\nnodegroups: {none: nobody-*}", func(r *rollingBench) {
		c := r.next()
		r.at(1, rollout.Soaks)
		for _, id := range r.ids {
			want := "abcdw"
			if id == "web-03" || id == "web-00" {
				want = "abcdx"
			}
			if got := r.entries(id); got != want {
				r.t.Errorf("%s has %s, want %s", id, got, want)
			}
		}
		r.after(11 * time.Minute)
		r.inForce(c)
	})
}

func TestAWaveThatIsPastItsDeadlineFails(t *testing.T) {
	inWaves(t, "[{name: canary, peels: 'L@web-03', deadline: 30m}]", func(r *rollingBench) {
		r.alter(away, "web-03")
		r.after(2 * time.Minute)
		c := r.next()
		r.after(29 * time.Minute)
		out := r.at(1, rollout.Waits)
		if out.Rollout.Reason != "none of the 1 peels of wave canary is online" || out.Rollout.Until.Sub(out.Rollout.Started) != 30*time.Minute || out.Rollout.Deadline != 30*time.Minute {
			r.t.Errorf("%+v", out.Rollout)
		}
		r.after(2 * time.Minute)
		r.takenBack(c, "wave canary failed: it is past its deadline of 30m0s: none of the 1 peels")
	})
}

func TestAShareOfThePeelsMayFail(t *testing.T) {
	for share, fails := range map[string]bool{"33%": true, "34%": false} {
		t.Run(share, func(t *testing.T) {
			inWaves(t, "[{name: most, peels: 3, soak: 10m, max_failures: "+share+"}]", func(r *rollingBench) {
				c := r.next()
				r.runs(r.ids[1], "x", wire.Result{})
				if fails {
					r.takenBack(c, "wave most failed: 1 of 3 peels, 0 may")
					return
				}
				r.at(1, rollout.Soaks)
				r.after(10 * time.Minute)
				r.inForce(c)
			})
		})
	}
}

// TestAManualGate: only the wave that has passed can be approved, whichever master leads, and the history names the person.
func TestAManualGate(t *testing.T) {
	inWaves(t, "[{name: canary, peels: 1, soak: 10m, gate: manual}, {name: half, peels: 2, gate: manual}]", func(r *rollingBench) {
		c := r.next()
		refused := func(q status.ApproveRequest, want string) {
			r.t.Helper()
			if why := r.ask("approve", q, new(status.Sync)); !strings.Contains(why, want) {
				r.t.Errorf("%+v: %q, want %q", q, why, want)
			}
		}
		refused(status.ApproveRequest{Wave: "canary"}, "it has not passed")
		refused(status.ApproveRequest{Wave: "half"}, "wave canary is under way")
		r.after(11 * time.Minute)
		refused(status.ApproveRequest{Wave: "canary", Reason: "two\nlines"}, "write one line of text")
		refused(status.ApproveRequest{Wave: "canary", Reason: strings.Repeat("x", 301)}, "the limit is 300")
		r.stop()
		r.start()
		r.after(time.Hour)
		if out := r.at(1, rollout.AtGate); !strings.Contains(out.Rollout.Reason, "zester sync approve canary") || out.Rollout.Gate != "manual" {
			r.t.Errorf("%+v", out.Rollout)
		}
		r.reached(0)
		r.told("approve", status.ApproveRequest{Wave: "canary", Reason: "looks good"})
		r.at(2, rollout.AtGate)
		r.reached(0, 1)
		refused(status.ApproveRequest{Wave: "canary"}, "wave half is under way")
		r.told("approve", status.ApproveRequest{Wave: "half"})
		r.inForce(c)
		var h status.History
		if why := r.ask("history", nil, &h); why != "" {
			r.t.Fatal(why)
		}
		if all := h.Attempts[0].Approvals; len(all) != 2 || all[0].What != "gate canary" || all[0].By != "op" || all[0].Reason != "looks good" || all[1].What != "gate half" {
			r.t.Errorf("%+v", all)
		}
	})
}

// A gate that waits lets nothing that fails through.
func TestAWaveThatFailsAtItsGateIsTakenBack(t *testing.T) {
	inWaves(t, "[{name: canary, peels: 1, gate: manual}]", func(r *rollingBench) {
		c := r.next()
		r.after(time.Hour)
		r.at(1, rollout.AtGate)
		r.runs(r.ids[0], "x", wire.Result{})
		r.takenBack(c, " of x failed")
	})
}

// inFreeze runs f with a repo whose freeze holds for the first hour of the test.
func inFreeze(t *testing.T, more string, f func(b *rollingBench)) {
	t.Helper()
	inWaves(t, "[{name: canary, peels: 1, soak: 10m}]\nfreeze: [{calendar: 2026-01-01, only_between: 00:00-01:00"+more+"}]", f)
}

func (r *rollingBench) frozen(c settings.Commit) status.Sync {
	r.t.Helper()
	out := r.status()
	if f := out.Frozen; f == nil || f.Commit != c || !out.Is(status.Frozen) || out.LastGood.Commit != r.good || !strings.Contains(f.Reason, "2026-01-01") {
		r.t.Fatalf("%s is not frozen: %+v", c.Short(), out)
	}
	return out
}

func TestAFreezeHoldsARevisionUntilItEnds(t *testing.T) {
	inFreeze(t, "", func(r *rollingBench) {
		c := r.next()
		if out := r.frozen(c); out.Frozen.Until.UTC().Format(time.DateTime) != "2026-01-01 01:00:00" || out.Rollout != nil {
			r.t.Errorf("%+v", out.Frozen)
		}
		r.reached()
		newer := r.commit("newer, without the freeze", map[string]string{"zester.yaml": "", "settings/web.yaml": xForW + "# newer\n"})
		r.told("approve", status.ApproveRequest{Hash: r.now().Blocked})
		r.frozen(newer) // the freeze of the revision in force counts, for an approved plan too
		r.stop()
		r.start()
		r.after(10 * time.Second)
		r.frozen(newer)
		r.after(75 * time.Minute)
		if out := r.inForce(newer); out.Frozen != nil || out.Is(status.Frozen) {
			r.t.Errorf("%+v", out)
		}
	})
}

func TestAFreezeIsForItsTargets(t *testing.T) {
	inFreeze(t, ", targets: 'db-*'", func(r *rollingBench) {
		c := r.next()
		r.after(11 * time.Minute)
		r.inForce(c)
	})
}

func TestAPersonMayLetARevisionThroughAFreeze(t *testing.T) {
	inFreeze(t, "", func(r *rollingBench) {
		c := r.next()
		r.frozen(c)
		refused := func(q status.ApproveRequest, want string) {
			r.t.Helper()
			if why := r.ask("approve", q, new(status.Sync)); !strings.Contains(why, want) {
				r.t.Errorf("%+v: %q, want %q", q, why, want)
			}
		}
		hash := string(c)[:12]
		refused(status.ApproveRequest{Hash: hash, Override: true}, "give a reason")
		refused(status.ApproveRequest{Hash: hash[:7], Override: true, Reason: "x"}, "8 digits")
		refused(status.ApproveRequest{Hash: string(r.good), Override: true, Reason: "x"}, "the freeze holds "+c.Short())
		refused(status.ApproveRequest{Hash: hash}, "no revision waits for approval")
		r.told("approve", status.ApproveRequest{Hash: hash, Override: true, Reason: "outage 7"})
		r.at(1, rollout.Soaks)
		r.after(11 * time.Minute)
		r.inForce(c)
		refused(status.ApproveRequest{Hash: hash, Override: true, Reason: "x"}, "no freeze holds a revision")
		var h status.History
		if why := r.ask("history", nil, &h); why != "" {
			r.t.Fatal(why)
		}
		if all := h.Attempts[0].Approvals; h.Attempts[0].Commit != c || len(all) != 1 || all[0].What != "freeze" || all[0].By != "op" || all[0].Reason != "outage 7" {
			r.t.Errorf("%+v", h.Attempts[0])
		}
		next := r.commit("the next one", map[string]string{"settings/web.yaml": string(siteFiles()["settings/web.yaml"].Data)})
		r.good = c
		r.now()
		r.frozen(next) // the override was for one revision
	})
}

// A freeze that begins between two waves holds the second.
func TestAFreezeHoldsTheNextWave(t *testing.T) {
	inWaves(t, "[{name: canary, peels: 1, soak: 15m}, {name: half, peels: 2, soak: 10m}]\nfreeze: [{only_between: 00:20-00:50}]", func(r *rollingBench) {
		c := r.next()
		r.after(16 * time.Minute)
		r.at(2, rollout.Soaks)
		r.after(10 * time.Minute)
		if out := r.at(2, rollout.Passed); out.Frozen == nil || out.Frozen.Until.UTC().Format(time.TimeOnly) != "00:50:00" {
			r.t.Errorf("%+v, %+v", out.Frozen, out.Rollout)
		}
		r.reached(0, 1)
		r.told("approve", status.ApproveRequest{Hash: string(c), Override: true, Reason: "now"})
		r.inForce(c)
	})
}
