// Package journal keeps records in a file to which they are appended.
//
// Call [Open], which returns the records of the last process. [Journal.Append] writes records, [Journal.Sync] flushes
// them, and [Journal.Rewrite] replaces the file by one with the records that still count, when [Journal.IsLarge] says
// so.
//
// A record is 12 bytes and a payload: two bytes that each record begins with, the length of the payload, a checksum of
// the length, and one of the payload. A file that ends within a record was cut by a crash: the rest is removed. A
// record whose checksum is wrong is skipped, and [Journal.Damage] says so. A file without a record that can be read is
// not used; the one before it, with the suffix ".1", is.
//
// Rewrite leaves the old file under the name with ".1". A crash leaves the old file or the new one.
//
// A failed write is taken back. If that fails too, or a flush fails, it is not known what the disk has: Append and Sync
// then fail until a Rewrite succeeds. Methods of a Journal are safe for concurrent use.
package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

const (
	headSize = 12
	// MaxPayload is the limit of a record, in bytes.
	MaxPayload = 1 << 20
	// largeSize is the size from which on a file may be large, in bytes.
	largeSize = 64 << 10
	oldSuffix = ".1"
	newSuffix = ".new"
)

var (
	magic  = [2]byte{0xd7, 'z'}
	crcOf  = crc32.MakeTable(crc32.Castagnoli)
	errCut = errors.New("an earlier write failed, and it is not known what the disk has")
)

// A Journal is an open file. A nil Journal keeps nothing, and its methods succeed.
type Journal struct {
	path   string
	damage string // see Damage
	older  bool   // see IsOlder

	mu       sync.Mutex
	file     *os.File
	end      int64  // of the whole records
	base     int64  // end after the last Rewrite
	appended uint64 // number of calls of Append that succeeded
	broken   bool   // see errCut

	flush  sync.Mutex // held during a flush; taken before mu
	synced uint64     // calls of Append that are on the disk; guarded by flush
}

// Open opens a file, which need not exist, and returns the payloads of its records in their order. If path is empty the
// Journal is nil. A disk that does not let the file be written is no error: a Rewrite may succeed later.
func Open(path string) (j *Journal, payloads [][]byte, err error) {
	if path == "" {
		return nil, nil, nil
	}
	damage := ""
	data, err := os.ReadFile(path)
	missing := errors.Is(err, fs.ErrNotExist)
	payloads, end, skipped := parse(data)
	older := false
	switch {
	case missing || err == nil && len(data) == 0:
		if payloads, err = before(path, false); len(payloads) > 0 && !missing {
			older = true
			damage = "the list of fires is empty, the one before it is used: what changed since then is lost"
		}
	case err != nil || len(payloads) == 0 && skipped > 0:
		damage = "the list of fires cannot be read, and there is none before it: pauses and counts of runs are lost"
		if payloads, err = before(path, true); len(payloads) > 0 {
			older = true
			damage = "the list of fires cannot be read, the one before it is used: what changed since then is lost"
		}
		end, data = 0, nil
	case skipped > 0:
		damage = fmt.Sprintf("the list of fires has %d damaged places, which are skipped", skipped)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("cannot read the list of fires: %w", err)
	}
	j = &Journal{path: path, damage: damage, end: end, older: older}
	if missing || len(data) == 0 || skipped > 0 {
		err = j.Rewrite(func() ([][]byte, error) { return payloads, nil })
	} else if err = j.open(); err == nil && end < int64(len(data)) {
		err = errors.Join(j.file.Truncate(end), j.file.Sync())
	}
	j.broken = err != nil
	return j, payloads, nil
}

// Damage says what of the file Open could not read, for people; empty: nothing.
func (j *Journal) Damage() string {
	if j == nil {
		return ""
	}
	return j.damage
}

// IsOlder reports whether Open returned the records of the file before the one that is damaged: newer ones are lost.
func (j *Journal) IsOlder() bool { return j != nil && j.older }

// before returns the records of the file before the present one. A bad one is kept under the suffix ".bad".
func before(path string, bad bool) ([][]byte, error) {
	data, err := os.ReadFile(path + oldSuffix)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	payloads, _, _ := parse(data)
	if !bad {
		return payloads, nil
	}
	return payloads, os.Rename(path, path+".bad")
}

// parse returns the payloads of the records in data, the end of the last one, and the number of places that are
// damaged.
func parse(data []byte) (payloads [][]byte, end int64, skipped int) {
	inDamage := false
	for at := 0; at < len(data); {
		payload, isCut := record(data[at:])
		switch {
		case payload != nil:
			at += headSize + len(payload)
			payloads, end, inDamage = append(payloads, payload), int64(at), false
			continue
		case isCut:
			return payloads, end, skipped
		case !inDamage:
			skipped, inDamage = skipped+1, true
		}
		next := bytes.Index(data[at+1:], magic[:])
		if next < 0 {
			break
		}
		at += 1 + next
	}
	return payloads, end, skipped
}

