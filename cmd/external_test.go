package cmd_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// certify writes a certificate for this host's loopback address and others that signs itself, and its key.
func certify(t *testing.T, cert, key string, others ...net.IP) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour), IPAddresses: append(others, net.IPv4(127, 0, 0, 1)),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// checkEncrypted fails if the server speaks without TLS, with one older than 1.3, or to who does not know its certificate.
func checkEncrypted(t *testing.T, bus, creds, ca string) {
	t.Helper()
	connect := func(opts ...nats.Option) error {
		nc, err := nats.Connect("nats://"+bus, append(opts, nats.UserCredentials(creds), nats.CustomInboxPrefix("_INBOX_USER.ada"), nats.Timeout(time.Minute))...)
		if err == nil {
			nc.Close()
		}
		return err
	}
	older := func(o *nats.Options) error {
		o.TLSConfig.MinVersion, o.TLSConfig.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
		return nil
	}
	if err := connect(nats.RootCAs(ca)); err != nil {
		t.Fatal(err)
	}
	if connect() == nil || connect(nats.RootCAs(ca), older) == nil {
		t.Error("a client is let in that does not know the certificate, or speaks TLS 1.2")
	}
	// A client that does not encrypt gets no further than the greeting.
	c, err := net.Dial("tcp", bus)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("CONNECT {\"verbose\":true}\r\nPING\r\n")); err != nil {
		t.Fatal(err)
	}
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	greeting := make([]byte, 64<<10)
	n := 0
	for err == nil && n < len(greeting) {
		var more int
		more, err = c.Read(greeting[n:])
		n += more
	}
	if said := string(greeting[:n]); !strings.Contains(said, `"tls_required":true`) || strings.Contains(said, "+OK") || strings.Contains(said, "PONG") {
		t.Errorf("without TLS the server says %q", said)
	}
}

// TestAServerElsewhereServesTheFleet has a process of nats-server itself, built from the module that go.mod names, with
// the configuration that zester prints, to which all speak TLS.
func TestAServerElsewhereServesTheFleet(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds and runs four commands")
	}
	bin := programs(t)
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
	cert, key := dir+"/bus.crt", dir+"/bus.key"
	certify(t, cert, key)
	write(conf, z.must("auth", "export", "--nats-conf", "--listen", bus, "--store", dir+"/nats", "--tls-cert", cert, "--tls-key", key))
	server := func() *daemon {
		d := startDaemon(t, bin+"nats-server", "-c", conf)
		d.await(`Server is ready`)
		return d
	}
	nats := server()
	write(dir+"/m1.creds", z.must("auth", "issue", "master", "m1"))
	write(dir+"/ada.creds", z.must("auth", "issue", "operator", "ada"))
	checkEncrypted(t, bus, dir+"/ada.creds", cert)
	z.env = append(z.env, "ZESTER_CREDS="+dir+"/ada.creds", "ZESTER_URL=tls://"+bus, "ZESTER_CA="+cert)
	m := startDaemon(t, bin+"zester-master", "--data-dir", dir+"/master", "--nats", "tls://"+bus, "--ca", cert, "--creds", dir+"/m1.creds",
		"--rest-listen", web)
	m.await(`master is ready`)
	token := z.must("auth", "join-token", "create", "--peel", "web-*", "--uses", "2")
	// The token names the authority of the master, which says by what to check the bus.
	join := func(id string) *daemon {
		d := startDaemon(t, bin+"zester-peel", "--id", id, "--data-dir", dir+"/"+id, "--url", "tls://"+bus, "--join", token+"@"+web)
		d.await(`bus is reached`)
		return d
	}
	thief, peel := join("web-01"), join("web-02")
	if out := z.must("L@web-01,web-02", "test.ping"); !strings.Contains(out, "web-01") || !strings.Contains(out, "web-02") {
		t.Errorf("the job says %s", out)
	}
	z.must("auth", "peel", "revoke", "web-01")
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
		if seen := d.written(); strings.Contains(strings.ToLower(seen), "permissions violation") {
			t.Errorf("a permission is missing:\n%s", seen)
		}
	}
}
