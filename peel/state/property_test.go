//go:build linux

package state

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// randomTree fills the directory of a fixture.
func randomTree(t *testing.T, r *rand.Rand, dir string) {
	t.Helper()
	for range r.IntN(6) {
		name := fmt.Sprintf("%s/%c/%c", dir, 'a'+r.IntN(3), 'a'+r.IntN(3))
		if r.IntN(4) == 0 {
			_ = os.MkdirAll(name, 0o755)
		} else if os.MkdirAll(filepath.Dir(name), 0o755) == nil {
			_ = os.WriteFile(name, []byte("x\ny\n"), 0o644)
		}
	}
}

// randomStates returns states that own paths of their own, and reactions to some of them.
func randomStates(r *rand.Rand) string {
	var b strings.Builder
	used := map[string]bool{}
	for i := range 2 + r.IntN(6) {
		name := fmt.Sprintf("%c/%c", 'a'+r.IntN(3), 'a'+r.IntN(3))
		if r.IntN(3) == 0 {
			name = name[:1]
		}
		if used[name] {
			continue
		}
		used[name] = true
		text := []string{
			"{path: DIR/%s, content: \"z\\n\", makedirs: true, mode: '0640'}", "{path: DIR/%s}", "{path: DIR/%s, makedirs: true, mode: '0700', recurse: [mode], clean: true}",
			"{path: DIR/%s, line: z}", "{path: DIR/%s, target: t, makedirs: true}", "{path: DIR/%s, content: z, marker: m}",
		}
		functions := []string{"file.managed", "file.absent", "file.directory", "file.line", "file.symlink", "file.block"}
		k := r.IntN(len(text))
		fmt.Fprintf(&b, "s%d: {%s: %s}\n", i, functions[k], fmt.Sprintf(text[k], name))
		if r.IntN(2) == 0 {
			fmt.Fprintf(&b, "r%d: {cmd.run: {command: 'echo x >> LOG/r%[1]d'}, onchanges: [s%[1]d]}\n", i)
		}
	}
	return b.String()
}

// described returns what a run did, or would do, to each state.
func described(r *Result) []string {
	var out []string
	for _, o := range r.States {
		verdict := strings.Replace(string(o.Result), string(WouldChange), string(Changed), 1)
		out = append(out, fmt.Sprintf("%s: %s %s %s %+v", o.State, verdict, o.Reason, o.Cause, o.Changes))
	}
	return out
}

// TestWhatARunPredictsItDoes holds over random states and random files: the prediction is what is done, after that nothing is
// left to do unless states contradict each other, and each change has one reaction.
func TestWhatARunPredictsItDoes(t *testing.T) {
	whole := 0 // runs of which all is known before
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 7))
		h := newHost(t)
		randomTree(t, r, h.dir)
		logs := t.TempDir()
		text := strings.ReplaceAll(randomStates(r), "LOG", logs)
		predicted := h.run(text, true)
		applied := h.run(text, false)
		known := slices.IndexFunc(predicted.States, func(o Outcome) bool { return o.Result == Unknown })
		if known < 0 {
			known, whole = len(predicted.States), whole+1
		}
		if p, a := described(predicted)[:known], described(applied)[:known]; !slices.Equal(p, a) {
			t.Fatalf("seed %d:\n%s\npredicted\n  %s\ndone\n  %s", seed, text, strings.Join(p, "\n  "), strings.Join(a, "\n  "))
		}
		for _, o := range applied.States {
			data, _ := os.ReadFile(filepath.Join(logs, o.State))
			if o.Function == "cmd.run" && strings.Count(string(data), "x") != map[bool]int{true: 1}[o.Result == Changed] {
				t.Errorf("seed %d: %s is %s and ran %q", seed, o.State, o.Result, data)
			}
		}
		if again := h.run(text, false); again.Counts[Changed]+again.Counts[Failed] > 0 && !contradicts(text) && applied.Success() {
			t.Errorf("seed %d:\n%s\nthe second run\n  %s", seed, text, strings.Join(described(again), "\n  "))
		}
	}
	if whole < 30 {
		t.Errorf("only %d of 60 runs are predicted as a whole", whole)
	}
}

// contradicts reports whether one state of a set may undo another: one is above the path of the other.
func contradicts(text string) bool {
	var paths []string
	for line := range strings.Lines(text) {
		if _, after, ok := strings.Cut(line, "path: DIR/"); ok {
			paths = append(paths, after[:strings.IndexAny(after, ",}")])
		}
	}
	return slices.ContainsFunc(paths, func(a string) bool {
		return slices.ContainsFunc(paths, func(b string) bool { return strings.HasPrefix(b, a+"/") })
	})
}
