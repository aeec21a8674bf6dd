package guide_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/cmd/zester/guide"
)

var codeSpan = regexp.MustCompile("`([^`]+)`")

// TestTheIndexNamesPagesThatHaveTheWord follows each row of the index: the page exists, and it has what the row says is the
// name here, if that is code.
func TestTheIndexNamesPagesThatHaveTheWord(t *testing.T) {
	t.Parallel()
	index, err := guide.Pages.ReadFile("words.md")
	if err != nil {
		t.Fatal(err)
	}
	var sorted []string
	for line := range strings.Lines(string(index)) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 5 || cells[1] == "---" || strings.Contains(cells[3], " page ") {
			continue
		}
		name := strings.TrimSpace(cells[3])
		sorted = append(sorted, strings.ToLower(strings.TrimLeft(cells[1], " `@")))
		page, err := guide.Pages.ReadFile(name + ".md")
		if err != nil {
			t.Errorf("%s: %v", cells[1], err)
			continue
		}
		for _, span := range codeSpan.FindAllStringSubmatch(cells[2], -1) {
			if !strings.Contains(string(page), span[1]) {
				t.Errorf("%s: the page %s does not have %s", cells[1], name, span[1])
			}
		}
	}
	if len(sorted) < 60 {
		t.Errorf("the index has %d rows", len(sorted))
	}
	if !slices.IsSorted(sorted) {
		t.Errorf("the words are not in alphabetical order:\n%s", strings.Join(sorted, "\n"))
	}
}
