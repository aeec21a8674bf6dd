package peel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/renameio/v2"

	"github.com/seed-c01c3da5/zester/settings"
)

// snapshotRetry is how long a snapshot that the disk refused waits for the next attempt.
const snapshotRetry = 10 * time.Second

// A snapshot is the file with the newest document that the peel accepted.
type snapshot struct {
	path   string
	failed chan struct{} // one slot: the disk has refused a document

	mu  sync.Mutex
	due *settings.Document // accepted and not on the disk; nil: none
	err error              // why it is not
}

func newSnapshot(path string) *snapshot {
	return &snapshot{path: path, failed: make(chan struct{}, 1)}
}

// load returns nil if there is no snapshot.
func (s *snapshot) load(p *Peel) (*settings.Document, error) {
	data, err := os.ReadFile(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return settings.Decode(data, p.o.ID)
}

// store replaces the snapshot: a crash leaves the old one or the new one. After an error the document is due.
func (s *snapshot) store(doc *settings.Document) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.due = doc
	s.writeLocked()
	if s.err != nil {
		select {
		case s.failed <- struct{}{}:
		default:
		}
	}
	return s.err
}

// retry writes the document that is due, and reports whether none is due any longer.
func (s *snapshot) retry() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.due != nil {
		s.writeLocked()
	}
	return s.due == nil
}

func (s *snapshot) writeLocked() {
	data, err := s.due.Encode()
	if err == nil {
		// Without a directory for the new file renameio tries, each time, whether the system's would do.
		err = renameio.WriteFile(s.path, data, 0o600, renameio.WithTempDir(filepath.Dir(s.path)))
	}
	if s.err = nil; err != nil {
		s.err = fmt.Errorf("settings run from memory only: cannot store the snapshot: %w", err)
		return
	}
	s.due = nil
}

// trouble is why the newest document is not on the disk, nil if it is.
func (s *snapshot) trouble() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// keepSnapshot writes a snapshot that the disk refused again and again, until ctx ends.
func (p *Peel) keepSnapshot(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			p.snapshot.retry()
			return
		case <-p.snapshot.failed:
		}
		for stored := false; !stored; stored = p.snapshot.retry() {
			select {
			case <-ctx.Done():
				p.snapshot.retry()
				return
			case <-time.After(snapshotRetry):
			}
		}
		p.log.Info("the snapshot is stored")
		p.report()
	}
}
