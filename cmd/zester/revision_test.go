package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/plan/review"
	"github.com/seed-c01c3da5/zester/settings/target/peelindex"
)

// An opinion is what a reader says about a revision.
type opinion struct {
	reason           plan.Reason
	errors, warnings []string
}

func (v opinion) String() string {
	return fmt.Sprintf("%s %s\nwarnings: %s", v.reason, strings.Join(v.errors, "\n"), strings.Join(v.warnings, "\n"))
}

// opinionOf describes what a compiler returned.
func opinionOf(t *testing.T, p *plan.Plan, err error) (v opinion) {
	t.Helper()
	if err != nil {
		refused, ok := review.Refusal(err)
		if !ok {
			t.Fatal(err)
		}
		v.reason = refused.Reason
		for _, e := range refused.Errors {
			place := e.Pos.String()
			if strings.HasPrefix(place, "revision ") || place == "the working tree" {
				place = "the revision"
			}
			v.errors = append(v.errors, place+": "+e.Msg)
		}
		return v
	}
	for _, w := range p.Warnings {
		v.warnings = append(v.warnings, w.String())
	}
	return v
}

// masterSays follows the branch main of a repository as the reconciler does, and compiles what it finds.
func masterSays(t *testing.T, repo, path string, fleet *peelindex.Index) opinion {
	t.Helper()
	r, err := gitrepo.Open(gitrepo.Options{URL: repo, Path: path, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	head, err := r.Resolve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = r.Fetch(t.Context(), head)
	var s *gitrepo.Snapshot
	if err == nil {
		s, err = r.Snapshot(head)
	}
	if err != nil {
		return opinionOf(t, nil, err)
	}
	p, err := plan.NewCompiler().Compile(s.Tree, fleet)
	return opinionOf(t, p, err)
}

// planSays is what zester plan finds at the head, which is the working tree if it is empty.
func planSays(t *testing.T, at place, fleet *peelindex.Index) opinion {
	t.Helper()
	c, err := gitrepo.OpenCheckout(at.repo, at.path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p := planning{checkout: c, compiler: plan.NewCompiler(), fleet: fleet}
	p.readAhead("HEAD")
	compiled, err := p.head(t.Context(), at.head)
	return opinionOf(t, compiled, err)
}

// oddTrees returns revisions that are easily read differently from a commit and from a directory. Each is laid over a sound
// repo; "do" makes what an archive cannot hold. It is a function, because every command of the scripts starts this program
// and would make these 10 MB.
func oddTrees() map[string]oddTree {
	return map[string]oddTree{
		"sound":                      {want: "settings/spare.yaml: no target uses this file"},
		"zester.yml":                 {files: "-- zester.yml --\nlimits: {change: 1%}\n", want: "zester.yml: it is not read: its name has to be zester.yaml"},
		"Zester.yaml":                {files: "-- Zester.yaml --\n", want: "Zester.yaml: it is not read"},
		"TOP.yaml":                   {files: "-- TOP.yaml --\n", want: "TOP.yaml: it is not read"},
		"Settings":                   {files: "-- Settings/x.yaml --\n", want: "Settings: it is not read"},
		"empty near names":           {do: func(t *testing.T, dir string) { folder(t, dir, "Settings", "Top.d", "top.d/sub") }, want: "no target uses"},
		"top.d is a file":            {files: "-- top.d --\n", want: "top.d: it is not read: it has to be a directory"},
		"top.d is a link":            {do: func(t *testing.T, dir string) { link(t, "settings", dir, "top.d") }, want: "top.d: it is not read"},
		"top.d is nested":            {files: "-- top.d/team/x.yaml --\nbase: {}\n", want: "top.d/team/x.yaml: it is not read"},
		"settings is a link":         {do: moveSettings, want: "settings is not a directory"},
		"yml":                        {files: "-- settings/x.yml --\n", want: "settings end in .yaml; rename it"},
		"broken and unused":          {files: "-- settings/x.yaml --\na: [\n", want: "settings/x.yaml:"},
		"no top file":                {files: "-- top.yaml --\n(remove)\n", want: "TopMissing"},
		"top file is a link":         {files: "-- top.yaml --\n(remove)\n", do: func(t *testing.T, dir string) { link(t, "settings/a.yaml", dir, "top.yaml") }, want: "TopIsSymlink"},
		"nothing at all":             {files: "-- top.yaml --\n(remove)\n-- settings --\n(remove)\n-- sub --\n(remove)\n", want: " "},
		"a used link":                {files: "-- settings/a.yaml --\n(remove)\n", do: func(t *testing.T, dir string) { link(t, "spare.yaml", dir, "settings/a.yaml") }, want: "is a symbolic link, which is not followed"},
		"an unused link":             {do: func(t *testing.T, dir string) { link(t, "a.yaml", dir, "settings/l.yaml") }, want: "settings/l.yaml: it is a symbolic link"},
		"case twins":                 {files: "-- settings/A.yaml --\nb: 1\n", want: "differs from settings/A.yaml only in case"},
		"a control character":        {do: func(t *testing.T, dir string) { file(t, dir, "settings/Icon\r") }, want: "has a control character"},
		"a control character beside": {do: func(t *testing.T, dir string) { file(t, dir, "docs/Icon\r") }, want: "no target uses"},
		"a backslash":                {do: func(t *testing.T, dir string) { file(t, dir, `settings/a\b.yaml`) }, want: "has a backslash"},
		"no UTF-8":                   {do: func(t *testing.T, dir string) { file(t, dir, "settings/\xff.yaml") }, want: "has a name that is not UTF-8"},
		"a space":                    {files: "-- settings/a b.yaml --\na: 1\n", want: "no reference can name this file"},
		"a large file":               {files: "-- settings/a.yaml --\n" + strings.Repeat("# x\n", 300_000), want: "TooLarge settings/a.yaml: 1200000 bytes"},
		"too deep":                   {files: "-- docs/" + strings.Repeat("d/", 70) + "x --\n", want: "TooLarge", reasonOnly: true},
		"an LFS pointer":             {files: "-- settings/a.yaml --\nversion https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n", want: "LFSPointer"},
		"LFS":                        {files: "-- .gitattributes --\nsettings/a.yaml filter=lfs\n", do: lfs, want: "LFSPointer settings/a.yaml:1:1"},
		"CRLF":                       {files: "-- .gitattributes --\n* text=auto\n-- settings/a.yaml --\na: 1␍\nb: |␍\n  x␍\n", want: "no target uses"},
		"CRLF over the limit":        {files: "-- .gitattributes --\n* text\n-- settings/a.yaml --\n" + strings.Repeat("#␍\n", 400_000), want: "no target uses"},
		"CRLF as it is":              {files: "-- .gitattributes --\n* -text\n-- settings/a.yaml --\n" + strings.Repeat("#␍\n", 400_000), want: "TooLarge"},
		"ignored":                    {files: "-- .gitignore --\n*.bak.yaml\n/zester.yml\nsettings/old/\n-- zester.yml --\n-- settings/x.bak.yaml --\na: [\n-- settings/old/x.yml --\n", want: "no target uses"},
		"ignored and used":           {files: "-- .gitignore --\nsettings/a.yaml\n", want: "a has no file: there is no settings/a.yaml"},
		"a repository within":        {do: nested, want: "settings/inner: it is a submodule"},
		"a path":                     {path: "sub", want: "top.yaml:1:14: b has no file"},
		"no such path":               {path: "prod", want: `PathNotFound the revision: it has no directory "prod"`},
		"a path that is ignored":     {path: "prod", files: "-- .gitignore --\nprod\n-- prod/top.yaml --\nbase: {}\n", want: "PathNotFound", reasonOnly: true},
		"isolate":                    {files: "-- zester.yaml --\non_error: isolate\n-- settings/a.yaml --\nschedule: {x: {}}\n", want: " "},
	}
}

type oddTree struct {
	files string
	do    func(t *testing.T, dir string)
	path  string
	want  string // in the opinion
	// The texts differ: Git finds the depth while it copies, and the working tree knows why there is no such directory.
	reasonOnly bool
}

const soundTree = `
-- top.yaml --
base: {'*': [a]}
-- settings/a.yaml --
a: 1
-- settings/spare.yaml --
a: 2
-- sub/top.yaml --
base: {'*': [b]}
`

func put(t *testing.T, dir, archive string) {
	t.Helper()
	for _, f := range txtar.Parse([]byte(archive)).Files {
		name := filepath.Join(dir, f.Name)
		err := os.RemoveAll(name)
		if string(f.Data) != "(remove)\n" {
			folder(t, dir, filepath.Dir(f.Name))
			err = os.WriteFile(name, []byte(strings.ReplaceAll(string(f.Data), "␍", "\r")), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func folder(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

func file(t *testing.T, dir, name string) {
	t.Helper()
	folder(t, dir, filepath.Dir(name))
	if err := os.WriteFile(filepath.Join(dir, name), []byte("a: 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, to, dir, name string) {
	t.Helper()
	if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

func moveSettings(t *testing.T, dir string) {
	t.Helper()
	if err := os.Rename(filepath.Join(dir, "settings"), filepath.Join(dir, "elsewhere")); err != nil {
		t.Fatal(err)
	}
	link(t, "elsewhere", dir, "settings")
}

// lfs sets up the filter of Git LFS with a program that makes a pointer of anything.
func lfs(t *testing.T, dir string) {
	t.Helper()
	home := os.Getenv("HOME")
	script := "#!/bin/sh\ncat > /dev/null\nprintf 'version https://git-lfs.github.com/spec/v1\\noid sha256:00\\nsize 1\\n'\n"
	if err := os.WriteFile(filepath.Join(home, "clean"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	config := "[filter \"lfs\"]\n\tclean = " + filepath.Join(home, "clean") + "\n"
	if err := os.WriteFile(filepath.Join(home, ".gitconfig"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
}

func nested(t *testing.T, dir string) {
	t.Helper()
	put(t, dir, "-- settings/inner/x.yaml --\na: 1\n")
	inner := filepath.Join(dir, "settings/inner")
	runGit(t, inner, "init", "-q")
	runGit(t, inner, "add", "-A")
	runGit(t, inner, "commit", "-q", "-m", "inner")
}

func runGit(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

// Whatever a repo holds, a master, zester lint and zester plan say the same about the commit, about the working tree before
// the commit, and about the working tree after it.
func TestLintPlanAndTheMasterReadTheSame(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs the git binary")
	}
	fleet := peelindex.New()
	fleet.Put("web-01", nil)
	for name, c := range oddTrees() {
		t.Run(name, func(t *testing.T) {
			t.Setenv("HOME", t.TempDir())
			t.Setenv("XDG_CONFIG_HOME", "")
			dir := t.TempDir()
			put(t, dir, soundTree+c.files)
			if c.do != nil {
				c.do(t, dir)
			}
			at := place{repo: dir, path: c.path}
			said := map[string]opinion{}
			lint := func(when string, at place) {
				p, err := compileAt(t.Context(), at, fleet)
				said["lint "+when] = opinionOf(t, p, err)
			}
			lint("in no repository", at)
			runGit(t, dir, "init", "-q", "-b", "main")
			lint("before the commit", at)
			runGit(t, dir, "-c", "advice.addEmbeddedRepo=false", "add", "-A")
			lint("of what is added", at)
			runGit(t, dir, "commit", "-q", "--allow-empty", "-m", "odd")
			lint("after the commit", at)
			said["plan of the working tree"] = planSays(t, at, fleet)
			at.head = "HEAD"
			lint("of the commit", at)
			said["plan of the commit"] = planSays(t, at, fleet)
			want := masterSays(t, dir, c.path, fleet)
			if !strings.Contains(want.String(), c.want) {
				t.Errorf("the master says %v, not %q", want, c.want)
			}
			for who, got := range said {
				if c.reasonOnly {
					got.errors, want.errors = nil, nil
				}
				if got.reason != want.reason || !slices.Equal(got.errors, want.errors) || !slices.Equal(got.warnings, want.warnings) {
					t.Errorf("%s says\n%v\nand the master\n%v", who, got, want)
				}
			}
		})
	}
}

func TestACommitIsReadWithoutTheProgramGit(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	dir := t.TempDir()
	put(t, dir, soundTree)
	runGit(t, dir, "init", "-q", "-b", "main")
	runGit(t, dir, "add", "-A")
	runGit(t, dir, "commit", "-q", "-m", "sound")
	t.Setenv("PATH", t.TempDir())
	if _, err := compileAt(t.Context(), place{repo: dir, head: "HEAD"}, nil); err != nil {
		t.Error(err)
	}
	_, err := compileAt(t.Context(), place{repo: dir}, nil)
	if f, ok := errors.AsType[*failure](err); !ok || !strings.Contains(f.hint, "--head REVISION") || !strings.Contains(f.Error(), "the program git is not in $PATH") {
		t.Error(err)
	}
}
