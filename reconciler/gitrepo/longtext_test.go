package gitrepo

import (
	"bytes"
	"log/slog"
	"os/exec"
	"strings"
	"testing"
)

// TestACommitWithALongTextDoesNotHoldUpTheBranch reads it as the newest commit, and then as the parent of one.
func TestACommitWithALongTextDoesNotHoldUpTheBranch(t *testing.T) {
	long := "long\n\n" + strings.Repeat("All work and no play. ", 6<<20/22)
	for name, url := range map[string]func(w *Work) string{
		"local": func(w *Work) string { return w.Dir() },
		"http":  func(w *Work) string { return served(t, w, nil) },
	} {
		var log bytes.Buffer
		w := newWork(t, files("a", "1"))
		r := openRepo(t, Options{URL: url(w), Log: slog.New(slog.NewTextHandler(&log, nil))})
		first, _ := follow(t, r)
		at := commit(t, w, long, "a", "2")
		s, _ := follow(t, r)
		wantFiles(t, s.Tree, "a", "2")
		if s.Commit.Subject() != "long" || len(s.Commit.Message) > maxCommitText+10 {
			t.Errorf("%s: %q, %d bytes", name, s.Commit.Subject(), len(s.Commit.Message))
		}
		last := commit(t, w, "short", "a", "3")
		s, _ = follow(t, r)
		wantFiles(t, s.Tree, "a", "3")
		if after, err := r.IsAncestor(first.Commit.Hash, last); err != nil || !after {
			t.Errorf("%s: %v, %v", name, after, err)
		}
		if !strings.Contains(log.String(), at.String()) {
			t.Errorf("%s: the log does not name the commit: %s", name, log.String())
		}
		s, _ = follow(t, openRepo(t, Options{URL: url(w)})) // all of it at once
		wantFiles(t, s.Tree, "a", "3")
	}
}

// A header may be as long as a text: that of a merged tag holds the tag's message.
func TestACommitWithALongHeaderDoesNotHoldUpTheBranch(t *testing.T) {
	if !hasGit() {
		t.Skip("needs git")
	}
	w := newWork(t, files("a", "1"))
	git := func(stdin string, args ...string) string {
		t.Helper()
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Stdin = w.Dir(), strings.NewReader(stdin)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(args, err)
		}
		return strings.TrimSpace(string(out))
	}
	parent := git("", "rev-parse", "HEAD")
	head, _, _ := strings.Cut(git("", "cat-file", "commit", "HEAD"), "\n\n")
	tree, rest, _ := strings.Cut(head, "\n")
	made := tree + "\nparent " + parent + "\n" + rest + "\nmergetag object " + parent + strings.Repeat("\n all work and no play", 1<<17) + "\n\na merge\n"
	git("", "update-ref", "refs/heads/main", git(made, "hash-object", "-t", "commit", "-w", "--stdin"))
	s, _ := follow(t, openRepo(t, Options{URL: w.Dir()}))
	wantFiles(t, s.Tree, "a", "1")
	if len(s.Commit.Parents) != 1 || s.Commit.Author != alice.Name || s.Commit.Message != "" {
		t.Errorf("%+v", s.Commit)
	}
}

func BenchmarkLongText(b *testing.B) {
	w := newWork(b, files("a", "1"))
	commit(b, w, strings.Repeat("x", 6<<20), "a", "2")
	b.ReportAllocs()
	for b.Loop() {
		follow(b, openRepo(b, Options{URL: w.Dir()}))
	}
}
