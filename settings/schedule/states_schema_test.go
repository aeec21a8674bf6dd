package schedule

import (
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/settings/state"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// orNull returns a schema that also accepts null, which removes a value when files are merged.
func orNull(s *Schema) *Schema { return anyOf(s, &Schema{Type: "null"}) }

// schemaOf returns the schema of the values that strictyaml decodes into a Go type.
func schemaOf(t reflect.Type) *Schema {
	switch t {
	case reflect.TypeFor[*strictyaml.Node]():
		return &Schema{Type: "object"}
	case reflect.TypeFor[time.Duration]():
		return anyOf(durations, zero)
	}
	switch t.Kind() {
	case reflect.String:
		return &Schema{Type: "string"}
	case reflect.Bool:
		return &Schema{Type: "boolean"}
	case reflect.Int:
		return &Schema{Type: "integer"}
	case reflect.Uint32:
		return numbers(0, math.MaxUint32)
	case reflect.Pointer:
		return schemaOf(t.Elem())
	case reflect.Slice:
		return &Schema{Type: "array", Items: schemaOf(t.Elem())}
	case reflect.Map:
		return &Schema{Type: "object", Additional: orNull(schemaOf(t.Elem()))}
	case reflect.Struct:
		s := &Schema{Type: "object", Additional: false, Properties: map[string]*Schema{}}
		for f := range t.Fields() {
			s.Properties[f.Tag.Get("yaml")] = orNull(schemaOf(f.Type))
			s.Properties[f.Tag.Get("yaml")].Description = f.Tag.Get("doc")
		}
		return s
	}
	panic("no schema for " + t.String())
}

// statesSchema returns the schema of the map under the key `states` of one file.
func statesSchema() *Schema {
	one := schemaOf(reflect.TypeFor[state.Fields]())
	text := &Schema{Type: "string"}
	for _, name := range []string{"onlyif", "unless"} {
		one.Properties[name] = orNull(anyOf(text, &Schema{Type: "array", Items: text}))
	}
	for _, f := range state.Functions() {
		args := &Schema{Type: []string{"object", "null"}, Description: f.Doc, Additional: false, Properties: map[string]*Schema{}}
		for _, p := range f.Params() {
			args.Properties[p.Name] = orNull(schemaOf(p.Type))
			if p.Type.Kind() != reflect.String { // else it takes every text
				args.Properties[p.Name] = orNull(anyOf(schemaOf(p.Type), matching(`^\{\{ *@(key|value)[^{}]*\}\}$`)))
			}
			args.Properties[p.Name].Description = p.Doc
		}
		if args.Properties[state.NamesArg] == nil {
			list := &Schema{Type: "array", Items: anyOf(text, &Schema{Type: "integer"}), MaxItems: state.MaxEach}
			args.Properties[state.NamesArg] = orNull(anyOf(list, matching(`^\{\{ *@(key|value)[^{}]*\}\}$`)))
			args.Properties[state.NamesArg].Description = "a list in the place of " + f.Main + ": one state for each element"
		}
		one.Properties[f.Name] = args
	}
	one.Type = []string{"object", "null"}
	return &Schema{Type: []string{"object", "null"}, Names: &Schema{Pattern: `^[A-Za-z0-9_./@+-]([A-Za-z0-9_./@+ -]*[A-Za-z0-9_./@+-])?$`, MaxLength: 256}, Additional: one, MaxProps: state.MaxStates}
}

func TestStatesSchemaAcceptsAllThatTheParserAccepts(t *testing.T) {
	values := []string{
		"null", "true", "1", "-1", "1.5", "5000000000", "{}", "{a: b}", "{a: 1}", "{a: null}", "[]", "[x]", "[1]", "x", "/etc/x", "files/x", "\"0644\"", "5m", "0",
		"[user]", "[a, '{}']", "'30 2 * * *'", "$6$x", "{attempts: 3}", "{attempts: 3, interval: 5s}", "{attempts: 3, x: 1}",
	}
	schema := statesSchema()
	accepted, refused := 0, 0
	check := func(text string) {
		n := node(t, "f", "a: "+text)
		parsed, allowed := state.CheckFields(n) == nil, schema.allows(n)
		if parsed {
			accepted++
		}
		if !allowed {
			refused++
		}
		if parsed && !allowed {
			t.Errorf("%s: the parser takes it, the schema does not", text)
		}
	}
	for _, value := range values {
		for _, f := range state.Functions() {
			check(fmt.Sprintf("{%s: %s}", f.Name, value))
			for _, p := range f.Params() {
				check(fmt.Sprintf("{%s: {%s: %s}}", f.Name, p.Name, value))
			}
			check(fmt.Sprintf("{%s: {%s: %s}}", f.Name, state.NamesArg, value))
			check(fmt.Sprintf("{%s: {unknown: %s}}", f.Name, value))
		}
		for f := range reflect.TypeFor[state.Fields]().Fields() {
			check(fmt.Sprintf("{%s: %s}", f.Tag.Get("yaml"), value))
		}
		check(fmt.Sprintf("{unknown.function: %s}", value))
	}
	if accepted < 250 || refused < 1000 {
		t.Errorf("the parser takes %d of the samples, the schema refuses %d", accepted, refused)
	}
}
