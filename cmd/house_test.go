package cmd_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

var (
	houseFigures = flag.Bool("house.figures", false, "print the figures of the whole tree")
	houseShrink  = flag.Bool("house.shrink", false, "write the exceptions that are left to "+exceptionsFile)
)

// exceptionsFile has what does not follow the rules yet, one a line: rule, path, and how often or how large. No number
// in it may grow.
const exceptionsFile = "testdata/house.txt"

// Rules of the house. Lines and columns are of the code without tests.
const (
	maxFileLines    = 500
	maxFuncLines    = 70
	maxParameters   = 5
	maxColumns      = 120 // without the tag of a field; a tab counts as 4
	maxTargets      = 3   // of an assignment
	minOwnTestShare = 5   // a fifth of the lines of a package
)

// hardToRead are endings and words of comments that make readers look back for what they refer to.
var hardToRead = regexp.MustCompile(`\belse\.?$|\bthat of\b|\bof which\b`)

// folders are the folders of the tree in the order in which they may import: each itself and those before it.
var folders = []string{"examples", "settings", "peel", "master", "reconciler", "cmd"}

// TestHouse holds the tree to the rules, apart from the exceptions, which only become fewer and smaller.
func TestHouse(t *testing.T) {
	h := readHouse(t)
	if *houseFigures {
		h.print(os.Stdout)
	}
	listed := readExceptions(t)
	grown := false
	for _, rule := range slices.Sorted(maps.Keys(h.broken)) {
		if h.broken[rule] > listed[rule] {
			grown = true
			t.Errorf("%s: %d, and %s allows %d", rule, h.broken[rule], exceptionsFile, listed[rule])
			for _, where := range h.where[rule] {
				t.Log("  " + where)
			}
		}
	}
	if *houseShrink && !grown {
		writeExceptions(t, h.broken)
		return
	}
	for _, rule := range slices.Sorted(maps.Keys(listed)) {
		if h.broken[rule] < listed[rule] {
			t.Errorf("%s: %d now; run go test ./cmd -run '^TestHouse$' -house.shrink, which takes it out of the exceptions", rule, h.broken[rule])
		}
	}
}

func readExceptions(t *testing.T) map[string]int {
	t.Helper()
	text, err := os.ReadFile(exceptionsFile)
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]int{}
	for line := range strings.Lines(string(text)) {
		var rule, name string
		var n int
		if _, err := fmt.Sscan(line, &rule, &name, &n); err != nil {
			t.Fatalf("%s: %q: %v", exceptionsFile, line, err)
		}
		listed[rule+" "+name] = n
	}
	return listed
}

func writeExceptions(t *testing.T, broken map[string]int) {
	t.Helper()
	var text strings.Builder
	for _, rule := range slices.Sorted(maps.Keys(broken)) {
		fmt.Fprintln(&text, rule, broken[rule])
	}
	if err := os.WriteFile(exceptionsFile, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A house is what TestHouse knows of the tree.
type house struct {
	files     *token.FileSet
	packages  map[string]*wall // by folder
	broken    map[string]int   // by rule and path
	where     map[string][]string
	tokens    int
	testLines int
	leaves    int
}

// A wall is a package: what it imports of this module, and its lines.
type wall struct {
	imports   []string
	importers int
	program   bool
	lines     int // without tests, comments and empty lines included
	testLines int
}

func readHouse(t *testing.T) *house {
	t.Helper()
	h := &house{files: token.NewFileSet(), packages: map[string]*wall{}, broken: map[string]int{}, where: map[string][]string{}}
	h.list(t)
	err := filepath.WalkDir("..", func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() && (e.Name() == "testdata" || strings.HasPrefix(e.Name(), ".") && e.Name() != "..") {
			return fs.SkipDir
		}
		if e.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_templ.go") { // templ writes those
			return nil
		}
		return h.read(strings.TrimPrefix(filepath.ToSlash(name), "../"))
	})
	if err != nil {
		t.Fatal(err)
	}
	h.walls()
	return h
}

// list reads the packages and their imports.
func (h *house) list(t *testing.T) {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Name,Imports", module+"...").Output()
	if err != nil {
		t.Fatal(err)
	}
	decoder := json.NewDecoder(bytes.NewReader(out))
	for {
		var p struct {
			ImportPath, Name string
			Imports          []string
		}
		if err := decoder.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		w := &wall{program: p.Name == "main"}
		for _, imp := range p.Imports {
			if own, ok := strings.CutPrefix(imp, module); ok {
				w.imports = append(w.imports, own)
			}
		}
		h.packages[strings.TrimPrefix(p.ImportPath, module)] = w
	}
	for _, w := range h.packages {
		for _, imp := range w.imports {
			h.packages[imp].importers++
		}
	}
}

// exceed counts one more exception from a rule, or n of them.
func (h *house) exceed(rule, name string, n int, where string) {
	h.broken[rule+" "+name] += n
	h.where[rule+" "+name] = append(h.where[rule+" "+name], where)
}

