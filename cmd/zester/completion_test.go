package main

import (
	"bytes"
	"strings"
	"testing"
)

// Completion offers names of the fleet, and names that this program knows without a master.
func TestCompletionOffersNamesOfTheFleet(t *testing.T) {
	if testing.Short() {
		t.Skip("masters have a second to answer")
	}
	t.Parallel()
	f := newFleet(t)
	complete := func(dir string, words ...string) string {
		var out, errOut bytes.Buffer
		all := []string{"__complete", "--data-dir", dir}
		if offline := words[0] == "version" || words[0] == "context"; offline {
			all = all[:1]
		}
		if code := run(t.Context(), append(all, words...), &out, &errOut); code != exitOK {
			t.Errorf("%q ended with %d: %s", words, code, &errOut)
		}
		return out.String()
	}
	for _, c := range []struct {
		words  string // the last one is completed
		online bool   // a master is asked
		want   string
		not    string
	}{
		{"peel show ", true, "web-02\n", "job"},
		{"web", true, "web-01\n", "db-01"},
		{"web-01 test.", false, "test.ping\n", "web-01"},
		{"web-01 cmd.run comm", false, "command=\n", "timeout="},
		{"N@f", true, "N@frontend\n", "web-01"},
		{"target eval ", true, "N@frontend\n", ""},
		{"target eval --explain N@f", true, "N@frontend\n", "web-01"},
		{"schedule pause web-01 ", true, "hello\n", "web-01"},
		{"schedule list w", true, "web-02\n", "db-01"},
		{"sync pin ", true, "\tThe beginning\n", ""},
		{"job show ", false, "last\tyour newest job\n", ""},
		{"job list --status c", false, "complete\n", "failed"},
		{"job list --function cmd.", false, "cmd.run\n", "test.ping"},
		{"job list -o j", false, "jsonl\n", "yaml"},
		{"plan -o m", false, "markdown\n", "json"},
		{"job list -o w", false, "wide\n", ""},
		{"version -o ", false, "yaml\n", "wide"},
		{"auth issue si", false, "site\n", "peel"},
		{"auth rotate ", false, "keys\n", ""},
		{"context use l", false, "local\n", ""},
	} {
		words := strings.Split(c.words, " ")
		got := complete(f.dir, words...)
		if !strings.Contains(got, c.want) || c.not != "" && strings.Contains(got, c.not) {
			t.Errorf("zester %s is completed with\n%s, want %q and not %q", c.words, got, c.want, c.not)
		}
		if offline := complete(t.TempDir(), words...); strings.Contains(offline, c.want) == c.online {
			t.Errorf("without a master zester %s is completed with\n%s", c.words, offline)
		}
	}
}
