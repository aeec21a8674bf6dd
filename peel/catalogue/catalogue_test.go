package catalogue_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/peel/catalogue"
)

func TestEveryFunctionIsFoundByItsName(t *testing.T) {
	for _, f := range catalogue.Functions() {
		got, ok := catalogue.Lookup(f.Name)
		if !ok || got.Name != f.Name {
			t.Errorf("%s: %+v, %v", f.Name, got, ok)
		}
	}
	for _, name := range []string{"", "test", "test.", "test.pin", "test.pingg", "TEST.PING", "zz.zz", "aa.aa"} {
		if got, ok := catalogue.Lookup(name); ok {
			t.Errorf("%q is %+v", name, got)
		}
	}
}

func TestFunctionsAreDescribedInFull(t *testing.T) {
	name, param := regexp.MustCompile(`^[a-z_]+\.[a-z_]+$`), regexp.MustCompile(`^[a-z0-9_]+$`)
	for _, f := range catalogue.Functions() {
		if !name.MatchString(f.Name) || f.Doc == "" || strings.Contains(f.Doc, "\n") {
			t.Errorf("%+v", f)
		}
		positional := 0
		for _, p := range f.Params {
			if !param.MatchString(p.Name) || p.Type == "" || p.Doc == "" {
				t.Errorf("%s: %+v", f.Name, p)
			}
			if p.Positional {
				positional++
			}
		}
		if positional > 1 {
			t.Errorf("%s: %d positional parameters", f.Name, positional)
		}
	}
}

func TestFunctionsThatChangeTheHostOrTheScheduleAreQueued(t *testing.T) {
	var mutating []string
	for _, f := range catalogue.Functions() {
		if !f.ReadOnly {
			mutating = append(mutating, f.Name)
		}
	}
	if !slices.Equal(mutating, []string{
		"archive.extracted", "cmd.run", "cron.absent", "cron.present", "debconf.set", "file.absent", "file.block", "file.directory", "file.line", "file.managed", "file.recurse", "file.replace", "file.symlink", "git.latest",
		"group.absent", "group.present", "host.present", "mount.mounted", "peel.wipe", "pip.installed", "pkg.installed", "pkg.latest", "pkg.removed", "pkgrepo.managed", "prompt.run",
		"schedule.pause", "schedule.resume", "schedule.run", "schedule.skip",
		"service.dead", "service.disabled", "service.enabled", "service.reload", "service.restart", "service.running", "service.start", "service.stop", "ssh_auth.absent", "ssh_auth.present", "state.apply", "state.highstate", "state.restore", "state.settle",
		"sysctl.present", "timezone.system",
		"user.absent", "user.present",
	}) {
		t.Errorf("functions that change the host: %v", mutating)
	}
}

func TestArgumentsOfFunctionsForStates(t *testing.T) {
	f, _ := catalogue.Lookup("state.apply")
	for id, want := range map[string][]any{"web.nginx": {"web.nginx"}, "web.nginx,db": {"web.nginx", "db"}, " a, b\tc ": {"a", "b", "c"}} {
		args, err := f.Arguments(id, map[string]any{"test": true})
		if got, _ := args["refs"].([]any); err != nil || !slices.Equal(got, want) || args["test"] != true {
			t.Errorf("%q is %v, %v", id, args, err)
		}
	}
	if args, err := f.Arguments(", ", nil); err == nil {
		t.Errorf("no word is %v, which would be all states", args)
	}
	for _, bad := range []struct {
		function, id string
		args         map[string]any
		want         string
	}{
		{"state.apply", "", map[string]any{"test": "yes"}, "must be true or false"},
		{"state.apply", "", map[string]any{"tets": true}, `did you mean "test"`},
		{"state.highstate", "web", nil, "takes no argument without a name"},
		{"state.aply", "", nil, "state.apply"},
		{"pkg.installed", "vim", map[string]any{"test": int64(1)}, "must be true or false"},
		{"pkg.installed", "vim", map[string]any{"versoin": "1"}, `did you mean "version"`},
		{"user.present", "ada", map[string]any{"password": int64(123456)}, "password"},
		{"file.managed", "/x", map[string]any{"vars": "a"}, "must be a map"},
		{"prompt.run", "Well?", map[string]any{"context": "facts.items"}, "argument context: must be a list"},
		{"prompt.run", "Well?", map[string]any{"opts": map[string]any{"temprature": 1.0}}, `argument opts: temprature: unknown key; did you mean "temperature"?`},
		{"prompt.run", "Well?", map[string]any{"opts": map[string]any{"response_schema": map[string]any{"items": int64(1)}}}, "response_schema.items: must be a map"},
		{"prompt.run", "Well?", map[string]any{"fail_if": int64(5)}, "argument fail_if: must be a string"},
	} {
		err := catalogue.CheckCall(bad.function, bad.id, bad.args)
		if err == nil || !strings.Contains(err.Error(), bad.want) || strings.Contains(err.Error(), "123456") {
			t.Errorf("%s %s %v: %v, want %q", bad.function, bad.id, bad.args, err, bad.want)
		}
	}
	good := map[string]any{
		"path": "/x", "content": "a", "template": true, "vars": map[string]any{"a": int64(1)}, "mode": "0644", "replace": false, "check": []any{"true", "{}"}, "test": true,
	}
	if err := catalogue.CheckCall("file.managed", "", good); err != nil {
		t.Error(err)
	}
}
