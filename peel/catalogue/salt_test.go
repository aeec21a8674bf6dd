package catalogue_test

import (
	"regexp"
	"testing"

	"github.com/seed-c01c3da5/zester/peel/catalogue"
	"github.com/seed-c01c3da5/zester/settings/salt"
	"github.com/seed-c01c3da5/zester/settings/state"
)

// TestTheWordsOfSaltNameWhatExists holds that a hint names functions and arguments that exist, and that no word of Salt
// has a hint although it works here.
func TestTheWordsOfSaltNameWhatExists(t *testing.T) {
	t.Parallel()
	files := map[string]bool{"top.yaml": true}
	arguments := map[string]bool{
		"watch_in": true, "onchanges": true, "require": true, "watch": true, "onlyif": true, "unless": true,
		"failhard": true,
	}
	for _, f := range state.Functions() {
		for _, p := range f.Params() {
			arguments[p.Name] = true
		}
	}
	named := regexp.MustCompile(`\b[a-z]+\.[a-z_]+\b`)
	first := regexp.MustCompile(`^[a-z0-9_]+`)
	if n := len(salt.Words()); n < 60 {
		t.Errorf("%d words", n)
	}
	for _, w := range salt.Words() {
		for _, name := range named.FindAllString(w.Here, -1) {
			if _, ok := catalogue.Lookup(name); !ok && !files[name] && name != "settings.x" {
				t.Errorf("the hint for %s names %s, which does not exist", w.Salt, name)
			}
		}
		switch w.Kind {
		case salt.Function, salt.Command:
			if _, ok := catalogue.Lookup(w.Salt); ok {
				t.Errorf("%s has a hint and exists", w.Salt)
			}
		case salt.Argument:
			if name := first.FindString(w.Here); name != "nothing" && !arguments[name] && name != "the" && name != "a" && name != "mode" {
				t.Errorf("the hint for %s begins with %q, which is no argument", w.Salt, name)
			}
		}
	}
}

func TestCallsInTheWordsOfSalt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		function string
		args     map[string]any
		want     string
	}{
		{"state.sls", nil, `no such function "state.sls"; what state.sls is in Salt is here state.apply`},
		{"grains.items", nil, `no such function "grains.items"; what grains.items is in Salt is here facts.items`},
		{"file.append", nil, `no such function "file.append"; what file.append is in Salt is here file.line`},
		{"state.highstate", map[string]any{"pillar": "x"}, "state.highstate: argument pillar: unknown; what pillar is in Salt is here " +
			"settings in the repo: a run has no values of its own"},
	} {
		if err := catalogue.CheckCall(c.function, "", c.args); err == nil || err.Error() != c.want {
			t.Errorf("%s: %v, want %s", c.function, err, c.want)
		}
	}
}
