package plan_test

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
)

// tree makes files from a txtar archive.
func tree(archive string) fstest.MapFS {
	m := fstest.MapFS{}
	for _, f := range txtar.Parse([]byte(archive)).Files {
		m[f.Name] = &fstest.MapFile{Data: f.Data}
	}
	return m
}

// edit returns the tree with the files of an archive over it; an empty file goes.
func edit(m fstest.MapFS, archive string) fstest.MapFS {
	m = maps.Clone(m)
	for name, f := range tree(archive) {
		if len(f.Data) == 0 {
			delete(m, name)
		} else {
			m[name] = f
		}
	}
	return m
}

// hashed gives every file and directory of a tree a Sys that stands for what is in it, as a repository does, and
// counts the files that are read.
type hashed struct {
	fstest.MapFS
	reads *int
}

func withHashes(m fstest.MapFS) hashed {
	sums := map[string][]string{}
	for name, f := range m {
		for dir := path.Dir(name); ; dir = path.Dir(dir) {
			sums[dir] = append(sums[dir], name+"\x00"+string(f.Data))
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
	return hashed{out, new(int)}
}

func sum(s string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s))
	return h.Sum64()
}

func (h hashed) ReadFile(name string) ([]byte, error) {
	*h.reads++
	return h.MapFS.ReadFile(name)
}

// fleet makes an index of peels without facts but those given as "id key=value …".
func fleet(peels ...string) *target.Index {
	ix := target.NewIndex()
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

func compile(t testing.TB, c *plan.Compiler, m fs.FS, ix *target.Index) *plan.Plan {
	t.Helper()
	p, err := c.Compile(m, ix)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// values describes the settings of a peel.
func values(t testing.TB, p *plan.Plan, peel target.PeelID) string {
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
