//go:build linux

package state

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/peel/state/host"
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
