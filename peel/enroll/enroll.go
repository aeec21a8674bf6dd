// Package enroll requests the credential of a peel from a master, and renews it before it expires. Call [New], then
// [Joiner.Run] in a goroutine.
//
// The private key is created on the host and never leaves it; a master signs the public key. The data directory gets
// peel.creds and peel.nk with mode 0600, and ca.crt with the certificates that the bus is checked against. Files that
// other users can read or write are refused and not repaired, because others may have read them already.
//
// The host identifies the master by the pin in its join token, which is the hash of the authority that signs the
// masters' certificates, or by given certificates. All requests use TLS, on loopback too, because any user of the host
// can listen on a port that the master has closed. Until it is accepted, the peel sends a request every ten seconds. It
// renews the credential every day. The reply also contains the certificates of the masters and of an external bus, so a
// peel knows the new authority after a rotation.
//
// Known gap: a peel that is off during a whole rotation has to be enrolled again.
package enroll

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/google/renameio/v2"
	"github.com/nats-io/nkeys"

	"github.com/seed-c01c3da5/zester/peel/dial"
	"github.com/seed-c01c3da5/zester/settings/private"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// The files in the data directory.
const (
	CredsFile = "peel.creds"
	CAFile    = "ca.crt"
	keyFile   = "peel.nk"
)

const (
	requestEvery   = 10 * time.Second // ± 10 %
	checkEvery     = time.Hour        // between checks whether the credential is due for renewal
	renewEvery     = 24 * time.Hour
	requestTimeout = 20 * time.Second
	maxReply       = 64 << 10 // bytes
)

// Options are the options of a [Joiner].
type Options struct {
	ID      target.PeelID
	DataDir string
	Join    string // [TOKEN@]HOST:PORT of a master's HTTP
	// file with the certificates that the master's is checked against; if empty, the pin or the system's certificates
	CA  string
	Log *slog.Logger
}

// Pins reports whether a join token contains the pin of its master's authority. If so, the authority's certificates are
// stored in [CAFile].
func Pins(join string) bool {
	_, pin, _ := splitJoin(join)
	return pin != ""
}

// tokenPrefix begins each join token.
const tokenPrefix = "zester."

// splitJoin splits [TOKEN[.PIN]@]ADDRESS. A token without its pin has three parts.
func splitJoin(join string) (token, pin, address string) {
	token, address, found := strings.Cut(join, "@")
	if !found {
		return "", "", join
	}
	if parts := strings.Split(token, "."); len(parts) == 4 {
		token, pin = strings.Join(parts[:3], "."), parts[3]
	}
	return token, pin, address
}

// A Joiner enrolls a peel. Create it with [New] and call Run once.
type Joiner struct {
	o      Options
	url    string
	token  string
	client *http.Client
	key    nkeys.KeyPair
	public string
	pins   bool // the master's certificates are stored in CAFile
}

// New checks the options and the files, and creates the key if there is none.
func New(o Options) (*Joiner, error) {
	token, pin, address := splitJoin(o.Join)
	if strings.HasPrefix(address, tokenPrefix) { // not in the error: it is a secret
		return nil, errors.New("cannot join: there is no address behind the token: write TOKEN@HOST:PORT")
	}
	if strings.Contains(o.Join, "@") && !strings.HasPrefix(token, tokenPrefix) {
		return nil, errors.New("cannot join: what is before the @ is no join token; " +
			"zester auth join-token create prints one, which begins with " + strconv.Quote(tokenPrefix))
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("cannot join %q: want [TOKEN@]HOST:PORT: %w", address, err)
	}
	j := &Joiner{o: o, token: token, pins: pin != "", url: "https://" + address + "/api/v1/enroll"}
	config, err := j.tls(pin, host)
	if err != nil {
		return nil, err
	}
	j.client = &http.Client{
		Timeout: requestTimeout, Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return errors.New("a master does not redirect") },
	}
	return j, j.openKey()
}

