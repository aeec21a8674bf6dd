package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/seed-c01c3da5/zester/cmd/zester/guide"
	"github.com/seed-c01c3da5/zester/cmd/zester/movein"
	"github.com/seed-c01c3da5/zester/settings/state"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// typedIn finds the command lines of zester in a Markdown text: whole code spans, and lines of code blocks.
var typedIn = regexp.MustCompile("(?m)(?:`|^|\\$\\(|until |! )zester ([^`|)\n#]*)")

func TestTheDocumentsNameOnlyCommandsAndFlagsThatExist(t *testing.T) {
	if testing.Short() {
		t.Skip("it reads text")
	}
	t.Parallel()
	files := []string{"../../README.md", "../../SECURITY.md", "../../CONTRIBUTING.md", "../../examples/scale/README.md"}
	for _, topic := range guide.Topics() {
		files = append(files, filepath.Join("guide", topic+".md"))
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range typedIn.FindAllStringSubmatch(string(text), -1) {
			for part := range strings.SplitSeq(line[1], ", zester ") {
				if problem := unknownIn(part); problem != "" {
					t.Errorf("%s: zester %s: %s", file, part, problem)
				}
			}
		}
	}
}

func TestTheGuideNamesEveryFunctionAndArgumentOfStates(t *testing.T) {
	t.Parallel()
	text, err := guide.Pages.ReadFile("states.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "| function | arguments |")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := map[string]string{} // the arguments by function
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) < 3 {
			continue
		}
		for name := range strings.SplitSeq(cells[1], ",") {
			rows[strings.Trim(name, " `")] = cells[2]
		}
	}
	for _, f := range state.Functions() {
		row, ok := rows[f.Name]
		if !ok {
			t.Errorf("the guide does not name %s", f.Name)
		}
		for _, p := range f.Params() {
			if !regexp.MustCompile(`\b` + p.Name + `\b`).MatchString(row) {
				t.Errorf("the guide does not name the argument %s of %s", p.Name, f.Name)
			}
		}
	}
}

// unknownIn says which command or flag of a command line does not exist.
func unknownIn(line string) string {
	a := &app{out: &sink{Writer: io.Discard}, errOut: io.Discard}
	root := a.root()
	line, _, _ = strings.Cut(line, "$(")
	words := typedWords(line)
	cmd, rest, err := root.Find(words)
	switch {
	case err != nil:
		return err.Error()
	case cmd != root && cmd.HasSubCommands() && len(rest) > 0 && regexp.MustCompile(`^[a-z][a-z-]*$`).MatchString(rest[0]):
		return "no such command"
	case cmd == root && len(rest) > 0 && regexp.MustCompile(`^[a-z]+$`).MatchString(rest[0]):
		return "no such command"
	}
	for c := cmd; c != nil; c = c.Parent() {
		if c.Hidden {
			return "a former name"
		}
	}
	cmd.InitDefaultHelpFlag()
	for _, w := range words {
		name, isFlag := strings.CutPrefix(w, "--")
		name, _, _ = strings.Cut(name, "=")
		if name = strings.TrimRight(name, "].,"); isFlag && cmd.Flags().Lookup(name) == nil && cmd.InheritedFlags().Lookup(name) == nil {
			return "no flag --" + name
		}
	}
	return ""
}

func TestTheCheckOfDocumentsFindsMistakes(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"job lst", "sync approve --overide x", "jbo", "auth user ad x"} {
		if unknownIn(line) == "" {
			t.Errorf("zester %s passes", line)
		}
	}
}

// TestReadmeIsShort holds README to what a newcomer reads once. Its first screen has the two commands that one types, a
// picture, an entry, an alert and a plan. The guide and CONTRIBUTING have the rest.
func TestReadmeIsShort(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(text, []byte("\n")); n > 150 {
		t.Errorf("README has %d lines, want at most 150", n)
	}
	screen := bytes.SplitAfterN(text, []byte("\n"), 41)[:40] // of 100 columns
	for _, line := range screen {
		if n := utf8.RuneCount(bytes.TrimSpace(line)); n > 100 && !bytes.HasPrefix(line, []byte("![")) {
			t.Errorf("a line of the first screen has %d columns: %s", n, line)
		}
	}
	first := bytes.Join(screen, nil)
	parts := []string{"go run ./cmd/zester demo", "go test ./...", "![", "```yaml\nschedule:", "peels: db-01, db-02\nsince ", "2 of 3 peels change"}
	for _, part := range parts {
		if !bytes.Contains(first, []byte("\n"+part)) {
			t.Errorf("the first screen of README does not say %s", part)
		}
	}
	for _, link := range regexp.MustCompile(`\]\(([^)#]+)`).FindAllSubmatch(text, -1) {
		if _, err := os.Stat(filepath.Join("../..", string(link[1]))); err != nil {
			t.Error(err)
		}
	}
}

