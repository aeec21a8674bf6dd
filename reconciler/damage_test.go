package reconciler_test

import (
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/status"
)

// remote serves the site's repo over HTTP, so that the master has a store of its own.
func (s *site) remote() {
	s.t.Helper()
	out, err := exec.Command("git", "--exec-path").Output()
	backend := filepath.Join(strings.TrimSpace(string(out)), "git-http-backend")
	if _, missing := os.Stat(backend); err != nil || missing != nil {
		s.t.Skip("needs git-http-backend")
	}
	server := httptest.NewServer(&cgi.Handler{Path: backend, Root: "/", Env: []string{
		"GIT_PROJECT_ROOT=" + filepath.Dir(s.dir), "GIT_HTTP_EXPORT_ALL=1",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*",
	}})
	s.t.Cleanup(server.Close)
	s.url, s.stores = server.URL+"/"+filepath.Base(s.dir)+"/.git", s.t.TempDir()
}

// damage changes the files of the store that a pattern names.
func (s *site) damage(pattern string, change func([]byte) []byte) {
	s.t.Helper()
	names, err := filepath.Glob(filepath.Join(s.stores, "*.git", "objects", "pack", pattern))
	if err != nil || len(names) == 0 {
		s.t.Fatalf("%q, %v", names, err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			s.t.Fatal(err)
		}
		_ = os.Remove(name) // it is read-only
		if err := os.WriteFile(name, change(data), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
}

func TestADamagedStoreIsReplaced(t *testing.T) {
	s := newSite(t, fleetFiles())
	s.remote()
	s.peel("web-01", nil)
	s.start()
	before := s.settled(1).LastGood.Commit
	for i, name := range []string{"x", "y"} {
		s.damage("*", func([]byte) []byte { return []byte("PACK of nothing") })
		if i == 1 { // a master that starts finds it so
			s.stop()
			s.start()
		}
		if out := s.now(); !out.Is(status.Ready) || out.LastGood.Commit != before {
			t.Errorf("with a damaged store: %+v", out)
		}
		c := settings.Commit(s.commit(name, map[string]string{"settings/web.yaml": "schedule:\n  " + name + ": {module: test.ping, interval: 1h}\n"}).String())
		out := s.now()
		for out.LastGood.Commit != c {
			out = s.now()
		}
		if got := strings.Join(s.entries("web-01"), ""); out.Is(status.FetchFailed) || got != "abcd"+name {
			t.Errorf("web-01 has %s, %+v", got, out)
		}
		before = c
	}
}

// The commit and its directories can be read, so that nothing but a look at the file itself finds the damage.
func TestADamagedFileOfTheStoreIsFetchedAgainWithoutANewCommit(t *testing.T) {
	s := newSite(t, fleetFiles())
	s.remote()
	s.start()
	first := s.settled(0).LastGood.Commit
	s.stop()
	s.damage("*.pack", func(pack []byte) []byte {
		pack[len(pack)-26] ^= 0xff // within the last object, which is a file: Git sends what refers to it first
		return pack
	})
	s.start()
	s.peel("web-02", nil)
	out := s.settled(1)
	for out.Is(status.FetchFailed) || !out.Is(status.Ready) {
		out = s.now()
	}
	if got := strings.Join(s.entries("web-02"), ""); out.LastGood.Commit != first || got != "abcdw" {
		t.Errorf("web-02 has %s, %+v", got, out)
	}
	if left, err := filepath.Glob(filepath.Join(s.stores, "*.damaged")); err != nil || len(left) != 1 {
		t.Errorf("the store was not replaced: %q, %v", left, err)
	}
}
