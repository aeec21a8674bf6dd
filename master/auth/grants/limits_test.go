package grants_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func TestTheGlobsOfLimitsAreBounded(t *testing.T) {
	longest := strings.Repeat("a", 256)
	for glob, want := range map[string]bool{
		"test.*": true, longest: true, longest + "a": false, "": false, "[": false,
	} {
		if got := grants.IsGlob(glob); got != want {
			t.Errorf("%.20q of %d bytes is a glob: %t", glob, len(glob), got)
		}
		if err := (grants.Limits{Functions: []string{glob}}).Check(); (err == nil) != want {
			t.Errorf("limits with %.20q of %d bytes: %v", glob, len(glob), err)
		}
	}
	for n, want := range map[int]bool{64: true, 65: false} {
		if err := (grants.Limits{Functions: slices.Repeat([]string{"test.*"}, n)}).Check(); (err == nil) != want {
			t.Errorf("%d globs: %v", n, err)
		}
	}
}

func TestWhatLimitsAllow(t *testing.T) {
	web := grants.Limits{Target: "web-*", Functions: []string{"test.*", "cmd.run"}}
	for name, c := range map[string]struct {
		limits   grants.Limits
		function string
		targets  string
		err      string
		outside  string
	}{
		"no limits":                {grants.Limits{}, "cmd.run", "db-1 web-1", "", ""},
		"within":                   {web, "cmd.run", "web-1 web-2", "", ""},
		"by a glob":                {web, "test.ping", "web-1", "", ""},
		"no target at all":         {web, "test.ping", "", "", ""},
		"another function":         {web, "pkg.installed", "web-1", "not allowed: the function pkg.installed is none of", ""},
		"a longer name":            {web, "cmd.runner", "web-1", "the function cmd.runner is none of", ""},
		"another peel":             {web, "cmd.run", "db-1", "not allowed: 1 of 1 targets, the first of them db-1, are not selected", "db-1"},
		"some are other peels":     {web, "cmd.run", "db-1 db-2 web-1", "2 of 3 targets, the first of them db-1", "db-1 db-2"},
		"another function, peel":   {web, "pkg.installed", "db-1", "the function pkg.installed is none of", ""},
		"functions alone, within":  {grants.Limits{Functions: []string{"test.*"}}, "test.ping", "db-1", "", ""},
		"functions alone, another": {grants.Limits{Functions: []string{"test.*"}}, "cmd.run", "db-1", "is none of", ""},
		"target alone":             {grants.Limits{Target: "web-*"}, "cmd.run", "db-1", "the first of them db-1", "db-1"},
	} {
		selects := func(_ context.Context, expr string) ([]target.PeelID, error) {
			if expr != "web-*" {
				t.Errorf("%s: %q is evaluated", name, expr)
			}
			return []target.PeelID{"web-1", "web-2"}, nil
		}
		var targets []target.PeelID
		for id := range strings.FieldsSeq(c.targets) {
			targets = append(targets, target.PeelID(id))
		}
		err := c.limits.Evaluate(t.Context(), "ada", c.function, targets, selects)
		if (err == nil) != (c.err == "") || err != nil && (!strings.Contains(err.Error(), c.err) || !errors.Is(err, grants.ErrNotAllowed)) {
			t.Errorf("%s: the error is %v, want %q", name, err, c.err)
		}
		var outside []string
		if e, ok := errors.AsType[*grants.OutsideError](err); ok {
			for _, id := range targets {
				if e.Has(id) {
					outside = append(outside, string(id))
				}
			}
		}
		if got := strings.Join(outside, " "); got != c.outside {
			t.Errorf("%s: outside are %q, want %q", name, got, c.outside)
		}
	}
	broken := errors.New("no facts")
	err := web.Evaluate(t.Context(), "ada", "cmd.run", nil, func(context.Context, string) ([]target.PeelID, error) { return nil, broken })
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "the limits of ada cannot be checked") {
		t.Errorf("peels that cannot be selected: %v", err)
	}
}
