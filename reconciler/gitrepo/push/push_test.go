package push_test

import (
	"crypto/ed25519"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/push"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/worktree"
)

var ann = push.Person{Name: "Ann", Email: "ann@example.com"}

// run runs git in dir and returns what it prints.
func run(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// bare makes a bare repository with one commit.
func bare(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git")
	}
	dir := t.TempDir()
	_, err := worktree.Init(filepath.Join(dir, "work"), fstest.MapFS{
		"top.yaml": {Data: []byte("base: {}\n")}, "settings/a.yaml": {Data: []byte("a: 1\n")}, "settings-x": {Data: []byte("x")},
		"bin/run": {Data: []byte("#!/bin/sh\n"), Mode: 0o755},
	}, "first", worktree.Author{Name: "Bob", Email: "bob@example.com", When: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	run(t, dir, "clone", "-q", "--bare", "work", "fleet.git")
	return filepath.Join(dir, "fleet.git")
}

// serve serves a bare repository over HTTP with Git's own program.
func serve(t *testing.T, repo string, before func(http.ResponseWriter, *http.Request) bool) string {
	t.Helper()
	backend := filepath.Join(run(t, repo, "--exec-path"), "git-http-backend")
	if _, err := os.Stat(backend); err != nil {
		t.Skip("needs git-http-backend")
	}
	git := &cgi.Handler{Path: backend, Root: "/", Stderr: io.Discard, Env: []string{
		"GIT_PROJECT_ROOT=" + filepath.Dir(repo), "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=2",
		"GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*", "GIT_CONFIG_KEY_1=http.receivepack", "GIT_CONFIG_VALUE_1=true",
	}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if before == nil || !before(w, r) {
			git.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL + "/" + filepath.Base(repo)
}

func pusher(t *testing.T, url string, o push.Options) *push.Pusher {
	t.Helper()
	o.Repo = gitrepo.Options{URL: url, Dir: t.TempDir()}
	o.Committer = push.Person{Name: "zester", Email: "zester@example.com"}
	p, err := push.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func head(t *testing.T, p *push.Pusher) *gitrepo.Snapshot {
	t.Helper()
	s, err := p.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestACommitHasTheFilesOfItsParentAndTheChanges(t *testing.T) {
	for name, url := range map[string]func(string) string{
		"local": func(repo string) string { return repo },
		"http":  func(repo string) string { return serve(t, repo, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			repo := bare(t)
			p := pusher(t, url(repo), push.Options{})
			h, err := p.Commit(t.Context(), head(t, p), push.Change{Author: ann, Message: "add b\n\nbody\n", Files: map[string][]byte{
				"settings/api/b.yaml": []byte("b: 1\n"), "settings/a.yaml": nil, "top.yaml": []byte("base:\n  '*': [api.b]\n"),
			}})
			if err != nil {
				t.Fatal(err)
			}
			run(t, repo, "fsck", "--strict")
			if got := run(t, repo, "rev-parse", "main"); got != h.String() {
				t.Errorf("main is at %s, want %s", got, h)
			}
			want := "bin/run\nsettings-x\nsettings/api/b.yaml\ntop.yaml"
			if got := run(t, repo, "ls-tree", "-r", "--name-only", "main"); got != want {
				t.Errorf("the commit has %q, want %q", got, want)
			}
			if got := run(t, repo, "log", "-1", "--format=%an <%ae> %cn <%ce> %s"); got != "Ann <ann@example.com> zester <zester@example.com> add b" {
				t.Error(got)
			}
			if got := run(t, repo, "ls-tree", "main", "bin/run"); !strings.HasPrefix(got, "100755 ") {
				t.Error(got)
			}
			if _, err := p.Commit(t.Context(), head(t, p), push.Change{Author: ann, Message: "remove b", Files: map[string][]byte{"settings/api/b.yaml": nil}}); err != nil {
				t.Fatal(err)
			}
			if got := run(t, repo, "ls-tree", "-r", "--name-only", "main"); got != "bin/run\nsettings-x\ntop.yaml" {
				t.Errorf("the directories of the last file stay: %q", got)
			}
			if _, err := p.Commit(t.Context(), head(t, p), push.Change{Author: ann, Message: "m", Branch: "zester/x", Files: map[string][]byte{"n": []byte("n")}}); err != nil {
				t.Fatal(err)
			}
			if main, other := run(t, repo, "rev-parse", "main"), run(t, repo, "rev-parse", "zester/x^"); main != other {
				t.Errorf("a commit on a branch of its own moved main to %s from %s", main, other)
			}
		})
	}
}

func TestABranchThatMovedIsNotOverwritten(t *testing.T) {
	for name, url := range map[string]func(string) string{
		"local": func(repo string) string { return repo },
		"http":  func(repo string) string { return serve(t, repo, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			repo := bare(t)
			p := pusher(t, url(repo), push.Options{})
			base := head(t, p)
			first, err := p.Commit(t.Context(), base, push.Change{Author: ann, Message: "m", Files: map[string][]byte{"n": []byte("n")}})
			if err != nil {
				t.Fatal(err)
			}
			_, err = p.Commit(t.Context(), base, push.Change{Author: ann, Message: "m", Files: map[string][]byte{"o": []byte("o")}})
			if !errors.Is(err, push.ErrMoved) {
				t.Errorf("a second commit on the same parent: %v", err)
			}
			if got := run(t, repo, "rev-parse", "main"); got != first.String() {
				t.Errorf("main is at %s, want %s", got, first)
			}
		})
	}
}

func TestWhereABranchIsAndWhetherItWasMerged(t *testing.T) {
	for name, url := range map[string]func(string) string{
		"local": func(repo string) string { return repo },
		"http":  func(repo string) string { return serve(t, repo, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			repo := bare(t)
			p := pusher(t, url(repo), push.Options{})
			base := head(t, p)
			if tip, merged, err := p.Tip(t.Context(), "zester/x", base); err != nil || !tip.IsZero() || merged {
				t.Errorf("there is no such branch: %s, %v, %v", tip, merged, err)
			}
			want, err := p.Commit(t.Context(), base, push.Change{Author: ann, Message: "m", Branch: "zester/x", Files: map[string][]byte{"n": []byte("n")}})
			if err != nil {
				t.Fatal(err)
			}
			other := pusher(t, url(repo), push.Options{}) // it does not have the commit
			if tip, merged, err := other.Tip(t.Context(), "zester/x", head(t, other)); err != nil || tip != want || merged {
				t.Errorf("a branch that is not merged: %s, %v, %v", tip, merged, err)
			}
			run(t, repo, "update-ref", "refs/heads/main", "zester/x")
			if tip, merged, err := p.Tip(t.Context(), "zester/x", head(t, p)); err != nil || tip != want || !merged {
				t.Errorf("a branch that is merged: %s, %v, %v", tip, merged, err)
			}
			if err := os.Rename(repo, repo+".away"); err != nil {
				t.Fatal(err)
			}
			if tip, _, err := p.Tip(t.Context(), "zester/x", base); err == nil {
				t.Errorf("without a repository: %s", tip)
			}
		})
	}
}

func TestARaceThatTheServerFindsIsReported(t *testing.T) {
	repo := bare(t)
	var other *push.Pusher
	var once atomic.Bool
	url := serve(t, repo, func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "git-receive-pack") && once.CompareAndSwap(false, true) {
			if _, err := other.Commit(t.Context(), head(t, other), push.Change{Author: ann, Message: "faster", Files: map[string][]byte{"f": []byte("f")}}); err != nil {
				t.Error(err)
			}
		}
		return false
	})
	other = pusher(t, repo, push.Options{})
	p := pusher(t, url, push.Options{})
	_, err := p.Commit(t.Context(), head(t, p), push.Change{Author: ann, Message: "slower", Files: map[string][]byte{"s": []byte("s")}})
	if !errors.Is(err, push.ErrMoved) {
		t.Error(err)
	}
	if got := run(t, repo, "log", "-1", "--format=%s", "main"); got != "faster" {
		t.Error(got)
	}
}

func TestARefusalOfTheServerSaysWhy(t *testing.T) {
	repo := bare(t)
	hook := "#!/bin/sh\necho 'GH006: Protected branch update failed' >&2\nexit 1\n"
	if err := os.WriteFile(filepath.Join(repo, "hooks", "pre-receive"), []byte(hook), 0o755); err != nil {
		t.Fatal(err)
	}
	p := pusher(t, serve(t, repo, nil), push.Options{})
	_, err := p.Commit(t.Context(), head(t, p), push.Change{Author: ann, Message: "m", Files: map[string][]byte{"n": []byte("n")}})
	if err == nil || errors.Is(err, push.ErrMoved) || !strings.Contains(err.Error(), "pre-receive hook declined (GH006: Protected branch update failed)") {
		t.Error(err)
	}
}

// TestALostAnswerIsNoLostCommit cuts the answer to a push that the server made.
func TestALostAnswerIsNoLostCommit(t *testing.T) {
	repo := bare(t)
	var git http.Handler
	url := serve(t, repo, func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "git-receive-pack") {
			return false
		}
		git.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	})
	backend := filepath.Join(run(t, repo, "--exec-path"), "git-http-backend")
	git = &cgi.Handler{Path: backend, Root: "/", Stderr: io.Discard, Env: []string{
		"GIT_PROJECT_ROOT=" + filepath.Dir(repo), "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=2",
		"GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*", "GIT_CONFIG_KEY_1=http.receivepack", "GIT_CONFIG_VALUE_1=true",
	}}
	p := pusher(t, url, push.Options{})
	h, err := p.Commit(t.Context(), head(t, p), push.Change{Author: ann, Message: "m", Files: map[string][]byte{"n": []byte("n")}})
	if err != nil {
		t.Fatal(err)
	}
	if got := run(t, repo, "rev-parse", "main"); got != h.String() {
		t.Errorf("main is at %s, want %s", got, h)
	}
}

// TestALocalBranchIsMovedUnderTheLockOfGit has a lock as git holds it while it moves the branch.
func TestALocalBranchIsMovedUnderTheLockOfGit(t *testing.T) {
	repo := bare(t)
	p := pusher(t, repo, push.Options{})
	lock := filepath.Join(repo, "refs", "heads", "main.lock")
	if err := os.WriteFile(lock, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	was, change := head(t, p), push.Change{Author: ann, Message: "m", Files: map[string][]byte{"n": []byte("n")}}
	if h, err := p.Commit(t.Context(), was, change); err == nil || !strings.Contains(err.Error(), "refs/heads/main.lock") {
		t.Errorf("%v, %v", h, err)
	}
	if got := run(t, repo, "rev-parse", "main"); got != was.Commit.Hash.String() {
		t.Errorf("the branch moved to %s while git held its lock", got)
	}
	released := time.AfterFunc(100*time.Millisecond, func() { _ = os.Remove(lock) })
	defer released.Stop()
	h, err := p.Commit(t.Context(), was, change)
	if got := run(t, repo, "rev-parse", "main"); err != nil || got != h.String() {
		t.Errorf("%v; the branch is at %s, want %v", err, got, h)
	}
	if _, err := os.Stat(lock); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the lock is still there: %v", err)
	}
}

func TestACommitIsSignedWithTheKey(t *testing.T) {
	repo := bare(t)
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file, signers := filepath.Join(dir, "key"), filepath.Join(dir, "signers")
	if err := errors.Join(os.WriteFile(file, pem.EncodeToMemory(block), 0o600),
		os.WriteFile(signers, append([]byte("zester "), ssh.MarshalAuthorizedKey(key)...), 0o600)); err != nil {
		t.Fatal(err)
	}
	p := pusher(t, repo, push.Options{Key: file})
	h, err := p.Commit(t.Context(), head(t, p), push.Change{Author: ann, Message: "m", Files: map[string][]byte{"n": []byte("n")}})
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := gitrepo.Open(gitrepo.Options{URL: repo, Dir: t.TempDir(), Verify: gitrepo.Trust{SSH: signers}})
	if err != nil {
		t.Fatal(err)
	}
	defer verifier.Close()
	if err := verifier.Fetch(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	if signer, err := verifier.Verify(h, nil, time.Now()); err != nil || signer.Principal != "zester" {
		t.Errorf("%+v, %v", signer, err)
	}
}

func TestWhatCannotBeCommittedIsRefused(t *testing.T) {
	repo := bare(t)
	p := pusher(t, repo, push.Options{})
	for want, c := range map[string]push.Change{
		"settings is not a regular file":      {Author: ann, Files: map[string][]byte{"settings": []byte("x")}},
		"top.yaml is not a directory":         {Author: ann, Files: map[string][]byte{"top.yaml/x": []byte("x")}},
		"is no name and address for a commit": {Author: push.Person{Name: "a>\nb"}, Files: map[string][]byte{"x": []byte("x")}},
		`"a..b": it is not a branch name`:     {Author: ann, Branch: "a..b", Files: map[string][]byte{"x": []byte("x")}},
	} {
		if _, err := p.Commit(t.Context(), head(t, p), c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	work := filepath.Join(filepath.Dir(repo), "work")
	p = pusher(t, work, push.Options{})
	if _, err := p.Commit(t.Context(), head(t, p), push.Change{Author: ann, Message: "m", Files: map[string][]byte{"n": []byte("n")}}); err == nil || !strings.Contains(err.Error(), "checked out there") {
		t.Error(err)
	}
}
