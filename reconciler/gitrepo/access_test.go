package gitrepo

import (
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

func fileWith(t testing.TB, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	rewrite(t, file, text)
	return file
}

func rewrite(t testing.TB, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestOpenRefusesCredentialsThatCannotBeUsed(t *testing.T) {
	for _, tc := range []struct {
		url    string
		access Access
		want   string
	}{
		{"https://x/y", Access{Password: "p", Token: "t"}, "one of them"},
		{"https://x/y", Access{User: "u"}, "without a file"},
		{"https://u:hunter2@x/y", Access{Token: "t"}, "beside the one in its URL"},
		{"http://x/y", Access{Token: "t"}, "use https"},
		{"ssh://x/y", Access{Token: "t"}, "not reached over https"},
		{"/x/y", Access{Password: "t"}, "not reached over https"},
		{"http://x/y", Access{CA: "c"}, "certificates"},
		{"https://x/y", Access{SSHKey: "k"}, "not reached over ssh"},
		{"https://x/y", Access{KnownHosts: "k"}, "not reached over ssh"},
		{"/x/y", Access{Proxy: "http://p"}, "on this machine"},
		{"https://x/y", Access{Proxy: "u:hunter2@p"}, "not a URL with a host"},
		{"https://x/y", Access{Proxy: "ftp://u:hunter2@p"}, "want http, https"},
		{"git@x:y", Access{Proxy: "http://u:hunter2@p"}, "want socks5"},
	} {
		_, err := Open(Options{URL: tc.url, Dir: t.TempDir(), Access: tc.access})
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s, %+v: %v, want one with %q", tc.url, tc.access, err, tc.want)
		}
	}
}

// guarded is a server that lets nobody in without the header.
func guarded(t *testing.T, w *Work, header *atomic.Value) string {
	t.Helper()
	return served(t, w, func(rw http.ResponseWriter, req *http.Request) bool {
		if req.Header.Get("Authorization") == header.Load() {
			return false
		}
		http.Error(rw, "no: "+req.Header.Get("Authorization"), http.StatusUnauthorized)
		return true
	})
}

func TestACredentialOfAFileIsSentAndReplacedWithoutARestart(t *testing.T) {
	w := newWork(t, files("a", "1"))
	var header atomic.Value
	header.Store("Basic eC1hY2Nlc3MtdG9rZW46aHVudGVyMg==") // x-access-token:hunter2
	url := guarded(t, w, &header)
	secret := fileWith(t, "hunter2\n")
	r := openRepo(t, Options{URL: url, Access: Access{Password: secret}})
	s, _ := follow(t, r)
	wantFiles(t, s.Tree, "a", "1")

	header.Store("Basic eC1hY2Nlc3MtdG9rZW46aHVudGVyMw==") // hunter3
	_, err := r.Resolve(t.Context())
	wantReason(t, err, AuthenticationFailed)
	if !strings.Contains(err.Error(), "the server refuses the configured credentials (status 401)") {
		t.Error(err)
	}
	_, err = openRepo(t, Options{URL: url}).Resolve(t.Context())
	wantReason(t, err, AuthenticationFailed)
	if !strings.Contains(err.Error(), "the server asks for credentials (status 401)") {
		t.Error(err)
	}
	rewrite(t, secret, "hunter3")
	h := commit(t, w, "two", "a", "2")
	if s, _ = follow(t, r); s.Commit.Hash != h {
		t.Errorf("at %s, want %s", s.Commit.Hash, h)
	}
	for _, text := range []string{"", "two\nlines"} {
		rewrite(t, secret, text)
		_, err = r.Resolve(t.Context())
		wantReason(t, err, CredentialsUnreadable)
	}

	header.Store("Basic YWRhOmh1bnRlcjM=") // ada:hunter3
	rewrite(t, secret, "hunter3")
	follow(t, openRepo(t, Options{URL: url, Access: Access{User: "ada", Password: secret}}))
	header.Store("Bearer hunter3")
	follow(t, openRepo(t, Options{URL: url, Access: Access{Token: secret}}))
}

func TestACredentialOfAFileIsNeverShown(t *testing.T) {
	for _, access := range []Access{{Token: fileWith(t, "hunter2")}, {User: "ada", Password: fileWith(t, "hunter2")}} {
		url := lsRefsServer(t, func(w http.ResponseWriter, req *http.Request) {
			text := "ERR denied for " + req.Header.Get("Authorization") + " hunter2\n"
			_, _ = fmt.Fprintf(w, "%04x%s", len(text)+4, text)
		})
		_, err := openRepo(t, Options{URL: url, Access: access}).Resolve(t.Context())
		wantReason(t, err, Forbidden)
		if text := err.Error(); strings.Contains(text, "hunter2") || strings.Contains(text, "YWRhOmh1bnRlcjI=") {
			t.Error(text)
		}
	}
}

func TestACredentialOfAFileGoesToItsServerAlone(t *testing.T) {
	w := newWork(t, files("a", "1"))
	var leaked atomic.Bool
	target := served(t, w, func(_ http.ResponseWriter, req *http.Request) bool {
		leaked.CompareAndSwap(false, req.Header.Get("Authorization") != "")
		return false
	})
	var sent atomic.Bool
	from := fake(t, func(w http.ResponseWriter, req *http.Request) {
		if req.Method != http.MethodGet {
			http.Error(w, "moved", http.StatusGone)
			return
		}
		sent.CompareAndSwap(false, req.Header.Get("Authorization") != "")
		http.Redirect(w, req, target+"/info/refs?"+req.URL.RawQuery, http.StatusMovedPermanently)
	})
	follow(t, openRepo(t, Options{URL: from, Access: Access{Token: fileWith(t, "hunter2")}}))
	if !sent.Load() || leaked.Load() {
		t.Errorf("sent: %v, sent to another: %v", sent.Load(), leaked.Load())
	}
}

func TestARedirectFromHTTPSToHTTPIsRefused(t *testing.T) {
	var followed atomic.Bool
	plain := served(t, newWork(t, files("a", "1")), func(http.ResponseWriter, *http.Request) bool { followed.Store(true); return false })
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		http.Redirect(w, req, plain+"/info/refs?"+req.URL.RawQuery, http.StatusMovedPermanently)
	}))
	s.StartTLS()
	t.Cleanup(s.Close)
	ca := fileWith(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})))
	_, err := openRepo(t, Options{URL: s.URL + "/x", Access: Access{CA: ca}}).Resolve(t.Context())
	if err == nil || !strings.Contains(err.Error(), "redirect from https to http") || followed.Load() {
		t.Errorf("followed: %v, %v", followed.Load(), err)
	}
}

