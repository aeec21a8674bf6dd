package cmd_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestAServerElsewhereServesTheFleet has a process of nats-server itself, built from the module that go.mod names, with
// the configuration that zester prints.
func TestAServerElsewhereServesTheFleet(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds and runs four commands")
	}
	bin := build(t, "zester", "zester-master", "zester-peel")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "github.com/nats-io/nats-server/v2").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	dir := t.TempDir()
	bus, web := "127.0.0.1:"+freePort(t), "127.0.0.1:"+freePort(t)
	z := cli{t, bin + "zester", []string{"ZESTER_DATA_DIR=" + dir + "/master"}}
	conf := dir + "/nats.conf"
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(conf, z.must("auth", "export", "--nats-conf", "--listen", bus, "--store", dir+"/nats"))
	server := func() *daemon {
		d := startDaemon(t, bin+"nats-server", "-c", conf)
		d.await(`Server is ready`)
		return d
	}
	nats := server()
	write(dir+"/m1.creds", z.must("auth", "issue", "master", "m1"))
	write(dir+"/ada.creds", z.must("auth", "issue", "operator", "ada"))
	z.env = append(z.env, "ZESTER_CREDS="+dir+"/ada.creds", "ZESTER_URL=nats://"+bus)
	m := startDaemon(t, bin+"zester-master", "--data-dir", dir+"/master", "--nats", "nats://"+bus, "--creds", dir+"/m1.creds", "--rest-listen", web)
	m.await(`master is ready`)
	token := z.must("enroll", "token", "create", "--peel", "web-*", "--uses", "2")
	join := func(id string) *daemon {
		d := startDaemon(t, bin+"zester-peel", "--id", id, "--data-dir", dir+"/"+id, "--url", "nats://"+bus, "--join", token+"@"+web)
		d.await(`bus is reached`)
		return d
	}
	thief, peel := join("web-01"), join("web-02")
	if out := z.must("L@web-01,web-02", "test.ping"); !strings.Contains(out, "web-01") || !strings.Contains(out, "web-02") {
		t.Errorf("the job says %s", out)
	}
	z.must("enroll", "revoke", "web-01")
	thief.await(`bus is away`)
	thief.await(`authorization violation`)
	z.must("web-02", "test.ping")

	// The server remembers whom it was told to refuse, whatever the file says with which it starts.
	nats.stop()
	thief.await(`connection refused`)
	peel.await(`connection refused`)
	nats = server()
	peel.await(`bus is back`)
	thief.await(`authorization violation`)
	m.await(`bus is back`)
	z.must("web-02", "test.ping")
	for _, d := range []*daemon{thief, peel, m, nats} {
		d.stop()
		if seen := d.seen.String(); strings.Contains(strings.ToLower(seen), "permissions violation") {
			t.Errorf("a permission is missing:\n%s", seen)
		}
	}
}
