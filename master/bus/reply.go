// File reply.go serves requests of clients: a [Service] receives them, and [SendReply] answers one, also after its
// handler has returned.
//
// Guarantees: a service that stops receives what was sent to it before and lets its handlers work for 2 s; it leaves no
// subscription behind, also if the connection is away; a request says until when its caller waits.

package bus

import (
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/seed-c01c3da5/zester/peel/dial"
)

// A Receiver has the subject on which a caller waits.
type Receiver interface{ Reply() string }

const codeUnavailable = "503"

// CodeTooLarge is the code of a reply that is larger than a message of the bus may be.
const CodeTooLarge = "413"

// maxErrorText bounds the text of an error in a reply, in bytes.
const maxErrorText = 64 << 10

// SendReply answers a caller with data, or with a code and the text of err if err is not nil. A text of several lines
// is also the data, as a header has one line. If data is larger than a message of the bus may be, the caller gets
// [CodeTooLarge]. Send may be called after the handler has returned, which the reply of the framework may not.
func SendReply(nc *nats.Conn, to Receiver, data []byte, code string, err error) error {
	answer := nats.NewMsg(to.Reply())
	answer.Data = data
	limit := nc.MaxPayload()
	if err == nil && int64(len(data)) > limit {
		code, err = CodeTooLarge, fmt.Errorf("the answer takes %d bytes, the bus carries %d: ask for less", len(data),
			limit)
	}
	if err != nil {
		answer.Data = nil
		text := dial.Explain(err, "").Error()
		text = text[:min(len(text), maxErrorText, int(limit/2))]
		if strings.Contains(text, "\n") {
			text = text[:min(len(text), int(limit/4))]
			answer.Data, text = []byte(text), strings.ReplaceAll(text, "\n", "; ")
		}
		answer.Header.Set(micro.ErrorHeader, text)
		answer.Header.Set(micro.ErrorCodeHeader, code)
	}
	return nc.PublishMsg(answer)
}

// WaitForHandlers waits until the handlers of subscriptions that have just ended have received all messages that the
// server sent before it learned of the end, or until limit has passed.
func WaitForHandlers(nc *nats.Conn, limit time.Duration) {
	handed := make(chan struct{})
	err := nc.FlushTimeout(limit)
	if err == nil {
		err = nc.Barrier(func() { close(handed) })
	}
	if err != nil {
		return // not connected, so the server sends nothing
	}
	select {
	case <-handed:
	case <-time.After(limit):
	}
}
