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
	fullSize  = 1 << 20  // bytes; a file that has so many gets no more records
	emptySize = 64 << 10 // bytes; a file that has so many, and no record that waits, is deleted
)

// A segment is a file.
type segment struct {
	number uint64
	salt   salt
	left   int // records that wait; the outbox's mutex guards it
}

// digits is the length of the number in a file's name, so that names sort as numbers do.
const digits = 20

func (s *segment) name() string { return fmt.Sprintf("%0*d-%08x", digits, s.number, uint32(s.salt)) }

func segmentOf(name string) (*segment, bool) {
	number, salted, _ := strings.Cut(name, "-")
	n, err := strconv.ParseUint(number, 10, 64)
	x, bad := strconv.ParseUint(salted, 16, 32)
	s := &segment{number: n, salt: salt(x)}
	return s, err == nil && bad == nil && s.name() == name
}

// files is the directory. Its methods are not safe for concurrent use, but read is, beside another.
type files struct {
	dir  string
	last uint64 // number of the newest segment
	// current gets new records; nil before the first, and when it is full. A process begins a file of its own, so that
	// nothing is written behind what a crash has left.
	current *segment
	file    *os.File // of current
	end     int64    // of the records in file
}

func (f *files) path(s *segment) string { return filepath.Join(f.dir, s.name()) }

// append returns the place of each entry's record when they are on the disk, all in the same segment. After an error none
// of them is there.
func (f *files) append(entries []*entry) (*segment, []place, error) {
	if f.end >= fullSize {
		f.leave()
	}
	begins := f.current == nil
	if begins {
		if err := f.begin(); err != nil {
			return nil, nil, err
		}
	}
	places, end, err := f.write(entries)
	if err == nil && begins {
		err = f.flush()
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
	f.last, f.current, f.file, f.end = s.number, s, file, 0
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

// undo removes what a failed append has written, or else sees to it that nothing is written behind it.
func (f *files) undo(begun bool) error {
	if begun {
		s := f.current
		f.leave()
		return os.Remove(f.path(s))
	}
	err := f.file.Truncate(f.end)
	if err != nil {
		f.leave()
	}
	return err
}

// leave ends the writing of the current segment.
func (f *files) leave() {
	if f.file != nil {
		_ = f.file.Close() // all that counts is on the disk
	}
	f.current, f.file, f.end = nil, nil, 0
}

// flush makes the names in the directory last.
func (f *files) flush() error {
	dir, err := os.Open(f.dir)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// discharge says on the disk that a record need not be sent any more, of a segment in which others wait or nothing
// does. It does not wait for the disk: after a crash of the host the record may be sent again.
func (f *files) discharge(s *segment, p place, nothingWaits bool) error {
	if nothingWaits && (s != f.current || f.end >= emptySize) {
		if s == f.current {
			f.leave()
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
	item, _, _, err := s.salt.decode(data)
	return item, err
}
