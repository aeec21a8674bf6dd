package gitrepo

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

// dripping is a server of Git's that, while it drips, gives its answers byte by byte.
type dripping struct {
	method atomic.Value // of the requests whose answers drip; "" for none
	sent   atomic.Int64 // bytes that dripped
}

func (d *dripping) serve(t *testing.T, w *Work) string {
	t.Helper()
	to, err := url.Parse(gitServer(t, filepath.Dir(w.Dir()), nil).URL)
	if err != nil {
		t.Fatal(err)
	}
	d.method.Store("")
	git := httputil.NewSingleHostReverseProxy(to)
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		if req.Method == d.method.Load() {
			rw = drip{rw, req.Context(), d}
		}
		git.ServeHTTP(rw, req)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/" + filepath.Base(w.Dir()) + "/.git"
}

type drip struct {
	http.ResponseWriter
	ctx context.Context // of the request
	d   *dripping
}

func (d drip) Write(p []byte) (int, error) {
	for i := range p {
		if _, err := d.ResponseWriter.Write(p[i : i+1]); err != nil {
			return i, err
		}
		if err := http.NewResponseController(d.ResponseWriter).Flush(); err != nil {
			return i, err
		}
		d.d.sent.Add(1)
		select {
		case <-d.ctx.Done():
			return i, d.ctx.Err()
		case <-time.After(time.Second):
		}
	}
	return len(p), nil
}

// ends tries with longer and longer deadlines, until one ends while bytes come.
func (d *dripping) ends(t *testing.T, method string, do func(context.Context, time.Duration) error) {
	t.Helper()
	d.method.Store(method)
	defer d.method.Store("")
	d.sent.Store(0)
	for limit := 50 * time.Millisecond; d.sent.Load() == 0; limit *= 2 {
		wantReason(t, do(t.Context(), limit), Timeout)
	}
}

func TestAServerThatDripsAByteASecondEndsWithTheDeadline(t *testing.T) {
	w := newWork(t, files("a", "1"))
	var d dripping
	address := d.serve(t, w)
	r := openRepo(t, Options{URL: address})
	follow(t, r)
	h := commit(t, w, "two", "a", "2")
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		d.ends(t, method, func(ctx context.Context, limit time.Duration) error {
			r := openRepo(t, Options{URL: address}) // which has not asked before what the server can do
			_, err := r.remote.Resolve(ctx, limit, r.branch)
			return remoteError(r.address, err)
		})
	}
	before := packs(t, r)
	d.ends(t, http.MethodPost, func(ctx context.Context, limit time.Duration) error { return r.fetchInto(ctx, r.store, h, limit) })
	if packs(t, r) != before {
		t.Errorf("%d packs, want %d", packs(t, r), before)
	}
	s, _ := follow(t, r)
	wantFiles(t, s.Tree, "a", "2")
}
