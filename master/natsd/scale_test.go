package natsd_test

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/master/auth/pki"
)

func TestTheExampleOfALargeBusIsAConfigurationOfServers(t *testing.T) {
	opts := configured(t, "hub.conf", "hub-1", keystore.NATSConf{LeafNodes: "0.0.0.0:7422", Cluster: &keystore.Cluster{
		Server: "hub-1", Listen: "0.0.0.0:6222", Routes: []string{"hub-1:6222", "hub-2:6222", "hub-3:6222"}, CA: "ca.crt",
	}})
	if opts.LeafNode.Port != 7422 || opts.LeafNode.TLSConfig == nil {
		t.Errorf("leaf nodes are heard at %+v", opts.LeafNode)
	}
	if opts.Cluster.TLSConfig == nil || opts.Cluster.TLSConfig.ClientAuth != tls.RequireAndVerifyClientCert {
		t.Error("any server that reaches it can join the cluster")
	}
	if !opts.JetStream || opts.Cluster.Name != "zester" || len(opts.Routes) != 3 || opts.ServerName != "hub-1" || opts.MaxConn != 60000 {
		t.Errorf("%+v", opts)
	}
}

func TestTheExampleOfASiteIsAConfigurationOfServers(t *testing.T) {
	opts := configured(t, "site.conf", "berlin-1", keystore.NATSConf{Hub: &keystore.Hub{
		URLs: []string{"tls://hub-1:7422", "tls://hub-2:7422"}, Creds: "site.creds", CA: "ca.crt",
	}})
	remotes := opts.LeafNode.Remotes
	if opts.JetStream || opts.ServerName != "berlin-1" || len(remotes) != 1 || len(remotes[0].URLs) != 2 || remotes[0].TLSConfig == nil {
		t.Errorf("%+v, %+v", opts, remotes)
	}
}

// configured makes a server of an example, which checks what belongs together, and does not start it.
func configured(t *testing.T, example, name string, conf keystore.NATSConf) *server.Options {
	t.Helper()
	text, err := os.ReadFile("../../examples/scale/" + example)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	t.Chdir(dir)
	trustFiles(t, dir, conf)
	t.Setenv("NAME", name)
	path := filepath.Join(dir, example)
	if err := os.WriteFile(path, text, 0o600); err != nil { // beside what it includes
		t.Fatal(err)
	}
	opts, err := server.ProcessConfigFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	s.Shutdown()
	return opts
}

// trustFiles makes what the example refers to. A certificate authority's own certificate does for a server that nobody
// reaches.
func trustFiles(t *testing.T, dir string, conf keystore.NATSConf) {
	t.Helper()
	keys, err := keystore.Open(filepath.Join(dir, "keys"))
	if err != nil {
		t.Fatal(err)
	}
	ca, err := pki.Open(filepath.Join(dir, "ca"))
	if err != nil {
		t.Fatal(err)
	}
	conf.Trust, conf.Listen, conf.Dir, conf.Cert, conf.Key = keys.Trust(), "0.0.0.0:4222", filepath.Join(dir, "store"), "server.crt", "server.key"
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
