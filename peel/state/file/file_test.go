//go:build linux

package file

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/seed-c01c3da5/zester/peel/state/host"
	"github.com/seed-c01c3da5/zester/peel/state/safefs"
	"github.com/seed-c01c3da5/zester/settings/state"
	"github.com/seed-c01c3da5/zester/settings/state/mustache"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// temp returns a directory whose path holds no link.
func temp(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	return dir
}

func put(t *testing.T, name, content string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(name), 0o755))
	must(t, os.WriteFile(name, []byte(content), 0o644))
}

func get(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	must(t, err)
	return string(data)
}

// a planner plans one state.
type planner func(w *host.World) ([]host.Step, error)

var noFiles = Inputs{
	Source: func(_ context.Context, name string) (Content, error) { return Content{}, fmt.Errorf("no %s", name) },
}

// planOf plans a state that is written in YAML.
func planOf(t *testing.T, text string, in Inputs) planner {
	t.Helper()
	n, err := strictyaml.Parse("t.yaml", []byte(text))
	must(t, err)
	set, err := state.Parse(n, state.Options{})
	must(t, err)
	var all []string
	for _, s := range set {
		if a, ok := s.Args.(*state.FileManaged); ok {
			all = append(all, a.Path)
		}
	}
	owned := func(name string) bool {
		return slices.ContainsFunc(all, func(p string) bool { return p == name || strings.HasPrefix(p, name+"/") })
	}
	s := set[len(set)-1]
	return func(w *host.World) ([]host.Step, error) {
		switch a := s.Args.(type) {
		case *state.FileManaged:
			return Managed(t.Context(), w, a, in)
		case *state.FileDirectory:
			return Directory(t.Context(), w, a, owned)
		case *state.FileRecurse:
			return Recurse(t.Context(), w, a, in, owned)
		case *state.FileSymlink:
			return Link(w, a)
		case *state.FileAbsent:
			return Missing(w, a)
		case *state.FileLine:
			return Line(w, a)
		case *state.FileBlock:
			return Block(t.Context(), w, a, in)
		case *state.FileReplace:
			return Replace(w, a)
		}
		t.Fatalf("%T", s.Args)
		return nil, nil
	}
}

func changes(steps []host.Step) []string {
	out := make([]string, len(steps))
	for i, s := range steps {
		out[i] = s.Do + " " + filepath.Base(s.What)
	}
	return out
}

// apply predicts a state, applies it, and holds the two together: the steps are those of the prediction, the predicted
// world and the real one need no further step. It returns the changes.
func apply(t *testing.T, plan planner) []string {
	t.Helper()
	predicted := host.New()
	foreseen, err := plan(predicted)
	must(t, err)
	for _, s := range foreseen {
		s.Predict(predicted)
	}
	if again, err := plan(predicted); err != nil || len(again) > 0 {
		t.Errorf("after the prediction %v, %v is planned", changes(foreseen), changes(again))
	}
	steps, err := plan(host.New())
	must(t, err)
	if a, b := asJSON(steps), asJSON(foreseen); a != b {
		t.Errorf("predicted %s, planned %s", b, a)
	}
	for _, s := range steps {
		must(t, s.Apply(t.Context()))
	}
	if again, err := plan(host.New()); err != nil || len(again) > 0 {
		t.Errorf("after %v, %v is planned and the error is %v", changes(steps), changes(again), err)
	}
	return changes(steps)
}

func asJSON(steps []host.Step) string {
	var all []host.Change
	for _, s := range steps {
		all = append(all, s.Change)
	}
	data, _ := json.Marshal(all)
	return string(data)
}

func wants(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("the changes are %v, want %v", got, want)
	}
}

func TestManagedFiles(t *testing.T) {
	dir := temp(t)
	name := dir + "/sub/f"
	yaml := "f: {file.managed: {path: " + name + ", content: \"a\\n\", makedirs: true, mode: '0640'}}"
	wants(t, apply(t, planOf(t, yaml, noFiles)), "create sub", "create f")
	if info, _ := os.Stat(name); get(t, name) != "a\n" || info.Mode().Perm() != 0o640 {
		t.Errorf("%q, %v", get(t, name), info.Mode())
	}
	wants(t, apply(t, planOf(t, yaml, noFiles)))
	must(t, os.Chmod(name, 0o600))
	wants(t, apply(t, planOf(t, yaml, noFiles)), "mode f")
	put(t, name, "b\n") // keeps the mode
	wants(t, apply(t, planOf(t, yaml, noFiles)), "write f")

	// Without mode an old file keeps its own, a new one has 0644.
	must(t, os.Chmod(name, 0o606))
	wants(t, apply(t, planOf(t, "f: {file.managed: {path: "+name+", content: c}}", noFiles)), "write f")
	if info, _ := os.Stat(name); info.Mode().Perm() != 0o606 {
		t.Errorf("the old file has %v", info.Mode())
	}
	// replace: false only makes.
	wants(t, apply(t, planOf(t, "f: {file.managed: {path: "+name+", content: d, replace: false}}", noFiles)))
	// A link at the path is replaced, and what it points to stays.
	must(t, os.Symlink(name, dir+"/link"))
	wants(t, apply(t, planOf(t, "f: {file.managed: {path: "+dir+"/link, content: e}}", noFiles)), "write link")
	if get(t, name) != "c" || get(t, dir+"/link") != "e" {
		t.Errorf("%q, %q", get(t, name), get(t, dir+"/link"))
	}
}

