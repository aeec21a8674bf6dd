// Package plantest makes revisions, fleets and plans for tests: begin with [Tree], [Fleet] and [Compile].
package plantest

import (
	"fmt"
	"hash/fnv"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/settings/target"
	"github.com/seed-c01c3da5/zester/settings/target/peelindex"
)

// Tree returns the files of a txtar archive.
func Tree(archive string) fstest.MapFS {
	m := fstest.MapFS{}
	for _, f := range txtar.Parse([]byte(archive)).Files {
		m[f.Name] = &fstest.MapFile{Data: f.Data}
	}
	return m
}

// Edit returns the tree with the files of an archive added or replaced; an empty file removes one.
func Edit(m fstest.MapFS, archive string) fstest.MapFS {
	m = maps.Clone(m)
	for name, f := range Tree(archive) {
		if len(f.Data) == 0 {
			delete(m, name)
		} else {
			m[name] = f
		}
	}
	return m
}

// Hashed is a tree in which Sys of each file and directory is a hash of its content, as in a repository.
type Hashed struct {
	fstest.MapFS
	Reads *int // number of files that were read
}

// WithHashes returns the tree with hashes.
func WithHashes(m fstest.MapFS) Hashed {
	sums := map[string][]string{}
	for name, f := range m {
		for dir := path.Dir(name); ; dir = path.Dir(dir) {
			sums[dir] = append(sums[dir], fmt.Sprintf("%s %v %s", name, f.Mode, f.Data))
			if dir == "." {
				break
			}
		}
	}
	out := fstest.MapFS{}
	for name, f := range m {
		out[name] = &fstest.MapFile{Data: f.Data, Mode: f.Mode, Sys: sum(string(f.Data))}
	}
	for dir, below := range sums {
		slices.Sort(below)
		out[dir] = &fstest.MapFile{Mode: fs.ModeDir | 0o755, Sys: sum(strings.Join(below, "\x00"))}
	}
	return Hashed{out, new(int)}
}

func sum(s string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s))
	return h.Sum64()
}

// ReadFile counts the call in Reads.
func (h Hashed) ReadFile(name string) ([]byte, error) {
	*h.Reads++
	return h.MapFS.ReadFile(name)
}

// Fleet returns an index of peels, each given as "id key=value …" with its facts.
func Fleet(peels ...string) *peelindex.Index {
	ix := peelindex.New()
	for _, p := range peels {
		words := strings.Fields(p)
		facts := target.Facts{}
		for _, w := range words[1:] {
			k, v, _ := strings.Cut(w, "=")
			facts[k] = v
		}
		ix.Put(target.PeelID(words[0]), facts)
	}
	return ix
}

// Compile compiles a valid revision.
func Compile(t testing.TB, c *plan.Compiler, m fs.FS, ix *peelindex.Index) *plan.Plan {
	t.Helper()
	p, err := c.Compile(m, ix)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Values returns the settings of a peel as text, "none" if it is not in the plan.
func Values(t testing.TB, p *plan.Plan, peel target.PeelID) string {
	t.Helper()
	e := p.Peels[peel]
	if e == nil {
		return "none"
	}
	v, err := e.Document(peel, "", 0, nil).Values()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(v)
}
