package rest

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
)

// Certificate is a configuration that shows the certificate in a file, with the key in another, and speaks TLS 1.3 alone.
// Files that have changed are read again at the next connection; a pair that does not fit, as while it is being replaced,
// leaves the one of before in force and is logged.
func Certificate(cert, key string, log *slog.Logger) (*tls.Config, error) {
	p := &pair{cert: cert, key: key, log: log}
	if err := p.read(); err != nil {
		return nil, fmt.Errorf("cannot use the certificate in %s with the key in %s: %w", cert, key, err)
	}
	return &tls.Config{
		MinVersion:     tls.VersionTLS13,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return p.current(), nil },
	}, nil
}

// pair is a certificate and its key as they were read last.
type pair struct {
	cert, key string
	log       *slog.Logger

	mu    sync.Mutex
	files [2]fs.FileInfo // as they were when they were looked at
	shown *tls.Certificate
}

func (p *pair) current() *tls.Certificate {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.changed() {
		if err := p.read(); err != nil {
			p.log.Warn("certificate not read again, the one of before stays", "cert", p.cert, "err", err)
		} else {
			p.log.Info("certificate read again", "cert", p.cert, "ends", p.shown.Leaf.NotAfter)
		}
	}
	return p.shown
}

// changed reports whether one of the files is not what it was when it was looked at.
func (p *pair) changed() bool {
	for i, path := range []string{p.cert, p.key} {
		now, err := os.Stat(path)
		if err != nil {
			return true
		}
		if before := p.files[i]; !os.SameFile(before, now) || !before.ModTime().Equal(now.ModTime()) || before.Size() != now.Size() {
			return true
		}
	}
	return false
}

// read looks at the files before it reads them, so that a change in between is seen the next time.
func (p *pair) read() error {
	var files [2]fs.FileInfo
	var errs [2]error
	files[0], errs[0] = os.Stat(p.cert)
	files[1], errs[1] = os.Stat(p.key)
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	if files[1].Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("the key is open to others (mode %04o), want 0600", files[1].Mode().Perm())
	}
	p.files = files
	shown, err := tls.LoadX509KeyPair(p.cert, p.key)
	if err != nil {
		return err
	}
	p.shown = &shown
	return nil
}
