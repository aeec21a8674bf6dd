package bus_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/micro"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/bus"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

func TestAnAnswerThatTheBusDoesNotCarryIsAnError(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		b.Stop(t)
		b.SetMaxPayload(8 << 10)
		b.Start(t)
		master := b.Conn(t, grants.RoleMaster, "m1")
		service, err := micro.AddService(master, micro.Config{Name: "big", Version: "1.0.0"})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = service.Stop() }()
		handle := func(req micro.Request) {
			var trouble error
			switch string(req.Data()) {
			case "trouble":
				trouble = errors.New(strings.Repeat("x", 20<<10))
			case "troubles":
				trouble = errors.New("a.yaml:1:1: one\nb.yaml:2:2: two")
			}
			if err := bus.SendReply(master, req, make([]byte, 9<<10), "503", trouble); err != nil {
				t.Error(err)
			}
		}
		if err := service.AddEndpoint("ask", micro.HandlerFunc(handle), micro.WithEndpointSubject(wire.API("big", "show", "*"))); err != nil {
			t.Fatal(err)
		}
		if err := master.Flush(); err != nil { // the server knows the endpoint before it is asked
			t.Fatal(err)
		}
		person := b.Conn(t, grants.RoleOperator, "ann")
		for question, want := range map[string]struct{ code, text, data string }{
			"all":      {code: bus.CodeTooLarge, text: "the answer takes 9216 bytes, the bus carries 8192: ask for less"},
			"trouble":  {code: "503", text: strings.Repeat("x", 4<<10)},
			"troubles": {"503", "a.yaml:1:1: one; b.yaml:2:2: two", "a.yaml:1:1: one\nb.yaml:2:2: two"},
		} {
			msg, err := person.Request(wire.API("big", "show", "ann"), []byte(question), time.Second)
			if err != nil {
				t.Fatal(err)
			}
			if code, text := msg.Header.Get(micro.ErrorCodeHeader), msg.Header.Get(micro.ErrorHeader); code != want.code || text != want.text || string(msg.Data) != want.data {
				t.Errorf("%s: %s %.100q %.100q", question, code, text, msg.Data)
			}
		}
	})
}