func TestWhatAManagedFileRefuses(t *testing.T) {
	dir := temp(t)
	must(t, os.Mkdir(dir+"/d", 0o755))
	must(t, unix.Mkfifo(dir+"/fifo", 0o600))
	for text, want := range map[string]string{
		"f: {file.managed: {path: " + dir + "/d, content: x}}":                       "is a directory",
		"f: {file.managed: {path: " + dir + "/fifo, content: x}}":                    "is a device, socket or pipe",
		"f: {file.managed: {path: " + dir + "/no/f, content: x}}":                    "does not exist; makedirs: true makes it",
		"f: {file.managed: {path: " + dir + "/fifo/f, content: x}}":                  "not a directory",
		"f: {file.managed: {path: " + dir + "/f, content: x, user: nobody-such}}":    `there is no user "nobody-such" on this host`,
		"f: {file.managed: {path: " + dir + "/f, content: '{{x}}', template: true}}": `content:1:1: there is no "x"`,
		"f: {file.managed: {path: " + dir + "/f, source: files/none}}":               "no files/none",
		"f: {file.symlink: {path: " + dir + "/d, target: x}}":                        "which a link never replaces",
		"f: {file.symlink: {path: " + dir + "/fifo, target: x, force: true}}":        "which a link never replaces",
		"f: {file.directory: {path: " + dir + "/fifo}}":                              "not a directory",
		"f: {file.line: {path: " + dir + "/d, line: x}}":                             "is a directory",
		"f: {file.line: {path: " + dir + "/new, line: x, after: none}}":              "there is no place for the new line",
		"f: {file.block: {path: " + dir + "/no/f, content: x}}":                      "does not exist",
	} {
		if steps, err := planOf(t, text, noFiles)(host.New()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v and the error %v, want %q", text, changes(steps), err, want)
		}
	}
}

func TestACheckThatFailsKeepsTheOldFile(t *testing.T) {
	dir := temp(t)
	put(t, dir+"/f", "old")
	plan := planOf(t, "f: {file.managed: {path: "+dir+"/f, content: new, check: [grep, -q, old, '{}']}}", noFiles)
	steps, err := plan(host.New())
	must(t, err)
	if err := steps[0].Apply(t.Context()); err == nil || !strings.Contains(err.Error(), "the old file stays") {
		t.Error(err)
	}
	if left, _ := os.ReadDir(dir); get(t, dir+"/f") != "old" || len(left) != 1 {
		t.Errorf("the file holds %q beside %v", get(t, dir+"/f"), left)
	}
	wants(t, apply(t, planOf(t, "f: {file.managed: {path: "+dir+"/f, content: new, check: [grep, -q, new, '{}']}}", noFiles)), "write f")
}

func TestTemplatesGetSettingsFactsAndVars(t *testing.T) {
	dir := temp(t)
	in := Inputs{
		Source: func(context.Context, string) (Content, error) {
			return Content{Data: []byte("{{peel}} {{facts.os}} {{vars.port}} {{settings.nginx.workers}}\n")}, nil
		},
		Data: map[string]any{"peel": "web-01", "facts": map[string]any{"os": "debian"}, "settings": map[string]any{"nginx": map[string]any{"workers": int64(4)}}},
	}
	wants(t, apply(t, planOf(t, "f: {file.managed: {path: "+dir+"/f, source: files/x, template: true, vars: {port: 80}}}", in)), "create f")
	if got := get(t, dir+"/f"); got != "web-01 debian 80 4\n" {
		t.Errorf("%q", got)
	}
}

// public returns a directory that every user gets to.
func public(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "zester-test-")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	must(t, os.Chmod(dir, 0o755))
	return dir
}

func TestDiffsShowNothingThatOthersMayNotRead(t *testing.T) {
	dir := public(t)
	for _, below := range []string{"/private", "/private/d", "/public"} {
		must(t, os.Mkdir(dir+below, 0o755))
	}
	must(t, os.Chmod(dir+"/private", 0o700))
	must(t, os.Symlink("private/d", dir+"/in"))
	must(t, os.Symlink("../../public", dir+"/private/d/out"))
	put(t, dir+"/private/d/f", "one\n")
	put(t, dir+"/public/f", "one\n")
	put(t, dir+"/open", "one\ntwo\n")
	put(t, dir+"/closed", "one\n")
	must(t, os.Chmod(dir+"/closed", 0o600))
	put(t, dir+"/binary", "a\x00b")
	put(t, dir+"/long", strings.Repeat("a\n", 300))
	secret := Inputs{Source: func(context.Context, string) (Content, error) {
		return Content{Data: []byte("one\nthree\n"), Secret: true}, nil
	}}
	for text, want := range map[string]string{
		"f: {file.managed: {path: " + dir + "/open, content: \"one\\nthree\\n\"}}":                "-two\n+three\n",
		"f: {file.managed: {path: " + dir + "/open, content: x, diff: false}}":                    "",
		"f: {file.managed: {path: " + dir + "/open, content: x, mode: '0600'}}":                   "", // becomes unreadable
		"f: {file.managed: {path: " + dir + "/closed, content: x, mode: '0644'}}":                 "", // was
		"f: {file.managed: {path: " + dir + "/open, source: files/x}}":                            "", // is secret
		"f: {file.managed: {path: " + dir + "/binary, content: x}}":                               "",
		"f: {file.managed: {path: " + dir + "/private/d/f, content: x}}":                          "",
		"f: {file.managed: {path: " + dir + "/private/d/new, content: x}}":                        "",
		"f: {file.line: {path: " + dir + "/private/d/f, line: x}}":                                "",
		"f: {file.managed: {path: " + dir + "/in/f, content: x}}":                                 "",
		"f: {file.managed: {path: " + dir + "/private/d/out/f, content: x}}":                      "-one\n+x\n",
		"f: {file.line: {path: " + dir + "/public/f, line: x}}":                                   " one\n+x\n",
		"f: {file.managed: {path: " + dir + "/long, content: '" + strings.Repeat("b ", 3) + "'}}": "",
	} {
		steps, err := planOf(t, text, secret)(host.New())
		if err != nil || len(steps) != 1 {
			t.Fatalf("%s: %v, %v", text, changes(steps), err)
		}
		got := steps[0].Diff
		if strings.Contains(text, "/long") {
			if lines := strings.Count(got, "\n"); lines > maxLines+1 || lines < 300 {
				t.Errorf("a diff of %d lines", lines)
			}
			continue
		}
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: the diff is %q, want %q", text, got, want)
		}
	}
}

