package rules

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/master/notify"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/policy"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A world makes steps, each 5 s after the last unless step says otherwise, and gives all receivers that are not down the messages that are due.
type world struct {
	t        *testing.T
	now      time.Time
	step     time.Duration
	rules    []Rule
	problems []verdict.Problem
	silences []api.Silence
	down     map[string]bool // receivers
	stale    bool
	blind    bool
	names    []string

	alerts  map[string]Alert
	outcome Outcome
	told    []string // receiver, phase, ID and number of peels
}

func newWorld(t *testing.T, rules ...Rule) *world {
	t.Helper()
	return &world{t: t, step: 5 * time.Second, now: time.Date(2026, 6, 1, 9, 0, 0, 0, time.UTC), rules: rules, names: []string{"ops"}, down: map[string]bool{}, alerts: map[string]Alert{}}
}

func rule(name string, on ...policy.Trouble) Rule {
	return Rule{Alert: policy.Alert{Name: name, On: on, MinPeels: policy.Quantity{Count: 1, Percent: 100}}, Peels: 1000}
}

func problems(kind verdict.Kind, entry string, peels ...target.PeelID) (all []verdict.Problem) {
	for _, p := range peels {
		all = append(all, verdict.Problem{Kind: kind, Entry: entry, Peel: p, Text: "of " + string(p)})
	}
	return all
}

func peels(n int) (ids []target.PeelID) {
	for i := range n {
		ids = append(ids, target.PeelID(fmt.Sprintf("db-%05d", i)))
	}
	return ids
}

// pass makes the steps of a duration. Each step begins with alerts that were encoded and decoded, as after a change of masters.
func (w *world) pass(d time.Duration) *world {
	w.t.Helper()
	for end := w.now.Add(d); !w.now.After(end); w.now = w.now.Add(w.step) {
		before := maps.Clone(w.alerts)
		w.alerts, w.outcome = Step(w.alerts, Input{Now: w.now, Rules: w.rules, Problems: w.problems, Silences: w.silences, Receivers: w.names, Stale: w.stale, Blind: w.blind})
		for _, id := range slices.Sorted(maps.Keys(w.alerts)) {
			a := w.alerts[id]
			for _, name := range Receivers(&a, w.rules, w.names) {
				if m, due := a.Due(name, w.now); due && !w.down[name] {
					w.told = append(w.told, fmt.Sprintf("%s %s %s %d", name, m.Phase, m.ID, m.Peels))
					a = a.With(name, a.Now())
				}
			}
			if old, known := before[id]; known && old.Equal(a) {
				w.alerts[id] = a
				continue
			}
			data, err := canon.Marshal(a)
			var back Alert
			if err == nil {
				err = canon.Unmarshal(data, &back)
			}
			back.Silence, back.Old = a.Silence, a.Old
			if err != nil || !back.Equal(a) {
				w.t.Fatalf("stored as %s, which is %+v and not %+v, %v", data, back, a, err)
			}
			w.alerts[id] = back
		}
	}
	return w
}

// was checks the lines of told since the last check.
func (w *world) was(want ...string) {
	w.t.Helper()
	if !slices.Equal(w.told, want) {
		w.t.Errorf("told\n%s\nwant\n%s", strings.Join(w.told, "\n"), strings.Join(want, "\n"))
	}
	w.told = nil
}

func TestAnAlertBeginsGrowsAndEnds(t *testing.T) {
	w := newWorld(t, rule("all", policy.Failed))
	w.problems = problems(verdict.Failed, "backup", peels(1)...)
	w.pass(time.Minute).was("ops began all/backup 1")
	w.problems = problems(verdict.Failed, "backup", peels(2)...)
	w.pass(2 * time.Minute).was() // no message about more peels comes within 5 minutes of another
	w.pass(5 * time.Minute).was("ops grew all/backup 2")
	w.problems = problems(verdict.Failed, "backup", peels(3)...)
	w.pass(time.Hour).was() // not twice as many
	for _, n := range []int{4, 9, 150} {
		w.problems = problems(verdict.Failed, "backup", peels(n)...)
		w.pass(10 * time.Minute).was(fmt.Sprint("ops grew all/backup ", n))
	}
	w.problems = problems(verdict.Failed, "backup", peels(3)...)
	w.pass(time.Hour)
	w.problems = problems(verdict.Failed, "backup", peels(160)...)
	w.pass(10 * time.Minute)
	w.problems = problems(verdict.Failed, "backup", peels(3)...)
	w.pass(time.Hour).was() // it had as many before
	w.problems = nil
	w.pass(endAfter - 5*time.Second).was()
	w.pass(0).was("ops ended all/backup 3") // one step, endAfter after the trouble was gone
	w.pass(2 * memory)
	if w.was(); len(w.alerts) != 0 {
		t.Errorf("%d alerts are kept", len(w.alerts))
	}
}

