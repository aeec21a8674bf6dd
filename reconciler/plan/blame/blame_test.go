package blame_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/plan/blame"
	"github.com/seed-c01c3da5/zester/reconciler/plan/plantest"
	"github.com/seed-c01c3da5/zester/settings"
)

var (
	edit, fleet         = plantest.Edit, plantest.Fleet
	withHashes, compile = plantest.WithHashes, plantest.Compile
)

// past is a history in memory. The name of a commit is its author, and its hash.
type past struct {
	t       *testing.T
	c       *plan.Compiler
	trees   map[settings.Commit]plantest.Hashed
	parents map[settings.Commit][]settings.Commit
	asked   int // times that the parents of a commit were asked for
	unread  string
}

func newPast(t *testing.T) *past {
	return &past{t: t, c: plan.NewCompiler(), trees: map[settings.Commit]plantest.Hashed{}, parents: map[settings.Commit][]settings.Commit{}}
}

// commit makes a commit with the tree of its first parent and an archive over it.
func (p *past) commit(name settings.Commit, archive string, parents ...settings.Commit) {
	m := fstest.MapFS{}
	if len(parents) > 0 {
		for name, f := range p.trees[parents[0]].MapFS {
			if !f.Mode.IsDir() {
				m[name] = f
			}
		}
	}
	p.trees[name], p.parents[name] = withHashes(edit(m, archive)), parents
}

func (p *past) history() blame.History {
	return blame.History{
		Parents: func(c settings.Commit) ([]settings.Commit, error) {
			p.asked++
			if _, ok := p.trees[c]; !ok {
				return nil, fmt.Errorf("no commit %s", c)
			}
			return p.parents[c], nil
		},
		Hash: func(c settings.Commit, name string) (string, error) {
			if _, ok := p.trees[c]; !ok {
				return "", fmt.Errorf("no commit %s", c)
			}
			info, err := fs.Stat(p.trees[c], name)
			if errors.Is(err, fs.ErrNotExist) {
				return "", nil
			}
			return fmt.Sprint(info.Sys()), err
		},
		Read: func(c settings.Commit, name string) ([]byte, error) {
			if name == p.unread {
				return nil, fmt.Errorf("cannot read %s: %w", name, blame.ErrNoContent)
			}
			return fs.ReadFile(p.trees[c], name)
		},
		Author: func(c settings.Commit) (string, time.Time, error) {
			return string(c) + " <x@example.com>", time.Unix(int64(len(c)), 0), nil
		},
	}
}

// blame describes the origins of web-01 at a commit: "entry=commit file:line".
func (p *past) blame(b *blame.Blamer, head settings.Commit) string {
	p.t.Helper()
	e := compile(p.t, p.c, p.trees[head], fleet("web-01")).Peels["web-01"]
	all, err := b.Blame(p.t.Context(), head, e)
	if err != nil {
		p.t.Fatal(err)
	}
	var out []string
	for _, name := range []string{"a", "b", "c", "m"} {
		if o, ok := all[e][name]; ok {
			out = append(out, fmt.Sprintf("%s=%s %s:%d", name, o.Commit, strings.TrimPrefix(o.File, "settings/"), o.Line))
			if o.Author != string(o.Commit)+" <x@example.com>" || !o.Time.Equal(time.Unix(int64(len(o.Commit)), 0)) {
				p.t.Errorf("%+v", o)
			}
		}
	}
	return strings.Join(out, ", ")
}

const firstCommit = `
-- top.yaml --
base: {'*': [one, dir.two]}
-- settings/one.yaml --
schedule:
  a: {module: test.ping, interval: 1h}
  b: {module: test.ping, interval: 1h}
  m: {module: test.ping, interval: 1h}
-- settings/dir/two.yaml --
schedule:
  c: {module: test.ping, interval: 1h}
  m: {splay: 1m}
`

