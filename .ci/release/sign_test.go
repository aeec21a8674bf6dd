package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// A ceremony has a copy of .ci/sign with the key that it makes, and a release.
type ceremony struct {
	*mirror
	tools, release string // folders
}

func newCeremony(t *testing.T) *ceremony {
	t.Helper()
	c := &ceremony{mirror: newMirror(t), tools: t.TempDir(), release: t.TempDir()}
	script, err := os.ReadFile("../sign")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(c.tools+"/sign", script, 0o700); err != nil {
		t.Fatal(err)
	}
	return c
}

// sign runs the script. No passphrase is typed.
func (c *ceremony) sign(args ...string) (string, error) {
	cmd := exec.CommandContext(c.t.Context(), c.tools+"/sign", args...)
	cmd.Env = append(os.Environ(), "SSH_ASKPASS=/bin/true", "SSH_ASKPASS_REQUIRE=force", "LC_ALL=C.UTF-8")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// pack writes the files of a release with their sums, as .ci/package does.
func (c *ceremony) pack() {
	c.t.Helper()
	var script, sums bytes.Buffer
	if err := printInstaller(&script, "../install.sh", c.tools+"/releases.pub"); err != nil {
		c.t.Fatal(err)
	}
	deb := fmt.Sprintf("zester_%s_%s.deb", installVersion, runtime.GOARCH)
	files := map[string][]byte{"install.sh": script.Bytes(), deb: []byte("the package\n")}
	for name, data := range files {
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(data), name)
	}
	files["SHA256SUMS"] = sums.Bytes()
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(c.release, name), data, 0o600); err != nil {
			c.t.Fatal(err)
		}
	}
}

// publish serves the release.
func (c *ceremony) publish() {
	c.t.Helper()
	files, err := os.ReadDir(c.release)
	if err != nil {
		c.t.Fatal(err)
	}
	clear(c.served)
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(c.release, f.Name()))
		if err != nil {
			c.t.Fatal(err)
		}
		c.serve(f.Name(), data)
	}
}

// checked types the commands of the guide that check a release.
func (c *ceremony) checked() (string, error) {
	c.t.Helper()
	page, err := os.ReadFile("../../cmd/zester/guide/install.md")
	if err != nil {
		c.t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Check a release\n")
	_, typed, _ := strings.Cut(section, "```sh\n")
	typed, _, found := strings.Cut(typed, "```")
	if !found {
		c.t.Fatal("the guide does not say how to check a release")
	}
	if err := os.Rename(c.tools+"/releases.pub", c.release+"/releases.pub"); err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = os.Rename(c.release+"/releases.pub", c.tools+"/releases.pub") }()
	bash := exec.CommandContext(c.t.Context(), "bash", "-e", "-c", typed)
	bash.Dir = c.release
	out, err := bash.CombinedOutput()
	return string(out), err
}

// TestAReleaseWithItsKeyIsSignedAndInstalled makes a key, signs a release, and checks it in the two ways that users have:
// install.sh, which holds the key, and the commands of the guide.
func TestAReleaseWithItsKeyIsSignedAndInstalled(t *testing.T) {
	c := newCeremony(t)
	if out, err := c.sign(c.release, c.tools+"/key"); err == nil || !strings.Contains(out, "the releases have no key") {
		t.Fatalf("without a key sign says %v: %s", err, out)
	}
	out, err := c.sign("new", c.tools+"/key")
	if err != nil || !strings.Contains(out, "SHA256:") {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := c.sign("new", c.tools+"/another"); err == nil || !strings.Contains(out, "the releases have a key") {
		t.Errorf("a second key is made: %v: %s", err, out)
	}

	c.pack()
	if out, err := c.sign(c.release, c.tools+"/key"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	c.publish()
	c.key = "" // it is in install.sh
	said, did, err := c.install(c.served[path("install.sh")], "zester")
	if err != nil || !strings.Contains(did, "the package\n") {
		t.Errorf("%v: %s\napt-get got %q", err, said, did)
	}
	if out, err := c.checked(); err != nil || !strings.Contains(out, `Good "file" signature for releases`) || !strings.Contains(out, "install.sh: OK") {
		t.Errorf("the commands of the guide say %v: %s", err, out)
	}

	// What changes after the signature, neither accepts.
	c.served[path("SHA256SUMS")] = append(c.served[path("SHA256SUMS")], "0000  more\n"...)
	if said, did, err := c.install(c.served[path("install.sh")], "zester"); err == nil || did != "" {
		t.Errorf("a changed release is installed: %s", said)
	}
	if err := os.WriteFile(c.release+"/install.sh", []byte("echo other\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := c.checked(); err == nil {
		t.Errorf("the commands of the guide pass a changed file: %s", out)
	}
}

func TestWhatIsNoReleaseIsNotSigned(t *testing.T) {
	for name, change := range map[string]func(*ceremony) error{
		"does not hold the key": func(c *ceremony) error {
			return os.WriteFile(c.release+"/install.sh", installScript(c.t), 0o600)
		},
		"SHA256SUMS does not list all files": func(c *ceremony) error {
			return os.WriteFile(c.release+"/more", nil, 0o600)
		},
		"did NOT match": func(c *ceremony) error {
			return os.WriteFile(fmt.Sprintf("%s/zester_%s_%s.deb", c.release, installVersion, runtime.GOARCH), nil, 0o600)
		},
		"is not the key in": func(c *ceremony) error {
			c.generate("other")
			return errors.Join(os.Rename(c.dir+"/other", c.tools+"/key"), os.Rename(c.dir+"/other.pub", c.tools+"/key.pub"))
		},
	} {
		c := newCeremony(t)
		if out, err := c.sign("new", c.tools+"/key"); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		c.pack()
		if err := change(c); err != nil {
			t.Fatal(err)
		}
		out, err := c.sign(c.release, c.tools+"/key")
		if _, e := os.Stat(c.release + "/SHA256SUMS.sig"); err == nil || !strings.Contains(out, name) || !os.IsNotExist(e) {
			t.Errorf("want %q; sign says %v: %s", name, err, out)
		}
	}
}

func TestInstallShHoldsNothingButAPublicKey(t *testing.T) {
	file := t.TempDir() + "/releases.pub"
	for _, text := range []string{
		"", "ssh-ed25519", "ssh-rsa AAAA releases\n", "ssh-ed25519 AAAA'; reboot; ' releases\n", "ssh-ed25519 AAAA a\nssh-ed25519 BBBB b\n",
		"-----BEGIN OPENSSH PRIVATE KEY-----\n",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := printInstaller(&out, "../install.sh", file); err == nil || out.Len() > 0 {
			t.Errorf("%q is taken for a key", text)
		}
	}
	if err := os.WriteFile(file, []byte("sk-ssh-ed25519@openssh.com AAAA+/== releases of zester\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := printInstaller(&out, "../install.sh", file); err != nil || !strings.Contains(out.String(), "signer='sk-ssh-ed25519@openssh.com AAAA+/==' ") {
		t.Errorf("%v: %.600s", err, &out)
	}
}
