package auth

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// The files of a certificate authority, and how long what it makes is valid.
const (
	caFile    = "ca.crt"
	caKeyFile = "ca.key"

	caLife   = 10 * 365 * 24 * time.Hour
	leafLife = 90 * 24 * time.Hour
	leafSoon = 30 * 24 * time.Hour // before its end a certificate is replaced
	skew     = 10 * time.Minute    // by which the clock of whoever checks may be behind
)

// A CA signs the certificates that a master shows on its listeners. It is made at first start and is for masters
// that are given none; peels and people check the bus against [CA.File] and trust nothing else.
type CA struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// OpenCA reads the certificate authority in dir, or makes it if neither of its files is there. A key that others
// than its owner may use is refused.
func OpenCA(dir string) (*CA, error) {
	c := &CA{dir: dir}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot make the directory of the certificate authority: %w", err)
	}
	_, missing := os.Stat(c.File())
	_, keyMissing := os.Stat(c.keyFile())
	if errors.Is(missing, fs.ErrNotExist) && errors.Is(keyMissing, fs.ErrNotExist) {
		if err := c.create(); err != nil {
			return nil, fmt.Errorf("cannot make the certificate authority in %s: %w", dir, err)
		}
	}
	if err := c.load(); err != nil {
		return nil, fmt.Errorf("cannot use the certificate authority in %s: %w", dir, err)
	}
	return c, nil
}

// File is where the certificate is by which others check what the CA has signed. It is no secret.
func (c *CA) File() string { return filepath.Join(c.dir, caFile) }

func (c *CA) keyFile() string { return filepath.Join(c.dir, caKeyFile) }

func (c *CA) create() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	t, err := template("zester CA of "+host, caLife)
	if err != nil {
		return err
	}
	t.IsCA, t.BasicConstraintsValid, t.KeyUsage = true, true, x509.KeyUsageCertSign|x509.KeyUsageCRLSign
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	// The certificate comes last: with it the pair is whole.
	if err := writePEM(c.keyFile(), "PRIVATE KEY", secret, 0o600); err != nil {
		return err
	}
	return writePEM(c.File(), "CERTIFICATE", der, 0o644)
}

func writePEM(path, kind string, der []byte, mode fs.FileMode) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := pem.Encode(f, &pem.Block{Type: kind, Bytes: der}); err != nil {
		return err
	}
	return f.Sync()
}

func (c *CA) load() error {
	info, err := os.Stat(c.keyFile())
	if err != nil {
		return err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s is open to others (mode %04o), want 0600", c.keyFile(), info.Mode().Perm())
	}
	pair, err := tls.LoadX509KeyPair(c.File(), c.keyFile())
	if err != nil {
		return err
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok || !pair.Leaf.IsCA {
		return fmt.Errorf("%s is not the certificate of an authority with an ECDSA key", c.File())
	}
	c.cert, c.key = pair.Leaf, key
	return nil
}

// Config is for a listener that is reached by the given names and addresses, and by "localhost", the host's own name
// and its addresses when the certificate is made. It speaks TLS 1.3 alone. Its certificate is made when it is first
// asked for and anew 30 days before it ends, without a restart.
func (c *CA) Config(names ...string) *tls.Config {
	var mu sync.Mutex
	var current *tls.Certificate
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			mu.Lock()
			defer mu.Unlock()
			if current != nil && time.Until(current.Leaf.NotAfter) > leafSoon {
				return current, nil
			}
			leaf, err := c.leaf(append(hosts(), names...))
			if err == nil {
				current = leaf
			}
			return current, err
		},
	}
}

// hosts are the names and addresses of this host.
func hosts() []string {
	names := []string{"localhost", "127.0.0.1", "::1"}
	if name, err := os.Hostname(); err == nil {
		names = append(names, name)
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return names
	}
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok {
			names = append(names, n.IP.String())
		}
	}
	return names
}

func (c *CA) leaf(hosts []string) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	t, err := template("zester master", leafLife)
	if err != nil {
		return nil, err
	}
	t.KeyUsage, t.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else if h != "" {
			t.DNSNames = append(t.DNSNames, h)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, t, c.cert, key.Public(), c.key)
	if err != nil {
		return nil, fmt.Errorf("cannot sign a certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der, c.cert.Raw}, PrivateKey: key, Leaf: leaf}, nil
}

func template(name string, life time.Duration) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-skew), NotAfter: now.Add(life),
	}, nil
}
