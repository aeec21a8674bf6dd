package peelindex

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/seed-c01c3da5/zester/settings/target"
)

// scan is what the index must equal.
func scan(peels map[target.PeelID]target.Peel, e *target.Expr) []target.PeelID {
	var ids []target.PeelID
	for id, p := range peels {
		if e.Match(p) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

var words = []string{"a", "b", "c", "A", "0", "1", "*", "x y", "10.0.0.1", "2001:db8::1", "a:b"}

func randomWord(r *rand.Rand) string { return words[r.IntN(len(words))] }

func randomValue(r *rand.Rand, depth int) any {
	kind := r.IntN(9)
	if depth == 0 {
		kind = r.IntN(6)
	}
	switch kind {
	case 0:
		return r.Int64N(12) - 2
	case 1:
		return float64(r.IntN(30)) / 4
	case 2:
		return r.IntN(2) == 0
	case 3, 4:
		return randomWord(r)
	case 5:
		return nil
	case 6:
		return randomMap(r, depth-1)
	}
	list := make([]any, r.IntN(4))
	for i := range list {
		list[i] = randomValue(r, depth-1)
	}
	return list
}

func randomMap(r *rand.Rand, depth int) map[string]any {
	m := map[string]any{}
	for range r.IntN(4) {
		m[randomWord(r)] = randomValue(r, depth)
	}
	return m
}

func randomFacts(r *rand.Rand) target.Facts {
	facts := randomMap(r, 4)
	for _, name := range target.AddressFacts {
		if r.IntN(2) == 0 {
			facts[name] = randomValue(r, 1)
		}
	}
	return facts
}

func randomExpr(r *rand.Rand, depth int) string {
	switch kind := r.IntN(16); {
	case depth > 0 && kind < 3:
		return randomExpr(r, depth-1) + []string{" and ", " or ", " not "}[kind] + randomExpr(r, depth-1)
	case depth > 0 && kind == 3:
		return "( " + randomExpr(r, depth-1) + " )"
	case depth > 0 && kind == 4:
		return "not " + randomExpr(r, depth-1)
	case kind == 5:
		return []string{"p-*", "*1", "p-[0-4]?", "p-7", "*", "E@p-[13]", "E@.*5$", "L@p-1,p-2,q"}[r.IntN(8)]
	case kind == 6:
		return []string{"S@10.0.0.0/8", "S@2001:db8::1", "S@0.0.0.0/0"}[r.IntN(3)]
	}
	path := make([]string, 1+r.IntN(4))
	for i := range path {
		path[i] = randomWord(r)
	}
	if r.IntN(4) == 0 {
		path = append(path, []string{">=1", "<5", "!=1", ">2.5", "?", "[ab]", "*"}[r.IntN(7)])
	}
	letter := []string{"G", "P", "I", "J"}[r.IntN(4)]
	text := strings.Join(path, ":")
	if letter == "P" || letter == "J" {
		text = strings.NewReplacer("*", ".*", "?", ".").Replace(text)
	}
	return fmt.Sprintf("%q", letter+"@"+text)
}

// world is an index with what it must hold.
type world struct {
	ix       *Index
	peels    map[target.PeelID]target.Peel
	settings map[target.PeelID]map[string]any
}

// randomWorld adds, updates and removes peels and their settings.
func randomWorld(t *testing.T, r *rand.Rand) world {
	t.Helper()
	w := world{New(), map[target.PeelID]target.Peel{}, map[target.PeelID]map[string]any{}}
	for range 120 {
		id := target.PeelID(fmt.Sprint("p-", r.IntN(40)))
		switch r.IntN(6) {
		case 0:
			_, was := w.peels[id]
			if w.ix.Remove(id) != was {
				t.Fatalf("Remove(%s) is not %v", id, was)
			}
			delete(w.peels, id)
		case 1:
			w.settings[id] = randomMap(r, 4)
			if r.IntN(3) == 0 {
				w.settings[id] = nil
			}
			w.ix.PutSettings(id, w.settings[id])
		default:
			facts := randomFacts(r)
			w.ix.Put(id, facts)
			w.peels[id] = target.Peel{ID: id, Facts: facts}
		}
	}
	for id, p := range w.peels {
		p.Settings = w.settings[id]
		w.peels[id] = p
	}
	return w
}

func TestSelectEqualsAFullScan(t *testing.T) {
	const rounds = 400
	nonEmpty := 0
	for seed := range uint64(rounds) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := randomWorld(t, r)
		for range 60 {
			text := randomExpr(r, 3)
			e := must(t, text)
			want := scan(w.peels, e)
			if len(want) > 0 {
				nonEmpty++
			}
			if got := w.ix.Select(e); !slices.Equal(got, want) {
				t.Fatalf("seed %d: %s selects %v, a scan finds %v", seed, text, got, want)
			}
		}
		checkPartition(t, r, w.ix, w.peels)
	}
	if nonEmpty < rounds*10 {
		t.Errorf("only %d of %d answers name a peel", nonEmpty, rounds*60)
	}
}

func TestAnEmptiedIndexSelectsNoPeel(t *testing.T) {
	for seed := range uint64(50) {
		w := randomWorld(t, rand.New(rand.NewPCG(seed, 2)))
		for id := range w.peels {
			w.ix.Remove(id)
		}
		for id := range w.settings {
			w.ix.PutSettings(id, nil)
		}
		if len(w.ix.facts.keys)+len(w.ix.settings.keys)+len(w.ix.slots)+w.ix.Len() > 0 {
			t.Fatalf("seed %d: %v, %v, %v", seed, w.ix.facts, w.ix.settings, w.ix.slots)
		}
	}
}

func checkPartition(t *testing.T, r *rand.Rand, ix *Index, peels map[target.PeelID]target.Peel) {
	t.Helper()
	exprs := make([]*target.Expr, r.IntN(6))
	for i := range exprs {
		e, err := target.Parse(randomExpr(r, 2), target.Options{})
		if err != nil {
			t.Fatal(err)
		}
		exprs[i] = e
	}
	n, seen := 0, map[string]bool{}
	for _, part := range ix.Partition(exprs) {
		key := fmt.Sprint(part.Matches)
		if seen[key] || !slices.IsSorted(part.Peels) || len(part.Peels) == 0 {
			t.Errorf("part %s is there twice, not sorted or empty: %v", key, part.Peels)
		}
		seen[key] = true
		for _, id := range part.Peels {
			n++
			for i, e := range exprs {
				if e.Match(peels[id]) != slices.Contains(part.Matches, i) {
					t.Errorf("%s is in part %s, against %s", id, key, e)
				}
			}
		}
	}
	if n != len(peels) {
		t.Errorf("the parts hold %d peels of %d", n, len(peels))
	}
}

func TestPutReportsWhetherTheIndexChanged(t *testing.T) {
	ix := New()
	facts := func(os string) target.Facts { return target.Facts{"os": os, "disks": []any{"a", "b"}} }
	for i, c := range []struct {
		facts target.Facts
		want  bool
	}{
		{nil, true},
		{nil, false},
		{facts("x"), true},
		{facts("x"), false},
		{facts("y"), true},
		{target.Facts{"os": "y"}, true},
	} {
		if got := ix.Put("p", c.facts); got != c.want {
			t.Errorf("put %d changed: %v", i, got)
		}
	}
	if got, ok := ix.Get("p"); !ok || got["os"] != "y" || len(got) != 1 {
		t.Errorf("Get = %v, %v", got, ok)
	}
}

func TestSettingsMakeNoMember(t *testing.T) {
	ix := New()
	ix.PutSettings("p", map[string]any{"a": "b"})
	if _, ok := ix.Get("p"); ok || ix.Len() != 0 || len(ix.IDs()) != 0 {
		t.Error("a peel without facts is a member")
	}
	if got := ix.Select(must(t, "L@p or p or I@a:b or not q")); len(got) != 0 {
		t.Errorf("a peel without facts is selected: %v", got)
	}
	if ix.Remove("p") {
		t.Error("a peel without facts was removed")
	}
	ix.Put("p", nil)
	if got := ix.Select(must(t, "I@a:b")); len(got) != 1 {
		t.Error("settings put before the facts are lost")
	}
}

func must(t testing.TB, expr string) *target.Expr {
	t.Helper()
	e, err := target.Parse(expr, target.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestIndexServesReadersWhileItChanges(t *testing.T) {
	ix := New()
	e := must(t, "p-* and G@n:>=0 not L@p-3")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 200 {
				if got := ix.Select(e); slices.Contains(got, "p-3") || !slices.IsSorted(got) {
					t.Errorf("selected %v", got)
				}
				ix.IDs()
			}
		})
	}
	for i := range 2000 {
		id := target.PeelID(fmt.Sprint("p-", i%50))
		if i%7 == 0 {
			ix.Remove(id)
		} else {
			ix.Put(id, target.Facts{"n": int64(i)})
		}
	}
	wg.Wait()
}