// A receiver that is away for two days gets the message about the end; for one that never comes back the alert is not kept for ever.
func TestAnAlertIsKeptUntilItsReceiverIsTold(t *testing.T) {
	w := newWorld(t, rule("all", policy.Failed))
	w.step = time.Minute
	w.problems = problems(verdict.Failed, "backup", peels(1)...)
	w.pass(time.Hour).was("ops began all/backup 1")
	w.down["ops"], w.problems = true, nil
	w.pass(2 * memory).was()
	w.down["ops"] = false
	w.pass(time.Hour).was("ops ended all/backup 1")
	w.problems = problems(verdict.Failed, "backup", peels(1)...)
	w.pass(time.Hour).was("ops began all/backup 1")
	w.down["ops"], w.problems = true, nil
	w.pass(memoryMost - time.Hour)
	if len(w.alerts) != 1 {
		t.Errorf("%d alerts are kept", len(w.alerts))
	}
	w.pass(3 * time.Hour)
	if w.was(); len(w.alerts) != 0 {
		t.Errorf("%d alerts are kept for ever", len(w.alerts))
	}
}

// A group that grows by one peel a step, as when the runs of a fleet fail one after the other, is told a few times.
func TestAGroupThatGrowsSteadilyIsToldRarely(t *testing.T) {
	w := newWorld(t, rule("all", policy.Failed))
	for n := range 500 {
		w.problems = problems(verdict.Failed, "backup", peels(n+1)...)
		w.pass(0)
	}
	w.was("ops began all/backup 1", "ops grew all/backup 61", "ops grew all/backup 122", "ops grew all/backup 244", "ops grew all/backup 488")
}

func TestAnAlertGrowsByKindsOfTrouble(t *testing.T) {
	w := newWorld(t, rule("all", policy.Failed, policy.Missed, policy.Late))
	fails, misses := problems(verdict.Failed, "backup", "db-1"), problems(verdict.Missed, "backup", "db-1")
	w.problems = fails
	w.pass(time.Minute).was("ops began all/backup 1")
	w.problems = append(slices.Clip(fails), misses...)
	w.pass(0).was("ops grew all/backup 1") // at once
	for range 10 {                         // each kind is told once, also when it comes and goes
		w.problems = misses
		w.pass(4 * time.Minute)
		w.problems = fails
		w.pass(4 * time.Minute)
	}
	w.was()
	w.problems = nil
	w.pass(time.Hour).was("ops ended all/backup 1")
	w.problems = misses
	w.pass(time.Minute).was("ops began all/backup 1")
	w.problems = fails
	w.pass(time.Minute).was("ops grew all/backup 1") // the alert began again, with missed only
}

// A silence holds back the message about a new kind of trouble; a receiver that was away gets one message about all.
func TestKindsOfTroubleWaitForReceiversAndSilences(t *testing.T) {
	w := newWorld(t, rule("all", policy.Failed, policy.Missed))
	w.names, w.down["pager"] = []string{"ops", "pager"}, true
	w.problems = problems(verdict.Failed, "backup", "db-1", "db-2")
	w.pass(time.Minute).was("ops began all/backup 2")
	w.silences = []api.Silence{{ID: "s1", Match: "peel:db-1"}}
	w.problems = append(w.problems, problems(verdict.Missed, "backup", "db-1")...)
	w.pass(time.Minute).was() // only the silenced peel has missed a fire
	w.silences = nil
	w.pass(0).was("ops grew all/backup 2")
	w.down["pager"] = false
	w.pass(time.Minute).was("pager began all/backup 2")
}

func TestATroubleHasToLastForTheTimeOfTheRule(t *testing.T) {
	r := rule("slow", policy.Missed)
	r.For = 10 * time.Minute
	w := newWorld(t, r)
	w.problems = problems(verdict.Missed, "backup", "db-1")
	w.pass(10*time.Minute - 10*time.Second).was()
	w.problems = nil
	w.pass(time.Minute)
	if len(w.alerts) != 0 {
		t.Errorf("what did not last is kept: %v", w.alerts)
	}
	w.problems = problems(verdict.Missed, "backup", "db-1")
	w.pass(10*time.Minute - 5*time.Second).was()
	w.pass(5 * time.Second).was("ops began slow/backup 1")
	if a := w.alerts["slow/backup"]; w.now.Sub(a.Began) < 10*time.Minute {
		t.Errorf("it began at %v, now it is %v: the trouble was there before", a.Began, w.now)
	}
}

