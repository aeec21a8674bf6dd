package gitrepo

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

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

// The hash of the working tree is the hash of the tree that Git itself would commit, for every way in which files can be
// tracked, ignored, converted, linked or left out.
func TestTheWorkingTreeIsWhatGitWouldCommit(t *testing.T) {
	for name, c := range map[string]struct {
		committed string     // besides workingBase
		before    [][]string // git commands after the first commit
		changed   string
		home      string // files of the home directory
		do        func(t *testing.T, dir string)
	}{
		"unchanged":    {},
		"changed":      {changed: "-- settings/a.yaml --\na: 5\n-- new/x.yaml --\nx\n-- settings/a/c.yaml --\n(remove)\n"},
		"empty dirs":   {do: func(t *testing.T, dir string) { mkdir(t, dir, "Settings", "top.d/deep", "settings/none") }},
		"no file left": {changed: "-- top.yaml --\n(remove)\n-- settings --\n(remove)\n"},
		"ignored":      {changed: "-- .gitignore --\n*.bak\n/out\nsettings/tmp/\n!keep.bak\n-- a.bak --\n-- keep.bak --\n-- out/x --\n-- sub/out/x --\n-- settings/tmp/x.yaml --\n"},
		"ignored deep": {changed: "-- settings/.gitignore --\n# no\n\\#x\nx y\\ \n*\n!*/\n!*.yaml\n-- settings/#x --\n-- settings/n/o.txt --\n-- settings/n/p.yaml --\n"},
		"ignored spaces": {changed: "-- .gitignore --\nx \ny\\ \n-- x --\n", do: func(t *testing.T, dir string) {
			for _, name := range []string{"x ", "y ", "y"} {
				if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}},
		"ignored stars": {changed: "-- .gitignore --\nlogs/**\n!logs/keep\n**/cache\na/**/z\n[!a]ne.txt\nsettings/**/w.yaml\n-- logs/keep --\n-- logs/x --\n-- q/cache/y --\n-- cache --\n-- a/z --\n-- a/b/c/z --\n-- a/b/zz --\n-- one.txt --\n-- ane.txt --\n-- settings/w.yaml --\n-- settings/v/w.yaml --\n"},
		"ignored, tracked": {
			changed: "-- .gitignore --\nsettings/\n*.yaml\n-- settings/a.yaml --\na: 7\n-- settings/new.yaml --\n-- new.yaml --\n",
		},
		"excluded": {
			before:  [][]string{{"config", "core.excludesFile", "~/mine"}},
			home:    "-- mine --\n*.swp\n",
			changed: "-- .git/info/exclude --\nprivate.*\n-- private.yaml --\n-- settings/.a.swp --\n-- seen --\n",
		},
		"excluded by default": {home: "-- .config/git/ignore --\n*.swp\n", changed: "-- .a.swp --\n-- seen --\n"},
		"CRLF":                {changed: "-- settings/a.yaml --\na: 1␍\nb: 2␍\n-- lone --\na␍b␍\n"},
		"CRLF, autocrlf":      {before: [][]string{{"config", "core.autocrlf", "true"}}, changed: "-- settings/a.yaml --\na: 1␍\nb: 2␍\n-- lone --\na␍b␍\n-- zero --\n␀␍\n-- new --\nx␍\n"},
		"CRLF, attributes":    {changed: "-- .gitattributes --\n*.yaml text\n*.md eol=crlf\n*.raw -text\n*.bin binary\n* text=auto\nsettings/kept.yaml !text\n-- settings/a.yaml --\na: 1␍\n-- settings/kept.yaml --\nb␍\n-- x.md --\nb␍\n-- x.raw --\nb␍\n-- x.bin --\nb␍\n-- x.auto --\nb␍\n"},
		"attributes, deep":    {changed: "-- settings/.gitattributes --\na/*.yaml text\n-- .gitattributes --\nc.yaml -text\n-- settings/a/c.yaml --\nb␍\n-- settings/a.yaml --\nb␍\n"},
		"attributes, info":    {changed: "-- .git/info/attributes --\n*.yaml text\n-- .gitattributes --\n*.yaml -text\n-- settings/a.yaml --\nb␍\n"},
		"filter not set up":   {changed: "-- .gitattributes --\n*.yaml filter=lfs -text\n-- settings/a.yaml --\nb␍\n"},
		"links": {do: func(t *testing.T, dir string) {
			symlink(t, "a.yaml", filepath.Join(dir, "settings/link.yaml"))
			symlink(t, "nowhere", filepath.Join(dir, "dangling"))
			symlink(t, "settings", filepath.Join(dir, "top.d"))
		}},
		"a directory replaced by a link": {do: func(t *testing.T, dir string) {
			if err := os.Rename(filepath.Join(dir, "settings"), filepath.Join(t.TempDir(), "elsewhere")); err != nil {
				t.Fatal(err)
			}
			symlink(t, t.TempDir(), filepath.Join(dir, "settings"))
		}},
		"links without symlinks": {
			before: [][]string{{"config", "core.symlinks", "false"}},
			do: func(t *testing.T, dir string) {
				symlink(t, "a.yaml", filepath.Join(dir, "settings/link.yaml"))
				gitCLI(t, dir, "-c", "core.symlinks=true", "add", "-A")
				write(t, dir, "-- settings/link.yaml --\n(remove)\n")
				if err := os.WriteFile(filepath.Join(dir, "settings/link.yaml"), []byte("kept.yaml"), 0o644); err != nil {
					t.Fatal(err)
				}
			},
		},
		"executable": {do: func(t *testing.T, dir string) {
			if err := os.Chmod(filepath.Join(dir, "settings/a.yaml"), 0o755); err != nil {
				t.Fatal(err)
			}
		}},
		"executable without modes": {before: [][]string{{"config", "core.fileMode", "false"}}, do: func(t *testing.T, dir string) {
			if err := os.Chmod(filepath.Join(dir, "settings/a.yaml"), 0o755); err != nil {
				t.Fatal(err)
			}
		}},
		"odd names": {changed: "-- Settings/a.yaml --\n-- settings/A.yaml --\n-- docs/Icon\\x --\n-- docs/é.txt --\n", do: func(t *testing.T, dir string) {
			if err := os.WriteFile(filepath.Join(dir, "docs", "Icon\r"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "docs", "no\xfftext"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}},
		"sparse": {
			committed: "-- prod/x.yaml --\n-- dev/x.yaml --\n",
			before:    [][]string{{"update-index", "--skip-worktree", "dev/x.yaml", "settings/a.yaml"}},
			changed:   "-- prod/x.yaml --\nnew\n-- dev --\n(remove)\n-- settings/a.yaml --\n(remove)\n",
		},
		"staged": {changed: "-- settings/a.yaml --\na: 5\n-- gone.yaml --\n", do: func(t *testing.T, dir string) {
			gitCLI(t, dir, "add", "-A")
			write(t, dir, "-- gone.yaml --\n(remove)\n-- settings/a.yaml --\na: 6\n")
		}},
		"to be added":   {changed: "-- soon.yaml --\nx\n", do: func(t *testing.T, dir string) { gitCLI(t, dir, "add", "-N", "soon.yaml") }},
		"index 4":       {before: [][]string{{"update-index", "--index-version", "4"}}, changed: "-- settings/a.yaml --\na: 5\n"},
		"large":         {changed: "-- large.yaml --\n" + strings.Repeat("x\n", maxBlob*2) + "-- settings/half.yaml --\n" + strings.Repeat("x\n", maxBlob*3/4)},
		"a nested file": {changed: "-- settings/a/b/c/d.yaml --\nx\n-- settings/a/c.yaml --\n(remove)\n"},
	} {
		t.Run(name, func(t *testing.T) {
			write(t, emptyHome(t), c.home)
			dir := t.TempDir()
			write(t, dir, workingBase+c.committed)
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
			s, err := openCheckout(t, dir).Working()
			if err != nil {
				t.Fatal(err)
			}
			got := s.Tree.Hash().String()
			sizes(t, s.Tree)
			gitCLI(t, dir, "-c", "advice.addEmbeddedRepo=false", "add", "-A")
			if want := gitCLI(t, dir, "write-tree"); got != want {
				t.Errorf("the working tree is %s, and Git commits %s:\n%s\nnot\n%s", got, want, gitCLI(t, dir, "ls-files", "-s"), treeListing(t, s.Tree))
			}
		})
	}
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

func mkdir(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
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
	s, err := openCheckout(t, w.Dir()).Working()
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
	s, err := c.Working()
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
		if _, err := c.Working(); !hasReason(err, PathNotFound) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A filter that runs another program is not run: the file cannot be read, and all others can.
func TestContentThatOnlyAnotherProgramKnowsIsNotGuessed(t *testing.T) {
	emptyHome(t)
	w := newWork(t, files("top.yaml", "one", "settings/a.yaml", "a"))
	gitCLI(t, w.Dir(), "config", "filter.crypt.clean", "exit 1")
	gitCLI(t, w.Dir(), "config", "filter.lfs.process", "exit 1")
	write(t, w.Dir(), "-- .gitattributes --\n*.secret filter=crypt\nu.yaml working-tree-encoding=UTF-16\ni.yaml ident\nl.yaml filter=lfs\n-- x.secret --\ny\n-- u.yaml --\ny\n-- i.yaml --\n$Id$\n-- l.yaml --\ny\n")
	s, err := openCheckout(t, w.Dir()).Working()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"x.secret": "the filter crypt decides what Git commits of x.secret; commit it, then read the commit",
		"u.yaml":   "the encoding UTF-16 decides what Git commits of u.yaml",
		"i.yaml":   "the attribute ident decides what Git commits of i.yaml",
	} {
		if data, err := s.Tree.ReadFile(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s holds %q, %v", name, data, err)
		}
	}
	if data, err := s.Tree.ReadFile("l.yaml"); err != nil || !strings.HasPrefix(string(data), "version https://git-lfs.github.com/spec/v1\noid sha256:") {
		t.Errorf("the file of LFS holds %q, %v", data, err)
	}
}

func TestARepositoryInTheWorkingTreeIsASubmodule(t *testing.T) {
	emptyHome(t)
	w := newWork(t, files("top.yaml", "one"))
	inner := filepath.Join(w.Dir(), "settings", "inner")
	write(t, inner, "-- a.yaml --\nx\n")
	gitCLI(t, inner, "init", "-q")
	s, err := openCheckout(t, w.Dir()).Working()
	if err != nil {
		t.Fatal(err)
	}
	if info, err := s.Tree.Stat("settings/inner"); err != nil || info.Mode() != fs.ModeIrregular {
		t.Errorf("it is %v, %v", info, err)
	}
}

// A file that changes after the working tree was read is an error, or has the content from before: never content of another
// hash.
func TestAFileThatChangesMeanwhileIsNotMixed(t *testing.T) {
	emptyHome(t)
	w := newWork(t, files("top.yaml", "one"))
	const many = 70 // of 1 MiB: more than is held in memory
	name := func(i int) string { return fmt.Sprintf("f%d", i) }
	fill := func(content string) {
		for i := range many {
			if err := os.WriteFile(filepath.Join(w.Dir(), name(i)), []byte(strings.Repeat(content, maxBlob-i)), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	fill("a")
	s, err := openCheckout(t, w.Dir()).Working()
	if err != nil {
		t.Fatal(err)
	}
	for i := range many {
		if data, err := s.Tree.ReadFile(name(i)); err != nil || data[0] != 'a' {
			t.Fatalf("%s: %v", name(i), err)
		}
	}
	fill("b")
	changed := 0
	for i := range many {
		data, err := s.Tree.ReadFile(name(i))
		switch {
		case err == nil && data[0] == 'a':
		case err != nil && strings.Contains(err.Error(), "it changed at the same time"):
			changed++
		default:
			t.Fatalf("%s: %v", name(i), err)
		}
	}
	if changed == 0 {
		t.Error("no file was read again")
	}
}

// A job of a CI may have no home directory, and a user no configuration that can be parsed.
func TestTheWorkingTreeIsReadWithoutAHomeAndNotWithABrokenConfiguration(t *testing.T) {
	home := emptyHome(t)
	w := newWork(t, files("top.yaml", "one"))
	write(t, home, "-- .gitconfig --\n[core\nx\n")
	if _, err := openCheckout(t, w.Dir()).Working(); err == nil || !strings.Contains(err.Error(), "cannot read the configuration of Git") {
		t.Error(err)
	}
	t.Setenv("HOME", "")
	if _, err := openCheckout(t, w.Dir()).Working(); err != nil {
		t.Error(err)
	}
}
