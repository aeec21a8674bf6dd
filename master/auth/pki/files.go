package pki

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
)

// FromFiles returns the TLS 1.3 configuration of a server with the certificate and key in two files. Changed files are
// read again at the next connection. If the certificate and the key do not match, for example while they are being
// replaced, the former ones stay in use and the mismatch is logged.
func FromFiles(cert, key string, log *slog.Logger) (*tls.Config, error) {
	p := &pair{cert: cert, key: key, log: log}
	if err := p.read(); err != nil {
		return nil, fmt.Errorf("cannot use the certificate in %s with the key in %s: %w", cert, key, err)
	}
	return &tls.Config{
		MinVersion:     tls.VersionTLS13,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return p.current(), nil },
	}, nil
}

// A pair is a certificate and its key, as last read.
type pair struct {
	cert, key string
	log       *slog.Logger

	mu    sync.Mutex
	files [2]fs.FileInfo // when they were last read
	shown *tls.Certificate
}

func (p *pair) current() *tls.Certificate {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.changed() {
		if err := p.read(); err != nil {
			p.log.Warn("certificate not read again, the former one stays in force", "cert", p.cert, "err", err)
		} else {
			p.log.Info("certificate read again", "cert", p.cert, "ends", p.shown.Leaf.NotAfter)
		}
	}
	return p.shown
}

// changed reports whether one of the files has changed since it was read.
func (p *pair) changed() bool {
	for i, path := range []string{p.cert, p.key} {
		now, err := os.Stat(path)
		if err != nil {
			return true
		}
		if before := p.files[i]; !os.SameFile(before, now) || !before.ModTime().Equal(now.ModTime()) ||
			before.Size() != now.Size() {
			return true
		}
	}
	return false
}

// read notes the times of the files before it reads them, so that a change in between is noticed the next time.
func (p *pair) read() error {
	var files [2]fs.FileInfo
	var errs [2]error
	files[0], errs[0] = os.Stat(p.cert)
	files[1], errs[1] = os.Stat(p.key)
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	if files[1].Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("other users may read the key (mode %04o), want 0600", files[1].Mode().Perm())
	}
	p.files = files
	shown, err := tls.LoadX509KeyPair(p.cert, p.key)
	if err != nil {
		return err
	}
	p.shown = &shown
	return nil
}
