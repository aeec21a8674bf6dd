package plan_test

import (
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
)

// Without a fleet it is not known which files meet on a peel: only what no other file can mend is a mistake.
func TestCheckFindsTheMistakesInStatesThatNoOtherFileCanMend(t *testing.T) {
	for name, c := range map[string]struct{ change, want string }{
		"nothing": {},
		"two files that no peel has both own a path": {change: "-- settings/common.yaml --\nstates:\n  c: {file.absent: {path: /etc/nginx/nginx.conf}}\n"},
		"a state that another file completes":        {change: "-- settings/common.yaml --\nstates:\n  /srv/site: {require: [nginx]}\n"},
		"a path that another file gives":             {change: "-- settings/common.yaml --\nstates:\n  site: {file.recurse: {clean: true}}\n-- settings/web/site.yaml --\nstates:\n  site: {file.recurse: {path: /srv/site, source: files/site}}\n"},
		"a name that is no path":                     {"-- settings/common.yaml --\nstates:\n  etc: {file.absent: {}}\n", `settings/common.yaml:2:22: states.etc.file.absent.path: "etc" is not an absolute path`},
		"a requisite of another file":                {change: "-- settings/common.yaml --\nstates:\n  c: {cmd.run: {command: x}, require: [web, 'file:web.site']}\n"},
		"a cycle through another file":               {change: "-- settings/web/site.yaml --\nstates:\n  x: {cmd.run: {command: x}, require: [web], require_in: [nginx]}\n"},
		"a state that no file has":                   {"-- settings/common.yaml --\nstates:\n  c: {cmd.run: {command: x}, require: [webb]}\n", `settings/common.yaml:2:40: states.c.require: there is no state "webb"`},
		"a file without states":                      {"-- settings/common.yaml --\nstates:\n  c: {cmd.run: {command: x}, require: ['file:web.nginxx']}\n", `settings/common.yaml:2:40: states.c.require: no settings file "web.nginxx" of this peel has states`},
		"a state without a function":                 {"-- settings/common.yaml --\nstates:\n  c: {require: [web]}\n", "settings/common.yaml:2:3: states.c: no function"},
		"a cycle":                                    {"-- settings/common.yaml --\nstates:\n  c: {cmd.run: {command: x}, require: [d]}\n  d: {cmd.run: {command: x}, require: [c]}\n", "settings/common.yaml:2:3: states.c: the requisites form a cycle: c needs d needs c"},
		"two owners":                                 {"-- settings/common.yaml --\nstates:\n  c: {file.absent: {path: /etc/x}}\n  d: {file.symlink: {path: /etc/x, target: /y}}\n", "settings/common.yaml:3:3: states.d: the path /etc/x belongs to the state c already (settings/common.yaml:2:3), with another function"},
		"two owners that say the same":               {change: "-- settings/common.yaml --\nstates:\n  c: {file.absent: {path: /etc/x}}\n  d: {file.absent: {path: /etc/x}}\n"},
		"a missing source":                           {"-- settings/common.yaml --\nstates:\n  /etc/x: {file.managed: {source: files/none}}\n", "settings/common.yaml:2:35: states./etc/x: files/none does not exist in the config repo"},
		"a template":                                 {"-- files/nginx.conf --\n{{#a}}\n", "settings/web/nginx.yaml:4:28: states./etc/nginx/nginx.conf: files/nginx.conf is no template: files/nginx.conf:1:1"},
	} {
		_, err := plan.NewCompiler().Check(edit(tree(withStates), c.change))
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "\n")):
			t.Errorf("%s: %v\nwant %s", name, err, c.want)
		}
	}
}
