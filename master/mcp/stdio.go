package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Bounds of a message over stdio.
const (
	maxMessage      = 2 << 20 // bytes
	maxMessageDepth = 64
)

// Messages returns a reader of the messages in r. Each message is a line. The SDK ends the session at a message that is
// too large or nests too deep. So such a message is replaced by a request of the same ID for a method that does not
// exist, which the SDK refuses; a message without an ID is dropped.
func Messages(r io.Reader) io.ReadCloser {
	return &messages{from: bufio.NewReaderSize(r, 64<<10)}
}

type messages struct {
	from *bufio.Reader
	line []byte // what is left of the message
}

func (m *messages) Close() error { return nil }

func (m *messages) Read(p []byte) (int, error) {
	for len(m.line) == 0 {
		line, whole, err := m.next()
		if err != nil && len(line) == 0 {
			return 0, err
		}
		if m.line = line; !whole || depth(line) > maxMessageDepth {
			m.line = refusedLine(line)
		}
	}
	n := copy(p, m.line)
	m.line = m.line[n:]
	return n, nil
}

// next reads a line. It returns the beginning of one that is too large, and passes over the rest.
func (m *messages) next() (line []byte, whole bool, err error) {
	whole = true
	for {
		part, err := m.from.ReadSlice('\n')
		if len(line)+len(part) > maxMessage {
			part, whole = part[:maxMessage-len(line)], false
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, whole, err
		}
	}
}

// refusedLine returns the request in place of a message.
func refusedLine(message []byte) []byte {
	id := idOf(message)
	if id == nil {
		return nil
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":"zester/message-too-large-or-too-deep"}`+"\n", id)
}

// idOf returns the ID of a message, a number or a text, nil if it has none. The message may be cut.
func idOf(message []byte) []byte {
	d := json.NewDecoder(bytes.NewReader(message))
	d.UseNumber()
	for level, key := 0, ""; ; {
		t, err := d.Token()
		if err != nil {
			return nil
		}
		switch t := t.(type) {
		case json.Delim:
			if level++; t == '}' || t == ']' {
				level -= 2
			}
			key = ""
			if level <= 0 {
				return nil
			}
			continue
		case string:
			if level == 1 && key == "" {
				key = t
				continue
			}
		}
		if level == 1 {
			switch t := t.(type) {
			case json.Number, string:
				if key == "id" {
					id, err := json.Marshal(t)
					if err != nil || len(id) > 256 {
						return nil
					}
					return id
				}
			}
			key = ""
		}
	}
}
