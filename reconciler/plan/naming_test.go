package plan_test

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
)

func TestTheLinesThatNameAPeelAreFound(t *testing.T) {
	long := strings.Repeat("# web-01\n", 200)
	tree := fstest.MapFS{
		"top.yaml":                  {Data: []byte("base:\n  '*': [all]\n  web-01: [web]\n  'web-01,web-02': [two]\n  'web-0*': [x]\n")},
		"settings/web-01.yaml":      {Data: []byte("schedule: {}\n")},
		"settings/web-011.yaml":     {Data: []byte("a: web-011\nb: aweb-01\nc: web-01.example.com\nd: db.web-01\n")},
		"settings/web-01/base.yaml": {Data: []byte("# The first of all is web-01.\n")},
		"settings/own/web-01.yaml":  {Data: []byte("include: [own.web-01, y.web-01]\nx: not.own.web-01\n")},
		"README.md":                 {Data: []byte("`web-01`, and (web-01)")},
		"logo.png":                  {Data: []byte("\x00 web-01")},
	}
	got, err := plan.Naming(tree, "web-01")
	want := []string{"README.md:1", "settings/web-01/base.yaml", "settings/web-01/base.yaml:1", "settings/web-01.yaml", "settings/own/web-01.yaml", "settings/own/web-01.yaml:1", "top.yaml:3", "top.yaml:4"}
	slices.Sort(got)
	slices.Sort(want)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %q", err, got)
	}

	tree["a.yaml"] = &fstest.MapFile{Data: []byte(long)}
	if got, err := plan.Naming(tree, "web-01"); err != nil || len(got) != 100 || got[0] != "README.md:1" {
		t.Errorf("%v, %d: %q", err, len(got), got[:3])
	}
	if got, err := plan.Naming(tree, "web-03"); err != nil || len(got) != 0 {
		t.Errorf("%v, %q", err, got)
	}
}
