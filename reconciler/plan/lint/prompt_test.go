package lint_test

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/plan/lint"
	"github.com/seed-c01c3da5/zester/settings/target"
	"github.com/seed-c01c3da5/zester/settings/target/peelindex"
)

func TestAPromptThatPeelsCannotRun(t *testing.T) {
	small, both := target.Facts{"prompt_models": []any{"small"}}, target.Facts{"prompt_models": []any{"small", "large"}}
	for _, c := range []struct {
		name, fields string
		fleet        map[target.PeelID]target.Facts
		want         []string
	}{
		{"no fleet", "prompt: Check it.", nil, nil},
		{"all can", "prompt: Check it.", map[target.PeelID]target.Facts{"a": small, "b": both}, nil},
		{"all have the model", "prompt: Check it., model: small", map[target.PeelID]target.Facts{"a": small, "b": both}, nil},
		{"disabled", "prompt: Check it., enabled: false", map[target.PeelID]target.Facts{"a": {}}, nil},
		{
			"nobody can", "prompt: Check it.",
			map[target.PeelID]target.Facts{"a": {}, "b": {}},
			[]string{"2:15: schedule.e.prompt: it can run on none of its peels (2) for lack of a prompt in peel.yaml; G@prompt_models:* selects peels that have one"},
		},
		{
			"the peel that can does not have the entry", "prompt: Check it.",
			map[target.PeelID]target.Facts{"a": {}, "other": small},
			[]string{"2:15: schedule.e.prompt: it can run on none of its peels (1) for lack of a prompt in peel.yaml; G@prompt_models:* selects peels that have one"},
		},
		{
			"some can", "module: prompt.run, args: {prompt: Check it.}",
			map[target.PeelID]target.Facts{"a": {}, "b": small, "c": {}},
			[]string{"2:15: schedule.e.module: it cannot run on 2 of its 3 peels for lack of a prompt in peel.yaml; G@prompt_models:* selects peels that have one"},
		},
		{
			"nobody has the model", "prompt: Check it., model: smal",
			map[target.PeelID]target.Facts{"a": small, "b": both},
			[]string{`2:33: schedule.e.model: it can run on none of its peels (2) for lack of the model "smal"; did you mean "small"?`},
		},
		{
			"some have the model", "prompt: Check it., model: large",
			map[target.PeelID]target.Facts{"a": small, "b": both},
			[]string{`2:33: schedule.e.model: it cannot run on 1 of its 2 peels for lack of the model "large"; G@prompt_models:large selects peels that have it`},
		},
		{
			"wrong options", "prompt: Check it., opts: {temprature: 1}",
			map[target.PeelID]target.Facts{"a": small},
			[]string{`2:32: schedule.e.opts: prompt.run: argument opts: temprature: unknown key; did you mean "temperature"?`},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			tree := fstest.MapFS{
				"top.yaml":        {Data: []byte("base: {'?': [a]}")},
				"settings/a.yaml": {Data: []byte("schedule:\n  e: {" + c.fields + ", interval: 5m}\n")},
			}
			compiler := plan.NewCompiler()
			p, err := compiler.Check(tree)
			if c.fleet != nil {
				fleet := peelindex.New()
				for id, facts := range c.fleet {
					fleet.Put(id, facts)
				}
				p, err = compiler.Compile(tree, fleet)
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range lint.New(lint.Options{From: from}).All(p) {
				got = append(got, strings.TrimPrefix(e.Error(), "settings/a.yaml:"))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
