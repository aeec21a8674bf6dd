package diff_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/plan/diff"
	"github.com/seed-c01c3da5/zester/settings/policy"
)

const hosts = `
-- top.yaml --
base:
  '*': [base]
  'web-*': [web]
-- settings/base.yaml --
states:
  vim: {pkg.installed: {}}
  git: {pkg.installed: {}}
  /etc/motd: {file.managed: {content: hello, mode: "0644"}}
-- settings/web.yaml --
states:
  nginx: {pkg.installed: {}}
`

func TestAStateCountsAsOneSettingForTheGuard(t *testing.T) {
	many := []string{"db-01", "db-02", "db-03", "db-04", "db-05", "db-06", "db-07", "web-01", "web-02", "web-03"} // with 33 states
	for _, c := range []struct{ name, edit, want string }{
		{"nothing", "", ""},
		{"several arguments of one state", strings.NewReplacer("hello", "bye", "0644", "0600").Replace(base), ""},
		{"most states", strings.NewReplacer("vim: {pkg.installed: {}}", "vim: {pkg.latest: {}}", "git: {pkg.installed: {}}", "git: {pkg.latest: {}}").Replace(base), "20 of 33 settings over all peels would change or go, more than change: 50%"},
		{"a state that leaves its last peel", "-- settings/web.yaml --\nport: 80\n", "no peel would have states.nginx any longer"},
		{"a state with another name", "-- settings/web.yaml --\nstates: {apache2: {pkg.installed: {}}}\n", ""},
		{"a state with another name and function", "-- settings/web.yaml --\nstates: {/tmp/x: {file.absent: {}}}\n", "no peel would have states.nginx any longer"},
		{"a state that some peels lose", "-- settings/web.yaml --\nstates: {nginx: {pkg.installed: {}}, vim: null, git: null}\n", "6 of 33 settings over all peels would go"},
		{
			"all states of one peel", "-- top.yaml --\nbase: {'*': [base], 'web-*': [web], 'web-03': [bare]}\n-- settings/bare.yaml --\nkept: 1\nstates: {vim: null, git: null, /etc/motd: null, nginx: null}\n",
			"all settings, all schedule entries or all states would go from web-03",
		},
	} {
		s := begin(t, many...)
		before := diff.Of(s.compile(tree(hosts)))
		err := s.diff(before, s.compile(edit(tree(hosts), c.edit))).Guard(policy.DefaultLimits)
		blocked, ok := errors.AsType[*diff.BlockedError](err)
		switch {
		case (c.want != "") != ok:
			t.Errorf("%s: %v", c.name, err)
		case ok && !strings.Contains(blocked.Reason, c.want):
			t.Errorf("%s: %s", c.name, blocked.Reason)
		}
	}
}

// base is the edit that writes settings/base.yaml as it is in hosts.
var base = "-- settings/base.yaml --\n" + strings.SplitN(strings.SplitN(hosts, "-- settings/base.yaml --\n", 2)[1], "-- ", 2)[0]

func TestADifferenceNamesStatesThatDiffer(t *testing.T) {
	s := begin(t, "web-01", "web-02", "db-01")
	before := diff.Of(s.compile(tree(hosts)))
	d := s.diff(before, s.compile(edit(tree(hosts), "-- settings/web.yaml --\nstates: {apache2: {pkg.installed: {}}, vim: {pkg.latest: {}}, git: {failhard: true}}\n")))
	if got, want := fmt.Sprintf("%+v", d.Groups[0].States), "{Added:[apache2] Changed:[git vim] Removed:[nginx]}"; len(d.Groups) != 1 || got != want {
		t.Errorf("%s in %d groups, want %s", got, len(d.Groups), want)
	}
	if c := d.Counts; c != (diff.Counts{StatesAdded: 2, StatesChanged: 4, StatesRemoved: 2}) {
		t.Errorf("%+v", c)
	}
}

func TestAChangedContentIsAChangeOfTheStatesThatNameItsFile(t *testing.T) {
	files := func(sha256, mode string) map[string]any {
		file := func(sum string) map[string]any {
			return map[string]any{"sha256": sum, "mode": mode, "key": "any", "blob": "any", "size": int64(1)}
		}
		return map[string]any{"order": []any{"a", "b", "c"}, "files": map[string]any{"files/a": file("1"), "files/tree/x": file(sha256), "files/treetop": file("3")}}
	}
	flat := func(compiled map[string]any) map[string]string {
		all, err := plan.Flatten(map[string]any{"states": map[string]any{
			"a": map[string]any{"file.managed": map[string]any{"source": "files/a"}},
			"b": map[string]any{"file.recurse": map[string]any{"source": "files/tree"}},
			"c": map[string]any{"pkg.installed": nil},
		}, "_states": compiled})
		if err != nil || len(all) != 3 {
			t.Fatal(all, err)
		}
		return all
	}
	changed := func(one, two map[string]string) (names []string) {
		for _, name := range []string{"states.a", "states.b", "states.c"} {
			if one[name] != two[name] {
				names = append(names, name)
			}
		}
		return names
	}
	first := flat(files("2", "0644"))
	reordered := files("2", "0644")
	reordered["order"] = []any{"c", "b", "a"}
	for _, c := range []struct {
		name  string
		other map[string]any
		want  string
	}{
		{"another order", reordered, "[]"},
		{"another content", files("4", "0644"), "[states.b]"},
		{"another mode", files("2", "0755"), "[states.a states.b]"},
	} {
		if got := fmt.Sprint(changed(first, flat(c.other))); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
