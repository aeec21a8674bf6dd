package movein

import (
	"fmt"
	"io/fs"
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
