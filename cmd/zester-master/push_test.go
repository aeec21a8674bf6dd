package main_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
)

const (
	forgePassword = "forge-password"
	statusToken   = "status-token"
	hookSecret    = "0123456789abcdef0123"
)

// A forge serves a repository by Git's own smart HTTP, posts a webhook of GitHub after each push, and takes statuses as
// GitHub Enterprise Server does. Whoever has no password gets nothing.
type forge struct {
	t   *testing.T
	git http.Handler
	url string // of the repository

	mu    sync.Mutex
	hook  string              // where it posts
	web   *http.Client        // with which it posts
	told  map[string][]string // by commit, state: description
	heard chan struct{}
}

// newForge serves a bare copy of the site's repo.
func newForge(s *site) *forge {
	t := s.t
	backend := filepath.Join(strings.TrimSpace(run(t, s.dir, "git", "--exec-path")), "git-http-backend")
	if _, err := os.Stat(backend); err != nil {
		t.Skip("needs git-http-backend")
	}
	run(t, s.dir, "git", "clone", "-q", "--bare", s.work.Dir(), "served/ops/fleet.git")
	f := &forge{t: t, told: map[string][]string{}, heard: make(chan struct{}, 1)}
	f.git = &cgi.Handler{Path: backend, Root: "/", Stderr: io.Discard, Env: []string{
		"GIT_PROJECT_ROOT=" + s.path("served"), "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=2",
		"GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*", "GIT_CONFIG_KEY_1=http.receivepack", "GIT_CONFIG_VALUE_1=true",
	}}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	f.url = server.URL + "/ops/fleet.git"
	return f
}

func (f *forge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/api/") {
		f.status(w, r)
		return
	}
	if _, password, _ := r.BasicAuth(); password != forgePassword {
		w.Header().Set("WWW-Authenticate", "Basic")
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	f.git.ServeHTTP(w, r)
	if r.Method == http.MethodPost && path.Base(r.URL.Path) == "git-receive-pack" {
		f.post()
	}
}

func (f *forge) status(w http.ResponseWriter, r *http.Request) {
	var s struct{ State, Description, Context string }
	dir, commit := path.Split(r.URL.Path)
	if dir != "/api/v3/repos/ops/fleet/statuses/" || r.Header.Get("Authorization") != "Bearer "+statusToken {
		f.t.Errorf("asked for %s", r.URL)
	}
	if err := json.NewDecoder(r.Body).Decode(&s); err != nil || s.Context != "zester/forge" {
		f.t.Errorf("told %+v: %v", s, err)
	}
	f.mu.Lock()
	f.told[commit] = append(f.told[commit], s.State+": "+s.Description)
	f.mu.Unlock()
	w.WriteHeader(http.StatusCreated)
	select {
	case f.heard <- struct{}{}:
	default:
	}
}

