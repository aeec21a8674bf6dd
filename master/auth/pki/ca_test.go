package pki_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/master/auth/pki"
)

func openCA(t *testing.T, dir string) *pki.CA {
	t.Helper()
	ca, err := pki.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// handshake returns the certificate that a server with the configuration shows to a client that trusts the CA alone.
func handshake(t *testing.T, ca *pki.CA, server *tls.Config, client *tls.Config) (*x509.Certificate, error) {
	t.Helper()
	pem, err := os.ReadFile(ca.File())
	if err != nil {
		t.Fatal(err)
	}
	client.RootCAs = x509.NewCertPool()
	client.RootCAs.AppendCertsFromPEM(pem)
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	go func() { _ = tls.Server(b, server).Handshake() }()
	c := tls.Client(a, client)
	if err := c.Handshake(); err != nil {
		return nil, err
	}
	return c.ConnectionState().PeerCertificates[0], nil
}

func TestTheListenersCertificateIsOfTheAuthorityAndItsNamesAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tls")
	ca := openCA(t, dir)
	server := ca.Config("bus.example.com", "192.0.2.7")
	for _, name := range []string{"bus.example.com", "192.0.2.7", "localhost", "127.0.0.1"} {
		if _, err := handshake(t, ca, server, &tls.Config{ServerName: name}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := handshake(t, ca, server, &tls.Config{ServerName: "other.example.com"}); err == nil {
		t.Error("a name that was not given is accepted")
	}
	if _, err := handshake(t, ca, server, &tls.Config{ServerName: "localhost", MaxVersion: tls.VersionTLS12}); err == nil {
		t.Error("TLS 1.2 is accepted")
	}
	stranger := openCA(t, filepath.Join(t.TempDir(), "tls"))
	if _, err := handshake(t, stranger, server, &tls.Config{ServerName: "localhost"}); err == nil {
		t.Error("a client that trusts another authority accepts it")
	}
	if _, err := handshake(t, openCA(t, dir), server, &tls.Config{ServerName: "localhost"}); err != nil {
		t.Errorf("after a restart: %v", err)
	}
}

func TestACertificateIsReplacedBeforeItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca := openCA(t, filepath.Join(t.TempDir(), "tls"))
		server := ca.Config()
		first, err := server.GetCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(59 * 24 * time.Hour)
		same, err := server.GetCertificate(nil)
		if err != nil || same != first {
			t.Errorf("replaced early, %v", err)
		}
		time.Sleep(2 * 24 * time.Hour)
		next, err := server.GetCertificate(nil)
		if err != nil || next == first || !next.Leaf.NotAfter.After(first.Leaf.NotAfter) {
			t.Errorf("not replaced, %v", err)
		}
	})
}

func TestAnAuthorityWhoseKeyOthersMayReadOrThatIsNotWholeIsRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tls")
	openCA(t, dir)
	key := filepath.Join(dir, "ca.key")
	if err := os.Chmod(key, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := pki.Open(dir); err == nil {
		t.Error("a key that others may read is used")
	}
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	if _, err := pki.Open(dir); err == nil {
		t.Error("a lost key is made anew: everybody who trusts the old one would be locked out")
	}
}

// What a cut leaves is what was written before it. Earlier versions wrote the key, and then the certificate.
func TestAnAuthorityWhoseMakingWasCutShortOpensAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tls")
	openCA(t, dir)
	whole, err := os.ReadFile(filepath.Join(dir, "ca.key"))
	if err != nil {
		t.Fatal(err)
	}
	public, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(whole)
	bare := pem.EncodeToMemory(block)
	for name, left := range map[string]struct{ key, crt []byte }{
		"the new key alone":                    {whole, nil},
		"the new key and half a certificate":   {whole, public[:len(public)/2]},
		"an old key alone":                     {bare, nil},
		"half an old key":                      {bare[:len(bare)/2], nil},
		"an empty file":                        {[]byte{}, nil},
		"an old key and half its certificate":  {bare, public[:len(public)/2]},
		"an old key and an empty certificate":  {bare, []byte{}},
		"an old key and its whole certificate": {bare, public},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range map[string][]byte{"ca.key": left.key, "ca.crt": left.crt} {
				if text == nil {
					continue
				}
				if err := os.WriteFile(filepath.Join(dir, file), text, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			ca := openCA(t, dir)
			if _, err := handshake(t, ca, ca.Config(), &tls.Config{ServerName: "localhost"}); err != nil {
				t.Error(err)
			}
			if again := openCA(t, dir); again.Pin() != ca.Pin() {
				t.Error("opened again, it is another authority")
			}
			same := bytes.Equal(ca.Bundle(), public)
			if want := bytes.Equal(left.key, whole) || bytes.Equal(left.crt, public); same != want {
				t.Errorf("it is the authority of before the cut: %v, want %v", same, want)
			}
		})
	}
}

func TestARotatedAuthorityIsTheSameAfterARestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tls")
	ca := openCA(t, dir)
	first := ca.Pin()
	if err := ca.Retire(); !errors.Is(err, pki.ErrNoFormer) {
		t.Error(err)
	}
	if err := ca.Rotate(); err != nil {
		t.Fatal(err)
	}
	if err := ca.Rotate(); !errors.Is(err, pki.ErrFormer) {
		t.Error(err)
	}
	if err := os.WriteFile(ca.File(), nil, 0o644); err != nil { // the change was cut short
		t.Fatal(err)
	}
	again := openCA(t, dir)
	public, err := os.ReadFile(again.File())
	if again.Pin() != ca.Pin() || again.Pin() == first || string(public) != string(ca.Bundle()) || err != nil {
		t.Error("another authority came back")
	}
	if err := again.Retire(); err != nil {
		t.Fatal(err)
	}
	if openCA(t, dir).Pin() != ca.Pin() || len(again.Bundle()) >= len(ca.Bundle()) {
		t.Error("the former is still there")
	}
}
