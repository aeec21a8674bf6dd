package outbox

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"testing"
)

// record returns a record with a body, which may be one that no item has.
func (s salt) record(state byte, body string) []byte {
	data := append(make([]byte, headSize), body...)
	data[0] = state
	binary.BigEndian.PutUint32(data[1:], uint32(len(body)))
	binary.BigEndian.PutUint32(data[5:], crc32.Checksum([]byte(body), castagnoli))
	s.seal(data)
	return data
}

func TestRecords(t *testing.T) {
	const s = salt(7)
	for body, want := range map[string]*Item{
		"m s\n":       {MsgID: "m", Subject: "s"},
		"id a.b\nx y": {MsgID: "id", Subject: "a.b", Payload: []byte("x y")},
		"id a\n\n\n":  {MsgID: "id", Subject: "a", Payload: []byte("\n\n")},
		"id a":        {MsgID: "id", Subject: "a"},
		"":            nil,
		"id\nx":       nil,
		" a\nx":       nil,
		"id \nx":      nil,
		"id a b\nx":   nil,
		"id  a\nx":    nil,
	} {
		data := s.record(sent, body)
		i, err := s.decode(append(data, "more"...))
		switch {
		case want == nil && !errors.Is(err, errDamaged):
			t.Errorf("%q: %+v, %v", body, i, err)
		case want != nil && (err != nil || i.MsgID != want.MsgID || i.Subject != want.Subject || string(i.Payload) != string(want.Payload)):
			t.Errorf("%q: %+v, %v", body, i, err)
		case want != nil && (i.state != sent || i.size != len(data)):
			t.Errorf("%q: the state is %d, the length %d", body, i.state, i.size)
		}
		for at := 1; at < len(data); at++ {
			cut := append([]byte{}, data[:at]...)
			flipped := append([]byte{}, data...)
			flipped[at]++
			for _, wrong := range [][]byte{cut, flipped} {
				if i, err := s.decode(wrong); err == nil {
					t.Errorf("%q is read as %+v", wrong, i)
				}
			}
		}
		if i, err := salt(8).decode(data); err == nil {
			t.Errorf("with the salt of another file: %+v", i)
		}
	}
}

func TestItemsThatCannotBeStored(t *testing.T) {
	for name, c := range map[string]struct {
		item Item
		size int64
	}{
		"shortest":           {Item{MsgID: "m", Subject: "s"}, headSize + 4},
		"as long as all":     {Item{MsgID: "m", Subject: "s", Payload: make([]byte, MaxBytes-headSize-4)}, MaxBytes},
		"longer":             {Item{MsgID: "m", Subject: "s", Payload: make([]byte, MaxBytes-headSize-3)}, 0},
		"no ID":              {Item{Subject: "s"}, 0},
		"no subject":         {Item{MsgID: "m"}, 0},
		"a blank in the ID":  {Item{MsgID: "m m", Subject: "s"}, 0},
		"two lines":          {Item{MsgID: "m", Subject: "s\ns"}, 0},
		"a blank in the end": {Item{MsgID: "m", Subject: "s "}, 0},
	} {
		size, err := c.item.check()
		if (err == nil) != (c.size > 0) || size != c.size && err == nil {
			t.Errorf("%s: %d, want %d: %v", name, size, c.size, err)
		}
	}
}
