package lint_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/plan/lint"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
	"github.com/seed-c01c3da5/zester/settings/target/peelindex"
)

var from = time.Date(2026, 6, 1, 9, 0, 0, 0, time.UTC)

// warnings lints entries that every peel of a fleet has; without peels, as no fleet has them.
func warnings(t testing.TB, text string, peels int, o lint.Options) []string {
	t.Helper()
	tree := fstest.MapFS{
		"top.yaml":        {Data: []byte("base: {'*': [a]}")},
		"settings/a.yaml": {Data: []byte("schedule:\n" + text)},
	}
	var p *plan.Plan
	var err error
	if peels == 0 {
		p, err = plan.NewCompiler().Check(tree)
	} else {
		fleet := peelindex.New()
		for i := range peels {
			fleet.Put(target.PeelID(fmt.Sprintf("web-%03d", i)), target.Facts{})
		}
		p, err = plan.NewCompiler().Compile(tree, fleet)
	}
	if err != nil {
		t.Fatal(err)
	}
	o.From = from
	lines := []string{}
	for _, e := range lint.New(o).Check(p.DeclaredEntries()) {
		lines = append(lines, strings.TrimPrefix(e.Error(), "settings/a.yaml:"))
	}
	return lines
}

func TestWarnings(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	const nobody, few, many = 0, 9, 10
	for _, c := range []struct {
		name, fields string
		peels        int
		zone         *time.Location
		want         string // nothing for no warning
	}{
		{"an interval and its splay", "interval: 5m, splay: 299s", few, nil, ""},
		{"a splay as long as the interval", "interval: 5m, splay: 5m", few, nil, `splay: 5m0s is not below the 5m0s between two fires`},
		{"as long as the shortest time between fires", `cron: ["0 4 * * *", "7 4 * * *"], splay: 10m`, few, nil, `splay: 10m0s is not below the 7m0s`},
		{"by its other name", "every: 5m, jitter: 1h", few, nil, `jitter: 1h0m0s is not below`},
		{"a lattice", "interval: 5m, interval_from: epoch, splay: 5m", few, nil, `splay: 5m0s is not below the 5m0s`},
		{"one instant has no period", `at: "2026-07-01T00:00:00Z", splay: 5m`, many, nil, ""},

		{"a herd", `cron: "0 12 * * *"`, many, nil, "cron: 10 peels start it at the same moment"},
		{"of a phrase", `when: every day at 12:00`, many, nil, "when: 10 peels start it at the same moment"},
		{"of few peels is none", `cron: "0 12 * * *"`, few, nil, ""},
		{"with a splay is none", `cron: "0 12 * * *", splay: 1m`, many, nil, ""},
		{"intervals are no herd", `interval: 1m`, many, nil, ""},
		{"those of a lattice are", `interval: 1m, interval_from: epoch`, many, nil, "interval: 10 peels start it"},
		{"what is off is none", `cron: "0 12 * * *", enabled: false`, many, nil, ""},

		{"an hour left out", `cron: "30 2 * * *", timezone: America/New_York`, few, nil, "cron: it fires where the clock of America/New_York changes: 2027-03-14 02:00-03:00 is left out (dst_gap says what then)"},
		{"that the entry speaks of", `cron: "30 2 * * *", timezone: America/New_York, dst_gap: run`, few, nil, ""},
		{"an hour that comes twice", `cron: "30 1 * * *", timezone: America/New_York`, few, nil, "changes: 2026-11-01 01:00-02:00 comes twice (dst_overlap says what then)"},
		{"that the entry speaks of too", `cron: "30 1 * * *", timezone: America/New_York, dst_overlap: first`, few, nil, ""},
		{"another day", `cron: "30 2 * * mon-sat", timezone: America/New_York`, few, nil, ""},
		{"another hour", `cron: "30 3 * * *", timezone: America/New_York`, few, nil, ""},
		{"a clock that does not change", `cron: "30 2 * * *", timezone: Asia/Tokyo`, few, nil, ""},
		{"what follows elapsed time", `cron: "*/30 * * * *", timezone: America/New_York`, few, nil, ""},
		{"but not all of it", `cron: ["*/30 * * * *", "15 2 * * *"], timezone: America/New_York`, few, nil, "is left out"},
		{"a zone that nobody knows", `cron: "30 2 * * *"`, few, nil, "the clock of Europe/Berlin changes: 2026-10-25 02:00-03:00 comes twice (dst_overlap says what then), 2027-03-28 02:00-03:00 is left out (dst_gap says what then); name a timezone if it has one"},
		{"a zone that is known", `cron: "30 1 * * *"`, few, berlin, ""},

		{"what has passed", `at: ["2026-05-01T00:00:00Z", "2026-06-01T09:00:00Z"]`, few, nil, "at: it never fires: the last of its times has passed"},
		{"a life that is over", `cron: "0 12 * * *", until: "2026-05-01T00:00:00Z"`, few, nil, "cron: it does not fire within five years"},
		{"a window that is never open", `cron: "0 3 * * *", only_between: "08:00-18:00", splay: 7d`, few, nil, "cron: it does not fire within five years"},
		{"one that only needs another", `needs: {entry: other}`, few, nil, ""},

		{"an argument too many", `interval: 1h, args: {text: a}`, few, nil, "args: test.ping: argument text: unknown; the function takes none"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := warnings(t, "  e: {module: test.ping, "+c.fields+"}\n  other: {module: test.ping, interval: 1h}\n", c.peels, lint.Options{Zone: c.zone})
			switch {
			case c.want == "" && len(got) > 0:
				t.Errorf("%q, want none", got)
			case c.want != "" && (len(got) != 1 || !strings.Contains(got[0], "schedule.e."+c.want) && !strings.Contains(got[0], c.want)):
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
	t.Run("without a fleet", func(t *testing.T) {
		got := warnings(t, "  e: {module: test.pong, interval: 5m, splay: 1h}\n", nobody, lint.Options{})
		want := "[2:15: schedule.e.module: no peel has the function test.pong; did you mean \"test.ping\"? 2:47: schedule.e.splay: 1h0m0s is not below the 5m0s between two fires]"
		if fmt.Sprint(got) != want {
			t.Errorf("%v, want %s", got, want)
		}
	})
	t.Run("an entry of peel.yaml", func(t *testing.T) {
		static := map[string]strictyaml.Pos{"e": {File: "peel.yaml", Line: 7, Column: 3}}
		for fields, want := range map[string]string{
			"module: test.ping, interval: 5m": "2:3: schedule.e: it takes the place of the entry of the same name in peel.yaml:7:3",
			"enabled: false":                  "2:3: schedule.e: it switches off the entry of the same name in peel.yaml:7:3",
		} {
			if got := warnings(t, "  e: {"+fields+"}\n", few, lint.Options{Static: static}); len(got) != 1 || got[0] != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
	})
}

// What signatures of different peels share is one entry, and what differs is not.
func TestAnEntryCountsOnAllPeelsThatHaveIt(t *testing.T) {
	tree := fstest.MapFS{
		"top.yaml":            {Data: []byte("base: {'*': [all], 'web-*': [web], 'db-*': [db]}")},
		"settings/all.yaml":   {Data: []byte("schedule: {herd: {module: test.ping, cron: '0 12 * * *'}, part: {module: test.ping, cron: '0 12 * * *'}}")},
		"settings/web.yaml":   {Data: []byte("schedule: {part: {cron: '5 12 * * *'}}")},
		"settings/db.yaml":    {Data: []byte("schedule: {own: {module: test.ping, cron: '0 12 * * *'}}")},
		"settings/other.yaml": {Data: []byte("schedule: {unused: {module: test.pong, interval: 1h}}")},
	}
	fleet := peelindex.New()
	for i := range 6 {
		fleet.Put(target.PeelID(fmt.Sprintf("web-%d", i)), target.Facts{})
		fleet.Put(target.PeelID(fmt.Sprintf("db-%d", i)), target.Facts{})
	}
	p, err := plan.NewCompiler().Compile(tree, fleet)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, w := range p.DeclaredEntries() {
		got[fmt.Sprintf("%s %s", w.Entry.Name, w.Pos)] += w.Peels
	}
	want := map[string]int{
		"herd settings/all.yaml:1:12": 12, "part settings/all.yaml:1:59": 6, "part settings/web.yaml:1:12": 6, "own settings/db.yaml:1:12": 6,
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
	found := lint.New(lint.Options{From: from}).Check(p.DeclaredEntries())
	if len(found) != 1 || found[0].Path != "schedule.herd.cron" {
		t.Errorf("%v", found)
	}
}

// What a linter remembers of one revision is not taken for what another says.
func TestALinterThatHasSeenAnotherRevisionSaysTheSame(t *testing.T) {
	const shared = "schedule: {s: {module: test.ping, interval: 5m, splay: 5m}, herd: {module: test.ping, cron: '0 4 * * *'}}\ntoken: hunter2\n"
	compiler, linter := plan.NewCompiler(), lint.New(lint.Options{From: from})
	for _, c := range []struct {
		name, text   string
		peels, found int
	}{
		{"the first", "password: hunter2\n", 9, 3},
		{"another file", "password: hunter3\nsecret: hunter4\nschedule: {n: {module: test.pong, interval: 1h}}\n", 9, 5},
		{"a file mended", "password: env:DB\n", 9, 2},
		{"more peels", "password: env:DB\n", 10, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			fleet := peelindex.New()
			for i := range c.peels {
				fleet.Put(target.PeelID(fmt.Sprintf("web-%02d", i)), target.Facts{})
			}
			p, err := compiler.Compile(fstest.MapFS{
				"top.yaml":        {Data: []byte("base: {'*': [a, b]}")},
				"settings/a.yaml": {Data: []byte(shared)},
				"settings/b.yaml": {Data: []byte(c.text)},
			}, fleet)
			if err != nil {
				t.Fatal(err)
			}
			got, want := linter.All(p), lint.New(lint.Options{From: from}).All(p)
			if got.Error() != want.Error() || len(got) != c.found {
				t.Errorf("%v, want %v", got, want)
			}
		})
	}
}

// 1,000 files with five entries each, on 10,000 peels of 50 kinds: compiled and checked.
func BenchmarkLint(b *testing.B) {
	tree := fstest.MapFS{}
	var top strings.Builder
	top.WriteString("base:\n")
	for i := range 1000 {
		var text strings.Builder
		text.WriteString("schedule:\n")
		for e := range 5 {
			fmt.Fprintf(&text, "  e-%d-%d: {module: cmd.run, args: {command: uptime}, cron: '%d %d * * *', timezone: Europe/London, splay: 5m}\n", i, e, i%60, i%24)
		}
		tree[fmt.Sprintf("settings/f%d.yaml", i)] = &fstest.MapFile{Data: []byte(text.String())}
		fmt.Fprintf(&top, "  'G@kind:%d and not x%d': [f%d]\n", i%50, i, i)
	}
	tree["top.yaml"] = &fstest.MapFile{Data: []byte(top.String())}
	fleet := peelindex.New()
	for i := range 10_000 {
		fleet.Put(target.PeelID(fmt.Sprintf("peel-%05d", i)), target.Facts{"kind": fmt.Sprint(i % 50)})
	}
	for _, c := range []struct {
		name  string
		fleet *peelindex.Index
	}{{"files=1000", nil}, {"files=1000/peels=10000", fleet}} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				compiler := plan.NewCompiler()
				var p *plan.Plan
				var err error
				if c.fleet == nil {
					p, err = compiler.Check(tree)
				} else {
					p, err = compiler.Compile(tree, c.fleet)
				}
				if err != nil {
					b.Fatal(err)
				}
				if n := len(p.DeclaredEntries()); n != 5000 {
					b.Fatal(n)
				}
				lint.New(lint.Options{From: from}).Check(p.DeclaredEntries())
			}
		})
	}
}

func TestANumberThatTwoEntriesHave(t *testing.T) {
	p, err := plan.NewCompiler().Check(fstest.MapFS{
		"top.yaml":        {Data: []byte("base: {'?': [a, b]}")},
		"settings/a.yaml": {Data: []byte("schedule:\n  x: {api: {id: 1}, module: test.ping, interval: 5m}\n  y: {api: {id: 2}, module: test.ping, interval: 5m}\n")},
		"settings/b.yaml": {Data: []byte("schedule:\n  x: {interval: 9m}\n  copy: {api: {id: 2}, module: test.ping, interval: 7m}\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, w := range lint.New(lint.Options{}).All(p) {
		got = append(got, w.Error())
	}
	const want = "settings/b.yaml:3:15: schedule.copy.api: y at settings/a.yaml:3:3 has the number 2 too, and requests for the number are refused: remove the field api of the copy"
	if !slices.Contains(got, want) || strings.Count(strings.Join(got, "\n"), "the number") != 2 {
		t.Errorf("%q", got)
	}
}
