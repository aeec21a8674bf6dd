package catalogue_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/peel/catalogue"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

func parse(t testing.TB, text string) (*catalogue.Schema, error) {
	t.Helper()
	n, err := strictyaml.Parse("s", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return catalogue.ParseSchema(n)
}

// value decodes JSON into the types of results.
func value(t testing.TB, text string) any {
	t.Helper()
	n, err := strictyaml.Parse("v", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return n.Any()
}

func TestValuesAreCheckedAgainstTheSchema(t *testing.T) {
	for _, c := range []struct{ schema, value, want string }{
		{`{}`, `[1, {"a": null}]`, ""},
		{`{"type": "object", "title": "T", "description": "D", "format": "x", "$schema": "y", "examples": [], "default": 1, "$comment": "c"}`, `{}`, ""},
		{`{"type": "object"}`, `[]`, "the answer must have the type object, and is a list"},
		{`{"type": "array"}`, `{}`, "the answer must have the type array, and is an object"},
		{`{"type": "string"}`, `1`, "the answer must have the type string, and is 1"},
		{`{"type": "boolean"}`, `"true"`, `the answer must have the type boolean, and is "true"`},
		{`{"type": "boolean"}`, `false`, ""},
		{`{"type": "null"}`, `null`, ""},
		{`{"type": "null"}`, `0`, "must have the type null"},
		{`{"type": "string"}`, `null`, "must have the type string, and is null"},
		{`{"type": ["string", "null"]}`, `null`, ""},
		{`{"type": ["string", "null"]}`, `1`, "must have the type string or null"},
		{`{"type": "integer"}`, `1`, ""},
		{`{"type": "integer"}`, `1.0`, ""},
		{`{"type": "integer"}`, `1.5`, "must have the type integer, and is 1.5"},
		{`{"type": "number"}`, `1`, ""},
		{`{"type": "number"}`, `1.5`, ""},
		{`{"enum": ["low", "high", 1, null, [1], {"a": 2}]}`, `"high"`, ""},
		{`{"enum": ["low", "high"]}`, `"mid"`, `the answer must be one of "low", "high", and is "mid"`},
		{`{"enum": [1, null]}`, `1.0`, ""},
		{`{"enum": [1, null]}`, `null`, ""},
		{`{"enum": [1, null]}`, `false`, "must be one of 1, null"},
		{`{"enum": [1.0]}`, `1`, ""},
		{`{"enum": [[1, 2]]}`, `[1.0, 2]`, ""},
		{`{"enum": [[1, 2]]}`, `[2, 1]`, "must be one of a list"},
		{`{"enum": [{"a": 2}]}`, `{"a": 2.0}`, ""},
		{`{"enum": [{"a": 2}, "x", null]}`, `{"a": 3}`, "must be one of an object"},
		{`{"enum": ["x"]}`, `["x"]`, "must be one of"},
		{`{"const": "a"}`, `"a"`, ""},
		{`{"const": "a"}`, `"b"`, `must be one of "a"`},
		{`{"const": null}`, `null`, ""},
		{`{"const": null}`, `"b"`, `must be one of null`},
		{`{"minimum": 1, "maximum": 3}`, `1`, ""},
		{`{"minimum": 1, "maximum": 3}`, `3.0`, ""},
		{`{"minimum": 1}`, `0`, "the answer must be 1 or more, and is 0"},
		{`{"maximum": 3}`, `3.5`, "the answer must be 3 or less, and is 3.5"},
		{`{"exclusiveMinimum": 1}`, `1`, "must be more than 1"},
		{`{"exclusiveMaximum": 3}`, `3`, "must be less than 3"},
		{`{"exclusiveMinimum": 1, "exclusiveMaximum": 3}`, `2`, ""},
		{`{"minimum": 1}`, `"a"`, ""},
		{`{"minLength": 2, "maxLength": 3}`, `"äö"`, ""},
		{`{"minLength": 2}`, `"a"`, "has 1 characters, and the least is 2"},
		{`{"maxLength": 3}`, `"abcd"`, "has 4 characters, and the most is 3"},
		{`{"minItems": 1, "maxItems": 2}`, `[1, 2]`, ""},
		{`{"minItems": 1}`, `[]`, "has 0 elements, and the least is 1"},
		{`{"maxItems": 1}`, `[1, 2]`, "has 2 elements, and the most is 1"},
		{`{"items": {"type": "string"}}`, `["a", 1]`, "the answer[1] must have the type string"},
		{`{"pattern": "^[a-z]+$"}`, `"abc"`, ""},
		{`{"pattern": "^[a-z]+$"}`, `"ABC"`, `must match "^[a-z]+$"`},
		{`{"required": ["a"]}`, `{"b": 1}`, `the answer lacks the property "a"`},
		{`{"required": ["a"]}`, `{"a": null}`, ""},
		{`{"properties": {"a": {"type": "string"}}}`, `{"a": 1, "b": 2}`, "the answer.a must have the type string"},
		{`{"properties": {"a": {}}, "additionalProperties": false}`, `{"a": 1}`, ""},
		{`{"properties": {"a": {}}, "additionalProperties": false}`, `{"a": 1, "b\n": 2}`, `the answer["b\n"] is not allowed`},
		{`{"properties": {"a": {}}, "additionalProperties": {"type": "string"}}`, `{"a": 1, "b": 2}`, `the answer["b"] must have the type string`},
		{`{"properties": {"a": {}}, "additionalProperties": true}`, `{"b": 2}`, ""},
		{`{"properties": {"l": {"items": {"properties": {"n": {"maximum": 1}}}}}}`, `{"l": [{"n": 1}, {"n": 2}]}`, "the answer.l[1].n must be 1 or less"},
		{`{"anyOf": [{"type": "string"}, {"minimum": 5, "type": "integer"}]}`, `"a"`, ""},
		{`{"anyOf": [{"type": "string"}, {"minimum": 5, "type": "integer"}]}`, `7`, ""},
		{`{"anyOf": [{"type": "string"}, {"minimum": 5, "type": "integer"}]}`, `4`, "matches none of 2 schemas, the last because the answer must be 5 or more"},
		{`{"anyOf": [{"type": "string"}], "minLength": 2}`, `"a"`, "has 1 characters"},
		{`false`, `1`, "the answer is not allowed"},
		{`true`, `1`, ""},
	} {
		s, err := parse(t, c.schema)
		if err != nil {
			t.Errorf("%s: %v", c.schema, err)
			continue
		}
		err = s.Check(value(t, c.value))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s of %s: %v, want %q", c.value, c.schema, err, c.want)
		}
	}
}

func TestASchemaThatCannotBeCheckedIsRefused(t *testing.T) {
	deep, wide := "{}", make([]string, catalogue.MaxSchemas)
	for range 40 {
		deep = `{"items": ` + deep + `}`
	}
	for i := range wide {
		wide[i] = fmt.Sprintf(`"p%d": {}`, i)
	}
	for text, want := range map[string]string{
		`{"$ref": "#/x"}`:             `s:1:2: $ref: unknown key`,
		`{"typ": "string"}`:           `s:1:2: typ: unknown key; did you mean "type"?`,
		`{"type": "strnig"}`:          `s:1:10: type: must be one of array, boolean, integer, null, number, object, string, not "strnig"`,
		`{"type": []}`:                `type: the list of types is empty`,
		`{"type": [1]}`:               `type: must be one of`,
		`{"enum": []}`:                `enum: must be a list of the values that are allowed`,
		`{"enum": "a"}`:               `enum: must be a list`,
		`{"enum": [1], "const": 1}`:   `enum: leave out enum or const`,
		`{"pattern": "("}`:            `pattern: error parsing regexp`,
		`{"properties": []}`:          `properties: must be a map, not a list`,
		`{"properties": {"a": 1}}`:    `s:1:22: properties.a: must be a map, not a whole number (1)`,
		`{"properties": {"a": null}}`: `properties.a: must be a map, not null`,
		`{"items": {"minimum": "x"}}`: `items.minimum: must be a number, not a string (x)`,
		`{"anyOf": [{"x": 1}]}`:       `anyOf[0].x: unknown key`,
		`{"anyOf": []}`:               `anyOf: the list of schemas is empty`,
		`{"additionalProperties": 1}`: `additionalProperties: must be a map`,
		`{"minLength": -1}`:           `minLength: must not be negative`,
		`{"required": "a"}`:           `required: must be a list`,
		`[]`:                          `must be a map, not a list`,
		deep:                          `too large: it may have 1000 subschemas, nested 32 deep`,
		`{"properties": {` + strings.Join(wide, ", ") + `}}`: `too large`,
	} {
		if _, err := parse(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v, want %q", text, err, want)
		}
	}
}

func FuzzCheck(f *testing.F) {
	f.Add(`{"type": "object", "properties": {"a": {"enum": [1, "b"]}}, "required": ["a"]}`, `{"a": 1}`)
	f.Add(`{"anyOf": [{"items": {"type": "null"}}, {"maxItems": 2}]}`, `[null, [1]]`)
	f.Fuzz(func(t *testing.T, text, answer string) {
		var v, document any
		if json.Unmarshal([]byte(answer), &v) != nil || json.Unmarshal([]byte(text), &document) != nil {
			return
		}
		v, n := strictyaml.FromValue("", v).Any(), strictyaml.FromValue("s", document)
		s, err := catalogue.ParseSchema(n)
		if err != nil {
			return
		}
		err = s.Check(v)
		always, parsed := catalogue.ParseSchema(strictyaml.FromValue("s", map[string]any{"anyOf": []any{document, true}}))
		if parsed == nil && always.Check(v) != nil {
			t.Errorf("%s is none of anything", answer)
		}
		once, parsed := catalogue.ParseSchema(strictyaml.FromValue("s", map[string]any{"anyOf": []any{document}}))
		if parsed == nil && (once.Check(v) == nil) != (err == nil) {
			t.Errorf("%s of %s is %v, and otherwise as the only one of anyOf", answer, text, err)
		}
	})
}
