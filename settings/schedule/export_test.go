package schedule

import (
	"slices"
	"testing"
)

// lift takes the marks off all fields that are not supported yet, until the test ends.
func lift(t testing.TB) {
	marked := slices.Clone(fields)
	for i := range fields {
		fields[i].later = ""
	}
	t.Cleanup(func() { copy(fields, marked) })
}
