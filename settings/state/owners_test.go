package state

import (
	"slices"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

func TestTwoStatesMayOwnAThingOfWhichTheySayTheSame(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{text: "curl: {pkg.installed: {}}\nb: {pkg.installed: {name: curl}}"},
		{text: "a: {pkg.installed: {names: [curl, git]}}\nb: {pkg.installed: {names: [curl, jq]}}\ncurl: {pkg.installed: null}"},
		{text: "/srv: {file.directory: {mode: '0755'}}\nb: {file.directory: {mode: '0755', path: /srv}}"},
		{text: "a: {file.managed: {path: /a/b, content: x, vars: {n: 1}, template: true}}\n/a/b: {file.managed: {vars: {n: 1}, template: true, content: x}}"},
		{text: "a: {file.absent: {path: /a/b}}\nb: {file.absent: {path: /a/b}}\nc: {file.absent: {path: /a/b}}"},
		{text: "a: {service.running: {name: nginx}}\nnginx: {service.running: {}}"},
		{text: "a: {host.present: {names: [db, mail], ip: 10.0.0.1}}\ndb: {host.present: {ip: 10.0.0.1}}"},
		{text: "/srv/x: {file.directory: {mode: '755', user: ada}}\nb: {file.recurse: {path: /srv/x, source: files/x, dir_mode: '0755'}}"},
		{text: "b: {file.recurse: {path: /srv/x, source: files/x, user: ada}}\n/srv/x: {file.directory: {user: ada, recurse: [user]}}"},
		{text: "/srv/x: {file.directory: {user: ada}}\na: {pip.installed: {name: x, venv: /srv/x}}\nb: {pip.installed: {name: y, venv: /srv/x}}"},
		{
			"/srv/x: {file.directory: {mode: '0750'}}\nb: {file.recurse: {path: /srv/x, source: files/x, dir_mode: '0755'}}",
			"f.yaml:2:1: states.b: the path /srv/x belongs to the state /srv/x already (f.yaml:1:1), with another function",
		},
		{
			"/srv/x: {file.directory: {user: ada, recurse: [user]}}\nb: {file.recurse: {path: /srv/x, source: files/x}}",
			"f.yaml:2:1: states.b: the path /srv/x belongs to the state /srv/x already (f.yaml:1:1), with another function",
		},
		{
			"/srv/x: {file.directory: {}}\nb: {file.recurse: {path: /srv/x, source: files/x}}\nc: {file.recurse: {path: /srv/x, source: files/y}}",
			"f.yaml:3:1: states.c: the path /srv/x belongs to the state b already (f.yaml:2:1), with other arguments",
		},
		{
			"b: {file.recurse: {path: /srv/x, source: files/x}}\n/srv/x: {file.directory: {mode: '0700'}}\nc: {file.directory: {path: /srv/x, mode: '0755'}}",
			"f.yaml:3:1: states.c: the path /srv/x belongs to the state /srv/x already (f.yaml:2:1), with other arguments",
		},
		{
			"a: {pip.installed: {name: x, venv: /srv/x}}\nb: {archive.extracted: {path: /srv/x, source: files/x.tar}}",
			"f.yaml:2:1: states.b: the path /srv/x/. belongs to the state a already (f.yaml:1:1), with another function",
		},
		{
			"a: {pkg.installed: {name: curl}}\nb: {pkg.installed: {name: curl, version: '8'}}",
			"f.yaml:2:1: states.b: the package curl belongs to the state a already (f.yaml:1:1), with other arguments",
		},
		{
			"a: {pkg.installed: {name: curl}}\nb: {pkg.latest: {name: curl}}",
			"f.yaml:2:1: states.b: the package curl belongs to the state a already (f.yaml:1:1), with another function",
		},
		{
			"/srv: {file.directory: {mode: '0755'}}\nb: {file.directory: {mode: '0750', path: /srv}}",
			"f.yaml:2:1: states.b: the path /srv belongs to the state /srv already (f.yaml:1:1), with other arguments",
		},
		{
			"a: {timezone.system: {name: UTC}}\nb: {timezone.system: {name: Europe/Berlin}}",
			"f.yaml:2:1: states.b: the path /etc/localtime belongs to the state a already (f.yaml:1:1), with other arguments",
		},
	} {
		_, err := Parse(node(t, c.text), Options{})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)) {
			t.Errorf("%s:\n%v, want\n%s", c.text, err, c.want)
		}
	}
}

// TestSecretsOfTwoOwnersAreCompared: a mask may be the same for two secrets.
func TestSecretsOfTwoOwnersAreCompared(t *testing.T) {
	for secret, isRefused := range map[string]bool{"one": false, "two": true} {
		n := node(t, "a: {file.managed: {path: /a/b, content: MASK}}\nb: {file.managed: {path: /a/b, content: MASK}}")
		for name, plain := range map[string]string{"a": "one", "b": secret} {
			content := n.Get(name).Get("file.managed").Get("content")
			*content = strictyaml.Node{Kind: strictyaml.String, Pos: content.Pos, Value: "MASK", Secret: plain}
		}
		if _, err := Parse(n, Options{}); (err != nil) != isRefused {
			t.Errorf("the secrets one and %s: %v", secret, err)
		}
	}
}

func TestAPathComesAfterEachOwnerOfItsDirectory(t *testing.T) {
	set, err := Parse(node(t, `
/srv/x: {file.managed: {content: x, user: ada}}
a: {file.directory: {path: /srv}}
b: {file.directory: {path: /srv}, require: [/srv/x]}
c: {file.directory: {path: /srv}}
ada: {user.present: {}}
other: {user.present: {name: ada}}
`), Options{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range set {
		names = append(names, s.Name)
	}
	if want := []string{"a", "c", "ada", "other", "/srv/x", "b"}; !slices.Equal(names, want) {
		t.Errorf("the order is %v, want %v", names, want)
	}
}

func TestTheSameModeWithAndWithoutAZero(t *testing.T) {
	t.Parallel()
	const text = "a: {file.managed: {path: /x, content: y, mode: '644'}}\nb: {file.managed: {path: /x, content: y, mode: '%s'}}\n"
	if _, err := Parse(node(t, strings.Replace(text, "%s", "0644", 1)), Options{}); err != nil {
		t.Error(err)
	}
	if _, err := Parse(node(t, strings.Replace(text, "%s", "0640", 1)), Options{}); err == nil {
		t.Error("two modes of one file pass")
	}
}

// This is how people who know Salt replace a file by a link.
func TestAFileThatIsRemovedForALink(t *testing.T) {
	t.Parallel()
	_, err := Parse(node(t, "a: {file.absent: {path: /etc/x}}\nb: {file.symlink: {path: /etc/x, target: /y}}\n"), Options{})
	if err == nil || !strings.Contains(err.Error(), "file.symlink with force: true replaces a file, so take file.absent out") {
		t.Error(err)
	}
}

func TestNamesWithBlanks(t *testing.T) {
	t.Parallel()
	set, err := Parse(node(t, "install nginx: {pkg.installed: {name: nginx}}\nweb: {service.running: {name: nginx}, watch: [install nginx]}\n"), Options{})
	if err != nil || set[0].Name != "install nginx" {
		t.Errorf("%v, %v", set, err)
	}
	for _, name := range []string{"' a'", "'a '", "' '", "\"a\\tb\"", "'a: b'"} {
		if _, err := Parse(node(t, name+": {pkg.installed: {name: nginx}}"), Options{}); err == nil {
			t.Errorf("the name %s passes", name)
		}
	}
}