func TestAnAlertNeedsEnoughPeels(t *testing.T) {
	share, count := rule("share", policy.NotReporting), rule("count", policy.NotReporting)
	share.MinPeels, count.MinPeels = policy.Quantity{Count: policy.MaxPeels, Percent: 2}, policy.Quantity{Count: 5, Percent: 100}
	share.Peels = 101 // 2 % of 101 are 2.02, which is rounded up to 3
	w := newWorld(t, share, count)
	w.problems = problems(verdict.NotReporting, "", peels(2)...)
	w.pass(time.Minute).was()
	w.problems = problems(verdict.NotReporting, "", peels(3)...)
	w.pass(time.Minute).was("ops began share:not_reporting 3")
	w.problems = problems(verdict.NotReporting, "", peels(5)...)
	w.pass(time.Minute).was("ops began count:not_reporting 5")
}

func TestATargetAndAGlobOfARule(t *testing.T) {
	r := rule("db", policy.Failed)
	r.Entries, r.Selects = "backup-*", func(id target.PeelID) bool { return strings.HasPrefix(string(id), "db-") }
	w := newWorld(t, r)
	w.problems = slices.Concat(problems(verdict.Failed, "backup-1", "web-1"), problems(verdict.Failed, "report", "db-1"), problems(verdict.Late, "backup-1", "db-1"))
	w.pass(time.Minute).was()
	w.problems = append(w.problems, problems(verdict.Failed, "backup-1", "db-1", "web-2")...)
	w.pass(time.Minute).was("ops began db/backup-1 1")
}

func TestTroublesOfOneEntryAreOneAlert(t *testing.T) {
	w := newWorld(t, rule("all", policy.Failed, policy.Missed, policy.Late))
	w.problems = slices.Concat(problems(verdict.Failed, "backup", "db-1", "db-2"), problems(verdict.Missed, "backup", "db-2", "db-3"), problems(verdict.Late, "backup", "db-1"))
	w.pass(time.Minute).was("ops began all/backup 3")
	a := w.alerts["all/backup"]
	if fmt.Sprint(a.Troubles) != "[failed late missed]" || fmt.Sprint(a.Names) != "[db-1 db-2 db-3]" || a.Text != "of db-1" {
		t.Errorf("%+v", a.Seen)
	}
	if fmt.Sprint(w.outcome.Groups["all/backup"]) != "[db-1 db-2 db-3]" {
		t.Errorf("groups %v", w.outcome.Groups)
	}
}

// An alert that begins again two days after its end, for which it was kept, ends as soon as before.
func TestAnAlertThatBeginsAgainAfterDaysDoesNotFlap(t *testing.T) {
	w := newWorld(t, rule("all", policy.Failed))
	w.step = time.Minute
	w.problems = problems(verdict.Failed, "backup", peels(1)...)
	w.pass(time.Hour)
	w.down["ops"], w.problems = true, nil
	w.pass(2 * memory)
	w.problems = problems(verdict.Failed, "backup", peels(1)...)
	w.pass(time.Hour)
	w.problems = nil
	w.pass(endAfter + time.Minute)
	if a := w.alerts["all/backup"]; a.Episode != 2 || a.Lasts() {
		t.Errorf("%+v", a)
	}
}

// An entry that fails and succeeds in turn causes a few messages, and then one alert that lasts.
func TestAFlappingTroubleCausesFewMessages(t *testing.T) {
	for period, most := range map[time.Duration]int{time.Minute: 1, 20 * time.Minute: 5, time.Hour: 7, 4 * time.Hour: 9} {
		w := newWorld(t, rule("all", policy.Failed))
		w.step = 20 * time.Second
		for range 3 * 24 * time.Hour / (2 * period) {
			w.problems = problems(verdict.Failed, "backup", "db-1")
			w.pass(period)
			w.problems = nil
			w.pass(period)
		}
		if n := len(w.told); n == 0 || n > most {
			t.Errorf("every %v: %d messages in three days, want at most %d: %q", period, n, most, w.told)
		}
	}
}

// Whether an alert begins again soon is counted from its end, however long it had lasted.
func TestAnAlertThatLastedForDaysComesBackSoon(t *testing.T) {
	w := newWorld(t, rule("all", policy.Failed))
	w.step = time.Minute
	trouble := problems(verdict.Failed, "backup", "db-1")
	w.problems = trouble
	w.pass(3 * 24 * time.Hour)
	w.problems = nil
	w.pass(10 * time.Minute)
	w.was("ops began all/backup 1", "ops ended all/backup 1")

	w.problems = trouble
	w.pass(time.Minute)
	w.problems = nil
	w.pass(19 * time.Minute)
	w.was("ops began all/backup 1")
	w.pass(2 * time.Minute)
	w.was("ops ended all/backup 1")
}

