package state

import (
	"strings"
	"testing"
)

func TestPackagesOfPython(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"venv: /srv/venv": "",
		"name: 'requests[socks]==2.32.3', venv: /srv/venv":           "",
		"name: 'requests>=2', venv: /srv/venv":                       "write NAME or NAME==VERSION",
		"name: '-r x', venv: /srv/venv":                              "write NAME or NAME==VERSION",
		"name: x":                                                    "venv is missing",
		"name: x, venv: /usr":                                        "too near the root",
		"name: x, venv: /v/v, index: 'http://h/simple'":              "must be an https address",
		"name: x, venv: /v/v, index: 'https://u:p@h/'":               "must be an https address",
		"name: x, venv: /v/v, index: 'https://h', find_links: /srv":  "give index or find_links, not both",
		"names: [], venv: /v/v":                                      "the list is empty",
		"name: x, venv: /v/v, index: 'https://h/simple', user: root": "",
	} {
		_, err := Parse(node(t, "requests: {pip.installed: {"+args+"}}"), Options{})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %s", args, err, want)
		}
	}
	_, err := Parse(node(t, "a: {pip.installed: {name: A_b==1, venv: /v/v}}\nb: {pip.installed: {name: a.B==2, venv: /v/v}}"), Options{})
	if err == nil || !strings.Contains(err.Error(), "the Python package a-b in /v/v belongs to the state a already") {
		t.Error(err)
	}
}
