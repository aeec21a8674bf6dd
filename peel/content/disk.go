package content

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/settings/content"
	"github.com/seed-c01c3da5/zester/settings/sorting"
)

const (
	keepUnused = 7 * 24 * time.Hour // how long a content stays that no document in force names
	maxUnused  = content.MaxPeel    // bytes of those contents together
	touchEvery = 24 * time.Hour     // the time of the last use, kept as the file's modification time, is this exact
)

// errDamaged marks a stored content whose bytes have another hash than its name.
var errDamaged = errors.New("its bytes have changed on the disk")

// openDir makes the directory if it does not exist, returns the sizes of the stored contents by blob, and removes
// everything else: a process that was killed leaves unfinished files.
func openDir(dir string) (stored map[string]int64, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	stored = map[string]int64{}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return nil, err
		}
		if isBlob(e.Name()) && info.Mode().IsRegular() {
			stored[e.Name()] = info.Size()
		} else if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return nil, err
		}
	}
	return stored, nil
}

// isBlob reports whether a file name names a stored content: a SHA-256 in hex.
func isBlob(name string) bool {
	sum, err := hex.DecodeString(name)
	return err == nil && len(sum) == sha256.Size && strings.ToLower(name) == name
}

// read returns a stored content, opened. The error is [errDamaged] if the stored bytes are not those of the blob.
func read(dir string, f content.File) ([]byte, error) {
	sealed, err := os.ReadFile(filepath.Join(dir, f.Blob))
	if err != nil {
		return nil, err
	}
	plain, err := content.Open(f, sealed)
	if err == nil {
		return plain, nil
	}
	if sum := sha256.Sum256(sealed); hex.EncodeToString(sum[:]) != f.Blob {
		return nil, errDamaged
	}
	return nil, err // of the settings: another attempt to fetch it gives the same bytes
}

// store puts the sealed content that parts returns, one after the other until nil, on the disk, unless it is another
// content.
func store(dir string, f content.File, parts func() ([]byte, error)) (err error) {
	file, err := os.OpenFile(filepath.Join(dir, f.Blob+".new"), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	sum, size := sha256.New(), int64(0)
	for part, err := parts(); part != nil || err != nil; part, err = parts() {
		if err == nil {
			size += int64(len(part))
			sum.Write(part)
			_, err = file.Write(part)
		}
		if err != nil {
			return errors.Join(err, file.Close())
		}
	}
	if want, _ := hex.DecodeString(f.Blob); size != f.SealedSize() || !bytes.Equal(sum.Sum(nil), want) {
		return errors.Join(fmt.Errorf("the bus has other bytes under its key: %d of them, with the SHA-256 %x", size,
			sum.Sum(nil)), file.Close())
	}
	if err := errors.Join(file.Sync(), file.Close()); err != nil {
		return err
	}
	now := time.Now()
	if err := os.Chtimes(file.Name(), now, now); err != nil {
		return err
	}
	return os.Rename(file.Name(), filepath.Join(dir, f.Blob))
}

// A leftover is a stored content that no document in force names.
type leftover struct {
	blob string
	size int64
	used time.Time
}

// tidy removes stored contents that are not wanted and were not used for a week, and more if those take too much space.
// It records that the others are in use. It returns the removed ones.
func tidy(dir string, isWanted func(blob string) bool, now time.Time) (removed []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var unused []*leftover
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return nil, err
		}
		switch {
		case !isBlob(e.Name()):
		case !isWanted(e.Name()):
			unused = append(unused, &leftover{e.Name(), info.Size(), info.ModTime()})
		case now.Sub(info.ModTime()).Abs() > touchEvery:
			if err := os.Chtimes(filepath.Join(dir, e.Name()), now, now); err != nil {
				return nil, err
			}
		}
	}
	for _, l := range surplus(unused, now) {
		if err := os.Remove(filepath.Join(dir, l.blob)); err != nil {
			return removed, err
		}
		removed = append(removed, l.blob)
	}
	return removed, nil
}

// surplus returns the leftovers to remove.
func surplus(unused []*leftover, now time.Time) (gone []*leftover) {
	sorting.Func(unused, func(a, b *leftover) int {
		return cmp.Or(b.used.Compare(a.used), cmp.Compare(a.blob, b.blob))
	})
	var bytes int64
	for _, l := range unused {
		if bytes += l.size; now.Sub(l.used) > keepUnused || bytes > maxUnused {
			gone = append(gone, l)
		}
	}
	return gone
}
