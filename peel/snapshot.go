package peel

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// snapshotRetry is the pause between attempts to store a snapshot that the disk refuses.
const snapshotRetry = 10 * time.Second

// A snapshot is the file with the newest document that the peel accepted.
//
// The file begins with [snapshotHeader]. Documents follow, each behind its length and its CRC-32C in big endian; the last one
// that can be read is the newest. A process begins a file of its own under another name, which replaces the old one once it
// is on the disk, and adds to it until it has [fullSnapshot] bytes or a write fails: then it begins another. So a new
// document costs one write and one flush, and nothing is written behind what a crash or a full disk has left. A file of an
// earlier version is one document and nothing else.
type snapshot struct {
	path   string
	failed chan struct{}          // one slot: the disk has refused a document
	err    atomic.Pointer[string] // why the newest document is not on the disk; nil if it is

	mu   sync.Mutex         // held while the file is written
	due  *settings.Document // not on the disk yet; nil: none
	file *os.File           // that this process has begun; nil: none, the next document begins one
	end  int64              // of the documents in file
}

const (
	snapshotHeader = "zsettings1\n"
	snapshotHead   = 4 + 4 // bytes before a document

	// fullSnapshot is the size in bytes from which on a file gets no further document. It bounds how much of documents that
	// were replaced stays on the disk.
	fullSnapshot = 64 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

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
	if records, ok := bytes.CutPrefix(data, []byte(snapshotHeader)); ok {
		data = lastRecord(records)
	}
	return settings.Decode(data, id)
}

// lastRecord returns the document of the last record that can be read, nil if there is none. Behind it may be what a crash has
// left of a write.
func lastRecord(data []byte) (document []byte) {
	for len(data) >= snapshotHead {
		length := int64(binary.BigEndian.Uint32(data))
		if length == 0 || length > int64(len(data)-snapshotHead) { // a host that loses its power can leave zeros
			break
		}
		next := data[snapshotHead : snapshotHead+length]
		if crc32.Checksum(next, castagnoli) != binary.BigEndian.Uint32(data[4:]) {
			break
		}
		document, data = next, data[snapshotHead+length:]
	}
	return document
}

// appendRecord appends the record of a document.
func appendRecord(data, document []byte) []byte {
	data = binary.BigEndian.AppendUint32(data, uint32(len(document)))
	data = binary.BigEndian.AppendUint32(data, crc32.Checksum(document, castagnoli))
	return append(data, document...)
}

// store makes doc the newest of the snapshot: a crash leaves the one before or this one. After an error [Peel.keepSnapshot]
// tries again.
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
	document, err := s.due.Encode()
	if err == nil {
		err = s.addLocked(document)
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

// addLocked adds a document to the file, or begins one with it. After an error the next document begins a file.
func (s *snapshot) addLocked(document []byte) error {
	if s.file == nil || s.end >= fullSnapshot {
		return s.beginLocked(document)
	}
	record := appendRecord(nil, document)
	_, err := s.file.WriteAt(record, s.end)
	if err == nil {
		err = s.file.Sync()
	}
	if err != nil {
		s.leaveLocked()
		return err
	}
	s.end += int64(len(record))
	return nil
}

// beginLocked puts a new file with the document in the place of the old one.
func (s *snapshot) beginLocked(document []byte) error {
	s.leaveLocked()
	data := appendRecord([]byte(snapshotHeader), document)
	file, err := os.OpenFile(s.path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	if err == nil {
		err = os.Rename(file.Name(), s.path)
	}
	if err == nil {
		err = syncDir(filepath.Dir(s.path)) // else a crash could bring the old file back, without what is added to this one
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	s.file, s.end = file, int64(len(data))
	return nil
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// leaveLocked ends the writing of the file.
func (s *snapshot) leaveLocked() {
	if s.file != nil {
		_ = s.file.Close() // all that counts is on the disk
	}
	s.file, s.end = nil, 0
}

// close releases the file.
func (s *snapshot) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaveLocked()
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
