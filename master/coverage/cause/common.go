package cause

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/seed-c01c3da5/zester/settings/sorting"
)

// Fewest is how many silent peels show anything together.
const Fewest = 3

const (
	maxNames = 64 // of traits that are compared
	fewOf    = 10 // a trait of one in so many others is one of few
)

// first are the names of traits that are told before others that as few peels have.
var first = []string{"site", "subnet", "zester_version", "commit"}

// Traits returns what a peel has under a name, such as berlin under site; empty: nothing.
type Traits func(name string) string

// Common says what silent peels have in common that at most a tenth of the others have, such as "all 12 silent peels
// are in site:berlin, and none of 88 others is". It is empty if there is nothing, if fewer than three peels are silent,
// or if there are no others. Of several traits it tells the one that the fewest others have. At most 64 names count.
func Common(names []string, silent, others []Traits) string {
	if len(silent) < Fewest || len(others) == 0 {
		return ""
	}
	names = sorting.Values(slices.Values(names), func(a, b string) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
	})
	best, with, value := "", len(others)/fewOf+1, ""
	for _, name := range names[:min(len(names), maxNames)] {
		has := silent[0](name)
		if has == "" || slices.ContainsFunc(silent, func(of Traits) bool { return of(name) != has }) {
			continue
		}
		n := 0
		for _, of := range others {
			if of(name) == has {
				n++
			}
		}
		if n < with {
			best, with, value = name, n, has
		}
	}
	if best == "" {
		return ""
	}
	rest, are := "none", "is"
	if with > 0 {
		rest = strconv.Itoa(with)
	}
	if with > 1 {
		are = "are"
	}
	return fmt.Sprintf("all %d silent peels are in %s:%s, and %s of %s %s", len(silent), best, value, rest,
		count(len(others), "other"), are)
}

// rank orders the names of traits.
func rank(name string) int {
	if i := slices.Index(first, name); i >= 0 {
		return i
	}
	return len(first)
}
