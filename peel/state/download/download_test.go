//go:build linux

package download

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/peel/state/download/downloadtest"
)

func TestMain(m *testing.M) { os.Exit(downloadtest.Main(m)) }

var server = downloadtest.Server

func sumOf(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

func TestAFileIsDownloadedWithItsHash(t *testing.T) {
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/f":
			fmt.Fprint(w, "content")
		case "/moved":
			http.Redirect(w, r, "/next", http.StatusFound)
		case "/next":
			if from := r.Referer(); from != "" {
				t.Errorf("the next host gets the address %s", from)
			}
			fmt.Fprint(w, "content")
		case "/plain":
			http.Redirect(w, r, "http://127.0.0.1/f?token=geheim", http.StatusFound)
		case "/loop":
			http.Redirect(w, r, "/loop?token=geheim", http.StatusFound)
		case "/short":
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, "content")
		default:
			http.NotFound(w, r)
		}
	})
	for path, want := range map[string]string{
		"/f":     "",
		"/moved": "",
		"/plain": "the server redirects to http://127.0.0.1/f, which is not https",
		"/loop":  "the server redirects more than 5 times",
		"/short": "unexpected EOF",
		"/none":  "the server answers 404 Not Found",
	} {
		var got bytes.Buffer
		err := Get(t.Context(), server.URL+path+"?token=geheim", sumOf("content"), &got)
		if want == "" && (err != nil || got.String() != "content") {
			t.Errorf("%s: %q, %v", path, got.String(), err)
		}
		if want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), server.URL+path)) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "geheim") {
			t.Errorf("%s: the error has the query: %v", path, err)
		}
	}
	if err := Get(t.Context(), server.URL+"/f", sumOf("other"), io.Discard); err == nil || !strings.Contains(err.Error(), "its SHA-256 is "+sumOf("content")) {
		t.Error(err)
	}
}

func TestAServerWithAnotherCertificateIsRefused(t *testing.T) {
	other := httptest.NewUnstartedServer(http.NotFoundHandler())
	other.TLS = nil
	other.StartTLS()
	defer other.Close()
	_, port, err := net.SplitHostPort(other.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	// The certificate has another name.
	err = Get(t.Context(), "https://localhost:"+port+"/f", sumOf(""), io.Discard)
	if err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Error(err)
	}
	for _, address := range []string{"http://127.0.0.1/f", "file:///etc/passwd", "https://", "ftp://h/f"} {
		if err := Get(t.Context(), address, sumOf(""), io.Discard); err == nil || !strings.Contains(err.Error(), "https") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestADownloadEndsWithItsContext(t *testing.T) {
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	late := errors.New("too late")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, late)
	defer cancel()
	if err := Get(ctx, server.URL+"/f", sumOf(""), io.Discard); !errors.Is(err, late) {
		t.Error(err)
	}
}

// A process reads the variables of its proxy once, so another process makes the download.
func TestTheProxyOfTheEnvironmentIsUsed(t *testing.T) {
	if address := os.Getenv(downloadtest.Inherit); address != "" {
		if err := Get(t.Context(), address, sumOf("content"), io.Discard); err != nil {
			t.Fatal(err)
		}
		return
	}
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "content") })
	var connects atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		connects.Add(1)
		if r.Method != http.MethodConnect || r.Host != "example.com:443" {
			http.Error(w, "no", http.StatusBadRequest)
			return
		}
		to, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			return
		}
		defer to.Close()
		w.WriteHeader(http.StatusOK)
		from, read, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer from.Close()
		go func() { _, _ = io.Copy(to, read) }() // with what the server has read of it already
		_, _ = io.Copy(from, to)
	}))
	defer proxy.Close()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestTheProxyOfTheEnvironmentIsUsed$")
	cmd.Env = append(os.Environ(), downloadtest.Inherit+"=https://example.com/f", "HTTPS_PROXY="+proxy.URL, "NO_PROXY=")
	if out, err := cmd.CombinedOutput(); err != nil || connects.Load() != 1 {
		t.Errorf("%v, %d connections of the proxy\n%s", err, connects.Load(), out)
	}
}
