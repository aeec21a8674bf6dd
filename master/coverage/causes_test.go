package coverage_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/coverage/cause"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/peel"
	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// hash returns a commit that begins with a letter.
func hash(letter string) settings.Commit { return settings.Commit(strings.Repeat(letter, 40)) }

// commit publishes the settings of a peel at a revision: the entry backup, which an origin has changed last, and another entry.
func (t *rig) commit(id target.PeelID, revision, origin, other string) *settings.Document {
	t.Helper()
	backup := cron("*/5 * * * *")
	backup["args"] = map[string]any{"origin": origin}
	rest := cron("0 3 * * *")
	rest["args"] = map[string]any{"origin": other}
	return t.revision(id, revision, map[string]any{"backup": backup, "other": rest}, map[string]settings.Origin{
		"backup": {Commit: hash(origin), Author: "Ada <ada@example.com>"}, "other": {Commit: hash(other), Author: "Lee <lee@example.com>"},
	})
}

// revision publishes the settings of a peel at a revision.
func (t *rig) revision(id target.PeelID, revision string, schedule map[string]any, origins map[string]settings.Origin) *settings.Document {
	t.Helper()
	raw, err := canon.Marshal(map[string]any{"schedule": schedule})
	if err != nil {
		t.Fatal(err)
	}
	d := &settings.Document{
		V: settings.OpenVersion, Peel: id, Commit: hash(revision), Generation: uint64(time.Now().UnixMilli()), Digest: settings.DigestOf(raw), Settings: raw, Origins: origins,
	}
	data, err := d.Encode()
	if err == nil {
		_, err = t.js.Publish(t.Context(), wire.SettingsKey(id.Wire()), data)
	}
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return d
}

// runs adds runs of backup every five minutes in [from, until), and reports them. If they fail, it says more of the newest eight.
func (h *host) runs(from, until string, good bool) {
	h.t.Helper()
	h.entry("other")
	if three := hhmm(h.t, "03:00"); three.Before(hhmm(h.t, until)) {
		h.fire("other", three, ledger.Fire{Outcome: ledger.Ran})
	}
	e := h.entry("backup")
	for at := hhmm(h.t, from); at.Before(hhmm(h.t, until)); at = at.Add(five) {
		f := ledger.Fire{Outcome: ledger.Ran}
		if !good {
			f.Outcome = ledger.Failed
			note := ledger.Note{Era: 1, Nominal: at, Outcome: f.Outcome, Started: at, Error: "exit status 1"}
			e.Notes = append([]ledger.Note{note}, e.Notes...)
			e.Notes = e.Notes[:min(len(e.Notes), ledger.MaxNotes)]
		}
		h.fire("backup", at, f)
	}
	h.report(0)
}

func (t *rig) wantCause(finding cause.Finding, word cause.Word, text string) {
	t.Helper()
	if finding.Word != word || finding.Text != text {
		t.Errorf("%s: %s: %s\nwant %s: %s", time.Now().UTC().Format("15:04:05"), finding.Word, finding.Text, word, text)
	}
}