// record returns the payload of the record at the beginning of data; nil if there is none. isCut says that data ends
// within a record.
func record(data []byte) (payload []byte, isCut bool) {
	if len(data) < headSize {
		return nil, bytes.HasPrefix(data, magic[:min(len(data), 2)])
	}
	size := binary.LittleEndian.Uint32(data[2:])
	if !bytes.Equal(data[:2], magic[:]) ||
		uint16(crc32.Checksum(data[:6], crcOf)) != binary.LittleEndian.Uint16(data[6:]) || size > MaxPayload {
		return nil, false
	}
	rest := data[headSize:]
	if len(rest) < int(size) {
		return nil, true
	}
	payload = rest[:size:size]
	if crc32.Checksum(payload, crcOf) != binary.LittleEndian.Uint32(data[8:]) {
		return nil, false
	}
	return payload, false
}

func appendRecord(b, payload []byte) []byte {
	start := len(b)
	b = append(b, magic[:]...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(payload)))
	b = binary.LittleEndian.AppendUint16(b, uint16(crc32.Checksum(b[start:], crcOf)))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(payload, crcOf))
	return append(b, payload...)
}

func (j *Journal) open() (err error) {
	j.file, err = os.OpenFile(j.path, os.O_RDWR|os.O_CREATE, 0o600)
	return err
}

// Append writes records, all or none of them. They survive the end of the process at once, and the end of the host
// after [Journal.Sync].
func (j *Journal) Append(payloads ...[]byte) error {
	if j == nil || len(payloads) == 0 {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.broken {
		return errCut
	}
	var b []byte
	for _, p := range payloads {
		if len(p) > MaxPayload {
			return fmt.Errorf("cannot append a record of %d bytes, the limit is %d", len(p), MaxPayload)
		}
		b = appendRecord(b, p)
	}
	if _, err := j.file.WriteAt(b, j.end); err != nil {
		if cut := j.file.Truncate(j.end); cut != nil {
			j.broken = true
			err = errors.Join(err, cut)
		}
		return err
	}
	j.end += int64(len(b))
	j.appended++
	return nil
}

// Sync flushes what was appended. Calls at the same time share a flush.
func (j *Journal) Sync() error {
	if j == nil {
		return nil
	}
	j.mu.Lock()
	want := j.appended
	j.mu.Unlock()
	j.flush.Lock()
	defer j.flush.Unlock()
	if j.synced >= want {
		return nil
	}
	j.mu.Lock()
	appended, file, broken := j.appended, j.file, j.broken
	j.mu.Unlock()
	if broken {
		return errCut
	}
	if err := file.Sync(); err != nil {
		j.mu.Lock()
		j.broken = true
		j.mu.Unlock()
		return err
	}
	j.synced = appended
	return nil
}

// IsLarge reports whether the file has doubled since the last Rewrite and has more than 64 KiB.
func (j *Journal) IsLarge() bool {
	if j == nil {
		return false
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.end > largeSize && j.end > 2*j.base
}

// Rewrite replaces the file by one with the records that all returns, and flushes it. Calls of Append wait until it
// returns.
func (j *Journal) Rewrite(all func() ([][]byte, error)) error {
	if j == nil {
		return nil
	}
	j.flush.Lock()
	defer j.flush.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	payloads, err := all()
	var b []byte
	for _, p := range payloads {
		b = appendRecord(b, p)
	}
	if err == nil {
		err = j.replace(b)
	}
	if err != nil {
		return fmt.Errorf("cannot write the list of fires anew: %w", err)
	}
	j.end = int64(len(b))
	j.base = int64(len(b))
	j.broken = false
	j.synced = j.appended
	return nil
}

// replace writes the new file, and renames the old file and the new one.
func (j *Journal) replace(data []byte) error {
	file, err := os.OpenFile(j.path+newSuffix, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	if err == nil {
		err = os.Rename(j.path, j.path+oldSuffix)
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = os.Rename(j.path+newSuffix, j.path)
	}
	if err == nil {
		err = syncDir(filepath.Dir(j.path))
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	if j.file != nil {
		_ = j.file.Close() // what counts of it is in the new file
	}
	j.file = file
	return nil
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Close flushes and closes the file.
func (j *Journal) Close() error {
	if j == nil {
		return nil
	}
	err := j.Sync()
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.broken = true; j.file == nil {
		return err
	}
	return errors.Join(err, j.file.Close())
}
