package peel_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/peel"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
)

// signer has the peel use one credential from now on, and returns its public key.
func (b *bench) signer() string {
	b.t.Helper()
	with := b.bus.Options(grants.RolePeel, id.Wire())
	b.options = func(o *peel.Options) { o.Connect = with }
	o := nats.GetDefaultOptions()
	for _, set := range with {
		if err := set(&o); err != nil {
			b.t.Fatal(err)
		}
	}
	token, err := o.UserJWT()
	if err != nil {
		b.t.Fatal(err)
	}
	c, err := jwt.DecodeUserClaims(token)
	if err != nil {
		b.t.Fatal(err)
	}
	return c.Subject
}

func TestEachRunHasANumberThatItsPeelSigns(t *testing.T) {
	run(t, func(b *bench) {
		key := b.signer()
		b.start()
		digest := b.give(1, "schedule: {beat: {module: test.echo, args: {text: tick}, interval: 1h, run_on_start: true, return_job: true}, quiet: {module: test.ping, interval: 10m}}")
		check := func(what string, r *wire.Receipt, s wire.Statement, err error, number uint64) {
			t.Helper()
			if err != nil || r.Number != number || r.Document != string(digest) || s.Signer(r.Signature, []string{key}) != key {
				t.Errorf("%s: %v, receipt %+v of %+v, want the number %d", what, err, r, s, number)
			}
			if s.JID = wire.NewJID(); s.Signer(r.Signature, []string{key}) != "" {
				t.Errorf("%s: the signature is also one of another job", what)
			}
		}
		returned := func(what string, number uint64, r wire.Request) {
			t.Helper()
			asked := b.ask(r)
			got := b.returned()
			for got.JID != asked.JID { // one that was not confirmed before the restart comes again
				got = b.returned()
			}
			s, err := got.Statement(settings.Ran(strings.TrimSpace(asked.Function+" "+asked.ID), asked.Args))
			check(what, got.Receipt, s, err, number)
		}

		first := b.reported()
		s, err := first.Statement(settings.Ran("test.echo", map[string]any{"text": "tick"}))
		check("a run of the schedule", first.Receipt, s, err, 1)
		returned("a request", 2, wire.Request{Function: "test.echo", ID: "hello", Epoch: 1, Args: map[string]any{"n": 1}})
		b.stop()
		b.start()
		returned("after a restart, and another run of beat", 4, wire.Request{Function: "test.ping", Epoch: 1})
		returned("one that fails", 5, wire.Request{Function: "no.such", Epoch: 1})
		time.Sleep(11 * time.Minute) // a run of quiet, which is not reported
		returned("after a run without a record", 7, wire.Request{Function: "test.ping", Epoch: 1})
	})
}

func TestAPeelThatCannotSignReturnsAsBefore(t *testing.T) {
	run(t, func(b *bench) {
		b.options = func(o *peel.Options) {
			o.Connect = append(o.Connect, func(o *nats.Options) error {
				sign := o.SignatureCB
				o.SignatureCB = func(text []byte) ([]byte, error) {
					if text[0] == 0xff {
						return nil, nats.ErrNkeysNotSupported
					}
					return sign(text)
				}
				return nil
			})
		}
		b.start()
		b.ask(wire.Request{Function: "test.ping", Epoch: 1})
		if r := b.returned(); !r.Success || r.Receipt != nil {
			t.Errorf("%+v", r)
		}
	})
}
