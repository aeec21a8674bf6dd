package console_test

import (
	_ "embed"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

//go:embed testdata/testids.txt
var testIDs string

// hasTestIDs holds that the pages that were read, and those of package page with made data, have each value of
// data-testid in testdata, and no other.
func (c *crawler) hasTestIDs(t *testing.T) {
	t.Helper()
	found := maps.Clone(c.ids)
	files, err := filepath.Glob("page/testdata/*.html")
	if err != nil || len(files) == 0 {
		t.Fatalf("no page with made data: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`data-testid="([^"]*)"`).FindAllSubmatch(text, -1) {
			found[string(m[1])] = true
		}
	}
	known := strings.Fields(regexp.MustCompile(`(?m)^#.*$`).ReplaceAllString(testIDs, ""))
	for _, pattern := range known {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(found)), func(id string) bool { return matchesID(pattern, id) }) {
			t.Errorf("no page has %s", pattern)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(found)) {
		if !slices.ContainsFunc(known, func(pattern string) bool { return matchesID(pattern, id) }) {
			t.Errorf("a page has %s, which testdata/testids.txt has not", id)
		}
	}
}

func matchesID(pattern, id string) bool {
	ok, err := path.Match(pattern, id)
	return ok && err == nil
}
