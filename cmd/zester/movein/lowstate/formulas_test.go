package lowstate

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
)

// TestThreeFormulasOfDifferentStyle counts by function and reason what becomes of declarations with the shapes of three
// public formulas: nginx (macros, blocks of options, built from source on one host), users (loops over the pillar, several
// functions under an ID) and openssh (IDs with blanks, templates, keys of the pillar).
func TestThreeFormulasOfDifferentStyle(t *testing.T) {
	t.Parallel()
	hosts, err := Hosts(open[[]map[string]any](t, "formulas/low.json"), open[map[string]any](t, "formulas/pillar.json"),
		open[map[string]any](t, "formulas/grains.json"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := Convert(Input{Hosts: hosts, Roots: []fs.FS{os.DirFS("testdata/formulas/roots")}, Pushed: os.DirFS("testdata/formulas/pushed")})
	if err != nil {
		t.Fatal(err)
	}
	share := 100 * float64(r.Converted) / float64(r.Declarations)
	if share < 85 {
		t.Errorf("%.1f %% of the declarations are converted, want 85 %%", share)
	}
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
