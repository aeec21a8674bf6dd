//go:build linux

package state

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tree describes a directory: the path, mode and content of each file.
func tree(t *testing.T, dir string) (all []string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		must(t, err)
		info, err := d.Info()
		must(t, err)
		text, _ := os.ReadFile(name)
		if to, err := os.Readlink(name); err == nil {
			text = []byte("-> " + to)
		}
		all = append(all, fmt.Sprintf("%s %v %.20s %d", strings.TrimPrefix(name, dir), info.Mode(), text, len(text)))
		return nil
	}))
	return all
}

func TestWhatStatesReplaceOrRemoveCanBePutBack(t *testing.T) {
	h := newHost(t)
	app := h.dir + "/app"
	must(t, os.MkdirAll(app+"/old/deep", 0o750))
	for name, mode := range map[string]os.FileMode{"conf": 0o604, "old/deep/a": 0o640, "old/b": 0o600, "binary": 0o755} {
		must(t, os.WriteFile(filepath.Join(app, name), []byte("of "+name+"\x00"), mode))
	}
	must(t, os.Symlink("conf", app+"/link"))
	if os.Geteuid() == 0 {
		must(t, os.Chown(app+"/old/b", 1234, 1234))
	}
	before := tree(t, app)
	text := `
app: {file.directory: {path: DIR/app, clean: true}}
conf: {file.managed: {path: DIR/app/conf, content: new, mode: "0644"}}
link: {file.symlink: {path: DIR/app/link, target: other}}
bin: {file.absent: {path: DIR/app/binary}}`
	h.run(text, true)
	if kept, err := h.r.Kept(); err != nil || len(kept) != 0 {
		t.Errorf("a test keeps %v, %v", kept, err)
	}
	h.wants(h.run(text, false), "app: changed intended", "conf: changed intended", "link: changed intended", "bin: changed intended")
	after := tree(t, app)
	if len(after) != 3 {
		t.Fatal(after)
	}
	for _, name := range []string{"kept", "kept/000000000001", "kept/000000000001/index"} {
		if info, err := os.Stat(h.dir + "/.state/" + name); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	restored, err := h.r.Restore(t.Context(), app, 0)
	if got := tree(t, app); err != nil || !slices.Equal(got, before) {
		t.Errorf("%v\nrestored %s\nwant %s", err, strings.Join(got, "\n"), strings.Join(before, "\n"))
	}
	if len(restored) != 7 {
		t.Errorf("%+v", restored)
	}
	// A restore can be taken back.
	if _, err := h.r.Restore(t.Context(), app+"/conf", 0); err != nil {
		t.Error(err)
	}
	if data, _ := os.ReadFile(app + "/conf"); string(data) != "new" {
		t.Errorf("%q", data)
	}
	if _, err := h.r.Restore(t.Context(), app+"/conf", 1); err != nil {
		t.Error(err)
	}
	if data, _ := os.ReadFile(app + "/conf"); string(data) != "of conf\x00" {
		t.Errorf("%q", data)
	}
	if _, err := h.r.Restore(t.Context(), app+"/con", 0); err == nil || !strings.Contains(err.Error(), "nothing is kept of") {
		t.Error(err)
	}
}

func TestAPathThatARunChangedTwiceIsPutBackAsItWasBeforeTheRun(t *testing.T) {
	h := newHost(t)
	name := h.dir + "/conf"
	must(t, os.WriteFile(name, []byte("first\n"), 0o600))
	h.wants(h.run(`
one: {file.line: {path: DIR/conf, line: second}}
two: {file.line: {path: DIR/conf, line: third}}`, false), "one: changed intended", "two: changed intended")
	restored, err := h.r.Restore(t.Context(), name, 0)
	if data, _ := os.ReadFile(name); err != nil || string(data) != "first\n" || len(restored) != 1 {
		t.Errorf("%q after %+v, %v", data, restored, err)
	}
}

// Somebody has made a copy of a run by hand.
func TestADirectoryThatIsNoRunDoesNotKeepStatesFromRunning(t *testing.T) {
	h := newHost(t)
	must(t, os.MkdirAll(h.dir+"/.state/kept/7", 0o700))
	must(t, os.WriteFile(h.dir+"/f", []byte("x"), 0o600))
	h.wants(h.run("f: {file.absent: {path: DIR/f}}", false), "f: changed intended")
	if kept, err := h.r.Kept(); err != nil || len(kept) != 1 || kept[0].Run != 1 {
		t.Errorf("%+v, %v", kept, err)
	}
}

func TestWhatIsKeptIsBounded(t *testing.T) {
	h := newHost(t)
	replace := func(size int) {
		must(t, os.WriteFile(h.dir+"/f", bytes.Repeat([]byte("x"), size), 0o600))
		if r := h.run("f: {file.absent: {path: DIR/f}}", false); r.Counts[Changed] != 1 {
			t.Fatalf("%+v", r)
		}
	}
	sizes := func() (all []int64) {
		kept, err := h.r.Kept()
		must(t, err)
		for _, k := range kept {
			all = append(all, k.Size)
		}
		return all
	}
	replace(maxKeptFile + 1)
	if got := sizes(); len(got) != 0 {
		t.Errorf("a file over the limit: %v", got)
	}
	for i := range maxKeptRuns + 2 {
		replace(i + 1)
	}
	if got := sizes(); len(got) != maxKeptRuns || got[0] != maxKeptRuns+2 || got[maxKeptRuns-1] != 3 {
		t.Errorf("of many runs: %v", got)
	}
	for range maxKept / maxKeptFile {
		replace(maxKeptFile)
	}
	if got := sizes(); len(got) != maxKept/maxKeptFile || slices.Min(got) != maxKeptFile {
		t.Errorf("of large files: %v", got)
	}
	must(t, os.MkdirAll(h.dir+"/large", 0o755))
	for i := range maxKept/maxKeptFile + 2 {
		must(t, os.WriteFile(fmt.Sprintf("%s/large/%d", h.dir, i), nil, 0o600))
		must(t, os.Truncate(fmt.Sprintf("%s/large/%d", h.dir, i), maxKeptFile))
	}
	h.run("f: {file.absent: {path: DIR/large}}", false)
	total := int64(0)
	for _, size := range sizes() {
		total += size
	}
	if total != maxKept {
		t.Errorf("of one run with many large files %d bytes are kept", total)
	}
	must(t, os.MkdirAll(h.dir+"/many", 0o755))
	for i := range maxKeptFiles + 10 {
		must(t, os.WriteFile(fmt.Sprintf("%s/many/%d", h.dir, i), nil, 0o600))
	}
	h.run("f: {file.absent: {path: DIR/many}}", false)
	if kept, err := h.r.Kept(); err != nil || kept[0].Path != h.dir+"/many" || len(kept) > maxKeptFiles+maxKept/maxKeptFile+1 {
		t.Errorf("of many files %d are kept, %v", len(kept), err)
	}
	if _, err := os.Stat(h.dir + "/many"); err == nil {
		t.Error("the directory was not removed")
	}
}
