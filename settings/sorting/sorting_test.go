package sorting

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

type pair struct{ key, place int }

func byKey(a, b pair) int { return cmp.Compare(a.key, b.key) }

func random(n int) []pair {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	x := make([]pair, n)
	for i := range x {
		x[i] = pair{r.IntN(n/3 + 1), i}
	}
	return x
}

func TestTheOrderIsThatOfPackageSlices(t *testing.T) {
	for n := range 200 {
		want := random(n)
		slices.SortStableFunc(want, byKey)
		stable := random(n)
		Stable(stable, byKey)
		if values := Values(slices.Values(random(n)), byKey); !slices.Equal(stable, want) || !slices.Equal(values, want) {
			t.Fatalf("%v %v, want %v", stable, values, want)
		}
		unstable := random(n)
		Func(unstable, byKey)
		if !slices.IsSortedFunc(unstable, byKey) {
			t.Fatalf("%v", unstable)
		}
	}
}

func BenchmarkFunc(b *testing.B) {
	for _, c := range []struct {
		name string
		sort func([]pair, func(a, b pair) int)
	}{{"sorting", Func[[]pair, pair]}, {"slices", slices.SortFunc[[]pair, pair]}} {
		b.Run(c.name, func(b *testing.B) {
			x := random(10_000)
			y := make([]pair, len(x))
			for b.Loop() {
				copy(y, x)
				c.sort(y, byKey)
			}
		})
	}
}
