package outbound

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAPostIsSentToTheAddressInAFile(t *testing.T) {
	var method, path, kind, signature, body string
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		method, path, kind, signature, body = r.Method, r.URL.String(), r.Header.Get("Content-Type"), r.Header.Get("X-Signature"), string(data)
	}))
	t.Cleanup(s.Close)
	dir := t.TempDir()
	at, key := filepath.Join(dir, "url"), filepath.Join(dir, "key")
	for file, text := range map[string]string{at: s.URL + "/base?a=b\n", key: "0123456789abcdef\n"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := New(nil)
	if _, err := c.Post(t.Context(), Post{To: Address{File: at}, Path: "/start", Body: []byte("x"), Key: key}, 10); err != nil {
		t.Fatal(err)
	}
	if method != "POST" || path != "/base/start?a=b" || kind != "application/json" || len(signature) != 7+64 || body != "x" {
		t.Errorf("%s %s of %s, signed %s: %s", method, path, kind, signature, body)
	}
	if _, err := c.Post(t.Context(), Post{To: Address{URL: s.URL + "/ping"}}, 10); err != nil || method != "GET" || path != "/ping" || signature != "" {
		t.Errorf("%s %s, %v", method, path, err)
	}
}

func TestAddressesThatCannotBeUsed(t *testing.T) {
	for _, a := range []Address{{}, {URL: "https://a.example", File: "x"}, {URL: "ftp://a.example"}, {URL: "https://u:p@a.example"}, {URL: "nothing"}, {URL: "https://"}} {
		if err := a.Check(); err == nil || strings.Contains(err.Error(), "a.example") {
			t.Errorf("%+v: %v", a, err)
		}
	}
	file := filepath.Join(t.TempDir(), "url")
	if err := os.WriteFile(file, []byte("k3y-without-a-scheme"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := (Address{File: file}).Read(); err == nil || strings.Contains(err.Error(), "k3y") || !strings.Contains(err.Error(), file) {
		t.Errorf("error is %v", err)
	}
}
