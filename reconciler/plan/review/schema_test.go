package review_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/plan/diff"
	"github.com/seed-c01c3da5/zester/reconciler/plan/review"
)

var update = flag.Bool("update", false, "write the schema anew")

// describe gives the JSON Schema (draft-07) of what encoding/json makes of a type.
func describe(t *testing.T, typ reflect.Type) map[string]any {
	switch typ {
	case reflect.TypeFor[time.Time]():
		return map[string]any{"type": "string", "format": "date-time"}
	case reflect.TypeFor[review.Action]():
		return map[string]any{"type": "string", "enum": []review.Action{review.Add, review.Modify, review.Remove}}
	case reflect.TypeFor[diff.StateKind]():
		return map[string]any{"type": "string", "enum": []diff.StateKind{diff.StateRemoval, diff.StateReaction, diff.StatesLeft}}
	}
	switch typ.Kind() {
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int:
		return map[string]any{"type": "integer", "minimum": 0}
	case reflect.Float64:
		return map[string]any{"type": "number", "minimum": 0}
	case reflect.Interface:
		return map[string]any{}
	case reflect.Pointer:
		return describe(t, typ.Elem())
	case reflect.Slice:
		return map[string]any{"type": "array", "items": describe(t, typ.Elem())}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": describe(t, typ.Elem())}
	case reflect.Struct:
		return describeStruct(t, typ)
	}
	t.Fatalf("no form for %s", typ)
	return nil
}

func describeStruct(t *testing.T, typ reflect.Type) map[string]any {
	properties, required := map[string]any{}, []string{}
	for _, f := range reflect.VisibleFields(typ) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous {
			continue
		}
		if name == "" || name == "-" {
			t.Fatalf("%s.%s has no name", typ, f.Name)
		}
		properties[name] = describe(t, f.Type)
		if options == "" {
			required = append(required, name)
		}
	}
	out := map[string]any{"type": "object", "properties": properties}
	if len(required) > 0 {
		out["required"] = required
	}
	return out
}

// The published schema is that of the type. Whoever changes it in another way than by a new field raises the version.
func TestThePublishedSchemaIsThatOfAReview(t *testing.T) {
	const file = "../../../examples/schema/plan.json"
	schema := describe(t, reflect.TypeFor[review.Review]())
	schema["$schema"], schema["title"] = "http://json-schema.org/draft-07/schema#", "What zester plan -o json prints"
	schema["properties"].(map[string]any)["version"] = map[string]any{"const": review.Version}
	var want bytes.Buffer
	e := json.NewEncoder(&want)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(schema); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(file, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want.Bytes()) {
		t.Errorf("%s is not what the type says; write it anew with -update\n%s", file, want.Bytes())
	}
}

// Lists that a program walks are there in every review, also in that of a head that is refused.
func TestListsAreNeverNull(t *testing.T) {
	base := tree("settings/all.yaml", backup, "settings/few.yaml", "a: 1\n")
	for name, r := range map[string]*review.Review{
		"nothing": compare(t, peels(3), base, base),
		"much":    compare(t, peels(3), base, tree("settings/all.yaml", "a: 2\nstates: {vim: {pkg.installed: null}, /etc/a: {file.absent: null}}\n", "settings/few.yaml", "{}\n")),
		"refused": review.Refuse(refusal(t), review.Options{}),
	} {
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(data), ":null") {
			t.Errorf("%s: %s", name, data)
		}
		var doc map[string]any
		if err := json.Unmarshal(data, &doc); err != nil || fmt.Sprint(doc["version"]) != "1" {
			t.Errorf("%s: %v, %s", name, err, data)
		}
	}
}
