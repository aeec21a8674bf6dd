package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
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

func TestLoginAndLogout(t *testing.T) {
	at := logintest.Start(t)
	at.Fail(logintest.Faults{NoSecret: true})
	at.Person(map[string]any{"sub": "1001", "email": "ann", "groups": []string{"staff"}})
	p, err := login.New(login.Options{
		Issuer: at.URL, ClientID: logintest.ClientID, URL: "https://zester.example.com",
		Roles: []login.Rule{{Group: "staff", Role: grants.RoleAuditor}},
	})
	if err != nil {
		t.Fatal(err)
	}
	f, err := startFleet(t.TempDir(), func(f *fleet) error {
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
	home := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", home)
	zester := func(want int, args ...string) string {
		t.Helper()
		var out bytes.Buffer
		if code := run(t.Context(), args, &out, &out); code != want {
			t.Fatalf("zester %s ended with %d, want %d:\n%s", strings.Join(args, " "), code, want, &out)
		}
		return out.String()
	}
	link, _, _ := strings.Cut(zester(0, "--data-dir", f.dir, "console", "--print"), "/login#")
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
	file := filepath.Join(home, "zester", "logins", "127.0.0.1.creds")
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

	zester(0, "logout")
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the credential after the logout: %v", err)
	}
	if said := zester(exitFailed, "logout"); !strings.Contains(said, "nobody is logged in here") {
		t.Errorf("a second logout says %s", said)
	}
	if said := zester(exitUsage, "logout", "--url", f.url, "--creds", file); !strings.Contains(said, "no login to end") {
		t.Errorf("the logout of another credential says %s", said)
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
		if _, err := awaitCode(t.Context(), begun, pending); err == nil || !strings.Contains(err.Error(), "until") {
			t.Errorf("a code that has expired: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := awaitCode(ctx, begun, pending); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a login that was given up: %v", err)
		}
	})
}
