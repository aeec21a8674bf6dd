package access

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestRulesAboutFiles decides about files by random rules, and compares with an oracle in words.
func TestRulesAboutFiles(t *testing.T) {
	files := []string{
		"top.yaml", "settings/web/cron.yaml", "settings/web/old/cron.yaml", "settings/db.yaml", "Settings/web/cron.yaml",
	}
	patterns := map[string][]string{ // the files that each is about
		"settings/web":             {files[1], files[2]},
		"settings/web/*":           {files[1], files[2]},
		"settings/*/cron.yaml":     {files[1]},
		"settings/*.yaml":          {files[3]},
		"*":                        files,
		"top.yaml":                 {files[0]},
		"settings/we":              nil,
		"settings/web/cron.yaml/x": nil,
	}
	names := []string{}
	for p := range patterns {
		names = append(names, p)
	}
	slices.Sort(names)
	w := world{Rand: rand.New(rand.NewPCG(1, 2))}
	who, verb := Who{Name: "ann"}, Verb("schedule.remove")
	counts := map[bool]int{}
	for range 3000 {
		var rules []Rule
		for range 1 + w.IntN(3) {
			rules = append(rules, Rule{Who: who, Deny: w.IntN(3) == 0, Actions: Actions{
				Verbs: []string{w.pick("schedule.remove", "*", "schedule.add")}, Paths: w.some(2, names...),
			}})
		}
		for _, file := range append([]string{""}, files...) {
			want, denied := false, false
			for _, r := range rules {
				isAbout := len(r.Paths) == 0 || file == "" && !r.Deny
				for _, p := range r.Paths {
					isAbout = isAbout || slices.Contains(patterns[p], file)
				}
				if isAbout && r.Verbs[0] != "schedule.add" {
					want, denied = want || !r.Deny, denied || r.Deny
				}
			}
			want = want && !denied
			counts[want]++
			if got := Decide(rules, who, verb, On{Path: file}); got.Allowed != want {
				t.Fatalf("%q by %+v: %+v, want %v", file, rules, got, want)
			}
		}
	}
	if counts[true] < 1000 || counts[false] < 1000 {
		t.Errorf("the cases are of one kind: %v", counts)
	}
}

// TestARuleWithPathsIsAboutNothingElse holds that a rule with paths gives and takes no other verb.
func TestARuleWithPathsIsAboutNothingElse(t *testing.T) {
	all := Rule{Who: Who{Name: "ann"}, Actions: Actions{Verbs: []string{"*"}, Paths: []string{"*"}}}
	for _, verb := range []Verb{"job.dispatch", "job.list", "schedule.list", "sync.approve", "role.set"} {
		if Decide([]Rule{all}, Who{Name: "ann"}, verb, On{Function: "test.ping"}).Allowed {
			t.Errorf("a rule about files allows %s", verb)
		}
		deny := all
		deny.Deny = true
		if !Decide(append(Builtin(), deny), Who{Name: "ann", Roles: []string{"operator"}}, verb, On{}).Allowed {
			t.Errorf("a rule about files denies %s", verb)
		}
	}
	if ReachesAll([]Rule{all}, Who{Name: "ann"}) {
		t.Error("a rule about files shows peels")
	}
}

// TestPatternsOfFilesAreClean holds that no pattern leaves the repo, and that none of those is about a file in it.
func TestPatternsOfFilesAreClean(t *testing.T) {
	for _, bad := range []string{"", ".", "..", "/", "../x", "a/../b", "a//b", "./a", "a/", "[", `a\b`, strings.Repeat("../", 9)} {
		if checkPaths(bad) == nil {
			t.Errorf("%q is a pattern", bad)
		}
	}
	for _, good := range []string{"*", "a", "a/b.yaml", "settings/web/*", "settings/[ab]*", "..a/b"} {
		if err := checkPaths(good); err != nil {
			t.Error(err)
		}
	}
}
