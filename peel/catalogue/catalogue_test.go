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
	name, param := regexp.MustCompile(`^[a-z]+\.[a-z_]+$`), regexp.MustCompile(`^[a-z_]+$`)
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
		"cmd.run", "cron.absent", "cron.present", "file.absent", "file.block", "file.directory", "file.line", "file.managed", "file.recurse", "file.symlink",
		"group.absent", "group.present", "pkg.installed", "pkg.latest", "pkg.removed", "pkgrepo.managed",
		"schedule.pause", "schedule.resume", "schedule.run", "schedule.skip", "service.dead", "service.running", "state.apply", "state.highstate",
		"user.absent", "user.present",
	}) {
		t.Errorf("functions that change the host: %v", mutating)
	}
}