func TestAReceiverThatWasAwayLearnsTheNewestStateOnce(t *testing.T) {
	w := newWorld(t, rule("all", policy.Failed))
	w.names, w.down["pager"] = []string{"ops", "pager"}, true
	w.problems = problems(verdict.Failed, "backup", peels(5)...)
	w.pass(time.Minute)
	w.problems = problems(verdict.Failed, "backup", peels(50)...)
	w.pass(time.Hour).was("ops began all/backup 5", "ops grew all/backup 50")
	w.down["pager"] = false
	w.pass(time.Minute).was("pager began all/backup 50")
	w.down["pager"] = true
	w.problems = nil
	w.pass(time.Hour).was("ops ended all/backup 50")
	w.problems = problems(verdict.Failed, "backup", "db-1")
	w.pass(time.Hour).was("ops began all/backup 1")
	w.down["pager"] = false
	w.pass(time.Hour).was() // it has got the message that the alert began
	w.problems = nil
	w.pass(time.Hour).was("ops ended all/backup 1", "pager ended all/backup 1")
	w.down["pager"] = true
	w.problems = problems(verdict.Failed, "backup", "db-1")
	w.pass(time.Hour)
	w.problems = nil
	w.pass(3*time.Hour).was("ops began all/backup 1", "ops ended all/backup 1")
	w.down["pager"] = false
	w.pass(time.Minute).was("pager ended all/backup 1") // nothing is lost: the message says from when to when
	w.names = append(w.names, "new")
	w.pass(time.Minute).was() // a new receiver gets nothing about alerts that have ended
}

func TestASilenceHoldsBackMessagesExceptTheEnd(t *testing.T) {
	until := func(match string) []api.Silence { return []api.Silence{{ID: "s1", Match: match}} }
	for _, match := range []string{"all", "backup", "all/backup", "back*", "a*/b*", "peel:db-*", "*"} {
		w := newWorld(t, rule("all", policy.Failed))
		w.silences = until(match)
		w.problems = problems(verdict.Failed, "backup", peels(2)...)
		w.pass(time.Hour).was()
		if a := w.alerts["all/backup"]; a.Silence != "s1" || !a.Lasts() {
			t.Errorf("%s: %+v", match, a)
		}
		w.silences = nil
		w.pass(time.Minute).was("ops began all/backup 2")
		w.silences = until(match)
		w.problems = problems(verdict.Failed, "backup", peels(20)...)
		w.pass(time.Hour).was()
		w.problems = nil
		w.pass(time.Hour).was("ops ended all/backup 20")
		w.problems = problems(verdict.Failed, "backup", peels(2)...)
		w.pass(time.Hour)
		w.problems = nil
		w.pass(3 * time.Hour).was() // it was silenced from beginning to end
	}
	w := newWorld(t, rule("all", policy.Failed))
	w.silences = append(until("other"), until("peel:web-*")...)
	w.problems = problems(verdict.Failed, "backup", "db-1", "web-1")
	w.pass(time.Minute).was("ops began all/backup 2") // db-1 is not silenced
}

// TestNoSilenceIsAboutBreakGlass holds that who uses the credential of the data directory cannot hide that.
func TestNoSilenceIsAboutBreakGlass(t *testing.T) {
	for _, match := range []string{"*", "all", "all:*", "peel:*", "break_glas?", "all:break_glass"} {
		w := newWorld(t, rule("all", policy.BreakGlass, policy.Stalled))
		w.silences = []api.Silence{{ID: "s1", Match: match}}
		w.problems = []verdict.Problem{{Kind: verdict.BreakGlass, Text: "used"}, {Kind: verdict.Stalled, Text: "no key"}}
		w.pass(time.Hour)
		if a, ok := w.alerts["all:break_glass"]; !ok || a.Silence != "" || !a.Told["ops"].On {
			t.Errorf("%s: %+v", match, a)
		}
		if a := w.alerts["all:stalled"]; (match == "*" || match == "all" || match == "all:*") && a.Silence != "s1" {
			t.Errorf("%s: %+v", match, a)
		}
	}
}

