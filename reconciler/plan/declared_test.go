package plan_test

import (
	"slices"
	"testing"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
)

// Without a fleet nobody knows which files meet on a peel; everything else that is wrong is found all the same.
func TestCheckFindsWhatIsWrongWithoutAFleet(t *testing.T) {
	meet := []string{"entry_without_a_module", "two_timings_from_two_files"}
	for _, bad := range badRevisions(t) {
		t.Run(bad.name, func(t *testing.T) {
			_, want := plan.NewCompiler().Compile(bad.files, fleet("web-01", "db-01"))
			switch _, err := plan.NewCompiler().Check(bad.files); {
			case slices.Contains(meet, bad.name):
				if err != nil {
					t.Errorf("%v", err)
				}
			case err == nil || err.Error() != want.Error():
				t.Errorf("%v\nwant\n%v", err, want)
			}
		})
	}
}
