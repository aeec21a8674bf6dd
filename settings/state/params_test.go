package state

import (
	"strings"
	"testing"
)

func TestFunctionsAndTheirArgumentsAreDescribed(t *testing.T) {
	for _, f := range Functions() {
		if f.Doc == "" || strings.Contains(f.Doc, "\n") {
			t.Errorf("%s is described as %q", f.Name, f.Doc)
		}
		hasMain := false
		for _, p := range f.Params() {
			hasMain = hasMain || p.Name == f.Main
			if p.Name == "" || p.Doc == "" || strings.Contains(p.Doc, "\n") {
				t.Errorf("%s: %+v", f.Name, p)
			}
		}
		if !hasMain {
			t.Errorf("%s has no argument %s", f.Name, f.Main)
		}
	}
}

func TestAStateByItself(t *testing.T) {
	set, err := Single("file.managed", map[string]any{"path": "/etc/motd", "content": "hello\n", "mode": "0600"})
	if err != nil || set[0].Name != "/etc/motd" || *set[0].Args.(*FileManaged).Content != "hello\n" {
		t.Errorf("%+v, %v", set, err)
	}
	if set, err = Single("pkg.installed", map[string]any{"names": []any{"vim", "git"}}); err != nil || set[0].Name != "vim" {
		t.Errorf("%+v, %v", set, err)
	}
	for _, bad := range []struct {
		function string
		args     map[string]any
		want     string
	}{
		{"file.managd", nil, "did you mean"},
		{"file.managed", nil, "argument path is missing"},
		{"file.managed", map[string]any{"path": "/etc/motd"}, "source is missing"},
		{"file.managed", map[string]any{"path": "etc/motd", "content": ""}, "not an absolute path"},
		{"file.managed", map[string]any{"path": "/etc/motd", "contnt": ""}, "content"},
		{"file.absent", map[string]any{"path": "/usr"}, "too near the root"},
		{"pkg.installed", map[string]any{"name": 7}, "string"},
	} {
		if _, err := Single(bad.function, bad.args); err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%s %v: %v, want %q", bad.function, bad.args, err, bad.want)
		}
	}
}
