package plan_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nkeys"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/plan/diff"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/sops"
	"github.com/seed-c01c3da5/zester/settings/sops/sopstest"
)

const (
	secretTop  = "-- top.yaml --\nbase:\n  '*': [all]\n"
	secretFile = `db:
  password: correct-horse
  host: db.example.com
schedule:
  backup:
    module: cmd.run
    interval: 1h
    args: {command: backup, env: {TOKEN: s3cr3t-token}}
  other: {module: test.ping, interval: 2h}
`
	secretKeys = "^(password|TOKEN)$"
)

func identified(t *testing.T, files ...string) *plan.Compiler {
	t.Helper()
	ring, err := sops.ReadRing(files...)
	if err != nil {
		t.Fatal(err)
	}
	c := plan.NewCompiler()
	c.UseRing(ring)
	return c
}

func withSecrets(text string) string { return secretTop + "-- settings/all.yaml --\n" + text }

func TestSecretsAreOnlyInTheSeal(t *testing.T) {
	w := sopstest.New(t)
	e := compile(t, identified(t, w.Identities), tree(withSecrets(w.Encrypt(secretKeys, secretFile))), fleet("web-01")).Peels["web-01"]
	for _, secret := range []string{"correct-horse", "s3cr3t-token"} {
		if bytes.Contains(e.Settings, []byte(secret)) || bytes.Contains(e.Schedule["backup"].Canonical(), []byte(secret)) {
			t.Errorf("%s is shown", secret)
		}
	}
	if n := bytes.Count(e.Settings, []byte(sops.Shown)); n != 2 {
		t.Errorf("%d secrets are stood for", n)
	}
	if at, ok := e.Secret(); !ok || at.File != "settings/all.yaml" || at.Line != 2 {
		t.Errorf("a secret stands at %v", at)
	}
	if db := unsealed(t, e)["db"].(map[string]any); db["password"] != "correct-horse" || db["host"] != "db.example.com" {
		t.Errorf("%v", db)
	}
}

// unsealed are settings as their peel reads them from the sealed document.
func unsealed(t *testing.T, e *plan.Effective) map[string]any {
	t.Helper()
	peel, err := nkeys.CreateCurveKeys()
	if err != nil {
		t.Fatal(err)
	}
	to, err := peel.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	sealer, err := settings.NewSealer()
	if err != nil {
		t.Fatal(err)
	}
	doc := e.Document("web-01", "c1", 1, nil)
	if err := e.Seal(doc, sealer, settings.Key(to)); err != nil {
		t.Fatal(err)
	}
	raw, err := doc.Open(peel)
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := canon.Unmarshal(raw, &values); err != nil {
		t.Fatal(err)
	}
	return values
}

