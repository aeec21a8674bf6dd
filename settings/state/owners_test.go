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
