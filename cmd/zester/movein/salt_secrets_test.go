package movein

import (
	"encoding/json"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	zstate "github.com/seed-c01c3da5/zester/settings/state"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// secretHost returns a host with declarations of one .sls file, and the pillar {"app": {"password": "swordfish1"}}.
func secretHost(t *testing.T, declarations string) Minion {
	t.Helper()
	h := low(t, "["+strings.ReplaceAll(declarations, "{", `{"__sls__": "s", `)+"]")
	h.Pillar = map[string]any{"app": map[string]any{"password": "swordfish1\n"}}
	return h
}

// wantNone fails if a file of the repo has one of the texts, in its path or its content.
func wantNone(t *testing.T, r SaltResult, texts ...string) {
	t.Helper()
	for name, content := range r.Files {
		for _, text := range texts {
			if strings.Contains(name+"\n"+string(content), text) {
				t.Errorf("%s has %q:\n%s", name, text, content)
			}
		}
	}
}

// A secret may be in the ID of a state, in keys of a declaration, in a number, and in the pillar of another host only.
func TestNoPartOfADeclarationTakesASecretIntoTheRepo(t *testing.T) {
	t.Parallel()
	h := secretHost(t, `
		{"__id__": "mysql -pswordfish1", "name": "mysql -pswordfish1", "state": "cmd", "fun": "run"},
		{"__id__": "a", "name": "a", "state": "x", "fun": "y", "keys of swordfish1": 1, "pin": 12345678},
		{"__id__": "/b", "name": "/b", "state": "file", "fun": "managed", "contents": "x", "mode": "swordfish1"},
		{"__id__": "/c", "name": "/c", "state": "file", "fun": "managed", "contents": "swordfish1-and-more"}`)
	other := Minion{ID: "other", Pillar: map[string]any{
		"schedule": map[string]any{
			"swordfish1": map[string]any{"function": "swordfish1"},
			"dump":       map[string]any{"function": "cmd.run", "args": []any{"dump swordfish1"}, "hours": json.Number("1")},
		},
		"passwords": []any{"swordfish1-and-more", json.Number("12345678")},
	}}
	r, err := Salt(SaltInput{Hosts: []Minion{h, other}, Now: begin})
	if err != nil {
		t.Fatal(err)
	}
	wantNone(t, r, "swordfish1", "12345678", "and-more")
	if text := string(r.Files["settings/s.yaml"]); !strings.Contains(text, "mysql -p-hidden:") {
		t.Errorf("the state of the command has another name:\n%s", text)
	}
	for _, row := range r.Refused {
		if strings.Contains(row.Reason, "swordfish1") {
			t.Errorf("the report has a secret: %s", row.Reason)
		}
	}
}

// The name of an .sls file is a path in the repo and a word of the top file.
func TestTheNameOfAnSLSFileTakesNoSecretIntoTheRepo(t *testing.T) {
	t.Parallel()
	h := secretHost(t, `{"__id__": "/a", "name": "/a", "state": "file", "fun": "absent"}`)
	h.Low[0].SLS = "vault.swordfish1"
	r, err := Salt(SaltInput{Hosts: []Minion{h}})
	if err != nil {
		t.Fatal(err)
	}
	wantNone(t, r, "swordfish1")
}

// Each value below a name of secrets is secret, whatever its own name is.
func TestValuesBelowASecretAreSecret(t *testing.T) {
	t.Parallel()
	pillar := map[string]any{"passwords": map[string]any{"shop": map[string]any{"db": "swordfish1", "max_tokens": json.Number("100000")}}, "port": "swordfish2"}
	if s := pillarSecrets([]Minion{{Pillar: pillar}}); !slices.Equal(s, secrets{"swordfish1"}) {
		t.Errorf("the secrets are %q", s)
	}
}

// Another text of the same path and length has a path of its own, the same text has one.
func TestCopiesOfOnePath(t *testing.T) {
	t.Parallel()
	c := &conversion{source: &sources{copied: map[string][]byte{"files/a": []byte("one")}}, files: map[string][]byte{}}
	same, _ := c.add("files", "a", []byte("one"))
	other, _ := c.add("files", "a", []byte("two"))
	if same != "files/a" || other == same || string(c.files[other]) != "two" {
		t.Errorf("the copies are %s and %s", same, other)
	}
}

// Where a secret is a part of another, no rest of the longer one is left.
func TestTheLongestSecretIsMaskedFirst(t *testing.T) {
	t.Parallel()
	for range 20 {
		s := pillarSecrets([]Minion{{Pillar: map[string]any{"passwords": []any{"abcdef", "abcdefgh", "xabcdefghx"}}}})
		if got := s.mask("run xabcdefghx abcdefgh abcdef"); got != "run (hidden) (hidden) (hidden)" {
			t.Fatalf("the text became %q", got)
		}
	}
}

// A token after a newline has the shape of a token.
func TestAShapeIsFoundOnEachLine(t *testing.T) {
	t.Parallel()
	if !(secrets{}).in(map[string]any{"k": []string{"a\nAKIA0123456789ABCDEF"}}) {
		t.Error("a key of AWS on the second line is not found")
	}
}

// A template, a key of a repository and a directory are not copied if they have a secret. Nor is a file of a state that
// is refused.
func TestFilesWithSecretsAreNotCopied(t *testing.T) {
	t.Parallel()
	roots := fstest.MapFS{
		"t.conf":   {Data: []byte("pw=swordfish1 {{ who }}\n")},
		"key.asc":  {Data: []byte("swordfish1\n")},
		"d/secret": {Data: []byte("swordfish1\n")},
		"d/a":      {Data: []byte("a\n")},
		"refused":  {Data: []byte("b\n")},
	}
	h := secretHost(t, `
		{"__id__": "/t", "name": "/t", "state": "file", "fun": "managed", "source": "salt://t.conf", "template": "jinja"},
		{"__id__": "k", "name": "deb http://e.org x main", "state": "pkgrepo", "fun": "managed",
			"key_url": "salt://key.asc"},
		{"__id__": "/d", "name": "/d", "state": "file", "fun": "recurse", "source": "salt://d"},
		{"__id__": "/r", "name": "/r", "state": "file", "fun": "managed", "source": "salt://refused", "attrs": "i"}`)
	h.Low[0].args["context"] = map[string]any{"who": "me"}
	r, err := Salt(SaltInput{Hosts: []Minion{h}, Roots: []fs.FS{roots}})
	if err != nil {
		t.Fatal(err)
	}
	wantNone(t, r, "swordfish1")
	if names := slices.Sorted(maps.Keys(r.Files)); !slices.Equal(names, []string{"peels.yaml", "settings/s.yaml", "top.yaml"}) {
		t.Errorf("the repo has %v", names)
	}
	if text := string(r.Secrets["settings/secrets/s.yaml"]); !strings.Contains(text, "pw=swordfish1 {{vars.who}}") {
		t.Errorf("the template is not in the secrets:\n%s", text)
	}
	if len(r.Refused) != 3 {
		t.Errorf("%d refusals: %v", len(r.Refused), r.Refused)
	}
}

// Lint checks each settings file alone, and vars are an error without template.
func TestASecretOfATemplateIsInVarsThatLintAccepts(t *testing.T) {
	t.Parallel()
	roots := fstest.MapFS{"t.sh": {Data: []byte("PW={{ pillar['app']['password'] }}\n")}}
	h := secretHost(t, `
		{"__id__": "/t", "name": "/t", "state": "file", "fun": "managed", "source": "salt://t.sh", "template": "jinja"}`)
	h.Pillar = map[string]any{"app": map[string]any{"password": "swordfish1"}}
	r, err := Salt(SaltInput{Hosts: []Minion{h}, Roots: []fs.FS{roots}})
	if err != nil || len(r.Refused) > 0 {
		t.Fatal(r.Refused, err)
	}
	wantNone(t, r, "swordfish1")
	const file = "settings/secrets/s.yaml"
	doc, err := strictyaml.Parse(file, r.Secrets[file])
	if err == nil {
		_, err = zstate.Parse(doc.Get(zstate.Key), zstate.Options{})
	}
	if err != nil && strings.Contains(err.Error(), "template") {
		t.Errorf("%v in\n%s", err, r.Secrets[file])
	}
	if text := string(r.Files["settings/s.yaml"]); !strings.Contains(text, "template: true") {
		t.Errorf("the state is no template:\n%s", text)
	}
}

// A directory is copied as Salt serves it. A template that is in it too becomes a text in another folder.
func TestATemplateIsNotWrittenIntoACopiedDirectory(t *testing.T) {
	t.Parallel()
	const template = "hello {{ who }}\n"
	first := fstest.MapFS{"d/t": {Data: []byte(template)}, "converted/x": {Data: []byte("x")}}
	second := fstest.MapFS{"d/t": {Data: []byte("not served")}, "d/u": {Data: []byte("u\n")}}
	h := secretHost(t, `
		{"__id__": "/t", "name": "/t", "state": "file", "fun": "managed", "source": "salt://d/t", "template": "jinja"},
		{"__id__": "/d", "name": "/d", "state": "file", "fun": "recurse", "source": "salt://d"}`)
	h.Low[0].args["context"] = map[string]any{"who": "me"}
	r, err := Salt(SaltInput{Hosts: []Minion{h}, Roots: []fs.FS{first, second}})
	if err != nil || len(r.Refused) > 0 {
		t.Fatal(err, r.Refused)
	}
	for name, want := range map[string]string{
		"files/d/t": template, "files/d/u": "u\n", "files/converted-2/d/t": "hello {{vars.who}}\n",
	} {
		if got := string(r.Files[name]); got != want {
			t.Errorf("%s has %q, want %q", name, got, want)
		}
	}
}

// An .sls file may have the name that the secrets of another one get.
func TestSecretsNeverReplaceASettingsFile(t *testing.T) {
	t.Parallel()
	for _, order := range [][]string{{"app", "secrets.app"}, {"secrets.app", "app"}} {
		var all []string
		for _, sls := range order {
			all = append(all, `{"__sls__": "`+sls+`", "__id__": "/`+sls+`", "name": "/`+sls+
				`", "state": "file", "fun": "managed", "contents": "swordfish1"}`)
		}
		h := low(t, "["+strings.Join(all, ",")+"]")
		h.Pillar = map[string]any{"password": "swordfish1"}
		r, err := Salt(SaltInput{Hosts: []Minion{h}})
		if err != nil {
			t.Fatal(err)
		}
		for name := range r.Secrets {
			if r.Files[name] != nil {
				t.Errorf("%v: %s is a settings file, and secrets too", order, name)
			}
		}
		if len(r.Files) != 4 || len(r.Secrets) != 2 {
			t.Errorf("%v: %d files and %d with secrets", order, len(r.Files), len(r.Secrets))
		}
	}
}

// Salt runs no job of a schedule that has enabled: false.
func TestAScheduleThatIsSwitchedOffStaysSo(t *testing.T) {
	t.Parallel()
	h := Minion{ID: "h", Pillar: map[string]any{"schedule": map[string]any{
		"enabled": false,
		"ping":    map[string]any{"function": "test.ping", "minutes": json.Number("30"), "enabled": true},
	}}}
	r, err := Salt(SaltInput{Hosts: []Minion{h}, Now: begin})
	if err != nil {
		t.Fatal(err)
	}
	if text := string(r.Files["settings/salt-schedule.yaml"]); !strings.Contains(text, "enabled: false") {
		t.Errorf("the entry is active:\n%s", text)
	}
}

// The comment of a declaration that is not converted has what a person must write again, but no secret.
func TestWhatACommentHides(t *testing.T) {
	t.Parallel()
	h := secretHost(t, `{"__id__": "a", "name": "a", "state": "x", "fun": "y", "exclude_pat": "E@x", "hash_password": true, "sections": {"PasswordAuthentication": "no", "password": "yes-I-am"}, "contents": "%ops ALL=(ALL) NOPASSWD: ALL", "pattern": "^pass=.*", "text": ["PasswordAuthentication: no", "auth_token=on; password=offhand", "password: no"], "api_key": 12, "github_pat": "ghp-abc", "db_password": "no more lies", "conf": ["password: \"on the sly\"", "password: 'off we go'"]}`)
	r, err := Salt(SaltInput{Hosts: []Minion{h}})
	if err != nil {
		t.Fatal(err)
	}
	text := string(r.Files["settings/s.yaml"])
	for _, want := range []string{
		`"exclude_pat":"E@x"`, `"hash_password":true`, `"PasswordAuthentication":"no"`, `"PasswordAuthentication: no"`, "auth_token=on; ",
		`"%ops ALL=(ALL) NOPASSWD: ALL"`, `"^pass=.*"`,
		"password=(hidden)", `"password":"(hidden)"`, `"api_key":"(hidden)"`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %s in\n%s", want, text)
		}
	}
	wantNone(t, r, "offhand", "I-am", "ghp-abc", "more lies", "the sly", "we go")
}
