package state

import (
	"slices"
	"strings"
	"testing"
)

func TestNamesMakeAStateForEach(t *testing.T) {
	t.Parallel()
	x, err := expanded(t, `
units: [a, b]
sites: {shop: {dirs: [/srv/a, /srv/b]}, blog: {dirs: []}}
states:
  first: {cmd.run: {command: "true"}, onchanges: [dirs]}
  dirs: {file.directory: {names: [/etc/a, /etc/b], mode: "0750"}}
  units: {service.running: {names: [nginx, 7], enable: true}, require: [dirs]}
  tools: {pkg.installed: {names: [git, curl]}}
  shells: {cmd.run: {names: ["echo a > /a", "true"]}}
  below: {each: settings.sites, file.directory: {names: "{{@value.dirs}}"}}
`)
	if err != nil {
		t.Fatal(err)
	}
	set, err := Parse(x.States, Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"dirs./etc/a", "dirs./etc/b", "first", "units.nginx", "units.7", "tools", "shells.1", "shells.true",
		"below.shop./srv/a", "below.shop./srv/b",
	}
	if got := names(set); !slices.Equal(got, want) {
		t.Errorf("the states are %v, want %v", got, want)
	}
	if a := set.Get("dirs./etc/b").Args.(*FileDirectory); a.Path != "/etc/b" || a.Mode != "0750" {
		t.Errorf("the directory is %+v", a)
	}
	if a := set.Get("units.7").Args.(*ServiceRunning); a.Name != "7" || a.Enable == nil {
		t.Errorf("the service is %+v", a)
	}
	if a := set.Get("shells.1").Args.(*CmdRun); a.Command != "echo a > /a" {
		t.Errorf("the command is %+v", a)
	}
	if got := set.Get("units.nginx").Require; !slices.Equal(got, []string{"dirs./etc/a", "dirs./etc/b"}) {
		t.Errorf("the requisites are %v", got)
	}
	if got := x.Source["below.shop./srv/a"]; got != "below" {
		t.Errorf("the source is %q", got)
	}
}

func TestNamesRefuse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{d: {file.absent: {names: [/a], path: /b}}}":              "states.d.file.absent.names: give path or names, not both",
		"{d: {file.absent: {names: /a}}}":                          "states.d.file.absent.names: must be a list, not a string (/a)",
		"{d: {file.absent: {names: [/a, /a]}}}":                    `"/a" is given twice`,
		"{d: {file.absent: {names: [{a: b}]}}}":                    "must be a text",
		"{d: {file.absent: {names: [/a]}}, d./a: {cmd.run: {}}}":   "it makes the state d./a, and there is another one of this name",
		"{d: {file.absent: {names: [" + manyNames(201) + "]}}}":    "201 names; one state has at most 200",
		"{d: {file.directory: {names: [/a], mod: '0755'}}}":        `did you mean "mode"`,
		"{d: {file.managed: {names: [relative], content: hello}}}": `"relative" is not an absolute path`,
	} {
		doc := node(t, "states: "+text)
		err := CheckFields(doc.Get(Key))
		if err == nil {
			var x Expanded
			if x, err = Expand(doc.Get(Key), doc); err == nil {
				_, err = Parse(x.States, Options{})
			}
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %s", text, err, want)
		}
	}
}

func manyNames(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = "/" + strings.Repeat("a", i+1)
	}
	return strings.Join(list, ", ")
}
