package main_test

import (
	"fmt"
	"maps"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
)

// TestAFleetIsAdopted restarts a master with another path of the repo, which publishes nothing until a person says so.
func TestAFleetIsAdopted(t *testing.T) {
	s := newSite(t, fstest.MapFS{
		"top.yaml": {Data: []byte("base:\n  '*': [all]\n")}, "settings/all.yaml": {Data: []byte(entries(1))},
		"prod/top.yaml": {Data: []byte("base:\n  '*': [all]\n")}, "prod/settings/all.yaml": {Data: []byte(entries(2))},
	})
	sync := func(args ...string) (output string, code int) {
		t.Helper()
		args = append([]string{"zester", "--url", s.url(), "--creds", s.path("mia.creds"), "sync"}, args...)
		out, errOut, code := command{dir: s.dir, args: args}.run(t)
		return out + errOut, code
	}
	start := []string{"zester-master", "--data-dir", "master", "--listen", reserve(t), "--repo", "fleet", "--poll", "1h"}
	master := s.daemon(start...)
	master.waitFor("master is ready")
	s.daemon("zester-peel", "--id", "web-01", "--data-dir", "peel", "--url", s.url(), "--creds", s.issue(grants.RolePeel, "web-01")).waitFor("settings applied")
	s.settled()
	s.issue(grants.RoleOperator, "mia")
	before := s.written()
	if out, code := sync("adopt"); code != 1 || !strings.Contains(out, "follows the same repo, branch and path") {
		t.Error(code, out)
	}
	master.stop()
	s.daemon(append(start, "--path", "prod")...).waitFor("master is ready")

	plan, _ := sync("adopt", "--dry-run")
	for _, want := range []string{"adopt: from " + s.path("fleet") + ", branch main\n", "       to " + s.path("fleet") + ", branch main, path prod\n"} {
		if !strings.Contains(plan, want) {
			t.Errorf("%s does not say %q", plan, want)
		}
	}
	if out, _ := sync("status"); !strings.Contains(out, "take the fleet over with zester sync adopt") || s.written() != before {
		t.Errorf("%d writes before it was adopted\n%s", s.written()-before, out)
	}
	if out, code := sync("pause"); code != 1 || !strings.Contains(out, "nothing is published") {
		t.Error(code, out)
	}
	sync("adopt") // ends with 1 if the plan waits for approval by then
	sync("now")
	out, _ := sync("status")
	hash := regexp.MustCompile(`zester sync approve ([0-9a-f]{12})`).FindStringSubmatch(out)
	if hash == nil {
		t.Fatalf("nothing waits for approval\n%s", out)
	}
	if out, code := sync("approve", hash[1]); code != 0 {
		t.Fatal(code, out)
	}
	s.settled()
	if s.written() == before {
		status, _ := sync("status")
		t.Errorf("nothing was written after it was adopted\n%s", status)
	}
	c := s.client()
	status, err := api.SyncStatus.Ask(s.ctx(), c, api.None{})
	if err != nil {
		t.Fatal(err)
	}
	page, err := api.AuditList.Ask(s.ctx(), c, audit.Query{User: "mia"})
	if err != nil {
		t.Fatal(err)
	}
	got, want := map[string]int{}, map[string]int{
		"sync.pause  refused": 1, "sync.now  done": 1,
		"sync.adopt " + s.path("fleet") + ", branch main, path prod in place of " + s.path("fleet") + ", branch main done": 1,
		"sync.approve " + hash[1] + " of " + string(status.LastGood.Commit) + " done":                                      1,
	}
	for _, e := range page.Entries {
		got[fmt.Sprint(e.Action, " ", withShortHash(e.Target), " ", e.Result)]++
	}
	if !maps.Equal(got, want) {
		t.Errorf("the log tells of %v, want %v", got, want)
	}
}