func TestOriginIsTheCommitThatLastChangedTheEntry(t *testing.T) {
	p := newPast(t)
	p.commit("first", firstCommit)
	p.commit("other", "-- README --\nx", "first")
	p.commit("values", "-- settings/one.yaml --\nschedule:\n  a: {module: test.ping, interval: 2h}\n  b: {module: test.ping, interval: 1h}\n  m: {module: test.ping, interval: 1h}\n", "other")
	p.commit("format", "-- settings/one.yaml --\n# comment\nschedule:\n  b:\n    interval: 1h\n    module: test.ping\n  m: {module: test.ping, interval: 1h}\n  a: {module: test.ping, interval: 2h}\n", "values")
	p.commit("layer", "-- settings/dir/two.yaml --\nschedule:\n  c: {module: test.ping, interval: 1h}\n  m: {splay: 2m}\n", "format")
	p.commit("moved", "-- settings/dir/two.yaml --\nschedule:\n  c: {module: test.ping, interval: 1h}\n  # m comes later\n  m: {splay: 2m}\n", "layer")
	p.commit("renamed", `
-- settings/one.yaml --
-- settings/three.yaml --
# comment
schedule:
  b:
    interval: 1h
    module: test.ping
  m: {module: test.ping, interval: 1h}
  a: {module: test.ping, interval: 2h}
-- top.yaml --
base: {'*': [three, dir.two]}
`, "moved")
	want := map[settings.Commit]string{
		"first":   "a=first one.yaml:2, b=first one.yaml:3, c=first dir/two.yaml:2, m=first dir/two.yaml:3",
		"other":   "a=first one.yaml:2, b=first one.yaml:3, c=first dir/two.yaml:2, m=first dir/two.yaml:3",
		"values":  "a=values one.yaml:2, b=first one.yaml:3, c=first dir/two.yaml:2, m=first dir/two.yaml:3",
		"format":  "a=values one.yaml:2, b=first one.yaml:3, c=first dir/two.yaml:2, m=first dir/two.yaml:3",
		"layer":   "a=values one.yaml:2, b=first one.yaml:3, c=first dir/two.yaml:2, m=layer dir/two.yaml:3",
		"moved":   "a=values one.yaml:2, b=first one.yaml:3, c=first dir/two.yaml:2, m=layer dir/two.yaml:3",
		"renamed": "a=renamed three.yaml:7, b=renamed three.yaml:3, c=first dir/two.yaml:2, m=renamed three.yaml:6",
	}
	remembering := blame.New(p.history())
	for _, head := range []settings.Commit{"first", "other", "values", "format", "layer", "moved", "renamed", "layer", "first"} {
		if got := p.blame(blame.New(p.history()), head); got != want[head] {
			t.Errorf("at %s: %s\nwant %s", head, got, want[head])
		}
		if got := p.blame(remembering, head); got != want[head] {
			t.Errorf("at %s, remembering: %s\nwant %s", head, got, want[head])
		}
	}
}

func TestAStateHasAnOriginThatNamesAllItsFiles(t *testing.T) {
	p := newPast(t)
	p.commit("first", `
-- top.yaml --
base: {'*': [one, two]}
-- settings/one.yaml --
states:
  vim: {pkg.installed: {}}
  web: {service.running: {}}
-- settings/two.yaml --
states:
  web: {service.running: {enable: true}}
`)
	p.commit("vim", "-- settings/one.yaml --\nstates:\n  vim: {pkg.installed: {version: '9'}}\n  web: {service.running: {}}\n", "first")
	e := compile(t, p.c, p.trees["vim"], fleet("web-01")).Peels["web-01"]
	all, err := blame.New(p.history()).Blame(t.Context(), "vim", e)
	if err != nil {
		t.Fatal(err)
	}
	vim, web := all[e]["state:vim"], all[e]["state:web"]
	if vim.Commit != "vim" || vim.File != "settings/one.yaml" || vim.Line != 2 || vim.Files != nil {
		t.Errorf("vim: %+v", vim)
	}
	if web.Commit != "first" || web.File != "settings/two.yaml" || strings.Join(web.Files, " ") != "settings/one.yaml settings/two.yaml" {
		t.Errorf("web: %+v", web)
	}
}

func TestNextRevisionCostsAsMuchAsItHasCommits(t *testing.T) {
	p := newPast(t)
	p.commit("c0", firstCommit)
	for i := range 50 {
		p.commit(settings.Commit(fmt.Sprint("c", i+1)), fmt.Sprintf("-- README --\n%d", i), settings.Commit(fmt.Sprint("c", i)))
	}
	b := blame.New(p.history())
	p.blame(b, "c48")
	if p.asked != 49 {
		t.Errorf("asked for the parents of %d commits", p.asked)
	}
	p.asked = 0
	p.blame(b, "c50")
	if p.asked != 2 {
		t.Errorf("asked for the parents of %d commits", p.asked)
	}
}

