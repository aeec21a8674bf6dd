package mustache

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

// plain converts what encoding/json decodes into the values that Render takes.
func plain(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			v[k] = plain(e)
		}
	case []any:
		for i, e := range v {
			v[i] = plain(e)
		}
	case float64:
		if v == float64(int64(v)) {
			return int64(v)
		}
	}
	return v
}

func render(t *testing.T, text string, data map[string]any) (string, error) {
	t.Helper()
	tmpl, err := Parse("t", text)
	if err != nil {
		return "", err
	}
	out, _, err := tmpl.Render(plain(data).(map[string]any))
	return string(out), err
}

func TestThePublicCasesOfMustache(t *testing.T) {
	data, err := os.ReadFile("testdata/mustache-spec.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cases []struct {
			Template, Expected string
			Data               map[string]any
			Missing            bool
		}
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) < 60 {
		t.Fatalf("%d cases", len(file.Cases))
	}
	for _, c := range file.Cases {
		got, err := render(t, c.Template, c.Data)
		switch {
		case c.Missing:
			if _, ok := errors.AsType[*Error](err); !ok || !strings.Contains(err.Error(), "there is no") {
				t.Errorf("%q gives %q and the error %v, want an error about a missing name", c.Template, got, err)
			}
			// With a question mark a section takes a missing name for false.
			if optional := strings.NewReplacer("{{#missing}}", "{{#missing?}}", "{{^missing}}", "{{^missing?}}").Replace(c.Template); optional != c.Template {
				if _, err := render(t, optional, c.Data); err != nil {
					t.Errorf("%q: %v", optional, err)
				}
			}
		case err != nil || got != c.Expected:
			t.Errorf("%q gives %q and the error %v, want %q", c.Template, got, err, c.Expected)
		}
	}
}

var sample = map[string]any{
	"name": "web-01", "workers": int64(4), "ratio": 0.5, "on": true, "none": nil, "text": `it's "<&>"`, "empty": "",
	"ports": []any{int64(80), int64(443)}, "nested": []any{[]any{"a"}},
	"env": map[string]any{"B": "2", "A": "1"},
	"users": map[string]any{
		"ada": map[string]any{"groups": []any{"adm", "www"}, "shell": "/bin/sh"},
		"bob": map[string]any{"groups": []any{}, "shell": "/bin/false"},
	},
}

func TestRender(t *testing.T) {
	for _, c := range []struct{ template, want string }{
		{"{{name}} {{workers}} {{ratio}} {{on}}", "web-01 4 0.5 true"},
		{"{{text}}", `it's "<&>"`}, // nothing is escaped
		{"{{text | json}}", `"it's \"<&>\""`},
		{"{{env | json}} {{ports|json}} {{none | json}}", `{"A":"1","B":"2"} [80,443] null`},
		{"echo {{text | shell}} {{workers|shell}}", `echo 'it'\''s "<&>"' '4'`},
		{`{{ports | join ", "}}|{{ports | join "\n"}}|{{ports | join "\"\\\""}}`, "80, 443|80\n443|80\"\\\"443"},
		{"{{#env}}\n{{@key}}={{@value}}\n{{/env}}\n", "A=1\nB=2\n"}, // in the order of the keys
		{"{{#users}}{{@key}}:{{shell}}{{#groups}} {{.}}{{/groups}}{{^groups}} none{{/groups}};{{/users}}", "ada:/bin/sh adm www;bob:/bin/false none;"},
		{"{{#users}}{{@key}}{{#@value.groups}} {{.}}{{/@value.groups}};{{/users}}", "ada adm www;bob;"},
		{"{{#users}}{{#on}}{{@key}} {{/on}}{{@value.shell}};{{/users}}", "ada /bin/sh;bob /bin/false;"},
		{"{{#users}}{{ada.shell}}{{/users}}", "/bin/sh"}, // without @key the map is the context
		{"{{#absent?}}x{{/absent}}{{^absent?}}y{{/absent?}}", "y"},
		{"{{#users.eve?}}x{{/users.eve}}", ""},
		{"{{#empty}}x{{/empty}}{{#none}}x{{/none}}{{#workers}}n{{/workers}}", "n"},
	} {
		if got, err := render(t, c.template, sample); err != nil || got != c.want {
			t.Errorf("%q gives %q and the error %v, want %q", c.template, got, err, c.want)
		}
	}
}

