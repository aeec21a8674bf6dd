package review_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/plan/review"
)

const server = `states:
  nginx: {pkg.installed: {}}
  /etc/nginx/nginx.conf: {file.managed: {source: files/nginx.conf, mode: "0644"}, require: [nginx]}
  web: {service.running: {name: nginx}, watch: [/etc/nginx/nginx.conf]}
  /etc/motd: {file.managed: {content: "hello\n"}}
  old: {pkg.installed: {}}
`

func TestAPlanShowsStatesWithFieldsContentsAndEffects(t *testing.T) {
	base := tree("settings/all.yaml", server, "settings/few.yaml", "{}\n", "files/nginx.conf", "worker 1;\nlisten 80;\n")
	head := tree("settings/all.yaml", strings.NewReplacer(
		"  old: {pkg.installed: {}}\n", "  /etc/old: {file.absent: {}}\n", `mode: "0644"`, `mode: "0640"`, `"hello\n"`, `"hello\nyou\n"`,
	).Replace(server), "settings/few.yaml", "{}\n", "files/nginx.conf", "worker 4;\nlisten 80;\n")
	r := compare(t, peels(20), base, head)
	if r.Totals.StatesAdded != 20 || r.Totals.StatesChanged != 40 || r.Totals.StatesRemoved != 20 || len(r.Touched) != 20 || len(r.Settings) != 0 {
		t.Errorf("%+v, settings %+v", r.Totals, r.Settings)
	}
	var lines []string
	for _, b := range r.Blocks() {
		for _, l := range b.Lines() {
			lines = append(lines, fmt.Sprintf("%c %s", l.Mark, l.Text))
		}
	}
	const want = `~ /etc/motd  file.managed  settings/all.yaml:5
      content:
        @@ -1 +1,2 @@
        hello
+       you
~ /etc/nginx/nginx.conf  file.managed  settings/all.yaml:3
-     mode: "0644"
+     mode: "0640"
      files/nginx.conf:
        @@ -1,2 +1,2 @@
-       worker 1;
+       worker 4;
        listen 80;
+ /etc/old  file.absent  settings/all.yaml:6
- old  pkg.installed  settings/all.yaml:6`
	if got := strings.Join(lines, "\n"); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	facts := strings.Join(r.Facts(), "\n")
	for _, want := range []string{
		"states: 20 added, 40 changed, 20 removed",
		"deletes: removes /etc/old (state /etc/old); 20 peels: web-000 … web-019",
		"reacts: restarts nginx if one of these changes: /etc/nginx/nginx.conf (state web); 20 peels",
		"taken out: what pkg.installed made stays on the host (state old); 20 peels",
	} {
		if !strings.Contains(facts, want) {
			t.Errorf("%q is missing in\n%s", want, facts)
		}
	}
	if text := r.Markdown(); !strings.Contains(text, "states: 1 added, 2 changed, 1 removed") || !strings.Contains(text, "+       worker 4;") {
		t.Error(text)
	}
}

func TestAStateThatChangesItsFunctionOrOrderIsShown(t *testing.T) {
	base := tree("settings/all.yaml", "states: {a: {pkg.installed: {}}, b: {pkg.installed: {}}}\n", "settings/few.yaml", "{}\n")
	function := compare(t, peels(3), base, tree("settings/all.yaml", "states: {a: {pkg.removed: {purge: true}}, b: {pkg.installed: {}}}\n", "settings/few.yaml", "{}\n"))
	if len(function.States) != 1 || function.States[0].Action != review.Modify || fmt.Sprint(function.States[0].Fields) != "map[function:{pkg.installed pkg.removed} purge:{<nil> true}]" {
		t.Errorf("%+v", function.States)
	}
	order := compare(t, peels(3), base, tree("settings/all.yaml", "states: {b: {pkg.installed: {}}, a: {pkg.installed: {}}}\n", "settings/few.yaml", "{}\n"))
	if len(order.Touched) != 3 || len(order.States) != 0 || len(order.Settings) != 1 || order.Settings[0].Key != "_states.order" {
		t.Errorf("%v, %+v, %+v", order.Touched, order.States, order.Settings)
	}
	moved := compare(t, peels(1), base, tree("settings/all.yaml", "states: {a: {pkg.installed: {}}}\n", "settings/few.yaml", "states: {b: {pkg.installed: {}}}\n"))
	if len(moved.States) != 0 || len(moved.Settings) != 2 || moved.Settings[0].Key != "_states.refs.all" || moved.Settings[1].Key != "_states.refs.few" {
		t.Errorf("%+v, %+v", moved.States, moved.Settings)
	}
}

