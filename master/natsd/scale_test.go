package natsd_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/seed-c01c3da5/zester/master/auth"
)

// TestTheExampleOfALargeBusIsAConfigurationOfServers makes a server of it, which checks what belongs together, and does
// not start it.
func TestTheExampleOfALargeBusIsAConfigurationOfServers(t *testing.T) {
	text, err := os.ReadFile("../../examples/scale/hub.conf")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	t.Chdir(dir)
	trustFiles(t, dir)
	t.Setenv("NAME", "hub-1")
	name := filepath.Join(dir, "hub.conf")
	if err := os.WriteFile(name, text, 0o600); err != nil { // beside what it includes
		t.Fatal(err)
	}
	opts, err := server.ProcessConfigFile(name)
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	s.Shutdown()
	if !opts.JetStream || opts.Cluster.Name != "zester" || len(opts.Routes) != 3 || opts.ServerName != "hub-1" || opts.MaxConn != 60000 {
		t.Errorf("%+v", opts)
	}
}

// trustFiles makes what the example refers to. A certificate authority's own certificate does for a server that nobody
// reaches.
func trustFiles(t *testing.T, dir string) {
	t.Helper()
	keys, err := auth.Open(filepath.Join(dir, "keys"))
	if err != nil {
		t.Fatal(err)
	}
	ca, err := auth.OpenCA(filepath.Join(dir, "ca"))
	if err != nil {
		t.Fatal(err)
	}
	conf := auth.NATSConf{Trust: keys.Trust(), Listen: "0.0.0.0:4222", Dir: filepath.Join(dir, "store"), Cert: "server.crt", Key: "server.key"}
	text, err := conf.Text()
	if err != nil {
		t.Fatal(err)
	}
	pair, err := os.ReadFile(ca.File())
	if err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(filepath.Join(dir, "ca", "ca.key"))
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"server.crt": pair, "ca.crt": pair, "server.key": key, "trust.conf": []byte(text),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
