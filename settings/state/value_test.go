package state_test

import (
	"testing"

	"github.com/seed-c01c3da5/zester/settings/state"
)

func TestAValueHasTheFunctionItsArgumentsAndTheOtherFields(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name                       string
		value                      any
		function, source, mainText string
		args, fields               int
	}{
		{"/etc/a", map[string]any{"file.managed": map[string]any{"source": "files/a"}, "require": []any{"x"}}, "file.managed", "files/a", "/etc/a", 1, 1},
		{"repo", map[string]any{"pkgrepo.managed": map[string]any{"key": "files/k", "file": "main"}}, "pkgrepo.managed", "files/k", "main", 2, 0},
		{"nginx", map[string]any{"pkg.installed": nil}, "pkg.installed", "", "nginx", 0, 0},
		{"x", map[string]any{"unknown.function": map[string]any{"source": 5}}, "unknown.function", "", "x", 1, 0},
		{"none", nil, "", "", "none", 0, 0},
	} {
		v := state.ValueOf(c.value)
		if v.Function != c.function || v.Source() != c.source || v.Main(c.name) != c.mainText || len(v.Args) != c.args || len(v.Fields) != c.fields {
			t.Errorf("%s: %+v, source %q, main %q", c.name, v, v.Source(), v.Main(c.name))
		}
	}
}

func TestAFileIsWithinItsSource(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		file, source string
		want         bool
	}{
		{"files/a", "files/a", true},
		{"files/a/b/c", "files/a", true},
		{"files/ab", "files/a", false},
		{"files/a", "files/a/b", false},
		{"files/a", "", false},
	} {
		if got := state.IsWithin(c.file, c.source); got != c.want {
			t.Errorf("%s in %s: %v", c.file, c.source, got)
		}
	}
}
