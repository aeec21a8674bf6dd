package spread_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/plan/lint"
	"github.com/seed-c01c3da5/zester/reconciler/plan/spread"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/schedule/forecast"
	"github.com/seed-c01c3da5/zester/settings/target"
	"github.com/seed-c01c3da5/zester/settings/target/peelindex"
)

var june = time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)

// fleet is sixty peels web-… and sixty db-….
func fleet() *peelindex.Index {
	index := peelindex.New()
	for i := range 60 {
		index.Put(target.PeelID(fmt.Sprintf("web-%02d", i)), nil)
		index.Put(target.PeelID(fmt.Sprintf("db-%02d", i)), nil)
	}
	return index
}

func options(entries string) spread.Options {
	return spread.Options{Entries: entries, Within: time.Hour, Forecast: forecast.Options{From: june, For: 24 * time.Hour, Zone: time.UTC}}
}

// repo writes a repo with git.
func repo(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	git(t, dir, "", "init", "-q")
	return dir
}

func git(t *testing.T, dir, in string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(in)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s\n%s", args, err, out, in)
	}
}

func propose(t *testing.T, dir string, o spread.Options) *spread.Proposal {
	t.Helper()
	p, err := spread.Propose(os.DirFS(dir), fleet(), o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const top = "base:\n  '*': [base]\n  'web-*': [web.jobs]\n"

const base = `# all hosts
schedule:
  hourly:
    module: test.ping
    cron: "0 * * * *"   # on the hour
  report: {module: test.ping, cron: "0 6 * * *", splay: 2m}
  poll: {module: test.ping, interval: 10m}
  scan:
    module: test.ping
    interval: 1h
    interval_from: epoch
  check: {module: test.ping, interval: 1h, interval_from: epoch}
  never: {module: test.ping, cron: "0 6 * * *", enabled: false}`

const jobs = `schedule:
  hourly:
    cron:
      - "30 * * * *"
  night:
    module: test.ping
    when: every day at 02:00
    jitter: "5m"
    splay_mode: random   # at first
    only_between: "01:00-02:20"
`

// git apply takes the patch, the result is the one that was forecast, and lint finds nothing in it.
func TestThePatchAppliesAndLowersThePeak(t *testing.T) {
	dir := repo(t, map[string]string{"top.yaml": top, "settings/base.yaml": base, "settings/web/jobs.yaml": jobs})
	p := propose(t, dir, options("*"))
	if len(p.ByHand) > 0 || p.Before.Worst[0].Runs < 360 || p.After.Worst[0].Runs > 40 {
		t.Errorf("by hand %v, a peak of %v and then %v", p.ByHand, p.Before.Worst[0], p.After.Worst[0])
	}
	git(t, dir, p.Patch, "apply")
	compiled, err := plan.NewCompiler().Compile(os.DirFS(dir), fleet())
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []target.PeelID{"web-07", "db-07"} {
		set := compiled.Peels[id].Schedule
		for name, e := range set {
			want := schedule.Splay{Max: 30 * time.Minute, Mode: schedule.SplayHost}
			switch name {
			case "poll", "never":
				want = schedule.Splay{Mode: schedule.SplayRandom}
			case "night":
				want.Max = 20 * time.Minute
			}
			if e.Splay != want {
				t.Errorf("%s on %s has %+v, want %+v", name, id, e.Splay, want)
			}
		}
		if set["check"].Clock.Phase != 0 || set["scan"].Clock.Phase != 30*time.Minute || set["report"].Clock.Cron[0].Text != "0 6 * * *" {
			t.Errorf("phases %v and %v", set["check"].Clock.Phase, set["scan"].Clock.Phase)
		}
	}
	if w := lint.New(lint.Options{From: june, Zone: time.UTC}).All(compiled); len(w) > 0 {
		t.Errorf("lint: %v", w)
	}
	for file, comment := range map[string]string{"base.yaml": "# on the hour", "web/jobs.yaml": "# at first"} {
		if text, err := os.ReadFile(filepath.Join(dir, "settings", file)); err != nil || !bytes.Contains(text, []byte(comment)) {
			t.Errorf("%s: %v\n%s", file, err, text)
		}
	}
	again := propose(t, dir, options("*"))
	if again.Before.Total() != p.After.Total() || again.Before.Worst[0].Runs != p.After.Worst[0].Runs {
		t.Errorf("forecast %v, applied %v", p.After.Worst[0], again.Before.Worst[0])
	}
}

func TestOnlyMatchingEntriesChange(t *testing.T) {
	dir := repo(t, map[string]string{"top.yaml": top, "settings/base.yaml": base, "settings/web/jobs.yaml": jobs})
	p := propose(t, dir, options("rep*"))
	if len(p.Entries) != 1 || p.Entries[0].Name != "report" || strings.Count(p.Patch, "\n+") != 2 || strings.Contains(p.Patch, "jobs.yaml") {
		t.Errorf("%+v\n%s", p.Entries, p.Patch)
	}
	o := options("rep*")
	o.Within = 5 * time.Minute
	if p := propose(t, dir, o); p.Entries[0].Splay != 5*time.Minute {
		t.Errorf("within 5m: %+v", p.Entries)
	}
	for glob, want := range map[string]string{"reprt": `no peel has an entry reprt; did you mean "report"?`, "[": `cannot use "[" as a glob for entries: syntax error in pattern`} {
		if _, err := spread.Propose(os.DirFS(dir), fleet(), options(glob)); err == nil || err.Error() != want {
			t.Errorf("%s: %v", glob, err)
		}
	}
}

func TestNothingIsProposedThatDoesNotHelp(t *testing.T) {
	for name, text := range map[string]string{
		"an interval of each peel":   "schedule: {a: {module: test.ping, interval: 1h}}",
		"a window of a minute":       `schedule: {a: {module: test.ping, cron: "0 6 * * *", only_between: "06:00-06:01"}}`,
		"every minute":               `schedule: {a: {module: test.ping, cron: "* * * * *"}}`,
		"no fire in the time":        `schedule: {a: {module: test.ping, cron: "0 6 1 1 *"}}`,
		"a range of delays":          `schedule: {a: {module: test.ping, cron: "0 6 * * *", splay: {min: 1m, max: 2m}}}`,
		"spread already":             `schedule: {a: {module: test.ping, cron: "0 6 * * *", splay: 2h, splay_mode: host}}`,
		"a disabled entry of a name": `schedule: {a: {module: test.ping, cron: "0 6 * * *", enabled: false}}`,
	} {
		t.Run(name, func(t *testing.T) {
			p := propose(t, repo(t, map[string]string{"top.yaml": "base: {'*': [base]}", "settings/base.yaml": text}), options("*"))
			if p.Patch != "" || len(p.Entries) > 0 || p.After != p.Before {
				t.Errorf("%+v\n%s", p.Entries, p.Patch)
			}
		})
	}
}

// Whatever the lines look like, the patch applies and changes nothing but delays.
func TestEntriesWrittenInOtherWays(t *testing.T) {
	for name, c := range map[string]struct {
		text   string
		byHand []string
	}{
		"crammed":            {text: `schedule: {a: {cron: '0 6 * * *',module: test.ping},b: {module: test.ping, at: ["2026-06-01T09:00:00Z"]}}`},
		"a line each":        {text: "schedule: {\n  a: {\n    module: test.ping,\n    cron: '0 6 * * *',\n  },\n}\n"},
		"quoted keys":        {text: "schedule:\n  a:\n    \"cron\": '0 6 * * *'\n    module: test.ping\n"},
		"no line":            {text: "schedule:\n  a:\n    \"cron\": '0 6 * * *'\n    \"module\": test.ping\n", byHand: []string{"settings/base.yaml:2:3"}},
		"other letters":      {text: "schedule:\n  a: {module: cmd.run, args: {command: 'echo grüße'}, cron: '0 6 * * *'}\n", byHand: []string{"settings/base.yaml:2:3"}},
		"a value below":      {text: "schedule:\n  a:\n    module:\n      test.ping\n    cron:\n      '0 6 * * *'\n", byHand: []string{"settings/base.yaml:2:3"}},
		"windows line ends":  {text: "schedule:\r\n  a:\r\n    module: test.ping\r\n    cron: '0 6 * * *'\r\n"},
		"a delay of 0":       {text: "schedule:\n  a:\n    module: test.ping\n    splay: 0\n    cron: '0 6 * * *'\n"},
		"an anchor":          {text: "x: &d 2m\nschedule:\n  a:\n    module: test.ping\n    splay: 2m # short\n    cron: '0 6 * * *'\n"},
		"a comment in a map": {text: "schedule:\n  a: {module: test.ping, cron: '0 6 * * *'} # cron: no\n"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := repo(t, map[string]string{"top.yaml": "base: {'*': [base]}", "settings/base.yaml": c.text})
			p, err := spread.Propose(os.DirFS(dir), fleet(), options("*"))
			if err != nil && strings.Contains(c.text, "&d") { // the language has no anchors
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(p.ByHand, c.byHand) || (p.Patch == "") != (c.byHand != nil) {
				t.Fatalf("by hand %v, patch\n%s", p.ByHand, p.Patch)
			}
			if p.Patch == "" {
				return
			}
			git(t, dir, p.Patch, "apply")
			compiled, err := plan.NewCompiler().Compile(os.DirFS(dir), fleet())
			if err != nil {
				t.Fatal(err)
			}
			if e := compiled.Peels["db-01"].Schedule["a"]; e.Splay != (schedule.Splay{Max: p.Entries[0].Splay, Mode: schedule.SplayHost}) || e.Clock.Cron[0].Text != "0 6 * * *" {
				t.Errorf("%+v", e)
			}
		})
	}
}

// However a file is written, a proposal changes nothing but delays, or it names the entries that people have to change.
func FuzzPropose(f *testing.F) {
	f.Add(base)
	f.Add(jobs)
	f.Add("schedule: {a: {cron: '0 6 * * *',module: test.ping},b: {module: test.ping, at: [2026-06-01T09:00:00Z]}}")
	f.Add("schedule:\n  a: {module: test.ping,\n    cron: '0 6 * * *'}\n")
	f.Add("schedule:\n  a: {\n    module: test.ping\n    , cron: '0 6 * * *'\n  }\n")
	f.Fuzz(func(t *testing.T, text string) {
		files := fstest.MapFS{"top.yaml": {Data: []byte("base: {'*': [base]}")}, "settings/base.yaml": {Data: []byte(text)}}
		index := peelindex.New()
		index.Put("web-01", nil)
		index.Put("web-02", nil)
		index.Put("web-03", nil)
		_, refused := plan.NewCompiler().Compile(files, index)
		p, err := spread.Propose(files, index, options("*"))
		switch {
		case refused != nil && err == nil:
			t.Errorf("a repo with mistakes has a proposal: %v", refused)
		case refused == nil && err != nil && !strings.HasPrefix(err.Error(), "no peel has an entry"):
			t.Errorf("cannot propose: %v", err)
		case err == nil && (p.Patch != "") != (len(p.Entries) > len(p.ByHand)) && len(p.ByHand) == 0:
			t.Errorf("%d entries, patch %q", len(p.Entries), p.Patch)
		}
	})
}
