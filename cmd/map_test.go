package cmd_test

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var drawMap = flag.Bool("map.draw", false, "write the map of the folders into CONTRIBUTING.md")

// drawn returns the map: a paragraph for each top folder, with the packages in it. Packages in a folder of the second
// level are in braces behind its name.
func drawn(pkgs []string) string {
	var b strings.Builder
	for _, top := range folders {
		line := fmt.Sprintf("%-11s", top)
		for _, word := range wordsOf(top, pkgs) {
			if len(line)+1+len(word) > 100 {
				b.WriteString(line + "\n")
				line = strings.Repeat(" ", 11)
			}
			line += " " + word
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}

// wordsOf returns the packages of a top folder.
func wordsOf(top string, pkgs []string) (words []string) {
	inner := map[string][]string{}
	for _, pkg := range pkgs {
		if rest, ok := strings.CutPrefix(pkg, top+"/"); ok {
			name, below, nested := strings.Cut(rest, "/")
			inner[name] = append(inner[name], below)
			if !nested {
				words = append(words, name)
			}
		}
	}
	for i, name := range words {
		below := slices.DeleteFunc(inner[name], func(s string) bool { return s == "" })
		if len(below) > 0 {
			words[i] = name + "/{" + strings.Join(below, " ") + "}"
		}
	}
	return words
}

// TestTheMapIsDrawnFromTheFolders holds the map in CONTRIBUTING to the tree.
func TestTheMapIsDrawnFromTheFolders(t *testing.T) {
	const file = "../CONTRIBUTING.md"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var pkgs []string
	for pkg := range importsOf(t) {
		pkgs = append(pkgs, pkg)
	}
	slices.Sort(pkgs)
	block := regexp.MustCompile("(?s)```\nexamples\n.*?```\n")
	want := "```\n" + drawn(pkgs) + "```\n"
	if *drawMap {
		if err := os.WriteFile(file, block.ReplaceAllLiteral(text, []byte(want)), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got := block.Find(text); string(got) != want {
		t.Errorf("the map is %s, and the folders are %s; draw it: go test ./cmd -run %s -map.draw", got, want, t.Name())
	}
}

// TestContributingNamesFilesThatExist holds the ways and the first steps in CONTRIBUTING to the tree.
func TestContributingNamesFilesThatExist(t *testing.T) {
	text, err := os.ReadFile("../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`([a-z]+/[a-z_/-]+\\.(?:go|md|json|yaml))`").FindAllSubmatch(text, -1)
	if len(named) < 30 {
		t.Errorf("CONTRIBUTING.md names %d files, want the ways of an entry and of a return", len(named))
	}
	for _, name := range named {
		if _, err := os.Stat("../" + string(name[1])); err != nil {
			t.Error(err)
		}
	}
}
