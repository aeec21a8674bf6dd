// Package pki is the certificate authority of the masters' listeners. Call [Open] with a folder, then [CA.Config] for
// each listener; hosts and people check the listeners against [CA.File], or know the authority by [CA.Pin].
//
// A certificate is replaced before it ends and after each rotation, without a restart. A change of the authority is one
// rename, so a crash leaves the old or the new one. A key that others may read, or that is lost, is refused.
//
// Known gap: certificates are not revoked one by one. Rotate and retire the authority instead.
package pki

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/google/renameio/v2"

	"github.com/seed-c01c3da5/zester/settings/private"
)

// The files of a certificate authority, and the validity of its certificates.
const (
	caFile    = "ca.crt"
	caKeyFile = "ca.key"

	caLife   = 10 * 365 * 24 * time.Hour
	leafLife = 90 * 24 * time.Hour
	leafSoon = 30 * 24 * time.Hour // before its end a certificate is replaced
	skew     = 10 * time.Minute    // by which the clock of whoever checks may be behind
)

// Errors of [CA.Rotate] and [CA.Retire].
var (
	ErrFormer   = errors.New("the last rotation is not at its end")
	ErrNoFormer = errors.New("there is no former one that could be retired")
)

// A CA signs the certificates of a master's listeners, unless the master has certificates from elsewhere. It is made at
// the first start. Peels and people check the bus against [CA.File] and trust no other authority.
//
// [CA.Rotate] makes a new key and certificate and has the former key sign the new certificate too, so clients that
// trust only the former authority can still connect. They get the new certificate from [CA.File], or when their
// credential is renewed. [CA.Retire] ends the former authority. Listeners need no restart. A CA is safe for concurrent
// use.
type CA struct {
	dir string

	mu     sync.Mutex
	key    *ecdsa.PrivateKey
	cert   *x509.Certificate
	bridge *x509.Certificate // of the key, signed by the former; nil: there is no former
	former *x509.Certificate
}

// OpenCA reads the certificate authority in dir, or makes one if dir has no certificate. It then replaces a key without
// a certificate, which an earlier version may have left when it was interrupted: nobody trusts that authority. It
// refuses a key file that users other than its owner may read, and a certificate without its key.
func Open(dir string) (*CA, error) {
	c := &CA{dir: dir}
	if err := private.Make(dir); err != nil {
		return nil, err
	}
	err := c.load()
	if errors.Is(err, errNoCertificate) {
		if err := c.create(); err != nil {
			return nil, fmt.Errorf("cannot make the certificate authority in %s: %w", dir, err)
		}
		return c, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot use the certificate authority in %s: %w", dir, err)
	}
	return c, nil
}

// errNoCertificate: neither file of the authority holds a certificate.
var errNoCertificate = errors.New("there is no certificate")

// File returns the path of the certificates that clients trust. The file is not secret.
func (c *CA) File() string { return filepath.Join(c.dir, caFile) }

// Pin returns [PinOf] of the present authority.
func (c *CA) Pin() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return PinOf(c.cert.Raw)
}

// PinOf returns the SHA-256 of a DER certificate as base64url. A join token carries it, so that a host that joins can
// check the authority.
func PinOf(der []byte) string {
	sum := sha256.Sum256(der)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// Bundle returns the content of [CA.File]: the present certificate, and the former one if there is one.
func (c *CA) Bundle() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bundle()
}

func (c *CA) bundle() []byte { return certificates(c.roots()...) }

func (c *CA) roots() []*x509.Certificate {
	if c.former == nil {
		return []*x509.Certificate{c.cert}
	}
	return []*x509.Certificate{c.cert, c.former}
}

func certificates(certs ...*x509.Certificate) (text []byte) {
	for _, cert := range certs {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})...)
	}
	return text
}

func (c *CA) keyFile() string { return filepath.Join(c.dir, caKeyFile) }

func (c *CA) create() error {
	key, cert, err := newRoot()
	if err != nil {
		return err
	}
	return c.become(&CA{dir: c.dir, key: key, cert: cert})
}

// newRoot makes a key and the certificate that it signs for itself.
func newRoot() (*ecdsa.PrivateKey, *x509.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, nil, err
	}
	t, err := template("zester CA of "+host, caLife)
	if err != nil {
		return nil, nil, err
	}
	t.Subject.SerialNumber = t.SerialNumber.Text(36) // tells it from the former
	t.IsCA, t.BasicConstraintsValid, t.KeyUsage = true, true, x509.KeyUsageCertSign|x509.KeyUsageCRLSign
	cert, err := certify(t, t, &key.PublicKey, key)
	return key, cert, err
}

func certify(t, signer *x509.Certificate, public *ecdsa.PublicKey, key *ecdsa.PrivateKey) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, t, signer, public, key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// Rotate makes a new key and certificate. The present ones become the former ones.
func (c *CA) Rotate() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.former != nil {
		return fmt.Errorf("%w: that of %s", ErrFormer, c.cert.NotBefore.Add(skew).Format(time.DateOnly))
	}
	key, cert, err := newRoot()
	if err != nil {
		return fmt.Errorf("cannot rotate the certificate authority: %w", err)
	}
	t := *cert
	t.NotAfter = c.cert.NotAfter
	bridge, err := certify(&t, c.cert, &key.PublicKey, c.key)
	if err != nil {
		return fmt.Errorf("cannot rotate the certificate authority: %w", err)
	}
	next := CA{dir: c.dir, key: key, cert: cert, bridge: bridge, former: c.cert}
	return c.become(&next)
}

