package pki

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"os"
	"strings"
	"testing"
)

// write writes a certificate for a name, and its key, to two files.
func (c *CA) write(t *testing.T, name, cert, key string) {
	t.Helper()
	made, err := c.Config(name).GetCertificate(&tls.ClientHelloInfo{ServerName: name})
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(made.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	var chain []byte
	for _, der := range made.Certificate {
		chain = append(chain, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	for file, text := range map[string][]byte{cert: chain, key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})} {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// A changed certificate is used at the next connection. While the files do not match, or are away, the former one stays.
func TestCertificatesOfFiles(t *testing.T) {
	ca, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key := dir+"/tls.crt", dir+"/tls.key"
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	if _, err := FromFiles(cert, key, logger); err == nil || !strings.Contains(err.Error(), "cannot use the certificate in "+cert) {
		t.Errorf("there are no files: %v", err)
	}
	ca.write(t, "one.example", cert, key)
	config, err := FromFiles(cert, key, logger)
	if err != nil || config.MinVersion != tls.VersionTLS13 {
		t.Fatalf("%+v, %v", config, err)
	}
	shown := func() string {
		t.Helper()
		c, err := config.GetCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := x509.ParseCertificate(c.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(leaf.DNSNames, " ")
	}
	if got := shown(); !strings.Contains(got, "one.example") || log.Len() > 0 {
		t.Errorf("%s; %s", got, log.String())
	}
	ca.write(t, "two.example", cert, dir+"/other.key")
	if got := shown(); !strings.Contains(got, "one.example") || !strings.Contains(log.String(), "the former one stays in force") {
		t.Errorf("the key is not replaced yet: %s; %s", got, log.String())
	}
	if err := os.Rename(dir+"/other.key", key); err != nil {
		t.Fatal(err)
	}
	if got := shown(); !strings.Contains(got, "two.example") || !strings.Contains(log.String(), "certificate read again") {
		t.Errorf("both are replaced: %s; %s", got, log.String())
	}
	log.Reset()
	if shown(); log.Len() > 0 {
		t.Errorf("nothing changed: %s", log.String())
	}
	if err := os.Remove(cert); err != nil {
		t.Fatal(err)
	}
	if got := shown(); !strings.Contains(got, "two.example") {
		t.Errorf("the file is away: %s", got)
	}
	ca.write(t, "three.example", cert, key)
	if err := os.Chmod(key, 0o640); err != nil {
		t.Fatal(err)
	}
	if got := shown(); !strings.Contains(got, "two.example") || !strings.Contains(log.String(), "other users may read the key (mode 0640)") {
		t.Errorf("others may read the key: %s; %s", got, log.String())
	}
	if err := os.Chmod(key, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := shown(); !strings.Contains(got, "three.example") {
		t.Errorf("after that: %s", got)
	}
}