func TestASilenceOfPeelsCountsTheOthers(t *testing.T) {
	r := rule("many", policy.Failed)
	r.MinPeels = policy.Quantity{Count: 3, Percent: 100}
	w := newWorld(t, r)
	w.silences = []api.Silence{{ID: "s1", Match: "peel:db-0000*"}}
	w.problems = problems(verdict.Failed, "backup", peels(12)...) // two of them are not silenced
	w.pass(time.Minute).was()
	w.problems = problems(verdict.Failed, "backup", peels(13)...)
	w.pass(time.Minute).was("ops began many/backup 13")
	if n := w.alerts["many/backup"].Size; n != 3 {
		t.Errorf("%d peels are not silenced, want 3", n)
	}
}

func TestUnknownProblemsChangeNoAlert(t *testing.T) {
	w := newWorld(t, rule("all", policy.Failed, policy.Stalled))
	w.problems = append(problems(verdict.Failed, "backup", "db-1"), verdict.Problem{Kind: verdict.Stalled, Text: "no key"})
	w.pass(time.Minute).was("ops began all/backup 1", "ops began all:stalled 0")
	w.problems, w.stale, w.blind = nil, true, true
	w.pass(2 * time.Hour).was()
	w.problems = append(problems(verdict.Failed, "other", "db-1"), verdict.Problem{Kind: verdict.Refused})
	w.pass(time.Hour).was()
	w.problems, w.stale = nil, false
	w.pass(endAfter + time.Minute).was("ops ended all/backup 1")
	w.blind = false
	w.pass(endAfter + time.Minute).was("ops ended all:stalled 0")
}

// An alert that waits goes on where it was.
func TestAnAlertWaitsThroughATimeOfUnknownProblems(t *testing.T) {
	slow := rule("slow", policy.Failed)
	slow.For = 10 * time.Minute
	w := newWorld(t, slow)
	w.problems = problems(verdict.Failed, "backup", "db-1")
	w.pass(6 * time.Minute)
	w.problems, w.stale = nil, true
	w.pass(time.Minute).was()
	w.problems, w.stale = problems(verdict.Failed, "backup", "db-1"), false
	w.pass(4 * time.Minute).was("ops began slow/backup 1")
}

func TestASilencedAlertIsNotRepeated(t *testing.T) {
	w := newWorld(t, rule("all", policy.Failed))
	w.problems = problems(verdict.Failed, "backup", "db-1")
	w.pass(time.Minute)
	for silences, want := range map[string]bool{"*": false, "other": true} {
		w.silences = []api.Silence{{ID: "s", Match: silences}}
		w.pass(0)
		a := w.alerts["all/backup"]
		if _, repeats := a.Repeat("ops", w.now); repeats != want {
			t.Errorf("with a silence of %s: %v", silences, repeats)
		}
	}
}

// An entry may have the name of a trouble.
func TestAnEntryWithTheNameOfATroubleIsAnAlertOfItsOwn(t *testing.T) {
	w := newWorld(t, rule("all", policy.Failed, policy.Stalled))
	w.problems = append(problems(verdict.Failed, "stalled", "db-1"), verdict.Problem{Kind: verdict.Stalled})
	w.pass(time.Minute).was("ops began all/stalled 1", "ops began all:stalled 0")
}

func TestAnAlertWithoutItsRuleEndsForReceiversThatHaveGotIt(t *testing.T) {
	r := rule("all", policy.Failed)
	r.Notify = []string{"ops", "nobody"}
	w := newWorld(t, r)
	w.names = []string{"ops", "chat"}
	w.problems = problems(verdict.Failed, "backup", "db-1")
	w.pass(time.Minute).was("ops began all/backup 1")
	w.rules = []Rule{rule("other", policy.Missed)}
	w.pass(10 * time.Second).was("ops ended all/backup 1")
}

func TestOnePeelCannotFlood(t *testing.T) {
	w := newWorld(t, rule("a", policy.Failed, policy.Missed), rule("b", policy.Failed, policy.NotReporting))
	for i := range 1000 {
		w.problems = append(w.problems, problems(verdict.Failed, fmt.Sprintf("entry-%04d", i), "liar")...)
	}
	w.pass(time.Minute)
	if len(w.told) != 2*maxOfPeel+2 || len(w.alerts) != 2*maxOfPeel+2 || w.outcome.Dropped != 2*(1000-maxOfPeel) {
		t.Errorf("%d messages, %d alerts, %d dropped", len(w.told), len(w.alerts), w.outcome.Dropped)
	}
	for id, text := range map[string]string{"a:too_many_alerts": "990 more entries of liar have troubles", "b:too_many_alerts": "990 more entries"} {
		if a := w.alerts[id]; !a.Lasts() || a.Peels != 1 || a.Names[0] != "liar" || !strings.HasPrefix(a.Text, text) {
			t.Errorf("%s: %+v", id, a.Seen)
		}
	}
	w.told, w.problems = nil, append(w.problems, problems(verdict.Failed, "zz-real", "db-1", "liar")...)
	w.pass(time.Minute).was("ops began a/zz-real 2", "ops began b/zz-real 2")
	w.problems = nil
	w.pass(time.Hour)
	if len(w.told) != 2*maxOfPeel+2+2 || len(w.alerts) != 2*maxOfPeel+2+2 {
		t.Errorf("%d ends are told, %d alerts are kept", len(w.told), len(w.alerts))
	}
}

