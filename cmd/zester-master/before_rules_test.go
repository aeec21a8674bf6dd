package main_test

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
)

// TestAFleetOfBeforeRulesComesBack starts a master on the data directory of a fleet that programs of before access rules
// have left, which testdata/before_rules/make has made. People, tokens and the peel have their credentials of then.
func TestAFleetOfBeforeRulesComesBack(t *testing.T) {
	t.Parallel()
	s := &site{t: t, dir: t.TempDir()}
	if out, err := exec.Command("tar", "-xzf", "testdata/before_rules/fleet.tar.gz", "-C", s.dir).CombinedOutput(); err != nil {
		t.Fatalf("cannot read the archive: %v: %s", err, out)
	}
	address := reserve(t)
	m := s.daemon("zester-master", "--id", "m1", "--data-dir", "master", "--listen", "127.0.0.1:0", "--rest-listen", address, "--repo", "fleet")
	m.waitFor("master is ready")
	s.samePower()

	ca := s.path("master/tls/ca.crt")
	s.daemon("zester-peel", "--id", "web-01", "--data-dir", "peel", "--url", s.url(), "--creds", "web-01.creds", "--ca", ca).waitFor("bus is reached")
	as := func(name string, code int, args ...string) {
		t.Helper()
		s.zester(code, append([]string{"--url", s.url(), "--creds", s.path(name + ".creds"), "--ca", ca}, args...)...)
	}
	for _, name := range []string{"ann", "dan", "lee", "sue"} {
		as(name, 0, "web-01", "test.ping")
	}
	as("eve", 0, "peel", "list")
	as("eve", 6, "web-01", "test.ping")
	as("lee", 6, "web-01", "cmd.run", "command=uptime")
	as("rex", 6, "peel", "list")
	s.zester(0, "audit", "verify")

	client := natstest.HTTPS(t, ca)
	for _, row := range []struct {
		token, path string
		want        int
	}{
		{"reader", "/api/v1/peels", http.StatusOK},
		{"root", "/api/v1/peels", http.StatusOK},
		{"prom", "/metrics", http.StatusOK},
		{"prom", "/api/v1/peels", http.StatusForbidden},
		{"ci", "/api/v1/peels", http.StatusForbidden},
	} {
		text, err := os.ReadFile(s.path(row.token + ".token"))
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+row.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+string(bytes.TrimSpace(text)))
		a, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = a.Body.Close()
		if a.StatusCode != row.want {
			t.Errorf("the token %s gets %d for %s, want %d", row.token, a.StatusCode, row.path, row.want)
		}
	}
}

// samePower compares what each person may do with what the master of then said, about each verb of then.
func (s *site) samePower() {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, "may"))
	if err != nil {
		s.t.Fatal(err)
	}
	c, compared := s.client(), 0
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line) // NAME VERB [TARGET FUNCTION] yes or no
		q := api.AccessRequest{Name: words[0], Verb: words[1]}
		if len(words) == 5 {
			q.Target, q.Function = words[2], words[3]
		}
		now, err := api.UserExplain.Ask(s.ctx(), c, q)
		if err != nil && api.CodeOf(err) == api.CodeForbidden {
			now, err = &api.Access{}, nil // a revoked person dispatches nothing
		}
		if err != nil {
			s.t.Errorf("%s: %v", strings.TrimSpace(line), err)
			continue
		}
		if could := words[len(words)-1] == "yes"; now.Allowed != could && !(q.Name == "lee" && strings.Contains(now.Rule, "is about the whole fleet")) {
			s.t.Errorf("then: %s, and now: %s", strings.TrimSpace(line), now.Rule)
		}
		compared++
	}
	if compared < 500 {
		s.t.Errorf("%d questions", compared)
	}
}
