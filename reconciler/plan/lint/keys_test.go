package lint_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/nats-io/nkeys"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/plan/lint"
)

func TestFilesWithKeys(t *testing.T) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := pair.Seed()
	if err != nil {
		t.Fatal(err)
	}
	creds := "-----BEGIN NATS USER JWT-----\neyJ0\n------END NATS USER JWT------\n\n" +
		"-----BEGIN USER NKEY SEED-----\n" + string(seed) + "\n------END USER NKEY SEED------\n"
	token := "zester.tour." + strings.Repeat("aB3", 14) + "x"
	age := "AGE-SECRET-KEY-1" + strings.Repeat("Q", 58)
	for _, c := range []struct{ name, text, at, does string }{
		{"lee.creds", creds, "lee.creds:6:1", "it has a seed of NATS in plain text, which everybody who reads the repo can use: " +
			"git rm --cached lee.creds, and revoke it: zester auth user revoke NAME (the history keeps the old one: zester guide leaked)"},
		{"files/tls.pem", "# of the shop\n-----BEGIN EC PRIVATE KEY-----\nMHcCAQEE\n-----END EC PRIVATE KEY-----\n", "files/tls.pem:2:1", "make a new key"},
		{"README.md", "join with " + token + "\n", "README.md:1:11", "zester auth join-token revoke NAME"},
		{"keys.txt", "# created\n" + age + "\n", "keys.txt:2:1", "sops updatekeys"},
		{"a b", string(seed), "a b:1:1", "git rm --cached 'a b'"},

		{"cert.pem", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n", "", ""},
		{"secret.json", `{"data": "ENC[AES256_GCM,data:abc=,type:str]", "sops": {"age": [{"enc": "-----BEGIN AGE ENCRYPTED FILE-----\n"}]}}`, "", ""},
		{"public", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5", "", ""},
		{"program", "\x00" + string(seed), "", ""},
		{"late", strings.Repeat("x\n", 32<<10) + creds, "", ""},
	} {
		found := lint.Keys(fstest.MapFS{c.name: {Data: []byte(c.text)}}, nil)
		switch {
		case c.at == "" && len(found) > 0:
			t.Errorf("%s: %v", c.name, found)
		case c.at != "" && (len(found) != 1 || found[0].Pos.String() != c.at || !strings.Contains(found[0].Msg, c.does)):
			t.Errorf("%s: %v, want %s: %s", c.name, found, c.at, c.does)
		case strings.Contains(fmt.Sprint(found), string(seed)):
			t.Errorf("%s: the seed is shown", c.name)
		}
	}
	many := fstest.MapFS{}
	for i := range 50 {
		many[fmt.Sprintf("%02d.creds", i)] = &fstest.MapFile{Data: []byte(creds)}
	}
	if found := lint.Keys(many, nil); len(found) != 20 {
		t.Errorf("%d warnings", len(found))
	}
}

// A settings file is searched by the linter of values, which names the key: it has one warning.
func TestASettingsFileWithAKeyHasOneWarning(t *testing.T) {
	tree := fstest.MapFS{
		"top.yaml":        {Data: []byte("base:\n  '*': [a]\n")},
		"settings/a.yaml": {Data: []byte("note: |\n  -----BEGIN PRIVATE KEY-----\n  MHcCAQEE\n  -----END PRIVATE KEY-----\n")},
	}
	p, err := plan.NewCompiler().Check(tree)
	if err != nil {
		t.Fatal(err)
	}
	all := append(lint.New(lint.Options{}).All(p), lint.Keys(tree, p.Files())...)
	if len(all) != 1 || all[0].Path != "note" {
		t.Errorf("%v", all)
	}
}
