package plan_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/plan/plantest"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/content"
	"github.com/seed-c01c3da5/zester/settings/sops/sopstest"
	"github.com/seed-c01c3da5/zester/settings/state"
)

const withStates = `
-- top.yaml --
base:
  '*': [common]
  'web-*': [web.nginx, web.site]
-- settings/common.yaml --
states:
  vim: {pkg.installed: }
  motd: {file.managed: {path: /etc/motd, content: hello}}
-- settings/web/nginx.yaml --
states:
  nginx: {pkg.installed: {}}
  /etc/nginx/nginx.conf:
    file.managed: {source: files/nginx.conf, template: true}
    require: [nginx]
  web: {service.running: {name: nginx}, watch: [/etc/nginx/nginx.conf]}
  motd: {file.absent: {path: /etc/motd}}
-- settings/web/site.yaml --
states:
  /srv/site: {file.recurse: {source: files/site}, require: ['file:web.nginx']}
  web: {service.running: {enable: true}}
-- files/nginx.conf --
workers {{settings.nginx.workers}};
-- files/site/index.html --
<h1>site</h1>
-- files/site/css/a.css --
p {}
-- files/unused --
nobody names this
`

func stateNames(s state.Set) (names []string) {
	for _, x := range s {
		names = append(names, x.Name)
	}
	return names
}

func TestAPeelGetsTheStatesOfItsFiles(t *testing.T) {
	p := compile(t, plan.NewCompiler(), tree(withStates), fleet("web-01", "db-01"))
	web, db := p.Peels["web-01"], p.Peels["db-01"]
	if got, want := stateNames(web.States), []string{"vim", "motd", "nginx", "/etc/nginx/nginx.conf", "web", "/srv/site"}; !slices.Equal(got, want) {
		t.Errorf("order %q, want %q", got, want)
	}
	if got := stateNames(db.States); !slices.Equal(got, []string{"vim", "motd"}) || db.States.Get("motd").Function != "file.managed" {
		t.Errorf("states of db-01: %q", got)
	}
	if got := web.States.Get("motd"); got.Function != "file.absent" || got.Pos.File != "settings/web/nginx.yaml" {
		t.Errorf("motd is %+v", got)
	}
	if got := web.States.Get("web").Args.(*state.ServiceRunning); got.Name != "nginx" || got.Enable == nil || !*got.Enable {
		t.Errorf("web is %+v", got)
	}
	values, err := web.Values()
	if err != nil {
		t.Fatal(err)
	}
	found, err := state.FromSettings(values)
	if err != nil || len(found.Broken) > 0 {
		t.Fatal(err)
	}
	set, c := found.Set, found.Compiled
	if !slices.Equal(stateNames(set), stateNames(web.States)) || !reflect.DeepEqual(c, web.Compiled) {
		t.Errorf("the peel reads %q, %+v", stateNames(set), c)
	}
	if got, want := c.Refs, map[string][]string{"common": {"vim", "motd"}, "web.nginx": {"nginx", "/etc/nginx/nginx.conf", "web", "motd"}, "web.site": {"/srv/site", "web"}}; !reflect.DeepEqual(got, want) {
		t.Errorf("files of states: %v", got)
	}
	var paths []string
	for path, f := range p.Contents() {
		paths = append(paths, path)
		sealedAs, sealed, err := p.Sealed(path)
		if err != nil {
			t.Fatal(err)
		}
		sealedAs.Mode = f.Mode
		plain, err := content.Open(f, sealed)
		if want := tree(withStates)[path].Data; err != nil || sealedAs != f || !bytes.Equal(plain, want) {
			t.Errorf("%s is %q, sealed as %+v: %v", path, plain, sealedAs, err)
		}
	}
	slices.Sort(paths)
	if !slices.Equal(paths, []string{"files/nginx.conf", "files/site/css/a.css", "files/site/index.html"}) {
		t.Errorf("contents %q", paths)
	}
	for e, want := range map[*plan.Effective]string{web: "state:web", db: "state:vim"} {
		if !slices.Contains(e.OriginNames(), want) {
			t.Errorf("origins of %q", e.OriginNames())
		}
	}
	if layers := web.Layers("state:web"); len(layers) != 2 || layers[1].Path != "settings/web/site.yaml" {
		t.Errorf("%d files set the state web", len(layers))
	}
}

