package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/master"
)

// TestConsoleSignsABrowserIn goes through the proxy of zester console as a browser does.
func TestConsoleSignsABrowserIn(t *testing.T) {
	f, err := startFleet(t.TempDir(), func(f *fleet) error {
		f.rest = master.REST{Listen: "127.0.0.1:0"}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.stop(); err != nil {
			t.Error(err)
		}
	})

	var printed bytes.Buffer
	if code := run(t.Context(), []string{"--data-dir", f.dir, "console", "--print"}, &printed, io.Discard); code != exitOK {
		t.Fatalf("--print ended with %d", code)
	}
	if !regexp.MustCompile(`^https://127\.0\.0\.1:\d+/login#local\.[\w-]{43}\n$`).MatchString(printed.String()) {
		t.Errorf("--print printed %q", &printed)
	}

	t.Setenv("DISPLAY", "")
	t.Setenv("WAYLAND_DISPLAY", "")
	ctx, cancel := context.WithCancel(t.Context())
	out, in := io.Pipe()
	ended := make(chan int, 1)
	go func() { ended <- run(ctx, []string{"--data-dir", f.dir, "console"}, in, io.Discard) }()
	line := make([]byte, 1024)
	n, err := out.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	link, err := url.Parse(strings.TrimSpace(strings.TrimPrefix(string(line[:n]), "open ")))
	if err != nil {
		t.Fatal(err)
	}

	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Jar: jar}
	send := func(method, path, host, origin string, form url.Values) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(ctx, method, "http://127.0.0.1:"+link.Port()+path, strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		r.Header.Set("Accept", "text/html")
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
	if status, _ := send("GET", "/peels", "evil.example", "", nil); status != http.StatusMisdirectedRequest {
		t.Errorf("for another host: %d", status)
	}
	form := url.Values{"code": {link.Fragment}, "next": {"/login"}}
	if status, _ := send("POST", "/login", link.Host, "https://evil.example", form); status != http.StatusForbidden {
		t.Errorf("from another site: %d", status)
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if status, text := send("POST", "/login", link.Host, "http://"+link.Host, form); status != http.StatusSeeOther {
		t.Errorf("the login: %d %s", status, text)
	}
	if status, text := send("GET", "/peels", link.Host, "", nil); status != http.StatusOK || !strings.Contains(text, "web-01") {
		t.Errorf("the page: %d %s", status, text)
	}
	cancel()
	if code := <-ended; code != exitOK && code != exitInterrupted {
		t.Errorf("it ended with %d", code)
	}
}

func TestLoopbackIsThisHostAlone(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1:8440": true, "[::1]:8440": true, "localhost:4222": true, "127.0.0.1": true,
		"10.0.0.1:8440": false, "zester.example.com:8440": false, "": false, "[::]:8440": false,
	} {
		if got := isLoopback(address); got != want {
			t.Errorf("%q: %v, want %v", address, got, want)
		}
	}
	a := &app{connect: connection{dataDir: t.TempDir()}}
	err := a.checkReachable("127.0.0.1:40123", "tls://bus.example.com:4222")
	if err == nil || err.Error() != "the master serves the console on its own host alone, at 127.0.0.1:40123" {
		t.Errorf("from another host: %v", err)
	}
	for console, bus := range map[string]string{
		"10.0.0.1:8440": "tls://10.0.0.1:4222", "127.0.0.1:8440": "tls://127.0.0.1:4222",
	} {
		if err := a.checkReachable(console, bus); err != nil {
			t.Errorf("the console at %s beside the bus at %s: %v", console, bus, err)
		}
	}
	if got := hostOfURL("tls://bus.example.com:4222"); got != "bus.example.com:4222" {
		t.Errorf("the host of the URL is %q", got)
	}
}
