package swarm

import (
	"context"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"

	"github.com/seed-c01c3da5/zester/master/api"
)

// The entry of all peels while master and bus are away.
const (
	pulseEvery = 10 * time.Second
	pulse      = "  pulse: {interval: 10s, interval_from: epoch, module: test.ping}\n"
	beforehand = 30 * time.Second // of runs before the outage
)

// outage stops the master with its bus for a time in which every peel runs an entry every 10 s, and measures how long
// the master takes after its return until it knows every fire, and what it says of them.
func (f *fleet) outage(ctx context.Context) error {
	if err := f.settle(ctx, "A run every ten seconds", content{probe: pulse}); err != nil {
		return err
	}
	first := time.Now().Truncate(pulseEvery).Add(pulseEvery)
	if err := pauseUntil(ctx, first.Add(beforehand)); err != nil {
		return err
	}
	before := f.state(ctx, wire.StreamScheduleState).LastSeq
	if err := f.end(); err != nil {
		return err
	}
	if err := pauseUntil(ctx, time.Now().Add(f.r.o.Outage)); err != nil {
		return err
	}
	last := time.Now().Truncate(pulseEvery)
	began := time.Now()
	if err := f.start(ctx); err != nil {
		return err
	}
	due := (int64(last.Sub(first)/pulseEvery) + 1) * int64(f.r.o.Peels)
	row, err := f.known(ctx, first, due)
	if err != nil {
		return err
	}
	f.r.figure("outage of master and bus", "s", f.r.o.Outage.Seconds())
	f.r.figure("start after it: coverage knows every fire", "s", time.Since(began).Seconds())
	f.r.figure("fires until the start", "", float64(due))
	f.r.figure("of them lost", "", float64(max(0, due-int64(row.Ran))))
	f.r.figure("taken for missed", "", float64(row.Missed))
	return f.reports(ctx, before)
}

// known waits until the master has a verdict on as many fires of the pulse, and none is unknown.
func (f *fleet) known(ctx context.Context, since time.Time, due int64) (row api.CoverageRow, err error) {
	err = f.until(ctx, "verdicts", due, func() int64 {
		c, err := f.client.Coverage(ctx, api.CoverageRequest{Entry: "pulse", Since: since})
		if err != nil || len(c.Rows) != 1 || c.Reporting < f.r.o.Peels || c.Rows[0].Unknown > 0 {
			return 0
		}
		row = c.Rows[0]
		return int64(row.Ran + row.Skipped + row.Missed)
	})
	return row, err
}

// reports counts the reports on schedules since the outage began, until nothing has happened for a while. Each peel
// sends one when the bus is back, and another one only if the bus was too busy to confirm the first in time. The next
// regular ones come ten minutes later.
func (f *fleet) reports(ctx context.Context, before uint64) error {
	if err := pauseUntil(ctx, time.Now().Add(f.r.o.Idle)); err != nil {
		return err
	}
	after := f.state(ctx, wire.StreamScheduleState)
	f.r.figure("reports of a peel on its schedule for the outage", "",
		float64(after.LastSeq-before)/float64(f.r.o.Peels))
	f.r.figure("bytes of the newest report of a peel", "B", float64(after.Bytes)/float64(f.r.o.Peels))
	return nil
}