// Retire ends the former authority. Clients that trust only the former one can no longer connect.
func (c *CA) Retire() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.former == nil {
		return ErrNoFormer
	}
	return c.become(&CA{dir: c.dir, key: c.key, cert: c.cert})
}

// become stores a new state of the CA. The key file has all of it, so that one rename changes everything.
func (c *CA) become(next *CA) error {
	secret, err := x509.MarshalPKCS8PrivateKey(next.key)
	if err != nil {
		return fmt.Errorf("cannot store the certificate authority: %w", err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
	text = append(text, certificates(next.cert)...)
	if next.former != nil {
		text = append(text, certificates(next.bridge, next.former)...)
	}
	if err := renameio.WriteFile(c.keyFile(), text, 0o600); err != nil {
		return fmt.Errorf("cannot store the certificate authority: %w", err)
	}
	c.key = next.key
	c.cert = next.cert
	c.bridge = next.bridge
	c.former = next.former
	if err := renameio.WriteFile(c.File(), c.bundle(), 0o644); err != nil {
		return fmt.Errorf("cannot store the certificates of the authority: %w", err)
	}
	return nil
}

func (c *CA) load() error {
	text, err := c.readKey()
	if err != nil {
		return err
	}
	certs, whole, err := readCertificates(text)
	if err == nil && !whole { // an earlier version made it
		var public []byte
		if public, err = os.ReadFile(c.File()); err == nil || errors.Is(err, fs.ErrNotExist) {
			certs, _, err = readCertificates(public)
		}
	}
	switch {
	case err != nil:
		return err
	case len(certs) == 0:
		return errNoCertificate
	case text == nil:
		return fmt.Errorf("%s is lost, and %s trusts it: bring it back from a backup", c.keyFile(), c.File())
	}
	return c.use(text, certs, whole)
}

// maxKey bounds the file of a key, in bytes.
const maxKey = 64 << 10

// readKey returns the text of the key's file, nil if there is none.
func (c *CA) readKey() ([]byte, error) {
	f, err := os.Open(c.keyFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	key, err := private.Read(f, maxKey)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", c.keyFile(), err)
	}
	return key, nil
}

// Certificates returns the certificates in a file, in PEM, and nothing else that is in it: a credential has its key
// beside them. A file without certificates is no error.
func Certificates(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	certs, _, err := readCertificates(text)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", path, err)
	}
	return certificates(certs...), nil
}

// readCertificates reads all certificates in a text, and whether there is one.
func readCertificates(text []byte) (certs []*x509.Certificate, found bool, err error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, false, err
		}
		certs = append(certs, cert)
	}
	return certs, len(certs) > 0, nil
}

// use sets the certificate, and if there are three, the cross-signed and the former one too.
func (c *CA) use(text []byte, certs []*x509.Certificate, whole bool) error {
	if len(certs) != 1 && len(certs) != 3 {
		return fmt.Errorf("there are %d certificates, want that of the authority", len(certs))
	}
	pair, err := tls.X509KeyPair(certificates(certs[0]), text)
	if err != nil {
		return err
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok || !certs[0].IsCA {
		return fmt.Errorf("%s is not the certificate of an authority with an ECDSA key", c.File())
	}
	c.cert, c.key = certs[0], key
	if len(certs) == 3 {
		c.bridge, c.former = certs[1], certs[2]
	}
	if !whole {
		return nil
	}
	if public, err := os.ReadFile(c.File()); err == nil && bytes.Equal(public, c.bundle()) {
		return nil
	}
	return renameio.WriteFile(c.File(), c.bundle(), 0o644) // the change was cut short
}

// Config returns the TLS configuration of a listener with the given names and addresses. "localhost", the host's name
// and its addresses at that time are added. Only TLS 1.3 is offered. The certificate is made at the first connection,
// and replaced 30 days before it ends, without a restart.
func (c *CA) Config(names ...string) *tls.Config {
	var mu sync.Mutex
	var current *tls.Certificate
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			mu.Lock()
			defer mu.Unlock()
			if current != nil && time.Until(current.Leaf.NotAfter) > leafSoon && c.shows(current) {
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

// chain returns the certificates that a listener sends after its own. The roots are in it for clients that know only
// the hash of one.
func (c *CA) chain() (chain [][]byte) {
	if c.bridge != nil {
		chain = append(chain, c.bridge.Raw)
	}
	for _, root := range c.roots() {
		chain = append(chain, root.Raw)
	}
	return chain
}

// shows reports whether a leaf is signed by the present key and has the present chain.
func (c *CA) shows(leaf *tls.Certificate) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.EqualFunc(leaf.Certificate[1:], c.chain(), bytes.Equal)
}

// hosts returns the names and addresses of this host.
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
	c.mu.Lock()
	defer c.mu.Unlock()
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
	leaf, err := certify(t, c.cert, &key.PublicKey, c.key)
	if err != nil {
		return nil, fmt.Errorf("cannot sign a certificate: %w", err)
	}
	return &tls.Certificate{Certificate: append([][]byte{leaf.Raw}, c.chain()...), PrivateKey: key, Leaf: leaf}, nil
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
