package state

import (
	"testing"

	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// The arguments of a function by itself come from people and from schedules.
func FuzzSingle(f *testing.F) {
	for _, function := range FunctionNames() {
		f.Add(function, "{name: a, path: /a/b, content: x, vars: {a: 1}, template: true}")
	}
	f.Add("file.managed", "{path: [/a], content: null, check: ['{}'], mode: '0644'}")
	f.Add("user.present", "{name: '', uid: -1, groups: [a, null], password: 1}")
	f.Add("pkg.installed", "{names: [], name: 1}")
	f.Fuzz(func(t *testing.T, function, text string) {
		n, err := strictyaml.Parse("args", []byte(text))
		if err != nil {
			return
		}
		args, _ := n.Any().(map[string]any)
		set, err := Single(function, args)
		if err != nil {
			return
		}
		if len(set) != 1 || set[0].Name == "" {
			t.Errorf("%+v", set)
		}
		if _, err := set[0].Hash(); err != nil {
			t.Error(err)
		}
	})
}
