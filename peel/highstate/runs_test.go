//go:build linux

package highstate

import (
	"os"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/peel/state"
)

func TestTheNewestRunIsThatWhichWasStoredLast(t *testing.T) {
	s := runs{dir: t.TempDir() + "/runs"}
	if r, err := s.newest(); r != nil || err != nil {
		t.Errorf("before the first run: %v, %v", r, err)
	}
	for i := range 300 {
		if i == 10 { // what is not a result stays and is not taken for one
			for _, name := range []string{".000000000011123", "note", "12", "99999999999999999999"} {
				if err := os.WriteFile(s.dir+"/"+name, []byte("{}"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := s.store(&state.Result{Duration: time.Duration(i), Time: time.Unix(int64(-i), 0)}); err != nil { // the clock goes back
			t.Fatal(err)
		}
		if r, err := s.newest(); err != nil || r.Duration != time.Duration(i) {
			t.Fatalf("after run %d the newest is %+v, %v", i, r, err)
		}
	}
	if names, err := os.ReadDir(s.dir); err != nil || len(names) != keptRuns+4 {
		t.Errorf("%d files, %v", len(names), err)
	}
}