func TestTheCommitThatAFailureFollowed(t *testing.T) {
	bubble(t, func(t *rig) {
		table, stop := t.master()
		h := t.host("web-1", t.commit("web-1", "a", "a", "a"))
		well := t.host("web-2", t.commit("web-2", "a", "a", "a"))
		for _, one := range []*host{h, well} {
			one.entry("backup")
			one.entry("other")
			one.report(0)
		}
		t.until("02:58", "web-1", "web-2")
		h.runs("00:05", "02:58", true)
		well.runs("00:05", "02:58", true)
		t.wantCause(table.Cause(verdict.Failed, "backup"), cause.None, "there is no problem")

		t.until("03:02", "web-1", "web-2")
		h.applies(t.commit("web-1", "b", "b", "a"))
		t.until("03:06", "web-1", "web-2")
		h.runs("03:00", "03:01", true)
		h.runs("03:05", "03:06", false)
		well.runs("03:00", "03:06", true)
		t.wantCause(table.Cause(verdict.Failed, "backup"), cause.Possible, "possibly commit bbbbbbbb by Ada: it reached 1 of 1 peel at most 2h before")

		// After an hour its runs tell. The report has the first failure no more.
		t.until("04:32", "web-1", "web-2")
		h.runs("03:10", "04:32", false)
		well.runs("03:10", "04:32", true)
		t.problems(table, "failed backup web-1")
		without := 35 + 12 + 7 + 35 // of web-1 up to 03:00, and of web-2
		likely := fmt.Sprintf("likely commit bbbbbbbb by Ada: 7 of 7 runs failed with it, 0 of %d without", without)
		t.wantCause(table.Cause(verdict.Failed, "backup"), cause.Likely, likely)

		// A later commit that leaves the entry alone makes no difference.
		h.applies(t.commit("web-1", "c", "b", "c"))
		h.report(0)
		t.wantCause(table.Cause(verdict.Failed, "backup"), cause.Likely, likely)

		// Another master that starts now sees only that: it does not know when b came.
		stop()
		table, stop = t.master()
		t.until("04:33", "web-1", "web-2")
		h.report(0)
		well.report(0)
		t.wantCause(table.Cause(verdict.Failed, "backup"), cause.None, "no commit explains it: none is known that reached the peels before")
		stop()
	})
}

// A master that starts after the commit knows when it came, as the newest settings were written for it.
func TestAMasterThatStartsLaterFindsTheCommit(t *testing.T) {
	bubble(t, func(t *rig) {
		h := t.host("web-1", t.commit("web-1", "a", "a", "a"))
		t.until("03:02", "web-1")
		h.applies(t.commit("web-1", "b", "b", "a"))
		t.until("05:02", "web-1")
		h.begins("backup", hhmm(t, "00:00"))
		h.runs("00:05", "03:02", true)
		h.runs("03:05", "05:02", false)
		table, _ := t.master()
		t.alive(0, "web-1")
		t.wantCause(table.Cause(verdict.Failed, "backup"), cause.Likely, "likely commit bbbbbbbb by Ada: 13 of 13 runs failed with it, 0 of 35 without")
		t.wantCause(table.Cause(verdict.Missed, "backup"), cause.None, "there is no problem")
		t.wantCause(table.Cause(verdict.Failed, "nothing"), cause.None, "there is no problem")
	})
}

func TestCommitsThatDoNotExplainAFailure(t *testing.T) {
	bubble(t, func(t *rig) {
		table, _ := t.master()
		hosts := map[target.PeelID]*host{}
		ids := []target.PeelID{"web-1", "web-2", "web-3", "web-4", "web-5"}
		for _, id := range ids {
			hosts[id] = t.host(id, t.commit(id, "a", "a", "a"))
			hosts[id].entry("backup")
			hosts[id].entry("other")
			hosts[id].report(0)
		}
		t.until("02:58", ids...)
		for _, h := range hosts {
			h.runs("00:05", "02:58", true)
		}
		// One peel fails before the commit.
		t.until("03:06", ids...)
		hosts["web-1"].runs("03:00", "03:06", false)
		hosts["web-1"].applies(t.commit("web-1", "b", "b", "a"))
		t.wantCause(table.Cause(verdict.Failed, "backup"), cause.None, "no commit explains it: it began before bbbbbbbb reached 1 of 1 peel")
		// It runs well again, all peels get the commit, and then one fails.
		t.until("03:11", ids...)
		hosts["web-1"].runs("03:10", "03:11", true)
		for _, id := range ids[1:] {
			hosts[id].applies(t.commit(id, "b", "b", "a"))
		}
		t.until("04:22", ids...)
		for _, id := range ids {
			hosts[id].runs("03:15", "04:11", true)
			hosts[id].runs("04:15", "04:22", id != "web-1")
		}
		t.problems(table, "failed backup web-1")
		t.wantCause(table.Cause(verdict.Failed, "backup"), cause.None, "no commit explains it: 4 of 5 peels with bbbbbbbb are well")
	})
}