func bigIndex(n int) *Index {
	ix := New()
	for i := range n {
		ix.Put(target.PeelID(fmt.Sprintf("%s-%06d.dc%d", []string{"web", "db", "cache", "job"}[i%4], i, i%7)), bigFacts(i))
	}
	return ix
}

func bigFacts(i int) target.Facts {
	return target.Facts{
		"os": []any{"Ubuntu", "Debian", "RedHat"}[i%3], "mem_mb": int64(1024 << (i % 6)), "serial": fmt.Sprintf("S%08d", i),
		"ipv4":  []any{"127.0.0.1", fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255)},
		"disks": []any{map[string]any{"dev": "sda", "gb": int64(i % 50)}, map[string]any{"dev": "sdb", "gb": int64(100)}},
		"rack":  map[string]any{"row": int64(i % 40), "name": fmt.Sprint("r", i%400)},
	}
}

// BenchmarkSelect answers each form from the index, and beside it by a look at every peel.
func BenchmarkSelect(b *testing.B) {
	ix := bigIndex(100_000)
	groups, _ := target.ParseGroups(map[string][]string{"g": {"web-* and G@os:debian"}})
	for _, expr := range []string{
		"*", "web-000000.dc0", "web-*", "*-01[0-9]*", `E@(web|db)-\d+\.dc3$`, "L@web-000000.dc0,db-000001.dc1",
		"G@os:ubuntu", "G@serial:s0000123?", "G@mem_mb:>=4096", "G@disks:dev:sdb", "G@disks:1:gb:100", "P@rack:name:r1\\d$",
		"S@10.1.0.0/16", "N@g", "not G@os:Debian", "web-* and G@os:ubuntu and G@mem_mb:<=8192 and not G@rack:row:3", "P@rack:name:r7$ and G@os:debian",
	} {
		e, err := target.Parse(expr, target.Options{Groups: groups})
		if err != nil {
			b.Fatal(err)
		}
		b.Run(expr, func(b *testing.B) {
			b.ReportAllocs()
			var n int
			for b.Loop() {
				n = len(ix.Select(e))
			}
			b.ReportMetric(float64(n), "peels")
		})
		b.Run(expr+" scan", func(b *testing.B) {
			for b.Loop() {
				n := 0
				for i := range ix.peels {
					if e.Match(ix.peels[i]) {
						n++
					}
				}
			}
		})
	}
}

