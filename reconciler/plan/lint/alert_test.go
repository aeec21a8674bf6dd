package lint_test

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/plan/lint"
	"github.com/seed-c01c3da5/zester/settings/target"
	"github.com/seed-c01c3da5/zester/settings/target/peelindex"
)

func TestAlertRulesThatMatchNothing(t *testing.T) {
	tree := fstest.MapFS{
		"top.yaml":        {Data: []byte("base: {'*': [a]}")},
		"settings/a.yaml": {Data: []byte("schedule:\n  backup-db: {command: test.ping, interval: 5m}\n")},
		"zester.yaml": {Data: []byte(`nodegroups: {db: 'db-*'}
alerts:
  good: {entries: 'backup-*', target: 'web-*', on: [failed]}
  typo: {entries: 'bakup-*', on: [failed]}
  none: {target: N@db, on: [failed, not_reporting]}
  sync: {on: [stalled]}
`)},
	}
	fleet := peelindex.New()
	fleet.Put("web-1", target.Facts{})
	withFleet, err := plan.NewCompiler().Compile(tree, fleet)
	if err != nil {
		t.Fatal(err)
	}
	without, err := plan.NewCompiler().Check(tree)
	if err != nil {
		t.Fatal(err)
	}
	typo := `zester.yaml:4:3: alerts.typo.entries: no entry of this repo matches "bakup-*"`
	for name, c := range map[string]struct {
		plan *plan.Plan
		want []string
	}{
		"with a fleet":    {withFleet, []string{"zester.yaml:5:3: alerts.none.target: db-* selects no peel", typo}},
		"without a fleet": {without, []string{typo}},
	} {
		var got []string
		for _, e := range lint.New(lint.Options{From: from}).All(c.plan) {
			if strings.HasPrefix(e.Pos.File, "zester.yaml") {
				got = append(got, e.Error())
			}
		}
		if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(c.want))) {
			t.Errorf("%s: warnings are %q, want %q", name, got, c.want)
		}
	}
}
