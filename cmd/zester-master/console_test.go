package main_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
)

// TestTheConsoleNeedsNoConfiguration holds that a master without a word about REST serves pages on loopback, and that
// nothing is served where the configuration says so.
func TestTheConsoleNeedsNoConfiguration(t *testing.T) {
	s := newSite(t, fstest.MapFS{"top.yaml": {Data: []byte("base: {}\n")}})
	master := s.daemon("zester-master", "--data-dir", "master", "--listen", "127.0.0.1:0")
	master.waitFor("master is ready")
	link, code, ok := strings.Cut(strings.TrimSpace(s.zester(0, "console", "--print")), "/login#")
	if !ok || code == "" || !strings.HasPrefix(link, "https://127.0.0.1:") {
		t.Fatalf("the link is %s", link)
	}
	request, err := http.NewRequestWithContext(s.ctx(), http.MethodGet, link+"/login", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := natstest.HTTPS(t, s.path("master/tls/ca.crt")).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("the login page: %d", answer.StatusCode)
	}
	master.stop()

	for _, flag := range []string{"--rest-listen=off", "--console-serve=false"} {
		master := s.daemon("zester-master", "--data-dir", "master", "--listen", "127.0.0.1:0", flag)
		master.waitFor("master is ready")
		s.zester(1, "console", "--print")
		if served := master.wrote("REST is served"); served != (flag != "--rest-listen=off") {
			t.Errorf("with %s REST is served: %v", flag, served)
		}
		master.stop()
	}
}
