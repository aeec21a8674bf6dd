package plan_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/plan/plantest"
)

// TestARevisionThatNamesOneFileManyTimesIsTooLarge has trees that a pack of less than 700 bytes can hold.
func TestARevisionThatNamesOneFileManyTimesIsTooLarge(t *testing.T) {
	big := []byte("a: [" + strings.Repeat("1,", 99_000) + "1]\n")
	tree := func(dirs string, paths int) fs.FS {
		m := fstest.MapFS{"top.yaml": {Data: []byte("base: {'*': [small]}\n")}, "settings/small.yaml": {Data: []byte("x: 1\n")}}
		for _, dir := range dirs {
			for i := range paths {
				m[fmt.Sprintf("settings/%c/f%03d.yaml", dir, i)] = &fstest.MapFile{Data: big}
			}
		}
		return plantest.WithHashes(m)
	}
	fleet := plantest.Fleet("web-01")
	c := plan.NewCompiler()
	for _, r := range []struct {
		tree fs.FS
		at   string // file with which it is too large; empty: it is not
	}{
		{tree("a", 20), ""},
		{tree("ab", 20), "settings/b/f010.yaml: "},
		{tree("a", 200), "settings/a/f030.yaml: "},
		{tree("b", 20), ""},
		{tree("ab", 20), "settings/b: "}, // both were read before
		{tree("b", 20), ""},
	} {
		_, err := c.Compile(r.tree, fleet)
		e, refused := errors.AsType[*plan.Error](err)
		if refused != (r.at != "") || refused && (e.Reason != plan.TooLarge || !strings.HasPrefix(e.Error(), r.at+"with it the revision has more than ")) || !refused && err != nil {
			t.Errorf("%v, want an error at %q", err, r.at)
		}
	}
}
