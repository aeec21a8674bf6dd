package main

import (
	"context"
	"errors"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// directAtOnce is the number of peels that --direct asks at the same time.
const directAtOnce = 64

// checkDirect refuses flags that need a job.
func (d *dispatching) checkDirect() error {
	switch {
	case d.async || d.wait != 0 || d.batch != "" || d.whenOnline != 0 || d.reason != "":
		return usageError(
			"--direct makes no job: it does not go with --async, --wait, --batch, --when-online and --reason",
		)
	case d.timeout > wire.MaxDirect:
		return usageError("cannot wait for %s: with --direct --timeout is at most %s", d.timeout, wire.MaxDirect)
	}
	return nil
}

// named returns the peels of an expression that is an ID or a list of IDs, which needs no master to resolve; else nil.
func named(expr string) []target.PeelID {
	if id, err := target.ParsePeelID(expr); err == nil {
		return []target.PeelID{id}
	}
	e, err := target.Parse(expr, target.Options{})
	if err != nil || !strings.HasPrefix(expr, "L@") || strings.ContainsAny(expr, " \t()") {
		return nil
	}
	return e.Lists()
}

// runDirect asks each peel without a master, and prints the replies.
func (a *app) runDirect(ctx context.Context, client *api.Client, spec job.Spec) error {
	if err := a.dispatching.fill(&spec); err != nil {
		return err
	}
	if err := a.confirm(&spec); err != nil {
		return err
	}
	r := newReport(a, "", spec.Function, len(spec.Targets))
	rows, err := r.askAll(ctx, client, spec)
	r.progress.clear()
	if err != nil {
		return err
	}
	return r.finish(func(yield func(job.Row, error) bool) {
		for _, row := range rows {
			if !yield(row, nil) {
				return
			}
		}
	})
}

// askAll prints the replies as they come. It returns a row for each target, in their order, when each has replied or
// was given up.
func (r *report) askAll(ctx context.Context, client *api.Client, spec job.Spec) ([]job.Row, error) {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(directAtOnce)
	rows := make([]job.Row, len(spec.Targets))
	answered := make(chan int)
	go func() {
		for i, id := range spec.Targets {
			g.Go(func() (err error) {
				if rows[i], err = askOne(ctx, client, id, spec); err == nil {
					answered <- i
				}
				return err
			})
		}
		_ = g.Wait() // the error is read below
		close(answered)
	}()
	var failed error
	for i := range answered {
		if row := rows[i]; row.Return != nil && failed == nil {
			failed = r.take(api.Event{Peel: row.Peel, Return: row.Return})
		}
	}
	if err := errors.Join(g.Wait(), failed); err != nil {
		return nil, err
	}
	r.ended = &job.Job{Status: endOf(rows)}
	return rows, nil
}

// askOne returns an error only if asking the other peels is useless too.
func askOne(ctx context.Context, client *api.Client, id target.PeelID, spec job.Spec) (job.Row, error) {
	row := job.Row{Peel: id, State: job.RowMissing}
	result, err := client.Direct(ctx, id, wire.DirectRequest{
		Function: spec.Function,
		ID:       spec.StateID,
		Args:     spec.Args,
		TimeLeft: spec.Timeout,
	})
	switch {
	case err == nil:
		row.Return = &wire.Return{Peel: id, Result: *result}
		row.State = job.StateOf(job.Complete, row.Return)
	case errors.Is(err, api.ErrNotConnected), errors.Is(err, api.ErrNoAnswer):
	case api.CodeOf(err) == api.CodeDenied:
		return row, &failure{
			code: exitDenied,
			err:  err,
			hint: "--direct needs a credential of the role direct: zester auth issue direct <name>",
		}
	default:
		return row, err
	}
	return row, nil
}

// endOf returns the status of a job with these rows.
func endOf(rows []job.Row) job.Status {
	end := job.End{Targets: len(rows)}
	for _, row := range rows {
		if row.Return != nil {
			end.Returned++
		}
		if row.State == job.RowOK {
			end.Succeeded++
		}
	}
	return end.Status()
}
