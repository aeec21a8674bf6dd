package reconciler

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/reconciler/status"
	"github.com/seed-c01c3da5/zester/settings"
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
func (r *rollingBench) at(wave int, state verdict) status.Sync {
	r.t.Helper()
	out := r.status()
	if out.Rollout == nil || out.Rollout.Wave != wave || out.Rollout.State != string(state) || !out.Is(status.RolloutProgressing) || out.LastGood.Commit != r.good {
		r.t.Fatalf("not in wave %d, %s: %+v, %+v", wave, state, out, out.Rollout)
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
		r.at(1, waveWaits)
		r.reached(0)
		r.applies(r.ids[0])
		r.after(10*time.Minute - 10*time.Second)
		r.at(1, waveSoaks)
		r.reached(0)
		r.after(10 * time.Second)
		r.at(2, waveWaits)
		r.reached(0, 1)
		r.applies(r.ids[1])
		r.after(5*time.Minute + 2*time.Second)
		r.inForce(c)
		r.reached(0, 1, 2, 3)
	})
}

func TestAPeelThatJoinsIsGivenTheRevisionOfItsPlace(t *testing.T) {
	inWaves(t, "[{name: canary, peels: 1, soak: 10m}]", func(r *rollingBench) {
		first, last := target.PeelID(""), target.PeelID("")
		for i := 0; first == "" || last == ""; i++ {
			if id := target.PeelID(fmt.Sprintf("web-new-%d", i)); record.Place(id) < record.Place(r.ids[0]) {
				first = id
			} else {
				last = id
			}
		}
		c := r.next()
		r.peel(first, nil)
		r.peel(last, nil)
		r.after(5 * time.Second)
		if a, z := r.entries(first), r.entries(last); a != "abcdx" || z != "abcdw" {
			r.t.Errorf("before the canary's place: %s, behind it: %s", a, z)
		}
		if out := r.at(1, waveSoaks); out.Counts != (status.Counts{Peels: 6, Applied: 6}) || out.Rollout.Peels != 2 {
			r.t.Errorf("%+v, %+v", out.Counts, out.Rollout)
		}
		r.after(10 * time.Minute)
		r.inForce(c)
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
			r.at(1, waveSoaks)
			r.runs(r.ids[0], "x", wire.Result{})
		}, " of x failed"},
		"an error that the peel reports": {func(r *rollingBench) {
			r.at(1, waveSoaks)
			r.applies(r.ids[0], "no zone x")
		}, ": no zone x"},
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
				if out := r.at(1, waveSoaks); out.Rollout.Commit != better {
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
		r.alter(away, r.ids[1])
		c := r.next()
		r.after(4*time.Minute + 50*time.Second)
		out := r.at(1, waveWaits)
		if out.Rollout.Peels != 2 || out.Rollout.Pending != 1 || out.Rollout.Offline != 1 {
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
		if out := r.at(1, waveSoaks); out.Rollout.Failed != 1 || out.Rollout.Applied != 1 {
			r.t.Errorf("%+v", out.Rollout)
		}
		r.after(10 * time.Minute)
		r.takenBack(c, "wave most failed: 1 of 3 peels, 0 may") // which allows none, and looks at the peels of both
	})
}

func TestErrorsFromBeforeTheRolloutTellNothingOfIt(t *testing.T) {
	inWaves(t, "[{name: canary, peels: 1}]", func(r *rollingBench) {
		r.alter(func(a *actor) { a.errors = []string{"settings: schedule.a.new: unknown field"} }, r.ids...)
		r.applies(r.ids[3], "settings: schedule.a.new: unknown field")
		c := r.next()
		r.after(5 * time.Second)
		r.inForce(c)
		r.reached(0, 1, 2, 3)
	})
}

func TestAWaveWithNobodyOnlineWaits(t *testing.T) {
	inWaves(t, "[{name: canary, peels: 1}]", func(r *rollingBench) {
		r.alter(away, r.ids...)
		r.after(2 * time.Minute)
		c := r.next()
		r.after(time.Hour)
		r.at(1, waveWaits)
		r.reached()
		r.alter(func(a *actor) { a.away, a.takes = false, true }, r.ids[2]) // becomes the canary, and those before it have the revision when they come
		r.after(31 * time.Second)
		r.inForce(c)
		r.reached(0, 1, 2, 3)
	})
}

func TestACanaryThatGoesAwayStopsTheWave(t *testing.T) {
	inWaves(t, "[{name: canary, peels: 1}]", func(r *rollingBench) {
		r.alter(away, r.ids[0])
		r.next()
		r.after(time.Hour)
		if out := r.at(1, waveWaits); out.Rollout.Offline != 1 || out.RolledBack() {
			r.t.Errorf("%+v", out.Rollout)
		}
		r.reached(0)
	})
}

func TestWhoeverLeadsNextGoesOnWithTheWave(t *testing.T) {
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
				r.at(1, waveSoaks)
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
		r.at(1, waveSoaks)
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
		if out := r.at(1, wavePassed); out.Rollout.Waves != 2 || !out.Is(status.Suspended) {
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
		r.at(1, waveWaits)
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

func TestANewerCommitTakesThePlaceOfARollout(t *testing.T) {
	inWaves(t, "[{name: canary, peels: 1, soak: 1h}]", func(r *rollingBench) {
		r.next()
		r.after(time.Minute)
		writes := r.writes()
		newer := r.commit("y too", map[string]string{"settings/web.yaml": xForW + "  y: {module: test.ping, interval: 30m}\n"})
		r.now()
		if out := r.at(1, waveSoaks); out.Rollout.Commit != newer {
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

func TestWavesEndWhenACommitNamesNoneAnyMore(t *testing.T) {
	inWaves(t, "[{name: canary, peels: 1, soak: 1h}]", func(r *rollingBench) {
		r.next()
		c := r.commit("no waves", map[string]string{"zester.yaml": ""})
		r.now()
		r.inForce(c)
		r.reached(0, 1, 2, 3)
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
		b.after(5 * time.Second)
		b.commit("x as well", map[string]string{"settings/web.yaml": "schedule:\n  w: {module: test.ping, interval: 1h}\n  x: {module: test.ping, interval: 30m}\n"})
		if out := b.now(); out.Rollout == nil || out.Counts != (status.Counts{Peels: 4, Applied: 3, Failed: 1}) {
			b.t.Errorf("%+v, %+v", out.Counts, out)
		}
	})
}

// TestAReportOfAnEarlierWaveFailsNoLaterOne: the newest report before the second wave begins has a new error, which the
// first wave was allowed. Only what comes after the beginning of a wave counts against it.
func TestAReportOfAnEarlierWaveFailsNoLaterOne(t *testing.T) {
	inWaves(t, "[{name: canary, peels: 1, soak: 10m, max_failures: 1}, {name: second, peels: 2, soak: 10m}]", func(r *rollingBench) {
		r.next()
		r.after(time.Minute)
		r.applies(r.ids[0], "settings: schedule.x: new")
		r.alter(silent, r.ids[1]) // so that no report comes after that one
		r.after(10 * time.Minute)
		if out := r.at(2, waveWaits); out.Rollout.Failed != 0 {
			r.t.Errorf("%+v", out.Rollout)
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
		r.alter(away, r.ids[1], r.ids[2], r.ids[3])
		r.after(10 * time.Minute)
		r.at(2, waveSoaks)
		r.reached(0, 1)
	})
}
