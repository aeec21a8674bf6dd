package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// gitServer serves the repositories below root over smart HTTP with Git's own
// program. before may answer a request itself and return true.
func gitServer(t testing.TB, root string, before func(http.ResponseWriter, *http.Request) bool) *httptest.Server {
	t.Helper()
	execPath := gitCLI(t, root, "--exec-path")
	backend := filepath.Join(execPath, "git-http-backend")
	if _, err := os.Stat(backend); err != nil {
		t.Skip("needs git-http-backend")
	}
	git := &cgi.Handler{
		Path:   backend,
		Root:   "/",
		Stderr: io.Discard,
		Env: []string{
			"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1",
			"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*",
		},
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if before == nil || !before(w, r) {
			git.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// served is a Work behind a server.
func served(t testing.TB, w *Work, before func(http.ResponseWriter, *http.Request) bool) string {
	t.Helper()
	return gitServer(t, filepath.Dir(w.Dir()), before).URL + "/" + filepath.Base(w.Dir()) + "/.git"
}

// fake is a server that is none of Git's.
func fake(t testing.TB, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL + "/repo.git"
}

func TestFollowsOverHTTP(t *testing.T) {
	w := newWork(t, files("a", "1", "d/b", "2"))
	var posts, gets atomic.Int32
	r := openRepo(t, Options{URL: served(t, w, func(_ http.ResponseWriter, req *http.Request) bool {
		if req.Method == http.MethodPost {
			posts.Add(1)
		} else {
			gets.Add(1)
		}
		return false
	})})
	s, damage := follow(t, r)
	wantFiles(t, s.Tree, "a", "1", "d/b", "2")
	if damage != "" {
		t.Errorf("the store was replaced for %q", damage)
	}

	h := commit(t, w, "two", "a", "3")
	s, _ = follow(t, r)
	if s.Commit.Hash != h {
		t.Errorf("at %s, want %s", s.Commit.Hash, h)
	}
	wantFiles(t, s.Tree, "a", "3", "d/b", "2")

	posts.Store(0)
	gets.Store(0)
	if _, err := r.Resolve(t.Context()); err != nil {
		t.Fatal(err)
	}
	if posts.Load() != 1 || gets.Load() != 0 {
		t.Errorf("a poll takes %d POST and %d GET, want 1 and 0", posts.Load(), gets.Load())
	}
}

func TestForcePushOverHTTP(t *testing.T) {
	w := newWork(t, files("a", "1"))
	first, err := w.Head()
	if err != nil {
		t.Fatal(err)
	}
	commit(t, w, "two", "a", "2")
	r := openRepo(t, Options{URL: served(t, w, nil)})
	old, _ := follow(t, r)
	crafted(t, w, line("100644", "z", blobOf(t, old, "a")))
	s, _ := follow(t, r)
	wantFiles(t, s.Tree, "z", "2")
	wantFiles(t, old.Tree, "a", "2")
	setBranch(t, w, first)
	if s, _ = follow(t, r); s.Commit.Hash != first {
		t.Errorf("at %s, want %s", s.Commit.Hash, first)
	}
}

func TestServerOfVersionZeroIsListed(t *testing.T) {
	w := newWork(t, files("a", "1"))
	r := openRepo(t, Options{URL: served(t, w, func(_ http.ResponseWriter, req *http.Request) bool {
		req.Header.Del("Git-Protocol")
		return false
	})})
	s, _ := follow(t, r)
	wantFiles(t, s.Tree, "a", "1")
	_, err := openRepo(t, Options{URL: urlOf(r), Branch: "none"}).Resolve(t.Context())
	wantReason(t, err, RefNotFound)
}

func TestBranchThatMovesBetweenResolveAndFetch(t *testing.T) {
	w := newWork(t, files("a", "1"))
	r := openRepo(t, Options{URL: served(t, w, nil)})
	before, err := r.Resolve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	commit(t, w, "two", "a", "2")
	if err := r.Fetch(t.Context(), before); err != nil {
		t.Errorf("forward: %v", err)
	}
	s, _ := follow(t, r)
	stale := commit(t, w, "three", "a", "3")
	crafted(t, w, line("100644", "a", blobOf(t, s, "a")))
	err = r.Fetch(t.Context(), stale)
	wantReason(t, err, RefMoved)
}

func TestRemoteBranchesThatCannotBeFollowed(t *testing.T) {
	w := newWork(t, files("a", "1"))
	root := filepath.Dir(w.Dir())
	gitCLI(t, root, "init", "-q", "--bare", "empty.git")
	gitCLI(t, root, "init", "-q", "--bare", "--object-format=sha256", "sha256.git")
	commit(t, w, "two", "a", "2")
	gitCLI(t, root, "clone", "-q", "--depth=1", "file://"+w.Dir(), "shallow.git", "--bare")
	url := gitServer(t, root, nil).URL
	for _, tc := range []struct {
		name, branch string
		want         Reason
	}{
		{"empty.git", "main", EmptyRemote},
		{"none.git", "main", NotFound},
		{"sha256.git", "main", UnsupportedObjectFormat},
		{"work/.git", "none", RefNotFound},
	} {
		_, err := openRepo(t, Options{URL: url + "/" + tc.name, Branch: tc.branch}).Resolve(t.Context())
		wantReason(t, err, tc.want)
	}
	r := openRepo(t, Options{URL: url + "/shallow.git"})
	h, err := r.Resolve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = r.Fetch(t.Context(), h)
	wantReason(t, err, ShallowRemote)
}

func TestAnswersThatAreNoRepository(t *testing.T) {
	const login = "<html>please log in, token hunter2</html>"
	advertise := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", typeAdvertisement)
			_, _ = io.WriteString(w, body)
		}
	}
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			http.Error(w, login, code)
		}
	}
	for _, tc := range []struct {
		name    string
		handler http.HandlerFunc
		want    Reason
	}{
		{"login page", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = io.WriteString(w, login)
		}, NotGit},
		{"login page of the right type", advertise(login), NotGit},
		{"nothing", advertise(""), RemoteFailed},
		{"flush", advertise("0000"), EmptyRemote},
		{"service and flush", advertise("001e# service=git-upload-pack\n00000000"), EmptyRemote},
		{"cut line", advertise("001e# service=git-up"), RemoteFailed},
		{"401", status(http.StatusUnauthorized), AuthenticationFailed},
		{"403", status(http.StatusForbidden), Forbidden},
		{"404", status(http.StatusNotFound), NotFound},
		{"429", status(http.StatusTooManyRequests), RateLimited},
		{"503", status(http.StatusServiceUnavailable), RemoteFailed},
		{"500", status(http.StatusInternalServerError), RemoteFailed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			url := strings.Replace(fake(t, tc.handler), "http://", "http://tokenuser:hunter2@", 1)
			_, err := openRepo(t, Options{URL: url}).Resolve(t.Context())
			e := wantReason(t, err, tc.want)
			if text := err.Error(); strings.Contains(text, "hunter2") || strings.Contains(text, "tokenuser") ||
				strings.Contains(text, "<html>") {
				t.Errorf("error says too much: %s", text)
			}
			if wait := tc.want == RateLimited || tc.name == "503"; wait && e.RetryAfter != 7*time.Second {
				t.Errorf("retry after %v, want 7 s", e.RetryAfter)
			}
		})
	}
}

