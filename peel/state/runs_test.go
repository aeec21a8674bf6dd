//go:build linux

package state

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/peel/mask"
	"github.com/seed-c01c3da5/zester/peel/module"
	"github.com/seed-c01c3da5/zester/peel/state/host"
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
		if err := s.store(&Result{Duration: time.Duration(i), Time: time.Unix(int64(-i), 0)}); err != nil { // the clock goes back
			t.Fatal(err)
		}
		if r, err := s.newest(); err != nil || r.Duration != time.Duration(i) {
			t.Fatalf("after run %d the newest is %+v, %v", i, r, err)
		}
	}
	if names, err := os.ReadDir(s.dir); err != nil || len(names) != keptHighstateRuns+4 {
		t.Errorf("%d files, %v", len(names), err)
	}
}

// A secret may be a word that the fields of a result have in their names.
func TestTheTextsOfAResultAreMaskedAndItsFieldsAreNot(t *testing.T) {
	m := mask.New([]module.Secret{{Plain: "duration", Shown: "<1>"}, {Plain: "changed", Shown: "<2>"}})
	c := host.Change{Do: "write", What: "/duration", Before: "duration", After: "duration", Diff: "+duration"}
	r := &Result{
		Counts: Counts{Changed: 1}, Owed: []string{"duration"},
		States: []Outcome{{State: "duration", Result: Changed, Comment: "changed", Changes: []host.Change{c}, Duration: time.Second}},
	}
	out := masked(r, m)
	data, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(data), "\\u003c1\\u003e"); n != 6 || strings.Count(string(data), `"duration`) != 2 {
		t.Errorf("%d texts are masked in %s", n, data)
	}
	if o := out.States[0]; o.Result != Changed || out.Counts[Changed] != 1 || o.Comment != "<2>" || o.Duration != time.Second {
		t.Errorf("%+v", out)
	}
	if r.States[0].Changes[0] != c || r.Owed[0] != "duration" {
		t.Errorf("the result changed: %+v", r)
	}
	if none := masked(r, nil); none.States[0].Comment != "changed" {
		t.Errorf("%+v", none)
	}
}
