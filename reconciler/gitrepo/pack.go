package gitrepo

import (
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// addPack stores a pack that arrives on r. Its objects become visible all at
// once, when all of them have arrived. It is checked before go-git sees it,
// whose indexer trusts the counts in a pack and runs where a panic cannot be
// caught. The lock is not held while it arrives.
func (s *store) addPack(ctx context.Context, r io.Reader) error {
	arrived, err := os.CreateTemp(filepath.Join(s.dir, "objects", "pack"), "tmp_pack_")
	if err != nil {
		return storeError(s.dir, err)
	}
	defer func() {
		_ = arrived.Close()
		_ = os.Remove(arrived.Name()) // tried again by dropPartial
	}()
	n, err := io.Copy(diskWriter{s.dir, arrived}, io.LimitReader(contextReader{ctx, r}, maxPack+1))
	if err == nil {
		err = checkPack(arrived, n)
	}
	if err == nil {
		err = s.indexPack(arrived)
	}
	if err != nil {
		s.dropPartial()
	}
	return err
}

const (
	maxPack    = 8 << 30 // bytes
	packHeader = 12      // "PACK", version and number of objects
	packObject = 9       // an empty object: a byte of type and an empty zlib stream
)

// checkPack looks at what the numbers in a pack are checked against: the hash
// at its end, and its length.
func checkPack(f io.ReadSeeker, size int64) error {
	if size < packHeader+sha1.Size {
		return fmt.Errorf("pack of %d bytes: %w", size, io.ErrUnexpectedEOF)
	}
	if size > maxPack {
		return fmt.Errorf("pack: %w, more than %d bytes", errTooLarge, int64(maxPack))
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	var header [packHeader]byte
	sum := sha1.New()
	read := io.TeeReader(f, sum)
	if _, err := io.ReadFull(read, header[:]); err != nil {
		return err
	}
	if string(header[:4]) != "PACK" || binary.BigEndian.Uint32(header[4:]) != 2 {
		return fmt.Errorf("pack of %d bytes: it does not begin as one of version 2", size)
	}
	if _, err := io.CopyN(io.Discard, read, size-packHeader-sha1.Size); err != nil {
		return err
	}
	want, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	if !bytes.Equal(sum.Sum(nil), want) {
		return fmt.Errorf("pack of %d bytes: it is cut or damaged", size)
	}
	if n := int64(binary.BigEndian.Uint32(header[8:])); n > (size-packHeader-sha1.Size)/packObject {
		return fmt.Errorf("pack of %d bytes: it cannot hold %d objects", size, n)
	}
	return nil
}

// indexPack hands a checked pack to go-git.
func (s *store) indexPack(pack io.ReadSeeker) error {
	if _, err := pack.Seek(0, io.SeekStart); err != nil {
		return storeError(s.dir, err)
	}
	s.mu.Lock()
	w, err := s.objects.PackfileWriter()
	s.mu.Unlock()
	if err != nil {
		return diskError(s.dir, err)
	}
	_, err = io.Copy(diskWriter{s.dir, w}, pack)
	s.mu.Lock()
	closed := w.Close()
	s.mu.Unlock()
	if err == nil && closed != nil {
		err = diskError(s.dir, fmt.Errorf("pack: %w", closed))
	}
	return err
}

// diskWriter tells a full disk from a remote that breaks off.
type diskWriter struct {
	dir string
	w   io.Writer
}

func (d diskWriter) Write(p []byte) (int, error) {
	n, err := d.w.Write(p)
	if err != nil {
		err = storeError(d.dir, err)
	}
	return n, err
}

// diskError makes an Error of what the operating system said, and leaves
// others alone.
func diskError(dir string, err error) error {
	_, path := errors.AsType[*fs.PathError](err)
	_, link := errors.AsType[*os.LinkError](err)
	if path || link {
		return storeError(dir, err)
	}
	return err
}

// dropLocks removes locks of references, which only a crash leaves in a store
// that has one owner; go-git would list them as references.
func (s *store) dropLocks() {
	_ = filepath.WalkDir(filepath.Join(s.dir, "refs"), func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(name, ".lock") {
			return os.Remove(name)
		}
		return err
	}) // what is wrong here shows when the references are read
}

// dropPartial removes what a cut transfer left behind.
func (s *store) dropPartial() {
	for _, pattern := range []string{"tmp_pack_*", "tmp_obj_*"} {
		names, err := filepath.Glob(filepath.Join(s.dir, "objects", "pack", pattern))
		if err != nil {
			continue // only a bad pattern
		}
		for _, name := range names {
			_ = os.Remove(name) // tried again at the next start
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.objects.Close() // its index may name the pack that was not stored
	s.objects = newStorage(s.dir)
}

// contextReader ends with the context, at the next byte at the latest.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}
