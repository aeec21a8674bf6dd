package review_test

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/worktree"
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/plan/plantest"
	"github.com/seed-c01c3da5/zester/reconciler/plan/review"
)

var author = worktree.Author{Name: "Ada", Email: "ada@example.com"}

// A history is a repository with commits.
type history struct {
	t    *testing.T
	work *worktree.Work
}

func newHistory(t *testing.T, archive string) *history {
	t.Helper()
	work, err := worktree.Init(t.TempDir(), plantest.Tree(archive), "first", author)
	if err != nil {
		t.Fatal(err)
	}
	return &history{t, work}
}

// commit commits the files of an archive and returns the hash.
func (h *history) commit(archive string) gitrepo.Hash {
	h.t.Helper()
	changes := map[string][]byte{}
	for name, f := range plantest.Tree(archive) {
		changes[name] = f.Data
	}
	at, err := h.work.Commit("next", changes, author)
	if err != nil {
		h.t.Fatal(err)
	}
	return gitrepo.Hash(at)
}

// compile compiles a commit for web-01 and db-01, with files below a path.
func (h *history) compile(path string, at gitrepo.Hash) (review.Compiled, error) {
	h.t.Helper()
	repo, err := gitrepo.OpenCheckout(h.work.Dir(), path)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = repo.Close() })
	return review.Compile(repo, plan.NewCompiler(), plantest.Fleet("web-01", "db-01"), at)
}

func TestTheFleetHasTheNewestCommitThatCompiles(t *testing.T) {
	h := newHistory(t, "-- top.yaml --\nbase:\n  '*': [all]\n-- settings/all.yaml --\nx: 1\n")
	good := h.commit("-- settings/all.yaml --\nx: 2\n")
	h.commit("-- settings/all.yaml --\nx: [\n")
	broken := h.commit("-- settings/all.yaml --\nx: {\n")
	got, err := h.compile("", broken)
	if err != nil || got.Commit.Hash != good || plantest.Values(t, got.Plan, "web-01") != "map[x:2]" {
		t.Errorf("the fleet has %s, %v", got.Commit.Hash, err)
	}
}

func TestPeelsThatMistakesHoldBackHaveEarlierSettings(t *testing.T) {
	h := newHistory(t, `-- zester.yaml --
on_error: isolate
-- top.yaml --
base:
  'web-*': [web]
  'db-*': [db]
-- settings/web.yaml --
x: 1
-- settings/db.yaml --
y: 1
`)
	h.commit("-- settings/web.yaml --\nx: [\n")
	newest := h.commit("-- settings/db.yaml --\ny: 2\n")
	got, err := h.compile("", newest)
	if err != nil || len(got.Plan.Behind) != 0 || got.Commit.Hash != newest {
		t.Fatalf("%d peels are behind at %s, %v", len(got.Plan.Behind), got.Commit.Hash, err)
	}
	if web, db := plantest.Values(t, got.Plan, "web-01"), plantest.Values(t, got.Plan, "db-01"); web != "map[x:1]" || db != "map[y:2]" {
		t.Errorf("web-01 has %s, db-01 has %s", web, db)
	}
}

func TestThereAreNoSettingsBeforeAnyCommitCompiles(t *testing.T) {
	h := newHistory(t, "-- top.yaml --\nbase: [\n")
	at := h.commit("-- top.yaml --\nbase: {\n")
	for _, path := range []string{"", "fleet"} { // a mistake in every commit; a folder that does not exist
		got, err := h.compile(path, at)
		if err != nil || !got.Commit.Hash.IsZero() || plantest.Values(t, got.Plan, "web-01") != "map[]" {
			t.Errorf("path %q: %s at %s, %v", path, plantest.Values(t, got.Plan, "web-01"), got.Commit.Hash, err)
		}
	}
}

func TestACommitThatCannotBeReadIsAnError(t *testing.T) {
	h := newHistory(t, "-- top.yaml --\nbase: {}\n")
	if _, err := h.compile("", gitrepo.Hash{1}); err == nil {
		t.Error("a commit that does not exist compiles")
	}
}

func TestRefusalIsOfMistakesInARevisionOnly(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want string // of the refusal, empty for none
	}{
		{"a file with a mistake", &plan.Error{Reason: plan.Invalid}, string(plan.Invalid)},
		{"a tree with an unsafe name", &gitrepo.Error{Reason: gitrepo.UnsafePath, Subject: "revision 1", Msg: "it has .."}, string(gitrepo.UnsafePath)},
		{"a remote that does not answer", &gitrepo.Error{Reason: gitrepo.Unreachable}, ""},
		{"a disk that cannot be read", fs.ErrPermission, ""},
	} {
		refused, ok := review.Refusal(errors.Join(c.err))
		if ok != (c.want != "") || ok && string(refused.Reason) != c.want {
			t.Errorf("%s: %v, %t", c.name, refused, ok)
		}
		if c.name == "a tree with an unsafe name" && !strings.Contains(refused.Error(), "it has ..") {
			t.Errorf("the refusal says %q", refused)
		}
	}
}
