//go:build linux

package account

import "slices"

import "testing"

func TestNumbersOfNewAccounts(t *testing.T) {
	used := func(numbers ...uint32) func(uint32) bool {
		return func(n uint32) bool {
			return !slices.Contains(numbers, n)
		}
	}
	for _, c := range []struct {
		name   string
		system bool
		isFree func(uint32) bool
		want   uint32
	}{
		{"the first", false, used(), 1000},
		{"after the largest", false, used(1000, 1005), 1006},
		{"the largest is taken", false, used(1000, 60000), 1001},
		{"the first of the system", true, used(), 999},
		{"the next of the system", true, used(999, 998, 990), 997},
	} {
		if got, err := free("ZT", c.system, c.isFree); got != c.want || err != nil {
			t.Errorf("%s: %d, %v, want %d", c.name, got, err, c.want)
		}
	}
	if n, err := free("ZT", false, func(uint32) bool { return false }); err == nil {
		t.Errorf("all are taken, and %d is given", n)
	}
}
