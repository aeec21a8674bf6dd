package peelindex

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/settings/target"
)

// selects works out what an explained part selects, from the terms up, and checks the numbers on the way.
func selects(t *testing.T, peels map[target.PeelID]target.Peel, e *target.Explanation) map[target.PeelID]bool {
	t.Helper()
	found := map[target.PeelID]bool{}
	parts := make([]map[target.PeelID]bool, len(e.Parts))
	for i := range e.Parts {
		parts[i] = selects(t, peels, &e.Parts[i])
	}
	for id := range peels {
		out := slices.DeleteFunc(slices.Clone(parts), func(part map[target.PeelID]bool) bool { return part[id] })
		switch e.Op {
		case target.OpTerm:
			found[id] = must(t, e.Term).Match(peels[id])
		case target.OpAnd:
			found[id] = len(out) == 0
		case target.OpOr:
			found[id] = len(out) < len(parts)
		case target.OpNot:
			found[id] = len(out) == 1
		}
		if !found[id] {
			delete(found, id)
		}
	}
	for i, part := range e.Parts {
		var excluded []target.PeelID
		for id := range peels {
			if e.Op == target.OpAnd && !parts[i][id] && !slices.ContainsFunc(slices.Delete(slices.Clone(parts), i, i+1), func(p map[target.PeelID]bool) bool { return !p[id] }) {
				excluded = append(excluded, id)
			}
		}
		slices.Sort(excluded)
		if part.Excludes != len(excluded) || !slices.Equal(part.Excluded, excluded[:min(len(excluded), maxExcluded)]) {
			t.Errorf("part %+v keeps out %v", part, excluded)
		}
	}
	if e.Peels != len(found) {
		t.Errorf("%+v selects %d peels", e, len(found))
	}
	return found
}

func TestAnExplanationCountsWhatEachPartSelects(t *testing.T) {
	hints := 0
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 7))
		w := randomWorld(t, r)
		for range 20 {
			text := randomExpr(r, 3)
			e := must(t, text)
			explanation, err := w.ix.Explain(e)
			if err != nil {
				t.Fatal(err)
			}
			selects(t, w.peels, explanation)
			if explanation.Peels != len(w.ix.Select(e)) {
				t.Errorf("seed %d: %s is explained with %d peels", seed, text, explanation.Peels)
			}
			hints += strings.Count(fmt.Sprint(explanation), ".]")
		}
	}
	if hints < 50 {
		t.Errorf("%d hints in 1200 explanations", hints)
	}
}

// mixed is a small fleet with what people get wrong.
func mixed() *Index {
	ix := New()
	for i := range 12 {
		ix.Put(target.PeelID(fmt.Sprintf("web-%02d", i)), target.Facts{
			"os": []any{"Ubuntu", "Debian", "Ubuntu"}[i%3], "mem_mb": int64(1024 * i), "ipv4": []any{fmt.Sprintf("10.0.0.%d", i)},
			"disks": []any{map[string]any{"dev": "sda"}},
		})
	}
	ix.Put("db-1", target.Facts{"os": "Debian"})
	ix.Put("db-11", nil)
	ix.PutSettings("db-1", map[string]any{"nginx": map[string]any{"workers": int64(4)}})
	return ix
}

