package pack

import (
	"bufio"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// go-git's indexer holds an object as a whole, and one that is a delta together with all that it builds on. So a few
// kilobytes of a pack could take all memory.
const (
	maxObject = 256 << 20 // bytes of one object
	maxChain  = 512 << 20 // bytes of an object and of all that it builds on
	noted     = 1 << 20   // bytes of a chain that counts; go-git refuses one of more than 50 objects
)

// ErrTooLarge says that an object of a pack takes too many bytes once it is unpacked.
var ErrTooLarge = errors.New("too large")

// The types of objects in a pack that are deltas: of an object at a distance, and of one with a name.
const (
	offsetDelta = 6
	nameDelta   = 7
)

// checkSizes unpacks n objects of a pack, of which the header was read, and keeps none of them. Its error wraps
// [ErrTooLarge] if one is over the limits.
func checkSizes(r io.Reader, n uint32) error {
	c := &sizes{in: counter{Reader: bufio.NewReaderSize(r, 1<<16), at: headerSize}, chains: map[int64]int64{}}
	for range n {
		at := c.in.at
		size, err := c.object(at)
		if err != nil {
			return fmt.Errorf("object at byte %d: %w", at, err)
		}
		if size > noted {
			c.chains[at] = size
		}
	}
	return nil
}

// A counter knows its position.
type counter struct {
	*bufio.Reader
	at int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.at += int64(n)
	return n, err
}

// ReadByte has zlib read no byte too many.
func (c *counter) ReadByte() (byte, error) {
	b, err := c.Reader.ReadByte()
	if err == nil {
		c.at++
	}
	return b, err
}

type sizes struct {
	in     counter
	unzip  io.ReadCloser
	chains map[int64]int64 // bytes of an object and of all that it builds on, by position, if they are more than noted
	named  int64           // bytes of all large deltas of objects with a name: where those are is not known yet
}

// object reads the object at a position, and returns its bytes and those of all that it builds on.
func (s *sizes) object(at int64) (int64, error) {
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
	if kind == nameDelta && size > noted {
		s.named += size
	}
	if total := under + size; total > maxChain {
		return 0, fmt.Errorf("%w, it takes %d bytes with all that it builds on, the limit is %d", ErrTooLarge, total, int64(maxChain))
	}
	return under + size, nil
}

// header reads type and size: 4 bits of the size, then 7 with each byte.
func (s *sizes) header() (kind byte, size int64, err error) {
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

// distance reads how far before a delta its base is.
func (s *sizes) distance() (back int64, err error) {
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

// content unzips an object and returns its bytes, of a delta those that it makes.
func (s *sizes) content(size int64, delta bool) (int64, error) {
	if size > maxObject {
		return 0, fmt.Errorf("%w, %d bytes, the limit is %d", ErrTooLarge, size, maxObject)
	}
	var err error
	if s.unzip == nil {
		s.unzip, err = zlib.NewReader(&s.in)
	} else {
		err = s.unzip.(zlib.Resetter).Reset(&s.in, nil) // which every reader of zlib is
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
		return 0, fmt.Errorf("%w, %d bytes, the limit is %d", ErrTooLarge, made, maxObject)
	}
	return int64(made), nil
}