func TestDirectories(t *testing.T) {
	dir := temp(t)
	d := dir + "/a/b"
	wants(t, apply(t, planOf(t, "d: {file.directory: {path: "+d+", makedirs: true, mode: '0750'}}", noFiles)), "create a", "create b")
	put(t, d+"/x", "1")
	put(t, d+"/sub/y", "2")
	must(t, os.Chmod(d+"/x", 0o755))
	wants(t, apply(t, planOf(t, "d: {file.directory: {path: "+d+", mode: '0700', recurse: [mode]}}", noFiles)), "mode y", "mode sub", "mode x", "mode b")
	for name, want := range map[string]fs.FileMode{"x": 0o711, "sub": 0o700, "sub/y": 0o600} {
		if info, _ := os.Stat(d + "/" + name); info.Mode().Perm() != want {
			t.Errorf("%s has %v, want %v", name, info.Mode(), want)
		}
	}
	// clean removes what no state owns.
	put(t, d+"/keep/it", "3")
	put(t, d+"/keep/not", "4")
	must(t, os.Symlink("/etc", d+"/etc"))
	text := "k: {file.managed: {path: " + d + "/keep/it, content: '3'}}\nd: {file.directory: {path: " + d + ", clean: true}}"
	n, err := strictyaml.Parse("t.yaml", []byte(text))
	must(t, err)
	set, err := state.Parse(n, state.Options{})
	must(t, err)
	if set[0].Name != "d" { // a file comes after its directory
		t.Fatal(set[0].Name)
	}
	owned := func(name string) bool { return name == d+"/keep" || name == d+"/keep/it" }
	plan := func(w *host.World) ([]host.Step, error) {
		return Directory(t.Context(), w, set[0].Args.(*state.FileDirectory), owned)
	}
	wants(t, apply(t, plan), "remove etc", "remove not", "remove sub", "remove x")
	if _, err := os.Stat("/etc/passwd"); err != nil {
		t.Fatal("a link was followed")
	}
}

func TestATreeOfFiles(t *testing.T) {
	dir := temp(t)
	tree := map[string]Content{"a": {Data: []byte("1")}, "sub/b": {Data: []byte("2"), Executable: true}}
	in := Inputs{
		Source: func(_ context.Context, name string) (Content, error) {
			return tree[strings.TrimPrefix(name, "files/t/")], nil
		},
		Tree: func(string) ([]string, error) { return []string{"a", "sub/b"}, nil },
	}
	yaml := "r: {file.recurse: {path: " + dir + "/r, source: files/t, clean: true}}"
	wants(t, apply(t, planOf(t, yaml, in)), "create r", "create a", "create sub", "create b")
	if info, _ := os.Stat(dir + "/r/sub/b"); info.Mode().Perm() != 0o755 {
		t.Errorf("an executable has %v", info.Mode())
	}
	put(t, dir+"/r/sub/extra", "x")
	put(t, dir+"/r/old/y", "x")
	put(t, dir+"/r/a", "changed")
	wants(t, apply(t, planOf(t, yaml, in)), "write a", "remove old", "remove extra")
}

func TestLinksAndAbsence(t *testing.T) {
	dir := temp(t)
	wants(t, apply(t, planOf(t, "l: {file.symlink: {path: "+dir+"/a/l, target: one, makedirs: true}}", noFiles)), "create a", "create l")
	wants(t, apply(t, planOf(t, "l: {file.symlink: {path: "+dir+"/a/l, target: two}}", noFiles)), "write l")
	if to, _ := os.Readlink(dir + "/a/l"); to != "two" {
		t.Error(to)
	}
	wants(t, apply(t, planOf(t, "l: {file.absent: {path: "+dir+"/a}}", noFiles)), "remove a")
	wants(t, apply(t, planOf(t, "l: {file.absent: {path: "+dir+"/a}}", noFiles)))
}