func TestMistakesOfATemplate(t *testing.T) {
	for _, c := range []struct{ template, want string }{
		{"a\nb {{name", "t:2:3: the tag is not closed; add }}"},
		{"{{}}", "t:1:1: the tag is empty"},
		{"{{ }}", "t:1:1: the tag names nothing"},
		{"ä{{#a}}", `t:1:2: the section "a" is not closed; add {{/a}}`},
		{"{{/a}}", "t:1:1: {{/a}} closes no section"},
		{"{{#a}}\n{{/b}}", `t:2:1: {{/b}} does not close the section "a" of line 1`},
		{"{{{a}}}", "t:1:1: {{{…}} does not exist here: text is never escaped; write {{name}}"},
		{"{{&a}}", "t:1:1: {{&…}} does not exist here: text is never escaped; write {{name}}"},
		{"{{> a}}", "t:1:1: partials do not exist here"},
		{"{{=<% %>=}}", "t:1:1: other delimiters than {{ and }} do not exist here"},
		{"{{a b}}", `t:1:1: "a b" is not a name; a name is letters, digits, _ and -, with dots between its parts`},
		{"{{a..b}}", `t:1:1: "a..b" is not a name; a name is letters, digits, _ and -, with dots between its parts`},
		{"{{a.@key}}", `t:1:1: "a.@key" is not a name; a name is letters, digits, _ and -, with dots between its parts`},
		{"{{grains['id']}}", `t:1:1: "grains['id']" is not a name; a name is letters, digits, _ and -, with dots between its parts`},
		{"{{a | upper}}", `t:1:1: there is no filter "upper"; there are json, shell and join`},
		{"{{a | json x}}", "t:1:1: the filter json takes no argument"},
		{"{{a | join}}", `t:1:1: join takes the separator in double quotes: {{a | join ", "}}`},
		{`{{a | join "x" "y"}}`, `t:1:1: join takes the separator in double quotes: {{a | join ", "}}`},
		{strings.Repeat("{{#a}}", 33), "t:1:193: sections are nested more than 32 deep"},
		{"\xff", "t:1:1: the template is not UTF-8 text"},
	} {
		if _, err := Parse("t", c.template); err == nil || err.Error() != c.want {
			t.Errorf("%q: %v, want %s", c.template, err, c.want)
		}
	}
}

func TestDataThatDoesNotFit(t *testing.T) {
	for _, c := range []struct{ template, want string }{
		{"x\n {{missing}}", `t:2:2: there is no "missing"`},
		{"{{users.ada.home}}", `t:1:1: there is no "users.ada.home": "users.ada" has no "home"`},
		{"{{#missing}}{{/missing}}", `t:1:1: there is no "missing"; {{#missing?}} treats a missing name as false`},
		{"{{ports}}", `t:1:1: "ports" is a list; write {{#ports}}…{{/ports}}, {{ports | json}} or, for a list, {{ports | join ", "}}`},
		{"{{none}}", `t:1:1: "none" is null; write {{#none}}…{{/none}}, {{none | json}} or, for a list, {{none | join ", "}}`},
		{`{{name | join ","}}`, `t:1:1: join takes a list; "name" is text`},
		{`{{nested | join ","}}`, `t:1:1: join takes a list of text and numbers; element 0 of "nested" is a list`},
		{"{{@key}}", "t:1:1: @key is used outside a section over a map"},
	} {
		if got, err := render(t, c.template, sample); err == nil || err.Error() != c.want {
			t.Errorf("%q gives %q and the error %v, want %s", c.template, got, err, c.want)
		}
	}
}

func TestTheOutputIsBounded(t *testing.T) {
	list := make([]any, 3000)
	for i := range list {
		list[i] = strings.Repeat("x", 10)
	}
	tmpl, err := Parse("t", "{{#a}}{{#a}}{{.}}{{/a}}{{/a}}") // 90 MB
	if err != nil {
		t.Fatal(err)
	}
	if out, _, err := tmpl.Render(map[string]any{"a": list}); err == nil || err.Error() != "t:1:13: the output is larger than 8 MiB" {
		t.Errorf("%d bytes and the error %v", len(out), err)
	}
}

