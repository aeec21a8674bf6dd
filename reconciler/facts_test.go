package reconciler

import (
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A factsBench is a fleet of ten peels, of which each has a and, if its fact os is debian, d, e and f as well.
type factsBench struct {
	*bench
	ids []target.PeelID
}

const factsEntries = "schedule:\n  d: {module: test.ping, interval: 1h}\n  e: {module: test.echo, args: {text: e}, interval: 1h}\n  f: {module: test.version, interval: 1h}\n"

func withFacts(t *testing.T, rules string, f func(b *factsBench)) {
	t.Helper()
	files := fstest.MapFS{
		"top.yaml":          text("base:\n  '*': [all]\n  'G@os:debian': [deb]\n"),
		"settings/all.yaml": text("schedule:\n  a: {module: test.ping, interval: 1h}\n"),
		"settings/deb.yaml": text(factsEntries),
		"zester.yaml":       text(rules),
	}
	inBubble(t, files, func(b *bench) {
		r := &factsBench{b, webs(10)}
		for _, id := range r.ids {
			r.peel(id, target.Facts{"os": "debian"})
		}
		r.start()
		f(r)
	})
}

// os has peels report another value of the fact.
func (b *factsBench) os(name string, ids ...target.PeelID) {
	for _, id := range ids {
		b.say(id, wire.Fact(id.Wire()), wire.Facts{Peel: id, Facts: target.Facts{"os": name}, V: wire.Version})
	}
	b.after(20 * time.Second)
}

// have checks the entries of peels.
func (b *factsBench) have(entries string, ids ...target.PeelID) {
	b.t.Helper()
	for _, id := range ids {
		if got := b.entries(id); got != entries {
			b.t.Errorf("%s has %q, want %q", id, got, entries)
		}
	}
}

// All peels report another fact at once, which no target names. Nothing is taken until a person has seen it.
func TestFactsThatWouldEmptyTheFleetWait(t *testing.T) {
	withFacts(t, "", func(b *factsBench) {
		b.os("Debian GNU/Linux", b.ids...)
		b.have("adef", b.ids...)
		out := b.status()
		c := conditionOf(out, status.GuardBlocked)
		if out.Facts == nil || out.Facts.Peels != 10 || !c.Status || c.Reason != status.FactsChanged || !strings.Contains(c.Message, "remove: 10%") || out.Counts.Applied != 10 {
			t.Fatalf("%+v", out)
		}
		var p status.Plan
		if why := b.ask("plan", nil, &p); why != "" || p.Waits != status.WaitFacts || p.Hash != out.Facts.Hash || p.Change == nil || p.Change.Removed != 30 {
			t.Errorf("%s %+v", why, p)
		}
		if why := b.ask("approve", status.ApproveRequest{Hash: strings.Repeat("0", 64)}, &status.Sync{}); why == "" {
			t.Error("another hash was approved")
		}
		b.stop() // the next master waits too
		b.start()
		b.have("adef", b.ids...)
		out = b.told("approve", status.ApproveRequest{Hash: out.Facts.Hash[:12]})
		b.have("a", b.ids...)
		if out.Facts != nil || out.Is(status.GuardBlocked) || out.Counts.Applied != 10 {
			t.Errorf("approved: %+v", out)
		}
	})
}

// The facts are as before: nothing waits. The same change is not let out by an approval of another one.
func TestFactsThatComeBackWaitNoLonger(t *testing.T) {
	withFacts(t, "", func(b *factsBench) {
		b.os("other", b.ids...)
		first := b.status().Facts
		b.os("debian", b.ids[:7]...)
		second := b.status().Facts
		if first == nil || second == nil || second.Peels != 3 || second.Hash == first.Hash {
			t.Fatalf("%+v, then %+v", first, second)
		}
		if why := b.ask("approve", status.ApproveRequest{Hash: first.Hash}, &status.Sync{}); why == "" {
			t.Error("the change that was undone is approved")
		}
		b.os("debian", b.ids[8:]...)
		b.have("adef", b.ids...)
		if out := b.status(); out.Facts == nil || out.Facts.Peels != 1 {
			t.Errorf("what waits goes out without a person: %+v", out.Facts)
		}
		b.os("debian", b.ids[7])
		if out := b.status(); out.Facts != nil || out.Is(status.GuardBlocked) {
			t.Errorf("%+v", out)
		}
	})
}

// Peels change one by one. Each is within the limits, and within a day not all together. No master runs for most of the day.
func TestFactsThatChangeOneByOneDoNotEmptyTheFleet(t *testing.T) {
	withFacts(t, "", func(b *factsBench) {
		b.os("other", b.ids[0])
		b.have("a", b.ids[0])
		b.os("debian", b.ids[0]) // there and back: it loses no more than it had
		b.os("other", b.ids[0])
		b.have("a", b.ids[0])
		b.os("other", b.ids[1])
		b.have("adef", b.ids[1])
		if out := b.status(); out.Facts == nil || out.Facts.Peels != 1 {
			t.Fatalf("%+v", out)
		}
		b.stop()
		b.after(25 * time.Hour)
		b.start()
		b.have("adef", b.ids[1])
		b.os("debian", b.ids[1])
		b.os("other", b.ids[2])
		b.have("a", b.ids[2])
	})
}

// Not more than the limits goes within any day, also around the end of the first one.
func TestWhatFactsTakeIsLimitedInEachDay(t *testing.T) {
	if testing.Short() {
		t.Skip("days of a bus in fake time")
	}
	withFacts(t, "limits: {remove: 20%}\n", func(b *factsBench) {
		b.os("other", b.ids[0])
		b.after(23 * time.Hour)
		b.os("other", b.ids[1])
		b.have("a", b.ids[:2]...)
		b.after(2 * time.Hour)
		b.os("other", b.ids[2])
		b.have("a", b.ids[2])
		b.os("other", b.ids[3])
		b.have("adef", b.ids[3])
		if out := b.status(); out.Facts == nil || out.Facts.Peels != 1 {
			t.Errorf("%+v", out)
		}
	})
}

// New peels and new entries are served while facts wait. A commit that would take what facts would take waits, and goes on by
// itself when these no longer wait.
func TestACommitDoesNotBringAlongWhatFactsTake(t *testing.T) {
	withFacts(t, "", func(b *factsBench) {
		b.os("other", b.ids[:4]...)
		b.peel("web-20", target.Facts{"os": "debian"})
		b.after(5 * time.Second)
		b.have("adef", "web-20")
		c := b.commit("another", map[string]string{"settings/deb.yaml": factsEntries + "  g: {module: test.ping, interval: 2h}\n"})
		out := b.now()
		if got := conditionOf(out, status.GuardBlocked); out.Blocked == "" || !strings.Contains(got.Message, "new facts") {
			t.Fatalf("%+v", out)
		}
		b.have("adef", b.ids...)
		b.os("debian", b.ids[:3]...)
		b.os("debian", b.ids[3])
		b.after(5 * time.Second)
		if out = b.status(); out.LastGood.Commit != c || out.Facts != nil {
			t.Errorf("%+v", out)
		}
		b.have("adefg", b.ids...)
	})
}

// Facts change while a revision goes out in waves: peels in the wave and outside keep what they have, and the wave goes on.
func TestFactsThatChangeDuringARolloutWait(t *testing.T) {
	withFacts(t, "waves: [{name: canary, peels: 1, soak: 10m}]\n", func(b *factsBench) {
		c := b.commit("more", map[string]string{"settings/deb.yaml": factsEntries + "  g: {module: test.ping, interval: 2h}\n"})
		b.now()
		b.have("adefg", b.ids[0])
		b.os("other", b.ids...)
		b.after(6 * time.Minute)
		b.have("adefg", b.ids[0])
		b.have("adef", b.ids[1:]...)
		out := b.status()
		if out.Facts == nil || out.Facts.Peels != 10 || out.Rollout == nil || out.Rollout.Commit != c {
			t.Fatalf("%+v", out)
		}
		b.after(10 * time.Minute)
		b.have("adefg", b.ids[0])
		b.have("adef", b.ids[1:]...)
		if out = b.status(); out.LastGood.Commit != c || out.Facts == nil {
			t.Fatalf("%+v", out)
		}
		if out = b.told("approve", status.ApproveRequest{Hash: out.Facts.Hash}); out.Facts != nil {
			t.Errorf("%+v", out)
		}
		b.have("a", b.ids...)
	})
}

// A person has seen what facts take with a revision, and approves the revision.
func TestAnApprovedRevisionBringsFactsAlong(t *testing.T) {
	withFacts(t, "", func(b *factsBench) {
		b.os("other", b.ids[:4]...)
		c := b.commit("another", map[string]string{"settings/deb.yaml": factsEntries + "  g: {module: test.ping, interval: 2h}\n"})
		out := b.now()
		if out.Facts == nil || out.Blocked == "" || out.Blocked == out.Facts.Hash {
			t.Fatalf("%+v", out)
		}
		if out = b.told("approve", status.ApproveRequest{Hash: out.Blocked}); out.Facts != nil || out.LastGood.Commit != c {
			t.Errorf("%+v", out)
		}
		b.have("a", b.ids[:4]...)
		b.have("adefg", b.ids[4:]...)
	})
}

func TestAPeelWhoseFactsCombineFilesThatDoNotMergeStaysBehindAlone(t *testing.T) {
	files := siteFiles()
	files["top.yaml"] = text("base:\n  '*': [common]\n  'web-*': [web]\n  'G@os:debian': [deb]\n  'G@role:clash': [clash]\n")
	files["settings/deb.yaml"] = text("schedule:\n  deb: {module: test.ping, cron: '@daily'}\n")
	files["settings/clash.yaml"] = text("schedule:\n  deb: {module: test.ping, interval: 1h}\n")
	inBubble(t, files, func(b *bench) {
		facts := func(id target.PeelID, facts target.Facts) {
			b.say(id, wire.Fact(id.Wire()), wire.Facts{Peel: id, Facts: facts, V: wire.Version})
			b.after(15 * time.Second) // a change of one peel is taken every 10 s
		}
		b.peel("db-01", target.Facts{"os": "debian"})
		b.start()
		before := b.document("db-01")
		facts("db-01", target.Facts{"os": "debian", "role": "clash"})
		b.peel("web-01", nil)
		b.after(5 * time.Second)
		out := b.status()
		if c := conditionOf(out, status.CompileFailed); !c.Status || c.Reason != "Isolated" || !strings.Contains(c.Message, "db-01") || !out.Is(status.Ready) {
			t.Errorf("%+v", out)
		}
		if got := b.entries("web-01"); got != "abcdw" || b.document("db-01").Generation != before.Generation {
			t.Errorf("web-01 has %v", got)
		}
		var page status.SyncPeelsPage
		b.ask("peels", nil, &page)
		if p := page.Peels[0]; p.Peel != "db-01" || p.State != status.Failed || !strings.Contains(strings.Join(p.Errors, ""), "settings/clash.yaml:2:") {
			t.Errorf("%+v", p)
		}
		b.stop()
		b.start() // the next term compiles the revision in force anew
		b.peel("web-02", nil)
		b.after(5 * time.Second)
		if out, got := b.status(), b.entries("web-02"); out.Counts.Failed != 1 || conditionOf(out, status.CompileFailed).Reason != "Isolated" || got != "abcdw" {
			t.Errorf("web-02 has %v, %+v", got, out)
		}
		facts("db-01", target.Facts{"role": "clash"})
		if out, got := b.status(), b.entries("db-01"); out.Errors != nil || got != "abcddeb" {
			t.Errorf("db-01 has %v, %+v", got, out)
		}
	})
}