func TestFilesBelowADirectoryHaveAModeOfTheirOwn(t *testing.T) {
	dir := temp(t)
	must(t, os.MkdirAll(dir+"/d/sub", 0o700))
	put(t, dir+"/d/sub/f", "x")
	must(t, os.Chmod(dir+"/d/sub/f", 0o755))
	yaml := "d: {file.directory: {path: " + dir + "/d, mode: '0750', file_mode: '0640', recurse: [mode]}}"
	apply(t, planOf(t, yaml, noFiles))
	for name, want := range map[string]os.FileMode{"/d": 0o750, "/d/sub": 0o750, "/d/sub/f": 0o640} {
		info, err := os.Stat(dir + name)
		must(t, err)
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has the mode %04o, want %04o", name, got, want)
		}
	}
	wants(t, apply(t, planOf(t, yaml, noFiles)))
}

func TestLines(t *testing.T) {
	for _, c := range []struct{ name, before, args, want string }{
		{"at the end", "a\nb\n", "line: c", "a\nb\nc\n"},
		{"after a last line without a break", "a\nb", "line: c", "a\nb\nc\n"},
		{"is there", "a\nc\nb", "line: c", "a\nc\nb"},
		{"replaces", "x=1\ny=2\nx=3\n", "line: x=9, match: '^x=', all: true", "x=9\ny=2\n"},
		{"a text with the line breaks of Windows", "x=1\r\ny", "line: x=9, match: '^x='", "x=9\r\ny"},
		{"a new line in it", "x=1\r\ny", "line: z", "x=1\r\ny\r\nz\r\n"},
		{"is right already, and does not match", "x=1\nPort 2022\n", "line: Port 2022, match: '^Port 22$'", "x=1\nPort 2022\n"},
		{"is right already", "y\nx=9\n", "line: x=9, match: '^x='", "y\nx=9\n"},
		{"after", "[a]\n[b]\n", "line: k, after: '\\[a\\]'", "[a]\nk\n[b]\n"},
		{"before", "[a]\n[b]\n", "line: k, before: '\\[b\\]'", "[a]\nk\n[b]\n"},
		{"before the first of two", "[b]\n[b]\n", "line: k, before: '\\[b\\]'", "k\n[b]\n[b]\n"},
		{"after the last of two", "[a]\n[a]\n", "line: k, after: '\\[a\\]'", "[a]\n[a]\nk\n"},
		{"absent by match", "a\nb1\nb2\n", "match: '^b', absent: true", "a\n"},
		{"absent by text", "a\nb\n", "line: b, absent: true", "a\n"},
		{"a new file", "", "line: a", "a\n"},
		{"before all of a new file", "", "line: a, before: '^'", "a\n"},
	} {
		dir := temp(t)
		if c.before != "" {
			put(t, dir+"/f", c.before)
		}
		apply(t, planOf(t, "f: {file.line: {path: "+dir+"/f, "+c.args+"}}", noFiles))
		if got := get(t, dir+"/f"); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// Of several lines that match nobody knows which one is meant.
func TestALineThatMatchesSeveral(t *testing.T) {
	dir := temp(t)
	text := "# Port 22\nPort 22\nMatch User git\n  Port 2222\n"
	put(t, dir+"/f", text)
	_, err := planOf(t, "f: {file.line: {path: "+dir+"/f, line: Port 2022, match: Port}}", noFiles)(host.New())
	if err == nil || !strings.Contains(err.Error(), "the lines 1, 2, 4 match or equal the line; let match have one of them, or all: true") {
		t.Errorf("%v", err)
	}
	apply(t, planOf(t, "f: {file.line: {path: "+dir+"/f, line: Port 2022, match: '^Port'}}", noFiles))
	if got := get(t, dir+"/f"); got != strings.Replace(text, "\nPort 22\n", "\nPort 2022\n", 1) {
		t.Errorf("%q", got)
	}
}

// A line or block that breaks a file of sudo or sshd locks everybody out.
func TestLinesAndBlocksAreChecked(t *testing.T) {
	for _, args := range []string{"file.line: {line: bad", "file.block: {content: bad"} {
		dir := temp(t)
		put(t, dir+"/f", "good\n")
		steps, err := planOf(t, "f: {"+args+", path: "+dir+"/f, check: [sh, -c, '! grep bad {}']}}", noFiles)(host.New())
		if err != nil || len(steps) != 1 {
			t.Fatalf("%s: %v, %v", args, changes(steps), err)
		}
		if err := steps[0].Check(t.Context()); err == nil {
			t.Errorf("%s: the test finds nothing", args)
		}
		if err := steps[0].Apply(t.Context()); err == nil || get(t, dir+"/f") != "good\n" {
			t.Errorf("%s: %v, the file is %q", args, err, get(t, dir+"/f"))
		}
	}
}

// A directory that is planned is closed too.
func TestNoDiffBelowAPlannedDirectory(t *testing.T) {
	dir := public(t)
	for mode, shown := range map[uint32]bool{0o755: true, 0o750: false, 0o711: true} {
		w := host.New()
		w.NewDirectory(dir+"/d", safefs.Info{Kind: safefs.Directory, Mode: mode})
		steps, err := planOf(t, "f: {file.managed: {path: "+dir+"/d/f, content: x}}", noFiles)(w)
		if err != nil || len(steps) != 1 || (steps[0].Diff != "") != shown {
			t.Errorf("%o: %v, %v", mode, asJSON(steps), err)
		}
	}
}

// A file over the limit can be replaced, because its new content is another one.
func TestALargeFileIsReplaced(t *testing.T) {
	dir := temp(t)
	put(t, dir+"/f", "")
	must(t, os.Truncate(dir+"/f", MaxFile+1))
	wants(t, apply(t, planOf(t, "f: {file.managed: {path: "+dir+"/f, content: small}}", noFiles)), "write f")
	if got := get(t, dir+"/f"); got != "small" {
		t.Errorf("%d bytes", len(got))
	}
}

func TestBlocks(t *testing.T) {
	for _, c := range []struct{ name, before, args, want string }{
		{"at the end", "a", "content: \"x\\ny\", marker: m", "a\n# BEGIN m\nx\ny\n# END m\n"},
		{"replaces", "a\n# BEGIN m\nold\n# END m\nb", "content: new, marker: m", "a\n# BEGIN m\nnew\n# END m\nb"},
		{"absent", "a\n# BEGIN m\nold\n# END m", "absent: true, marker: m", "a\n"},
		{"absent already", "a", "absent: true, marker: m", "a"},
		{"lines of Salt", "a\n#-- start\nold\n#-- end\nb\n", "content: x, begin: '#-- start', end: '#-- end'", "a\n#-- start\nx\n#-- end\nb\n"},
		{"comments of INI", "a\n", "content: x, marker: m, prefix: ';'", "a\n; BEGIN m\nx\n; END m\n"},
		{"comments of XML", "<a/>\n", "content: <b/>, marker: m, prefix: <!--, suffix: -->", "<a/>\n<!-- BEGIN m -->\n<b/>\n<!-- END m -->\n"},
		{"line breaks of Windows", "a\r\n", "content: \"x\\ny\", marker: m", "a\r\n# BEGIN m\r\nx\r\ny\r\n# END m\r\n"},
	} {
		dir := temp(t)
		put(t, dir+"/f", c.before)
		apply(t, planOf(t, "f: {file.block: {path: "+dir+"/f, "+c.args+"}}", noFiles))
		if got := get(t, dir+"/f"); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	dir := temp(t)
	for _, broken := range []string{"# BEGIN m\n", "# END m\n", "# END m\n# BEGIN m\n", "# BEGIN m\n# BEGIN m\n# END m\n", "# BEGIN m\n# END m\n# END m\n", "# BEGIN m\n# END m\n# BEGIN m\n# END m\n"} {
		put(t, dir+"/f", broken)
		if _, err := planOf(t, "f: {file.block: {path: "+dir+"/f, content: x, marker: m}}", noFiles)(host.New()); err == nil || !strings.Contains(err.Error(), "do not stand as one pair") {
			t.Errorf("%q: %v", broken, err)
		}
	}
}

func TestBinaryFilesAreNotEdited(t *testing.T) {
	dir := temp(t)
	// A text in Latin-1 keeps its bytes.
	put(t, dir+"/f", "n\xe4me = 1\nport = 2\n")
	wants(t, apply(t, planOf(t, "f: {file.line: {path: "+dir+"/f, line: port = 3, match: ^port}}", noFiles)), "write f")
	apply(t, planOf(t, "f: {file.block: {path: "+dir+"/f, content: x, marker: m}}", noFiles))
	if got := get(t, dir+"/f"); got != "n\xe4me = 1\nport = 3\n# BEGIN m\nx\n# END m\n" {
		t.Errorf("%q", got)
	}
	if _, err := planOf(t, "f: {file.line: {path: "+dir+"/f, line: ä}}", noFiles)(host.New()); !errors.Is(err, errNoText) {
		t.Error(err)
	}
	put(t, dir+"/f", "a\x00")
	if _, err := planOf(t, "f: {file.line: {path: "+dir+"/f, line: x}}", noFiles)(host.New()); !errors.Is(err, errNoText) {
		t.Error(err)
	}
}

func TestAFileInTheDirectoryOfAUserIsOfThisUserOrRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	dir := temp(t) + "/home"
	must(t, os.Mkdir(dir, 0o755))
	must(t, os.Chown(dir, 65534, 65534))
	_, err := planOf(t, "f: {file.managed: {path: "+dir+"/f, content: x, user: daemon}}", noFiles)(host.New())
	if err == nil || !strings.Contains(err.Error(), "name this user or root in the argument user") {
		t.Error(err)
	}
	for _, args := range []string{"path: " + dir + "/roots, content: x", "path: " + dir + "/own, content: x, user: nobody"} {
		plan := planOf(t, "f: {file.managed: {"+args+"}}", noFiles)
		if first, second := apply(t, plan), apply(t, plan); len(first) != 1 || len(second) != 0 {
			t.Errorf("%s: %v, then %v", args, first, second)
		}
	}
	tree := planOf(t, "f: {file.directory: {path: "+dir+"/html/css, user: nobody, group: nogroup, makedirs: true}}", noFiles)
	if first, second := apply(t, tree), apply(t, tree); len(first) == 0 || len(second) != 0 {
		t.Errorf("directories: %v, then %v", first, second)
	}
}

// TestPredictedStepsAreAppliedSteps runs random states over random trees: what test mode predicts is what is done, for each
// state alone and for a run of several over one predicted world.
func TestPredictedStepsAreAppliedSteps(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for round := range 150 {
		dir := temp(t)
		for range r.IntN(6) { // the tree that is there
			name := fmt.Sprintf("%s/%c/%c", dir, 'a'+r.IntN(3), 'a'+r.IntN(3))
			if r.IntN(4) == 0 {
				_ = os.MkdirAll(name, 0o755)
			} else if os.MkdirAll(filepath.Dir(name), 0o755) == nil {
				_ = os.WriteFile(name, []byte("x\ny\n"), 0o644)
			}
		}
		var plans []planner
		for range 1 + r.IntN(6) {
			name := fmt.Sprintf("%s/%c/%c", dir, 'a'+r.IntN(3), 'a'+r.IntN(3))
			if r.IntN(3) == 0 {
				name = filepath.Dir(name)
			}
			text := []string{
				"{file.managed: {path: %s, content: \"z\\n\", makedirs: true}}", "{file.absent: {path: %s}}", "{file.directory: {path: %s, makedirs: true, mode: '0700', recurse: [mode]}}",
				"{file.line: {path: %s, line: z}}", "{file.symlink: {path: %s, target: t, makedirs: true}}", "{file.block: {path: %s, content: z, marker: m}}",
			}[r.IntN(6)]
			plans = append(plans, planOf(t, "s: "+fmt.Sprintf(text, name), noFiles))
		}
		predicted := host.New()
		var foreseen []string
		for i, plan := range plans { // the whole run, predicted
			steps, err := plan(predicted)
			foreseen = append(foreseen, fmt.Sprintf("%d: %s %v", i, asJSON(steps), err != nil))
			for _, s := range steps {
				s.Predict(predicted)
			}
		}
		for i, plan := range plans { // and applied
			steps, err := plan(host.New())
			if got := fmt.Sprintf("%d: %s %v", i, asJSON(steps), err != nil); got != foreseen[i] {
				t.Fatalf("round %d:\npredicted %s\ndone      %s (%v)", round, foreseen[i], got, err)
			}
			for _, s := range steps {
				must(t, s.Apply(t.Context()))
			}
		}
	}
}

// A user may make a file whose size is more than the memory of the host, and that takes no room on the disk.
func TestAHugeFileIsRemovedWithoutItsSizeInMemory(t *testing.T) {
	dir := temp(t)
	must(t, os.MkdirAll(dir+"/logs/old", 0o755))
	for _, name := range []string{"/alone", "/logs/lastlog", "/logs/old/lastlog"} {
		f, err := os.Create(dir + name)
		must(t, err)
		must(t, f.Truncate(1<<43))
		must(t, f.Close())
	}
	absent := planOf(t, "a: {file.absent: {path: "+dir+"/alone}}", noFiles)
	steps, err := absent(host.New())
	must(t, err)
	if want := "8796093022208 bytes, 0644"; len(steps) != 1 || steps[0].Before != want {
		t.Errorf("%+v, want %q", steps, want)
	}
	wants(t, apply(t, absent), "remove alone")
	wants(t, apply(t, planOf(t, "d: {file.directory: {path: "+dir+"/logs, clean: true}}", noFiles)), "remove lastlog", "remove old")
}

// The user of a directory swaps the staged file for one of the user's own, again and again. The check is a program that would
// run what the user wrote.
func TestTheUserOfADirectoryGetsNothingCheckedOrCommitted(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to make files of other users")
	}
	dir := temp(t)
	app, marks := dir+"/app", dir+"/marks"
	must(t, os.Mkdir(app, 0o755))
	must(t, os.Mkdir(marks, 0o755))
	must(t, os.Chown(app, 1234, 1234))
	evil, staged := app+"/evil", stagedName(t, app)
	put(t, evil, "echo >"+marks+"/evil\n")
	// On one processor a swap would hardly ever come between the writing and the commit.
	processors := runtime.GOMAXPROCS(2)
	defer runtime.GOMAXPROCS(processors)
	stop := make(chan struct{})
	var swapping sync.WaitGroup
	swapping.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, evil, unix.AT_FDCWD, staged, unix.RENAME_EXCHANGE)
			}
		}
	})
	refused := 0
	for i := 0; i < 40 || refused == 0 && i < 1000; i++ {
		text := fmt.Sprintf("echo >%s/good # %d\n", marks, i)
		steps, err := planOf(t, "f: {file.managed: {path: "+app+"/f, content: "+strconv.Quote(text)+", user: root, check: [sh, '{}']}}", noFiles)(host.New())
		must(t, err)
		err = steps[0].Apply(t.Context())
		if _, isUnsafe := errors.AsType[*safefs.UnsafeError](err); err != nil && !isUnsafe {
			t.Fatal(err)
		}
		if err != nil {
			refused++
		} else if got := get(t, app+"/f"); got != text {
			t.Errorf("the write succeeded, and the file holds %q", got)
		}
	}
	close(stop)
	swapping.Wait()
	if refused == 0 {
		t.Error("no swap was between the writing and the commit")
	}
	if names, err := os.ReadDir(marks); err != nil || len(names) != 1 || names[0].Name() != "good" {
		t.Errorf("the checks ran %v, %v", names, err)
	}
}