func TestNoSecretIsShownInAContent(t *testing.T) {
	one := "states: {/etc/a: {file.managed: {source: files/a}}, /etc/token: {file.managed: {source: files/token}}, b: {cmd.run: {command: x, env: {API_TOKEN: %s}}}}\n"
	base := tree("settings/all.yaml", fmt.Sprintf(one, "plain1"), "settings/few.yaml", "{}\n", "files/a", "user: x\ndb_password: hunter1\n", "files/token", "hunter1\n")
	head := tree("settings/all.yaml", fmt.Sprintf(one, "plain2"), "settings/few.yaml", "{}\n", "files/a", "user: y\ndb_password: hunter2\n", "files/token", "hunter2\n")
	r := compare(t, peels(3), base, head)
	text := r.Markdown() + fmt.Sprintf("%+v", r)
	for _, secret := range []string{"hunter", "plain1", "plain2"} {
		if strings.Contains(text, secret) {
			t.Errorf("%s is in %s", secret, text)
		}
	}
	if !strings.Contains(text, "(a line that may hold a secret, not shown)") || !strings.Contains(text, "secret, not shown") || len(r.States) != 3 {
		t.Error(text)
	}
}

func TestAnotherSourceIsComparedWithTheOneBefore(t *testing.T) {
	both := []string{"settings/few.yaml", "{}\n", "files/a", "one\ntwo\n", "files/b", "one\nthree\n", "files/c", "one\ntwo\n", "files/dir/x", "x\n"}
	with := func(source, other string) fstest.MapFS {
		return tree(append(slices.Clone(both), "settings/all.yaml", "states:\n  /etc/a: {"+source+"}\n  /etc/b: {file.managed: {source: "+other+"}}\n")...)
	}
	for _, c := range []struct{ before, after, want string }{
		{"file.managed: {source: files/a}", "file.managed: {source: files/b}", "[{files/a → files/b [@@ -1,2 +1,2 @@  one -two +three]}]"},
		{"file.managed: {source: files/a}", "file.managed: {source: files/c}", "[{files/a → files/c [the same content]}]"},
		{"file.managed: {source: files/a}", "file.recurse: {source: files/dir}", "[{files/a [@@ -1,2 +0,0 @@ -one -two]} {files/dir/x [@@ -0,0 +1 @@ +x]}]"},
	} {
		r := compare(t, peels(1), with(c.before, "files/a"), with(c.after, "files/a"))
		if len(r.States) != 1 || fmt.Sprint(r.States[0].Contents) != c.want {
			t.Errorf("%s → %s: %+v", c.before, c.after, r.States)
		}
	}
}

func TestTheFilesOfADirectoryAreBounded(t *testing.T) {
	base := tree("settings/all.yaml", "states: {/etc/a: {file.recurse: {source: files/a}}}\n", "settings/few.yaml", "{}\n", "files/a/first", "x\n")
	head := tree("settings/all.yaml", "states: {/etc/a: {file.recurse: {source: files/a}}}\n", "settings/few.yaml", "{}\n", "files/a/first", "x\n")
	for i := range 150 {
		head[fmt.Sprintf("files/a/%03d", i)] = &fstest.MapFile{Data: []byte("y\n"), Mode: 0o644}
	}
	contents := compare(t, peels(1), base, head).States[0].Contents
	if last := contents[len(contents)-1]; len(contents) != 101 || fmt.Sprint(last) != "{files/a [50 more files differ]}" {
		t.Errorf("%d contents, the last is %v", len(contents), last)
	}
}

func TestACommentWithManyEffectsStaysWithinItsSize(t *testing.T) {
	var states strings.Builder
	states.WriteString("states:\n")
	for i := range 100 {
		fmt.Fprintf(&states, "  s%d: {file.absent: {path: \"/srv/%s/%d\"}}\n  %s%d: {cmd.run: {command: x}, onchanges: [s%d]}\n", i, strings.Repeat("@", 3000), i, strings.Repeat("_", 250), i, i)
	}
	states.WriteString("schedule:\n")
	for i := range 200 {
		fmt.Fprintf(&states, "  %s%d: {module: test.ping, interval: 5m, splay: 6m}\n", strings.Repeat("e", 120), i)
	}
	r := compare(t, peels(3), tree("settings/all.yaml", "{}\n", "settings/few.yaml", "{}\n"), tree("settings/all.yaml", states.String(), "settings/few.yaml", "{}\n"))
	text := r.Markdown()
	if len(r.Effects) != 200 || len(text) > review.MaxMarkdown || !strings.Contains(text, "more lines are left out") || !strings.Contains(text, "limits: change") {
		t.Errorf("%d effects, %d bytes", len(r.Effects), len(text))
	}
}

