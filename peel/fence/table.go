package fence

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"
)

const (
	header   = "zfence1\n"
	jidSize  = 27
	slotSize = jidSize + 1 + 8 + 4 // job, kind, number (big endian), CRC-32C of these
	slots    = 2 * Capacity
	fileSize = len(header) + slots*slotSize
)

// The kinds of records.
const (
	unfinished = 'u' // an admission without a stored result; number is the epoch
	finished   = 'a' // an admission with a stored result, or by an earlier version; number is the epoch
	boundary   = 'f' // a floor; number is a Unix time in seconds; there is no job
)

type record struct {
	kind   byte
	jid    wire.JID
	number uint64
}

func floorRecord(t time.Time) record { return record{kind: boundary, number: uint64(t.Unix())} }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (r record) encode() [slotSize]byte {
	var slot [slotSize]byte
	copy(slot[:jidSize], r.jid)
	slot[jidSize] = r.kind
	binary.BigEndian.PutUint64(slot[jidSize+1:], r.number)
	binary.BigEndian.PutUint32(slot[slotSize-4:], crc32.Checksum(slot[:slotSize-4], castagnoli))
	return slot
}

func decode(slot [slotSize]byte) (record, bool) {
	r := record{kind: slot[jidSize], number: binary.BigEndian.Uint64(slot[jidSize+1:])}
	if crc32.Checksum(slot[:slotSize-4], castagnoli) != binary.BigEndian.Uint32(slot[slotSize-4:]) {
		return r, false
	}
	if r.kind == boundary {
		return r, true
	}
	r.jid = wire.JID(slot[:jidSize])
	return r, r.kind == finished || r.kind == unfinished
}

// content is the content of a file.
type content struct {
	records []record
	damage  error // nil if the file is intact, apart from an interrupted write of the last slot
}

// parse returns all readable records, also those after damage.
func parse(data []byte) content {
	var c content
	switch {
	case len(data) != fileSize:
		c.damage = fmt.Errorf("it has %d bytes and not %d", len(data), fileSize)
	case string(data[:len(header)]) != header:
		c.damage = errors.New("its header is not that of a fence")
	}
	gap := -1 // the first slot without a record
	for i := range slots {
		at := len(header) + i*slotSize
		if at+slotSize > len(data) {
			break
		}
		slot := [slotSize]byte(data[at:])
		r, ok := decode(slot)
		if ok {
			c.records = append(c.records, r)
		} else if gap < 0 {
			gap = i
			continue
		}
		if free := slot == [slotSize]byte{}; gap >= 0 && !free && c.damage == nil {
			c.damage = fmt.Errorf("slot %d cannot be read, but slot %d is in use", gap, i)
		}
	}
	return c
}

// table is the file of a fence. If a method fails, the records are the same as before.
type table struct {
	path    string
	lock    *os.File
	file    *os.File
	used    int  // slots
	flushed bool // the directory entry of file is on the disk
}

// openTable locks, opens or creates the file, and reads it. It copies a damaged file.
func openTable(path string) (*table, content, error) {
	t := &table{path: path}
	var err error
	if t.lock, err = os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, content{}, err
	}
	if err := syscall.Flock(int(t.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, content{}, errors.Join(
			fmt.Errorf("another process uses %s: zester-peel already runs with this data directory (%w)", path, err),
			t.lock.Close(),
		)
	}
	c, err := t.read()
	if err != nil {
		return nil, content{}, errors.Join(err, t.close())
	}
	return t, c, nil
}

func (t *table) read() (content, error) {
	data, err := os.ReadFile(t.path)
	if errors.Is(err, fs.ErrNotExist) {
		return content{}, t.replace(nil)
	}
	if err != nil {
		return content{}, err
	}
	if t.file, err = os.OpenFile(t.path, os.O_RDWR, 0); err != nil {
		return content{}, err
	}
	if err := t.file.Chmod(0o600); err != nil {
		return content{}, err
	}
	c := parse(data)
	t.used = len(c.records)
	if c.damage != nil {
		return c, os.WriteFile(t.aside(), data, 0o600)
	}
	return c, nil
}

// aside returns the path of the copy of a damaged file.
func (t *table) aside() string { return t.path + ".damaged" }

func (t *table) full() bool { return t.used == slots }

// append writes a record and flushes it, except the end of a job. The next record overwrites one whose write failed.
func (t *table) append(r record) error {
	if err := t.flushDir(); err != nil {
		return err
	}
	slot := r.encode()
	if _, err := t.file.WriteAt(slot[:], int64(len(header)+t.used*slotSize)); err != nil {
		return err
	}
	if r.kind != finished {
		if err := t.file.Sync(); err != nil {
			return err
		}
	}
	t.used++
	return nil
}

// replace replaces the file by a new one with the records. It keeps the new file open, which renameio does not.
func (t *table) replace(records []record) error {
	data := []byte(header)
	for _, r := range records {
		slot := r.encode()
		data = append(data, slot[:]...)
	}
	file, err := os.OpenFile(t.path+".new", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Truncate(int64(fileSize)) // free slots are a hole that takes no space on the disk
	}
	if err == nil {
		err = file.Sync()
	}
	if err == nil {
		err = os.Rename(file.Name(), t.path)
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	if t.file != nil {
		_ = t.file.Close() // the new file has all its records
	}
	t.file, t.used, t.flushed = file, len(records), false
	return t.flushDir()
}

// flushDir flushes the directory after a rename. Without it a crash of the host could restore the old file.
func (t *table) flushDir() error {
	if t.flushed {
		return nil
	}
	dir, err := os.Open(filepath.Dir(t.path))
	if err != nil {
		return err
	}
	if err := errors.Join(dir.Sync(), dir.Close()); err != nil {
		return err
	}
	t.flushed = true
	return nil
}

func (t *table) close() error {
	if t.file == nil {
		return t.lock.Close()
	}
	return errors.Join(t.file.Close(), t.lock.Close())
}
