package canon

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// MaxDepth is the deepest allowed nesting of lists and maps.
const MaxDepth = 64

var errShort = errors.New("the data ends inside a value")

// check checks the lengths and the nesting of one MessagePack value. It runs before the decoder, which recurses and
// allocates as the data declares, and itself needs a constant amount of memory.
func check(data []byte) error {
	var open [MaxDepth]int // remaining values, per level
	depth, pos := 0, 0
	for {
		size, children, err := item(data[pos:])
		if err != nil {
			return err
		}
		if size > len(data)-pos {
			return errShort
		}
		pos += size
		if children > len(data)-pos {
			return errShort // each child has at least one byte
		}
		if children > 0 {
			if depth == MaxDepth {
				return fmt.Errorf("nested deeper than %d", MaxDepth)
			}
			open[depth] = children
			depth++
			continue
		}
		for depth > 0 {
			open[depth-1]--
			if open[depth-1] > 0 {
				break
			}
			depth--
		}
		if depth == 0 {
			break
		}
	}
	if pos != len(data) {
		return errTrailing
	}
	return nil
}

// item returns the length in bytes of the value at the start of data without its children, and the number of children
// (a map's keys are children). The byte values are from the MessagePack specification.
func item(data []byte) (size, children int, err error) {
	if len(data) == 0 {
		return 0, 0, errShort
	}
	switch c := data[0]; {
	case c <= 0x7f || c >= 0xe0: // fixint
		return 1, 0, nil
	case c <= 0x8f: // fixmap
		return 1, 2 * int(c&0x0f), nil
	case c <= 0x9f: // fixarray
		return 1, int(c & 0x0f), nil
	case c <= 0xbf: // fixstr
		return 1 + int(c&0x1f), 0, nil
	case c == 0xc0 || c == 0xc2 || c == 0xc3: // nil, false, true
		return 1, 0, nil
	case c == 0xc1:
		return 0, 0, errors.New("the byte 0xc1 is not the start of a value")
	case c >= 0xcc && c <= 0xd3: // uint8 … int64
		return 1 + 1<<((c-0xcc)&3), 0, nil
	case c == 0xca:
		return 5, 0, nil
	case c == 0xcb:
		return 9, 0, nil
	case c >= 0xd4 && c <= 0xd8: // fixext: a type byte, then 1 … 16
		return 2 + 1<<(c-0xd4), 0, nil
	default:
		return sized(c, data[1:])
	}
}

// sized is item for the forms with a length of one, two or four bytes.
func sized(c byte, rest []byte) (size, children int, err error) {
	var width int
	switch c {
	case 0xc4, 0xc7, 0xd9: // bin, ext, str
		width = 1
	case 0xc5, 0xc8, 0xda, 0xdc, 0xde: // bin, ext, str, array, map
		width = 2
	default:
		width = 4
	}
	if len(rest) < width {
		return 0, 0, errShort
	}
	var n int
	switch width {
	case 1:
		n = int(rest[0])
	case 2:
		n = int(binary.BigEndian.Uint16(rest))
	case 4:
		n = int(binary.BigEndian.Uint32(rest))
	}
	head := 1 + width
	switch c {
	case 0xc7, 0xc8, 0xc9:
		return head + 1 + n, 0, nil
	case 0xdc, 0xdd:
		return head, n, nil
	case 0xde, 0xdf:
		return head, 2 * n, nil
	}
	return head + n, 0, nil
}