// lsRefsServer is a server of protocol version 2 whose answers to POST are given.
func lsRefsServer(t *testing.T, answer http.HandlerFunc) string {
	return fake(t, func(w http.ResponseWriter, req *http.Request) {
		if req.Method == http.MethodPost {
			w.Header().Set("Content-Type", typeResult)
			answer(w, req)
			return
		}
		w.Header().Set("Content-Type", typeAdvertisement)
		_, _ = io.WriteString(w, "001e# service=git-upload-pack\n0000000eversion 2\n000bls-refs0000")
	})
}

func TestCutListOfReferencesIsNotAnEmptyOne(t *testing.T) {
	whole := fmt.Sprintf("003d%s refs/heads/main\n", Hash{1})
	for body, want := range map[string]Reason{
		"":                             RemoteFailed,
		whole[:20]:                     RemoteFailed,
		whole:                          RemoteFailed,
		"0000":                         EmptyRemote,
		"<html>":                       NotGit,
		"000enonsense\n0000":           NotGit,
		"0016ERR access denied\n":      Forbidden,
		"001cERR repository not found": NotFound,
	} {
		url := lsRefsServer(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
		_, err := openRepo(t, Options{URL: url}).Resolve(t.Context())
		if e, ok := errors.AsType[*Error](err); !ok || e.Reason != want {
			t.Errorf("answer %q gives %v, want %s", body, err, want)
		}
	}
}

func TestServerThatHangsEndsWithTheContext(t *testing.T) {
	w := newWork(t, files("a", "1"))
	for _, hangs := range []string{"GET", "POST"} {
		t.Run(hangs, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			reason := errors.New("enough")
			url := served(t, w, func(_ http.ResponseWriter, req *http.Request) bool {
				if req.Method != hangs {
					return false
				}
				_, _ = io.Copy(io.Discard, req.Body) // only then the server notices that nobody waits
				cancel(reason)
				<-req.Context().Done()
				return true
			})
			_, err := openRepo(t, Options{URL: url}).Resolve(ctx)
			if !errors.Is(err, reason) {
				t.Errorf("error is %v", err)
			}
		})
	}
}

