package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A targetCase is one of testdata/target_cases.json, which are taken from Salt's own tests and documentation and name
// their sources.
type targetCase struct {
	Name, Expression string
	Error            bool
	Expected         []string
	Nodegroups       json.RawMessage
	Peels            []struct {
		ID              string
		Facts, Settings json.RawMessage
	}
}

// refusedHere are cases that Salt answers with no peel and that are errors here, by the rule that a mistake never
// reads as "no match".
var refusedHere = map[string]string{
	"target-113": "a circle of node groups is an error",
}

func TestTargetEvalAgreesWithSalt(t *testing.T) {
	data, err := os.ReadFile("testdata/target_cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []targetCase }
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

func (c *targetCase) check(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fleet.json")
	if err := os.WriteFile(path, c.fleet(t), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errOut bytes.Buffer
	code := run(t.Context(), []string{"target", "eval", "--file", path, "--", c.Expression}, &out, &errOut)
	if c.Error || refusedHere[c.Name] != "" {
		if code != exitUsage && !strings.Contains(errOut.String(), "node group") || code == exitOK || !strings.Contains(errOut.String(), "column") || out.Len() > 0 {
			t.Errorf("%s ended with %d, %s%s", c.Expression, code, &out, &errOut)
		}
		return
	}
	if got := strings.Fields(out.String()); code != exitOK || !slices.Equal(got, c.Expected) {
		t.Errorf("%s ended with %d and selects %v, want %v; %s", c.Expression, code, got, c.Expected, &errOut)
	}
}

// fleet is the case's list of peels as the map that --file takes.
func (c *targetCase) fleet(t *testing.T) []byte {
	type peel struct {
		Facts    json.RawMessage `json:"facts,omitempty"`
		Settings json.RawMessage `json:"settings,omitempty"`
	}
	file := struct {
		Peels      map[string]peel `json:"peels"`
		Nodegroups json.RawMessage `json:"nodegroups,omitempty"`
	}{map[string]peel{}, c.Nodegroups}
	for _, p := range c.Peels {
		file.Peels[p.ID] = peel{p.Facts, p.Settings}
	}
	data, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
