package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTheGuideBecomesASite follows each link of the site that .ci/site makes.
func TestTheGuideBecomesASite(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.Command("../site", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.html"))
	if err != nil {
		t.Fatal(err)
	}
	sources, err := filepath.Glob("../../cmd/zester/guide/*.md")
	if err != nil || len(files) != len(sources)+1 || len(sources) < 20 {
		t.Errorf("%d pages of %d: %v", len(files), len(sources), err)
	}

	text := map[string]string{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text[filepath.Base(file)] = string(data)
	}
	links := 0
	for name, page := range text {
		for _, found := range regexp.MustCompile(`(?:href|src)="([^"]*)"`).FindAllStringSubmatch(page, -1) {
			links++
			to, anchor, _ := strings.Cut(found[1], "#")
			switch {
			case strings.HasPrefix(to, "https://"):
			case to == "" && strings.Contains(page, `id="`+anchor+`"`):
			case text[to] == "" || anchor != "" && !strings.Contains(text[to], `id="`+anchor+`"`):
				t.Errorf("%s links to %s", name, found[1])
			}
		}
		for _, word := range []string{"<script", "<style", "<link", "<img", ".md\"", "<!-- raw HTML omitted -->"} {
			if strings.Contains(page, word) {
				t.Errorf("%s has %s", name, word)
			}
		}
	}
	if links < 150 || !strings.Contains(text["words.html"], `<td><a href="states.html">states</a></td>`) || !strings.Contains(text["index.html"], `<a href="missed.html">`) {
		t.Errorf("%d links, and the list is\n%s", links, text["index.html"])
	}
}

func TestAWrongLinkFailsAndWritesNothing(t *testing.T) {
	for _, c := range []struct{ page, want string }{
		{"# A\n[b](b.md) [c](b.md#some-words) [d](#a) [e](https://example.com/x) `zester guide b`\n\n|x|y|\n|-|-|\n|z|b|\n", ""},
		{"[b](c.md)", "a.md: the link to c.md leads to no page of the guide"},
		{"[b](../README.md)", "a.md: the link to ../README.md leads to no page of the guide"},
		{"[b](http://example.com)", "a.md: the link to http://example.com leads to no page of the guide"},
		{"[b](b.md#other)", "a.md: the link to b.md#other leads to no heading of b.md"},
		{"Give an <ID> of a peel.", "a.md: it has HTML, which is not shown: put it in a code span"},
		{"See `zester guide states`.", "a.md: it names the page states, which does not exist"},
	} {
		from, to := t.TempDir(), t.TempDir()
		for name, text := range map[string]string{"a": c.page, "b": "# B & C\n## Some words\n"} {
			if err := os.WriteFile(filepath.Join(from, name+".md"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		err := write(from, to, []string{"a", "b"})
		written, e := os.ReadDir(to)
		if e != nil {
			t.Fatal(e)
		}
		if c.want == "" {
			page, e := os.ReadFile(filepath.Join(to, "a.html"))
			if want := `<a href="b.html">b</a> <a href="b.html#some-words">c</a> <a href="#a">d</a> <a href="https://example.com/x">e</a> ` +
				`<a href="b.html"><code>zester guide b</code></a>`; err != nil || e != nil || !strings.Contains(string(page), want) || !strings.Contains(string(page), "<td><a href=\"b.html\">b</a></td>") || !strings.Contains(string(page), "Next: <a href=\"b.html\">B &amp; C</a>") {
				t.Errorf("%v, %v: %s", err, e, page)
			}
		} else if err == nil || err.Error() != c.want || len(written) > 0 {
			t.Errorf("%q: %v, %v", c.page, err, written)
		}
	}
}
