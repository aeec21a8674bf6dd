// File packs.go checks pack files of Git, and joins several into one without
// unpacking them.
//
// Call [CheckPack] before any other reader of a pack: go-git's indexer trusts the
// counts in it and runs in a goroutine, where a panic cannot be caught.

package gitrepo

import (
	"bytes"
	"cmp"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/seed-c01c3da5/zester/settings/sorting"
)

const (
	headerSize = 12 // bytes: "PACK", version and number of objects
	objectSize = 9  // bytes of an empty object: its type and an empty zlib stream
)

// CheckPack checks the length of a pack, the hash at its end, its number of objects,
// and the unpacked size of each. The error wraps [ErrPackTooLarge] if an object would
// take too much memory.
func CheckPack(f io.ReadSeeker) error {
	size, err := f.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return err
	}
	if size < headerSize+sha1.Size {
		return fmt.Errorf("pack of %d bytes: %w", size, io.ErrUnexpectedEOF)
	}
	var header [headerSize]byte
	sum := sha1.New()
	read := io.TeeReader(f, sum)
	if _, err := io.ReadFull(read, header[:]); err != nil {
		return err
	}
	if string(header[:4]) != "PACK" || binary.BigEndian.Uint32(header[4:]) != 2 {
		return fmt.Errorf("pack of %d bytes: it does not begin as one of version 2", size)
	}
	if _, err := io.CopyN(io.Discard, read, size-headerSize-sha1.Size); err != nil {
		return err
	}
	want, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	if !bytes.Equal(sum.Sum(nil), want) {
		return fmt.Errorf("pack of %d bytes: it is cut or damaged", size)
	}
	n := binary.BigEndian.Uint32(header[8:])
	if int64(n) > (size-headerSize-sha1.Size)/objectSize {
		return fmt.Errorf("pack of %d bytes: it cannot hold %d objects", size, n)
	}
	if _, err := f.Seek(headerSize, io.SeekStart); err != nil {
		return err
	}
	if err := checkSizes(f, n); err != nil {
		return fmt.Errorf("pack of %d bytes: %w", size, err)
	}
	return nil
}

// ListPack returns the packs in a directory, the smallest first.
func ListPack(dir string) ([]string, error) {
	names, err := filepath.Glob(filepath.Join(dir, "pack-*.pack"))
	sizes := map[string]int64{}
	for _, name := range names {
		info, statErr := os.Stat(name)
		if err = cmp.Or(err, statErr); statErr == nil {
			sizes[name] = info.Size()
		}
	}
	sorting.Func(names, func(a, b string) int { return cmp.Compare(sizes[a], sizes[b]) })
	return names, err
}

// JoinPacks returns one pack with the objects of the first n packs. n is as large as
// most bytes permit. Objects of a pack refer to each other by distance or by
// name, so the bodies of several packs form one body.
func JoinPacks(names []string, most int) (joined []byte, n int, err error) {
	joined = []byte("PACK\x00\x00\x00\x02\x00\x00\x00\x00")
	var objects uint32
	for _, name := range names {
		data, err := read(name, most-len(joined))
		if errors.Is(err, errOver) {
			break
		}
		if err != nil {
			return nil, 0, fmt.Errorf("%s: %w", filepath.Base(name), err)
		}
		objects += binary.BigEndian.Uint32(data[8:])
		joined, n = append(joined, data[headerSize:len(data)-sha1.Size]...), n+1
	}
	binary.BigEndian.PutUint32(joined[8:], objects)
	sum := sha1.Sum(joined)
	return append(joined, sum[:]...), n, nil
}

var errOver = errors.New("over the limit")

// read returns a checked pack of at most limit bytes.
func read(name string, limit int) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err == nil && len(data) > limit {
		err = errOver
	}
	if err == nil {
		err = CheckPack(bytes.NewReader(data))
	}
	return data, err
}
