package main

import (
	"os"
	"strings"
	"testing"
)

// TestTheGuideToAccessIsTyped holds the commands and the role of the page access to a script, which runs them.
func TestTheGuideToAccessIsTyped(t *testing.T) {
	page, err := os.ReadFile("guide/access.md")
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile("testdata/script/sync/access.txtar")
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	for rest, found := string(page), true; ; files++ {
		if _, rest, found = strings.Cut(rest, "cat > "); !found {
			break
		}
		var name, text string
		name, rest, _ = strings.Cut(rest, " <<'END'\n")
		text, rest, _ = strings.Cut(rest, "END\n")
		if !strings.Contains(string(script), "-- "+name+" --\n"+text) {
			t.Errorf("the file %s of the page is not the file of the script", name)
		}
	}
	if files != 3 {
		t.Errorf("the page writes %d files", files)
	}
	var lines []string
	for i, block := range strings.Split(string(page), "```") {
		if text, isShell := strings.CutPrefix(block, "sh\n"); isShell && i%2 == 1 {
			lines = append(lines, strings.Split(text, "\n")...)
		}
	}
	typed := 0
	for _, line := range lines {
		if !strings.HasPrefix(line, "zester ") {
			continue
		}
		typed++
		if !strings.Contains(string(script), "\nexec "+line+"\n") {
			t.Errorf("the script does not run %q", line)
		}
	}
	if typed < 8 {
		t.Fatalf("the page has %d commands", typed)
	}
}
