package wire

import (
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// Answer sends what a service answers to a request: data, or a code and the text of err if that is not nil. It goes
// past the service framework, whose request must not be used once the handler has returned.
func Answer(nc *nats.Conn, req micro.Request, data []byte, code string, err error) error {
	answer := nats.NewMsg(req.Reply())
	answer.Data = data
	if err != nil {
		answer.Data = nil
		answer.Header.Set(micro.ErrorHeader, err.Error())
		answer.Header.Set(micro.ErrorCodeHeader, code)
	}
	return nc.PublishMsg(answer)
}
