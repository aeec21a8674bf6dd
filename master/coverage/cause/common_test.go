package cause_test

import (
	"fmt"
	"testing"

	"github.com/seed-c01c3da5/zester/master/coverage/cause"
)

func TestWhatSilentPeelsHaveInCommon(t *testing.T) {
	peels := func(n int, traits map[string]string) (list []cause.Traits) {
		for range n {
			list = append(list, func(name string) string { return traits[name] })
		}
		return list
	}
	berlin := map[string]string{"site": "berlin", "subnet": "10.1.2.0/24", "os": "debian"}
	paris := map[string]string{"site": "paris", "subnet": "10.1.3.0/24", "os": "debian"}
	moved := map[string]string{"site": "berlin", "subnet": "10.1.3.0/24", "os": "debian"}
	old := map[string]string{"site": "paris", "zester_version": "0.1.0"}
	for _, c := range []struct {
		name           string
		silent, others []cause.Traits
		want           string
	}{
		{"a site", peels(12, berlin), peels(88, paris), "all 12 silent peels are in site:berlin, and none of 88 others is"},
		{"fewer others", peels(12, berlin), append(peels(87, paris), peels(1, moved)...), "all 12 silent peels are in subnet:10.1.2.0/24, and none of 88 others is"},
		{"one of many others", peels(3, berlin), append(peels(9, paris), peels(1, berlin)...), "all 3 silent peels are in site:berlin, and 1 of 10 others is"},
		{"two of many others", peels(3, berlin), append(peels(18, paris), peels(2, berlin)...), "all 3 silent peels are in site:berlin, and 2 of 20 others are"},
		{"a version", append(peels(2, old), peels(1, map[string]string{"site": "berlin", "zester_version": "0.1.0"})...), peels(4, paris), "all 3 silent peels are in zester_version:0.1.0, and none of 4 others is"},
		{"as many others", peels(3, berlin), append(peels(8, paris), peels(2, berlin)...), ""},
		{"nothing", append(peels(3, berlin), peels(1, paris)...), peels(88, map[string]string{"os": "debian"}), ""},
		{"too few", peels(2, berlin), peels(88, paris), ""},
		{"all", peels(12, berlin), nil, ""},
	} {
		got := cause.Common([]string{"os", "subnet", "zester_version", "site"}, c.silent, c.others)
		if c.name == "nothing" {
			got = cause.Common([]string{"subnet", "site"}, c.silent, c.others)
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// A peel has any number of facts; at most 64 of their names are compared.
func TestFewTraitsAreCompared(t *testing.T) {
	asked := map[string]bool{}
	var names []string
	for i := range 1000 {
		names = append(names, fmt.Sprintf("fact-%03d", i))
	}
	of := func(name string) string { asked[name] = true; return name }
	silent, others := []cause.Traits{of, of, of}, []cause.Traits{of}
	if text := cause.Common(names, silent, others); text != "" || len(asked) != 64 {
		t.Errorf("%q, %d names", text, len(asked))
	}
}
