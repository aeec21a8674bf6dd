//go:build linux

package account

import (
	"slices"
	"testing"

	"github.com/seed-c01c3da5/zester/peel/state/host"
	"github.com/seed-c01c3da5/zester/settings/state"
)

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
	if n, err := free("ZT", true, func(n uint32) bool { return n == 100 }); n != 100 || err != nil {
		t.Errorf("the last of the system: %d, %v", n, err)
	}
	if n, err := free("ZT", true, func(n uint32) bool { return n == 99 || n == 1000 }); err == nil {
		t.Errorf("none of the system is left, and %d is given", n)
	}
	if n, err := free("ZT", false, func(uint32) bool { return false }); err == nil {
		t.Errorf("all are taken, and %d is given", n)
	}
}

// userdel removes the group of a user's name if it is the user's main group and of nobody else.
func TestWhichGroupGoesWithItsUser(t *testing.T) {
	const gid = 64321 // that no user of the host has
	for name, c := range map[string]struct {
		group host.Group
		goes  bool
	}{
		"without members":   {host.Group{Exists: true, Name: "zt-u", GID: gid}, true},
		"of the user alone": {host.Group{Exists: true, Name: "zt-u", GID: gid, Members: []string{"zt-u"}}, true},
		"of others too":     {host.Group{Exists: true, Name: "zt-u", GID: gid, Members: []string{"zt-u", "zt-v"}}, false},
		"not the main one":  {host.Group{Exists: true, Name: "zt-u", GID: gid + 1}, false},
		"not there":         {host.Group{Name: "zt-u", GID: gid}, false},
	} {
		w := host.New()
		w.SetGroup(c.group)
		if goes, err := goesWithUser(t.Context(), w, host.User{Exists: true, Name: "zt-u", GID: gid}); goes != c.goes || err != nil {
			t.Errorf("%s: %v, %v", name, goes, err)
		}
	}
}

// A new user gets a group of the same number.
func TestTheNumberOfAUserIsThatOfNoOtherGroup(t *testing.T) {
	for _, system := range []bool{false, true} {
		w, a := host.New(), &state.UserPresent{Name: "zt-u", System: system}
		first, err := freeUser(w, a, false)
		if err != nil {
			t.Fatal(err)
		}
		w.SetGroup(host.Group{Exists: true, Name: "zt-g", GID: first})
		if n, err := freeUser(w, a, false); n == first || err != nil {
			t.Errorf("system %v: %d is the number of a group, %v", system, n, err)
		}
	}
}
