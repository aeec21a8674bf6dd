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
	_, role, _ := strings.Cut(string(page), "<<'END'\n")
	role, _, found := strings.Cut(role, "END\n")
	if !found || !strings.Contains(string(script), "-- web-team.yaml --\n"+role) {
		t.Error("the role of the page is not the role of the script")
	}
	_, typed, _ := strings.Cut(string(page), "```sh\nzester ")
	typed, _, _ = strings.Cut(typed, "```")
	lines := strings.Split(strings.TrimSpace("zester "+typed), "\n")
	if len(lines) < 5 {
		t.Fatalf("the page has %d commands", len(lines))
	}
	for _, line := range lines {
		if !strings.Contains(string(script), "\nexec "+line+"\n") {
			t.Errorf("the script does not run %q", line)
		}
	}
}
