package staged

import (
	"strings"
	"testing"
)

// Rules come from whoever opens a pull request: no file of them stops a reader.
func FuzzRules(f *testing.F) {
	f.Add("*.yaml text\n**/a/**/b filter=lfs\n", "a/b/c.yaml")
	f.Add("!/x/\n[!a-z]\n\\ \n[", "x")
	f.Add(strings.Repeat("**/a*a*a*", 50), strings.Repeat("aaa/", 50))
	f.Fuzz(func(t *testing.T, data, name string) {
		for _, isDir := range []bool{false, true} {
			ignores(parseIgnore(data, "d"), "d/"+name, isDir)
			if rules := parseIgnore(data, ""); !ignores(append(rules, parseIgnore("*", "")...), name, isDir) && name != "" && !strings.HasSuffix(name, "/") {
				t.Errorf("the last rule does not count for %q", name)
			}
		}
		if got := attribute(append(parseAttributes(data, ""), parseAttributes("* text=last", "")...), "x/y", "text"); got != "last" {
			t.Errorf("the last attribute is %q", got)
		}
	})
}
