package gitrepo

import (
	"fmt"
	"testing"
)

// BenchmarkSync is what a master does to follow a repo of so many files: to clone it and read every file at first, and
// later to fetch a commit that changes one file and find which.
func BenchmarkSync(b *testing.B) {
	for _, n := range []int{1000, 10_000, 50_000} {
		b.Run(fmt.Sprintf("files=%d", n), func(b *testing.B) {
			w := newWork(b, fleet(n))
			b.Run("first", func(b *testing.B) {
				for b.Loop() {
					s, _ := follow(b, openRepo(b, Options{URL: w.Dir()}))
					if got, err := contents(s.Tree); err != nil || len(got) != n {
						b.Fatal(len(got), err)
					}
				}
			})
			b.Run("commit", func(b *testing.B) {
				r := openRepo(b, Options{URL: w.Dir()})
				old, _ := follow(b, r)
				for i := 0; b.Loop(); i++ {
					b.StopTimer()
					commit(b, w, "x", "env0/role00/file000.yaml", fmt.Sprint(i, b.N))
					b.StartTimer()
					now, _ := follow(b, r)
					if n := len(Changed(old.Tree, now.Tree)); n != 1 {
						b.Fatalf("%d paths changed", n)
					}
					old = now
				}
			})
		})
	}
}
