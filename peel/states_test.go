//go:build linux

package peel_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/peel"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// results returns the states of a run, with their results.
func results(t *testing.T, r wire.Result) map[string]string {
	t.Helper()
	data, _ := r.Data.(map[string]any)
	list, ok := data["states"].([]any)
	if !ok {
		t.Fatalf("the result is %+v", r)
	}
	out := map[string]string{}
	for _, s := range list {
		s := s.(map[string]any)
		out[s["state"].(string)] = s["result"].(string)
	}
	return out
}

// runStates is run with a lock of its own, so that runs of other tests do not wait for it.
func runStates(t *testing.T, f func(*bench)) {
	peel.SetRunDirectory(t.TempDir())
	run(t, f)
}

// inForce waits until the peel has applied a document.
func (b *bench) inForce(generation uint64) {
	b.t.Helper()
	for b.applied().Generation != generation {
	}
}

func TestStatesAreAppliedFromTheSettings(t *testing.T) {
	runStates(t, func(b *bench) {
		path := filepath.Join(t.TempDir(), "motd")
		b.start()
		b.give(1, "states: {motd: {file.managed: {path: "+path+", content: 'hello {{peel}} {{facts.role}}', template: true}}}\n_states: {order: [motd], refs: {web: [motd]}, files: {}}")
		b.inForce(1)
		r := b.call("state.apply", map[string]any{"test": true})
		if got := results(t, r); !r.Success || got["motd"] != "would_change" {
			t.Errorf("%+v", r)
		}
		if _, err := os.Stat(path); err == nil {
			t.Error("test mode made the file")
		}
		r = b.call("state.apply", nil)
		if got := results(t, r); !r.Success || got["motd"] != "changed" {
			t.Errorf("%+v", r)
		}
		if data, _ := os.ReadFile(path); string(data) != "hello web.01 web" {
			t.Errorf("the file has %q", data)
		}
		r = b.call("state.highstate", nil)
		if got := results(t, r); !r.Success || len(got) != 0 {
			t.Errorf("%+v", r)
		}
	})
}

func TestWhatTheCompilerAddsIsNotShown(t *testing.T) {
	runStates(t, func(b *bench) {
		b.start()
		b.give(1, "a: 1\n_states: {order: [], refs: {}, files: {}}")
		b.inForce(1)
		if r := b.call("settings.items", nil); !r.Success || strings.Contains(fmt.Sprint(r.Data), "_states") {
			t.Errorf("%+v", r)
		}
		for _, key := range []string{"_states", "_states:files"} {
			if r := b.call("settings.get", map[string]any{"key": key}); r.Success {
				t.Errorf("%+v", r)
			}
		}
	})
}
