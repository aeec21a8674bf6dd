package reconciler

import (
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/worktree"
)

// commits makes a term for a fleet of so many peels with a repo, and a function that commits what all peels are to run.
func commits(t *testing.T, peels int) (*benchedTerm, func(text string) error) {
	t.Helper()
	work, err := worktree.Init(filepath.Join(t.TempDir(), "repo"), fstest.MapFS{
		"top.yaml": text("base:\n  '*': [all]\n"), "settings/all.yaml": text("v: 0\n"),
	}, "first", ada)
	if err != nil {
		t.Fatal(err)
	}
	run := benchTerm(t, work.Dir(), peels)
	if err := run.attempt(t.Context()); err != nil {
		t.Fatal(err)
	}
	return run, func(text string) error {
		if _, err := work.Commit("more", map[string][]byte{"settings/all.yaml": []byte(text)}, ada); err != nil {
			t.Fatal(err)
		}
		return run.attempt(t.Context())
	}
}

func TestDocumentsThatWereNotWrittenAreDueAgain(t *testing.T) {
	run, commit := commits(t, 3)
	stream, err := run.js.Stream(t.Context(), "KV_settings")
	if err != nil {
		t.Fatal(err)
	}
	refusing := stream.CachedInfo().Config
	refusing.MaxMsgSize = 1
	if _, err := run.js.UpdateStream(t.Context(), refusing); err != nil {
		t.Fatal(err)
	}
	if err := commit("v: 1\n"); err == nil {
		t.Fatal("documents were written that the bucket refuses")
	}
	if _, err := run.js.UpdateStream(t.Context(), stream.CachedInfo().Config); err != nil {
		t.Fatal(err)
	}
	if err := run.attempt(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := run.control.Status().Writes; n != 3 {
		t.Errorf("%d documents were written in the end", n)
	}
}
