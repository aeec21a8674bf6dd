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
	"github.com/seed-c01c3da5/zester/settings/schedule"
)

// runEntry is what the scheduler calls when an entry runs. It leaves the report of an entry with return_job to the
// scheduler, which knows what attempt is the last.
func (p *Peel) runEntry(ctx context.Context, f scheduler.Fire) scheduler.Outcome {
	origin := p.originOf(f.Name) // before the run: a reload during it must not change who made it run
	result := p.call(ctx, f.Entry.Module, module.Call{Args: f.Entry.CallArgs()})
	out := scheduler.Outcome{Success: result.Success, Error: result.Error}
	want := f.Entry.ReturnJob
	if want == schedule.ReturnAlways || want == schedule.ReturnFailures && !result.Success {
		out.Report = func(why string) string {
			result.Error = why
			return p.reportRun(f, result, origin)
		}
	}
	return out
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

// reportRun puts the report of a run into the outbox and returns its job, empty if it could not be stored.
func (p *Peel) reportRun(f scheduler.Fire, result wire.Result, o settings.Origin) string {
	r := p.scheduledResult(f, result, o)
	data, err := fitRun(&r, room(wire.MaxMessage))
	if err == nil {
		err = p.owe(outbox.Item{MsgID: string(r.JID), Subject: wire.ScheduledOf(r.JID, p.wire), Payload: data})
	}
	if err != nil {
		p.log.Error("report of a run not stored", "entry", f.Name, "err", err)
		return ""
	}
	return string(r.JID)
}

func (p *Peel) scheduledResult(f scheduler.Fire, result wire.Result, o settings.Origin) wire.ScheduledResult {
	r := wire.ScheduledResult{
		JID: wire.NewJID(), Peel: p.o.ID, Entry: f.Name, Trigger: wire.Trigger(f.Trigger),
		Function: f.Entry.Module, Args: f.Entry.Args, Result: result,
		Nominal: f.Nominal, Fired: f.Fired, Started: f.Started, Finished: time.Now(), Late: f.Late,
		Commit: string(o.Commit), Author: cut(o.Author), V: wire.Version,
	}
	if o.File != "" {
		r.Origin = cut(fmt.Sprintf("%s:%d", o.File, o.Line))
	}
	return r
}

// originOf is where an entry of the settings in force comes from; zero for one of the configuration.
func (p *Peel) originOf(entry string) settings.Origin {
	if doc := p.current.Load().doc; doc != nil {
		return doc.Origins[entry]
	}
	return settings.Origin{}
}
