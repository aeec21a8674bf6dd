package lint_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/plan/lint"
	"github.com/seed-c01c3da5/zester/settings/sops"
	"github.com/seed-c01c3da5/zester/settings/sops/sopstest"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// of is text of a length that holds no word of its own.
func of(length int) string { return strings.Repeat("A2", length)[:length] }

func TestSecretsInPlainText(t *testing.T) {
	const named = "a secret"
	for _, c := range []struct{ name, text, at, what string }{ // what is empty for no warning
		{"a password", "password: hunter2", "a.yaml:1:11: password", named},
		{"the shortest that counts", "password: hunter", "a.yaml:1:11: password", named},
		{"one character less", "password: hunte", "", ""},
		{"below other keys", "db:\n  admin:\n    passwd: hunter2", "a.yaml:3:13: db.admin.passwd", named},
		{"with something before", "DB_PASSWORD: hunter2", "a.yaml:1:14: DB_PASSWORD", named},
		{"with nothing between", "PGPASSWORD: hunter2", "a.yaml:1:13: PGPASSWORD", named},
		{"with a dash", "api-key: hunter2", "a.yaml:1:10: api-key", named},
		{"with a capital", "clientSecret: hunter2", "a.yaml:1:15: clientSecret", named},
		{"a number", "password: 12345678", "a.yaml:1:11: password", named},
		{"a phrase", "passphrase: correct horse battery staple", "a.yaml:1:13: passphrase", named},
		{"a hash, which can be tried", "password: $6$rounds=5000$salt$hash", "a.yaml:1:11: password", named},
		{"a private key by name", "private_key: MIGHAgEAMBMGByqGSM49", "a.yaml:1:14: private_key", named},
		{"one of a list", "tokens: [short, hunter2]", "a.yaml:1:17: tokens[1]", named},
		{"one of a list under one name", "token: [hunter2]", "a.yaml:1:9: token[0]", named},
		{"one of many by name", "passwords: {ada: hunter2}", "a.yaml:1:18: passwords.ada", named},
		{"the environment of an entry", "schedule: {e: {module: cmd.run, interval: 1h, args: {command: a, env: {TOKEN: hunter2}}}}", "a.yaml:1:79: schedule.e.args.env.TOKEN", named},

		{"nothing", "password: ''", "", ""},
		{"null", "password: null", "", ""},
		{"a boolean", "password: true", "", ""},
		{"a short word", "password: none", "", ""},
		{"a few characters of several bytes", "password: äöüäö", "", ""},
		{"a word", "secret: required", "", ""},
		{"a file", "password: file:/run/secrets/db", "", ""},
		{"a path", "private_key: /etc/ssl/private/web.pem", "", ""},
		{"a path from here", "private_key: ./web.pem", "", ""},
		{"a variable", "token: ${TOKEN}", "", ""},
		{"a variable in a text", "token: Bearer ${TOKEN}", "", ""},
		{"a variable of the shell", "token: $GITHUB_TOKEN", "", ""},
		{"a command of the shell", "token: $(cat /run/token)", "", ""},
		{"a template", "token: '{{ vault.token }}'", "", ""},
		{"something to fill in", "token: <your token>", "", ""},
		{"a secret of a vault", "token: vault:kv/db#password", "", ""},
		{"an address", "token: https://login.example.org/token", "", ""},
		{"stars", "password: '********'", "", ""},
		{"a value of sops", "password: ENC[AES256_GCM,data:abc=,type:str]", "", ""},
		{"the name of a secret", "secret_name: web-tls-2026", "", ""},
		{"its file", "password_file: db-password", "", ""},
		{"how long it lasts", "token_ttl: 86400000", "", ""},
		{"the user of credentials", "credentials: {user: postgres}", "", ""},
		{"a number of tokens", "max_tokens: 128000", "", ""},
		{"a public key", "public_key: ssh-ed25519", "", ""},
		{"a bypass", "bypass: everything", "", ""},
		{"settings of a secret", "secret: {name: web-tls-2026, namespace: default}", "", ""},
		{"settings of one of many", "secrets: [{name: web-tls-2026}]", "", ""},

		{"a key", "a: |\n  -----BEGIN OPENSSH PRIVATE KEY-----\n  b3Blbn", "a.yaml:1:4: a", "a private key"},
		{"a key of PGP", "a: ['-----BEGIN PGP PRIVATE KEY BLOCK-----']", "a.yaml:1:5: a[0]", "a private key"},
		{"a certificate", "a: '-----BEGIN CERTIFICATE-----'", "", ""},
		{"an identity of age", "a: AGE-SECRET-KEY-1" + of(58), "a.yaml:1:4: a", "an identity of age"},
		{"a recipient of age", "a: age1" + of(58), "", ""},
		{"a seed", "a: SU" + of(56), "a.yaml:1:4: a", "a seed of NATS"},
		{"its public key", "a: UA" + of(54), "", ""},
		{"zester's own", "a: zester.ci." + of(43), "a.yaml:1:4: a", "a token of zester"},
		{"a subject", "a: zester.cmd.web-01", "", ""},
		{"AWS", "a: AKIA" + of(16), "a.yaml:1:4: a", "an access key of AWS"},
		{"within a word", "a: XAKIA" + of(16), "", ""},
		{"GitHub", "a: ghp_" + of(36), "a.yaml:1:4: a", "a token of GitHub"},
		{"GitHub, fine-grained", "a: github_pat_" + of(30), "a.yaml:1:4: a", "a token of GitHub"},
		{"GitLab", "a: glpat-" + of(20), "a.yaml:1:4: a", "a token of GitLab"},
		{"the shortest of all", "a: xoxb-" + of(10), "a.yaml:1:4: a", "a token of Slack"},
		{"Slack", "a: xoxb-" + of(12), "a.yaml:1:4: a", "a token of Slack"},
		{"Stripe", "a: sk_live_" + of(24), "a.yaml:1:4: a", "a key of Stripe"},
		{"Google", "a: AIza" + of(35), "a.yaml:1:4: a", "a key of Google"},
		{"Vault", "a: hvs." + of(24), "a.yaml:1:4: a", "a token of Vault"},
		{"npm", "a: npm_" + of(36), "a.yaml:1:4: a", "a token of npm"},
		{"a JWT", "a: eyJ" + of(10) + ".eyJ" + of(10) + "." + of(10), "a.yaml:1:4: a", "a signed token (JWT)"},
		{"in a command", "a: curl -u ci:glpat-" + of(20) + " localhost", "a.yaml:1:4: a", "a token of GitLab"},
		{"where the name says it too", "token: glpat-" + of(20), "a.yaml:1:8: token", "a token of GitLab"},
		{"a reference that holds one", "token: https://example.org/?t=glpat-" + of(20), "a.yaml:1:8: token", "a token of GitLab"},
		{"a key that is one", "users: {glpat-" + of(20) + ": {name: Ada}}", "a.yaml:1:9: users.•••", "a token of GitLab"},
		{"a URL with a password", "a: postgres://app:hunter2@db/app", "a.yaml:1:4: a", "a password in a URL"},
		{"a URL with a variable", "a: postgres://app:${PASSWORD}@db/app", "", ""},
		{"a URL with a port", "a: postgres://db:543200/app", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			doc, err := strictyaml.Parse("a.yaml", []byte(c.text))
			if err != nil {
				t.Fatal(err)
			}
			var want string
			if c.what != "" {
				want = c.at + ": it looks like " + c.what + " in plain text; encrypt it with sops"
			}
			if got := lint.New(lint.Options{}).Secrets([]*strictyaml.Node{doc}).Error(); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}

// Files of sops are left alone, with and without an identity; what is not encrypted is searched, whether it is used or not.
func TestFilesThatAreSearchedForSecrets(t *testing.T) {
	w := sopstest.New(t)
	tree := fstest.MapFS{
		"top.yaml":             {Data: []byte("base: {'*': [sealed, plain]}")},
		"settings/sealed.yaml": {Data: []byte(w.Encrypt("password", "password: hunter2-sealed\ntoken: hunter2-beside\n"))},
		"settings/plain.yaml":  {Data: []byte("password: hunter2-plain\n")},
		"settings/unused.yaml": {Data: []byte("password: hunter2-unused\n")},
	}
	p, err := plan.NewCompiler().Check(tree)
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, e := range lint.New(lint.Options{From: from}).Secrets(p.PlainFiles()) {
		files = append(files, e.Pos.File)
		if strings.Contains(e.Error(), "hunter2") {
			t.Errorf("the secret is in %q", e.Error())
		}
	}
	if got := strings.Join(files, " "); got != "settings/plain.yaml settings/unused.yaml" {
		t.Errorf("%q", got)
	}
}

// TestLintSaysWhatItCannotCheck has one file of sops, once without an identity and once with it.
func TestLintSaysWhatItCannotCheck(t *testing.T) {
	w := sopstest.New(t)
	tree := fstest.MapFS{
		"top.yaml":             {Data: []byte("base: {'*': [sealed, plain]}")},
		"settings/sealed.yaml": {Data: []byte(w.Encrypt("password", "password: hunter2-sealed\n"))},
		"settings/plain.yaml":  {Data: []byte("a: 1\n")},
	}
	ring, err := sops.ReadRing(w.Identities)
	if err != nil {
		t.Fatal(err)
	}
	blind, seeing := plan.NewCompiler(), plan.NewCompiler()
	seeing.UseRing(ring)
	for c, want := range map[*plan.Compiler]string{
		blind:  "settings/sealed.yaml: the MAC was not checked, because there is no identity here; a master checks it",
		seeing: "",
	} {
		p, err := c.Check(tree)
		if err != nil {
			t.Fatal(err)
		}
		if got := lint.Unchecked(p).Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
