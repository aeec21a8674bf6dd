package gitrepo

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
)

// write puts the files of an archive into a directory; one with the content "(remove)" goes.
func write(t *testing.T, dir, archive string) {
	t.Helper()
	for _, f := range txtar.Parse([]byte(archive)).Files {
		name := filepath.Join(dir, f.Name)
		if string(f.Data) == "(remove)\n" {
			if err := os.RemoveAll(name); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		data := strings.NewReplacer("␍", "\r", "␀", "\x00").Replace(string(f.Data))
		if err := os.WriteFile(name, []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// emptyHome keeps the configuration of whoever runs the test away.
func emptyHome(t *testing.T) (home string) {
	home = t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(home, ".config"))
	return home
}

const workingBase = `
-- top.yaml --
base: {}
-- settings/a.yaml --
a: 1
-- settings/a-b.yaml --
a: 2
-- settings/a/c.yaml --
a: 3
-- settings/kept.yaml --
a: 4
`

// The hash of the working tree is the hash of the tree that Git itself would commit, whatever the index and the configuration are.
func TestTheWorkingTreeIsWhatGitWouldCommit(t *testing.T) {
	for name, c := range map[string]struct {
		before  [][]string // git commands after the first commit
		changed string
		home    string // files of the home directory
		do      func(t *testing.T, dir string)
	}{
		"unchanged":    {},
		"changed":      {changed: "-- settings/a.yaml --\na: 5\n-- new/x.yaml --\nx\n-- settings/a/c.yaml --\n(remove)\n"},
		"no file left": {changed: "-- top.yaml --\n(remove)\n-- settings --\n(remove)\n"},
		"ignored, tracked": {
			changed: "-- .gitignore --\nsettings/\n*.yaml\n-- settings/a.yaml --\na: 7\n-- settings/new.yaml --\n-- new.yaml --\n",
		},
		"configuration of the user": {
			home:    "-- .gitconfig --\n[include]\npath = more\n-- more --\n[core]\nexcludesFile = ~/mine\nautocrlf = true\n-- mine --\n*.swp\n",
			changed: "-- .git/info/exclude --\nprivate.*\n-- private.yaml --\n-- settings/.a.swp --\n-- seen --\nx␍\n",
		},
		"a macro": {changed: "-- .gitattributes --\n[attr]windows text eol=crlf\n*.yaml windows\n-- settings/a.yaml --\nb␍\n"},
		"links": {do: func(t *testing.T, dir string) {
			symlink(t, "a.yaml", filepath.Join(dir, "settings/link.yaml"))
			symlink(t, "settings", filepath.Join(dir, "top.d"))
		}},
		"executable": {do: func(t *testing.T, dir string) {
			if err := os.Chmod(filepath.Join(dir, "settings/a.yaml"), 0o755); err != nil {
				t.Fatal(err)
			}
		}},
		"sparse": {
			before:  [][]string{{"update-index", "--skip-worktree", "settings/kept.yaml", "settings/a.yaml"}},
			changed: "-- settings/kept.yaml --\n(remove)\n-- settings/a.yaml --\n(remove)\n-- top.yaml --\nnew\n",
		},
		"staged": {changed: "-- settings/a.yaml --\na: 5\n-- gone.yaml --\n", do: func(t *testing.T, dir string) {
			gitCLI(t, dir, "add", "-A")
			write(t, dir, "-- gone.yaml --\n(remove)\n-- settings/a.yaml --\na: 6\n")
		}},
		"to be added": {changed: "-- soon.yaml --\nx\n", do: func(t *testing.T, dir string) { gitCLI(t, dir, "add", "-N", "soon.yaml") }},
		"index 4":     {before: [][]string{{"update-index", "--index-version", "4"}}, changed: "-- settings/a.yaml --\na: 5\n"},
		"split index": {before: [][]string{{"config", "core.splitIndex", "true"}, {"update-index", "--split-index"}}, changed: "-- settings/a.yaml --\na: 5\n-- new.yaml --\n-- more.yaml --\nx\n"},
		"no index":    {changed: "-- .git/index --\n(remove)\n"},
		"a merge under way": {do: func(t *testing.T, dir string) {
			gitCLI(t, dir, "checkout", "-q", "-b", "other")
			write(t, dir, "-- settings/a.yaml --\ntheirs\n")
			gitCLI(t, dir, "commit", "-q", "-a", "-m", "theirs")
			gitCLI(t, dir, "checkout", "-q", "main")
			write(t, dir, "-- settings/a.yaml --\nours\n")
			gitCLI(t, dir, "commit", "-q", "-a", "-m", "ours")
			gitCLI(t, dir, "read-tree", "-m", "main~1", "main", "other")
		}},
		"changed in the instant of the index": {before: [][]string{{"config", "core.trustctime", "false"}}, do: sameInstant},
		"large":                               {changed: "-- large.yaml --\n" + strings.Repeat("x\n", maxBlob*2) + "-- settings/half.yaml --\n" + strings.Repeat("x\n", maxBlob/4)},
		"a repository within": {do: func(t *testing.T, dir string) {
			inner := filepath.Join(dir, "settings", "inner")
			write(t, inner, "-- a.yaml --\nx\n")
			gitCLI(t, inner, "init", "-q")
			gitCLI(t, inner, "add", "-A")
			gitCLI(t, inner, "commit", "-q", "-m", "inner")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			write(t, emptyHome(t), c.home)
			dir := filepath.Join(t.TempDir(), `a "quoted": \ name`)
			write(t, dir, workingBase)
			gitCLI(t, dir, "init", "-q", "-b", "main")
			gitCLI(t, dir, "add", "-A")
			gitCLI(t, dir, "commit", "-q", "-m", "first")
			for _, command := range c.before {
				gitCLI(t, dir, command...)
			}
			write(t, dir, c.changed)
			if c.do != nil {
				c.do(t, dir)
			}
			before := regularFiles(t, dir)
			checkout := openCheckout(t, dir)
			s, err := checkout.Working(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got := s.Tree.Hash().String()
			sizes(t, s.Tree)
			for name, now := range regularFiles(t, dir) {
				if now != before[name] {
					t.Errorf("%s was written", name)
				}
			}
			if c.home == "" {
				t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
			}
			add := exec.Command("git", "add", "-A")
			add.Dir = dir
			if out, err := add.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if want := gitCLI(t, dir, "write-tree"); got != want {
				t.Errorf("the working tree is %s, and Git commits %s:\n%s\nnot\n%s", got, want, gitCLI(t, dir, "ls-files", "-s"), treeListing(t, s.Tree))
			}
		})
	}
}

// sameInstant changes a file so that only the time of the index shows that it may have changed.
func sameInstant(t *testing.T, dir string) {
	t.Helper()
	when := time.Now().Add(-time.Hour).Truncate(time.Second)
	name := filepath.Join(dir, "settings/a.yaml")
	touch := func(name string) {
		if err := os.Chtimes(name, when, when); err != nil {
			t.Fatal(err)
		}
	}
	touch(name)
	gitCLI(t, dir, "update-index", "--refresh")
	touch(filepath.Join(dir, ".git/index"))
	f, err := os.OpenFile(name, os.O_WRONLY, 0) // in place: the inode stays
	if err == nil {
		_, err = f.WriteString("a: 9")
	}
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	touch(name)
}

// regularFiles returns the content of the regular files below a directory.
func regularFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(name)
		all[name] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// sizes checks that each file has the content that it says it has.
func sizes(t *testing.T, tree *Tree) {
	t.Helper()
	err := fs.WalkDir(tree, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || !fs.ValidPath(name) {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		data, err := tree.ReadFile(name)
		if info.Size() > maxBlob && hasReason(err, TooLarge) {
			return nil
		}
		if int64(len(data)) != info.Size() {
			t.Errorf("%s has %d bytes, not %d", name, len(data), info.Size())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func treeListing(t *testing.T, tree *Tree) string {
	t.Helper()
	var out strings.Builder
	for _, name := range Changed(nil, tree) {
		var h Hash
		if info, err := tree.Stat(name); err == nil {
			h = info.Sys().(Hash)
		}
		out.WriteString(h.String() + " " + name + "\n")
	}
	return out.String()
}

func symlink(t *testing.T, to, name string) {
	t.Helper()
	if err := os.Symlink(to, name); err != nil {
		t.Fatal(err)
	}
}

func TestTheWorkingTreeIsAFileSystem(t *testing.T) {
	emptyHome(t)
	w := newWork(t, files("top.yaml", "one", "settings/a.yaml", "a"))
	write(t, w.Dir(), "-- settings/new.yaml --\nx\n")
	s, err := openCheckout(t, w.Dir()).Working(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := fstest.TestFS(s.Tree, "top.yaml", "settings/a.yaml", "settings/new.yaml"); err != nil {
		t.Error(err)
	}
}

func TestADirectoryInNoRepositoryIsReadAsItsFirstCommit(t *testing.T) {
	emptyHome(t)
	dir := t.TempDir()
	write(t, dir, "-- .gitignore --\n*.bak\n-- fleet/top.yaml --\nx\n-- fleet/top.bak --\nx\n")
	c, err := OpenDirectory(dir, "fleet")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := c.Working(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := Changed(nil, s.Tree); len(got) != 1 || got[0] != "top.yaml" {
		t.Errorf("it holds %v", got)
	}
	if _, err := c.Revision("HEAD"); err == nil || !strings.Contains(err.Error(), "it is in no Git repository") {
		t.Error(err)
	}
	for _, path := range []string{"..", "/fleet", "a\\b"} {
		if _, err := OpenDirectory(dir, path); err == nil {
			t.Errorf("path %q is taken", path)
		}
	}
}

// What Git would not commit is no directory of the revision, as it is none of the commit.
func TestAPathThatIsNotCommittedIsNotFound(t *testing.T) {
	emptyHome(t)
	w := newWork(t, files("top.yaml", "one", ".gitignore", "prod\n"))
	write(t, w.Dir(), "-- prod/top.yaml --\nx\n")
	for path, want := range map[string]string{
		"prod":     "Git would commit nothing of directory",
		"nowhere":  `it has no directory "nowhere"`,
		"top.yaml": `it has no directory "top.yaml"`,
	} {
		c, err := OpenCheckout(w.Dir(), path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Working(t.Context()); !hasReason(err, PathNotFound) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A filter decides what a commit holds, so it runs; without its program there is no commit.
func TestACleanFilterOfTheUserRuns(t *testing.T) {
	home := emptyHome(t)
	w := newWork(t, files("top.yaml", "one", ".gitattributes", "*.yaml filter=upper\n"))
	write(t, home, "-- .gitconfig --\n[filter \"upper\"]\nclean = tr a-z A-Z\nrequired\n")
	write(t, w.Dir(), "-- top.yaml --\ntwo\n")
	s, err := openCheckout(t, w.Dir()).Working(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if data, err := s.Tree.ReadFile("top.yaml"); err != nil || string(data) != "TWO\n" {
		t.Errorf("it holds %q, %v", data, err)
	}
	write(t, home, "-- .gitconfig --\n[filter \"upper\"]\nclean = no-such-program\nrequired\n")
	if _, err := openCheckout(t, w.Dir()).Working(t.Context()); err == nil || !strings.Contains(err.Error(), "top.yaml: clean filter 'upper' failed") {
		t.Error(err)
	}
}

// Git runs hooks and fsmonitor for git add, and uses the index that its environment names. Working does not.
func TestNoHookRunsAndTheEnvironmentOfAHookIsNotUsed(t *testing.T) {
	emptyHome(t)
	w := newWork(t, files("top.yaml", "one"))
	ran := filepath.Join(t.TempDir(), "ran")
	hook := filepath.Join(w.Dir(), ".git/hooks/post-index-change")
	write(t, w.Dir(), "-- .git/hooks/post-index-change --\n#!/bin/sh\ntouch "+ran+"\n-- top.yaml --\ntwo\n")
	if err := os.Chmod(hook, 0o755); err != nil {
		t.Fatal(err)
	}
	gitCLI(t, w.Dir(), "config", "core.fsmonitor", "touch "+ran+"; true")
	gitCLI(t, w.Dir(), "add", "-N", "top.yaml")
	if err := os.Remove(ran); err != nil {
		t.Fatal("the hook of the test does not run: ", err)
	}
	for _, name := range []string{"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"} {
		t.Setenv(name, filepath.Join(t.TempDir(), "elsewhere"))
	}
	s, err := openCheckout(t, w.Dir()).Working(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if data, err := s.Tree.ReadFile("top.yaml"); err != nil || string(data) != "two\n" {
		t.Errorf("it holds %q, %v", data, err)
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("a hook ran")
	}
}

// A snapshot does not change with the files, and nothing stays after Close.
func TestAWorkingTreeIsReadOnceAndLeavesNothingBehind(t *testing.T) {
	emptyHome(t)
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	dir := t.TempDir()
	read := func(c *Checkout) *Snapshot {
		s, err := c.Working(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for _, prepare := range []func(){func() {}, func() { gitCLI(t, dir, "init", "-q") }} {
		prepare()
		c, err := OpenDirectory(dir, "")
		if err != nil {
			t.Fatal(err)
		}
		write(t, dir, "-- top.yaml --\none\n")
		first := read(c)
		write(t, dir, "-- top.yaml --\ntwo\n")
		second := read(c)
		for want, s := range map[string]*Snapshot{"one\n": first, "two\n": second} {
			if data, err := s.Tree.ReadFile("top.yaml"); err != nil || string(data) != want {
				t.Errorf("it holds %q, %v", data, err)
			}
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
			t.Errorf("%v stays, %v", left, err)
		}
	}
}

// What git refuses is an error that says what to do.
func TestAWorkingTreeThatGitRefuses(t *testing.T) {
	home := emptyHome(t)
	w := newWork(t, files("top.yaml", "one"))
	c := openCheckout(t, w.Dir())
	refused := func(ctx context.Context, want string) {
		t.Helper()
		if _, err := c.Working(ctx); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, not %q", err, want)
		}
	}
	write(t, home, "-- .gitconfig --\n[core\nx\n")
	refused(t.Context(), "bad config line 1 in file "+home)
	write(t, home, "-- .gitconfig --\n(remove)\n")
	write(t, w.Dir(), "-- inner/x --\n")
	gitCLI(t, filepath.Join(w.Dir(), "inner"), "init", "-q")
	refused(t.Context(), "'inner/' does not have a commit checked out")
	write(t, w.Dir(), "-- inner --\n(remove)\n")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	refused(ended, "context canceled")
	if os.Getuid() == 0 {
		for _, name := range []string{w.Dir(), filepath.Join(w.Dir(), ".git")} {
			if err := os.Chown(name, 1, 1); err != nil {
				t.Fatal(err)
			}
		}
		refused(t.Context(), "git config --global --add safe.directory "+w.Dir())
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := c.Working(t.Context()); !errors.Is(err, ErrNoGit) {
		t.Error(err)
	}
}

// A job of a CI may have no home directory.
func TestTheWorkingTreeIsReadWithoutAHome(t *testing.T) {
	emptyHome(t)
	w := newWork(t, files("top.yaml", "one"))
	t.Setenv("HOME", "")
	if _, err := openCheckout(t, w.Dir()).Working(t.Context()); err != nil {
		t.Error(err)
	}
}

// A linked worktree has an index of its own, and the objects of its repository.
func TestTheWorkingTreeOfALinkedWorktree(t *testing.T) {
	emptyHome(t)
	w := newWork(t, files("top.yaml", "one"))
	linked := filepath.Join(t.TempDir(), "linked")
	gitCLI(t, w.Dir(), "worktree", "add", "-q", "--detach", linked)
	write(t, linked, "-- new.yaml --\nx\n-- .gitignore --\ntop.yaml\n")
	s, err := openCheckout(t, linked).Working(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := fstest.TestFS(s.Tree, "top.yaml", "new.yaml"); err != nil {
		t.Error(err)
	}
}
