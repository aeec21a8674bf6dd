package top

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	policypkg "github.com/seed-c01c3da5/zester/settings/policy"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
	"github.com/seed-c01c3da5/zester/settings/target/peelindex"
)

var update = flag.Bool("update", false, "rewrite the expected messages in testdata")

func parse(t testing.TB, name, text string) *strictyaml.Node {
	t.Helper()
	n, err := strictyaml.Parse(name, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func mustTop(t testing.TB, texts ...string) *File {
	t.Helper()
	var docs []*strictyaml.Node
	for i, text := range texts {
		docs = append(docs, parse(t, fmt.Sprintf("top%d.yaml", i), text))
	}
	f, err := Parse(docs, nil)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func names(refs []Ref) string {
	var s []string
	for _, r := range refs {
		s = append(s, r.Name)
	}
	return strings.Join(s, " ")
}

func TestReferencesApplyInDocumentOrderOnceEach(t *testing.T) {
	f := mustTop(t, `
prod:
  'web-*': [web.nginx, common.base]
  '*':     [common.base, z.last]
base:
  'G@os:debian': [os.debian, web.nginx]
`, "", `
base:
  'web-*': [a.first]
`)
	for _, c := range []struct {
		peel target.Peel
		want string
	}{
		{target.Peel{ID: "web-1", Facts: target.Facts{"os": "Debian"}}, "web.nginx common.base z.last os.debian a.first"},
		{target.Peel{ID: "db-1", Facts: target.Facts{"os": "Debian"}}, "common.base z.last os.debian web.nginx"},
		{target.Peel{ID: "x"}, "common.base z.last"},
	} {
		if got := names(f.Select(c.peel)); got != c.want {
			t.Errorf("%s gets %s, want %s", c.peel.ID, got, c.want)
		}
	}
	refs := f.Select(target.Peel{ID: "web-1"})
	if got := fmt.Sprint(refs[0].Pos, refs[3].Pos, " ", f.Rules[1].Pos, " ", f.Rules[1].Env); got != "top0.yaml:3:13 top2.yaml:3:13 top0.yaml:4:3 prod" {
		t.Errorf("places are %s", got)
	}
}

func TestAssignEqualsSelectAndSharesSignatures(t *testing.T) {
	f := mustTop(t, `
base:
  'a*':         [one]
  'b*':         [one]
  'G@n:>=5':    [two, one]
  'L@a1,b2':    [two]
  'none-*':     [three]
`)
	ix := peelindex.New()
	peels := map[target.PeelID]target.Peel{}
	for i := range 40 {
		id := target.PeelID(fmt.Sprintf("%c%d", "abc"[i%3], i))
		peels[id] = target.Peel{ID: id, Facts: target.Facts{"n": int64(i % 9)}}
		ix.Put(id, peels[id].Facts)
	}
	signatures, selects := f.Assign(ix)
	var seen []string
	n := 0
	for _, s := range signatures {
		seen = append(seen, strings.Join(s.Refs, " "))
		if !slices.IsSorted(s.Peels) || len(s.Peels) == 0 {
			t.Errorf("peels of %v are %v", s.Refs, s.Peels)
		}
		for _, id := range s.Peels {
			n++
			if got := names(f.Select(peels[id])); got != strings.Join(s.Refs, " ") {
				t.Errorf("%s gets %v, Select says %s", id, s.Refs, got)
			}
		}
	}
	if want := []bool{true, true, true, false, false}; !slices.Equal(selects, want) { // there is neither a1 nor b2
		t.Errorf("the rules that select a peel are %v", selects)
	}
	if want := []string{"", "one", "one two", "two one"}; !slices.Equal(seen, want) {
		t.Errorf("signatures are %q, want %q", seen, want)
	}
	if n != len(peels) {
		t.Errorf("%d peels have a signature, want %d", n, len(peels))
	}
}

func TestAnEmptyTopFileHasNoRules(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "base:\n", "base: {}\n"} {
		if f := mustTop(t, text); len(f.Rules) != 0 {
			t.Errorf("%q has rules", text)
		}
	}
}

func TestPolicyNamesNodeGroups(t *testing.T) {
	p, err := policypkg.ParsePolicy(parse(t, "zester.yaml", `
nodegroups:
  web: web-*
  both: [N@web, or, db-1]
  ids: [db-1, db-2]
`))
	if err != nil {
		t.Fatal(err)
	}
	f, err := Parse([]*strictyaml.Node{parse(t, "top.yaml", "base: {N@both: [a], N@ids: [b]}")}, p.Groups)
	if err != nil {
		t.Fatal(err)
	}
	if got := names(f.Select(target.Peel{ID: "db-1"})); got != "a b" {
		t.Errorf("db-1 gets %s", got)
	}
	for _, empty := range []*strictyaml.Node{nil, parse(t, "zester.yaml", ""), parse(t, "zester.yaml", "nodegroups:")} {
		if p, err := policypkg.ParsePolicy(empty); err != nil || len(p.Groups) != 0 {
			t.Errorf("an absent policy gives %v, %v", p, err)
		}
	}
}

// TestMistakesAreListedWithTheirPlaces reads testdata/*.yaml, whose messages
// stand beside them. The name begins with what the file is.
func TestMistakesAreListedWithTheirPlaces(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no testdata", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			doc := parse(t, filepath.Base(file), string(data))
			switch kind, _, _ := strings.Cut(filepath.Base(file), "-"); kind {
			case "top":
				groups, _ := target.ParseGroups(map[string][]string{"s": {"I@a:b"}})
				_, err = Parse([]*strictyaml.Node{doc}, groups)
			case "policy":
				_, err = policypkg.ParsePolicy(doc)
			case "fleet":
				_, err = policypkg.ParseFleet(doc)
			}
			if err == nil {
				t.Fatal("no error")
			}
			expected := strings.TrimSuffix(file, ".yaml") + ".err"
			if *update {
				if err := os.WriteFile(expected, []byte(err.Error()+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, readErr := os.ReadFile(expected)
			if readErr != nil || err.Error()+"\n" != string(want) {
				t.Errorf("errors are\n%v\nwant\n%s", err, want)
			}
		})
	}
}

func TestFleetHasTheValuesOfTheFile(t *testing.T) {
	fleet, err := policypkg.ParseFleet(parse(t, "fleet.yaml", `
peels:
  web-1: {facts: {os: Debian, n: 3}, settings: {role: front}}
  a(b)c:
  db-1: {}
nodegroups:
  ok: [web-1, db-1]
  circle: N@circle
`))
	if err != nil {
		t.Fatal(err)
	}
	for expr, want := range map[string]string{
		"*": "a(b)c db-1 web-1", "N@ok": "db-1 web-1", "G@n:3": "web-1", "I@role:front": "web-1", "N@circle": "error",
	} {
		e, err := target.Parse(expr, target.Options{Groups: fleet.Groups})
		if err != nil {
			if want != "error" {
				t.Error(err)
			}
			continue
		}
		var got []string
		for _, p := range fleet.Peels {
			if e.Match(p) {
				got = append(got, string(p.ID))
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s selects %v, want %s", expr, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"base: {'*': [a.b]}", "base:\n  'web-* and G@os:x': [a]\n  E@x: [b, a]\n", "a: 1", "base: {x: [../y]}", "nodegroups: {a: [b, or, c]}",
		"peels: {a: {facts: {x: 1}}}", "base: {'(': [1]}",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		doc, err := strictyaml.Parse("f.yaml", []byte(text))
		if err != nil {
			return
		}
		if file, err := Parse([]*strictyaml.Node{doc}, nil); err == nil {
			for _, r := range file.Rules {
				for _, ref := range r.Refs {
					if strings.Contains(ref.Name, "..") || strings.ContainsAny(ref.Name, "/\\ ") {
						t.Fatalf("accepted reference %q", ref.Name)
					}
				}
			}
			file.Select(target.Peel{ID: "x"})
		}
		_, _ = policypkg.ParsePolicy(doc)
		_, _ = policypkg.ParseFleet(doc)
	})
}

func BenchmarkAssign(b *testing.B) {
	ix := peelindex.New()
	for i := range 10_000 {
		ix.Put(target.PeelID(fmt.Sprintf("%s-%05d", []string{"web", "db", "job"}[i%3], i)), target.Facts{
			"os": []any{"debian", "ubuntu"}[i%2], "rack": fmt.Sprint(i % 20), "mem_mb": int64(i % 64 * 1024),
		})
	}
	var text strings.Builder
	text.WriteString("base:\n  '*': [common.base]\n")
	for i := range 100 {
		fmt.Fprintf(&text, "  'web-*%02d or G@rack:%d and G@mem_mb:>%d': [r%d.a, r%d.b]\n", i, i%20, i*600, i, i%7)
	}
	f := mustTop(b, text.String())
	b.ReportAllocs()
	for b.Loop() {
		f.Assign(ix)
	}
}
