package reply_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/micro"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/master/reply"
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
			if string(req.Data()) == "trouble" {
				trouble = errors.New(strings.Repeat("x", 20<<10))
			}
			if err := reply.Send(master, req, make([]byte, 9<<10), "503", trouble); err != nil {
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
		for question, want := range map[string]struct{ code, text string }{
			"all":     {reply.CodeTooLarge, "the answer takes 9216 bytes, the bus carries 8192: ask for less"},
			"trouble": {"503", strings.Repeat("x", 4<<10)},
		} {
			msg, err := person.Request(wire.API("big", "show", "ann"), []byte(question), time.Second)
			if err != nil {
				t.Fatal(err)
			}
			if code, text := msg.Header.Get(micro.ErrorCodeHeader), msg.Header.Get(micro.ErrorHeader); code != want.code || text != want.text {
				t.Errorf("%s: %s %.100q", question, code, text)
			}
		}
	})
}
