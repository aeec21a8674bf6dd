package peel

import (
	"context"
	"errors"

	"github.com/seed-c01c3da5/zester/peel/catalogue"
	"github.com/seed-c01c3da5/zester/peel/mask"
	"github.com/seed-c01c3da5/zester/peel/module"
	"github.com/seed-c01c3da5/zester/peel/scheduler"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
)

// errStopped is the cause of the end of a run of states when the peel stops.
var errStopped = errors.New("the peel was stopped")

// runEntry calls the function of an entry for the scheduler. When the peel stops, the scheduler gives runs some time; a
// run of states begins no further state in this time.
func (p *Peel) runEntry(ctx context.Context, f scheduler.Fire) wire.Result {
	args := f.Entry.CallArgs()
	if catalogue.RunsStates(f.Entry.Module) {
		work, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		ended := make(chan struct{})
		defer close(ended)
		go func() {
			select {
			case <-p.stopping:
				cancel(errStopped)
			case <-ended:
			}
		}()
		ctx = work
	}
	result := p.call(ctx, f.Entry.Module, module.Call{Args: args, JID: f.JID, AfterStored: f.AfterStored},
		mask.OfArgs(f.Entry.Args, args))
	if !result.Success && errors.Is(context.Cause(ctx), errStopped) {
		result.Outcome, result.Error = wire.Interrupted, errStopped.Error()
	}
	if !f.Entry.ReturnJob.Wants(result.Success) {
		p.receipts.end(f.JID)
	}
	return result
}

// call numbers and runs a function and masks its result: the secrets in the arguments of the call, and the secrets in
// the settings when it began and when it ended.
func (p *Peel) call(ctx context.Context, name string, c module.Call, args *mask.Mask) wire.Result {
	p.receipts.begin(c.JID)
	m := args.With(p.current.Load().mask)
	c.Secrets = m.Secrets() // the function masks before it cuts its output, which could split a secret
	result := p.registry.Call(ctx, name, c)
	return m.With(p.current.Load().mask).Result(result)
}

// reportRun puts the report of a scheduled run into the outbox and reports whether it is stored.
func (p *Peel) reportRun(f scheduler.Fire, result wire.Result) bool {
	r := wire.ScheduledResult{
		JID:      f.JID,
		Peel:     p.o.ID,
		Entry:    f.Name,
		Trigger:  f.Trigger,
		Function: f.Entry.Module,
		Args:     f.Entry.Args,
		Result:   result,
		Nominal:  f.Nominal,
		Fired:    f.Fired,
		Started:  f.Started,
		Finished: p.o.Clock().Wall,
		Late:     f.Late,
		Commit:   f.Source.Commit,
		Origin:   f.Source.File,
		Author:   f.Source.Author,
		Ran:      f.Source.Ran,
		Proof:    f.Source.Proof,
		V:        wire.Version,
	}
	data, err := p.encodeReport(&r)
	if err == nil {
		_, err = p.outbox.Put(string(r.JID), wire.ScheduledOf(r.JID, p.o.ID.Wire()), data)
	}
	if err != nil {
		p.log.Error("report of a run not stored", "entry", f.Name, "err", err)
	}
	return err == nil
}

// sourceOf returns the origin of an entry in the form of reports.
func (p *Peel) sourceOf(entry string) scheduler.Source {
	now, o := p.current.Load(), p.originOf(entry)
	c := o.Claim()
	s := scheduler.Source{Commit: c.Commit, File: c.File, Author: c.Author, Proof: o.Proof}
	if e := now.schedule[entry]; e != nil && s != (scheduler.Source{}) {
		s.Ran, s.Generation = settings.Ran(e.Module, e.Args), now.doc.Generation
	}
	return s
}

// originOf returns the commit, file and author of an entry of the settings in force, zero for an entry of the
// configuration.
func (p *Peel) originOf(entry string) settings.Origin {
	if doc := p.current.Load().doc; doc != nil {
		return doc.Origins[entry]
	}
	return settings.Origin{}
}
