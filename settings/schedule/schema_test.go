package schedule

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/seed-c01c3da5/zester/settings/policy"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
	"github.com/seed-c01c3da5/zester/settings/top"
)

const schemaDir = "../../examples/schema"

// schemas are those of the files of a config repo, by the file that holds each.
func schemas() map[string]*Schema {
	layer := LayerSchema()
	entry := layer.Additional.(*Schema)
	text := &Schema{Type: "string"}
	limit := matching(`^(((0|[1-9][0-9]?|100) ?%)|off)$`)
	targets := matching(`[A-Za-z@*?\[(]`)
	var troubles []string
	for _, t := range policy.Troubles {
		troubles = append(troubles, string(t))
	}
	reference := &Schema{Type: "string", Pattern: `^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`, MaxLength: 255}
	list := map[string]*Schema{
		"entry.json":    entry,
		"settings.json": {Type: []string{"object", "null"}, Properties: map[string]*Schema{"schedule": layer, "states": statesSchema()}},
		"top.json": {
			Type: []string{"object", "null"}, Names: &Schema{Pattern: "."},
			Additional: &Schema{Type: []string{"object", "null"}, Additional: &Schema{Type: "array", Items: reference}},
		},
		"zester.json": {Type: []string{"object", "null"}, Additional: false, Properties: map[string]*Schema{
			"nodegroups": {
				Type: []string{"object", "null"}, Names: &Schema{Pattern: "."},
				Additional: anyOf(text, &Schema{Type: "array", Items: text}),
			},
			"waves": {Type: []string{"array", "null"}, MaxItems: policy.MaxWaves, Items: &Schema{
				Type: "object", Additional: false, Required: []string{"name", "peels"}, Properties: map[string]*Schema{
					"name":         matching(`^[A-Za-z0-9_.-]{1,32}$`),
					"peels":        anyOf(numbers(1, policy.MaxPeels), matching(`^([1-9][0-9]?|100) ?%$`), targets),
					"soak":         anyOf(durations, zero),
					"max_failures": anyOf(&Schema{Type: "integer", Minimum: new(int)}, matching(`^(0|[1-9][0-9]?|100) ?%$`)),
					"gate":         words("auto", "manual"),
					"deadline":     durations,
				},
			}},
			"freeze": {Type: []string{"array", "null"}, MaxItems: policy.MaxFreezes, Items: &Schema{
				Type: "object", Additional: false, Properties: map[string]*Schema{
					"calendar":     oneOrMore(anyOf(text, numbers(0, 7)), 200),
					"only_between": oneOrMore(matching(`^[0-9]{1,2}:[0-9]{2} ?- ?[0-9]{1,2}:[0-9]{2}$`), 24),
					"timezone":     text,
					"targets":      text,
				},
			}},
			"limits": {Type: []string{"object", "null"}, Additional: false, Properties: map[string]*Schema{
				"change": limit, "remove": limit, "peels": limit,
			}},
			"alerts": {Type: []string{"object", "null"}, MaxProps: policy.MaxAlerts, Names: matching(`^[A-Za-z0-9_.-]{1,32}$`), Additional: &Schema{
				Type: "object", Additional: false, Required: []string{"on"}, Properties: map[string]*Schema{
					"entries":   {Type: "string", MaxLength: 256},
					"target":    text,
					"on":        oneOrMore(words(troubles...), 0),
					"for":       anyOf(durations, zero),
					"min_peels": anyOf(numbers(1, policy.MaxPeels), matching(`^([1-9][0-9]?|100) ?%$`)),
					"notify":    oneOrMore(matching(`^[A-Za-z0-9_-]{1,40}$`), 20),
				},
			}},
			"on_error": {Type: "string", Enum: []string{"refuse", "isolate"}},
			"calendars": {
				Type: []string{"object", "null"}, Names: &Schema{Pattern: "."},
				Additional: anyOf(text, numbers(0, 7), &Schema{Type: "array", Items: anyOf(text, numbers(0, 7)), MaxItems: maxElements}),
			},
		}},
	}
	titles := map[string]string{
		"entry.json": "An entry of a schedule", "settings.json": "A settings file, settings/**/*.yaml",
		"top.json": "Who gets what: top.yaml, top.d/*.yaml", "zester.json": "The policy of a config repo, zester.yaml",
	}
	for name, s := range list {
		c := *s
		c.Dialect, c.Title = "http://json-schema.org/draft-07/schema#", titles[name]
		list[name] = &c
	}
	return list
}