func TestOriginFollowsTheParentThatHasTheEntry(t *testing.T) {
	p := newPast(t)
	p.commit("first", firstCommit)
	p.commit("left", "-- settings/one.yaml --\nschedule:\n  a: {module: test.ping, interval: 2h}\n  b: {module: test.ping, interval: 1h}\n", "first")
	p.commit("right", "-- settings/one.yaml --\nschedule:\n  a: {module: test.ping, interval: 1h}\n  b: {module: test.ping, interval: 3h}\n", "first")
	p.commit("merge", "-- settings/one.yaml --\nschedule:\n  a: {module: test.ping, interval: 2h}\n  b: {module: test.ping, interval: 3h}\n  m: {module: test.ping, interval: 9h}\n", "left", "right")
	b := blame.New(p.history())
	if got, want := p.blame(b, "merge"), "a=left one.yaml:2, b=right one.yaml:3, c=first dir/two.yaml:2, m=merge one.yaml:4"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestRevertIsTheOriginOfWhatItPutsBack(t *testing.T) {
	p := newPast(t)
	p.commit("first", firstCommit)
	p.commit("change", "-- settings/dir/two.yaml --\nschedule:\n  c: {module: test.ping, interval: 2h}\n", "first")
	p.commit("revert", firstCommit, "change")
	if got, want := p.blame(blame.New(p.history()), "revert"), "a=first one.yaml:2, b=first one.yaml:3, c=revert dir/two.yaml:2, m=revert dir/two.yaml:3"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestBrokenRevisionAndItsRevertAreNoOrigin(t *testing.T) {
	p := newPast(t)
	p.commit("first", firstCommit)
	p.commit("broken", "-- settings/one.yaml --\nschedule: [\n", "first")
	p.commit("still", "-- README --\nx\n", "broken")
	p.commit("revert", firstCommit, "still")
	p.commit("mended", "-- settings/one.yaml --\nschedule:\n  a: {module: test.ping, interval: 9h}\n  b: {module: test.ping, interval: 1h}\n  m: {module: test.ping, interval: 1h}\n", "still")
	want := map[settings.Commit]string{
		"revert": "a=first one.yaml:2, b=first one.yaml:3, c=first dir/two.yaml:2, m=first dir/two.yaml:3",
		"mended": "a=mended one.yaml:2, b=first one.yaml:3, c=first dir/two.yaml:2, m=first dir/two.yaml:3",
	}
	for head, want := range want {
		b := blame.New(p.history())
		if got := p.blame(b, head); got != want {
			t.Errorf("at %s: %s\nwant %s", head, got, want)
		}
		p.blame(b, "first")
		if got := p.blame(b, head); got != want {
			t.Errorf("at %s, remembering: %s\nwant %s", head, got, want)
		}
	}
}

func TestFileThatIsNeverReadIsSteppedOver(t *testing.T) {
	p := newPast(t)
	p.commit("first", firstCommit)
	p.commit("second", "-- settings/one.yaml --\n# x\nschedule:\n  a: {module: test.ping, interval: 1h}\n  m: {module: test.ping, interval: 1h}\n", "first")
	p.unread = "settings/one.yaml"
	if got, want := p.blame(blame.New(p.history()), "second"), "a=second one.yaml:3, c=first dir/two.yaml:2"; !strings.HasPrefix(got, want) {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestErrorsOfTheHistoryAreReturned(t *testing.T) {
	p := newPast(t)
	p.commit("first", firstCommit, "lost")
	e := compile(t, p.c, p.trees["first"], fleet("web-01")).Peels["web-01"]
	if _, err := blame.New(p.history()).Blame(t.Context(), "first", e); err == nil || !strings.Contains(err.Error(), "at first: no commit lost") {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := blame.New(p.history()).Blame(ctx, "first", e); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestHistoryIsFollowedForTenThousandCommits(t *testing.T) {
	p := newPast(t)
	p.commit("c0", firstCommit)
	for i := range 10_100 {
		p.trees[settings.Commit(fmt.Sprint("c", i+1))] = p.trees["c0"]
		p.parents[settings.Commit(fmt.Sprint("c", i+1))] = []settings.Commit{settings.Commit(fmt.Sprint("c", i))}
	}
	if got := p.blame(blame.New(p.history()), "c10100"); !strings.HasPrefix(got, "a=c100 ") {
		t.Error(got)
	}
}
