package cmd_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/peel/wire"
)

// A stream or bucket has one name in the code, in peel/wire. settings/bucket.go has its own, because settings import
// nothing of peels.
func TestStreamsAndBucketsHaveOneName(t *testing.T) {
	opens := []string{"Stream", "KeyValue", "Consumer", "OrderedConsumer", "CreateOrUpdateConsumer", "Purge"}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		files := token.NewFileSet()
		f, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			call, _ := n.(*ast.CallExpr)
			if call == nil || len(call.Args) < 2 {
				return true
			}
			method, _ := call.Fun.(*ast.SelectorExpr)
			name, _ := call.Args[1].(*ast.BasicLit)
			if method != nil && name != nil && slices.Contains(opens, method.Sel.Name) {
				t.Errorf("%s: %s is opened by a literal: name it in peel/wire", files.Position(name.Pos()), name.Value)
			}
			return true
		})
		ast.Inspect(f, func(n ast.Node) bool {
			literal, _ := n.(*ast.BasicLit)
			if literal == nil || literal.Kind != token.STRING {
				return true
			}
			text, _ := strconv.Unquote(literal.Value)
			for _, prefix := range []string{wire.KV(""), "$KV."} {
				name, found := strings.CutPrefix(text, prefix)
				if found && name != "" && name != ">" {
					t.Errorf("%s: %q names a bucket: use peel/wire", files.Position(literal.Pos()), text)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
