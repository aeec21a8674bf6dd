package state

import (
	"strings"
	"testing"
)

func TestSourcesFromHTTPS(t *testing.T) {
	t.Parallel()
	sum := strings.Repeat("0123456789abcdef", 4)
	for args, want := range map[string]string{
		"file.managed: {source: 'https://h/f', sha256: " + sum + "}":                 "",
		"file.managed: {source: 'https://h/f?v=1', sha256: " + sum + "}":             "",
		"file.managed: {source: 'https://h/f'}":                                      "sha256 is missing",
		"file.managed: {source: 'http://h/f', sha256: " + sum + "}":                  "must be a file below files/ or an https address",
		"file.managed: {source: 'salt://f', sha256: " + sum + "}":                    "must be a file below files/ or an https address",
		"file.managed: {source: 'https://u:p@h/f', sha256: " + sum + "}":             "must have no user or password",
		"file.managed: {source: 'https://h/f', sha256: ABC}":                         `"ABC" is not a SHA-256`,
		"file.managed: {source: files/f, sha256: " + sum + "}":                       "only for a source from https",
		"file.managed: {source: 'https://h/f', sha256: " + sum + ", template: true}": "only a file of the config repo or content can be a template",
		"archive.extracted: {source: 'https://h/f.tar.gz?x', sha256: " + sum + "}":   "",
		"archive.extracted: {source: files/f.zip}":                                   "",
		"archive.extracted: {source: files/f.rar}":                                   "the name of an archive ends with .tar, .tar.gz, .tgz or .zip",
		"archive.extracted: {source: 'https://h/f.zip'}":                             "sha256 is missing",
		"archive.extracted: {source: files/f.zip, strip: 21}":                        "strip: must be at most 20",
		"archive.extracted: {}":                                                      "source is missing",
	} {
		_, err := Parse(node(t, "/srv/app: {"+args+"}"), Options{})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %s", args, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "u:p") {
			t.Errorf("the error has the password: %v", err)
		}
	}
	set, err := Parse(node(t, `
b: {archive.extracted: {path: /srv/app, source: files/f.zip, user: app}}
c: {file.managed: {path: /srv/app/c, content: x}}
a: {file.directory: {path: /srv/app}}
u: {user.present: {name: app}}
`), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(names(set), " "); got != "a c u b" && got != "a u b c" {
		t.Errorf("the order is %s", got)
	}
	if s := set.Get("b").Sources(); len(s) != 1 || s[0].Path != "files/f.zip" {
		t.Errorf("the sources are %v", s)
	}
}
