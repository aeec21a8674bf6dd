package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/master"
	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/login"
	"github.com/seed-c01c3da5/zester/master/login/logintest"
)

// desktop makes a desktop whose browser tells the returned function the URL that it opens.
func desktop(t *testing.T) (opened func() string) {
	t.Helper()
	bin, pipe := t.TempDir(), filepath.Join(t.TempDir(), "url")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\nprintf %s \"$1\" > " + pipe + "\n"
	if err := os.WriteFile(filepath.Join(bin, "xdg-open"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("DISPLAY", ":7")
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	return func() string {
		text, err := os.ReadFile(pipe)
		if err != nil {
			t.Error(err)
		}
		return string(text)
	}
}

// get opens a page, and follows where it leads.
func get(t *testing.T, url string) string {
	a, err := http.Get(url)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		t.Error(err)
	}
	return a.Status + " " + string(text)
}

// withLogins starts a fleet that has a provider of logins. It returns what runs zester in a home of its own, and the URL
// of the console.
func withLogins(t *testing.T) (at *logintest.Provider, f *fleet, zester func(int, ...string) string, link string) {
	t.Helper()
	at = logintest.Start(t)
	at.Fail(logintest.Faults{NoSecret: true})
	at.Person(map[string]any{"sub": "1001", "email": "ann", "groups": []string{"staff"}})
	p, err := login.New(login.Options{
		Issuer: at.URL, ClientID: logintest.ClientID, URL: "https://zester.example.com",
		Roles: []login.Rule{{Group: "staff", Role: grants.RoleAuditor}},
	})
	if err != nil {
		t.Fatal(err)
	}
	f, err = startFleet(t.TempDir(), func(f *fleet) error {
		f.rest = master.REST{Listen: "127.0.0.1:0", Console: master.Console{Login: p}}
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
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	zester = func(want int, args ...string) string {
		t.Helper()
		var out bytes.Buffer
		if code := run(t.Context(), args, &out, &out); code != want {
			t.Fatalf("zester %s ended with %d, want %d:\n%s", strings.Join(args, " "), code, want, &out)
		}
		return out.String()
	}
	link, _, _ = strings.Cut(zester(0, "--data-dir", f.dir, "console", "--print"), "/login#")
	return at, f, zester, link
}

func TestLoginAndLogout(t *testing.T) {
	at, f, zester, link := withLogins(t)
	opened := desktop(t)

	seen := make(chan string, 1)
	go func() {
		to := opened()
		seen <- get(t, to)
	}()
	said := zester(0, "login", link, "--ca", f.ca, "--url", f.url)
	if page := <-seen; !strings.Contains(page, "Go back to the terminal") {
		t.Errorf("the browser shows %s", page)
	}
	if !strings.Contains(said, "ann is logged in; the context 127.0.0.1 is the default") {
		t.Errorf("login says %s", said)
	}
	file := filepath.Join(os.Getenv("XDG_CONFIG_HOME"), "zester", "logins", "127.0.0.1.creds")
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the credential: %v, %v", info, err)
	}
	if list := zester(0, "peel", "list"); !strings.Contains(list, "web-01") {
		t.Errorf("peel list says %s", list)
	}
	zester(exitDenied, "sync", "pause")

	// The context knows where to log in, and a code does without a desktop.
	t.Setenv("DISPLAY", "")
	t.Setenv("WAYLAND_DISPLAY", "")
	out, in := io.Pipe()
	done := make(chan int, 1)
	go func() {
		done <- run(t.Context(), []string{"login"}, io.Discard, in)
		_ = in.Close()
	}()
	line := make([]byte, 1024)
	n, err := out.Read(line)
	if err != nil || !strings.Contains(string(line[:n]), at.URL+"/enter") || !strings.Contains(string(line[:n]), "WDJB-MJHT") {
		t.Errorf("login says %q: %v", line[:n], err)
	}
	at.Decide("")
	rest, err := io.ReadAll(out)
	if code := <-done; code != exitOK || err != nil {
		t.Fatalf("login ended with %d: %s", code, rest)
	}

	config, err := readConfig()
	if err != nil {
		t.Fatal(err)
	}
	config.Contexts["away"] = busContext{URL: "nats://127.0.0.1:1", Creds: file, Login: link}
	config.Contexts["by-hand"] = busContext{URL: f.url, Creds: file}
	if err := writeConfig(config); err != nil {
		t.Fatal(err)
	}
	if said := zester(exitFailed, "logout", "--context", "away"); !strings.Contains(said, "the login of ann has not ended on the bus, where it expires at ") {
		t.Errorf("the logout from a bus that is away says %s", said)
	}
	if said := zester(exitFailed, "login", link, "--context", "by-hand"); !strings.Contains(said, "the context by-hand has a credential that login would replace") {
		t.Errorf("a login in place of another credential says %s", said)
	}

	zester(0, "logout")
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the credential after the logout: %v", err)
	}
	if said := zester(exitFailed, "logout"); !strings.Contains(said, "nobody is logged in here") {
		t.Errorf("a second logout says %s", said)
	}
	if said := zester(exitUsage, "logout", "--url", f.url, "--creds", file); !strings.Contains(said, "there is no login to end: this connection is not one of zester login") {
		t.Errorf("the logout of another credential says %s", said)
	}
}

// A console that is not what it should be gets no key and no answer of the provider.
func TestALoginAtAConsoleThatMisbehaves(t *testing.T) {
	for _, tc := range []struct {
		answer http.HandlerFunc
		want   string
	}{
		{
			func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "https://elsewhere.example", http.StatusTemporaryRedirect)
			},
			"the console sends the login elsewhere",
		},
		{func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }, "cannot log in at https://"},
		{func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "hello", http.StatusTeapot) }, "the answer is 418"},
		{func(w http.ResponseWriter, _ *http.Request) {
			_ = json.NewEncoder(w).Encode(api.LoginNext{Pending: true, Ends: time.Now().Add(time.Hour), Wait: time.Hour})
		}, "nobody has logged in for 10m0s"},
	} {
		t.Run(tc.want, func(t *testing.T) {
			t.Setenv("XDG_CONFIG_HOME", t.TempDir())
			t.Setenv("DISPLAY", "")
			t.Setenv("WAYLAND_DISPLAY", "")
			s := httptest.NewTLSServer(tc.answer)
			defer s.Close()
			ca := filepath.Join(t.TempDir(), "ca.pem")
			if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
				t.Fatal(err)
			}
			patience := time.Minute
			if strings.HasPrefix(tc.want, "nobody") {
				patience = time.Second
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			var out bytes.Buffer
			if code := run(ctx, []string{"login", s.URL, "--ca", ca}, io.Discard, &out); code == exitOK || !strings.Contains(out.String(), tc.want) {
				t.Errorf("login ended with %d: %s, want %s", code, &out, tc.want)
			}
		})
	}
}