func TestNestedSectionsOverLongListsEnd(t *testing.T) {
	text := strings.Repeat("{{#a}}", 30) + strings.Repeat("{{/a}}", 30)
	tmpl, err := Parse("t", text)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := tmpl.Render(map[string]any{"a": make([]any, 1000)}); err == nil || !strings.Contains(err.Error(), "more than 4194304 tags are rendered") {
		t.Error(err)
	}
}

func FuzzTemplate(f *testing.F) {
	for _, s := range []string{"{{#a}}\n{{@key}}{{/a}}", "{{a.b | json}}", `{{a | join "\n"}}`, "{{! x }}\r\n", "{{^a?}}{{.}}{{/a}}", "{{#.}}{{/.}}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		tmpl, err := Parse("t", text)
		if err != nil {
			return
		}
		one, _, err1 := tmpl.Render(sample)
		two, _, err2 := tmpl.Render(sample)
		if string(one) != string(two) || (err1 == nil) != (err2 == nil) {
			t.Errorf("%q renders as %q and then as %q", text, one, two)
		}
		if !strings.Contains(text, "{{") && string(one) != text {
			t.Errorf("%q without a tag renders as %q", text, one)
		}
	})
}

func BenchmarkRender(b *testing.B) {
	tmpl, err := Parse("t", strings.Repeat("server {{name}}:{{#ports}}{{.}} {{/ports}}\n{{#env}}\n{{@key}}={{@value | shell}}\n{{/env}}\n", 20))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, _, err := tmpl.Render(sample); err != nil {
			b.Fatal(err)
		}
	}
}

// A key that people paste into a configuration by each of the filters.
func TestOutputThatUsedASecretIsMarked(t *testing.T) {
	data := map[string]any{
		"open": "x", "none": []any{},
		"db":   map[string]any{"key": Secret{"a'b\"c"}, "user": "root", "port": Secret{int64(5432)}, "off": Secret{false}},
		"list": []any{"a", Secret{"b"}}, "plain": []any{"a"},
	}
	for text, want := range map[string]struct {
		out    string
		secret bool
	}{
		"{{open}} {{db.user}}":                   {"x root", false},
		"{{db.key}}":                             {`a'b"c`, true},
		"{{db.key | json}}":                      {`"a'b\"c"`, true},
		"{{db.key | shell}}":                     {`'a'\''b"c'`, true},
		"{{db.port}}":                            {"5432", true},
		"{{db | json}}":                          {`{"key":"a'b\"c","off":false,"port":5432,"user":"root"}`, true},
		"{{plain | json}}{{plain | join \",\"}}": {`["a"]a`, false},
		"{{list | join \",\"}}":                  {"a,b", true},
		"{{#list}}{{.}}{{/list}}":                {"ab", true},
		"{{#list}}-{{/list}}":                    {"--", false},
		"{{#db}}{{user}}{{/db}}":                 {"root", false},
		"{{#db}}{{key}}{{/db}}":                  {`a'b"c`, true},
		"{{#db.off}}on{{/db.off}}":               {"", true}, // what is not there says that it is off
		"{{#db}}{{@key}}{{/db}}":                 {"keyoffportuser", false},
		"{{#none}}{{db.key}}{{/none}}":           {"", false},
		"{{^db.gone?}}x{{/db.gone}}":             {"x", false},
	} {
		tmpl, err := Parse("t", text)
		if err != nil {
			t.Fatal(text, err)
		}
		out, secret, err := tmpl.Render(data)
		if err != nil || string(out) != want.out || secret != want.secret {
			t.Errorf("%s: %q, %v, %v, want %q, %v", text, out, secret, err, want.out, want.secret)
		}
	}
}

func TestNamesAreThoseOfVariablesAndSections(t *testing.T) {
	tmpl, err := Parse("t", "{{a.b}}{{! c}}{{#d}}{{.}}{{e | json}}{{^f?}}{{@key}}{{@value.x}}{{/f}}{{/d}}{{a.b}}")
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(tmpl.Names()); got != "[[a b] [d] [e] [f] [a b]]" {
		t.Error(got)
	}
}
