package guide_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/cmd/zester/guide"
	"github.com/seed-c01c3da5/zester/settings/salt"
)

var update = flag.Bool("update", false, "write the table of salt.md")

const tableHead = "| in Salt | where | here |\n|---|---|---|\n"

// TestTheGuideHasTheWordsOfSalt holds the table of the page to the words of the hints.
func TestTheGuideHasTheWordsOfSalt(t *testing.T) {
	t.Parallel()
	page, err := guide.Pages.ReadFile("salt.md")
	if err != nil {
		t.Fatal(err)
	}
	text, table, _ := strings.Cut(string(page), tableHead)
	var want strings.Builder
	for _, w := range salt.Words() {
		want.WriteString("| `" + w.Salt + "` | " + string(w.Kind) + " | " + w.Here + " |\n")
	}
	if *update {
		if err := os.WriteFile("salt.md", []byte(text+tableHead+want.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if table != want.String() {
		t.Errorf("the table of salt.md is not that of the hints, write it with -update; it should be\n%s", want.String())
	}
}
