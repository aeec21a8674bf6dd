package gitrepo

import (
	"fmt"
	"testing"
	"testing/fstest"
)

// fleet is a configuration repository of n files in directories of 50.
func fleet(n int) fstest.MapFS {
	m := fstest.MapFS{}
	for i := range n {
		name := fmt.Sprintf("env%d/role%02d/file%03d.yaml", i/500, i/50, i)
		m[name] = &fstest.MapFile{Data: fmt.Appendf(nil, "schedule:\n  job%d:\n    interval: %ds\n", i, i+10), Mode: 0o644}
	}
	return m
}

func BenchmarkPollWithoutChange(b *testing.B) {
	w := newWork(b, fleet(1000))
	urls := map[string]string{"local": w.Dir()}
	if hasGit() {
		urls["http"] = served(b, w, nil)
	}
	for name, url := range urls {
		b.Run(name, func(b *testing.B) {
			r := openRepo(b, Options{URL: url})
			for b.Loop() {
				if _, err := r.Resolve(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkClone(b *testing.B) {
	w := newWork(b, fleet(1000))
	for b.Loop() {
		follow(b, openRepo(b, Options{URL: w.Dir()}))
	}
}

func BenchmarkFetchOneCommit(b *testing.B) {
	w := newWork(b, fleet(1000))
	urls := map[string]string{"local": w.Dir()}
	if hasGit() {
		urls["http"] = served(b, w, nil)
	}
	for name, url := range urls {
		b.Run(name, func(b *testing.B) {
			r := openRepo(b, Options{URL: url})
			old, _ := follow(b, r)
			for i := 0; b.Loop(); i++ {
				b.StopTimer()
				commit(b, w, "x", "env0/role00/file000.yaml", fmt.Sprint(name, i))
				b.StartTimer()
				now, _ := follow(b, r)
				if n := len(Changed(old.Tree, now.Tree)); n != 1 {
					b.Fatalf("%d paths changed", n)
				}
				old = now
			}
		})
	}
}

func BenchmarkChangedPaths(b *testing.B) {
	w := newWork(b, fleet(1000))
	r := openRepo(b, Options{URL: w.Dir()})
	old, _ := follow(b, r)
	h := commit(b, w, "x", "env1/role12/file600.yaml", "new")
	follow(b, r)
	for b.Loop() {
		r.newest = nil
		if _, err := r.Snapshot(old.Commit.Hash); err != nil {
			b.Fatal(err)
		}
		now, err := r.Snapshot(h)
		if err != nil {
			b.Fatal(err)
		}
		if n := len(Changed(old.Tree, now.Tree)); n != 1 {
			b.Fatalf("%d paths changed", n)
		}
	}
}

func BenchmarkReadEveryFile(b *testing.B) {
	w := newWork(b, fleet(1000))
	s, _ := follow(b, openRepo(b, Options{URL: w.Dir()}))
	for b.Loop() {
		if got, err := contents(s.Tree); err != nil || len(got) != 1000 {
			b.Fatal(len(got), err)
		}
	}
}
