package gitrepo

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// metered counts the bytes of the answers of a server, which it stands before.
func metered(t *testing.T, server string, count *atomic.Int64) string {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: u.Scheme, Host: u.Host})
	proxy.ModifyResponse = func(res *http.Response) error {
		res.Body = counted{res.Body, count}
		return nil
	}
	s := httptest.NewServer(proxy)
	t.Cleanup(s.Close)
	return s.URL + u.Path
}

type counted struct {
	io.ReadCloser
	bytes *atomic.Int64
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.bytes.Add(int64(n))
	return n, err
}

func TestAPollOfManyReferencesIsShort(t *testing.T) {
	w := newWork(t, files("a", "1"))
	head, err := w.Head()
	if err != nil {
		t.Fatal(err)
	}
	packed := strings.Builder{}
	packed.WriteString("# pack-refs with: peeled fully-peeled sorted \n")
	for i := range 20_000 {
		fmt.Fprintf(&packed, "%s refs/pull/%05d/head\n", head, i)
	}
	overwrite(t, filepath.Join(w.Dir(), ".git", "packed-refs"), []byte(packed.String()))
	if _, err := os.Stat(filepath.Join(w.Dir(), ".git", "refs", "heads", "main")); err != nil {
		t.Fatal(err)
	}
	var bytes atomic.Int64
	r := openRepo(t, Options{URL: metered(t, served(t, w, nil), &bytes)})
	s, _ := follow(t, r)
	wantFiles(t, s.Tree, "a", "1")
	bytes.Store(0)
	if got, err := r.Resolve(t.Context()); err != nil || got != head {
		t.Errorf("at %s, %v", got, err)
	}
	if n := bytes.Load(); n == 0 || n > 1024 {
		t.Errorf("a poll takes %d bytes, want at most 1024", n)
	}
	gitCLI(t, w.Dir(), "update-ref", "refs/heads/other", head.String())
	gitCLI(t, w.Dir(), "update-ref", "-d", "refs/heads/main")
	bytes.Store(0)
	_, err = r.Resolve(t.Context())
	wantReason(t, err, RefNotFound)
	if n := bytes.Load(); n > 1024 {
		t.Errorf("a poll for a branch that is gone takes %d bytes, want at most 1024", n)
	}
}
