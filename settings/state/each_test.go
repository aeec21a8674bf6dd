package state

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// expanded returns the states of settings after Expand.
func expanded(t testing.TB, text string) (Expanded, error) {
	t.Helper()
	doc := node(t, text)
	return Expand(doc.Get(Key), doc)
}

func TestEachMakesAStateForEachElement(t *testing.T) {
	t.Parallel()
	x, err := expanded(t, `
sites:
  shop: {root: /srv/shop, port: 8080, packages: [git, curl]}
  blog: {root: /srv/blog, port: 8081, packages: [git]}
people: [ada, bob]
disks: [{path: /a}, {path: /b}]
states:
  first: {cmd.run: {command: "true"}, require: [site]}
  site:
    each: settings.sites
    file.managed: {path: "{{@value.root}}/{{ @key }}.conf", content: "listen {{@value.port}}"}
    onlyif: "test -d {{@value.root}}"
  tools: {each: settings.sites, pkg.installed: {names: "{{@value.packages}}"}, require: [site]}
  home: {each: settings.people, file.directory: {path: "/home/{{@value}}", user: "{{@key}}"}}
  disk: {each: settings.disks, file.directory: {path: "{{@value.path}}"}}
`)
	if err != nil {
		t.Fatal(err)
	}
	set, err := Parse(x.States, Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"site.shop", "site.blog", "first", "tools.shop", "tools.blog", "home.ada", "home.bob", "disk.1", "disk.2"}
	if got := names(set); !slices.Equal(got, want) {
		t.Errorf("the states are %v, want %v", got, want)
	}
	shop := set.Get("site.shop").Args.(*FileManaged)
	if shop.Path != "/srv/shop/shop.conf" || *shop.Content != "listen 8080" {
		t.Errorf("the file is %s with %q", shop.Path, *shop.Content)
	}
	if got := set.Get("site.blog").OnlyIf; !slices.Equal(got, []string{"test -d /srv/blog"}) {
		t.Errorf("the guard is %q", got)
	}
	if got := set.Get("tools.shop").Args.(*PkgInstalled).Names; !slices.Equal(got, []string{"git", "curl"}) {
		t.Errorf("the packages are %q", got)
	}
	if got := set.Get("home.bob").Args.(*FileDirectory); got.Path != "/home/bob" || got.User != "bob" {
		t.Errorf("the directory is %+v", got)
	}
	if got := set.Get("first").Require; !slices.Equal(got, []string{"site.shop", "site.blog"}) {
		t.Errorf("the requisites are %q", got)
	}
	if x.Source["site.shop"] != "site" || x.Source["first"] != "" {
		t.Errorf("the sources are %v", x.Source)
	}
}

