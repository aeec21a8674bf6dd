package gitrepo

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	maxPack    = 8 << 30 // bytes
	packHeader = 12      // bytes: "PACK", version and number of objects
	packObject = 9       // bytes of an empty object: its type and an empty zlib stream

	maxPacks  = 64       // each read looks through all packs
	maxJoined = 16 << 20 // bytes of packs that are joined at once
)

// addPack stores a pack of at most limit bytes that arrives on r. Its objects
// become visible all at once. The lock is not held while it arrives.
func (s *store) addPack(ctx context.Context, r io.Reader, limit int64) error {
	return s.writePack(func(w io.Writer) error {
		n, err := io.Copy(w, io.LimitReader(contextReader{ctx, r}, limit+1))
		if n > limit {
			return fmt.Errorf("%w, a transfer of more than %d bytes", errTooLarge, limit)
		}
		return err
	})
}

// writePack stores the pack that write makes. It is checked on disk before
// go-git sees it, whose indexer trusts the counts in a pack and runs in a
// goroutine where a panic cannot be caught.
func (s *store) writePack(write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Join(s.dir, "objects", "pack"), "tmp_pack_")
	if err != nil {
		return storeError(s.dir, err)
	}
	if err = write(f); err == nil {
		err = s.indexPack(f)
	}
	_ = f.Close()
	_ = os.Remove(f.Name()) // tried again by dropUnfinished
	if err == nil {
		return nil
	}
	s.dropUnfinished()
	_ = s.reopen(s.dir, nil) // go-git's index may name the pack that was not stored
	_, path := errors.AsType[*fs.PathError](err)
	_, link := errors.AsType[*os.LinkError](err)
	if path || link {
		return storeError(s.dir, err)
	}
	return err
}

// indexPack checks a pack and hands it to go-git.
func (s *store) indexPack(f *os.File) error {
	if err := checkPack(f); err != nil {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	s.mu.Lock()
	w, err := s.objects.PackfileWriter()
	s.mu.Unlock()
	if err != nil {
		return err
	}
	_, err = io.Copy(w, f)
	s.mu.Lock()
	defer s.mu.Unlock()
	return cmp.Or(w.Close(), err)
}

// checkPack checks the length of a pack, the hash at its end, and that it can
// hold as many objects as it says.
func checkPack(f io.ReadSeeker) error {
	size, err := f.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	switch {
	case err != nil:
		return err
	case size < packHeader+sha1.Size:
		return fmt.Errorf("pack of %d bytes: %w", size, io.ErrUnexpectedEOF)
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

// packs lists the packs of the store, the smallest first.
func (s *store) packs() ([]string, error) {
	names, err := filepath.Glob(filepath.Join(s.dir, "objects", "pack", "pack-*.pack"))
	size := func(name string) int64 {
		info, e := os.Stat(name)
		if err = cmp.Or(err, e); e != nil {
			return 0
		}
		return info.Size()
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(size(a), size(b)) })
	return names, err
}

// joinPacks joins the smallest packs into one when there are maxPacks, which
// costs as much as fetching maxJoined bytes at most. go-git can only write all
// objects of a repository again (RepackObjects), which takes longer than a clone.
func (s *store) joinPacks(ctx context.Context) error {
	names, err := s.packs()
	if err != nil || len(names) < maxPacks {
		return err
	}
	var bodies bytes.Buffer
	var objects uint32
	n := 0
	for ; n < len(names) && ctx.Err() == nil; n++ {
		data, err := readPack(names[n], int64(maxJoined-bodies.Len()))
		if errors.Is(err, errTooLarge) {
			break
		}
		if err != nil {
			return s.failure(s.dir, fmt.Errorf("%s: %w", filepath.Base(names[n]), err))
		}
		objects += binary.BigEndian.Uint32(data[8:])
		bodies.Write(data[packHeader : len(data)-sha1.Size])
	}
	if n < 2 || ctx.Err() != nil {
		return ctx.Err()
	}
	// Objects of a pack refer to each other by distance or by name, so the
	// bodies of several packs are the body of one.
	err = s.writePack(func(w io.Writer) error {
		sum := sha1.New()
		to := io.MultiWriter(w, sum)
		_, err := to.Write(binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), objects))
		if err == nil {
			_, err = bodies.WriteTo(to)
		}
		if err == nil {
			_, err = w.Write(sum.Sum(nil))
		}
		return err
	})
	if err != nil {
		return err
	}
	var left error
	_ = s.reopen(s.dir, func() error {
		for _, name := range names[:n] { // first the pack: an index without a pack does no harm
			left = errors.Join(left, os.Remove(name), os.Remove(strings.TrimSuffix(name, ".pack")+".idx"))
		}
		return nil
	})
	return left
}

// readPack returns a checked pack of at most limit bytes.
func readPack(name string, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = errTooLarge
	}
	if err == nil {
		err = checkPack(bytes.NewReader(data))
	}
	return data, err
}

// dropUnfinished removes what a cut transfer or a crash left behind.
func (s *store) dropUnfinished() {
	packs := filepath.Join(s.dir, "objects", "pack")
	for _, pattern := range []string{"tmp_pack_*", "tmp_obj_*", "*.idx"} {
		names, _ := filepath.Glob(filepath.Join(packs, pattern)) // the patterns are right
		for _, name := range names {
			_, err := os.Stat(strings.TrimSuffix(name, ".idx") + ".pack")
			if !strings.HasSuffix(name, ".idx") || errors.Is(err, fs.ErrNotExist) {
				_ = os.Remove(name) // tried again at the next start
			}
		}
	}
	// A lock of a reference, which go-git would list as a reference. The store
	// has one owner, so it is of a crash.
	_ = filepath.WalkDir(filepath.Join(s.dir, "refs"), func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(name, ".lock") {
			return os.Remove(name)
		}
		return err
	}) // what is wrong here shows when the references are read
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