// stagedName returns the path at which the file f of a directory is staged.
func stagedName(t *testing.T, dir string) string {
	t.Helper()
	d, err := safefs.Open(dir)
	must(t, err)
	defer d.Close()
	s, err := d.Stage("f", nil, safefs.Attributes{})
	must(t, err)
	defer s.Discard()
	return s.Path()
}

// A check of a file in a directory of root sees the new file beside the old one, where relative names in it lead.
func TestACheckInADirectoryOfRootSeesItsNeighbours(t *testing.T) {
	dir := temp(t)
	put(t, dir+"/mime.types", "x")
	wants(t, apply(t, planOf(t, "f: {file.managed: {path: "+dir+"/f, content: a, check: [sh, -c, 'test -e $(dirname {})/mime.types']}}", noFiles)), "create f")
}

// mode returns the mode of a file.
func mode(t *testing.T, name string) string {
	t.Helper()
	info, err := os.Stat(name)
	must(t, err)
	return fmt.Sprintf("%04o", info.Mode().Perm())
}

// All of these make a file with a secret from settings or the repo.
func TestAFileWithASecretIsOpenToOthersOnlyByAMode(t *testing.T) {
	in := Inputs{
		Source: func(_ context.Context, name string) (Content, error) {
			switch name {
			case "files/sops", "files/t/sops":
				return Content{Data: []byte("hunter2\n"), Secret: true, Executable: name == "files/t/sops"}, nil
			}
			return Content{Data: []byte("key={{settings.key | json}}\n")}, nil
		},
		Tree: func(string) ([]string, error) { return []string{"sops", "tmpl"}, nil },
		Data: map[string]any{"settings": map[string]any{"key": mustache.Secret{Value: "a\"b"}}},
	}
	ownSecret := in
	ownSecret.Secret = true
	for text, c := range map[string]struct {
		in           Inputs
		fresh, older string // modes of the file if it is new, and if it was 0644
	}{
		"f: {file.managed: {path: FILE, source: files/sops}}":                                    {in, "0600", "0640"},
		"f: {file.managed: {path: FILE, source: files/sops, mode: '0644'}}":                      {in, "0644", "0644"},
		"f: {file.managed: {path: FILE, source: files/tmpl, template: true}}":                    {in, "0600", "0640"},
		"f: {file.managed: {path: FILE, content: 'k {{settings.key | shell}}', template: true}}": {in, "0600", "0640"},
		"f: {file.managed: {path: FILE, content: hunter2}}":                                      {ownSecret, "0600", "0640"},
		"f: {file.managed: {path: FILE, content: open}}":                                         {in, "0644", "0644"},
		"f: {file.block: {path: FILE, content: hunter2}}":                                        {ownSecret, "0600", "0640"},
		"f: {file.block: {path: FILE, content: hunter2, mode: '0604'}}":                          {ownSecret, "0604", "0604"},
		"f: {file.block: {path: FILE, content: open}}":                                           {in, "0644", "0644"},
	} {
		dir := public(t)
		name := dir + "/f"
		plan := planOf(t, strings.ReplaceAll(text, "FILE", name), c.in)
		steps, err := plan(host.New())
		must(t, err)
		if c.fresh == "0600" && steps[0].Diff != "" {
			t.Errorf("%s: the diff is %s", text, steps[0].Diff)
		}
		apply(t, plan)
		if got := mode(t, name); got != c.fresh {
			t.Errorf("%s: a new file has %s, want %s", text, got, c.fresh)
		}
		// The right content, written when the mode was left alone.
		must(t, os.Chmod(name, 0o644))
		apply(t, plan)
		if got := mode(t, name); got != c.older {
			t.Errorf("%s: a file with the content has %s, want %s", text, got, c.older)
		}
		put(t, name, "other\n")
		must(t, os.Chmod(name, 0o644))
		if steps, err = plan(host.New()); err != nil || len(steps) != 1 || (steps[0].Diff != "") != (c.in.Secret == false && strings.Contains(text, "open")) {
			t.Errorf("%s: %+v, %v", text, steps, err)
		}
		apply(t, plan)
		if got := mode(t, name); got != c.older {
			t.Errorf("%s: an old file has %s, want %s", text, got, c.older)
		}
	}
	dir := temp(t)
	apply(t, planOf(t, "r: {file.recurse: {path: "+dir+"/r, source: files/t, template: true}}", in))
	if a, b := mode(t, dir+"/r/sops"), mode(t, dir+"/r/tmpl"); a != "0700" || b != "0600" {
		t.Errorf("the files of a tree have %s and %s", a, b)
	}
	must(t, os.Chmod(dir+"/r/sops", 0o755))
	must(t, os.Chmod(dir+"/r/tmpl", 0o644))
	apply(t, planOf(t, "r: {file.recurse: {path: "+dir+"/r, source: files/t, template: true}}", in))
	if a, b := mode(t, dir+"/r/sops"), mode(t, dir+"/r/tmpl"); a != "0700" || b != "0640" {
		t.Errorf("the old files of a tree have %s and %s", a, b)
	}
	apply(t, planOf(t, "r: {file.recurse: {path: "+dir+"/r, source: files/t, template: true, file_mode: '0644'}}", in))
	if a, b := mode(t, dir+"/r/sops"), mode(t, dir+"/r/tmpl"); a != "0644" || b != "0644" {
		t.Errorf("with a mode the files of a tree have %s and %s", a, b)
	}
}

