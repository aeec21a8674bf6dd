package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
)

// A mirror serves a signed release on loopback, and runs install.sh against it with an apt-get that only writes down what
// it is to install.
type mirror struct {
	t         *testing.T
	dir       string
	served    map[string][]byte // by path
	short     string            // a path that is served without its end
	requests  atomic.Int32
	server    *httptest.Server
	key       string // file with the public key
	installed string // file that apt-get writes
}

const installVersion = "0.2.0"

func newMirror(t *testing.T) *mirror {
	t.Helper()
	for _, tool := range []string{"ssh-keygen", "curl", "sha256sum"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	m := &mirror{t: t, dir: t.TempDir(), served: map[string][]byte{}}
	m.key, m.installed = m.dir+"/key.pub", m.dir+"/installed"
	m.server = httptest.NewTLSServer(m)
	t.Cleanup(m.server.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: m.server.Certificate().Raw})
	m.write("ca.crt", string(authority), 0o600)
	m.write("bin/apt-get", "#!/bin/sh\necho \"$@\" >>"+m.installed+"\nshift 2\ncat \"$@\" >>"+m.installed+"\n", 0o700)
	m.generate("key")

	var sums strings.Builder
	for _, name := range []string{"zester", "zester-peel"} {
		for _, arch := range []string{"amd64", "arm64"} {
			file := fmt.Sprintf("%s_%s_%s.deb", name, installVersion, arch)
			m.serve(file, []byte("the package "+file+"\n"))
			fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(m.served[path(file)]), file)
		}
	}
	m.serve("SHA256SUMS", []byte(sums.String()))
	m.sign("key")
	return m
}

func path(file string) string { return "/v" + installVersion + "/" + file }

func (m *mirror) serve(file string, data []byte) { m.served[path(file)] = data }

func (m *mirror) write(name, text string, mode os.FileMode) {
	m.t.Helper()
	file := filepath.Join(m.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), mode); err != nil {
		m.t.Fatal(err)
	}
}

func (m *mirror) ssh(args ...string) {
	m.t.Helper()
	if out, err := exec.Command("ssh-keygen", args...).CombinedOutput(); err != nil {
		m.t.Fatalf("ssh-keygen %v: %v\n%s", args, err, out)
	}
}

func (m *mirror) generate(name string) {
	m.t.Helper()
	m.ssh("-q", "-t", "ed25519", "-N", "", "-C", "releases", "-f", m.dir+"/"+name)
}

// sign signs SHA256SUMS, as a release does.
func (m *mirror) sign(key string) {
	m.t.Helper()
	m.write("SHA256SUMS", string(m.served[path("SHA256SUMS")]), 0o600)
	_ = os.Remove(m.dir + "/SHA256SUMS.sig")
	m.ssh("-q", "-Y", "sign", "-f", m.dir+"/"+key, "-n", "file", m.dir+"/SHA256SUMS")
	signature, err := os.ReadFile(m.dir + "/SHA256SUMS.sig")
	if err != nil {
		m.t.Fatal(err)
	}
	m.serve("SHA256SUMS.sig", signature)
}

func (m *mirror) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.requests.Add(1)
	data, ok := m.served[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	if r.URL.Path == m.short {
		w.Header().Set("Content-Length", fmt.Sprint(len(data)))
		data = data[:len(data)/2] // the server then closes the connection
	}
	_, _ = w.Write(data)
}

// install runs a script as root, from its standard input as a download is run. It returns what it and apt-get wrote.
func (m *mirror) install(script []byte, packages ...string) (said, installed string, err error) {
	m.t.Helper()
	_ = os.Remove(m.installed)
	args := []string{"sh", "-s", "--", "--version", installVersion, "--from", m.server.URL}
	if m.key != "" {
		args = append(args, "--key", m.key)
	}
	if os.Getuid() != 0 {
		args = append([]string{"unshare", "--map-root-user"}, args...)
	}
	cmd := exec.CommandContext(m.t.Context(), args[0], append(args[1:], packages...)...)
	cmd.Env = append(os.Environ(), "CURL_CA_BUNDLE="+m.dir+"/ca.crt", "PATH="+m.dir+"/bin:"+os.Getenv("PATH"))
	cmd.Stdin = bytes.NewReader(script)
	out, err := cmd.CombinedOutput()
	did, e := os.ReadFile(m.installed)
	if e != nil && !os.IsNotExist(e) {
		m.t.Fatal(e)
	}
	return string(out), string(did), err
}