// A list without elements makes no state. What waits for a change of one never runs, though its requisite is gone.
func TestEachWithoutElements(t *testing.T) {
	t.Parallel()
	x, err := expanded(t, `
sites: []
states:
  site: {each: settings.sites, file.absent: {path: "/srv/{{@value}}"}}
  after: {cmd.run: {command: "true"}, require: [site]}
  reload: {cmd.run: {command: "true"}, onchanges: [site]}
  alarm: {cmd.run: {command: "true"}, onfail: [site], enabled: true}
`)
	if err != nil {
		t.Fatal(err)
	}
	set, err := Parse(x.States, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(set) != 3 || !set.Get("after").IsEnabled() || set.Get("reload").IsEnabled() || set.Get("alarm").IsEnabled() {
		t.Errorf("the states are %v", names(set))
	}
}

// What stands for a secret is short, and the secret may be long.
func TestEachCountsTheBytesOfSecrets(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{"in a text": strings.Repeat("{{@value}} ", 100), "alone": "{{@value}}"} {
		doc := node(t, `
users: [`+strings.Repeat("masked, ", 100)+`masked]
states: {a: {each: settings.users, file.managed: {path: "/etc/x", content: "`+content+`", mode: "0600"}}}
`)
		for _, user := range doc.Get("users").List {
			user.Secret = strings.Repeat("x", 64<<10)
		}
		if _, err := Expand(doc.Get(Key), doc); err == nil || !strings.Contains(err.Error(), "have more than 4194304 bytes together") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEachKeepsSecretsSecret(t *testing.T) {
	t.Parallel()
	doc := node(t, `
users: {ada: masked}
states: {a: {each: settings.users, file.managed: {path: "/etc/{{@key}}", content: "password {{@value}}", mode: "0600"}}}
`)
	doc.Get("users").Get("ada").Secret = "open sesame"
	x, err := Expand(doc.Get(Key), doc)
	if err != nil {
		t.Fatal(err)
	}
	content := x.States.Get("a.ada").Get("file.managed").Get("content")
	if content.Value != "password masked" || content.Secret != "password open sesame" {
		t.Errorf("the content shows %q and has the secret %q", content.Value, content.Secret)
	}
	doc.Get(Key).Get("a").Map[1].Value = node(t, `{path: "/etc/{{@value}}", content: x}`)
	if x, err = Expand(doc.Get(Key), doc); err != nil {
		t.Fatal(err)
	}
	if _, err := Parse(x.States, Options{}); err == nil || !strings.Contains(err.Error(), "a secret is allowed only in") {
		t.Errorf("a secret in a path: %v", err)
	}
}

func TestEachRefuses(t *testing.T) {
	t.Parallel()
	many := make([]string, MaxEach+1)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	settings := "sites: {shop: {root: /srv, list: [a]}}\none: x\nnames: ['a,b', a, a]\nmany: [" + strings.Join(many, ", ") + "]\nstates: "
	for _, c := range []struct{ states, want string }{
		{`{a: {each: settings.site, file.absent: {path: /x}}}`, `f.yaml:5:20: states.a.each: the settings have no settings.site; did you mean "sites"?`},
		{`{a: {each: settings.one, file.absent: {path: /x}}}`, "states.a.each: settings.one must be a list or a map, not a string"},
		{`{a: {each: sites, file.absent: {path: /x}}}`, `states.a.each: "sites" is no path of the settings; write settings.NAME of a list or map`},
		{`{a: {each: settings.sites, file.absent: {path: "{{@value.rot}}"}}}`, `states.a: the element shop (f.yaml:1:15) has no value.rot; did you mean "root"?`},
		{`{a: {each: settings.sites, file.absent: {path: "/x/{{@value.list}}"}}}`, "states.a: {{@value.list}} is a list, which cannot be part of a text"},
		{`{a: {each: settings.names, file.absent: {path: "/x/{{@value}}"}}}`, `states.a: "a,b" cannot be part of the name of a state: letters, digits`},
		{`{a: {each: settings.many, file.absent: {path: "/x/{{@value}}"}}}`, "states.a: each has 201 elements; it makes at most 200 states"},
		{`{a: {each: settings.sites, file.absent: {path: /x}}, a.shop: {file.absent: {path: /y}}}`, "states.a: it makes the state a.shop, and there is another one of this name"},
	} {
		_, err := expanded(t, settings+c.states)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s:\n%v\nwant %s", c.states, err, c.want)
		}
	}
}

// The texts of all states that each makes are bounded, however the elements are used.
func TestEachIsBounded(t *testing.T) {
	t.Parallel()
	elements := make([]string, 150)
	for i := range elements {
		elements[i] = fmt.Sprintf("k%d: {text: %s, list: [%s]}", i, strings.Repeat("x", 3000), strings.Repeat("y", 3000))
	}
	settings := "v: {" + strings.Join(elements, ", ") + "}\nstates: {a: {each: settings.v, file.managed: {vars: "
	for _, vars := range []string{
		"{a: " + strings.Repeat("z", 30_000) + "}",
		"[" + strings.Repeat("'{{@value.text}}', ", 10) + "]",
		"[" + strings.Repeat("' {{@value.text}}', ", 10) + "]",
		"[" + strings.Repeat("'{{@value.list}}', ", 10) + "]",
	} {
		_, err := expanded(t, settings+vars+"}}}")
		if err == nil || !strings.Contains(err.Error(), "have more than 4194304 bytes together") {
			t.Errorf("%.20s: %v", vars, err)
		}
	}
}

// A requisite that names a state of each becomes many, in each of the states that have it.
func TestRequisitesOfEachAreBounded(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	text.WriteString("xs: [0")
	for i := range 199 {
		fmt.Fprintf(&text, ", %d", i+1)
	}
	text.WriteString("]\nstates:\n")
	var earlier []string
	for i := range 20 {
		fmt.Fprintf(&text, "  s%d: {each: settings.xs, test.nop: , require: [%s]}\n", i, strings.Join(earlier, ", "))
		earlier = append(earlier, fmt.Sprintf("s%d", i))
	}
	_, err := expanded(t, text.String())
	if err == nil || strings.Count(err.Error(), "have more than 4194304 bytes together") != 1 {
		t.Errorf("%.300v", err)
	}
}

// Values without a text count too.
func TestNumbersOfEachAreBounded(t *testing.T) {
	t.Parallel()
	elements := strings.Repeat("k%: 0, ", 150)
	for i := range 150 {
		elements = strings.Replace(elements, "%", fmt.Sprint(i), 1)
	}
	numbers := strings.Repeat("1, ", 3000)
	_, err := expanded(t, "v: {"+elements+"}\nstates: {a: {each: settings.v, file.managed: {vars: ["+numbers+"]}}}")
	if err == nil || !strings.Contains(err.Error(), "have more than 4194304 bytes together") {
		t.Errorf("%.300v", err)
	}
}

func TestBracesInArguments(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ state, want string }{
		{`file.directory: {path: "/srv/{{settings.app}}"}`, "states.a.file.directory.path: an argument is no template"},
		{`file.directory: {path: "/srv/{{ x }}"}`, "states.a.file.directory.path: an argument is no template"},
		{`file.managed: {path: /x, content: "port {{settings.port}}"}`, "add template: true"},
		{`file.managed: {path: /x, content: "port {{settings.port}}", template: true}`, ""},
		{`file.managed: {path: /x, content: "{{ .Values.port }}"}`, ""},
		{`cmd.run: {command: "docker ps --format '{{.Names}}'"}`, ""},
		{`cmd.run: {command: "echo {{ pillar['x'] }}"}`, "an argument is no template"},
		{`cmd.run: {command: "echo {{@value}}"}`, "an argument is no template"},
		{`{cmd.run: {command: "true"}, unless: "test -e {{facts.x}}"}`, "states.a.unless: an argument is no template"},
	} {
		if !strings.HasPrefix(c.state, "{") {
			c.state = "{" + c.state + "}"
		}
		_, err := Parse(node(t, "a: "+c.state), Options{})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %s", c.state, err, c.want)
		}
	}
}