// As chown -R does: a tree of root becomes a user's, also the directories with something in them.
func TestATreeOfRootIsGivenToAUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to make files of other users")
	}
	dir := temp(t)
	put(t, dir+"/app/a/b/c", "x")
	put(t, dir+"/app/a/d", "x")
	plan := planOf(t, "d: {file.directory: {path: "+dir+"/app, user: nobody, mode: '0750', recurse: [user, mode]}}", noFiles)
	wants(t, apply(t, plan), "owner c", "owner b", "owner d", "owner a", "owner app")
	for _, name := range []string{"/app", "/app/a", "/app/a/b", "/app/a/b/c", "/app/a/d"} {
		info, err := safefsStat(dir + name)
		if err != nil || info.UID != 65534 {
			t.Errorf("%s: %+v, %v", name, info, err)
		}
	}
	put(t, dir+"/app/a/b/new", "x") // root writes in the tree of the user
	wants(t, apply(t, plan), "owner new")
}

func safefsStat(name string) (safefs.Info, error) { return host.New().Stat(name) }

// setACL lets nobody in by an access list, and skips the test where there are none.
func setACL(t *testing.T, name, attribute string) {
	t.Helper()
	list := binary.LittleEndian.AppendUint32(nil, 2)
	for _, e := range []struct {
		tag, perm uint16
		id        uint32
	}{{0x01, 6, 1<<32 - 1}, {0x02, 7, 65534}, {0x04, 0, 1<<32 - 1}, {0x10, 7, 1<<32 - 1}, {0x20, 0, 1<<32 - 1}} {
		list = binary.LittleEndian.AppendUint16(list, e.tag)
		list = binary.LittleEndian.AppendUint16(list, e.perm)
		list = binary.LittleEndian.AppendUint32(list, e.id)
	}
	if err := unix.Setxattr(name, attribute, list, 0); err == unix.ENOTSUP {
		t.Skip("this file system has no access lists")
	} else {
		must(t, err)
	}
}

