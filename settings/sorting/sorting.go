// Package sorting sorts slices by a function, as [slices.SortFunc] does, with one copy of the algorithm in a program.
// Package slices compiles the algorithm again for each type of struct, about 15 KB each time: in a master, which sorts
// 80 types, that was a megabyte. Call [Func], or [Stable] to keep the order of equal elements.
//
// Known gap: a sort takes about half as long again. Call package slices where that counts, and for numbers and texts,
// which share one copy anyway.
package sorting

import (
	"iter"
	"slices"
	"sort"
)

// Func sorts x in ascending order as cmp determines. It does not keep the order of equal elements.
func Func[S ~[]E, E any](x S, cmp func(a, b E) int) {
	sort.Slice(x, func(i, j int) bool { return cmp(x[i], x[j]) < 0 })
}

// Stable sorts x in ascending order as cmp determines, and keeps the order of equal elements.
func Stable[S ~[]E, E any](x S, cmp func(a, b E) int) {
	sort.SliceStable(x, func(i, j int) bool { return cmp(x[i], x[j]) < 0 })
}

// Values returns the values of seq in ascending order as cmp determines.
func Values[E any](seq iter.Seq[E], cmp func(a, b E) int) []E {
	x := slices.Collect(seq)
	Stable(x, cmp)
	return x
}
