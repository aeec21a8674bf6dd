package gitrepo

import (
	"bufio"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// go-git's indexer keeps a whole object in memory, and a delta together with all objects that it is based on. So a pack
// of a few kilobytes could take all memory.
const (
	maxObject = 256 << 20 // bytes of one object
	maxChain  = 512 << 20 // bytes of an object and of all objects that it is based on
	minChain  = 1 << 20   // shorter chains are ignored; go-git refuses one of more than 50 objects
)

// ErrPackTooLarge: an object of a pack has too many bytes when it is unpacked.
var ErrPackTooLarge = errors.New("too large")

// The types of deltas in a pack: the base is at a distance, or has a name.
const (
	offsetDelta = 6
	nameDelta   = 7
)

// checkSizes unpacks n objects, one after another. r is behind the header of the pack. The error wraps
// [ErrPackTooLarge] if one is over the limits.
func checkSizes(r io.Reader, n uint32) error {
	c := &packSizes{in: counter{Reader: bufio.NewReaderSize(r, 1<<16), at: headerSize}, chains: map[int64]int64{}}
	for range n {
		at := c.in.at
		size, err := c.object(at)
		if err != nil {
			return fmt.Errorf("object at byte %d: %w", at, err)
		}
		if size > minChain {
			c.chains[at] = size
		}
	}
	return nil
}

// A counter counts the bytes that were read.
type counter struct {
	*bufio.Reader
	at int64 // position in the pack
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.at += int64(n)
	return n, err
}

// ReadByte makes a counter an [io.ByteReader], from which zlib reads no byte beyond the end of an object.
func (c *counter) ReadByte() (byte, error) {
	b, err := c.Reader.ReadByte()
	if err == nil {
		c.at++
	}
	return b, err
}

type packSizes struct {
	in    counter
	unzip io.ReadCloser
	// bytes of an object and of all objects that it is based on, by position; only those over minChain
	chains map[int64]int64
	named  int64 // bytes of all large deltas whose base has a name, as the position of the base is unknown
}

// object reads the object at a position, and returns the bytes of it and of all objects that it is based on.
func (s *packSizes) object(at int64) (int64, error) {
	kind, size, err := s.header()
	var under int64
	switch {
	case err != nil:
	case kind == offsetDelta:
		var back int64
		back, err = s.distance()
		under = s.chains[at-back]
	case kind == nameDelta:
		_, err = s.in.Discard(20)
		s.in.at += 20
		under = s.named
	}
	if err != nil {
		return 0, err
	}
	if size, err = s.content(size, kind >= offsetDelta); err != nil {
		return 0, err
	}
	if kind == nameDelta && size > minChain {
		s.named += size
	}
	if total := under + size; total > maxChain {
		return 0, fmt.Errorf("%w, it takes %d bytes with all objects that it is based on, the limit is %d",
			ErrPackTooLarge, total, int64(maxChain))
	}
	return under + size, nil
}

// header reads type and size: 4 bits of the size, then 7 with each byte.
func (s *packSizes) header() (kind byte, size int64, err error) {
	b, err := s.in.ReadByte()
	kind, size = b>>4&7, int64(b&15)
	for shift := 4; err == nil && b&0x80 != 0; shift += 7 {
		if shift > 53 {
			return 0, 0, errors.New("its size has too many digits")
		}
		b, err = s.in.ReadByte()
		size |= int64(b&0x7f) << shift
	}
	return kind, size, err
}

// distance reads the number of bytes from the base to the delta.
func (s *packSizes) distance() (back int64, err error) {
	b, err := s.in.ReadByte()
	back = int64(b & 0x7f)
	for err == nil && b&0x80 != 0 {
		if back > 1<<54 {
			return 0, errors.New("its distance has too many digits")
		}
		b, err = s.in.ReadByte()
		back = (back+1)<<7 | int64(b&0x7f)
	}
	return back, err
}

// content unzips an object and returns its size in bytes, for a delta the size of its result.
func (s *packSizes) content(size int64, delta bool) (int64, error) {
	if size > maxObject {
		return 0, fmt.Errorf("%w, %d bytes, the limit is %d", ErrPackTooLarge, size, maxObject)
	}
	var err error
	if s.unzip == nil {
		s.unzip, err = zlib.NewReader(&s.in)
	} else {
		err = s.unzip.(zlib.Resetter).Reset(&s.in, nil) // every reader of zlib is a Resetter
	}
	if err != nil {
		return 0, err
	}
	begin := make([]byte, 0, 2*binary.MaxVarintLen64)
	if delta {
		n, _ := io.ReadFull(s.unzip, begin[:min(size, int64(cap(begin)))])
		begin = begin[:n]
	}
	n, err := io.Copy(io.Discard, io.LimitReader(s.unzip, size-int64(len(begin))+1))
	switch {
	case err != nil:
		return 0, err
	case n != size-int64(len(begin)):
		return 0, fmt.Errorf("it does not have the %d bytes that it says", size)
	case !delta:
		return size, nil
	}
	_, read := binary.Uvarint(begin) // the size of the base
	if read <= 0 {
		return 0, errors.New("it is no delta")
	}
	made, read := binary.Uvarint(begin[read:])
	switch {
	case read <= 0:
		return 0, errors.New("it is no delta")
	case made > maxObject:
		return 0, fmt.Errorf("%w, %d bytes, the limit is %d", ErrPackTooLarge, made, maxObject)
	}
	return int64(made), nil
}
