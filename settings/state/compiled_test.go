package state_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/content"
	"github.com/seed-c01c3da5/zester/settings/state"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

func compiledExample() state.Compiled {
	f, _ := content.Seal([]byte("worker_processes 4;\n"), nil)
	f.Mode = "0644"
	return state.Compiled{
		Order: []string{"z", "a"},
		Refs:  map[string][]string{"web.nginx": {"z"}, "common.base": {"a", "z"}},
		Files: map[string]content.File{"files/nginx.conf": f},
	}
}

// settingsOf returns settings as a peel reads them from a document.
func settingsOf(t *testing.T, states string, c state.Compiled, reveal bool) map[string]any {
	t.Helper()
	n, err := strictyaml.Parse("settings/a.yaml", []byte(states))
	if err != nil {
		t.Fatal(err)
	}
	n.Map = append(n.Map, strictyaml.Pair{Key: state.CompiledKey, Value: c.Node(func(string) (string, bool) { return "•••", true })})
	value := n.Any()
	if reveal {
		value = n.Reveal()
	}
	data, err := canon.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := canon.Unmarshal(data, &values); err != nil {
		t.Fatal(err)
	}
	return values
}

func TestAPeelReadsTheStatesThatTheCompilerWrote(t *testing.T) {
	t.Parallel()
	c := compiledExample()
	settings := settingsOf(t, "states:\n  a: {pkg.installed: {}, require: ['file:web.nginx']}\n  z: {pkg.installed: null}\n", c, true)
	got, err := state.FromSettings(settings)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.Compiled, c) {
		t.Errorf("read %+v, written %+v", got.Compiled, c)
	}
	if set := got.Set; len(set) != 2 || set[0].Name != "z" || set[1].Name != "a" {
		t.Errorf("states %v", got.Set)
	}
	if _, err := state.FromSettings(map[string]any{"nginx": map[string]any{}}); err != nil {
		t.Errorf("settings without states: %v", err)
	}
}

func TestAMaskedKeyOfAFileIsRefused(t *testing.T) {
	t.Parallel()
	settings := settingsOf(t, "states: {}\n", compiledExample(), false)
	if _, err := state.FromSettings(settings); err == nil || !strings.Contains(err.Error(), `files: "files/nginx.conf": sha256 is not 32 bytes`) {
		t.Errorf("error %v", err)
	}
}

// TestAStateThatCannotBeUsedIsApart: the others can be, and requisites may name it.
func TestAStateThatCannotBeUsedIsApart(t *testing.T) {
	t.Parallel()
	settings := map[string]any{
		"states": map[string]any{
			"ann":  map[string]any{"user.present": map[string]any{"password": "no hash"}},
			"new":  map[string]any{"later.present": map[string]any{"files": []any{"/home/ann/.ssh/keys"}}, "require_in": []any{"c"}},
			"x":    map[string]any{"cmd.run": map[string]any{"command": "true"}, "require": []any{"y"}},
			"y":    map[string]any{"cmd.run": map[string]any{"command": "true"}, "require": []any{"x"}},
			"b":    map[string]any{"cmd.run": map[string]any{"command": "true"}, "require": []any{"ann"}},
			"c":    map[string]any{"cmd.run": map[string]any{"command": "true"}, "watch": nil},
			"late": map[string]any{"cmd.run": map[string]any{"command": "true"}, "sometime": true},
		},
		"_states": map[string]any{"order": []any{"ann", "new", "x", "y", "b", "c", "late"}, "refs": map[string]any{}, "files": map[string]any{}},
	}
	got, err := state.FromSettings(settings)
	if err != nil {
		t.Fatal(err)
	}
	var usable, others []string
	for _, s := range got.Set {
		usable = append(usable, s.Name)
	}
	for _, b := range got.Broken {
		others = append(others, b.Name)
		if b.Err == nil {
			t.Errorf("%s has no error", b.Name)
		}
		if b.Name == "new" && (b.Function != "later.present" || !slices.Equal(b.Paths, []string{"/home/ann/.ssh/keys"}) || !slices.Equal(b.Before, []string{"c"})) {
			t.Errorf("%+v", b)
		}
	}
	slices.Sort(others)
	if !slices.Equal(usable, []string{"y", "b", "c"}) || !slices.Equal(others, []string{"ann", "late", "new", "x"}) {
		t.Errorf("usable are %q, others %q", usable, others)
	}
	for _, bad := range []any{"text", []any{}, map[string]any{"not, a name": map[string]any{}}} {
		if _, err := state.FromSettings(map[string]any{"states": bad}); err == nil {
			t.Errorf("%v is accepted", bad)
		}
	}
}

func FuzzFromSettings(f *testing.F) {
	f.Add([]byte(`{"states":{"a":{"pkg.installed":{}}},"_states":{"order":["a"],"refs":{"x":["a"]},"files":{}}}`))
	f.Add([]byte(`{"_states":{"files":{"files/x":{"sha256":"","size":-1,"mode":"","blob":"","key":""}}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		n, err := strictyaml.Parse("f", data)
		if err != nil {
			return
		}
		values, ok := n.Any().(map[string]any)
		if !ok {
			return
		}
		got, err := state.FromSettings(values)
		if err != nil {
			return
		}
		for path, file := range got.Compiled.Files {
			if file.Check() != nil {
				t.Errorf("%s was accepted: %+v", path, file)
			}
		}
		for _, s := range got.Set {
			if _, err := s.Hash(); err != nil {
				t.Error(err)
			}
		}
	})
}
