// File schedulereport.go tells masters what happens to the fires of a peel's schedule.
//
// Make a [Reporter] with [NewReporter], call [Reporter.Run] with the connection, and [Reporter.Changed] when an entry
// changes its class or the settings change. [ScheduleSource.Report] makes a report, and [EncodeSchedule] makes it fit
// into a message.
//
// A report is sent within 10 s after each connect, within 5 s after a change, and else every 10 minutes ± 10 %; there
// are at least 5 s between two. One that the stream does not confirm is made anew and sent again. Each has all fires
// of 48 hours, so a lost report loses nothing: coverage shows the last day, and has it whole also after a day without
// a bus. A report of 20 entries takes 2 to 6 KB. [EncodeSchedule] shortens the lists of one that is too large.

package report

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/peel/scheduler"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// ReporterOptions configure a Reporter. All but Random are required.
type ReporterOptions struct {
	Peel     target.PeelID
	Clock    func() scheduler.Instant
	Zone     *time.Location                                   // of entries that name none
	Account  func(context.Context) (scheduler.Account, error) // see [scheduler.Scheduler.Account]
	Settings func() Settings
	// Send sends a report. It returns false if the report has to be sent again.
	Send func(ctx context.Context, subject string, data []byte) bool
	Log  *slog.Logger
	// Random returns a random time below n, for the times of reports; nil: the source of the process.
	Random func(n time.Duration) time.Duration
}

// Settings are what a peel has in force.
type Settings struct {
	Commit, Digest string
	Version        string       // of the peel's program
	Schedule       schedule.Set // of the settings; other entries are from peel.yaml
}

// A Reporter sends the reports of one peel.
type Reporter struct {
	o       ReporterOptions
	started time.Time
	zone    string
	changed chan struct{}
}

// NewReporter returns a Reporter.
func NewReporter(o ReporterOptions) *Reporter {
	if o.Random == nil {
		o.Random = rand.N[time.Duration]
	}

	return &Reporter{o: o, started: o.Clock().Wall, zone: ZoneName(o.Zone), changed: make(chan struct{}, 1)}
}

// Changed makes a report due. Any goroutine may call it; it does not block.
func (r *Reporter) Changed() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// Run sends reports until ctx ends.
func (r *Reporter) Run(ctx context.Context, nc *nats.Conn) {
	connected := nc.StatusChanged(nats.CONNECTED)
	defer nc.RemoveStatusListener(connected)
	a := agenda{at: time.Now().Add(r.o.Random(afterConnect))}
	timer := time.NewTimer(time.Until(a.at))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-connected:
			a.want(time.Now().Add(r.o.Random(afterConnect)))
		case <-r.changed:
			a.want(time.Now().Add(settles))
		case <-timer.C:
			made := time.Now()
			a.tried(made, nc.IsConnected() && r.send(ctx), r.o.Random)
		}
		timer.Reset(time.Until(a.at))
	}
}

// send makes and sends a report, and reports whether the stream has confirmed it.
func (r *Reporter) send(ctx context.Context) bool {
	account, err := r.o.Account(ctx)
	if err != nil {
		return false // the peel is shutting down
	}
	source := ScheduleSource{
		Peel:     r.o.Peel,
		ZoneName: r.zone,
		Zone:     r.o.Zone,
		Started:  r.started,
		Settings: r.o.Settings(),
		Account:  account,
	}
	data, err := EncodeSchedule(source.Report(r.o.Clock().Wall))
	if err != nil {
		r.o.Log.Error("report on the schedule not sent", "err", err)
		return true
	}
	return r.o.Send(ctx, wire.ScheduleStateOf(r.o.Peel.Wire()), data)
}

const (
	minGap = 5 * time.Second // between two reports
	// within which another change often follows, such as the end of a run after its start
	settles      = time.Second / 2
	afterConnect = 10 * time.Second // within which the peels of a fleet report after a connect
)

// An agenda says when the next report is due.
type agenda struct {
	at   time.Time
	last time.Time // when the last one was made
}

// want makes a report due at a time, or earlier if one is due already, but not within minGap of the last.
func (a *agenda) want(at time.Time) {
	if earliest := a.last.Add(minGap); at.Before(earliest) {
		at = earliest
	}
	if at.Before(a.at) {
		a.at = at
	}
}

// tried plans the next report after one that was made at a time.
func (a *agenda) tried(made time.Time, stored bool, random func(time.Duration) time.Duration) {
	wait := minGap + random(minGap)
	if stored {
		wait = wire.ScheduleInterval*9/10 + random(wire.ScheduleInterval/5)
	}
	a.last, a.at = made, made.Add(wait)
}
