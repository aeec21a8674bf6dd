package main_test

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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
	signs := s.keysOutside()
	s.write("sign", signs)
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
		for _, want := range []string{"keys.signer", "signer-operator", "zester auth user add " + name + " --again"} {
			if name != "hanging" && !strings.Contains(out, want) {
				t.Errorf("%s: the command says %s, without %s", name, out, want)
			}
		}
		if _, err := os.Lstat(s.path(name + ".creds")); err == nil {
			t.Errorf("%s: there is a credential", name)
		}
		s.zester(0, append(as, "web-01", "test.ping")...)
	}

	s.write("sign", signs)
	if out := s.refused("auth", "user", "add", "death"); !strings.Contains(out, "zester auth user add death --again") {
		t.Errorf("what was begun is said as %s", out)
	}
	s.zester(0, "auth", "user", "add", "death", "--again", "--out", s.path("death.creds"))
	as[3] = s.path("death.creds")
	s.zester(0, append(as, "web-01", "test.ping")...)
	if left, err := filepath.Glob(s.path("master/auth/*.nk")); err != nil || len(left) > 0 {
		t.Errorf("there are the keys %v: %v", left, err)
	}
}

// TestAHostJoinsAMasterWhoseKeysAProgramHas has hosts join, by a token and by an approval, while the program fails.
func TestAHostJoinsAMasterWhoseKeysAProgramHas(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("there is no openssl")
	}
	s := newSite(t, examples.Fleet())
	address := reserve(t)
	serve := func(args ...string) *process {
		m := s.daemon(append([]string{
			"zester-master", "--data-dir", "master", "--listen", "127.0.0.1:0", "--rest-listen", address, "--repo", "fleet",
		}, args...)...)
		m.waitFor("master is ready")
		return m
	}
	serve().stop()
	signs := s.keysOutside()
	s.write("sign", signs)
	s.write("master.yaml", "keys: {signer: {command: [sh, "+s.path("sign")+"]}}\n")
	serve("--config", "master.yaml")
	s.write("sign", "cat >/dev/null; echo the vault is sealed >&2; exit 1\n")

	peel := func(id, data, token string) *process {
		args := []string{"zester-peel", "--id", id, "--data-dir", data, "--url", s.url(), "--join", token + address}
		if token == "" {
			args = append(args, "--ca", s.path("master/tls/ca.crt"))
		}
		return s.daemon(args...)
	}
	token := strings.TrimSpace(s.zester(0, "auth", "join-token", "create", "--peel", "web-*", "--uses", "2")) + "@"
	asks := map[string]func() *process{
		"web-02": func() *process { return peel("web-02", "web-02", token) },
		"web-03": func() *process { return peel("web-03", "web-03", token) },
		"db-02":  func() *process { return peel("db-02", "db-02", "") },
	}
	waits := asks["db-02"]()
	key := regexp.MustCompile("U[A-Z2-7]{55}").FindString(waits.waitFor("no new credential", "waits for approval"))
	waits.stop()
	s.zester(0, "auth", "peel", "approve", "db-02", "--key", key)
	for id, ask := range asks {
		p := ask()
		p.waitFor("no new credential", "cannot sign", "the vault is sealed")
		p.stop()
		if _, err := os.Lstat(s.path(id + "/peel.creds")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s has a credential: %v", id, err)
		}
	}
	for _, id := range []string{"web-02", "web-04"} {
		p := peel(id, "thief", token)
		p.waitFor("no new credential", "not enrolled")
		p.stop()
	}
	// A revocation reaches the bus in an account, which is signed as well.
	if out := s.refused("auth", "peel", "revoke", "web-03"); !strings.Contains(out, "web-03 is revoked") {
		t.Errorf("the revocation says %s", out)
	}

	s.write("sign", signs)
	for _, id := range []string{"web-02", "db-02"} {
		asks[id]().waitFor("settings applied")
		s.zester(0, id, "test.ping")
	}
	asks["web-03"]().waitFor("no new credential", "revoked")
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

// keysOutside moves the keys of the master in the folder master elsewhere, and returns the script of guide access that
// signs with them.
func (s *site) keysOutside() string {
	s.t.Helper()
	if err := os.Mkdir(s.path("elsewhere"), 0o700); err != nil {
		s.t.Fatal(err)
	}
	seeds, err := filepath.Glob(s.path("master/auth/*.nk"))
	if err != nil || len(seeds) < 10 {
		s.t.Fatal(seeds, err)
	}
	for _, seed := range seeds {
		s.moveOut(seed)
	}
	page, err := os.ReadFile("../zester/guide/access.md")
	if err != nil {
		s.t.Fatal(err)
	}
	_, script, _ := strings.Cut(string(page), "With keys in PEM files it is this:\n\n```sh\n")
	script, _, _ = strings.Cut(script, "```")
	if !strings.Contains(script, "/etc/zester/keys") {
		s.t.Fatal("guide access has no program that signs")
	}
	return strings.ReplaceAll(script, "/etc/zester/keys", s.path("elsewhere"))
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
