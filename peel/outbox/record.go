package outbox

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
)

// A record begins with its state, the length of its body, the checksum of the body, and a checksum of these two and the
// file's salt. The body is a line "message-ID subject" and then the payload. Numbers are big endian, checksums CRC-32C.
const (
	headSize = 1 + 4 + 4 + 4

	waiting = 0x00
	sent    = 0xff // all other states count as waiting, as sending twice does no harm
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A salt is a random number for each file, so a payload cannot contain bytes that look like a record of its file.
type salt uint32

func (s salt) sum(numbers []byte) uint32 {
	return crc32.Update(crc32.Checksum(binary.BigEndian.AppendUint32(nil, uint32(s)), castagnoli), castagnoli, numbers)
}

// check returns the length of an item's record, or an error if the item is invalid.
func (i *Item) check() (size int64, err error) {
	if i.MsgID == "" || i.Subject == "" || strings.ContainsAny(i.MsgID+i.Subject, " \n") {
		return 0, fmt.Errorf("%q and %q cannot be message ID and subject", i.MsgID, i.Subject)
	}
	if size = int64(headSize + len(i.MsgID) + 1 + len(i.Subject) + 1 + len(i.Payload)); size > MaxBytes {
		return 0, fmt.Errorf("%d bytes, the limit is %d", size, MaxBytes)
	}
	return size, nil
}

// encode returns the record of a checked item in the state waiting, without the checksum that [salt.seal] sets.
func (i *Item) encode() []byte {
	data := make([]byte, headSize, headSize+len(i.MsgID)+1+len(i.Subject)+1+len(i.Payload))
	data = append(data, i.MsgID...)
	data = append(data, ' ')
	data = append(data, i.Subject...)
	data = append(data, '\n')
	data = append(data, i.Payload...)
	body := data[headSize:]
	binary.BigEndian.PutUint32(data[1:], uint32(len(body)))
	binary.BigEndian.PutUint32(data[5:], crc32.Checksum(body, castagnoli))
	return data
}

// seal sets the checksum with the salt in an encoded record.
func (s salt) seal(data []byte) { binary.BigEndian.PutUint32(data[9:], s.sum(data[1:9])) }

var errDamaged = errors.New("the file is damaged")

// A record is an item in a file.
type record struct {
	Item
	state byte
	size  int // in bytes
}

// decode decodes the record at the beginning of data.
func (s salt) decode(data []byte) (record, error) {
	if len(data) < headSize || binary.BigEndian.Uint32(data[9:]) != s.sum(data[1:9]) {
		return record{}, errDamaged
	}
	length := int64(binary.BigEndian.Uint32(data[1:]))
	if length > int64(len(data)-headSize) {
		return record{}, errDamaged
	}
	body := data[headSize : headSize+length]
	if crc32.Checksum(body, castagnoli) != binary.BigEndian.Uint32(data[5:]) {
		return record{}, errDamaged
	}
	line, payload, _ := bytes.Cut(body, []byte("\n"))
	id, subject, found := bytes.Cut(line, []byte(" "))
	if !found || len(id) == 0 || len(subject) == 0 || bytes.IndexByte(subject, ' ') >= 0 {
		return record{}, errDamaged
	}
	return record{
		Item:  Item{MsgID: string(id), Subject: string(subject), Payload: payload},
		state: data[0],
		size:  headSize + len(body),
	}, nil
}

// A place is the offset and length of a record in a file, in bytes.
type place struct{ at, size int64 }

// content is the content of a file.
type content struct {
	waiting []place
	gaps    int // unreadable ranges before a readable record
	tail    int // unreadable bytes at the end: an interrupted write, or damage
}

// parse returns all readable records; after damage it searches for the next record byte by byte.
func (s salt) parse(data []byte) (c content) {
	lost := 0
	for at := 0; at < len(data); {
		r, err := s.decode(data[at:])
		if err != nil {
			at++
			lost++
			continue
		}
		if lost > 0 {
			c.gaps++
			lost = 0
		}
		if r.state != sent {
			c.waiting = append(c.waiting, place{int64(at), int64(r.size)})
		}
		at += r.size
	}
	c.tail = lost
	return c
}
