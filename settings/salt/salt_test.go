package salt_test

import (
	"testing"

	"github.com/seed-c01c3da5/zester/settings/salt"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

func TestPartsOfAnSLSFile(t *testing.T) {
	t.Parallel()
	known := []string{"pkg.installed", "file.managed"}
	for text, want := range map[string]string{
		"include: [nginx, users]":                   "Salt's include does nothing here; what include is in Salt is here top.yaml gives each host its files; remove it",
		"extend: {nginx: {service.running: []}}":    "Salt's extend does nothing here; what extend is in Salt is here a later file of the same host sets the fields of a state; write them below states:",
		"nginx: {pkg.installed: [{name: nginx}]}":   "it is a state as Salt writes it, and does nothing here: indent it below states:, and write the list below pkg.installed as one map",
		"motd: {file.append: [{text: hi}]}":         "it is a state as Salt writes it, and does nothing here: indent it below states:, and write the list below file.append as one map",
		"nginx: {pkg: [installed, {version: '1'}]}": "it is a state as Salt writes it, and does nothing here: write it below states: with pkg.installed",
		"nginx: {service: running}":                 "it is a state as Salt writes it, and does nothing here: write it below states: with service.running",
		"include: all":                              "",
		"extend: 5":                                 "",
		"app: {port: 80, pkg: nginx}":               "",
		"app: {file.managed: 5}":                    "",
		"app: {domains: [a, b]}":                    "",
	} {
		doc, err := strictyaml.Parse("f", []byte(text))
		if err != nil {
			t.Fatal(text, err)
		}
		if got := salt.Misplaced(doc.Map[0], known); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func TestStatementsOfJinja(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"a\n{% if x %}b{% endif %}":  2,
		"{%- for a in b -%}":         0,
		"x {# a comment #}":          2,
		"{% set a = 1 %}":            0,
		"${#array[@]} {#a}{/a}":      -1,
		"{{settings.x}} 100{%}":      -1,
		"LogFormat \"%{%d/%b/%Y}t\"": -1,
		"{% unknown %}":              -1,
	} {
		at, found := salt.Jinja(text)
		if !found {
			at = -1
		}
		if at != want {
			t.Errorf("%q: at %d, want %d", text, at, want)
		}
	}
}

// Hints are for what Salt writes, not for any value of another kind.
func TestHintsOfForms(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]string{
		"a: [{name: x}, {mode: y}]": {"; Salt writes a list here: write one map, {name: …, mode: …}", ""},
		"a: [b, c]":                 {"", ""},
		"a: [[b]]":                  {"", ""},
		"a: []":                     {"", ""},
		"a: {pkg: nginx}":           {"", "; Salt writes the module too: write the name of the state, nginx"},
		"a: {pkg: nginx, b: c}":     {"", ""},
		"a: {pkg: [nginx]}":         {"", ""},
	} {
		doc, err := strictyaml.Parse("f", []byte(text))
		if err != nil {
			t.Fatal(text, err)
		}
		n := doc.Map[0].Value
		if got := [2]string{salt.AsMap(n), salt.AsName(n)}; got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