func BenchmarkPut(b *testing.B) {
	ix := bigIndex(100_000)
	ids := ix.IDs()
	facts := []target.Facts{bigFacts(1), bigFacts(2)}
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		ix.Put(ids[i%len(ids)], facts[i/len(ids)%2])
		i++
	}
}

func BenchmarkPartition(b *testing.B) {
	ix := bigIndex(100_000)
	var exprs []*target.Expr
	for i := range 100 {
		exprs = append(exprs, must(b, fmt.Sprintf("G@rack:row:%d or web-00%d*", i%40, i%10)))
	}
	b.ReportAllocs()
	for b.Loop() {
		ix.Partition(exprs)
	}
}

func TestARegexpThatBacktracksElsewhereIsLinear(t *testing.T) {
	e, err := target.Parse(`E@(a+)+$`, target.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ix := New()
	for i := range 10_000 {
		ix.Put(target.PeelID(fmt.Sprintf("%s-%d", strings.Repeat("a", 60), i)), nil)
	}
	all := target.PeelID(strings.Repeat("a", 60))
	ix.Put(all, nil)
	if got := ix.Select(e); !slices.Equal(got, []target.PeelID{all}) {
		t.Errorf("%d peels", len(got))
	}
}

func TestChangesThatMayChangeASelectionRaiseTheVersionOfTheIndex(t *testing.T) {
	ix := New()
	for _, step := range []struct {
		name  string
		do    func()
		grows bool
	}{
		{"a new peel", func() { ix.Put("a", target.Facts{"os": "linux"}) }, true},
		{"the same facts", func() { ix.Put("a", target.Facts{"os": "linux"}) }, false},
		{"other facts", func() { ix.Put("a", target.Facts{"os": "bsd"}) }, true},
		{"settings", func() { ix.PutSettings("a", map[string]any{"tier": "1"}) }, true},
		{"the same settings", func() { ix.PutSettings("a", map[string]any{"tier": "1"}) }, false},
		{"no settings", func() { ix.PutSettings("a", nil) }, true},
		{"a peel that goes", func() { ix.Remove("a") }, true},
		{"a peel that is not there", func() { ix.Remove("a") }, false},
	} {
		before := ix.Version()
		if step.do(); (ix.Version() > before) != step.grows {
			t.Errorf("%s: %d, then %d", step.name, before, ix.Version())
		}
	}
}