// The repo in examples was encrypted by sops itself, to an identity that serves tests alone.
func TestTheExampleOfASecret(t *testing.T) {
	repo := os.DirFS("../../examples/secrets")
	identity := func(name string) string { // Git keeps no modes, and one that others may read is refused
		data, err := os.ReadFile("../../settings/sops/testdata/" + name)
		private := filepath.Join(t.TempDir(), name)
		if err == nil {
			err = os.WriteFile(private, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		return private
	}
	e := compile(t, identified(t, identity("first.txt")), repo, fleet("db-01")).Peels["db-01"]
	const password = "correct horse battery staple"
	args := unsealed(t, e)["schedule"].(map[string]any)["backup"].(map[string]any)["args"].(map[string]any)
	if got := args["env"].(map[string]any)["PGPASSWORD"]; got != password {
		t.Errorf("the peel reads %q", got)
	}
	if bytes.Contains(e.Settings, []byte(password)) || !bytes.Contains(e.Settings, []byte("db.example.org")) {
		t.Errorf("what is shown: %q", e.Settings)
	}
	if _, err := identified(t, identity("second.txt")).Compile(repo, fleet("db-01")); err == nil || !strings.Contains(err.Error(), "is an identity of the master") {
		t.Errorf("another identity: %v", err)
	}
}

func TestAChangedSecretChangesTheDigestAndTheEntryThatUsesIt(t *testing.T) {
	w := sopstest.New(t)
	c, ix := identified(t, w.Identities), fleet("web-01")
	before := compile(t, c, tree(withSecrets(w.Encrypt(secretKeys, secretFile))), ix)
	same := compile(t, identified(t, w.Identities), tree(withSecrets(w.Encrypt(secretKeys, secretFile))), ix)
	if before.Peels["web-01"].Digest != same.Peels["web-01"].Digest {
		t.Error("the digest of equal settings differs")
	}
	after := compile(t, c, tree(withSecrets(w.Encrypt(secretKeys, strings.Replace(secretFile, "s3cr3t-token", "another-token", 1)))), ix)
	d, err := diff.Make(diff.Of(before), after)
	if err != nil {
		t.Fatal(err)
	}
	if d.Writes() != 1 || len(d.Groups[0].Entries.Swapped) != 1 || d.Groups[0].Entries.Swapped[0] != "backup" || d.Counts.Changed != 1 {
		t.Errorf("%+v", d)
	}
	after = compile(t, c, tree(withSecrets(w.Encrypt(secretKeys, strings.Replace(secretFile, "correct-horse", "battery-staple", 1)))), ix)
	if d, err = diff.Make(diff.Of(before), after); err != nil || d.Writes() != 1 || d.Counts.Changed != 0 {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestARevisionWhoseSecretsCannotBeReadIsRefused(t *testing.T) {
	w, stranger := sopstest.New(t), sopstest.New(t)
	good := w.Encrypt(secretKeys, secretFile)
	for _, c := range []struct {
		name       string
		identities []string
		text, want string
	}{
		{"no identity", nil, good, "sops: cannot decrypt it: the master has no identity"},
		{"identity of another", []string{stranger.Identities}, good, "is an identity of the master"},
		{"wrong mac", []string{w.Identities}, strings.Replace(good, "db.example.com", "db.example.org", 1), "the mac does not match"},
		{"plain text", []string{w.Identities}, strings.Replace(good, "password: ENC", "password: x ENC", 1), "settings/all.yaml:2:15: db.password: it is not encrypted"},
		{"secret of the timing", []string{w.Identities}, w.Encrypt("^interval$", secretFile), "settings/all.yaml:7:19: schedule.backup.interval: it is encrypted, and people see"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := identified(t, c.identities...).Compile(tree(withSecrets(c.text)), fleet("web-01"))
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "settings/all.yaml:") {
				t.Errorf("%v, want %q", err, c.want)
			}
			if err != nil && (strings.Contains(err.Error(), "correct-horse") || strings.Contains(err.Error(), "s3cr3t")) {
				t.Errorf("the error tells a secret: %v", err)
			}
		})
	}
}

func TestIsolatedOnlyThePeelsThatNeedTheSecretStayBehind(t *testing.T) {
	w := sopstest.New(t)
	files := tree("-- zester.yaml --\non_error: isolate\n-- top.yaml --\nbase:\n  db-*: [secret]\n  web-*: [open]\n-- settings/open.yaml --\na: 1\n-- settings/secret.yaml --\n" +
		w.Encrypt("password", "password: x\n"))
	p := compile(t, identified(t), files, fleet("db-01", "web-01"))
	if len(p.Behind) != 1 || p.Behind["db-01"].Pos.File != "settings/secret.yaml" || p.Peels["web-01"] == nil || p.Mistakes.Reason != plan.Undecryptable {
		t.Errorf("%+v", p)
	}
}

func TestARefusedRevisionCompilesWithNewIdentities(t *testing.T) {
	w := sopstest.New(t)
	files, c := withHashes(tree(withSecrets(w.Encrypt(secretKeys, secretFile)))), identified(t)
	if _, err := c.Compile(files, fleet("web-01")); err == nil {
		t.Fatal("secrets were read without an identity")
	}
	ring, err := sops.ReadRing(w.Identities)
	if err != nil {
		t.Fatal(err)
	}
	c.UseRing(ring)
	compile(t, c, files, fleet("web-01"))
}

func TestWithoutAnyIdentitySecretsAreLookedAtFromOutside(t *testing.T) {
	w := sopstest.New(t)
	c, ix := plan.NewCompiler(), fleet("web-01")
	before := compile(t, c, tree(withSecrets(w.Encrypt(secretKeys, secretFile))), ix)
	after := compile(t, c, tree(withSecrets(w.Encrypt(secretKeys, strings.Replace(secretFile, "s3cr3t-token", "another-token", 1)))), ix)
	d, err := diff.Make(diff.Of(before), after)
	if err != nil || d.Counts.Changed != 1 {
		t.Errorf("%+v, %v", d, err)
	}
	if e := before.Peels["web-01"]; bytes.Contains(e.Settings, []byte("ENC[")) || bytes.Count(e.Settings, []byte(sops.Shown)) != 2 {
		t.Errorf("%s", e.Settings)
	}
}

func TestADocumentWithItsSealStaysWithinTheLimit(t *testing.T) {
	w := sopstest.New(t)
	half := "password: x\nfill: " + strings.Repeat("y", settings.MaxDocument/2) + "\n"
	_, err := identified(t, w.Identities).Compile(tree(withSecrets(w.Encrypt("password", half))), fleet("web-01"))
	if err == nil || !strings.Contains(err.Error(), "the limit is 786432") {
		t.Errorf("%v", err)
	}
	compile(t, identified(t, w.Identities), tree(withSecrets(half)), fleet("web-01"))
}

// A master with the identities refuses a secret that no host could use. Without them it is unknown.
func TestASecretThatNoStateCanUseIsRefused(t *testing.T) {
	w := sopstest.New(t)
	const hash = "$6$salt$hash-of-the-password"
	for name, c := range map[string]struct{ states, want string }{
		"no hash":    {"  ada: {user.present: {password: plain-hunter2}}\n", "settings/all.yaml:2:36: states.ada.user.present.password: the secret must be a hash as in /etc/shadow, such as the output of mkpasswd"},
		"a number":   {"  ada: {user.present: {password: 12345678}}\n", "the secret must be a hash as in /etc/shadow, such as the output of mkpasswd"},
		"a template": {"  /etc/x: {file.managed: {content: 'a {{hunter2', template: true}}\n", "the secret is no value that the argument can have"},
		"a hash":     {"  ada: {user.present: {password: '" + hash + "'}}\n", ""},
		"a content":  {"  /etc/x: {file.managed: {content: hunter2}}\n", ""},
	} {
		files := tree("-- top.yaml --\nbase: {'*': [all]}\n-- settings/all.yaml --\n" + w.Encrypt("^(password|content)$", "states:\n"+c.states))
		_, err := identified(t, w.Identities).Compile(files, fleet("web-01"))
		switch {
		case c.want == "" && err != nil, c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", name, err, c.want)
		case err != nil && (strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "12345678")):
			t.Errorf("%s: the error has the secret: %v", name, err)
		}
	}
}
