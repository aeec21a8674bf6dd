package gitrepo

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const (
	maxPack   = 8 << 30  // bytes
	maxPacks  = 64       // each read searches all packs
	maxJoined = 16 << 20 // bytes of packs that are joined at once
)

// addPack stores a pack of at most limit bytes, read from r. All its objects
// become visible at once. The lock is not held while the pack arrives.
func (s *store) addPack(ctx context.Context, r io.Reader, limit int64) error {
	f, err := os.CreateTemp(s.packDir(), "tmp_pack_")
	if err != nil {
		return storeError(s.dir, err)
	}
	n, err := io.Copy(f, io.LimitReader(contextReader{ctx, r}, limit+1))
	if n > limit {
		err = fmt.Errorf("%w, a transfer of more than %d bytes", errTooLarge, limit)
	}
	if err == nil {
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

func (s *store) packDir() string { return filepath.Join(s.dir, "objects", "pack") }

// indexPack checks a pack and gives it to go-git.
func (s *store) indexPack(f *os.File) error {
	if err := CheckPack(f); err != nil {
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

// joinPacks joins the smallest packs into one when there are maxPacks, which
// costs as much as fetching maxJoined bytes at most. go-git can only write all
// objects of a repository again (RepackObjects), which takes longer than a clone.
func (s *store) joinPacks(ctx context.Context) error {
	names, err := ListPack(s.packDir())
	if err != nil || len(names) < maxPacks {
		return err
	}
	joined, n, err := JoinPacks(names, maxJoined)
	if err != nil {
		return s.Failure(s.dir, err)
	}
	if n < 2 {
		return nil
	}
	if err := s.addPack(ctx, bytes.NewReader(joined), maxPack); err != nil {
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

// dropUnfinished removes files that an interrupted transfer or a crash has left.
func (s *store) dropUnfinished() {
	for _, pattern := range []string{"tmp_pack_*", "tmp_obj_*", "*.idx"} {
		names, _ := filepath.Glob(filepath.Join(s.packDir(), pattern)) // the patterns are right
		for _, name := range names {
			_, err := os.Stat(strings.TrimSuffix(name, ".idx") + ".pack")
			if !strings.HasSuffix(name, ".idx") || errors.Is(err, fs.ErrNotExist) {
				_ = os.Remove(name) // tried again at the next start
			}
		}
	}
	// A lock of a reference, which go-git would list as a reference. The store
	// has one owner, so the lock was left by a crash.
	_ = filepath.WalkDir(filepath.Join(s.dir, "refs"), func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(name, ".lock") {
			return os.Remove(name)
		}
		return err
	}) // an error shows when the references are read
}

// contextReader fails at the first Read after ctx has ended.
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