func TestAnotherOrderOrContentIsAnotherDigest(t *testing.T) {
	c, peels := plan.NewCompiler(), fleet("web-01", "db-01")
	first := compile(t, c, withHashes(tree(withStates)), peels)
	for name, change := range map[string]string{
		"content": "-- files/nginx.conf --\nworkers 2;\n",
		"added":   "-- files/site/b.css --\na {}\n",
		"order":   "-- settings/web/site.yaml --\nstates:\n  web: {service.running: {enable: true}}\n  /srv/site: {file.recurse: {source: files/site}, require: ['file:web.nginx']}\n",
	} {
		changed := compile(t, c, withHashes(edit(tree(withStates), change)), peels)
		if changed.Peels["web-01"].Digest == first.Peels["web-01"].Digest && name != "order" {
			t.Errorf("%s: the same digest", name)
		}
		if changed.Peels["db-01"] != first.Peels["db-01"] {
			t.Errorf("%s: db-01 is compiled again", name)
		}
	}
	same := compile(t, c, withHashes(edit(tree(withStates), "-- files/unused --\nanother\n")), peels)
	if same.Peels["web-01"].Digest != first.Peels["web-01"].Digest {
		t.Error("a content that nobody names changed the digest")
	}
	reordered := edit(tree(withStates), "-- settings/common.yaml --\nstates:\n  motd: {file.managed: {path: /etc/motd, content: hello}}\n  vim: {pkg.installed: }\n")
	if compile(t, c, withHashes(reordered), peels).Peels["db-01"].Digest == first.Peels["db-01"].Digest {
		t.Error("another order has the same digest")
	}
}

func TestOnlyContentsThatChangedAreRead(t *testing.T) {
	c, peels := plan.NewCompiler(), fleet("web-01", "db-01")
	compile(t, c, withHashes(tree(withStates)), peels)
	again := withHashes(tree(withStates))
	compile(t, c, again, peels)
	changed := withHashes(edit(tree(withStates), "-- files/nginx.conf --\nworkers 2;\n"))
	compile(t, c, changed, peels)
	if *again.Reads != 0 || *changed.Reads != 1 {
		t.Errorf("read %d files of the same revision, and %d where one changed", *again.Reads, *changed.Reads)
	}
}

func TestContentsAreRememberedThroughRevisionsOfSettingsAlone(t *testing.T) {
	c, peels := plan.NewCompiler(), fleet("web-01", "db-01")
	m := edit(tree(withStates), "-- top.yaml --\nbase: {'*': [common], 'web-*': [web.nginx, web.site], 'db-*': [db]}\n")
	for i := range 5 {
		m = edit(m, fmt.Sprintf("-- settings/db.yaml --\nrevision: %d\n", i))
		compile(t, c, withHashes(m), peels)
	}
	m = edit(m, "-- settings/db.yaml --\nstates:\n  /etc/x: {file.managed: {source: files/unused}}\n")
	compile(t, c, withHashes(m), peels)
	changed := withHashes(edit(m, "-- files/nginx.conf --\nworkers 2;\n"))
	p := compile(t, c, changed, peels)
	if *changed.Reads != 1 || len(p.Contents()) != 4 {
		t.Errorf("read %d files where one content changed", *changed.Reads)
	}
}

