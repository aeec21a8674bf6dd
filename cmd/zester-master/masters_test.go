package main_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/seed-c01c3da5/zester/examples"
	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
)

// TestMastersShareABus runs two masters on the bus of a third, as they would on a cluster of servers.
func TestMastersShareABus(t *testing.T) {
	s := newSite(t, examples.Fleet())
	s.daemon("zester-master", "--id", "bus", "--data-dir", "master", "--listen", "127.0.0.1:0").waitFor("master is ready")
	masters := map[string]*process{}
	for _, name := range []string{"m1", "m2"} {
		masters[name] = s.daemon("zester-master", "--nats", s.url(), "--creds", s.issue(grants.RoleMaster, name), "--data-dir", name, "--repo", "fleet")
		masters[name].waitFor("master is ready", `"master":"`+name+`"`)
	}
	s.daemon("zester-peel", "--id", "web-01", "--data-dir", "peel", "--url", s.url(), "--creds", s.issue(grants.RolePeel, "web-01")).waitFor("settings applied")
	s.settled()
	c := s.client()

	leader, follower := s.leader(c, masters)
	if masters[follower].wrote(`"leads":"reconciler"`) {
		t.Fatal("two masters lead")
	}
	for owners := map[string]bool{}; !owners["m1"] || !owners["m2"] || !owners["bus"]; {
		owner, _, _ := strings.Cut(s.dispatch(c, "web-01", "test.ping").Owner, "/")
		owners[owner] = true
	}

	// One that dies takes nothing with it.
	before := s.written()
	if err := masters[leader].cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	masters[leader].end()
	s.endLease()
	masters[follower].waitFor(`"leads":"reconciler"`)
	s.settled()
	if after := s.written(); after != before {
		t.Errorf("%d writes by the takeover", after-before)
	}
	if next, _ := s.leader(c, masters); next != follower {
		t.Errorf("%s leads, not %s", next, follower)
	}
	s.commit(map[string]string{
		"settings/web/nginx.yaml": "nginx: {workers: 8, listen: [80, 443]}\nsites: {shop: {owner: www-data}, blog: {owner: www-data}}\n",
	})
	s.settled()
	if after := s.written(); after != before+1 {
		t.Errorf("%d writes for a commit by the next leader", after-before)
	}
	s.zester(0, "web-01", "test.ping")

	// One that is told to end hands over.
	masters[leader] = s.daemon("zester-master", "--nats", s.url(), "--creds", s.path(leader+".creds"), "--data-dir", leader, "--repo", "fleet")
	masters[leader].waitFor("master is ready")
	masters[follower].stop()
	masters[leader].waitFor(`"leads":"reconciler"`)
	s.settled()
}

// leader returns who leads, by its own answer, and who does not.
func (s *site) leader(c *api.Client, masters map[string]*process) (leader, follower string) {
	s.t.Helper()
	status, err := api.SyncStatus.Ask(s.ctx(), c, api.None{})
	if err != nil {
		s.t.Fatal(err)
	}
	for name := range masters {
		if name != status.Owner {
			follower = name
		}
	}
	return status.Owner, follower
}

// endLease has the lease end now, as it would within 15 s. That it does is shown in fake time, by the tests of the
// reconciler.
func (s *site) endLease() {
	s.t.Helper()
	leases, err := s.streams().KeyValue(s.t.Context(), "leases")
	if err == nil {
		err = leases.Purge(s.t.Context(), "reconciler")
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

func TestACredentialOfAnotherBusIsRefused(t *testing.T) {
	s := newSite(t, examples.Fleet())
	s.daemon("zester-master", "--data-dir", "master", "--listen", "127.0.0.1:0").waitFor("master is ready")
	other := &site{t: t, dir: t.TempDir(), work: s.work}
	other.daemon("zester-master", "--data-dir", "master", "--listen", "127.0.0.1:0").waitFor("master is ready")
	creds := other.issue(grants.RoleMaster, "m2")
	if out, errOut, code := (command{dir: s.dir, args: []string{
		"zester-master", "--nats", s.url(), "--creds", creds, "--ca", "master/tls/ca.crt", "--data-dir", "m2",
	}}).run(t); code != 1 || !strings.Contains(errOut, "refuses the credential (authorization violation)") || !strings.Contains(errOut, "hint: ") {
		t.Errorf("exit code %d\n%s%s", code, out, errOut)
	}
	if out, errOut, code := (command{dir: s.dir, args: []string{
		"zester-master", "--nats", s.url(), "--creds", creds, "--data-dir", filepath.Join(s.dir, "m2"), "--id", "m3",
	}}).run(t); code != 1 || !strings.Contains(errOut, `master "m3" with the credential of "m2"`) {
		t.Errorf("exit code %d\n%s%s", code, out, errOut)
	}
}