// A settings file alone does not know the elements, so only names are checked.
func TestEachInOneSettingsFile(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{`{each: settings.x, file.managed: {path: "{{@value.p}}", template: "{{@value.t}}", content: x}}`, ""},
		{`{file.managed: {mode: "{{@value.m}}"}}`, ""},
		{`{each: settings.x, file.managed: {paht: "{{@value.p}}"}}`, `unknown key "paht"; did you mean "path"?`},
		{`{each: settings.x, file.manage: {path: "{{@value.p}}"}}`, "there is no function file.manage"},
		{`{each: x, file.absent: {path: "{{@value.p}}"}}`, `states.a.each: "x" is no path of the settings`},
	} {
		err := CheckFields(node(t, "a: "+c.text))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %s", c.text, err, c.want)
		}
	}
	if _, err := Parse(node(t, `a: {each: settings.x, file.absent: {path: /x}}`), Options{}); err == nil || !strings.Contains(err.Error(), "each is possible only in a settings file") {
		t.Errorf("each on a peel: %v", err)
	}
}

func FuzzExpand(f *testing.F) {
	f.Add("v: [a, {b: 1}]\nstates: {a: {each: settings.v, file.absent: {path: '/{{@value.b}}'}, require: [a]}}")
	f.Add("v: {a: [x]}\nstates: {a: {each: settings.v, pkg.installed: {names: '{{@value}}'}}, b: {onchanges: [a]}}")
	f.Fuzz(func(t *testing.T, text string) {
		doc, err := strictyaml.Parse("f.yaml", []byte(text))
		if err != nil {
			return
		}
		x, err := Expand(doc.Get(Key), doc)
		if err != nil || x.States == nil {
			return
		}
		if slices.ContainsFunc(x.States.Map, hasEach) {
			t.Errorf("a state has each still:\n%s", text)
		}
		_, _ = Parse(x.States, Options{})
	})
}