// tls returns the TLS configuration, which checks the master by the stored certificates and the pin, or by the given
// certificates. The stored certificates are read at every connection.
func (j *Joiner) tls(pin, host string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS13}
	switch {
	case pin != "":
		want, err := base64.RawURLEncoding.DecodeString(pin)
		if err != nil || len(want) != sha256.Size {
			return nil, errors.New("cannot join: the pin of the token is damaged")
		}
		c.InsecureSkipVerify = true // VerifyConnection checks the certificates
		c.VerifyConnection = func(s tls.ConnectionState) error { return j.verify(s, want, host) }
	case j.o.CA != "":
		text, err := os.ReadFile(j.o.CA)
		if err != nil {
			return nil, fmt.Errorf("cannot join: %w", err)
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("cannot join: %s contains no certificate", j.o.CA)
		}
	}
	return c, nil
}

// verify accepts a certificate chain that ends at a stored certificate. If none is stored yet, it has to end at the
// certificate whose hash is the pin.
func (j *Joiner) verify(s tls.ConnectionState, pin []byte, host string) error {
	o := x509.VerifyOptions{Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool(), DNSName: host}
	kept, err := os.ReadFile(j.path(CAFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	known := o.Roots.AppendCertsFromPEM(kept)
	for _, cert := range s.PeerCertificates[1:] {
		o.Intermediates.AddCert(cert)
		if sum := sha256.Sum256(cert.Raw); len(kept) == 0 && bytes.Equal(sum[:], pin) {
			o.Roots.AddCert(cert)
			known = true
		}
	}
	if !known {
		return errors.New("the master is not the one that issued the join token")
	}
	_, err = s.PeerCertificates[0].Verify(o)
	return err
}

func (j *Joiner) path(name string) string { return filepath.Join(j.o.DataDir, name) }

// Private returns an error if users other than the owner may use a file or directory. A missing path is no error.
func Private(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		return fmt.Errorf(
			"cannot use %s: it is open to others (mode %04o): run chmod go= %s, "+
				"or if others may have read what is in it, remove that and enroll again",
			path, perm, path,
		)
	}
	return nil
}

func (j *Joiner) openKey() error {
	if err := private.Make(j.o.DataDir); err != nil {
		return err
	}
	for _, path := range []string{j.o.DataDir, j.path(keyFile), j.path(CredsFile)} {
		if err := Private(path); err != nil {
			return err
		}
	}
	seed, err := os.ReadFile(j.path(keyFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if j.key, err = nkeys.CreateUser(); err != nil {
			return fmt.Errorf("cannot create the peel's key: %w", err)
		}
		if seed, err = j.key.Seed(); err == nil {
			err = renameio.WriteFile(j.path(keyFile), append(seed, '\n'), 0o600)
		}
	case err == nil:
		j.key, err = nkeys.FromSeed(bytes.TrimSpace(seed))
	}
	if err != nil {
		return fmt.Errorf("cannot use the peel's key in %s: %w", j.path(keyFile), err)
	}
	if j.public, err = j.key.PublicKey(); err != nil {
		return fmt.Errorf("cannot use the peel's key in %s: %w", j.path(keyFile), err)
	}
	return nil
}

// Run requests a credential until it gets one, and then renews it until ctx ends. It calls fresh after each new
// credential is stored.
func (j *Joiner) Run(ctx context.Context, fresh func()) error {
	last := ""
	for {
		wait := j.due()
		if wait <= 0 {
			wait = requestEvery*9/10 + rand.N(requestEvery/5)
			switch err := j.request(ctx); {
			case err == nil:
				last, wait = "", checkEvery
				fresh()
			case ctx.Err() == nil && err.Error() != last:
				last = err.Error()
				j.o.Log.Warn("no new credential", dial.LogError(err, j.checkedBy())...)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(min(wait, checkEvery)):
		}
	}
}

// checkedBy returns the file with the certificates that the master is checked against. If empty, they are the system's.
func (j *Joiner) checkedBy() string {
	if j.pins {
		return j.path(CAFile)
	}
	return j.o.CA
}

// due returns the time until the credential has to be renewed: when it is a day old, or two thirds of its lifetime are
// over. It returns 0 if there is no valid credential.
func (j *Joiner) due() time.Duration {
	data, err := os.ReadFile(j.path(CredsFile))
	if err != nil {
		return 0
	}
	token, err := nkeys.ParseDecoratedJWT(data)
	if err != nil {
		return 0
	}
	c, err := claimsOf(token)
	if err != nil || c.Subject != j.public || c.Name != j.o.ID.Wire() {
		return 0
	}
	age := renewEvery
	if c.Expires != 0 {
		age = min(age, time.Duration(c.Expires-c.IssuedAt)*time.Second*2/3)
	}
	return time.Until(time.Unix(c.IssuedAt, 0).Add(age))
}

// reply is a master's reply: a credential, or in Detail the reason of the refusal.
type reply struct {
	JWT    string `json:"jwt"`
	CA     string `json:"ca"`
	Detail string `json:"detail"`
}

// request sends one request and stores the credential.
func (j *Joiner) request(ctx context.Context) error {
	proof, err := j.key.Sign([]byte("zester enroll 1\n" + string(j.o.ID) + "\n" + j.public + "\n"))
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]string{
		"id":     string(j.o.ID),
		"public": j.public,
		"proof":  base64.RawURLEncoding.EncodeToString(proof),
		"token":  j.token,
	})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, j.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	r, err := j.client.Do(req)
	if err != nil {
		return fmt.Errorf("cannot ask to be enrolled: %w", err)
	}
	defer r.Body.Close()
	var a reply
	if err := json.NewDecoder(io.LimitReader(r.Body, maxReply)).Decode(&a); err != nil {
		return fmt.Errorf("cannot read the master's reply (%s): %w", r.Status, err)
	}
	if r.StatusCode != http.StatusOK {
		return fmt.Errorf("not enrolled with the key %s: %s", j.public, a.Detail)
	}
	return j.store(a)
}

// claims are the claims that a peel reads in its own JWT to know when to renew it. The bus verifies the JWT.
type claims struct {
	Subject  string `json:"sub"`
	Name     string `json:"name"`
	IssuedAt int64  `json:"iat"`
	Expires  int64  `json:"exp"`
}

func claimsOf(token string) (c claims, err error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return c, errors.New("it is not a JWT")
	}
	data, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err == nil {
		err = json.Unmarshal(data, &c)
	}
	return c, err
}

// credsForm is the form of a .creds file.
const credsForm = `-----BEGIN NATS USER JWT-----
%s
------END NATS USER JWT------

-----BEGIN USER NKEY SEED-----
%s
------END USER NKEY SEED------
`

func (j *Joiner) store(a reply) error {
	c, err := claimsOf(a.JWT)
	if err != nil || c.Subject != j.public || c.Name != j.o.ID.Wire() {
		return fmt.Errorf("cannot use the credential that the master issued: it is not for %s with this key", j.o.ID)
	}
	seed, err := j.key.Seed()
	if err != nil {
		return err
	}
	if j.pins {
		if !x509.NewCertPool().AppendCertsFromPEM([]byte(a.CA)) {
			return errors.New(
				"cannot use the credential that the master issued: the reply has no certificates of the master",
			)
		}
		if err := renameio.WriteFile(j.path(CAFile), []byte(a.CA), 0o644); err != nil {
			return fmt.Errorf("cannot store the master's certificates: %w", err)
		}
	}
	if err := renameio.WriteFile(j.path(CredsFile), fmt.Appendf(nil, credsForm, a.JWT, seed), 0o600); err != nil {
		return fmt.Errorf("cannot store the credential: %w", err)
	}
	return nil
}