func TestHintsNameTheMistake(t *testing.T) {
	ix := mixed()
	for expr, want := range map[string]string{
		"web-1":                  "No peel has the ID web-1; 2 IDs begin with it: write web-1*.",
		"wbe-01":                 "No peel has the ID wbe-01; did you mean web-01?",
		"mail":                   "No peel has the ID mail.",
		"WEB-*":                  "IDs are case sensitive: ignoring case, WEB-* would select 12 peels.",
		"mail-*":                 "",
		"E@mail":                 "",
		"L@db-1,bd-1":            "No peel has the ID bd-1; did you mean db-1?",
		"L@p1,p2,p3,p4,p5,p6":    "6 of these 6 IDs are unknown.",
		"G@oss:ubuntu":           "No peel has a fact oss; did you mean os?",
		"G@os:ubunut":            "Peels with a fact os have the values ubuntu (8), debian (5).",
		"G@MEM_MB:>=1":           "No peel has a fact MEM_MB; did you mean mem_mb?",
		"G@mem_mb:>99999":        "Peels with a fact mem_mb have the values 0 (1), 1024 (1), 10240 (1), 11264 (1), 2048 (1), and 7 other values.",
		"G@disks:dve:sda":        "No peel has a fact disks:dve; did you mean dev?",
		"G@disks:dev:sdb":        "Peels with a fact disks:dev have the values sda (12).",
		"G@zone":                 "No peel has a fact zone.",
		"G@os:ubuntu":            "",
		"I@nginx:workers:5":      "Peels with a setting nginx:workers have the values 4 (1).",
		"I@ngnix:workers:4":      "No peel has a setting ngnix; did you mean nginx?",
		"S@192.168.0.0/16":       "Peels have 12 addresses, none of them in this network.",
		"not G@os:debian":        "It also selects the peels without a fact os: 1.",
		"not mail":               "The term after not selects no peel, so not removes none.",
		"web-* and not L@web-03": "",
	} {
		explanation, err := ix.Explain(must(t, expr))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(explanation.Hints, "\n"); got != want && (want == "" || !strings.Contains(got, want)) {
			t.Errorf("%s: %q, want %q", expr, got, want)
		}
	}
	for expr, want := range map[string]string{
		"S@10.0.0.0/8": "No peel has an address in its facts ipv4 and ipv6.", "web-01": "",
	} {
		explanation, err := New().Explain(must(t, expr))
		if err != nil || strings.Join(explanation.Hints, "") != want {
			t.Errorf("%s of an empty fleet: %+v, %v", expr, explanation, err)
		}
	}
}

func TestTermsAreSaidInWords(t *testing.T) {
	groups, errs := target.ParseGroups(map[string][]string{"front": {"web-*"}})
	if errs != nil {
		t.Fatal(errs)
	}
	for expr, want := range map[string]string{
		"*":                "every peel",
		"web-01":           "the peel web-01",
		"web-*":            "peels whose ID matches web-*",
		`E@web-\d`:         `peels whose ID begins with a match of web-\d`,
		"L@a":              "the peel a",
		"L@a,b":            "the 2 peels with these IDs",
		"S@10.0.0.1":       "peels with an address in 10.0.0.1/32, by their facts ipv4 and ipv6",
		"G@os":             "peels with a fact os",
		"G@os:ubuntu":      "peels whose fact os is ubuntu (or is a map with the key ubuntu)",
		"G@os:ubu*":        "peels whose fact os matches ubu* (or is a map with the key ubu*)",
		"G@mem_mb:>=4.5":   "peels whose fact mem_mb is a number >= 4.5",
		"G@disks:dev:sda":  "peels whose fact disks:dev is sda, or disks is dev:sda (or is a map with the key sda)",
		"P@os:(a|b)":       "peels whose fact os begins with a match of (a|b) (or is a map with the key (a|b))",
		"I@nginx":          "peels with a setting nginx",
		"N@front":          "the node group front",
		"a or b":           "any of these",
		"a and b":          "all of these",
		"not a":            "all peels but these",
		"G@a:b:c:d:e:f:1*": "peels whose fact a:b:c:d:e:f matches 1*, or a:b:c:d:e matches f:1*, or a:b:c:d matches e:f:1*, or a:b:c matches d:e:f:1* (or is a map with the key 1*)",
	} {
		e, err := target.Parse(expr, target.Options{Groups: groups})
		if err != nil {
			t.Fatal(err)
		}
		if explanation, err := mixed().Explain(e); err != nil || explanation.Means != want {
			t.Errorf("%s: %q, want %q; %v", expr, explanation.Means, want, err)
		}
	}
}

func TestAnExplanationIsBounded(t *testing.T) {
	ix := bigIndex(2000)
	many := make([]string, MaxExplained)
	for i := range many {
		many[i] = fmt.Sprintf("%s-%d", strings.Repeat("x", 100), i)
	}
	explanation, err := ix.Explain(must(t, strings.Join(many, " or ")))
	if err != nil || len(explanation.Parts) != MaxExplained {
		t.Fatal(err)
	}
	hints := 0
	for _, p := range explanation.Parts {
		hints += len(p.Hints)
	}
	if hints != maxSearches {
		t.Errorf("%d hints", hints)
	}
	if _, err := ix.Explain(must(t, strings.Join(append(many, "x"), " or "))); err == nil || !strings.Contains(err.Error(), "201 terms") {
		t.Errorf("one more term: %v", err)
	}
	long, err := ix.Explain(must(t, "L@"+strings.Join(many[:100], ",")))
	if err != nil || len(long.Term) > 200+len("…") {
		t.Errorf("a long term is told with %d bytes, %v", len(long.Term), err)
	}
}