func (h *house) read(name string) error {
	text, err := os.ReadFile("../" + name)
	if err != nil {
		return err
	}
	folder := path.Dir(name)
	lines := bytes.Count(text, []byte("\n"))
	w := h.packages[folder]
	if strings.HasSuffix(name, "_test.go") {
		h.testLines += lines
		if w != nil {
			w.testLines += lines
		}
		return nil
	}
	if w != nil {
		w.lines += lines
	}
	if lines > maxFileLines {
		h.exceed("lines", name, lines, name)
	}
	h.columns(name, text)
	h.count(text)

	f, err := parser.ParseFile(h.files, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, group := range f.Comments {
		for comment := range strings.SplitSeq(group.Text(), "\n\n") {
			if hardToRead.MatchString(strings.Join(strings.Fields(comment), " ")) {
				h.exceed("sentence", folder, 1, h.files.Position(group.Pos()).String())
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		h.inspect(folder, n)
		return true
	})
	return nil
}

func (h *house) inspect(folder string, n ast.Node) {
	switch n := n.(type) {
	case *ast.FuncDecl:
		from, to := h.files.Position(n.Pos()), h.files.Position(n.End())
		if to.Line-from.Line+1 > maxFuncLines {
			h.exceed("function", folder, 1, fmt.Sprintf("%s: %s has %d lines", from, n.Name.Name, to.Line-from.Line+1))
		}
		if n.Type.Params.NumFields() > maxParameters {
			h.exceed("parameters", folder, 1, fmt.Sprintf("%s: %s has %d parameters", from, n.Name.Name, n.Type.Params.NumFields()))
		}
	case *ast.AssignStmt:
		if len(n.Lhs) > maxTargets {
			h.exceed("targets", folder, 1, h.files.Position(n.Pos()).String())
		}
	case *ast.ValueSpec:
		// The map of all commands has its elements by their paths.
		if all, ok := firstValue(n).(*ast.CompositeLit); ok && n.Names[0].Name == "leaves" {
			h.leaves = len(all.Elts)
		}
	}
}

func firstValue(spec *ast.ValueSpec) ast.Expr {
	if len(spec.Values) == 0 {
		return nil
	}
	return spec.Values[0]
}

// fieldTag is the tag of a field, which Go does not let one write on two lines.
var fieldTag = regexp.MustCompile("`\\w+:\".*\"`$")

// columns finds lines of code and of comments that are too long.
func (h *house) columns(name string, text []byte) {
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		line = fieldTag.ReplaceAllString(strings.TrimRight(line, "\n"), "")
		if utf8.RuneCountInString(line)+3*strings.Count(line, "\t") <= maxColumns {
			continue
		}
		rule := "columns"
		if strings.HasPrefix(strings.TrimSpace(line), "//") {
			rule = "comment"
		}
		h.exceed(rule, path.Dir(name), 1, fmt.Sprintf("%s:%d", name, n))
	}
}

// count adds the tokens of a file, without comments and semicolons that nobody wrote.
func (h *house) count(text []byte) {
	var s scanner.Scanner
	s.Init(token.NewFileSet().AddFile("", -1, len(text)), text, nil, 0)
	for {
		_, tok, lit := s.Scan()
		if tok == token.EOF {
			return
		}
		if tok != token.SEMICOLON || lit == ";" {
			h.tokens++
		}
	}
}

// walls finds packages that are no use as such, and imports against the order of the folders.
func (h *house) walls() {
	for name, w := range h.packages {
		if !h.isWall(name) {
			h.exceed("wall", name, 1, fmt.Sprintf("%s has %d importers, and %d lines of tests for %d lines", name, w.importers, w.testLines, w.lines))
		}
		for _, imp := range w.imports {
			if rank(imp) > rank(name) {
				h.exceed("order", name, 1, fmt.Sprintf("%s imports %s", name, imp))
			}
		}
	}
}

func rank(name string) int {
	top, _, _ := strings.Cut(name, "/")
	return slices.Index(folders, top)
}

// isWall reports whether a package has two importers, tests of its own, or siblings of the same shape. Programs, what
// only tests import, and the examples need none.
func (h *house) isWall(name string) bool {
	w := h.packages[name]
	switch {
	case w.program, w.lines == 0, strings.HasSuffix(name, "test"), name == "examples", path.Dir(name) == "peel/state":
		return true
	}
	return w.importers >= 2 || w.testLines*minOwnTestShare >= w.lines
}

// print writes the figures of the whole tree.
func (h *house) print(out io.Writer) {
	single, bare, binaries, lines := 0, 0, 0, 0
	between := map[string]int{}
	for name, w := range h.packages {
		lines += w.lines
		if w.testLines > 0 {
			binaries++
		}
		if w.importers == 1 {
			single++
			if !h.isWall(name) {
				bare++
			}
		}
		for _, imp := range w.imports {
			if from, to := folders[rank(name)], folders[rank(imp)]; from != to {
				between[from+" → "+to]++
			}
		}
	}
	sum := map[string]int{}
	files := 0
	for key, n := range h.broken {
		rule, _, _ := strings.Cut(key, " ")
		sum[rule] += n
		if rule == "lines" {
			files++
		}
	}
	for _, row := range []struct {
		what string
		n    int
	}{
		{"packages", len(h.packages)},
		{"with one importer", single},
		{"of these without tests of their own", bare},
		{"imports against the order", sum["order"]},
		{"lines without tests", lines},
		{"code tokens", h.tokens},
		{"lines of tests", h.testLines},
		{"test binaries", binaries},
		{"code lines over 120 columns", sum["columns"]},
		{"comment lines over 120 columns", sum["comment"]},
		{"assignments of 4 or more targets", sum["targets"]},
		{"files over 500 lines", files},
		{"functions over 70 lines", sum["function"]},
		{"functions of more than 5 parameters", sum["parameters"]},
		{"comments that are hard to read", sum["sentence"]},
		{"commands", h.leaves},
	} {
		fmt.Fprintf(out, "%-38s %8d\n", row.what, row.n)
	}
	for _, pair := range slices.SortedFunc(maps.Keys(between), func(a, b string) int { return cmp.Compare(between[b], between[a]) }) {
		fmt.Fprintf(out, "imports %-30s %8d\n", pair, between[pair])
	}
}