func TestPublishedSchemasAreThoseOfTheParser(t *testing.T) {
	for name, s := range schemas() {
		got, err := json.MarshalIndent(s, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, '\n')
		file := filepath.Join(schemaDir, name)
		if *update {
			if err := os.MkdirAll(schemaDir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not up to date; run go test ./settings/schedule -update", file)
		}
	}
}

func TestSchemaAcceptsAllThatTheParserAccepts(t *testing.T) {
	values := []string{
		"null", "true", "1", "5", "-1", "1.5", "{}", "{x: 1}", "[]", "[1.5]", "[null]", "x", "1h", "'0'", "0", "[x]", "['0 4 * * *']", "1d12h", "1.5w", "cmd.run",
		"daily", "skip", "run", "failures", "epoch", "queue", "mon", "mon-fri", "2026-12-24", "'08:00-18:00'", "'2026-06-01T09:00:00Z'", "UTC", "every day",
		"{min: 1m, max: 5m}", "{min: null}", "{attempts: 3, backoff: 5s}", "{threshold: 3, reset_after: 5m}", "{entry: x, on: done}", "{max: 5m, x: 1}", "1001", "5000000",
	}
	entry := LayerSchema()
	accepted := 0
	for _, f := range fields {
		for _, name := range []string{f.name, f.alias} {
			for _, value := range values {
				if name == "" {
					continue
				}
				n := node(t, "f", fmt.Sprintf("x: {%s: %s}", name, value))
				parsed, allowed := CheckFields(n) == nil, entry.allows(n)
				if parsed {
					accepted++
				}
				simple := n.Get("x").Map[0].Value.Kind != strictyaml.String && n.Get("x").Map[0].Value.Kind != strictyaml.List
				if parsed && !allowed || simple && !parsed && allowed && f.name != "splay" {
					t.Errorf("%s: %s: the parser takes it: %v, the schema: %v", name, value, parsed, allowed)
				}
			}
		}
	}
	if len(fields) != 42 || accepted < 100 {
		t.Errorf("%d fields; the parser takes %d of the samples", len(fields), accepted)
	}
}

func TestSchemasTakeTheExamples(t *testing.T) {
	list := schemas()
	for pattern, schema := range map[string]string{
		"settings/*/*.yaml": "settings.json", "top.yaml": "top.json", "zester.yaml": "zester.json",
	} {
		files, err := filepath.Glob("../../examples/fleet/" + pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if n := node(t, file, string(data)); !list[schema].allows(n) {
				t.Errorf("%s is refused", file)
			}
		}
	}
}

func TestTopAndPolicySchemasAgreeWithTheirParsers(t *testing.T) {
	list := schemas()
	for _, text := range []string{
		"~", "[]", "5", "{}", "base: ~", "base: {}", "base: {'*': [a.b]}", "base: {'*': a.b}", "base: {'*': []}", "base: {'*': ['a b']}", "base: {'*': [../x]}",
		"base: {'*': [5]}", "base: [x]", "'': {'*': [a]}", "base: {'*': ~}",
	} {
		n := node(t, "f", text)
		_, err := top.Parse([]*strictyaml.Node{n}, target.Groups{})
		if got := list["top.json"].allows(n); got != (err == nil) {
			t.Errorf("top %s: the schema takes it: %v, the parser says %v", text, got, err)
		}
	}
	for _, text := range []string{
		"[]", "{}", "nodegroups: ~", "nodegroups: {a: 'web-*'}", "nodegroups: {a: [web-1, web-2]}", "nodegroups: {a: [5]}", "nodegroups: {a: {}}", "nodegroups: []",
		"waves: [1]", "waves: ~", "waves: []", "waves: {}", "waves: [{name: canary, peels: 1}]", "waves: [{name: canary, peels: 5%, soak: 10m, max_failures: 2}]",
		"waves: [{name: a b, peels: 1}]", "waves: [{name: a}]", "waves: [{peels: 1}]", "waves: [{name: a, peels: 0}]", "waves: [{name: a, peels: 101%}]",
		"waves: [{name: a, peels: 1.5}]", "waves: [{name: a, peels: 1, soak: 0}]", "waves: [{name: a, peels: 1, soak: 5}]", "waves: [{name: a, peels: 1, soak: -5m}]",
		"waves: [{name: a, peels: 1, max_failures: -1}]", "waves: [{name: a, peels: 1, speed: 1}]",
		"waves: [{name: a, peels: 'web-* and not G@os:x', gate: manual, deadline: 1h, max_failures: 5%}]", "waves: [{name: a, peels: '5'}]", "waves: [{name: a, peels: ''}]",
		"waves: [{name: a, peels: 0%}]", "waves: [{name: a, peels: 1, gate: auto, max_failures: 0 %}]", "waves: [{name: a, peels: 1, gate: perhaps}]", "waves: [{name: a, peels: 1, deadline: 5}]",
		"waves: [{name: a, peels: [x]}]", "waves: [{name: a, peels: 1, max_failures: 1.5}]", "waves: [{name: a, peels: 1, max_failures: 101%}]",
		"freeze: ~", "freeze: []", "freeze: {}", "freeze: [x]", "freeze: [{calendar: sat, only_between: 08:00-18:00, timezone: Europe/London, targets: 'web-*'}]",
		"freeze: [{calendar: [sat, 0, 2026-12-24]}]", "freeze: [{only_between: [08:00-09:00, '10:00-11:00']}]", "freeze: [{calendar: []}]", "freeze: [{calendar: sat, targets: 5}]",
		"freeze: [{calendar: sat, day: sun}]", "freeze: [{only_between: 8-18}]", "freeze: [{calendar: 8}]", "freeze: [{calendar: {}}]",
		"limits: ~", "limits: {}", "limits: []", "limits: {change: 0%}", "limits: {change: 100 %, remove: off, peels: 1%}", "limits: {change: 101%}",
		"limits: {change: -1%}", "limits: {change: 30}", "limits: {change: 1.5%}", "limits: {peel: 1%}", "limits: {peels: ''}", "limits: {remove: ~}", "limits: {remove: 00%}",
		"unknown: 1", "on_error: isolate", "on_error: refuse", "on_error: go on", "on_error: [isolate]", "on_error: ~", "nodegroups: {'': x}",
		"calendars: {holidays: [2026-12-25, 2026-12-26]}", "calendars: {x: mon}", "calendars: {x: [mon, 6]}", "calendars: {x: 2026-12-24/2026-12-31}", "calendars: ~",
		"alerts: ~", "alerts: {}", "alerts: []", "alerts: {a: {on: failed}}", "alerts: {a: {on: [failed, late], entries: 'b*', target: 'db-*', for: 10m, min_peels: 2%, notify: [ops]}}",
		"alerts: {a: {}}", "alerts: {a: ~}", "alerts: {a: {on: []}}", "alerts: {a: {on: [fail]}}", "alerts: {a: {on: failed, for: 0, min_peels: 1, notify: ops}}",
		"alerts: {a b: {on: failed}}", "alerts: {a: {on: failed, min_peels: 0}}", "alerts: {a: {on: failed, min_peels: 0%}}", "alerts: {a: {on: failed, for: 5}}",
		"alerts: {a: {on: failed, for: ~}}", "alerts: {a: {on: failed, notify: []}}", "alerts: {a: {on: failed, notify: [a b]}}", "alerts: {a: {on: failed, to: x}}",
		"alerts: {a: {on: failed, target: 5}}", "alerts: {a: {on: failed, entries: 5}}", "alerts: {a: {on: [held, refused, stalled, wave_failed], for: 1d}}",
		"calendars: []", "calendars: {x: {}}", "calendars: {x: [true]}", "calendars: {x: [[mon]]}", "calendars: {'': mon}",
	} {
		n := node(t, "f", text)
		policy, err := policy.ParsePolicy(n)
		if err == nil && policy.Calendars != nil {
			_, err = ParseCalendars(policy.Calendars)
		}
		if got := list["zester.json"].allows(n); got != (err == nil) {
			t.Errorf("zester.yaml %s: the schema takes it: %v, the parser says %v", text, got, err)
		}
	}
}

// allows is a validator of the part of JSON Schema that is used.
func (s *Schema) allows(n *strictyaml.Node) bool {
	if len(s.AnyOf) > 0 && !slices.ContainsFunc(s.AnyOf, func(a *Schema) bool { return a.allows(n) }) {
		return false
	}
	kinds := map[strictyaml.Kind][]string{
		strictyaml.Null: {"null"}, strictyaml.Bool: {"boolean"}, strictyaml.Int: {"integer", "number"}, strictyaml.Float: {"number"},
		strictyaml.String: {"string"}, strictyaml.List: {"array"}, strictyaml.Map: {"object"},
	}[n.Kind]
	types, several := s.Type.([]string)
	if one, ok := s.Type.(string); ok {
		types, several = []string{one}, true
	}
	if several && !slices.ContainsFunc(types, func(t string) bool { return slices.Contains(kinds, t) }) {
		return false
	}
	switch n.Kind {
	case strictyaml.String:
		return s.allowsText(n.Value.(string))
	case strictyaml.Int:
		i := int(n.Value.(int64))
		return (s.Minimum == nil || i >= *s.Minimum) && (s.Maximum == nil || i <= *s.Maximum)
	case strictyaml.List:
		return len(n.List) >= s.MinItems && (s.MaxItems == 0 || len(n.List) <= s.MaxItems) &&
			!slices.ContainsFunc(n.List, func(e *strictyaml.Node) bool { return s.Items != nil && !s.Items.allows(e) })
	case strictyaml.Map:
		return !slices.ContainsFunc(s.Required, func(key string) bool { return n.Get(key) == nil }) && (s.MaxProps == 0 || len(n.Map) <= s.MaxProps) && !slices.ContainsFunc(n.Map, func(p strictyaml.Pair) bool { return !s.allowsPair(p) })
	}
	return true
}

func (s *Schema) allowsText(text string) bool {
	return (s.Enum == nil || slices.Contains(s.Enum, text)) && (s.MaxLength == 0 || utf8.RuneCountInString(text) <= s.MaxLength) &&
		(s.Pattern == "" || regexp.MustCompile(s.Pattern).MatchString(text))
}

func (s *Schema) allowsPair(p strictyaml.Pair) bool {
	if s.Names != nil && !s.Names.allowsText(p.Key) {
		return false
	}
	if property := s.Properties[p.Key]; property != nil {
		return property.allows(p.Value)
	}
	rest, isSchema := s.Additional.(*Schema)
	return s.Additional == nil || isSchema && rest.allows(p.Value)
}
