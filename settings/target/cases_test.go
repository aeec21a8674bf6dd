package target_test

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/seed-c01c3da5/zester/settings/target"
	"github.com/seed-c01c3da5/zester/settings/target/peelindex"
)

// caseFile is testdata/cases.json: expressions with the peels that they
// select, taken from Salt's own tests and documentation; each case names its
// source.
type caseFile struct{ Cases []saltCase }

type saltCase struct {
	Name, Expression string
	Error            bool
	Expected         []target.PeelID
	Nodegroups       map[string]wordList
	Peels            []target.Peel
}

// wordList is a node group: one expression or the list of its words.
type wordList []string

func (l *wordList) UnmarshalJSON(data []byte) error {
	var s string
	if json.Unmarshal(data, &s) == nil {
		*l = wordList{s}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(l))
}

// refusedHere are cases that Salt answers with no peel and that are errors
// here, by the rule that a mistake never reads as "no match".
var refusedHere = map[string]string{
	"target-113": "a circle of node groups is an error",
}

func TestCasesOfSalt(t *testing.T) {
	data, err := os.ReadFile("testdata/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var file caseFile
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) != 56 {
		t.Errorf("%d cases, want 56", len(file.Cases))
	}
	for _, c := range file.Cases {
		t.Run(c.Name, c.check)
	}
}

func (c saltCase) check(t *testing.T) {
	defs := map[string][]string{}
	for name, words := range c.Nodegroups {
		defs[name] = words
	}
	groups, _ := target.ParseGroups(defs)
	e, err := target.Parse(c.Expression, target.Options{Groups: groups})
	if c.Error || refusedHere[c.Name] != "" {
		if err == nil {
			t.Errorf("%s was not refused", c.Expression)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	var got []target.PeelID
	ix := peelindex.New()
	for _, p := range c.Peels {
		ix.Put(p.ID, p.Facts)
		ix.PutSettings(p.ID, p.Settings)
		if e.Match(p) {
			got = append(got, p.ID)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, c.Expected) {
		t.Errorf("%s matches %v, want %v", c.Expression, got, c.Expected)
	}
	if got := ix.Select(e); !slices.Equal(got, c.Expected) {
		t.Errorf("%s selects %v, want %v", c.Expression, got, c.Expected)
	}
}
