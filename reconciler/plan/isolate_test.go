package plan_test

import (
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/settings/target"
	"github.com/seed-c01c3da5/zester/settings/target/peelindex"
)

// clashing is a revision in which two files do not merge: only for a peel that both apply to.
func clashing() fstest.MapFS {
	return fstest.MapFS{
		"top.yaml":             {Data: []byte("base:\n  '*': [common]\n  'G@role:db': [db]\n  'G@os:debian': [deb]\n")},
		"settings/common.yaml": {Data: []byte("a: 1\n")},
		"settings/db.yaml":     {Data: []byte("schedule:\n  x: {module: test.ping, interval: 1h}\n")},
		"settings/deb.yaml":    {Data: []byte("schedule:\n  x: {module: test.ping, cron: '@daily'}\n")},
	}
}

func mixedFleet() *peelindex.Index {
	ix := peelindex.New()
	for id, facts := range map[target.PeelID]target.Facts{
		"web": nil, "db": {"role": "db"}, "deb": {"os": "debian"}, "both": {"role": "db", "os": "debian"},
	} {
		ix.Put(id, facts)
	}
	return ix
}

func TestFactsThatCombineFilesThatDoNotMergeHoldBackOnePeel(t *testing.T) {
	if _, err := plan.NewCompiler().Compile(clashing(), mixedFleet()); err == nil {
		t.Fatal("a new commit with the mistake compiles")
	}
	p, err := plan.NewCompiler().Retarget(clashing(), mixedFleet())
	if err != nil {
		t.Fatal(err)
	}
	if got := slices.Sorted(maps.Keys(p.Peels)); !slices.Equal(got, []target.PeelID{"db", "deb", "web"}) {
		t.Errorf("%v get settings", got)
	}
	if e := p.Behind["both"]; len(p.Behind) != 1 || e.Pos.File != "settings/deb.yaml" || e.Pos.Line != 2 || p.Mistakes == nil {
		t.Errorf("behind: %v, mistakes: %v", p.Behind, p.Mistakes)
	}
}

func TestIsolatedMistakesHoldBackPeelsThatDependOnThem(t *testing.T) {
	tree := clashing()
	tree["zester.yaml"] = &fstest.MapFile{Data: []byte("on_error: isolate\n")}
	tree["settings/db.yaml"] = &fstest.MapFile{Data: []byte("a: [\n")}
	tree["settings/deb.yaml"] = &fstest.MapFile{Data: []byte("b: [\n")}
	p, err := plan.NewCompiler().Compile(tree, mixedFleet())
	if err != nil {
		t.Fatal(err)
	}
	if p.Peels["web"] == nil || len(p.Peels) != 1 || len(p.Behind) != 3 {
		t.Errorf("%d move on, behind: %v", len(p.Peels), p.Behind)
	}
	if len(p.Mistakes.Errors) != 2 || p.Mistakes.Errors[0].Pos.File != "settings/db.yaml" || p.Mistakes.Errors[1].Pos.File != "settings/deb.yaml" {
		t.Errorf("%v", p.Mistakes)
	}

	delete(tree, "settings/db.yaml")
	if p, err = plan.NewCompiler().Compile(tree, mixedFleet()); err != nil {
		t.Fatal(err)
	}
	if e := p.Behind["db"]; e.Pos.File != "top.yaml" || e.Pos.Line != 3 {
		t.Errorf("a reference without a file: %v", e)
	}
}

func TestATopFileThatCannotBeReadRefusesEverything(t *testing.T) {
	for name, text := range map[string]string{"gone": "", "broken": "base: [", "of another kind": "base: {'web and': [common]}\n"} {
		t.Run(name, func(t *testing.T) {
			tree := clashing()
			tree["zester.yaml"] = &fstest.MapFile{Data: []byte("on_error: isolate\n")}
			if delete(tree, "top.yaml"); text != "" {
				tree["top.yaml"] = &fstest.MapFile{Data: []byte(text)}
			}
			if p, err := plan.NewCompiler().Compile(tree, mixedFleet()); err == nil {
				t.Errorf("%d peels move on", len(p.Peels))
			}
		})
	}
}

// A settings file that is wrong and not used is a mistake, and no warning besides.
func TestAnIsolatedMistakeIsReportedOnce(t *testing.T) {
	p := compile(t, plan.NewCompiler(), tree("-- zester.yaml --\non_error: isolate\n-- top.yaml --\nbase: {'*': [a]}\n-- settings/a.yaml --\na: 1\n-- settings/b.yaml --\nb: 010\n"), fleet("web-01"))
	if p.Mistakes == nil || len(p.Mistakes.Errors) != 1 || p.Mistakes.Errors[0].Pos.File != "settings/b.yaml" || len(p.Warnings) != 0 {
		t.Errorf("%v, %v", p.Mistakes, p.Warnings)
	}
}

// withoutSettings fails the test when a settings file is read.
type withoutSettings struct {
	fs.FS
	t *testing.T
}

func (w withoutSettings) Open(name string) (fs.File, error) {
	if strings.HasPrefix(name, "settings") {
		w.t.Errorf("%s is read", name)
	}
	return w.FS.Open(name)
}

func TestSafetyIsReadWithoutSettings(t *testing.T) {
	tree := clashing()
	tree["zester.yaml"] = &fstest.MapFile{Data: []byte("waves: [{name: canary, peels: 1, soak: 1h}]\nlimits: {change: 20%}\nfreeze: [{calendar: sat}]\n")}
	same := func() {
		t.Helper()
		p, want := plan.NewCompiler().Retarget(tree, peelindex.New())
		got, err := plan.ReadSafety(withoutSettings{tree, t})
		if (err == nil) != (want == nil) || err != nil && err.Error() != want.Error() || err == nil && !reflect.DeepEqual(got, p.Safety()) {
			t.Errorf("%+v, %v; a compiler says %+v, %v", got, err, p, want)
		}
	}
	same()
	if s, err := plan.ReadSafety(tree); err != nil || len(s.Waves) != 1 || len(s.Freezes) != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	tree["top.yml"] = &fstest.MapFile{}
	same()
	tree["zester.yaml"] = &fstest.MapFile{Data: []byte("waves: [\n")}
	same()
	delete(tree, "zester.yaml")
	delete(tree, "top.yml")
	delete(tree, "top.yaml")
	same()
}