func TestStatesThatAreRefused(t *testing.T) {
	link := func(m fstest.MapFS) {
		m["files/nginx.conf"] = &fstest.MapFile{Mode: fs.ModeSymlink, Data: []byte("/etc/shadow")}
	}
	for name, c := range map[string]struct {
		change string
		also   func(fstest.MapFS)
		want   string
	}{
		"reserved key":       {change: "-- settings/common.yaml --\n_states: {order: []}\n", want: "settings/common.yaml:1:1: _states is reserved"},
		"unknown function":   {change: "-- settings/common.yaml --\nstates:\n  vim: {pkg.instaled: {}}\n", want: `settings/common.yaml:2:9: states.vim: there is no function pkg.instaled; did you mean "pkg.installed"?`},
		"unknown argument":   {change: "-- settings/common.yaml --\nstates:\n  vim: {pkg.installed: {verison: '1'}}\n", want: `states.vim.pkg.installed.verison: unknown key; did you mean "version"?`},
		"unknown requisite":  {change: "-- settings/web/site.yaml --\nstates:\n  x: {cmd.run: {command: 'true'}, require: [ngnix]}\n", want: `settings/web/site.yaml:2:45: states.x.require: there is no state "ngnix"; did you mean "nginx"?`},
		"cycle":              {change: "-- settings/web/site.yaml --\nstates:\n  nginx: {require: [web]}\n", want: "the requisites form a cycle: "},
		"same path":          {change: "-- settings/web/site.yaml --\nstates:\n  other: {file.managed: {path: /etc/nginx/nginx.conf, content: x}}\n", want: "the path /etc/nginx/nginx.conf belongs to the state /etc/nginx/nginx.conf already"},
		"missing source":     {change: "-- settings/web/site.yaml --\nstates:\n  /a: {file.managed: {source: files/nginx.cnf}}\n", want: `settings/web/site.yaml:2:31: states./a: files/nginx.cnf does not exist in the config repo; did you mean "files/nginx.conf"?`},
		"source a directory": {change: "-- settings/web/site.yaml --\nstates:\n  /a: {file.managed: {source: files/site}}\n", want: "states./a: files/site is a directory"},
		"source a file":      {change: "-- settings/web/site.yaml --\nstates:\n  /a: {file.recurse: {source: files/nginx.conf}}\n", want: "states./a: files/nginx.conf is a file"},
		"link":               {also: link, want: "files/nginx.conf is a symbolic link, which is not followed"},
		"LFS":                {change: "-- files/nginx.conf --\nversion https://git-lfs.github.com/spec/v1\noid sha256:00\n", want: "files/nginx.conf is a pointer of Git LFS"},
		"sops in dotenv":     {change: "-- files/nginx.conf --\nPASSWORD=ENC[AES256_GCM,data:a,iv:b,tag:c,type:str]\nsops_version=3.9.0\n", want: "files/nginx.conf has values that sops encrypted, but is no YAML or JSON of sops"},
		"sops in ini":        {change: "-- files/nginx.conf --\n[db]\npassword = ENC[AES256_GCM,data:a,iv:b,tag:c,type:str]\n\n[sops]\nversion = 3.9.0\n", want: "encrypt the file as a whole: sops encrypt --input-type binary"},
		"large": {also: func(m fstest.MapFS) {
			m["files/site/index.html"] = &fstest.MapFile{Data: make([]byte, content.MaxFile+1)}
		}, want: "files/site/index.html has 8388609 bytes, the limit is 8388608"},
		"a template that another state writes as it is": {
			change: "-- settings/web/site.yaml --\nstates:\n  a: {file.managed: {path: /etc/a, source: files/odd}}\n  b: {file.managed: {path: /etc/b, source: files/odd, template: true}}\n-- files/odd --\n{{#a}}\n",
			want:   "states.b: files/odd is no template",
		},
		"template":      {change: "-- files/nginx.conf --\nworkers {{#a}}\n", want: "files/nginx.conf is no template: files/nginx.conf:1:"},
		"near the root": {change: "-- settings/common.yaml --\nstates:\n  /usr/lib: {file.absent: {}}\n", want: "too near the root"},
		"no function":   {change: "-- settings/common.yaml --\nstates:\n  vim: {require: []}\n", want: "settings/common.yaml:2:3: states.vim: no function"},
	} {
		m := edit(tree(withStates), c.change)
		if c.also != nil {
			c.also(m)
		}
		_, err := plan.NewCompiler().Compile(m, fleet("web-01", "db-01"))
		var refused *plan.Error
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v\nwant %s", name, err, c.want)
		}
	}
}