func TestALongContentIsBounded(t *testing.T) {
	base := tree("settings/all.yaml", "states: {/a: {file.managed: {source: files/a}}}\n", "settings/few.yaml", "{}\n", "files/a", "x\n")
	head := tree("settings/all.yaml", "states: {/a: {file.managed: {source: files/a}}}\n", "settings/few.yaml", "{}\n", "files/a", strings.Repeat("a line\n", 1000))
	r := compare(t, peels(1), base, head)
	if n := len(r.States[0].Contents[0].Diff); n != 401 {
		t.Errorf("%d lines", n)
	}
}

// A base can mix two revisions: peels that mistakes hold back have the contents of an earlier one.
func TestAContentIsThatOfTheRevisionOfItsSettings(t *testing.T) {
	all := "states: {/etc/a: {file.managed: {source: files/a}}}\n"
	c := plan.NewCompiler()
	first := compile(t, c, tree("settings/all.yaml", all, "settings/few.yaml", "{}\n", "files/a", "first\n"), peels(1))
	second := compile(t, c, tree("settings/all.yaml", all, "settings/few.yaml", "{}\n", "files/a", "second\n"), peels(1))
	third := compile(t, c, tree("settings/all.yaml", all, "settings/few.yaml", "{}\n", "files/a", "third\n"), peels(1))
	second.Peels["web-000"] = first.Peels["web-000"]
	r, err := review.Make(second, third, review.Options{From: merge, Zone: time.UTC})
	if err != nil {
		t.Fatal(err)
	}
	if diff := strings.Join(r.States[0].Contents[0].Diff, " "); diff != "@@ -1 +1 @@ -first +third" {
		t.Error(diff)
	}
}

// The values of a template are the most frequent change there is.
func TestAStateChangesWithTheSettingsThatItsTemplateReads(t *testing.T) {
	states := `states:
  conf: {file.managed: {path: /etc/nginx/nginx.conf, source: files/nginx.conf, template: true}}
  motd: {file.managed: {path: /etc/motd, content: "{{#settings.people}}{{name}}{{/settings.people}}", template: true}}
  text: {file.managed: {path: /etc/text, content: "{{nginx.workers}}"}}
  tree: {file.recurse: {path: /etc/tree, source: files/tree, template: true}}
  web: {service.running: {name: nginx}, watch: [conf]}
`
	at := func(values string) fstest.MapFS {
		return tree("settings/all.yaml", states+values, "settings/few.yaml", "{}\n",
			"files/nginx.conf", "workers {{settings.nginx.workers}};\n", "files/tree/a", "x", "files/tree/b", "{{settings.nginx.port | json}}")
	}
	const base = "nginx: {workers: 1, port: 80}\nother: 1\npeople: [{name: ada}]\n"
	for values, want := range map[string]string{
		base: "",
		"nginx: {workers: 9, port: 80}\nother: 1\npeople: [{name: ada}]\n":            "~ conf settings.nginx.workers 1 9; reacts restarts nginx if one of these changes: conf",
		"nginx: {workers: 1, port: 81}\nother: 1\npeople: [{name: ada}]\n":            "~ tree settings.nginx.port 80 81",
		"nginx: {workers: 1, port: 80}\nother: 1\npeople: [{name: bob}]\n":            `~ motd settings.people [map[name:ada]] [map[name:bob]]`,
		"nginx: {workers: 1, port: 80}\nother: 1\npeople: [{name: ada}]\nunread: 2\n": "",
	} {
		r := compare(t, peels(2), at(base), at(values))
		var got []string
		for _, s := range r.States {
			for name, v := range s.Fields {
				got = append(got, fmt.Sprintf("~ %s %s %v %v", s.State, name, v.Before, v.After))
			}
		}
		for _, e := range r.Effects {
			got = append(got, "reacts "+e.Text)
		}
		if text := strings.Join(got, "; "); text != want {
			t.Errorf("%s: %s, want %s", values, text, want)
		}
	}
}
