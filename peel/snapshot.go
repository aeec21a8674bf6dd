package peel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/renameio/v2"

	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// snapshotRetry is the pause between attempts to store a snapshot that the disk refuses.
const snapshotRetry = 10 * time.Second

// A snapshot is the file with the newest document that the peel accepted.
type snapshot struct {
	path   string
	failed chan struct{}          // one slot: the disk has refused a document
	err    atomic.Pointer[string] // why the newest document is not on the disk; nil if it is

	mu  sync.Mutex         // held while the file is written
	due *settings.Document // not on the disk yet; nil: none
}

func newSnapshot(path string) *snapshot {
	return &snapshot{path: path, failed: make(chan struct{}, 1)}
}

// load returns nil if there is no snapshot.
func (s *snapshot) load(id target.PeelID) (*settings.Document, error) {
	data, err := os.ReadFile(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return settings.Decode(data, id)
}

// store replaces the snapshot: a crash leaves the old one or the new one. After an error [Peel.keepSnapshot] tries again.
func (s *snapshot) store(doc *settings.Document) error {
	s.mu.Lock()
	s.due = doc
	s.mu.Unlock()
	err := s.write()
	if err != nil {
		select {
		case s.failed <- struct{}{}:
		default:
		}
	}
	return err
}

// write writes the document that is due, if there is one.
func (s *snapshot) write() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.due == nil {
		return nil
	}
	data, err := s.due.Encode()
	if err == nil {
		// Without a directory for the new file renameio tries, each time, whether the system's would do.
		err = renameio.WriteFile(s.path, data, 0o600, renameio.WithTempDir(filepath.Dir(s.path)))
	}
	if err != nil {
		err = fmt.Errorf("settings run from memory only: cannot store the snapshot: %w", err)
		text := err.Error()
		s.err.Store(&text)
		return err
	}
	s.due = nil
	s.err.Store(nil)
	return nil
}

// keepSnapshot retries to store a snapshot that the disk refused, for the last time when ctx ends.
func (p *Peel) keepSnapshot(ctx context.Context) {
	defer func() { _ = p.snapshot.write() }() // the peel ends, with or without it
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.snapshot.failed:
		}
		for stored := false; !stored; {
			select {
			case <-ctx.Done():
				return
			case <-time.After(snapshotRetry):
				stored = p.snapshot.write() == nil
			}
		}
		p.log.Info("the snapshot is stored")
		p.report()
	}
}