// A peel that reports new names in each step does not prevent the alerts of other peels, and causes few messages.
func TestOnePeelWithFreshNamesCannotFlood(t *testing.T) {
	for _, away := range []bool{false, true} { // the receiver, so that the alerts that end keep their room
		w := newWorld(t, rule("all", policy.Failed))
		w.down["ops"] = away
		steps, hours := 0, 3
		var real []target.PeelID
		for range hours * 12 {
			real = append(real, target.PeelID(fmt.Sprint("honest-", len(real))))
			for range 5 { // in 5 minutes
				w.problems = nil
				for i := range 100 {
					w.problems = append(w.problems, problems(verdict.Failed, fmt.Sprintf("fresh-%05d-%02d", steps, i), "liar")...)
				}
				for _, p := range real {
					w.problems = append(w.problems, problems(verdict.Failed, "backup-of-"+string(p), p)...)
				}
				w.pass(0)
				w.now = w.now.Add(55 * time.Second)
				steps++
			}
			if a := w.alerts["all/backup-of-"+string(real[len(real)-1])]; !a.Lasts() {
				t.Fatalf("receiver away: %v: the alert of %s does not begin: there are %d", away, real[len(real)-1], len(w.alerts))
			}
		}
		count := func(what string) (n int) {
			for _, line := range w.told {
				if strings.Contains(line, what) {
					n++
				}
			}
			return n
		}
		if away {
			if len(w.told) > 0 || len(w.alerts) != len(real)+maxOfPeel+1 {
				t.Errorf("%d messages, %d alerts", len(w.told), len(w.alerts))
			}
			continue
		}
		if n := count("began all/fresh"); n > hours*maxOfPeel || n < (hours-1)*maxOfPeel {
			t.Errorf("%d alerts of the liar began in %d hours", n, hours)
		}
		if n := count("began all:too_many_alerts"); n != 1 {
			t.Errorf("%d alerts say that there are more", n)
		}
		w.problems, w.told = nil, nil
		w.pass(10 * time.Minute)
		if n := count("ended all:too_many_alerts"); n != 1 {
			t.Errorf("%d messages say that there are no more", n)
		}
	}
}

func TestAlertsOfARuleAreBounded(t *testing.T) {
	w := newWorld(t, rule("all", policy.Failed, policy.Stalled))
	for p := range 40 {
		for i := range 100 {
			w.problems = append(w.problems, problems(verdict.Failed, fmt.Sprintf("entry-%02d-%02d", p, i), target.PeelID(fmt.Sprintf("liar-%02d", p)))...)
		}
	}
	w.pass(10 * time.Second)
	if len(w.alerts) != maxAlone+1 {
		t.Errorf("%d alerts about entries of single peels and those without room", len(w.alerts))
	}
	for i := range 1200 {
		w.problems = append(w.problems, problems(verdict.Failed, fmt.Sprintf("wide-%04d", i), peels(12)[i%2:]...)...)
	}
	w.problems = append(w.problems, problems(verdict.Failed, "everywhere", peels(500)[3:]...)...)
	w.problems = append(w.problems, verdict.Problem{Kind: verdict.Stalled, Text: "no key"})
	w.pass(10 * time.Second)
	if len(w.alerts) != MaxOfRule+2 || w.outcome.Dropped == 0 {
		t.Errorf("%d alerts, %d dropped", len(w.alerts), w.outcome.Dropped)
	}
	for _, id := range []string{"all/everywhere", "all:stalled", "all:too_many_alerts"} {
		if a := w.alerts[id]; !a.Lasts() {
			t.Errorf("there is no room for %s", id)
		}
	}
	w.problems = nil
	w.pass(0)
	w.now = w.now.Add(time.Hour)
	w.pass(0)
	w.problems = problems(verdict.Failed, "later", "db-1")
	w.told = nil
	w.pass(time.Minute).was("ops began all/later 1") // the alerts that have ended make room
}

