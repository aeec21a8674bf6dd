package cmd_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTheGuideNamesEveryMetric reads the names of metrics from the source, because a running master shows those with
// labels only once they have a value.
func TestTheGuideNamesEveryMetric(t *testing.T) {
	guide, err := os.ReadFile("zester/guide/api.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(guide), "\n## Metrics\n")
	table, _, _ = strings.Cut(table, "\n## ")
	told := map[string]bool{}
	for _, m := range regexp.MustCompile("`(zester_[a-z_]+)").FindAllStringSubmatch(table, -1) {
		told[m[1]] = true
	}
	made := map[string]bool{}
	call := regexp.MustCompile(`(?:describe|NewDesc)\(\s*"(?:zester_)?([a-z_]+)",|Name: +"zester_([a-z_]+)"`)
	for _, dir := range []string{"../master", "../reconciler"} {
		err := filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
				return err
			}
			source, err := os.ReadFile(name)
			for _, m := range call.FindAllSubmatch(source, -1) {
				made["zester_"+string(m[1])+string(m[2])] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(made) < 50 {
		t.Errorf("the source has %d metrics only", len(made))
	}
	for name := range made {
		if !told[name] {
			t.Errorf("the table of metrics in the guide does not name %s", name)
		}
	}
	for name := range told {
		if !made[name] {
			t.Errorf("the table of metrics in the guide names %s, which no master has", name)
		}
	}
}
