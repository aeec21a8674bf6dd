//go:build linux

package state

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/peel/module"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// document returns a document with the settings.
func document(t *testing.T, text string) Document {
	t.Helper()
	n, err := strictyaml.Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := canon.Marshal(n.Any())
	if err != nil {
		t.Fatal(err)
	}
	return Document{Settings: &settings.Document{Commit: "c0ffee", Digest: settings.DigestOf(raw), Settings: raw}, Values: n}
}

// fifo returns a fifo that is open for both ends.
func fifo(t *testing.T) (name string, f *os.File) {
	t.Helper()
	name = t.TempDir() + "/fifo"
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return name, f
}

// A run that waits for another one uses the document that is in force when it begins.
func TestARunUsesTheDocumentOfItsBeginning(t *testing.T) {
	begun, said := fifo(t)
	dir := t.TempDir()
	text := func(n int) string {
		return fmt.Sprintf("states: {wait: {cmd.run: {command: 'echo > %s; until test -e %s/go; do sleep 0.01; done; echo %d >> %[2]s/ran'}}}\n"+
			"_states: {order: [wait], refs: {a: [wait]}, files: {}}", begun, dir, n)
	}
	var now atomic.Pointer[Document]
	use := func(n int) {
		d := document(t, text(n))
		now.Store(&d)
	}
	use(1)
	r := registry(t, func() Document { return *now.Load() })
	results := make(chan wire.Result, 2)
	apply := func() { results <- r.Call(t.Context(), "state.highstate", module.Call{JID: "job-1"}) }
	go apply()
	if _, err := said.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	go apply() // waits for the first, or begins after it
	// A run in test mode shares the host with no run that changes it.
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if r := r.Call(ctx, "state.highstate", module.Call{Args: map[string]any{"test": true}}); r.Success || !strings.Contains(r.Error, "another run of states did not end") {
		t.Errorf("a test run beside another run: %+v", r)
	}
	// A job that waits says for whom before its deadline.
	waiting := r.Call(t.Context(), "state.highstate", module.Call{StartBefore: time.Now().Add(replyMargin + 50*time.Millisecond)})
	if waiting.Outcome != wire.Rejected || !strings.Contains(waiting.Error, "the run job-1 is in the state wait since 2") {
		t.Errorf("a job beside another run: %+v", waiting)
	}
	use(2)
	if err := os.WriteFile(dir+"/go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if r := <-results; !r.Success {
			t.Errorf("%+v", r)
		}
	}
	if ran, err := os.ReadFile(dir + "/ran"); string(ran) != "1\n2\n" {
		t.Errorf("the documents that ran are %q, %v", ran, err)
	}
}

// A command waits for the changes of a state that this peel cannot use. It does not run, also if a run names the
// command's file alone.
func TestACommandThatWaitsForAStateThatCannotBeUsed(t *testing.T) {
	dir := t.TempDir()
	text := strings.ReplaceAll("states: {new: {later.present: {path: DIR/own}, onchanges_in: [x]}, "+
		"x: {cmd.run: {command: touch DIR/ran}}}\n"+
		"_states: {order: [new, x], refs: {s: [new, x], one: [x]}, files: {}}", "DIR", dir)
	d := document(t, text)
	r := registry(t, func() Document { return d })
	r.Call(t.Context(), "state.apply", module.Call{ID: "one"})
	if _, err := os.Stat(dir + "/ran"); err == nil {
		t.Error("it ran")
	}
}

