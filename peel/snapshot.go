// File snapshot.go keeps the newest settings document that a peel accepted in a file. Make a [SnapshotFile] with
// [OpenSnapshot], read the document with [SnapshotFile.Load] when the peel starts, and call [SnapshotFile.Store] with
// each newer one.
//
// A crash leaves the document before or the one that was being stored. A new document costs one write and one flush.
//
// The file begins with a header. Documents follow, each after its length and its CRC-32C in big endian; the last that
// can be read is the newest. A process writes a file of its own under another name, renames it over the old one once it
// is on the disk, and appends to it until it is full or a write fails: then it begins another. So nothing is ever
// appended to what a crash or a full disk has left. The file of an earlier version is one document alone.

package peel

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	header     = "zsettings1\n"
	recordHead = 4 + 4 // bytes before a document: length and checksum

	// maxSize is the size in bytes from which on a file gets no further document. It bounds how much of replaced
	// documents stays on the disk.
	maxSize = 64 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A SnapshotFile is the snapshot of one peel. Its methods must not be called at the same time.
type SnapshotFile struct {
	path string
	file *os.File // that this process has begun; nil: none, the next document begins one
	end  int64    // of the documents in file
}

// OpenSnapshot returns the snapshot at path. It opens nothing.
func OpenSnapshot(path string) *SnapshotFile { return &SnapshotFile{path: path} }

// Load returns the newest document of the peel, nil if there is no snapshot.
func (f *SnapshotFile) Load(id target.PeelID) (*settings.Document, error) {
	data, err := os.ReadFile(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if records, ok := bytes.CutPrefix(data, []byte(header)); ok {
		data = lastRecord(records)
	}
	return settings.Decode(data, id)
}

// lastRecord returns the document of the last record that can be read, nil if there is none. A crash can leave part of
// another record after it.
func lastRecord(data []byte) (document []byte) {
	for len(data) >= recordHead {
		length := int64(binary.BigEndian.Uint32(data))
		if length == 0 || length > int64(len(data)-recordHead) { // a host that loses its power can leave zeros
			break
		}
		next := data[recordHead : recordHead+length]
		if crc32.Checksum(next, castagnoli) != binary.BigEndian.Uint32(data[4:]) {
			break
		}
		document, data = next, data[recordHead+length:]
	}
	return document
}

func appendRecord(data, document []byte) []byte {
	data = binary.BigEndian.AppendUint32(data, uint32(len(document)))
	data = binary.BigEndian.AppendUint32(data, crc32.Checksum(document, castagnoli))
	return append(data, document...)
}

// Store makes a document the newest. After an error the newest is the document before or this one, and Store can be
// called again.
func (f *SnapshotFile) Store(doc *settings.Document) error {
	document, err := doc.Encode()
	if err == nil {
		err = f.add(document)
	}
	if err != nil {
		return fmt.Errorf("cannot store the snapshot: %w", err)
	}
	return nil
}

// add appends a document to the file, or begins a file with it. After an error the next document begins a file.
func (f *SnapshotFile) add(document []byte) error {
	if f.file == nil || f.end >= maxSize {
		return f.begin(document)
	}
	record := appendRecord(nil, document)
	_, err := f.file.WriteAt(record, f.end)
	if err == nil {
		err = f.file.Sync()
	}
	if err != nil {
		f.Close()
		return err
	}
	f.end += int64(len(record))
	return nil
}

// begin replaces the file by a new one with the document.
func (f *SnapshotFile) begin(document []byte) error {
	f.Close()
	data := appendRecord([]byte(header), document)
	file, err := os.OpenFile(f.path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	if err == nil {
		err = os.Rename(file.Name(), f.path)
	}
	if err == nil {
		// else a crash could bring the old file back, and lose what is appended to this one
		err = syncDir(filepath.Dir(f.path))
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	f.file, f.end = file, int64(len(data))
	return nil
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Close releases the file. Every stored document is on the disk already.
func (f *SnapshotFile) Close() {
	if f.file != nil {
		_ = f.file.Close()
	}
	f.file, f.end = nil, 0
}
