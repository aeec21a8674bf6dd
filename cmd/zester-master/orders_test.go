package main_test

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/settings/status"
)

// entries are as many as a change of all of them needs an approval, every so many hours.
func entries(hours int) string {
	text := []byte("schedule:\n")
	for i := range 10 {
		text = fmt.Appendf(text, "  e%d: {module: test.ping, interval: %dh}\n", i, hours)
	}
	return string(text)
}

// TestOrdersAboutTheRepoAreInTheAuditLog gives each order as a person, once so that it is done and once so that it is
// refused.
func TestOrdersAboutTheRepoAreInTheAuditLog(t *testing.T) {
	s := newSite(t, fstest.MapFS{
		"top.yaml": {Data: []byte("base:\n  '*': [all]\n")}, "settings/all.yaml": {Data: []byte(entries(1))},
	})
	s.daemon("zester-master", "--data-dir", "master", "--listen", "127.0.0.1:0", "--repo", "fleet", "--poll", "1h").waitFor("master is ready")
	s.daemon("zester-peel", "--id", "web-01", "--data-dir", "peel", "--url", s.url(), "--creds", s.issue(grants.RolePeel, "web-01")).waitFor("settings applied")
	s.settled()
	mia := s.issue(grants.RoleOperator, "mia")
	order := func(code int, args ...string) string {
		t.Helper()
		return s.zester(code, append([]string{"--url", s.url(), "--creds", mia, "sync"}, args...)...)
	}
	first := regexp.MustCompile(`in force: +([0-9a-f]+)`).FindStringSubmatch(order(0, "status"))[1]
	order(0, "pause")
	order(1, "pause")
	order(0, "resume")
	order(1, "resume")
	second := s.commit(map[string]string{"settings/all.yaml": entries(2)})
	order(1, "now") // what it found waits
	hash := regexp.MustCompile(`zester sync approve ([0-9a-f]{12})`).FindStringSubmatch(order(0, "status"))
	if hash == nil {
		t.Fatal("nothing waits for approval")
	}
	order(0, "approve", hash[1])
	order(1, "approve", hash[1])
	order(0, "pin", first)
	order(1, "pin", "0123456789")
	order(1, "retry", "0123456789")
	order(0, "unpin") // it is carried out, and what the newest commit changes waits once more

	got, want := map[string]int{}, map[string]int{
		"sync.now  done":   1,
		"sync.unpin  done": 1, "sync.pause  done": 1, "sync.pause  refused": 1, "sync.resume  done": 1, "sync.resume  refused": 1,
		"sync.approve " + hash[1] + " of " + second + " done": 1, "sync.approve " + hash[1] + " refused": 1, "sync.pin " + first + " done": 1, "sync.pin 0123456789 refused": 1,
		"sync.retry 0123456789 refused": 1,
	}
	c := s.client()
	page, err := api.AuditList.Ask(s.ctx(), c, audit.Query{User: "mia"})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range page.Entries {
		if got[fmt.Sprint(e.Action, " ", withShortHash(e.Target), " ", e.Result)]++; e.Role != grants.RoleOperator || e.From == "" || e.Time.IsZero() || (e.Reason == "") != (e.Result == audit.Done) {
			t.Errorf("%+v", e)
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("the log tells of %v, want %v", got, want)
	}
	s.push(mia)
}

// push has somebody order in vain until the log leaves refusals out, which the next entry tells.
func (s *site) push(creds string) {
	s.t.Helper()
	data, err := os.ReadFile(creds)
	if err != nil {
		s.t.Fatal(err)
	}
	c, err := api.Connect(api.ClientOptions{URL: s.url(), Creds: data})
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	for range 200 {
		if _, err := api.SyncResume.Ask(s.t.Context(), c, status.ReleaseRequest{}); api.CodeOf(err) != api.CodeConflict {
			s.t.Fatal(err)
		}
	}
	if _, err := api.SyncPause.Ask(s.t.Context(), c, api.None{}); err != nil {
		s.t.Fatal(err)
	}
	page, err := api.AuditList.Ask(s.ctx(), s.client(), audit.Query{User: "mia", Limit: 500})
	if err != nil {
		s.t.Fatal(err)
	}
	kept, leftOut := 0, 0
	for _, e := range page.Entries {
		leftOut += e.LeftOut
		if e.Action == "sync.resume" && e.Result == audit.Refused {
			kept++
		}
	}
	if leftOut == 0 || kept+leftOut != 201 { // of which one was before
		s.t.Errorf("%d refusals are kept, %d are told as left out", kept, leftOut)
	}
}

// TestDecisionsAboutWavesAndFreezesAreInTheAuditLog has a person let a revision through a freeze and open a gate.
func TestDecisionsAboutWavesAndFreezesAreInTheAuditLog(t *testing.T) {
	s := newSite(t, fstest.MapFS{
		"top.yaml": {Data: []byte("base:\n  '*': [all]\n")}, "settings/all.yaml": {Data: []byte("a: 1\n")},
		"zester.yaml": {Data: []byte("waves: [{name: canary, peels: 1, gate: manual}]\nfreeze: [{calendar: 2000-01-01/2100-01-01}]\n")},
	})
	s.daemon("zester-master", "--data-dir", "master", "--listen", "127.0.0.1:0", "--repo", "fleet", "--poll", "1h").waitFor("master is ready")
	s.daemon("zester-peel", "--id", "web-01", "--data-dir", "peel", "--url", s.url(), "--creds", s.issue(grants.RolePeel, "web-01")).waitFor("settings applied")
	s.settled()
	mia := s.issue(grants.RoleOperator, "mia")
	order := func(code int, args ...string) {
		t.Helper()
		s.zester(code, append([]string{"--url", s.url(), "--creds", mia, "sync"}, args...)...)
	}
	next := s.commit(map[string]string{"settings/all.yaml": "a: 2\n"})
	order(0, "now")
	reason := strings.Repeat("x", 300)
	order(1, "approve", "canary")
	order(0, "approve", next, "--override-freeze", reason)
	for deadline := s.ctx(); ; {
		if got, err := api.SyncStatus.Ask(deadline, s.client(), api.None{}); err != nil {
			t.Fatal(err)
		} else if got.Rollout != nil && got.Rollout.State == "gate" {
			break
		}
	}
	order(0, "approve", "canary", "--reason", "fine")
	got, want := map[string]int{}, map[string]int{
		"sync.now  done": 1, "sync.approve gate canary refused": 1, "sync.approve freeze " + next + ": " + reason + " done": 1, "sync.approve gate canary of " + next + ": fine done": 1,
	}
	page, err := api.AuditList.Ask(s.ctx(), s.client(), audit.Query{User: "mia"})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range page.Entries {
		got[fmt.Sprint(e.Action, " ", e.Target, " ", e.Result)]++
	}
	if !maps.Equal(got, want) {
		t.Errorf("the log tells of %v, want %v", got, want)
	}
}

var planHash = regexp.MustCompile(`^[0-9a-f]{64}`)

// withShortHash shortens the hash of a plan at the beginning of a text to the 12 digits that people are shown.
func withShortHash(text string) string {
	return planHash.ReplaceAllStringFunc(text, func(hash string) string { return hash[:12] })
}
