//go:build linux

package state

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/peel/state/host"
	"github.com/seed-c01c3da5/zester/peel/state/pkg"
	"github.com/seed-c01c3da5/zester/settings/state"
)

// A result leaves out what did not change before it cuts the others.
func TestAResultThatIsTooLargeWithWhatDidNotChange(t *testing.T) {
	r := &Result{Counts: newCounts()}
	for i := range 20_000 {
		r.States = append(r.States, Outcome{State: fmt.Sprint("state ", i), Function: "file.managed", Result: Unchanged})
	}
	diff := strings.Repeat("x", 1000)
	r.States = append(r.States, Outcome{State: "last", Result: Changed, Changes: []host.Change{{Do: "write", Diff: diff}}})
	brief := returned(r, false).Data.(*Result)
	if len(brief.States) != 1 || brief.States[0].State != "last" || brief.States[0].Changes[0].Diff != diff || brief.LeftOut != 0 {
		t.Errorf("%d states, %d left out", len(brief.States), brief.LeftOut)
	}
	full := returned(r, true).Data.(*Result)
	if full.size() > maxResult || len(full.States) == 0 {
		t.Errorf("%d bytes, %d states", full.size(), len(full.States))
	}
}

func TestWhatAFunctionReturnsOfStates(t *testing.T) {
	r := &Result{Counts: newCounts(), States: []Outcome{{State: "a", Result: Unchanged}, {State: "b", Result: Changed}}}
	if got := returned(r, true); !got.Success || got.Error != "" || len(got.Data.(*Result).States) != 2 {
		t.Errorf("%+v", got)
	}
	r.States = append(r.States, Outcome{State: "c", Result: Failed, Comment: "why"})
	r.Counts[Failed] = 1
	if got := returned(r, false); got.Success || !strings.Contains(got.Error, "c") || len(got.Data.(*Result).States) != 2 {
		t.Errorf("%+v", got)
	}
}

func TestResultsThatCannotBeRead(t *testing.T) {
	s := &runs{dir: t.TempDir()}
	if r, err := s.newest(); r != nil || err != nil {
		t.Errorf("no result: %+v, %v", r, err)
	}
	if err := s.store(&Result{Counts: newCounts(), Test: true}); err != nil {
		t.Fatal(err)
	}
	if r, err := s.newest(); err != nil || !r.Test {
		t.Errorf("%+v, %v", r, err)
	}
	names, err := s.namesLocked()
	if err != nil || len(names) != 1 {
		t.Fatalf("%q, %v", names, err)
	}
	file := s.dir + "/" + names[0]
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := s.newest(); r != nil || err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a damaged file: %+v, %v", r, err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(file, 0o700); err != nil {
		t.Fatal(err)
	}
	if r, err := s.newest(); r != nil || err == nil || strings.Contains(err.Error(), "JSON") {
		t.Errorf("a directory: %+v, %v", r, err)
	}
}

// A restore waits for the run that reads or changes the host.
func TestARestoreWaitsForRuns(t *testing.T) {
	h := newHost(t)
	for _, shared := range []bool{true, false} {
		unlock, err := lock(t.Context(), h.r.o.Lock, shared)
		must(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if _, err := h.r.Restore(ctx, "/nothing", 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("shared %v: %v", shared, err)
		}
		cancel()
		unlock()
	}
	if _, err := h.r.Restore(t.Context(), "/nothing", 0); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("nothing runs: %v", err)
	}
}

// What a state is about that is unknown is unknown to later ones: paths, the files of packages, and all that a command
// may do.
func TestWhatAnUnknownStateLeavesUnknown(t *testing.T) {
	path := newHost(t).dir + "/file"
	must(t, os.WriteFile(path, []byte("x"), 0o600))
	for name, c := range map[string]struct {
		function string
		args     state.Arguments
		path     string
		brings   bool // what is not there may come
		unknown  bool
	}{
		"a file":     {"file.managed", &state.FileManaged{Path: path}, path, false, true},
		"a service":  {"service.running", &state.ServiceRunning{Name: "zt"}, path, false, false},
		"a command":  {"cmd.run", &state.CmdRun{}, path, true, false},
		"a package":  {"pkg.installed", &state.PkgInstalled{Name: "base-files"}, "/etc/debian_version", true, true},
		"an account": {"user.present", &state.UserPresent{Name: "zt"}, path, true, false},
	} {
		if _, err := os.Stat("/var/lib/dpkg/info/base-files.list"); err != nil && name == "a package" {
			continue
		}
		w := host.New()
		x := &run{world: w, packages: pkg.New(w, true)}
		x.doubt(t.Context(), &state.State{Name: "s", Function: c.function, Args: c.args})
		if _, err := w.Stat(c.path); (err != nil) != c.unknown {
			t.Errorf("%s: what is there: %v", name, err)
		}
		if _, err := w.Stat("/etc/zt-nothing"); (err != nil) != c.brings {
			t.Errorf("%s: what is not there: %v", name, err)
		}
	}
}

// A requisite may name all states of a settings file. A state there does not require itself.
func TestStatesOfASettingsFile(t *testing.T) {
	x := &run{}
	x.q.Files = func(ref string) []string {
		return map[string][]string{"web": {"a", "b", "c"}}[ref]
	}
	for _, c := range []struct{ names, self, want string }{
		{"a", "b", "a"},
		{"file:web", "b", "a c"},
		{"x file:web y", "z", "x a b c y"},
		{"file:none a", "b", "a"},
		{"", "b", ""},
	} {
		if got := strings.Join(x.expand(strings.Fields(c.names), c.self), " "); got != c.want {
			t.Errorf("%s of %s: %q, want %q", c.names, c.self, got, c.want)
		}
	}
	x.q.Files = nil
	if got := x.expand([]string{"file:web", "a"}, "b"); len(got) != 1 {
		t.Errorf("%q", got)
	}
}
