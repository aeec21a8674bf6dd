package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// cutAnswer passes on only the beginning of the answers to fetch requests.
func cutAnswer(limit *atomic.Int64) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, req *http.Request) bool {
		if n := limit.Load(); n > 0 && req.Method == http.MethodPost && req.Header.Get("Git-Protocol") == "" {
			rec := httptest.NewRecorder()
			proxyTo(rec, req)
			body := rec.Body.Bytes()
			w.Header().Set("Content-Type", typeResult)
			w.Header().Set("Content-Length", fmt.Sprint(len(body)))
			_, _ = w.Write(body[:min(int(n), len(body))])
			panic(http.ErrAbortHandler)
		}
		return false
	}
}

// proxyTo answers a request with another, uncut server of the same files.
func proxyTo(w http.ResponseWriter, req *http.Request) {
	uncut := req.Context().Value(uncutKey{}).(http.Handler)
	uncut.ServeHTTP(w, req)
}

type uncutKey struct{}

func TestCutTransferLeavesTheStoreAsItWas(t *testing.T) {
	w := newWork(t, files("a", "1"))
	var limit atomic.Int64
	root := filepath.Dir(w.Dir())
	inner := gitServer(t, root, nil)
	cut := cutAnswer(&limit)
	outer := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		ctx := context.WithValue(req.Context(), uncutKey{}, inner.Config.Handler)
		if req = req.WithContext(ctx); !cut(rw, req) {
			inner.Config.Handler.ServeHTTP(rw, req)
		}
	}))
	t.Cleanup(outer.Close)
	r := openRepo(t, Options{URL: outer.URL + "/work/.git"})
	first, _ := follow(t, r)
	h := commit(t, w, "two", "a", strings.Repeat("2", 100))
	for _, n := range []int64{1, 5, 20, 60, 150, 250} {
		limit.Store(n)
		err := r.Fetch(t.Context(), h)
		if _, ok := errors.AsType[*Error](err); !ok {
			t.Errorf("a transfer cut after %d bytes gives %v", n, err)
		}
		left, _ := filepath.Glob(filepath.Join(r.dir, "objects", "pack", "tmp_*"))
		if len(left) > 0 || packs(t, r) != 1 || r.store.broken() != nil {
			t.Errorf("after %d bytes: %q is left, %d packs, damage %v", n, left, packs(t, r), r.store.broken())
		}
		wantFiles(t, first.Tree, "a", "1")
	}
	limit.Store(0)
	s, _ := follow(t, r)
	if s.Commit.Hash != h {
		t.Errorf("at %s, want %s", s.Commit.Hash, h)
	}
}

func TestSilentSSHServerEndsWithTheContext(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	agent := filepath.Join(t.TempDir(), "agent")
	a, err := net.Listen("unix", agent)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	t.Setenv("SSH_AUTH_SOCK", agent)
	hosts := filepath.Join(t.TempDir(), "known_hosts")
	if err := os.WriteFile(hosts, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SSH_KNOWN_HOSTS", hosts)

	ctx, cancel := context.WithCancel(t.Context())
	closed := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			closed <- err
			return
		}
		cancel()
		_, err = io.Copy(io.Discard, c)
		closed <- err
	}()
	_, err = openRepo(t, Options{URL: "ssh://git@" + l.Addr().String() + "/x"}).Resolve(ctx)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
	<-closed // the connection is gone, not only given up
}

func TestSSHWithoutAgentIsAnAuthenticationFailure(t *testing.T) {
	t.Setenv("SSH_AUTH_SOCK", "")
	_, err := openRepo(t, Options{URL: "git@127.0.0.1:x.git"}).Resolve(t.Context())
	wantReason(t, err, AuthenticationFailed)
}
