package movein

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/settings/target"
	"github.com/seed-c01c3da5/zester/settings/target/peelindex"
)

// TestThreeFormulasOfDifferentStyle counts by function and reason what becomes of declarations with the shapes of three
// public formulas: nginx (macros, blocks of options, built from source on one host), users (loops over the pillar, several
// functions under an ID) and openssh (IDs with blanks, templates, keys of the pillar).
func TestThreeFormulasOfDifferentStyle(t *testing.T) {
	t.Parallel()
	hosts, err := Minions(open[[]map[string]any](t, "formulas/low.json"), open[map[string]any](t, "formulas/pillar.json"),
		open[map[string]any](t, "formulas/grains.json"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := Salt(SaltInput{Hosts: hosts, Target: "*", Roots: []fs.FS{os.DirFS("testdata/formulas/roots")}, Pushed: os.DirFS("testdata/formulas/pushed")})
	if err != nil {
		t.Fatal(err)
	}
	share := 100 * float64(r.Converted) / float64(r.Declarations)
	if share < 85 {
		t.Errorf("%.1f %% of the declarations are converted, want 85 %%", share)
	}
	compiles(t, r, map[target.PeelID]target.Facts{"web-01": {"os_version": "13"}, "build-01": {"os_version": "12"}})
	var got strings.Builder
	fmt.Fprintf(&got, "%d of %d declarations converted (%.1f %%)\n", r.Converted, r.Declarations, share)
	for _, row := range r.Refused {
		fmt.Fprintf(&got, "not converted: %dx %s: %s\n", row.Count, row.Function, row.Reason)
	}
	for _, row := range r.Notes {
		fmt.Fprintf(&got, "note: %dx %s: %s\n", row.Count, row.Function, row.Reason)
	}
	if *update {
		if err := os.WriteFile("testdata/formulas/want.txt", []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/formulas/want.txt")
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("testdata/formulas/want.txt differs, write it with -update and read the difference:\n%s", got.String())
	}
}

// TestATeamOfOne imports 66 .sls files with the shapes of the formulas. What is left for a person does not grow with the
// files: the report has as many rows as for the formulas alone, so that an hour is enough.
func TestATeamOfOne(t *testing.T) {
	t.Parallel()
	one := open[[]map[string]any](t, "formulas/low.json")
	grains, pillar := open[map[string]any](t, "formulas/grains.json"), open[map[string]any](t, "formulas/pillar.json")
	in := SaltInput{Target: "*", Roots: []fs.FS{os.DirFS("testdata/formulas/roots")}, Pushed: os.DirFS("testdata/formulas/pushed")}
	rows := func(low map[string][]map[string]any) (SaltResult, int) {
		hosts, err := Minions(low, pillar, grains)
		if err != nil {
			t.Fatal(err)
		}
		in.Hosts = hosts
		r, err := Salt(in)
		if err != nil {
			t.Fatal(err)
		}
		return r, len(r.Refused) + len(r.Notes)
	}
	_, before := rows(one)

	many, files := map[string][]map[string]any{}, map[any]bool{}
	for host, low := range one {
		for n := range 3 { // what several files say of one thing is no error
			for _, d := range low {
				copied := maps.Clone(d)
				if n > 0 {
					copied["__sls__"] = fmt.Sprint(d["__sls__"], ".part", n)
				}
				files[copied["__sls__"]] = true
				many[host] = append(many[host], copied)
			}
		}
	}
	r, after := rows(many)
	share := 100 * float64(r.Converted) / float64(r.Declarations)
	if len(files) < 50 || share < 85 || after > before || len(r.Mistakes) > 0 {
		t.Errorf("%d files: %.1f %% of %d declarations are converted, %d rows of the report, of the formulas alone %d, and %v",
			len(files), share, r.Declarations, after, before, r.Mistakes)
	}
}

// compiles checks that masters take the repo for the hosts: no two states of a host contradict each other.
func compiles(t *testing.T, r SaltResult, hosts map[target.PeelID]target.Facts) {
	t.Helper()
	tree := fstest.MapFS{}
	for _, files := range []map[string][]byte{r.Files, r.Secrets} {
		for name, text := range files {
			tree[name] = &fstest.MapFile{Data: text}
		}
	}
	fleet := peelindex.New()
	for id, facts := range hosts {
		fleet.Put(id, facts)
	}
	p, err := plan.NewCompiler().Compile(tree, fleet)
	if err != nil {
		t.Fatal(err)
	}
	if p.Mistakes != nil || len(p.Behind) > 0 {
		t.Errorf("%v, %v", p.Mistakes, p.Behind)
	}
}