func TestACodeIsAskedForAsOftenAsTheProviderWants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		begun := &api.LoginNext{Wait: 5 * time.Second, Ends: began.Add(time.Hour)}
		var asked []time.Duration
		answers := []api.LoginNext{{Pending: true}, {Pending: true, SlowDown: true}, {Pending: true}, {User: "ann"}}
		next, err := awaitCode(t.Context(), begun, func() (*api.LoginNext, error) {
			asked = append(asked, time.Since(began))
			a := answers[0]
			answers = answers[1:]
			return &a, nil
		})
		if err != nil || next.User != "ann" {
			t.Fatalf("%+v, %v", next, err)
		}
		for i, want := range []time.Duration{5, 10, 20, 30} {
			if asked[i] != want*time.Second {
				t.Errorf("request %d came after %v, want %d s", i, asked[i], want)
			}
		}

		begun.Ends = time.Now().Add(12 * time.Second)
		pending := func() (*api.LoginNext, error) { return &api.LoginNext{Pending: true}, nil }
		if _, err := awaitCode(t.Context(), begun, pending); err == nil || !strings.Contains(err.Error(), "nobody has entered the code until ") {
			t.Errorf("a code that has expired: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := awaitCode(ctx, begun, pending); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a login that was given up: %v", err)
		}
	})
}