// encrypted is a Git server with TLS, and its certificate in PEM.
func encrypted(t *testing.T, w *Work) (url, ca string) {
	t.Helper()
	plain := gitServer(t, filepath.Dir(w.Dir()), nil)
	s := httptest.NewUnstartedServer(plain.Config.Handler)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	ca = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	return s.URL + "/" + filepath.Base(w.Dir()) + "/.git", ca
}

func TestCertificatesOfAFileCountAndAreReadAgain(t *testing.T) {
	w := newWork(t, files("a", "1"))
	url, ca := encrypted(t, w)
	file := fileWith(t, "none")
	r := openRepo(t, Options{URL: url, Access: Access{CA: file, Token: fileWith(t, "hunter2")}})
	_, err := r.Resolve(t.Context())
	wantReason(t, err, CredentialsUnreadable)
	rewrite(t, file, ca)
	s, _ := follow(t, r)
	wantFiles(t, s.Tree, "a", "1")
	_, err = openRepo(t, Options{URL: url}).Resolve(t.Context())
	wantReason(t, err, CertificateInvalid)
}

// relay is a proxy for http and, by CONNECT, for https. All names lead to one server.
func relay(t *testing.T, to string, passed *atomic.Int32) *httptest.Server {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	plain := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: target.Host}) }}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		passed.Add(1)
		if req.Method != http.MethodConnect {
			plain.ServeHTTP(w, req)
			return
		}
		up, err := net.Dial("tcp", target.Host)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		down, early, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(down, "HTTP/1.1 200 OK\r\n\r\n")
		tie(down, early, up)
	}))
	t.Cleanup(s.Close)
	return s
}

// tie copies both ways until one side ends. What comes from a is read from early.
func tie(a net.Conn, early io.Reader, b net.Conn) {
	go func() { _, _ = io.Copy(a, b); _ = a.Close() }()
	_, _ = io.Copy(b, early)
	_ = b.Close()
}

func TestTheProxyOfTheConfigurationIsUsed(t *testing.T) {
	w := newWork(t, files("a", "1"))
	var passed atomic.Int32
	plain := served(t, w, nil)
	r := openRepo(t, Options{URL: plain, Access: Access{Proxy: relay(t, plain, &passed).URL}})
	follow(t, r)
	if passed.Load() == 0 {
		t.Error("not over the proxy")
	}
	passed.Store(0)
	secure, ca := encrypted(t, w)
	proxy := strings.Replace(relay(t, secure, &passed).URL, "http://", "http://user:hunter2@", 1)
	follow(t, openRepo(t, Options{URL: secure, Access: Access{Proxy: proxy, CA: fileWith(t, ca)}}))
	if passed.Load() == 0 {
		t.Error("https does not go over the proxy")
	}
}

// TestTheProxyOfTheEnvironmentIsUsed runs itself in a process of its own, because the environment is read once.
func TestTheProxyOfTheEnvironmentIsUsed(t *testing.T) {
	if at := os.Getenv("GITREPO_TEST_URL"); at != "" {
		follow(t, openRepo(t, Options{URL: at}))
		return
	}
	w := newWork(t, files("a", "1"))
	var passed atomic.Int32
	at := served(t, w, nil)
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = "forge.invalid" // which only the proxy finds
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), "GITREPO_TEST_URL="+u.String(), "HTTP_PROXY="+relay(t, at, &passed).URL, "NO_PROXY=")
	if out, err := cmd.CombinedOutput(); err != nil || passed.Load() == 0 {
		t.Errorf("%v, %d requests over the proxy\n%s", err, passed.Load(), out)
	}
}