// A line of a crontab that failed under cron goes on failing as an entry: the commit that imported it is not to blame.
func TestAnEntryThatFailedFromItsFirstRunHasNoCommitToBlame(t *testing.T) {
	bubble(t, func(t *rig) {
		table, _ := t.master()
		h := t.host("web-1", t.commit("web-1", "a", "a", "a"))
		h.entry("backup")
		h.entry("other")
		h.report(0)
		t.until("03:06", "web-1")
		h.runs("03:00", "03:06", false)
		t.problems(table, "failed backup web-1")
		const began = "it has failed since it began: no run has succeeded"
		t.wantCause(table.Cause(verdict.Failed, "backup"), cause.None, began)
		if f := table.Cause(verdict.Failed, "backup"); f.Commit != "" || f.Common != "it has failed since it began" {
			t.Errorf("%+v", f)
		}
		// The commit that should have mended it does not get the blame either.
		h.applies(t.commit("web-1", "b", "b", "a"))
		t.until("03:16", "web-1")
		h.runs("03:10", "03:16", false)
		t.wantCause(table.Cause(verdict.Failed, "backup"), cause.None, began)
		// One run succeeds, and the next commit breaks it.
		t.until("03:21", "web-1")
		h.entry("backup").Succeeded = hhmm(t, "03:20")
		h.runs("03:20", "03:21", true)
		h.applies(t.commit("web-1", "c", "c", "a"))
		t.until("03:26", "web-1")
		h.runs("03:25", "03:26", false)
		t.wantCause(table.Cause(verdict.Failed, "backup"), cause.Possible, "possibly commit cccccccc by Ada: it reached 1 of 1 peel at most 2h before")
	})
}

func TestTheRevisionAfterWhichPeelsDoNotReport(t *testing.T) {
	bubble(t, func(t *rig) {
		table, _ := t.master()
		hosts := []*host{t.host("web-1", t.commit("web-1", "a", "a", "a")), t.host("web-2", t.commit("web-2", "a", "a", "a"))}
		t.until("00:10", "web-1", "web-2")
		for _, h := range hosts {
			h.applies(t.commit(h.id, "b", "b", "a"))
		}
		t.until("00:11", "web-1", "web-2")
		for _, h := range hosts {
			h.entry("backup")
			h.entry("other")
			h.report(0)
		}
		t.alive(25*time.Minute, "web-1", "web-2") // connected, and silent
		t.wantCause(table.Cause(verdict.NotReporting, ""), cause.Possible, "possibly commit bbbbbbbb: it reached 2 of 2 peels at most 2h before")
		time.Sleep(5 * time.Minute)
		t.problems(table, "not_reporting web-1", "not_reporting web-2")
		t.wantCause(table.Cause(verdict.NotReporting, ""), cause.None, explained)
	})
}

// Of five peels the three of a site are cut off.
func TestWhatPeelsThatDoNotReportHaveInCommon(t *testing.T) {
	bubble(t, func(t *rig) {
		table, _ := t.master()
		for id, site := range map[target.PeelID]string{"web-1": "berlin", "web-2": "berlin", "web-3": "berlin", "web-4": "paris", "web-5": "paris"} {
			facts := target.Facts{"site": site, "ipv4": []any{"10.1.2." + string(id[4:])}, "long": strings.Repeat(site, 20)}
			data, err := wire.Facts{Peel: id, Facts: facts, V: wire.Version}.Encode()
			if err != nil {
				t.Fatal(err)
			}
			t.say(id, &nats.Msg{Subject: wire.Fact(id.Wire()), Data: data})
			t.host(id, t.commit(id, "a", "a", "a")).runs("00:00", "00:01", true)
		}
		t.until("00:04", "web-4", "web-5")
		t.wantCause(table.Cause(verdict.NotReporting, ""), cause.None,
			"all 3 silent peels are in site:berlin, and none of 2 others is; "+explained)
		if text := table.Cause(verdict.Failed, "backup").Common; text != "" {
			t.Errorf("failures have %q in common", text)
		}
	})
}