// nobodyReads reports whether the user nobody can read a file.
func nobodyReads(name string) bool {
	cmd := exec.Command("cat", name)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	return cmd.Run() == nil
}

func TestAnAccessListOfAnotherUserLetsNobodyIn(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to make files of other users")
	}
	dir := temp(t)
	must(t, os.Chmod(dir, 0o755))
	must(t, os.Chmod(filepath.Dir(dir), 0o755)) // is the test's user's alone
	own := dir + "/own"
	must(t, os.Mkdir(own, 0o777))
	must(t, os.Chmod(own, 0o777|os.ModeSticky))
	name := own + "/f"
	lay := func(owner int) {
		put(t, name, "old")
		must(t, os.Chown(name, owner, owner))
		setACL(t, name, "system.posix_acl_access")
		must(t, os.Chmod(name, 0o660))
	}
	lay(65534)
	managed := planOf(t, "f: {file.managed: {path: "+name+", content: secret, user: root, group: root, mode: '0640'}}", noFiles)
	wants(t, apply(t, managed), "write f")
	if nobodyReads(name) {
		t.Error("the list of the old file's owner is on the new file")
	}
	// Without a mode the list of another user is dropped too.
	must(t, os.Remove(name))
	lay(65534)
	wants(t, apply(t, planOf(t, "f: {file.managed: {path: "+name+", content: secret, user: root, group: root}}", noFiles)), "write f")
	if nobodyReads(name) {
		t.Error("the list of the old file's owner is on the new file")
	}
	// The list of a user goes with the ownership.
	must(t, os.Remove(name))
	lay(65534)
	wants(t, apply(t, planOf(t, "d: {file.directory: {path: "+own+", user: root, group: root, recurse: [user, group]}}", noFiles)), "owner f")
	if nobodyReads(name) {
		t.Error("the list of the former owner is still there")
	}
	// A list that root made stays, unless the state says who gets in.
	must(t, os.Remove(name))
	lay(0)
	wants(t, apply(t, planOf(t, "f: {file.managed: {path: "+name+", content: new}}", noFiles)), "write f")
	if !nobodyReads(name) {
		t.Error("the list of root is gone")
	}
	wants(t, apply(t, planOf(t, "f: {file.managed: {path: "+name+", content: new, mode: '0660'}}", noFiles)), "mode f")
	if nobodyReads(name) {
		t.Error("the list lets more users in than the mode says")
	}
	// Of a content that is a secret it lets nobody in, written or only found there.
	secret := Inputs{Source: noFiles.Source, Secret: true}
	for old, want := range map[string]string{"old": "write f", "new": "mode f"} {
		must(t, os.Remove(name))
		lay(0)
		must(t, os.WriteFile(name, []byte(old), 0o660))
		wants(t, apply(t, planOf(t, "f: {file.managed: {path: "+name+", content: new}}", secret)), want)
		if nobodyReads(name) {
			t.Errorf("%s: the list lets more users read a secret than the mode says", want)
		}
	}
	// The default list of a directory is no way in either.
	setACL(t, own, "system.posix_acl_default")
	must(t, os.Remove(name))
	wants(t, apply(t, managed), "create f")
	if nobodyReads(name) {
		t.Error("the default list of the directory is on the new file")
	}
}
