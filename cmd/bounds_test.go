package cmd_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// Bounds of the code without tests. They keep every part small enough to be read at once.
const (
	maxFunction   = 100 // lines
	maxFields     = 20  // of a struct
	minDocumented = 95  // percent of exported names
)

// A survey counts what the bounds are about.
type survey struct {
	files    *token.FileSet
	exported int
	bare     []string // exported names without a comment
	tooLarge []string
}

func TestThePartsOfTheCodeAreSmallAndDocumented(t *testing.T) {
	s := survey{files: token.NewFileSet()}
	err := filepath.WalkDir("..", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() && (e.Name() == "testdata" || strings.HasPrefix(e.Name(), ".") && e.Name() != "..") {
			if err == nil {
				err = fs.SkipDir
			}
			return err
		}
		if strings.HasSuffix(name, "_templ.go") { // templ writes those
			return nil
		}
		if !e.IsDir() && strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			return s.read(name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, what := range s.tooLarge {
		t.Error(what)
	}
	if percent := 100 * (s.exported - len(s.bare)) / s.exported; percent < minDocumented {
		t.Errorf("%d %% of %d exported names have a comment, want %d %%; without one are %s", percent, s.exported, minDocumented, strings.Join(s.bare, ", "))
	} else {
		t.Logf("%d %% of %d exported names have a comment", percent, s.exported)
	}
}

func (s *survey) read(name string) error {
	f, err := parser.ParseFile(s.files, name, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	pkg := strings.TrimPrefix(path.Dir(filepath.ToSlash(name)), "../")
	for _, decl := range f.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			s.function(pkg, d)
		case *ast.GenDecl:
			s.declaration(pkg, d)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if st, ok := n.(*ast.StructType); ok && st.Fields.NumFields() > maxFields {
			s.tooLarge = append(s.tooLarge, fmt.Sprintf("%s: a struct with %d fields, the bound is %d", s.files.Position(st.Pos()), st.Fields.NumFields(), maxFields))
		}
		return true
	})
	return nil
}

func (s *survey) function(pkg string, d *ast.FuncDecl) {
	if n := s.files.Position(d.End()).Line - s.files.Position(d.Pos()).Line + 1; n > maxFunction {
		s.tooLarge = append(s.tooLarge, fmt.Sprintf("%s: %s has %d lines, the bound is %d", s.files.Position(d.Pos()), d.Name.Name, n, maxFunction))
	}
	if d.Name.IsExported() && (d.Recv == nil || isExportedReceiver(d.Recv)) {
		s.name(pkg, d.Name.Name, d.Doc != nil)
	}
}

// isExportedReceiver reports whether the type of a method is exported.
func isExportedReceiver(recv *ast.FieldList) bool {
	typ := recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	if index, ok := typ.(*ast.IndexExpr); ok {
		typ = index.X
	}
	id, ok := typ.(*ast.Ident)
	return ok && id.IsExported()
}

// declaration counts types, constants and variables. The comment of a group counts for its constants and variables.
func (s *survey) declaration(pkg string, d *ast.GenDecl) {
	for _, spec := range d.Specs {
		switch x := spec.(type) {
		case *ast.TypeSpec:
			if x.Name.IsExported() {
				s.name(pkg, x.Name.Name, d.Doc != nil || x.Doc != nil)
			}
		case *ast.ValueSpec:
			for _, id := range x.Names {
				if id.IsExported() {
					s.name(pkg, id.Name, d.Doc != nil || x.Doc != nil || x.Comment != nil)
				}
			}
		}
	}
}

func (s *survey) name(pkg, name string, documented bool) {
	s.exported++
	if !documented {
		s.bare = append(s.bare, pkg+"."+name)
	}
}
