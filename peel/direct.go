package peel

import (
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/peel/catalogue"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// question takes a request that a person sent without a master. It goes the way of all others, but for the fence: it is
// sent once, and a record of it would push one of a job out.
func (p *Peel) question(msg *nats.Msg, c *crew) {
	req, user, err := wire.DecodeDirect(msg)
	if err != nil {
		p.log.Warn("direct request dropped", "subject", msg.Subject, "err", err)
		return
	}
	o := order{asked: msg, until: time.Now().Add(req.TimeLeft), Request: wire.Request{
		JID: wire.NewJID(), Function: req.Function, ID: req.ID, Args: req.Args, User: user,
	}}
	p.log.Info("direct request accepted", "jid", o.JID, "user", user, "function", req.Function)
	if req.V > wire.Version {
		p.reply(o, tooNew(req.V))
		return
	}
	if catalogue.AsksForSecrets(req.Args) {
		p.reply(o, refusal("nobody has looked whether %s may see secrets: ask through a master", user))
		return
	}
	p.accept(o, c)
}

// respond sends the result of a direct request to who asked. Nothing is kept for one who has gone.
func (p *Peel) respond(o order, result wire.Result) {
	nc := p.bus.Load()
	a := wire.DirectAnswer{Peel: p.o.ID, Result: result, V: wire.Version}
	data, err := fitAnswer(&a, room(nc.MaxPayload()))
	if err == nil {
		err = nc.Publish(o.asked.Reply, data)
	}
	p.log.Info("direct request answered", "jid", o.JID, "user", o.User, "function", o.Function,
		"success", result.Success, "outcome", result.Outcome, "err", err)
}
