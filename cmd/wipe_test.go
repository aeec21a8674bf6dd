package cmd_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/worktree"
)

// TestAHostThatLeavesTheFleetDeletesItsData wipes a peel that runs a command each second, while another host asks to
// join under its name.
func TestAHostThatLeavesTheFleetDeletesItsData(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds and runs the commands")
	}
	bin, dir := programs(t), t.TempDir()
	tick := fmt.Sprintf("schedule:\n  tick: {module: cmd.run, args: {command: 'echo tick >>%s/ticks'}, interval: 1s}\n", dir)
	files := fstest.MapFS{
		"top.yaml":          {Data: []byte("base:\n  '*': [all]\n  web-01: [all]\n")},
		"settings/all.yaml": {Data: []byte("# The first is web-01.\n" + tick)},
	}
	if _, err := worktree.Init(dir+"/fleet", files, "the fleet", worktree.Author{Name: "Ada", Email: "ada@example.com"}); err != nil {
		t.Fatal(err)
	}
	bus, web := freePort(t), freePort(t)
	master := startDaemon(t, bin+"zester-master", "--repo", dir+"/fleet", "--data-dir", dir+"/master", "--listen", "127.0.0.1:"+bus, "--rest-listen", "127.0.0.1:"+web)
	master.await(`master is ready`)
	z := cli{t, bin + "zester", []string{"ZESTER_DATA_DIR=" + dir + "/master"}}
	token := z.must("auth", "join-token", "create", "--peel", "web-*", "--ttl", "1h", "--uses", "5")
	join := func(data string) *daemon {
		return startDaemon(t, bin+"zester-peel", "--id", "web-01", "--data-dir", data, "--url", "tls://127.0.0.1:"+bus, "--join", token+"@127.0.0.1:"+web)
	}
	peel := join(dir + "/peel")
	peel.await(`settings applied`)
	z.until(`ran`, "web-01", "schedule.fires", "entry=tick")
	other := join(dir + "/other")
	other.await(`another`)

	typed := strings.Fields(typedBlocks(t, "zester/guide/peels.md", "Removing a host"))
	said := z.must(typed[1:]...)
	want := `^web-01 answers that it ends its schedule and deletes its data
web-01 is revoked: .*
its facts, its settings and its last report are removed
remains: the join token [^ ]+ admits .*
remains: zester-peel and its peel.yaml on the host; its jobs, for 7 days
remains: settings/all.yaml:1 in the config repo names web-01
remains: top.yaml:3 in the config repo names web-01$`
	if !regexp.MustCompile(want).MatchString(said) {
		t.Errorf("it says\n%s", said)
	}
	<-peel.ended
	exit, _ := errors.AsType[*exec.ExitError](peel.cmd.Wait())
	if exit == nil || exit.ExitCode() != 78 {
		t.Errorf("the peel ended with %v", exit)
	}
	left := func() (names string) {
		all, err := os.ReadDir(dir + "/peel")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range all {
			names += f.Name() + " "
		}
		return names
	}
	if left() != "removed " {
		t.Errorf("the data directory has %s", left())
	}
	ticks, err := os.ReadFile(filepath.Join(dir, "ticks"))
	if err != nil || len(ticks) == 0 {
		t.Errorf("the entry did not run: %v", err)
	}

	// As the unit would, if it did not know the exit code.
	again := join(dir + "/peel")
	again.await(`web-01 was removed from the fleet by .*: remove .*/peel/removed to let this host join again`)
	if left() != "removed " {
		t.Errorf("the second start wrote %s", left())
	}
	if log := z.must("audit", "list", "-o", "json"); !strings.Contains(log, "peel.wipe") || !strings.Contains(log, "enroll.revoke") {
		t.Errorf("the audit log has %s", log)
	}
	if after, err := os.ReadFile(filepath.Join(dir, "ticks")); err != nil || len(after) != len(ticks) {
		t.Errorf("%d bytes of ticks became %d: %v", len(ticks), len(after), err)
	}

	// The other host waits for a person, also with the token that would have let it in.
	z.until(`web-01 +pending|"pending"`, "auth", "peel", "list", "-o", "json")
	if out, err := z.run("web-01", "test.ping", "--timeout", "2s"); err == nil {
		t.Errorf("the other host has joined: %s", out)
	}
}
