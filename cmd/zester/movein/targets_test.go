package movein

import (
	"testing"

	"github.com/seed-c01c3da5/zester/settings/target"
)

var hosts = []HostFacts{
	{ID: "web-01", Facts: map[string]string{"os": "debian", "os_version": "13", "arch": "amd64"}},
	{ID: "web-02", Facts: map[string]string{"os": "debian", "os_version": "12", "arch": "amd64"}},
	{ID: "db-01.example.org", Facts: map[string]string{"os": "Rocky", "os_version": "9.4", "arch": "amd64"}},
	{ID: "db-02", Facts: map[string]string{"os": "debian", "os_version": "13", "arch": "arm64", "domain": "not a value"}},
}

func TestHostsAreToldApartByFactsWhereFactsDo(t *testing.T) {
	for _, c := range []struct {
		all   string
		hosts []int
		expr  string
		word  string
	}{
		{"*", []int{0, 1, 2, 3}, "*", "all"},
		{"web-* or db-*", []int{0, 1, 2, 3}, "web-* or db-*", "all"},
		{"*", []int{0, 1, 3}, "G@os:debian", "debian"},
		{"L@web-01,web-02", []int{0, 1, 3}, "L@web-01,web-02 and G@os:debian", "debian"},
		{"web-* or db-*", []int{0, 1, 3}, "(web-* or db-*) and G@os:debian", "debian"},
		{"*", []int{0, 3}, "G@os_version:13", "13"},
		{"*", []int{2}, "G@os:rocky", "rocky"},
		{"*", []int{0, 1}, "G@os:debian and G@arch:amd64", "debian-amd64"},
		{"*", []int{1, 2, 3}, "L@web-02,db-01.example.org,db-02", "3-hosts"},
		{"*", []int{0}, "G@os_version:13 and G@arch:amd64", "13-amd64"},
	} {
		chosen := map[int]bool{}
		for _, i := range c.hosts {
			chosen[i] = true
		}
		expr, word := newTargets(hosts, c.all).Of(chosen)
		if expr != c.expr || word != c.word {
			t.Errorf("%v: %q, %q, want %q, %q", c.hosts, expr, word, c.expr, c.word)
		}
		if _, err := target.Parse(expr, target.Options{}); err != nil {
			t.Errorf("%q: %v", expr, err)
		}
	}
}

// A fact, and an expression for all, may select hosts that are not known.
func TestHostsThatAreNotAllAreListed(t *testing.T) {
	for _, c := range []struct {
		hosts      []int
		expr, word string
	}{{[]int{0}, "web-01", "web-01"}, {[]int{0, 1, 3}, "L@web-01,web-02,db-02", "3-hosts"}, {[]int{0, 1, 2, 3}, "L@web-01,web-02,db-01.example.org,db-02", "4-hosts"}} {
		chosen := map[int]bool{}
		for _, i := range c.hosts {
			chosen[i] = true
		}
		if expr, word := newTargets(hosts, "").Of(chosen); expr != c.expr || word != c.word {
			t.Errorf("%v: %q, %q", c.hosts, expr, word)
		}
	}
}

func TestHostsWithoutFactsAreListed(t *testing.T) {
	alike := []HostFacts{{ID: "a.example.org"}, {ID: "b"}, {ID: "c"}}
	for _, c := range []struct {
		hosts      []int
		expr, word string
	}{{[]int{0}, "a.example.org", "a-example-org"}, {[]int{1, 2}, "L@b,c", "2-hosts"}} {
		chosen := map[int]bool{}
		for _, i := range c.hosts {
			chosen[i] = true
		}
		if expr, word := newTargets(alike, "*").Of(chosen); expr != c.expr || word != c.word {
			t.Errorf("%v: %q, %q", c.hosts, expr, word)
		}
	}
}
