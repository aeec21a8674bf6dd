package cmd_test

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestSchemasHaveTheKeysOfTheirParsers compares the published schema of each file with fixed keys with the struct that
// the file is decoded into. The keys of entries are compared in package schedule, from which their schema is written.
func TestSchemasHaveTheKeysOfTheirParsers(t *testing.T) {
	for _, c := range []struct {
		schema string
		within []string // keys in the schema, "[]" for the elements of a list, "*" for the values of a map
		dir    string
		typ    string
	}{
		{schema: "zester.json", dir: "settings/policy", typ: "policyKeys"},
		{schema: "zester.json", within: []string{"waves", "[]"}, dir: "settings/policy", typ: "waveKeys"},
		{schema: "zester.json", within: []string{"freeze", "[]"}, dir: "settings/policy", typ: "freezeKeys"},
		{schema: "zester.json", within: []string{"alerts", "*"}, dir: "settings/policy", typ: "alertKeys"},
		{schema: "master.json", dir: "cmd/zester-master", typ: "Config"},
		{schema: "peel.json", dir: "cmd/zester-peel", typ: "Config"},
		{schema: "peel.json", within: []string{"prompt"}, dir: "peel/prompt", typ: "Config"},
	} {
		data, err := os.ReadFile(filepath.Join("..", "examples", "schema", c.schema))
		if err != nil {
			t.Fatal(err)
		}
		var schema map[string]any
		if err := json.Unmarshal(data, &schema); err != nil {
			t.Fatal(err)
		}
		for _, key := range c.within {
			schema = below(schema, key)
		}
		structs := structsOf(t, filepath.Join("..", c.dir))
		compareKeys(t, c.schema, schema, structs, c.typ)
	}
}

// A validator reads one file. It has no address from which it could load another.
func TestEverySchemaStandsAlone(t *testing.T) {
	read := func(name string) (schema map[string]any) {
		t.Helper()
		data, err := os.ReadFile(name)
		if err == nil && bytes.Contains(data, []byte(`"$ref"`)) {
			t.Errorf("%s refers to another schema", name)
		}
		if err == nil {
			err = json.Unmarshal(data, &schema)
		}
		if err != nil {
			t.Fatal(err)
		}
		return schema
	}
	dir := filepath.Join("..", "examples", "schema")
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) < 7 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		read(name)
	}
	entry := read(filepath.Join(dir, "entry.json"))
	delete(entry, "$schema")
	delete(entry, "title")
	if inlined := below(below(read(filepath.Join(dir, "peel.json")), "schedule"), "*"); !reflect.DeepEqual(inlined, entry) {
		t.Error("an entry in peel.json is not as in entry.json: copy that, without $schema and title")
	}
}

// below is the schema of a key, of the elements of a list, or of the values of a map.
func below(schema map[string]any, key string) map[string]any {
	if key == "[]" {
		items, _ := schema["items"].(map[string]any)
		return items
	}
	if key == "*" {
		values, _ := schema["additionalProperties"].(map[string]any)
		return values
	}
	properties, _ := schema["properties"].(map[string]any)
	found, _ := properties[key].(map[string]any)
	return found
}

// fieldsOf returns the fields of a struct and of its embedded structs.
func fieldsOf(s *ast.StructType, structs map[string]*ast.StructType) (fields []*ast.Field) {
	for _, f := range s.Fields.List {
		if id, ok := f.Type.(*ast.Ident); ok && len(f.Names) == 0 && structs[id.Name] != nil {
			fields = append(fields, fieldsOf(structs[id.Name], structs)...)
			continue
		}
		fields = append(fields, f)
	}
	return fields
}

func compareKeys(t *testing.T, at string, schema map[string]any, structs map[string]*ast.StructType, typ string) {
	t.Helper()
	s := structs[typ]
	if s == nil {
		t.Errorf("%s: there is no struct %s", at, typ)
		return
	}
	properties, _ := schema["properties"].(map[string]any)
	known := map[string]bool{}
	for _, f := range fieldsOf(s, structs) {
		if f.Tag == nil {
			continue
		}
		key := reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("yaml")
		known[key] = true
		sub, published := properties[key].(map[string]any)
		switch kind := f.Type.(type) {
		case *ast.Ident:
			if structs[kind.Name] != nil {
				compareKeys(t, at+" "+key, sub, structs, kind.Name)
			}
		case *ast.ArrayType:
			if element, ok := kind.Elt.(*ast.Ident); ok && structs[element.Name] != nil {
				compareKeys(t, at+" "+key, below(sub, "[]"), structs, element.Name)
			}
		}
		if !published {
			t.Errorf("%s: the schema lacks the key %s, which the parser knows", at, key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(properties)) {
		if !known[key] {
			t.Errorf("%s: the schema has the key %s, which the parser refuses", at, key)
		}
	}
	if schema["additionalProperties"] != false {
		t.Errorf("%s: the schema takes keys that it does not name", at)
	}
}

// structsOf are the struct types of the package in a directory.
func structsOf(t *testing.T, dir string) map[string]*ast.StructType {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	structs := map[string]*ast.StructType{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if s, ok := spec.Type.(*ast.StructType); ok {
					structs[spec.Name.Name] = s
				}
			}
			return true
		})
	}
	return structs
}