// TestAStateThatCannotBeUsedIsOneFailedState: the others are applied, what requires it is skipped, and what it may own stays.
func TestAStateThatCannotBeUsedIsOneFailedState(t *testing.T) {
	dir := t.TempDir()
	text := strings.ReplaceAll("states: {new: {later.present: {path: DIR/d/own}}, d: {file.directory: {path: DIR/d, clean: true}}, a: {file.managed: {path: DIR/a, content: x}}, "+
		"b: {file.managed: {path: DIR/b, content: x}, require: [new]}}\n_states: {order: [new, d, a, b], refs: {s: [new, d, a, b], one: [a]}, files: {}}", "DIR", dir)
	for _, name := range []string{"/d/own", "/d/other"} {
		if err := os.MkdirAll(dir+"/d", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(dir+name, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	d := document(t, text)
	r := registry(t, func() Document { return d })
	if one := r.Call(t.Context(), "state.apply", module.Call{ID: "one"}); !one.Success {
		t.Errorf("states that do not need it: %+v", one)
	}
	result := r.Call(t.Context(), "state.apply", module.Call{Args: map[string]any{"full": true}})
	if result.Success || result.Error != "1 of 4 states failed: new" {
		t.Errorf("%+v", result)
	}
	data := fmt.Sprint(result.Data)
	for _, want := range []string{"function:later.present", "reason:require_failed result:skipped state:b", "there is no function later.present"} {
		if !strings.Contains(data, want) {
			t.Errorf("%q is not in %s", want, data)
		}
	}
	for name, want := range map[string]bool{"/a": true, "/b": false, "/d/own": true, "/d/other": false} {
		if _, err := os.Stat(dir + name); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if shown := r.Call(t.Context(), "state.show", module.Call{}); !shown.Success || !strings.Contains(fmt.Sprint(shown.Data), "there is no function later.present") {
		t.Errorf("%+v", shown)
	}
}

// Two test runs have a guard that ends only when both have begun.
func TestRunsInTestModeShareTheHost(t *testing.T) {
	begun, said := fifo(t)
	dir := t.TempDir()
	d := document(t, fmt.Sprintf("states: {x: {file.managed: {path: %s/x, content: a}, onlyif: 'echo > %s; until test -e %[1]s/go; do sleep 0.01; done'}}\n"+
		"_states: {order: [x], refs: {a: [x]}, files: {}}", dir, begun))
	r := registry(t, func() Document { return d })
	results := make(chan wire.Result, 2)
	for range 2 {
		go func() {
			results <- r.Call(t.Context(), "state.apply", module.Call{Args: map[string]any{"test": true}})
		}()
	}
	for range 2 {
		if _, err := said.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(dir+"/go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if r := <-results; !r.Success {
			t.Errorf("%+v", r)
		}
	}
}

func TestACommandOfAStateHasAnEnvironmentOfItsOwn(t *testing.T) {
	t.Setenv("ZESTER_SECRET", "hunter2-hunter2")
	t.Setenv("LANG", "de_DE")
	dir := t.TempDir()
	d := document(t, fmt.Sprintf("states: {x: {cmd.run: {command: 'env > %s/env; cat >> %[1]s/env', env: {OWN: own}, stdin: input}}}\n"+
		"_states: {order: [x], refs: {a: [x]}, files: {}}", dir))
	r := registry(t, func() Document { return d })
	if r := r.Call(t.Context(), "state.apply", module.Call{}); !r.Success {
		t.Fatalf("%+v", r)
	}
	data, err := os.ReadFile(dir + "/env")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for line := range strings.Lines(string(data)) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), "=")
		names[name] = true
	}
	for _, name := range []string{"PATH", "HOME", "OWN", "input"} {
		if !names[name] {
			t.Errorf("%s is missing: %s", name, data)
		}
	}
	if !strings.Contains(string(data), "LC_ALL=C.UTF-8") || names["ZESTER_SECRET"] || names["LANG"] {
		t.Errorf("the environment is %s", data)
	}
}

// Nothing but the mode says who may read a file that has a secret: no diff shows one, in whatever form the template writes it.
func TestSecretsOfTheSettingsAreInNoDiffAndInNoOpenFile(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // no file of a closed directory is shown
		t.Fatal(err)
	}
	const key = "-----BEGIN KEY-----\nab\"c'd\\e\n-----END KEY-----\n"
	// A mask does not know these: the states know of them by the settings alone.
	values := func(key, short string) map[string]any {
		managed := func(args map[string]any) any {
			args["path"] = dir + "/" + args["path"].(string)
			return map[string]any{"file.managed": args}
		}
		block := map[string]any{"path": dir + "/block", "content": short}
		return map[string]any{
			"db": map[string]any{"key": key},
			"states": map[string]any{
				"tmpl":  managed(map[string]any{"path": "tmpl", "content": "key={{settings.db.key | json}}\n", "template": true}),
				"vars":  managed(map[string]any{"path": "vars", "content": "pin={{vars.pin}}\n", "template": true, "vars": map[string]any{"pin": short}}),
				"whole": managed(map[string]any{"path": "whole", "content": short}),
				"block": map[string]any{"file.block": block},
				"plain": managed(map[string]any{"path": "plain", "content": "open\n"}),
			},
		}
	}
	n, ok := strictyaml.FromSecret("settings", values("<key>", "<pin>"), values(key, "no"))
	if !ok {
		t.Fatal("not alike")
	}
	d := Document{Settings: &settings.Document{Commit: "c0ffee"}, Values: n}
	r := registry(t, func() Document { return d })
	for _, args := range []map[string]any{{"test": true}, {}} {
		result := r.Call(t.Context(), "state.apply", module.Call{Args: args})
		if text := fmt.Sprint(result); !result.Success || strings.Contains(text, "BEGIN KEY") || strings.Contains(text, "+pin") || !strings.Contains(text, "+open") {
			t.Errorf("%+v", result)
		}
	}
	for _, name := range []string{"tmpl", "vars", "whole", "block", "plain"} {
		info, err := os.Stat(dir + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if want := os.FileMode(0o600); (info.Mode() == want) != (name != "plain") {
			t.Errorf("%s has %v", name, info.Mode())
		}
	}
}

// As a state or by hand, in a test too: what the peel needs stays.
func TestAPeelRemovesNothingThatItNeeds(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"data/states/x", "etc/peel.creds", "etc/other", "bin/peel"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(dir+"/"+name), 0o755), os.WriteFile(dir+"/"+name, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("etc", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	r := module.New()
	f := NewFunctions(FunctionsOptions{
		Dir: dir + "/data/states", Lock: dir + "/lock", Registry: r, Document: func() Document { return Document{} },
		Own: []string{dir + "/data", dir + "/etc/peel.creds", dir + "/bin/peel"},
	})
	for name, f := range f.All() {
		r.Add(name, f)
	}
	for _, c := range []struct {
		function string
		args     map[string]any
		refused  bool
	}{
		{"file.absent", map[string]any{"path": dir}, true},
		{"file.absent", map[string]any{"path": dir + "/data"}, true},
		{"file.absent", map[string]any{"path": dir + "/data/states/x"}, true},
		{"file.absent", map[string]any{"path": dir + "/etc"}, true},
		{"file.absent", map[string]any{"path": dir + "/link/peel.creds"}, true},
		{"file.absent", map[string]any{"path": dir + "/bin/peel"}, true},
		{"file.directory", map[string]any{"path": dir + "/etc", "clean": true}, true},
		{"file.directory", map[string]any{"path": dir, "recurse": []any{"mode"}, "mode": "0700"}, true},
		{"file.absent", map[string]any{"path": dir + "/etc/other"}, false},
		{"file.directory", map[string]any{"path": dir + "/etc", "mode": "0755"}, false},
	} {
		for _, test := range []bool{true, false} {
			c.args["test"] = test
			result := r.Call(t.Context(), c.function, module.Call{Args: c.args})
			if text := fmt.Sprint(result.Data); strings.Contains(text, "belongs to the peel that runs this") != c.refused || result.Success == c.refused {
				t.Errorf("%s %v: %+v", c.function, c.args, result)
			}
		}
	}
	for name, there := range map[string]bool{"data/states/x": true, "etc/peel.creds": true, "etc/other": false, "bin/peel": true} {
		if _, err := os.Stat(dir + "/" + name); (err == nil) != there {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestStatesThatThisPeelCannotReadRunNothing(t *testing.T) {
	dir := t.TempDir()
	d := document(t, fmt.Sprintf("states: {x: {file.managed: {path: %s/x, content: a}}, 'not, a name': {file.absent: {path: /y}}}\n"+
		"_states: {order: [x], refs: {a: [x]}, files: {}}", dir))
	r := registry(t, func() Document { return d })
	result := r.Call(t.Context(), "state.apply", module.Call{})
	if result.Success || !strings.Contains(result.Error, "this peel cannot use the states of its settings") {
		t.Errorf("%+v", result)
	}
	if _, err := os.Stat(dir + "/x"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a state of the document ran: %v", err)
	}
	if r := r.Call(t.Context(), "state.show", module.Call{}); r.Success {
		t.Errorf("%+v", r)
	}
}
