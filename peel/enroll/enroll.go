// Package enroll gets a peel its credential from a master, and renews it before it ends.
//
// The key is made on the host and never leaves it: a master signs its public half. What is kept is in the data directory,
// peel.creds and peel.nk of mode 0600, and ca.crt, by which the bus is checked from then on. Files that others can use
// are refused, not mended: who could read them may have.
//
// A host knows the master by the pin in its join token, which is the hash of the authority that signs the masters'
// certificates, or by the certificates that it was given. All requests use TLS, on loopback too: any user of the host can
// listen on a port that the master has left. Until it is accepted it asks every ten seconds. Every day it has the
// credential renewed, which brings the master's certificates as well, so that a master whose authority was rotated stays
// known.
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
	askEvery   = 10 * time.Second // ± 10 %
	lookEvery  = time.Hour
	renewEvery = 24 * time.Hour
	askLimit   = 20 * time.Second
	maxAnswer  = 64 << 10
)

// Options say who is to be enrolled where.
type Options struct {
	ID      target.PeelID
	DataDir string
	Join    string // [TOKEN@]HOST:PORT of a master's HTTP
	CA      string // file with the certificates that the master's is checked against; "" those of the system, or the pin
	Log     *slog.Logger
}

// Pins reports whether a join token carries the pin of its master's authority, whose certificates are then kept in [CAFile].
func Pins(join string) bool {
	token, _, found := strings.Cut(join, "@")
	return found && strings.Count(token, ".") == 3
}

// A Joiner has a peel enrolled. Make it with [New] and call Run once.
type Joiner struct {
	o      Options
	url    string
	token  string
	client *http.Client
	key    nkeys.KeyPair
	public string
	pins   bool // whether the master's certificates are kept in CAFile
}

// New checks the options and the files, and makes the key if there is none.
func New(o Options) (*Joiner, error) {
	token, address, found := strings.Cut(o.Join, "@")
	if !found {
		token, address = "", o.Join
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("cannot join %q: want [TOKEN@]HOST:PORT: %w", address, err)
	}
	j := &Joiner{o: o}
	pin := ""
	if parts := strings.Split(token, "."); len(parts) == 4 {
		token, pin = strings.Join(parts[:3], "."), parts[3]
	}
	j.token, j.pins = token, pin != ""
	j.url = "https://" + address + "/api/v1/enroll"
	config, err := j.tls(pin, host)
	if err != nil {
		return nil, err
	}
	j.client = &http.Client{
		Timeout: askLimit, Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return errors.New("a master does not redirect") },
	}
	return j, j.openKey()
}

// tls checks the master by the certificates that the last answer brought, by the pin, or by certificates that were given.
// They are read at every connection.
func (j *Joiner) tls(pin, host string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS13}
	switch {
	case pin != "":
		want, err := base64.RawURLEncoding.DecodeString(pin)
		if err != nil || len(want) != sha256.Size {
			return nil, errors.New("cannot join: the pin of the token is damaged")
		}
		c.InsecureSkipVerify = true // VerifyConnection does it
		c.VerifyConnection = func(s tls.ConnectionState) error { return j.verify(s, want, host) }
	case j.o.CA != "":
		text, err := os.ReadFile(j.o.CA)
		if err != nil {
			return nil, fmt.Errorf("cannot join: %w", err)
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("cannot join: %s holds no certificate", j.o.CA)
		}
	}
	return c, nil
}

// verify accepts a chain that ends at a certificate that is kept, or before there is one, at that whose hash is the pin.
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
		return errors.New("the master is not the one that the join token is of")
	}
	_, err = s.PeerCertificates[0].Verify(o)
	return err
}

func (j *Joiner) path(name string) string { return filepath.Join(j.o.DataDir, name) }

// Private refuses a file, or a directory, that others than its owner may use. One that is not there is no error.
func Private(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		return fmt.Errorf("cannot use %s: it is open to others (mode %04o): run chmod go= %s, or if others may have read what is in it, remove that and enroll again", path, perm, path)
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
			return fmt.Errorf("cannot make the peel's key: %w", err)
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

// Run asks until there is a credential and renews it from then on, until ctx ends. fresh is called with each new one.
func (j *Joiner) Run(ctx context.Context, fresh func()) error {
	last := ""
	for {
		wait := j.due()
		if wait <= 0 {
			wait = askEvery*9/10 + rand.N(askEvery/5)
			switch err := j.ask(ctx); {
			case err == nil:
				last, wait = "", lookEvery
				fresh()
			case ctx.Err() == nil && err.Error() != last:
				last = err.Error()
				j.o.Log.Warn("no new credential", dial.LogError(err, j.checkedBy())...)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(min(wait, lookEvery)):
		}
	}
}

// checkedBy returns the file with the certificates that the master is checked by. If empty, they are the system's.
func (j *Joiner) checkedBy() string {
	if j.pins {
		return j.path(CAFile)
	}
	return j.o.CA
}

// due is how long the credential need not be renewed: until it is a day old, or two thirds of its life are over.
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

// answer is a master's: a credential, or in Detail why there is none.
type answer struct {
	JWT    string `json:"jwt"`
	CA     string `json:"ca"`
	Detail string `json:"detail"`
}

// ask asks once and stores what it gets.
func (j *Joiner) ask(ctx context.Context) error {
	proof, err := j.key.Sign([]byte("zester enroll 1\n" + string(j.o.ID) + "\n" + j.public + "\n"))
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]string{
		"id": string(j.o.ID), "public": j.public, "proof": base64.RawURLEncoding.EncodeToString(proof), "token": j.token,
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
	var a answer
	if err := json.NewDecoder(io.LimitReader(r.Body, maxAnswer)).Decode(&a); err != nil {
		return fmt.Errorf("cannot read the master's answer (%s): %w", r.Status, err)
	}
	if r.StatusCode != http.StatusOK {
		return fmt.Errorf("not enrolled with the key %s: %s", j.public, a.Detail)
	}
	return j.store(a)
}

// claims are what a peel reads in its own JWT. The bus checks it; here it says when to renew.
type claims struct {
	Subject  string `json:"sub"`
	Name     string `json:"name"`
	IssuedAt int64  `json:"iat"`
	Expires  int64  `json:"exp"`
}

func claimsOf(token string) (c claims, err error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return c, errors.New("it is no JWT")
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

func (j *Joiner) store(a answer) error {
	c, err := claimsOf(a.JWT)
	if err != nil || c.Subject != j.public || c.Name != j.o.ID.Wire() {
		return fmt.Errorf("cannot use the credential that the master gave: it is not for %s with this key", j.o.ID)
	}
	seed, err := j.key.Seed()
	if err != nil {
		return err
	}
	if j.pins {
		if !x509.NewCertPool().AppendCertsFromPEM([]byte(a.CA)) {
			return errors.New("cannot use the credential that the master gave: it came without the master's certificates")
		}
		if err := renameio.WriteFile(j.path(CAFile), []byte(a.CA), 0o644); err != nil {
			return fmt.Errorf("cannot keep the master's certificates: %w", err)
		}
	}
	if err := renameio.WriteFile(j.path(CredsFile), fmt.Appendf(nil, credsForm, a.JWT, seed), 0o600); err != nil {
		return fmt.Errorf("cannot keep the credential: %w", err)
	}
	return nil
}