// Each peel of a large fleet has a trouble of its own, as after a bad release. Some alerts name one, and one alert names all others; a
// trouble that many share has an alert all the same.
func TestTenThousandPeelsWithATroubleEach(t *testing.T) {
	w := newWorld(t, rule("all", policy.Failed))
	for _, p := range peels(10_000) {
		w.problems = append(w.problems, problems(verdict.Failed, "backup-of-"+string(p), p)...)
	}
	w.pass(time.Minute)
	more := w.alerts["all:too_many_alerts"]
	if len(w.told) != maxAlone+1 || w.outcome.Dropped != 10_000-maxAlone || !more.Lasts() || more.Peels != 10_000-maxAlone {
		t.Errorf("%d messages, %d dropped: %+v", len(w.told), w.outcome.Dropped, more.Seen)
	}
	w.told, w.problems = nil, append(w.problems, problems(verdict.Failed, "report", peels(10_000)...)...)
	w.pass(time.Minute).was("ops began all/report 10000")
	w.told, w.problems = nil, nil
	w.pass(10 * time.Minute)
	if len(w.told) != maxAlone+2 {
		t.Errorf("%d messages about the ends", len(w.told))
	}
}

// A fleet whose entries fail and succeed in turn causes a few messages about each, and then alerts that last.
func TestAFlappingFleetCausesFewMessages(t *testing.T) {
	w := newWorld(t, rule("all", policy.Failed))
	w.step = time.Minute
	const entries = 30
	for range 24 {
		w.problems = nil
		for i := range entries {
			w.problems = append(w.problems, problems(verdict.Failed, fmt.Sprint("entry-", i), peels(1000)[i*30:i*30+30]...)...)
		}
		w.pass(30 * time.Minute)
		w.problems = nil
		w.pass(30 * time.Minute)
	}
	if n := len(w.told); n < entries || n > 7*entries {
		t.Errorf("%d messages about %d entries in a day", n, entries)
	}
}

// An alert counts for the peel of its group for which fewest count, so three peels with the same entries have three times the room of one.
func TestPeelsWithTheSameEntriesShareTheirRoom(t *testing.T) {
	w := newWorld(t, rule("all", policy.Failed))
	for i := range 3 * maxOfPeel {
		w.problems = append(w.problems, problems(verdict.Failed, fmt.Sprintf("entry-%04d", i), peels(3)...)...)
	}
	w.pass(10 * time.Second)
	if len(w.alerts) != 3*maxOfPeel || w.outcome.Dropped != 0 {
		t.Errorf("%d alerts, %d dropped", len(w.alerts), w.outcome.Dropped)
	}
	w.problems = append(w.problems, problems(verdict.Failed, "one-more", peels(3)...)...)
	w.pass(10 * time.Second)
	if a := w.alerts["all:too_many_alerts"]; !a.Lasts() || a.Peels != 3 {
		t.Errorf("%+v", a)
	}
}

// Three peels have three entries more than room. The rule wants two peels for an alert, but the alert about those entries needs one.
func TestTheAlertAboutEntriesWithoutRoom(t *testing.T) {
	r := rule("many", policy.Failed)
	r.MinPeels = policy.Quantity{Count: 2, Percent: 100}
	w := newWorld(t, r)
	w.silences = []api.Silence{{ID: "s1", Match: "peel:db-0000[01]"}}
	for i := range 3*maxOfPeel + 3 {
		w.problems = append(w.problems, problems(verdict.Failed, fmt.Sprintf("entry-%04d", i), peels(3)...)...)
	}
	w.problems = append(w.problems, problems(verdict.Failed, "of-one", "db-00001")...)
	w.pass(0)
	a := w.alerts["many:too_many_alerts"]
	if !a.Lasts() || a.Silence != "" || a.Size != 3 || a.Peels != 3 || w.outcome.Dropped != 9 || !strings.HasPrefix(a.Text, "3 more entries of db-00000") {
		t.Errorf("%+v", a)
	}
	w.silences[0].Match = "peel:db-*"
	if w.pass(0); w.alerts["many:too_many_alerts"].Silence != "s1" {
		t.Errorf("%+v", w.alerts["many:too_many_alerts"])
	}
}

func TestChangesThatAreStored(t *testing.T) {
	at := time.Date(2026, 6, 1, 9, 0, 0, 0, time.UTC)
	a := Alert{Rule: "all", Entry: "backup", Peel: "db-1", Kinds: []verdict.Kind{verdict.Failed}, Progress: Progress{Began: at, Size: 1}}
	for what, change := range map[string]func(*Alert){
		"kinds": func(b *Alert) { b.Kinds = []verdict.Kind{verdict.Failed, verdict.Missed} },
		"peel":  func(b *Alert) { b.Peel = "" },
		"size":  func(b *Alert) { b.Size = 2 },
		"told":  func(b *Alert) { *b = b.With("ops", b.Now()) },
	} {
		b := a
		if change(&b); a.Equal(b) {
			t.Errorf("a change of the %s is not stored", what)
		}
	}
	b := a
	b.Began, b.Text = at.In(time.FixedZone("", 3600)), "exit code 3"
	if !a.Equal(b) {
		t.Error("a text or a zone is stored at once")
	}
}

