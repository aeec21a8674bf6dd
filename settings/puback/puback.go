// Package puback reads the acknowledgement that a JetStream stream sends for a published message. Call [Read].
//
// The usual acknowledgement, which names the stream and the sequence alone, is read without JSON's reflection.
package puback

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/nats-io/nats.go/jetstream"
)

// An Ack is what a stream says of a message.
type Ack struct {
	Stream   string              `json:"stream"`
	Sequence uint64              `json:"seq"` // of the message in the stream; 0 beside an Error
	Error    *jetstream.APIError `json:"error"`
}

// Read decodes an acknowledgement. The error says that data is none.
func Read(data []byte) (a Ack, err error) {
	if a, ok := readUsual(data); ok {
		return a, nil
	}
	err = json.Unmarshal(data, &a)
	return a, err
}

// readUsual reads {"stream":"NAME","seq":N}, as the server writes it.
func readUsual(data []byte) (a Ack, ok bool) {
	rest, ok := bytes.CutPrefix(data, []byte(`{"stream":"`))
	if !ok {
		return a, false
	}
	name, rest, ok := bytes.Cut(rest, []byte(`","seq":`))
	if !ok || bytes.ContainsFunc(name, isEscaped) {
		return a, false
	}
	digits, ok := bytes.CutSuffix(rest, []byte("}"))
	if !ok || bytes.HasPrefix(digits, []byte("0")) {
		return a, false
	}
	sequence, err := strconv.ParseUint(string(digits), 10, 64)
	return Ack{Stream: string(name), Sequence: sequence}, err == nil
}

// isEscaped reports whether a character may stand for another in JSON or ends a string.
func isEscaped(r rune) bool { return r < ' ' || r == '"' || r == '\\' || r > '~' }