// TestTheEntryInReadmeIsTheOneThatTheImportWrites imports the line of a crontab in README.
func TestTheEntryInReadmeIsTheOneThatTheImportWrites(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	parts := regexp.MustCompile("A line of a crontab, `(.*)`, is (?:.*\n)*?```yaml\n((?:.*\n)*?)```").FindStringSubmatch(string(text))
	if parts == nil {
		t.Fatal("README has no line of a crontab with its entry")
	}
	line := parts[1] + "\n"
	got, err := movein.Crontabs([]movein.Table{{Name: "README.md", Text: line}}, time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC))
	if err != nil || got.Entries != 1 {
		t.Fatalf("%q becomes %d entries: %v, %v", line, got.Entries, got.Rows, err)
	}
	entry := func(name, text string) any {
		doc, err := strictyaml.Parse(name, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return doc.Get("schedule").Any()
	}
	want, is := entry("import", string(got.Settings)), entry("README.md", parts[2])
	if !reflect.DeepEqual(is, want) {
		t.Errorf("README has the entry\n%v\nand the import writes\n%v", is, want)
	}
	for key, value := range is.(map[string]any)["backup-srv"].(map[string]any) {
		if plan := "\n  +     " + key + ": "; !strings.Contains(string(text), plan) {
			t.Errorf("the plan in README lacks %s: %v", key, value)
		}
	}
}

// packed returns the paths that the packages of Debian have besides those that .ci/package makes.
func packed(t *testing.T) []string {
	t.Helper()
	var paths []string
	for _, name := range []string{"zester", "zester-master", "zester-peel"} {
		config := exec.Command("bash", "../../.ci/pack/config", name, "deb")
		config.Env = append(os.Environ(), "STAGE="+t.TempDir(), "PROGRAMS=/bin", "ARCH=amd64", "VERSION=0.2.0")
		out, err := config.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for _, dst := range regexp.MustCompile(`src: "(.*?)", dst: "(.*?)"`).FindAllSubmatch(out, -1) {
			paths = append(paths, string(dst[2]))
			if src := string(dst[1]); strings.Contains(src, "/examples/") {
				if _, err := os.Stat(src); err != nil {
					t.Error(err)
				}
			}
		}
	}
	return paths
}

// TestThePathsOfTheGuideAreInThePackages holds that a reader with the packages alone finds what pages name: paths below
// /usr/share are in a package, and no page but the tour, which is typed in a clone, names a file of the repository.
func TestThePathsOfTheGuideAreInThePackages(t *testing.T) {
	t.Parallel()
	paths, found := packed(t), 0
	for _, topic := range guide.Topics() {
		text, err := guide.Pages.ReadFile(topic + ".md")
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range regexp.MustCompile(`/usr/share/[\w./-]*\w`).FindAllString(string(text), -1) {
			found++
			isPacked := func(p string) bool { return p == path || strings.HasPrefix(p, path+"/") }
			if !slices.ContainsFunc(paths, isPacked) {
				t.Errorf("%s names %s, which no package has", topic, path)
			}
		}
		text = regexp.MustCompile(`/usr/share/doc/zester/examples`).ReplaceAll(text, nil)
		if topic != "tour" && regexp.MustCompile(`examples/\w|_0\.2\.0|SECURITY\.md.*\]\(`).Match(text) {
			t.Errorf("%s names a file that is in a clone alone, or of one version", topic)
		}
	}
	if found < 10 {
		t.Errorf("the guide names %d paths of packages", found)
	}
}

// TestAHostWithAPeelAloneIsToldOfTheGuide holds that the package and the program of peels say where the guide is.
func TestAHostWithAPeelAloneIsToldOfTheGuide(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]string{
		"../../.ci/pack/config":        "The guide is in the package zester: zester guide install.",
		"../../.ci/pack/peel.postinst": "zester guide install of the package zester",
		"../daemon/config.go":          "The guide is in the package zester: zester guide install.",
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), want) {
			t.Errorf("%s does not say %q", file, want)
		}
	}
}
