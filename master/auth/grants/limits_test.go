package grants_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
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