func TestGlobsOfSilences(t *testing.T) {
	for match, ok := range map[string]bool{"*": true, "backups/*": true, "peel:web-*": true, "": false, "peel:": false, "[a": false, strings.Repeat("x", 301): false} {
		if err := CheckMatch(match); (err == nil) != ok {
			t.Errorf("%.40q: %v", match, err)
		}
	}
}

// FuzzStep feeds problems that peels may make up, and checks the bounds.
func FuzzStep(f *testing.F) {
	f.Add(uint64(1), "backup", "of db-1", 20)
	f.Add(uint64(7), "../x\x00\n", "\xff\u202e", 300)
	f.Fuzz(func(t *testing.T, seed uint64, entry, text string, n int) {
		r := rand.New(rand.NewPCG(seed, 1))
		all := rule("all", policy.Troubles...)
		all.For = time.Duration(r.IntN(3)) * 10 * time.Second
		alerts, now := map[string]Alert{}, time.Unix(int64(seed%1e9), 0)
		for range 20 {
			var found []verdict.Problem
			for range min(max(n, 0), 500) {
				kind := verdict.Kind(policy.Troubles[r.IntN(len(policy.Troubles))])
				p := verdict.Problem{Kind: kind, Entry: entry[:r.IntN(len(entry)+1)] + fmt.Sprint(r.IntN(300)), Peel: target.PeelID(fmt.Sprint("p", r.IntN(3))), Text: text}
				if r.IntN(4) == 0 {
					p.Entry = ""
				}
				found = append(found, p)
			}
			now = now.Add(time.Duration(r.IntN(600)) * time.Second)
			next, outcome := Step(alerts, Input{Now: now, Rules: []Rule{all}, Problems: found, Receivers: []string{"ops"}, Stale: r.IntN(5) == 0, Blind: r.IntN(5) == 0})
			if len(next) > MaxOfRule+len(policy.Troubles)+1 || outcome.Dropped < 0 {
				t.Fatalf("%d alerts, %d dropped", len(next), outcome.Dropped)
			}
			for id, a := range next {
				if id != a.ID() || a.Lasts() && a.Episode == 0 || len(a.Text) > maxText || len(a.Names) > maxNames {
					t.Fatalf("%q: %+v", id, a)
				}
				if m, due := a.Due("ops", now); due {
					if m.Phase != notify.AlertEnded && a.Told["ops"].On && a.Told["ops"].Size >= a.Size && a.Told["ops"].Kinds >= len(a.Kinds) {
						t.Fatalf("told again: %+v", a)
					}
					next[id] = a.With("ops", a.Now())
				}
			}
			alerts = next
		}
	})
}

func BenchmarkStep(b *testing.B) {
	in := Input{Now: time.Now(), Receivers: []string{"ops"}, Rules: []Rule{rule("all", policy.Failed, policy.Missed), rule("away", policy.NotReporting)}}
	for _, p := range peels(10_000) {
		in.Problems = append(in.Problems, verdict.Problem{Kind: verdict.NotReporting, Peel: p}, verdict.Problem{Kind: verdict.Failed, Entry: "backup", Peel: p})
	}
	alerts := map[string]Alert{}
	b.ReportAllocs()
	for b.Loop() {
		alerts, _ = Step(alerts, in)
	}
}

// An alert gives its room back once an hour has passed since it began, however short ago it ended. Before that it does
// not, so that a peel cannot make ten alerts each few minutes.
func TestAnAlertGivesItsRoomBackAnHourAfterItBegan(t *testing.T) {
	for lasts, gives := range map[time.Duration]bool{10 * time.Minute: false, 70 * time.Minute: true} {
		w := newWorld(t, rule("all", policy.Failed))
		for i := range maxOfPeel {
			w.problems = append(w.problems, problems(verdict.Failed, fmt.Sprintf("entry-%d", i), "db-1")...)
		}
		w.pass(lasts)
		w.problems = nil
		w.pass(endAfter + time.Minute)
		w.problems = problems(verdict.Failed, "one-more", "db-1")
		w.pass(0)
		a, has := w.alerts["all/one-more"]
		if has != gives || gives && !a.Lasts() || (w.outcome.Dropped > 0) == gives {
			t.Errorf("after %s: %v, %d dropped", lasts, has, w.outcome.Dropped)
		}
	}
}
