package diff_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/reconciler/plan/diff"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

func read(t *testing.T, text string) diff.StateSide {
	t.Helper()
	n, err := strictyaml.Parse("settings", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	values, _ := n.Any().(map[string]any)
	return diff.ReadStates(values, func(text string) bool { return text == "masked" })
}

const web = `
states:
  nginx: {pkg.installed: {}}
  /etc/nginx/nginx.conf: {file.managed: {source: files/nginx.conf, mode: "0644"}, require: [nginx]}
  /etc/nginx/sites: {file.recurse: {source: files/sites}}
  web: {service.running: {name: nginx, reload: true}, watch: [/etc/nginx/nginx.conf, "file:web.sites"]}
_states:
  order: [nginx, /etc/nginx/nginx.conf, /etc/nginx/sites, web]
  refs: {web.nginx: [nginx, /etc/nginx/nginx.conf, web], web.sites: [/etc/nginx/sites]}
  files:
    files/nginx.conf: {sha256: "1", mode: "0644", key: "1"}
    files/sites/a: {sha256: "2", mode: "0644", key: masked}
    files/sitesmap: {sha256: "9", mode: "0644", key: "9"}
`

func edited(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(web) }

func TestStatesThatDifferAreNamedWithWhatTheyDo(t *testing.T) {
	t.Parallel()
	const reacts = " reaction web: reloads nginx if one of these changes: "
	for _, c := range []struct {
		name, after, want string
	}{
		{"nothing", web, ""},
		{"a content", edited(`"1", mode`, `"7", mode`), "~/etc/nginx/nginx.conf[files/nginx.conf]" + reacts + "/etc/nginx/nginx.conf"},
		{"a content of a directory", edited(`"2", mode: "0644"`, `"2", mode: "0755"`), "~/etc/nginx/sites[files/sites/a]" + reacts + "/etc/nginx/sites"},
		{"a file that no state names", edited(`sitesmap: {sha256: "9"`, `sitesmap: {sha256: "8"`), ""},
		{"an argument", edited(`mode: "0644"}, require`, `mode: "0600"}, require`), "~/etc/nginx/nginx.conf" + reacts + "/etc/nginx/nginx.conf"},
		{"a requisite", edited("require: [nginx]", "require: [nginx], failhard: true"), "~/etc/nginx/nginx.conf"},
		{"a package that goes", edited("  nginx: {pkg.installed: {}}\n", "", ", require: [nginx]", ""), "~/etc/nginx/nginx.conf -nginx left nginx: what pkg.installed made stays on the host"},
		{"a state with another name", edited("  nginx: {pkg.installed: {}}", "  server: {pkg.installed: {name: nginx}}", "require: [nginx]", "require: [server]"), "+server ~/etc/nginx/nginx.conf -nginx"},
		{"a package that is removed", edited("nginx: {pkg.installed: {}}", "nginx: {pkg.removed: {purge: true}}"), "~nginx removal nginx: removes the package nginx and its configuration"},
		{"an order", edited("order: [nginx, /etc/nginx/nginx.conf,", "order: [/etc/nginx/nginx.conf, nginx,"), "reordered"},
		{"a new state alone", edited("states:\n", "states:\n  vim: {pkg.installed: {}}\n", "order: [nginx", "order: [vim, nginx"), "+vim"},
		{"a state that is switched off", edited("source: files/nginx.conf", "source: files/sitesmap", "require: [nginx]", "enabled: false"), "~/etc/nginx/nginx.conf[files/nginx.conf files/sitesmap]"},
		{
			"removals", edited("states:\n", `states:
  /etc/old: {file.absent: {}}
  /srv/www: {file.directory: {clean: true}}
  ada: {user.absent: {remove_home: true}}
  tools: {pkg.removed: {names: [a, b]}}
  off: {file.absent: {path: /etc/off}, enabled: false}
`),
			"+/etc/old +/srv/www +ada +off +tools removal /etc/old: removes /etc/old removal /srv/www: removes what no state owns in /srv/www " +
				"removal ada: removes the user ada and its home removal tools: removes the packages a, b",
		},
		{
			"a command and a watch from the other side", edited("states:\n", `states:
  reload: {cmd.run: {command: x}, onchanges: [/etc/x]}
  /etc/x: {file.managed: {content: x}, watch_in: [web]}
`), "+/etc/x +reload reaction reload: runs its command if one of these changes: /etc/x" + reacts + "/etc/x",
		},
	} {
		d := diff.CompareStates(read(t, web), read(t, c.after))
		if got := statediffDescribe(d); got != c.want {
			t.Errorf("%s: %s\nwant %s", c.name, got, c.want)
		}
	}
}

func statediffDescribe(d diff.StateDifference) string {
	var words []string
	for _, name := range d.Added {
		words = append(words, "+"+name)
	}
	for _, name := range d.Changed {
		files := ""
		if len(d.Files[name]) > 0 {
			files = fmt.Sprint(d.Files[name])
		}
		words = append(words, "~"+name+files)
	}
	for _, name := range d.Removed {
		words = append(words, "-"+name)
	}
	if d.Reordered {
		words = append(words, "reordered")
	}
	for _, e := range d.Effects {
		words = append(words, fmt.Sprintf("%s %s: %s", e.Kind, e.State, e.Text))
	}
	return strings.Join(words, " ")
}

func TestASecretFileIsMarked(t *testing.T) {
	t.Parallel()
	if files := read(t, web).Files; !files["files/sites/a"].Secret || files["files/nginx.conf"].Secret {
		t.Errorf("%+v", files)
	}
}

func TestADiffOfContentsIsBounded(t *testing.T) {
	t.Parallel()
	many := []byte(strings.Repeat("a line\n", 1000))
	for _, c := range []struct {
		name          string
		before, after []byte
		want          string // a part of the last line
		lines         int
	}{
		{"equal", many, many, "", 0},
		{"one line", []byte("a\nb\n"), []byte("a\nc\n"), "+c", 4},
		{"a new file", nil, []byte("a\n"), "+a", 2},
		{"many lines", nil, many, "… and 601 lines more", diff.StateMaxLines + 1},
		{"not text", []byte{0xff}, []byte("a"), "not text: 1 bytes → 1 bytes", 1},
		{"NUL", []byte("a\x00"), nil, "not text: 2 bytes → none", 1},
		{"large", make([]byte, 0), []byte(strings.Repeat("x", diff.StateMaxText+1)), "too large to compare: 0 bytes → 65537 bytes", 1},
	} {
		lines := diff.Unified(c.before, c.after)
		if len(lines) != c.lines || len(lines) > 0 && lines[len(lines)-1] != c.want {
			t.Errorf("%s: %d lines: %q", c.name, len(lines), lines[max(0, len(lines)-3):])
		}
	}
}

// A difference must not depend on the order in which Go walks maps.
func TestEqualSidesGiveEqualDifferences(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	functions := []string{"file.absent: {}", "pkg.removed: {}", "service.running: {}", "cmd.run: {command: x}", "user.absent: {}"}
	random := func() string {
		var b strings.Builder
		b.WriteString("states:\n")
		for i := range 30 {
			if r.IntN(4) > 0 {
				fmt.Fprintf(&b, "  s%d: {%s, watch: [s%d, s%d]}\n", i, functions[r.IntN(len(functions))], r.IntN(30), r.IntN(30))
			}
		}
		return b.String()
	}
	for range 20 {
		before, after := random(), random()
		first := statediffDescribe(diff.CompareStates(read(t, before), read(t, after)))
		for range 5 {
			if again := statediffDescribe(diff.CompareStates(read(t, before), read(t, after))); again != first {
				t.Fatalf("%s\nthen %s", first, again)
			}
		}
	}
}
