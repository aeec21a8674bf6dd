package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/seed-c01c3da5/zester/master/api"
)

// The answers of the masters to each question are made by the tests of package why, and printed here.
func TestEachAnswerOfWhyOnATerminal(t *testing.T) {
	answers, err := filepath.Glob("../../master/why/testdata/*.json")
	if err != nil || len(answers) < 50 {
		t.Fatalf("%d answers, %v", len(answers), err)
	}
	var all []byte
	for _, file := range answers {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var w api.WhyAnswer
		if err := json.Unmarshal(data, &w); err != nil {
			t.Fatal(err)
		}
		for _, columns := range []int{0, 80, 200} {
			var got bytes.Buffer
			a := &app{out: &got, errOut: &got, output: formTable, columns: columns, colour: "never"}
			if err := a.showWhy(&w); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(got.String()) {
				if n := len([]rune(line)) - 1; columns > 0 && n > columns && !strings.HasPrefix(line, "warning: ") {
					t.Errorf("%s: on %d columns a line takes %d: %s", file, columns, n, line)
				}
			}
			if bytes.ContainsFunc(got.Bytes(), func(r rune) bool { return r != '\n' && unicode.IsControl(r) }) {
				t.Errorf("%s: a control character reaches the terminal: %q", file, &got)
			}
			for _, f := range w.Facts {
				if columns == 0 && !strings.Contains(got.String(), "] "+f.Source) {
					t.Errorf("%s: the source %q is not printed", file, f.Source)
				}
			}
			if columns == 80 {
				all = fmt.Appendf(all, "# %s\n%s\n", strings.TrimSuffix(filepath.Base(file), ".json"), &got)
			}
		}
	}
	compareGolden(t, "testdata/screens/why.txt", all)
}

// A host writes its errors, and an author of commits the own name.
func TestWhyPrintsNothingThatATerminalActsOn(t *testing.T) {
	const evil = "\x1b]0;owned\a\u202egnp.exe"
	w := api.WhyAnswer{
		Peel: "web-01", Entry: evil, Verdict: api.WhyFailed, Reason: evil, Text: evil,
		Facts: []api.WhyFact{{About: evil, Text: evil, Source: evil}}, Unread: []string{evil},
	}
	for _, output := range []form{formTable, formJSON} {
		var got bytes.Buffer
		a := &app{out: &got, errOut: &got, output: output, columns: 80, colour: "never"}
		if err := a.showWhy(&w); err != nil {
			t.Fatal(err)
		}
		if got.Len() == 0 || slices.ContainsFunc([]rune(got.String()), func(r rune) bool { return r == '\x1b' || r == '\a' || output == formTable && r == '\u202e' }) {
			t.Errorf("-o %s: %q", output, &got)
		}
	}
}
