package keystore_test

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
)

// moveOut takes a key out of the folder of keys into a PEM file, as a program other than zester holds it.
func moveOut(t *testing.T, keys, elsewhere, name string) {
	t.Helper()
	file := filepath.Join(keys, name+".nk")
	seed, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, raw, err := nkeys.DecodeSeed(seed[:len(seed)-1])
	if err != nil {
		t.Fatal(err)
	}
	private := ed25519.NewKeyFromSeed(raw)
	for path, encode := range map[string]func() ([]byte, error){
		filepath.Join(elsewhere, name+".pem"): func() ([]byte, error) { return x509.MarshalPKCS8PrivateKey(private) },
		filepath.Join(keys, name+".pub"):      func() ([]byte, error) { return x509.MarshalPKIXPublicKey(private.Public()) },
	} {
		der, err := encode()
		if err != nil {
			t.Fatal(err)
		}
		kind := "PUBLIC KEY"
		if strings.HasSuffix(path, ".pem") {
			kind = "PRIVATE KEY"
		}
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
}

// signing returns the program of the guide, in which openssl signs with the keys of a folder.
func signing(t *testing.T, keys string) string {
	t.Helper()
	page, err := os.ReadFile("../../../cmd/zester/guide/access.md")
	if err != nil {
		t.Fatal(err)
	}
	_, script, _ := strings.Cut(string(page), "```sh\nset -eu\n")
	script, _, found := strings.Cut(script, "```")
	if !found || !strings.Contains(script, "/etc/zester/keys") {
		t.Fatal("the guide has no program that signs")
	}
	return "set -eu\n" + strings.ReplaceAll(script, "/etc/zester/keys", keys)
}

func TestKeysOutsideTheFolderSignByAProgram(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("there is no openssl")
	}
	dir, elsewhere := filepath.Join(t.TempDir(), "auth"), t.TempDir()
	before, err := keystore.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"operator", "account-master", "signer-operator", "signer-peel"} {
		moveOut(t, dir, elsewhere, name)
	}
	by := &keystore.Signer{Command: []string{"sh", "-c", signing(t, elsewhere)}}
	keys, err := keystore.OpenWith(dir, by)
	if err != nil {
		t.Fatal(err)
	}
	operator, err := jwt.DecodeOperatorClaims(keys.Trust().Operator)
	if err != nil || before.Trust().SystemAccount != keys.Trust().SystemAccount {
		t.Fatalf("the operator is %+v: %v", operator, err)
	}
	key, err := credential.MakeKey()
	if err != nil {
		t.Fatal(err)
	}
	token, err := keys.Issue(grants.RoleOperator, "ann", key.Public(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := before.Check(grants.RoleOperator, token); err != nil || got.Name != "ann" {
		t.Errorf("who has the key itself takes %+v: %v", got, err)
	}
	if _, changed, err := keys.Revoke(grants.RoleOperator, map[string]credential.End{key.Public(): {}}); err != nil || !changed {
		t.Errorf("a revocation: %v, %v", changed, err)
	}
	if _, err := keys.KeeperCreds(0); err != nil {
		t.Errorf("a credential of an account: %v", err)
	}
	if err := keys.Rotate(); err == nil || !strings.Contains(err.Error(), "keys.signer has the key of the role") {
		t.Errorf("keys outside are rotated: %v", err)
	}
}

func TestAProgramThatCannotSignIsNeverReplacedByAFile(t *testing.T) {
	dir, elsewhere := filepath.Join(t.TempDir(), "auth"), t.TempDir()
	if _, err := keystore.Open(dir); err != nil {
		t.Fatal(err)
	}
	moveOut(t, dir, elsewhere, "signer-operator")
	key, err := credential.MakeKey()
	if err != nil {
		t.Fatal(err)
	}
	sh := func(script string) *keystore.Signer { return &keystore.Signer{Command: []string{"sh", "-c", script}} }
	for what, row := range map[string]struct {
		by   *keystore.Signer
		want string
	}{
		"no program":          {nil, "only a master whose master.yaml has keys.signer"},
		"it is missing":       {&keystore.Signer{Command: []string{"/does/not/exist"}}, "/does/not/exist cannot sign with the key signer-operator"},
		"it fails":            {sh("echo no token >&2; exit 3"), "exit status 3: no token"},
		"it prints nothing":   {sh("cat >/dev/null"), "it printed no Ed25519 signature"},
		"it prints too much":  {sh("yes"), "sh cannot sign with the key signer-operator"},
		"of another key":      {sh("head -c 64 /dev/zero | base64 -w 0"), "the signature is not of this key"},
		"it reads not enough": {sh("exec <&-; exit 1"), "exit status 1"},
	} {
		keys, err := keystore.OpenWith(dir, row.by)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if _, err := keys.Issue(grants.RoleAuditor, "eve", key.Public(), 0); err != nil {
			t.Errorf("%s: a key in the folder does not sign: %v", what, err)
		}
		if _, err := keys.Issue(grants.RoleOperator, "ann", key.Public(), 0); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", what, err, row.want)
		}
	}

	if err := os.WriteFile(filepath.Join(dir, "signer-operator.nk"), []byte("SAxx\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := keystore.OpenWith(dir, sh("true")); err == nil || !strings.Contains(err.Error(), "there are both") {
		t.Errorf("a seed beside a public half: %v", err)
	}
}
