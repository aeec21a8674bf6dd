package outbox

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	fullSize  = 1 << 20  // bytes; a file of this size gets no more records
	emptySize = 64 << 10 // bytes; the current file is deleted when it has this size and no waiting record
)

// A segment is a file.
type segment struct {
	number uint64
	salt   salt
	left   int // waiting records; guarded by the outbox's mutex
}

// digits is the length of the number in a file's name. With leading zeros, names sort like numbers.
const digits = 20

func (s *segment) name() string { return fmt.Sprintf("%0*d-%08x", digits, s.number, uint32(s.salt)) }

func segmentOf(name string) (*segment, bool) {
	number, salted, _ := strings.Cut(name, "-")
	n, err := strconv.ParseUint(number, 10, 64)
	x, bad := strconv.ParseUint(salted, 16, 32)
	s := &segment{number: n, salt: salt(x)}
	return s, err == nil && bad == nil && s.name() == name
}

// files are the segments in the directory. Its methods are not safe for concurrent use, except read.
type files struct {
	dir  string
	last uint64 // number of the newest segment
	// current is the segment for new records; nil before the first record, and when it is full. Each process begins a
	// new segment, so it does not append to one that may end with an interrupted write.
	current *segment
	file    *os.File // of current
	end     int64    // of the records in file
}

func (f *files) path(s *segment) string { return filepath.Join(f.dir, s.name()) }

// append writes the records of entries to one segment, flushes them and returns their places. If it returns an error,
// none of them is on the disk.
func (f *files) append(entries []*entry) (*segment, []place, error) {
	if f.end >= fullSize {
		f.close()
	}
	begins := f.current == nil
	if begins {
		if err := f.begin(); err != nil {
			return nil, nil, err
		}
	}
	places, end, err := f.write(entries)
	if err == nil && begins {
		err = f.flushDir()
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.undo(begins))
	}
	f.end = end
	return f.current, places, nil
}

func (f *files) begin() error {
	s := &segment{number: f.last + 1, salt: salt(rand.Uint32())}
	file, err := os.OpenFile(f.path(s), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	f.last = s.number
	f.current = s
	f.file = file
	f.end = 0
	return nil
}

func (f *files) write(entries []*entry) (places []place, end int64, err error) {
	end = f.end
	for _, e := range entries {
		r := e.item.encode()
		f.current.salt.seal(r)
		if _, err := f.file.WriteAt(r, end); err != nil {
			return nil, 0, err
		}
		places = append(places, place{end, int64(len(r))})
		end += int64(len(r))
	}
	return places, end, f.file.Sync()
}

// undo removes what a failed append has written. If that fails, it closes the segment, so that nothing is appended.
func (f *files) undo(begun bool) error {
	if begun {
		s := f.current
		f.close()
		return os.Remove(f.path(s))
	}
	err := f.file.Truncate(f.end)
	if err != nil {
		f.close()
	}
	return err
}

// close closes the current segment; the next append begins a new one.
func (f *files) close() {
	if f.file != nil {
		_ = f.file.Close() // all records are flushed
	}
	f.current, f.file, f.end = nil, nil, 0
}

// flushDir flushes the directory, so that the name of a new segment survives a crash of the host.
func (f *files) flushDir() error {
	dir, err := os.Open(f.dir)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// mark marks a record as sent, or deletes its segment if it has no waiting record. It does not flush: after a crash of
// the host the record may be sent again.
func (f *files) mark(s *segment, p place, nothingWaits bool) error {
	if nothingWaits && (s != f.current || f.end >= emptySize) {
		if s == f.current {
			f.close()
		}
		if err := os.Remove(f.path(s)); err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	}
	if s == f.current {
		_, err := f.file.WriteAt([]byte{sent}, p.at)
		return err
	}
	file, err := os.OpenFile(f.path(s), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteAt([]byte{sent}, p.at)
	return errors.Join(err, file.Close())
}

func (f *files) read(s *segment, p place) (Item, error) {
	file, err := os.Open(f.path(s))
	if err != nil {
		return Item{}, err
	}
	defer file.Close()
	data := make([]byte, p.size)
	if _, err := file.ReadAt(data, p.at); err != nil {
		return Item{}, err
	}
	r, err := s.salt.decode(data)
	return r.Item, err
}