func TestASecretContentIsShownToNobody(t *testing.T) {
	w := sopstest.New(t)
	files := secretTop + "-- settings/all.yaml --\nstates:\n  /etc/key: {file.managed: {source: files/key, mode: '0600'}}\n-- files/key --\n" + w.Encrypt("^data$", "data: a-private-key\n")
	p := compile(t, identified(t, w.Identities), tree(files), fleet("web-01"))
	e := p.Peels["web-01"]
	f := e.Compiled.Files["files/key"]
	if err := f.Check(); err != nil {
		t.Fatal(err)
	}
	for name, hidden := range map[string]string{"key": f.Key, "hash": f.SHA256, "content": "a-private-key"} {
		if bytes.Contains(e.Settings, []byte(hidden)) {
			t.Errorf("the settings show the %s", name)
		}
	}
	if _, ok := e.Secret(); !ok {
		t.Error("the settings count as open")
	}
	if public, _ := content.Seal([]byte("a-private-key"), nil); public.Blob == f.Blob || public.Key == f.Key {
		t.Error("who guesses the content can compute its key")
	}
	_, sealed, err := p.Sealed("files/key")
	if err != nil {
		t.Fatal(err)
	}
	if plain, err := content.Open(f, sealed); err != nil || string(plain) != "a-private-key" {
		t.Errorf("%q, %v", plain, err)
	}
	if data, secret, err := e.Content("files/key"); err != nil || !secret || string(data) != "a-private-key" {
		t.Errorf("%q, %v, %v", data, secret, err)
	}
	masked := compile(t, plan.NewCompiler(), tree(files), fleet("web-01"))
	if _, _, err := masked.Sealed("files/key"); err == nil || !strings.Contains(err.Error(), "files/key is secret and was not decrypted") {
		t.Errorf("without identities: %v", err)
	}
	structured, _, _ := strings.Cut(files, "data:")
	structured += w.Encrypt("^password$", "user: x\npassword: y\n")
	if _, err := identified(t, w.Identities).Compile(tree(structured), fleet("web-01")); err == nil || !strings.Contains(err.Error(), "encrypt it as a whole") {
		t.Errorf("a structured file of sops: %v", err)
	}
}

func BenchmarkStates(b *testing.B) {
	states := strings.Builder{}
	for i := range 50 {
		fmt.Fprintf(&states, "  /etc/f%d: {file.managed: {source: files/nginx.conf}}\n", i)
	}
	m := plantest.WithHashes(edit(tree(withStates), "-- settings/common.yaml --\nstates:\n"+states.String()))
	for b.Loop() {
		c := plan.NewCompiler()
		if _, err := c.Compile(m, fleet("web-01", "db-01")); err != nil {
			b.Fatal(err)
		}
	}
}

// Elements of each come from the merged settings of the peel, and the states that it makes are those of the file.
func TestEachIsExpandedWithTheSettingsOfThePeel(t *testing.T) {
	p := compile(t, plan.NewCompiler(), tree(`
-- top.yaml --
base:
  '*': [web.site]
  'web-*': [web.more]
-- settings/web/site.yaml --
sites: {shop: {port: 8080}}
states:
  site:
    each: settings.sites
    file.managed: {path: "/etc/sites/{{@key}}", content: "port {{@value.port}}"}
  reload: {cmd.run: {command: "true"}, onchanges: ['file:web.site']}
-- settings/web/more.yaml --
sites: {blog: {port: 8081}}
`), fleet("web-01", "db-01"))
	web := p.Peels["web-01"]
	if got, want := stateNames(web.States), []string{"site.shop", "site.blog", "reload"}; !slices.Equal(got, want) {
		t.Errorf("the states of web-01 are %q, want %q", got, want)
	}
	if got, want := stateNames(p.Peels["db-01"].States), []string{"site.shop", "reload"}; !slices.Equal(got, want) {
		t.Errorf("the states of db-01 are %q, want %q", got, want)
	}
	if got := web.Compiled.Refs["web.site"]; !slices.Equal(got, []string{"site.shop", "site.blog", "reload"}) {
		t.Errorf("the states of the file are %q", got)
	}
	if got := web.Layers(settings.StateOrigin + "site.blog"); len(got) != 1 || got[0].Path != "settings/web/site.yaml" {
		t.Errorf("site.blog comes from %v", got)
	}
	values, err := web.Values()
	if err != nil {
		t.Fatal(err)
	}
	blog := values["states"].(map[string]any)["site.blog"].(map[string]any)
	if got := blog["file.managed"].(map[string]any)["content"]; got != "port 8081" || blog["each"] != nil {
		t.Errorf("the peel gets %v", blog)
	}
}
