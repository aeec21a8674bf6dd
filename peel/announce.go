package peel

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/peel/report"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

const factsInterval = 10 * time.Minute // ± 10 %: when facts are collected again

// A signal has one slot: raised twice before it is received, it is received once.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

func (s signal) raise() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// unconfirmed are the reports that the peel has to send, because they changed or the stream has not confirmed them.
type unconfirmed struct{ facts, applied, stateRun bool }

// announce sends facts and the applied report after every connect, the report on the newest run of states once after a
// start, and each again when it changes or was not confirmed.
func (p *Peel) announce(ctx context.Context, nc *nats.Conn) {
	connected := nc.StatusChanged(nats.CONNECTED)
	defer nc.RemoveStatusListener(connected)
	retry := time.NewTimer(0)
	defer retry.Stop()
	collect := time.NewTimer(jitter(factsInterval))
	defer collect.Stop()
	// the run before a restart may not have been confirmed
	due := unconfirmed{facts: true, applied: true, stateRun: true}
	for {
		select {
		case <-ctx.Done():
			return
		case <-connected:
			p.outbox.Kick()
			_, _ = p.collect(ctx) // fails only at the end of ctx
			due = unconfirmed{facts: true, applied: true, stateRun: due.stateRun}
		case <-p.due.report:
			due.applied = true
		case <-p.due.stateRun:
			due.stateRun = true
		case <-p.due.facts:
			due.facts = true
		case <-retry.C:
		case <-collect.C:
			if changed, _ := p.collect(ctx); changed {
				due.facts = true
			}
			collect.Reset(jitter(factsInterval))
		}
		if nc.IsConnected() && !p.sendDue(ctx, &due) {
			retry.Reset(ackTimeout/2 + rand.N(ackTimeout))
		}
	}
}

// jitter returns d ± 10 %, at random, so that the peels of a fleet do not act at the same time.
func jitter(d time.Duration) time.Duration { return d*9/10 + rand.N(d/5) }

// sendDue sends what is due and reports whether the stream has confirmed all of it.
func (p *Peel) sendDue(ctx context.Context, due *unconfirmed) bool {
	if due.facts {
		data, err := wire.Facts{
			Peel:  p.o.ID,
			Facts: *p.newest.facts.Load(),
			Key:   p.key.public,
			Proof: p.keyProof(),
			V:     wire.Version,
		}.Encode()
		if err != nil {
			p.log.Error(
				"facts not sent, masters would refuse them; those that they have stay in force: "+
					"make facts in peel.yaml fewer or shorter",
				"err", err,
			)
		}
		due.facts = err == nil && !p.sendReport(ctx, wire.Fact(p.o.ID.Wire()), data)
	}
	if due.applied {
		data, err := canon.Marshal(p.applied())
		if err != nil {
			p.log.Error("report on settings not sent", "err", err)
		}
		due.applied = err == nil && !p.sendReport(ctx, wire.SettingsApplied(p.o.ID.Wire()), data)
	}
	if due.stateRun {
		due.stateRun = p.sendStateRun(func(subject string, data []byte) bool {
			return p.sendReport(ctx, subject, data)
		})
	}
	return *due == unconfirmed{}
}

// keyProof returns the peel's sealing key signed with the nkey of its credential, nil if the credential has no nkey.
func (p *Peel) keyProof() []byte {
	sign := p.bus.Load().Opts.SignatureCB
	if sign == nil {
		return nil
	}
	proof, err := sign(wire.KeyProof(p.o.ID, p.key.public))
	if err != nil {
		p.log.Error("sealing key not signed, masters may refuse it", "err", err)
	}
	return proof
}

// sendReport returns false if the report has to be sent again. A report that the bus cannot carry is not sent again.
func (p *Peel) sendReport(ctx context.Context, subject string, data []byte) bool {
	err := p.publishAcked(ctx, &nats.Msg{Subject: subject, Data: data})
	if errors.Is(err, nats.ErrMaxPayload) {
		p.log.Error("report not sent, it is larger than the bus carries: raise max_payload of its servers",
			"subject", subject, "bytes", len(data), "max_payload", p.bus.Load().MaxPayload())
		return true
	}
	if err != nil {
		p.log.Info("report not confirmed, it is sent again", "subject", subject, "err", err)
	}
	return err == nil
}

// sendStateRun reports whether the report has to be sent again.
func (p *Peel) sendStateRun(send func(subject string, data []byte) bool) (again bool) {
	data, err := p.stateRun.Newest()
	if err != nil {
		p.log.Error("report on the newest run of states cannot be read", "err", err)
	}
	return len(data) > 0 && !send(wire.StateRunOf(p.o.ID.Wire()), data)
}

// reported returns what the report on the schedule says of the settings.
func (p *Peel) reported() report.Settings {
	now := p.current.Load()
	s := report.Settings{Schedule: now.schedule}
	s.Version, _ = (*p.newest.facts.Load())["zester_version"].(string)
	if now.doc != nil {
		s.Commit, s.Digest = string(now.doc.Commit), string(now.doc.Digest)
	}
	return s
}