// post tells the master of a push. The commit in it is made up, since nobody is to believe it.
func (f *forge) post() {
	f.mu.Lock()
	hook, web := f.hook, f.web
	f.mu.Unlock()
	if hook == "" {
		return
	}
	body := fmt.Appendf(nil, `{"ref": "refs/heads/main", "before": "%040d", "after": "%040[1]d", "deleted": false,`+
		`"repository": {"full_name": "ops/fleet", "html_url": %q, "clone_url": %q}}`, time.Now().UnixNano(), strings.TrimSuffix(f.url, ".git"), f.url)
	mac := hmac.New(sha256.New, []byte(hookSecret))
	mac.Write(body)
	req, err := http.NewRequest(http.MethodPost, hook, bytes.NewReader(body))
	if err != nil {
		f.t.Error(err)
		return
	}
	req.Header = http.Header{
		"Content-Type": {"application/json"}, "X-Github-Event": {"push"}, "X-Github-Delivery": {fmt.Sprint(time.Now().UnixNano())},
		"X-Hub-Signature-256": {"sha256=" + hex.EncodeToString(mac.Sum(nil))},
	}
	res, err := web.Do(req)
	if err != nil {
		f.t.Error(err)
		return
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusAccepted {
		f.t.Errorf("the webhook is answered with %s", res.Status)
	}
}

// until waits for a status of a commit.
func (f *forge) until(commit, want string) {
	f.t.Helper()
	for limit := time.After(patience); ; {
		f.mu.Lock()
		told := slices.Clone(f.told[commit])
		f.mu.Unlock()
		if slices.ContainsFunc(told, func(s string) bool { return strings.HasPrefix(s, want) }) {
			return
		}
		select {
		case <-f.heard:
		case <-limit:
			f.t.Fatalf("told of %s: %q, want %q", commit, told, want)
		}
	}
}

func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.com")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// A developer commits in the site's repo and pushes to the forge, both with real git.
type developer struct {
	*site
	forge *forge
}

// push commits a change of web hosts, signed or not, and returns the commit.
func (d developer) push(module string, signed ...string) string {
	d.t.Helper()
	text := fmt.Sprintf("schedule:\n  hello: {module: %s, interval: 1h}\n", module)
	if err := os.WriteFile(filepath.Join(d.work.Dir(), "settings", "web.yaml"), []byte(text), 0o600); err != nil {
		d.t.Fatal(err)
	}
	run(d.t, d.work.Dir(), "git", append(signed, "commit", "-q", "-a", "-m", "hello by "+module)...)
	run(d.t, d.work.Dir(), "git", "push", "-q", strings.Replace(d.forge.url, "://", "://ada:"+forgePassword+"@", 1), "HEAD:main")
	return run(d.t, d.work.Dir(), "git", "rev-parse", "HEAD")
}

// sign are the options by which git signs with a key that was made here, whose public half may sign.
func (d developer) sign() []string {
	d.t.Helper()
	if _, err := exec.LookPath("ssh-keygen"); err != nil {
		d.t.Skip("needs ssh-keygen, which is not installed")
	}
	run(d.t, d.dir, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "ada", "-f", "key")
	public, err := os.ReadFile(d.path("key.pub"))
	if err != nil {
		d.t.Fatal(err)
	}
	d.write("signers", "ada@example.com "+string(public))
	return []string{"-c", "gpg.format=ssh", "-c", "user.signingkey=" + d.path("key"), "-c", "commit.gpgsign=true"}
}

// master starts a master that never polls, for two peels.
func (d developer) master() *process {
	d.t.Helper()
	d.write("password", forgePassword+"\n")
	d.write("token", statusToken+"\n")
	d.write("secret", hookSecret+"\n")
	d.write("master.yaml", fmt.Sprintf(`
data_dir: master
repo: %s
poll: 100h
listen: 127.0.0.1:0
rest: {listen: "127.0.0.1:0"}
git: {password: password}
verify: {ssh: signers}
hooks: [{name: fleet, provider: github, secrets: [secret]}]
notify: [{name: forge, provider: github, token: token, plans: off}]
`, d.forge.url))
	master := d.daemon("zester-master", "--config", "master.yaml")
	address := regexp.MustCompile(`"listen":"([^"]*)"`).FindStringSubmatch(master.waitFor("REST is served"))
	master.waitFor("master is ready")
	d.forge.mu.Lock()
	defer d.forge.mu.Unlock()
	d.forge.hook, d.forge.web = "https://"+address[1]+"/hooks/fleet", natstest.HTTPS(d.t, d.path("master/tls/ca.crt"))
	return master
}

func TestAPushIsSignedHeardPlannedRolledOutAppliedAndReported(t *testing.T) {
	s := newSite(t, fstest.MapFS{
		"zester.yaml":       {Data: []byte("waves: [{name: canary, peels: 1, soak: 1s}]\n")},
		"top.yaml":          {Data: []byte("base:\n  '*': [web]\n")},
		"settings/web.yaml": {Data: []byte("schedule:\n  hello: {module: test.ping, interval: 1h}\n")},
	})
	d := developer{site: s}
	signed := d.sign()
	run(t, s.work.Dir(), "git", append(signed, "commit", "-q", "--amend", "--no-edit")...)
	d.forge = newForge(s)
	first := run(t, s.work.Dir(), "git", "rev-parse", "HEAD")
	master := d.master()
	d.forge.until(first, "success: 0/0 peels")
	var peels []*process
	for _, id := range []string{"web-01", "web-02"} {
		p := s.daemon("zester-peel", "--id", id, "--data-dir", id, "--url", s.url(), "--creds", s.issue(grants.RolePeel, id))
		p.waitFor("settings applied", first)
		peels = append(peels, p)
	}
	s.zester(0, "sync", "wait", "--peels", "2")

	for _, p := range peels { // a wave that is over soon is not told
		p.signal(syscall.SIGSTOP)
		p.stopped()
	}
	c := d.push("test.echo", signed...)
	d.forge.until(c, "pending: wave 1 of 1 (canary)")
	for _, p := range peels {
		p.signal(syscall.SIGCONT)
	}
	d.forge.until(c, "success: 2/2 peels in ")
	master.waitFor("rollout begins", c)
	master.waitFor("wave begins", c, "canary")
	master.waitFor("revision in force", c)
	out := s.zester(0, "*", "schedule.list", "-o", "json")
	if strings.Count(out, "test.echo") != 2 || strings.Contains(out, "test.ping") {
		t.Errorf("the peels have %s", out)
	}
	if out, errOut, code := (command{dir: s.work.Dir(), args: []string{"zester", "--data-dir", s.path("master"), "plan", "--base", first, "--head", c}}).run(t); code != 2 || !strings.Contains(out, "2 peels") {
		t.Errorf("the plan of it ends with %d: %s%s", code, out, errOut)
	}

	bad := d.push("test.ping")
	d.forge.until(bad, "failure: ")
	s.zester(1, "sync", "wait")
	if out := s.zester(0, "sync", "status"); !strings.Contains(out, "SourceVerified") || !strings.Contains(out, c[:8]) {
		t.Errorf("sync status:\n%s", out)
	}
	if out := s.zester(0, "*", "schedule.list", "-o", "json"); strings.Count(out, "test.echo") != 2 {
		t.Errorf("the peels have %s", out)
	}
}