const explained = "no commit explains it: the peel was stopped or down, or a person ran the entry"

// ada publishes the settings of host-0 at a revision that changes its only entry.
func (t *rig) ada(revision string, entry map[string]any) {
	t.Helper()
	t.revision("host-0", revision, map[string]any{"backup": entry}, map[string]settings.Origin{"backup": {Commit: hash(revision), Author: "Ada <ada@example.com>"}})
}

// The wave of a bad commit is rolled back as soon as its canary has failed. The failure stays until the next run, and is that of the
// commit that ran.
func TestACanaryThatWasRolledBackFailedByItsCommit(t *testing.T) {
	bubble(t, func(t *rig) {
		table, stop := t.master()
		good, bad := cron("*/5 * * * *"), cron("*/5 * * * *")
		bad["module"] = "test.fail"
		t.ada("a", good)
		t.peel(peel.Options{ID: "host-0", DataDir: t.TempDir(), Zone: time.UTC})
		time.Sleep(time.Until(hhmm(t, "01:04:30")))
		t.ada("b", bad)
		time.Sleep(time.Until(hhmm(t, "01:05:10")))
		t.ada("a", good)
		time.Sleep(time.Minute)
		t.problems(table, "failed backup host-0")
		t.wantCause(table.Cause(verdict.Failed, "backup"), cause.Possible, "possibly commit bbbbbbbb by Ada: it reached 1 of 1 peel at most 2h before")
		// Another master has not seen b come. It names b all the same, and not the commit that came back.
		stop()
		table, _ = t.master()
		t.problems(table, "failed backup host-0")
		t.wantCause(table.Cause(verdict.Failed, "backup"), cause.None, "it ran with commit bbbbbbbb, and it is not known when that reached the peels")
	})
}

// What a stop, a kill, or a person has caused is no commit's fault.
func TestNoCommitIsNamedForWhatIsExplained(t *testing.T) {
	bubble(t, func(t *rig) {
		table, _ := t.master()
		long := map[string]any{"module": "test.sleep", "args": map[string]any{"duration": "3m"}, "cron": "*/5 * * * *", "timezone": "UTC"}
		t.ada("a", long)
		o := peel.Options{ID: "host-0", DataDir: t.TempDir(), Zone: time.UTC}
		stop := t.peel(o)
		time.Sleep(time.Until(hhmm(t, "00:06")))
		stop() // during the run of 00:05
		stop = t.peel(o)
		time.Sleep(30 * time.Second)
		t.problems(table, "failed backup host-0")
		t.wantCause(table.Cause(verdict.Failed, "backup"), cause.None, explained)

		stop()
		time.Sleep(time.Until(hhmm(t, "00:12"))) // that of 00:10 is missed
		t.problems(table, "not_reporting host-0")
		t.wantCause(table.Cause(verdict.NotReporting, ""), cause.None, explained)
		t.peel(o)
		time.Sleep(time.Minute)
		t.problems(table, "failed backup host-0", "missed backup host-0")
		t.wantCause(table.Cause(verdict.Missed, "backup"), cause.None, explained)

		time.Sleep(time.Until(hhmm(t, "00:18:30")))
		t.problems(table)
		t.ada("b", map[string]any{"module": "test.fail", "cron": "0 5 * * *", "timezone": "UTC"})
		time.Sleep(time.Minute)
		t.order("host-0", "schedule.run", map[string]any{"entry": "backup"})
		time.Sleep(time.Minute)
		t.problems(table) // a run by hand is no failure of the entry
	})
}
