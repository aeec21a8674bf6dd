package wire

import (
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// CodeTooLarge is the code of an answer that the bus would not carry.
const CodeTooLarge = "413"

// maxAnswerError bounds the words of an answer that is an error, in bytes.
const maxAnswerError = 64 << 10

// Answer sends what a service answers to a request: data, or a code and the text of err if that is not nil. Data that
// the bus does not carry is an error, so that nobody waits for it. It goes past the service framework, whose request
// must not be used once the handler has returned.
func Answer(nc *nats.Conn, req micro.Request, data []byte, code string, err error) error {
	answer := nats.NewMsg(req.Reply())
	answer.Data = data
	limit := nc.MaxPayload()
	if err == nil && int64(len(data)) > limit {
		code, err = CodeTooLarge, fmt.Errorf("the answer takes %d bytes, the bus carries %d: ask for less", len(data), limit)
	}
	if err != nil {
		answer.Data = nil
		text := Explain(err, "").Error()
		answer.Header.Set(micro.ErrorHeader, text[:min(len(text), maxAnswerError, int(limit/2))])
		answer.Header.Set(micro.ErrorCodeHeader, code)
	}
	return nc.PublishMsg(answer)
}

// HandOver returns when everything has been given to its handlers that the bus sent to subscriptions which have just
// ended, at the latest after wait. The bus sends to them until it knows.
func HandOver(nc *nats.Conn, wait time.Duration) {
	handed := make(chan struct{})
	err := nc.FlushTimeout(wait)
	if err == nil {
		err = nc.Barrier(func() { close(handed) })
	}
	if err != nil {
		return // the bus is away, and sends nothing
	}
	select {
	case <-handed:
	case <-time.After(wait):
	}
}