func TestOwnDeadlineIsATimeout(t *testing.T) {
	url := fake(t, func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() })
	r := openRepo(t, Options{URL: url})
	_, err := r.remote.Resolve(t.Context(), time.Millisecond, r.branch)
	wantReason(t, remoteError(r.address, err), Timeout)
}

func TestRefusedConnectionIsUnreachable(t *testing.T) {
	// Nobody is given the one port, and nobody is asked for the other name (RFC 7686).
	for _, url := range []string{"http://127.0.0.1:1/x", "http://name.onion/x"} {
		_, err := openRepo(t, Options{URL: url}).Resolve(t.Context())
		if e := wantReason(t, err, Unreachable); e.Reason.Stalled() {
			t.Error("an unreachable remote is stalled")
		}
	}
}

func TestUnknownCertificateIsRefused(t *testing.T) {
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	_, err := openRepo(t, Options{URL: s.URL + "/x"}).Resolve(t.Context())
	wantReason(t, err, CertificateInvalid)
}

func TestRedirectIsFollowedWithoutCredentials(t *testing.T) {
	w := newWork(t, files("a", "1"))
	var leaked atomic.Bool
	target := served(t, w, func(_ http.ResponseWriter, req *http.Request) bool {
		if req.Header.Get("Authorization") != "" {
			leaked.Store(true)
		}
		return false
	})
	target = strings.Replace(target, "127.0.0.1", "localhost", 1)
	from := fake(t, func(w http.ResponseWriter, req *http.Request) {
		if req.Method != http.MethodGet {
			http.Error(w, "moved", http.StatusGone)
			return
		}
		http.Redirect(w, req, target+"/info/refs?"+req.URL.RawQuery, http.StatusMovedPermanently)
	})
	s, _ := follow(t, openRepo(t, Options{URL: strings.Replace(from, "http://", "http://user:secret@", 1)}))
	wantFiles(t, s.Tree, "a", "1")
	if leaked.Load() {
		t.Error("credentials went to another host")
	}
}

func hasGit() bool {
	_, err := exec.LookPath("git")
	return err == nil
}
