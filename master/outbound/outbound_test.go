package outbound

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func do(t *testing.T, most int64, handle http.HandlerFunc, secrets ...string) ([]byte, error) {
	t.Helper()
	s := httptest.NewServer(handle)
	t.Cleanup(s.Close)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/services/T0/k3y-of-the-chat", nil)
	if err != nil {
		t.Fatal(err)
	}
	return New(nil).Do(req, most, secrets...)
}

func TestAnAnswerIsReadUpToALimit(t *testing.T) {
	answer := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("12345")) }
	if body, err := do(t, 5, answer); string(body) != "12345" || err != nil {
		t.Errorf("%q, %v", body, err)
	}
	if _, err := do(t, 4, answer); err == nil || !strings.Contains(err.Error(), "more than 4 bytes") {
		t.Errorf("error is %v", err)
	}
}

func TestAnErrorShowsNoSecretAndNoAddress(t *testing.T) {
	echo := func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte("no\x1b[2J such\u202e hook: " + r.URL.Path))
	}
	_, err := do(t, 1<<10, echo, "k3y-of-the-chat")
	if err == nil || strings.Contains(err.Error(), "k3y") || !strings.Contains(err.Error(), "(hidden)") || strings.ContainsAny(err.Error(), "\x1b\u202e") {
		t.Errorf("error is %v", err)
	}
	if !HasStatus(err, http.StatusNotFound, http.StatusForbidden) || HasStatus(err, http.StatusNotFound) {
		t.Errorf("its status is wrong: %#v", err)
	}
	hangUp := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	if _, err := do(t, 1<<10, hangUp); err == nil || strings.Contains(err.Error(), "k3y") {
		t.Errorf("error is %v", err)
	}
}

func TestARedirectIsNotFollowed(t *testing.T) {
	asked := 0
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	t.Cleanup(elsewhere.Close)
	_, err := do(t, 1<<10, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
	})
	if asked != 0 || !HasStatus(err, http.StatusTemporaryRedirect) {
		t.Errorf("asked %d times, %v", asked, err)
	}
}

func TestWaitsThatServersAskForAreBounded(t *testing.T) {
	for value, want := range map[string]time.Duration{"": 0, "90": 90 * time.Second, "60000": time.Hour, "-5": 0, "soon": 0, "Wed, 21 Oct 2099 07:28:00 GMT": time.Hour} {
		_, err := do(t, 1, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", value)
			w.WriteHeader(http.StatusTooManyRequests)
		})
		var e *Error
		if !errors.As(err, &e) || e.After != want || e.Final {
			t.Errorf("%q: %#v", value, err)
		}
	}
}

func TestASecretThatOthersCanReplaceIsRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	file := filepath.Join(dir, "token")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(file, []byte("t0ken\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if s, err := ReadGuardedSecret(file); s != "t0ken" || err != nil {
		t.Errorf("%q, %v", s, err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadGuardedSecret(file); err == nil || !strings.Contains(err.Error(), "chmod go-w") {
		t.Errorf("others may write to its directory: %v", err)
	}
	if err := errors.Join(os.Chmod(dir, 0o700), os.Chmod(file, 0o644)); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadGuardedSecret(file); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("others may read it: %v", err)
	}
}

func FuzzLine(f *testing.F) {
	f.Add("a\nb\x00\u202e ä", 5)
	f.Fuzz(func(t *testing.T, text string, most int) {
		if most < 4 || most > 1<<20 {
			return
		}
		got := Line(text, most)
		if len(got) > most || !utf8.ValidString(got) || strings.ContainsAny(got, "\n\r\x00\x1b\u202e\u2028") {
			t.Errorf("%q", got)
		}
	})
}
