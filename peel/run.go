package peel

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-c01c3da5/zester/peel/module"
	"github.com/seed-c01c3da5/zester/peel/outbox"
	"github.com/seed-c01c3da5/zester/peel/scheduler"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
)

// runEntry calls the function of an entry for the scheduler.
func (p *Peel) runEntry(ctx context.Context, f scheduler.Fire) wire.Result {
	return p.call(ctx, f.Entry.Module, module.Call{Args: f.Entry.CallArgs()})
}

// call runs a function and returns what it gave without the secrets of the settings, those that came or went meanwhile
// included.
func (p *Peel) call(ctx context.Context, name string, c module.Call) wire.Result {
	before := p.current.Load().mask
	result := before.result(p.registry.Call(ctx, name, c))
	if after := p.current.Load().mask; after != before {
		result = after.result(result)
	}
	return result
}

// reportRun puts the report of a run into the outbox and reports whether it is stored.
func (p *Peel) reportRun(f scheduler.Fire, result wire.Result) bool {
	r := p.scheduledResult(f, result)
	data, err := fitRun(&r, room(wire.MaxMessage))
	if err == nil {
		err = p.owe(outbox.Item{MsgID: string(r.JID), Subject: wire.ScheduledOf(r.JID, p.wire), Payload: data})
	}
	if err != nil {
		p.log.Error("report of a run not stored", "entry", f.Name, "err", err)
	}
	return err == nil
}

func (p *Peel) scheduledResult(f scheduler.Fire, result wire.Result) wire.ScheduledResult {
	return wire.ScheduledResult{
		JID: f.JID, Peel: p.o.ID, Entry: f.Name, Trigger: wire.Trigger(f.Trigger),
		Function: f.Entry.Module, Args: f.Entry.Args, Result: result,
		Nominal: f.Nominal, Fired: f.Fired, Started: f.Started, Finished: time.Now(), Late: f.Late,
		Commit: f.Source.Commit, Origin: f.Source.File, Author: f.Source.Author, V: wire.Version,
	}
}

// sourceOf is originOf as reports have it.
func (p *Peel) sourceOf(entry string) scheduler.Source {
	o := p.originOf(entry)
	s := scheduler.Source{Commit: string(o.Commit), Author: cut(o.Author)}
	if o.File != "" {
		s.File = cut(fmt.Sprintf("%s:%d", o.File, o.Line))
	}
	return s
}

// originOf is where an entry of the settings in force comes from; zero for one of the configuration.
func (p *Peel) originOf(entry string) settings.Origin {
	if doc := p.current.Load().doc; doc != nil {
		return doc.Origins[entry]
	}
	return settings.Origin{}
}
