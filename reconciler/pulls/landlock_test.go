package pulls

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	kernel "github.com/landlock-lsm/go-landlock/landlock/syscall"

	"github.com/seed-c01c3da5/zester/master/forge"
	"github.com/seed-c01c3da5/zester/master/outbound"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
)

const probeMark = "PULLS_TEST_PROBE"

// An attack is what a process for pull requests tries in each of its phases, as JSON in probeMark.
type attack struct {
	Repo gitrepo.Options
	Read []string // files
	Make []string // files that do not exist
	Dial []string // addresses
}

// probe prints each attempt that was not refused with EACCES, with its phase.
func probe(text string) int {
	var a attack
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		panic(err)
	}
	if err := confineFetch(a.Repo); err != nil {
		panic(err)
	}
	a.try("fetch")
	if err := confineReview(a.Repo); err != nil {
		panic(err)
	}
	a.try("review")
	return 0
}

func (a attack) try(phase string) {
	note := func(what, name string, err error) {
		if !errors.Is(err, syscall.EACCES) {
			fmt.Println(phase, what, name)
		}
	}
	for _, name := range a.Read {
		_, err := os.ReadFile(name)
		note("reads", name, err)
	}
	for _, name := range a.Make {
		f, err := os.Create(name)
		note("makes", name, err)
		if err == nil {
			_ = f.Close()
			_ = os.Remove(name)
		}
	}
	for _, addr := range a.Dial {
		c, err := net.Dial("tcp", addr)
		note("dials", addr, err)
		if err == nil {
			_ = c.Close()
		}
	}
}

// TestAHostileDecoderReachesNeitherKeysNorPorts runs the process with a repository on a port of loopback, and has it try
// to read the keys of the master, to write beside its store and to connect to another port.
func TestAHostileDecoderReachesNeitherKeysNorPorts(t *testing.T) {
	if missing := unconfined(kernel.LandlockGetABIVersion()); missing != "" {
		t.Skip(missing)
	}
	data := t.TempDir()
	key := filepath.Join(data, "keys", "operator.nk")
	token := filepath.Join(data, "token")
	store := filepath.Join(data, "pulls", "forge")
	for _, name := range []string{key, token} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte("secret"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	git, other := listen(t), listen(t)
	a := attack{
		Repo: gitrepo.Options{URL: "http://" + git + "/fleet.git", Dir: store, Access: outbound.Options{Token: token}},
		Read: []string{key, token, "/proc/self/environ"},
		Make: []string{filepath.Join(store, "new"), filepath.Join(data, "pulls", "new"), filepath.Join(data, "keys", "new")},
		Dial: []string{git, other},
	}
	text, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program)
	cmd.Env = append(environment(), probeMark+"="+string(text))
	out, err := cmd.CombinedOutput()
	want := fmt.Sprintf("fetch reads %s\nfetch makes %s/new\nfetch dials %s\n", token, store, git)
	if err != nil || string(out) != want {
		t.Errorf("%v: the process may do\n%swant\n%s", err, out, want)
	}
}

func listen(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

// TestAPullRequestOfAServerIsPlannedByAConfinedProcess fetches over HTTPS with a token and an authority of its own.
func TestAPullRequestOfAServerIsPlannedByAConfinedProcess(t *testing.T) {
	b := newBench(t, forge.GitHub, site)
	exe, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewTLSServer(&cgi.Handler{Path: exe, Args: []string{"http-backend"}, Env: []string{
		"GIT_PROJECT_ROOT=" + filepath.Dir(b.dir), "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1",
		"GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*",
	}})
	t.Cleanup(server.Close)
	b.o.Repo.URL = server.URL + "/fleet/.git"
	b.o.Repo.Access.CA = filepath.Join(t.TempDir(), "ca.pem")
	b.o.Repo.Access.Token = filepath.Join(t.TempDir(), "token")
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := errors.Join(os.WriteFile(b.o.Repo.Access.CA, authority, 0o600),
		os.WriteFile(b.o.Repo.Access.Token, []byte("t"), 0o600)); err != nil {
		t.Fatal(err)
	}
	s := b.lead()
	head := b.push(7, false, "settings/web.yaml", twoHours)
	b.poll(s)
	b.comment(7, "2 of 3 peels change", head[:8])
	head = b.push(7, false, "settings/db.yaml", twoHours) // into the store of the first
	b.poll(s)
	b.comment(7, "3 of 3 peels change", head[:8])
}

func TestWhatAKernelDoesNotConfineIsNamed(t *testing.T) {
	for _, c := range []struct {
		abi  int
		err  error
		want string
	}{
		{0, syscall.ENOSYS, "the kernel has no Landlock"},
		{0, syscall.EOPNOTSUPP, "the kernel has no Landlock"}, // not enabled at boot
		{3, nil, "Landlock of this kernel has version 3, and 4 confines TCP"},
		{4, nil, ""},
	} {
		if got := unconfined(c.abi, c.err); !strings.HasSuffix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("version %d, %v: %q, want %q", c.abi, c.err, got, c.want)
		}
	}
}
