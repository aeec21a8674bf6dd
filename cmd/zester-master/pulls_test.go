package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	forgepkg "github.com/seed-c01c3da5/zester/master/forge"
	"github.com/seed-c01c3da5/zester/master/forge/forgetest"
)

// TestAPullRequestIsPlannedByTheMaster has the master fetch a pull request over HTTP, with the password of the repo, and plan
// it in a process of its own.
func TestAPullRequestIsPlannedByTheMaster(t *testing.T) {
	s := newSite(t, fstest.MapFS{
		"top.yaml":          {Data: []byte("base:\n  '*': [web]\n")},
		"settings/web.yaml": {Data: []byte("schedule:\n  hello: {module: test.ping, interval: 1h}\n")},
	})
	git, api := newForge(s), forgetest.New(t, forgepkg.GitHub)
	propose := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(s.work.Dir(), "settings", "web.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		run(t, s.work.Dir(), "git", "commit", "-q", "-a", "-m", "propose")
		run(t, s.work.Dir(), "git", "push", "-q", strings.Replace(git.url, "://", "://ada:"+forgePassword+"@", 1), "HEAD:refs/pull/7/head")
		api.SetPulls(forgetest.Pull{Number: 7, Head: run(t, s.work.Dir(), "git", "rev-parse", "HEAD"), Branch: "main"})
	}
	propose("schedule:\n  hello: {module: test.ping, intervall: 1h}\n")
	s.write("password", forgePassword+"\n")
	s.write("token", forgetest.Token+"\n")
	s.write("master.yaml", fmt.Sprintf(`
data_dir: master
repo: %s
listen: 127.0.0.1:0
git: {password: password}
notify: [{name: forge, provider: github, url: %s, token: token}]
`, git.url, api.Repo()))
	master := s.daemon("zester-master", "--config", "master.yaml")
	master.waitFor("master is ready")
	for limit := time.After(2 * patience); len(api.Comments(7)) == 0; {
		select {
		case <-api.Changed():
		case <-limit:
			t.Fatal("no comment was written")
		}
	}
	all := api.Comments(7)
	if len(all) != 1 || !strings.Contains(all[0].Body, "this revision would be refused") || !strings.Contains(all[0].Body, "settings/web.yaml:2:") {
		t.Errorf("comments %+v", all)
	}
	if _, err := os.Stat(s.path("master/pulls/forge")); err != nil {
		t.Error(err)
	}
}