func installScript(t *testing.T) []byte {
	t.Helper()
	script, err := os.ReadFile("../install.sh")
	if err != nil {
		t.Fatal(err)
	}
	return script
}

func TestASignedReleaseIsInstalled(t *testing.T) {
	m := newMirror(t)
	said, did, err := m.install(installScript(t), "zester", "zester-peel")
	first := fmt.Sprintf("zester_%s_%s.deb", installVersion, runtime.GOARCH)
	second := fmt.Sprintf("zester-peel_%s_%s.deb", installVersion, runtime.GOARCH)
	want := "install -y ./" + first + " ./" + second + "\nthe package " + first + "\nthe package " + second + "\n"
	if err != nil || did != want {
		t.Errorf("%v: %s\napt-get got %q, want %q", err, said, did, want)
	}
}

func TestWhatIsNotSignedIsNotInstalled(t *testing.T) {
	script := installScript(t)
	deb := fmt.Sprintf("zester_%s_%s.deb", installVersion, runtime.GOARCH)
	for _, c := range []struct {
		name, want string
		change     func(*mirror)
	}{
		{"signed by another key", "the signature of SHA256SUMS is not by that key: nothing is installed", func(m *mirror) {
			m.generate("other")
			m.sign("other")
		}},
		{"sums changed after they were signed", "the signature of SHA256SUMS is not by that key", func(m *mirror) {
			sums := path("SHA256SUMS")
			m.served[sums] = append(m.served[sums], "0000  more\n"...)
		}},
		{"no signature", "cannot get https://", func(m *mirror) { delete(m.served, path("SHA256SUMS.sig")) }},
		{"another package", deb + " does not have the sum in SHA256SUMS: nothing is installed", func(m *mirror) {
			m.serve(deb, []byte("something else"))
		}},
		{"a package without its end", "cannot get https://", func(m *mirror) { m.short = path(deb) }},
		{"a package that is not in SHA256SUMS", deb + " does not have the sum", func(m *mirror) {
			m.serve("SHA256SUMS", []byte(strings.ReplaceAll(string(m.served[path("SHA256SUMS")]), installVersion, "0.1.0")))
			m.sign("key")
		}},
		{"no package", "cannot get https://", func(m *mirror) { delete(m.served, path(deb)) }},
		{"no key", "cannot read the public key ", func(m *mirror) { m.key = m.dir + "/missing" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMirror(t)
			c.change(m)
			said, did, err := m.install(script, "zester")
			if err == nil || did != "" || !strings.Contains(said, c.want) {
				t.Errorf("%v: %s\napt-get got %q", err, said, did)
			}
		})
	}
}

func TestAnInstallerWithoutItsEndDoesNothing(t *testing.T) {
	m := newMirror(t)
	script := installScript(t)
	last := bytes.LastIndexByte(bytes.TrimSpace(script), '\n') + 1
	for end := 0; end < last; end += 150 {
		if _, did, _ := m.install(script[:end], "zester"); did != "" || m.requests.Load() > 0 {
			t.Fatalf("its first %d bytes made %d requests, and apt-get got %q", end, m.requests.Load(), did)
		}
	}
	for end := last; end <= last+len(`main "$@`); end++ {
		if _, did, _ := m.install(script[:end], "zester"); did != "" || m.requests.Load() > 0 {
			t.Fatalf("its first %d bytes made %d requests, and apt-get got %q", end, m.requests.Load(), did)
		}
	}
}
