package main_test

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nkeys"

	"github.com/seed-c01c3da5/zester/examples"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
)

// TestAMasterWhoseKeysAProgramHas runs a master, its bus and a peel when no key that signs is in the data directory.
func TestAMasterWhoseKeysAProgramHas(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("there is no openssl")
	}
	s := newSite(t, examples.Fleet())
	m := s.daemon("zester-master", "--data-dir", "master", "--listen", "127.0.0.1:0", "--repo", "fleet")
	m.waitFor("master is ready")
	peel := s.issue(grants.RolePeel, "web-01")
	m.stop()
	if err := os.Mkdir(s.path("elsewhere"), 0o700); err != nil {
		t.Fatal(err)
	}
	seeds, err := filepath.Glob(s.path("master/auth/*.nk"))
	if err != nil || len(seeds) < 10 {
		t.Fatal(seeds, err)
	}
	for _, seed := range seeds {
		s.moveOut(seed)
	}
	s.write("sign", `set -eu
in=$(mktemp)
trap 'rm -f "$in"' EXIT
base64 -d > "$in"
openssl pkeyutl -sign -rawin -inkey "`+s.path("elsewhere")+`/$ZESTER_KEY.pem" -in "$in" | base64 -w 0
`)
	s.write("master.yaml", "keys: {signer: {command: [sh, "+s.path("sign")+"]}}\n")
	m = s.daemon("zester-master", "--config", "master.yaml", "--data-dir", "master", "--listen", "127.0.0.1:0", "--repo", "fleet")
	m.waitFor("master is ready")
	s.daemon("zester-peel", "--id", "web-01", "--data-dir", "peel", "--url", s.url(), "--creds", peel).waitFor("settings applied")
	s.zester(0, "auth", "user", "add", "ann", "--out", s.path("ann.creds"))
	as := []string{"--url", s.url(), "--creds", s.path("ann.creds"), "--ca", s.path("master/tls/ca.crt")}
	s.zester(0, append(as, "web-01", "test.ping")...)
	s.zester(1, "auth", "rotate", "keys")

	for _, fault := range [][2]string{ // a person stays whose credential could not be signed
		{"garbage", "cat >/dev/null; echo hello"},
		{"another", "cat >/dev/null; head -c 64 /dev/zero | base64 -w 0"},
		{"death", "cat >/dev/null; printf AAAA; kill -KILL $$"},
		{"hanging", "exec sleep 600"}, // for 10 s, which is longer than the command waits
	} {
		name, script := fault[0], fault[1]
		s.write("sign", script+"\n")
		out := s.refused("auth", "user", "add", name, "--out", s.path(name+".creds"))
		if name != "hanging" && (!strings.Contains(out, "keys.signer") || !strings.Contains(out, "signer-operator")) {
			t.Errorf("%s: the command says %s", name, out)
		}
		if _, err := os.Lstat(s.path(name + ".creds")); err == nil {
			t.Errorf("%s: there is a credential", name)
		}
		s.zester(0, append(as, "web-01", "test.ping")...)
	}
	if left, err := filepath.Glob(s.path("master/auth/*.nk")); err != nil || len(left) > 0 {
		t.Errorf("there are the keys %v: %v", left, err)
	}
}

// refused runs the command line for the master in the folder master, which fails, and returns what it said.
func (s *site) refused(args ...string) string {
	s.t.Helper()
	args = append([]string{"zester", "--data-dir", s.path("master")}, args...)
	out, errOut, code := command{dir: s.dir, args: args}.run(s.t)
	if code == 0 {
		s.t.Errorf("%v ended with 0: %s", args, out)
	}
	return errOut
}

// moveOut leaves the public half of a key, as a person does who gives the key to a program.
func (s *site) moveOut(file string) {
	s.t.Helper()
	seed, err := os.ReadFile(file)
	if err != nil {
		s.t.Fatal(err)
	}
	_, raw, err := nkeys.DecodeSeed([]byte(strings.TrimSpace(string(seed))))
	if err != nil {
		s.t.Fatal(err)
	}
	private := ed25519.NewKeyFromSeed(raw)
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		s.t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(private.Public())
	if err != nil {
		s.t.Fatal(err)
	}
	name := strings.TrimSuffix(filepath.Base(file), ".nk")
	s.write("elsewhere/"+name+".pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
	s.write("master/auth/"+name+".pub", string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})))
	if err := os.Remove(file); err != nil {
		s.t.Fatal(err)
	}
}
