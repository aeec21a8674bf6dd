package progress

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// runsAgain is the pause after the reader of runs has ended.
const runsAgain = time.Second

// An Entries map names the schedule entries whose runs count, with the commit of their version.
type Entries map[string]settings.Commit

// Runs follows the scheduled runs of peels while a revision is rolled out: those of entries with return_job from
// job-events, and all others from the reports of the peels on their schedules.
type Runs struct {
	js       jetstream.JetStream
	after    uint64 // sequence in job-events; later runs are read
	from     uint64 // generation; runs with settings of earlier ones do not count
	reported chan<- struct{}
	log      *slog.Logger

	mu      sync.Mutex
	watched map[target.PeelID]Entries
	ready   chan struct{}            // closed when watched is set
	failed  map[target.PeelID]string // the first failure of each peel
}

// NewRuns returns a Runs for the messages of the stream job-events after a sequence, and for runs in reports with
// settings that were written since a time. reported gets a value after a failed run, unless it is full.
func NewRuns(js jetstream.JetStream, after uint64, since time.Time, reported chan<- struct{}, log *slog.Logger) *Runs {
	return &Runs{
		js:       js,
		after:    after,
		from:     uint64(since.UnixMilli()), // as generations are counted
		reported: reported,
		log:      log,
		ready:    make(chan struct{}),
		failed:   map[target.PeelID]string{},
	}
}

// Run waits for the first call of Watch and reads runs until ctx ends. When the reader ends it begins again with the
// first run.
func (r *Runs) Run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-r.ready:
	}
	for {
		err := r.read(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		r.log.Warn("runs of the wave are read again", "err", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(runsAgain):
		}
	}
}

// Watch replaces the entries whose runs count; watched is not nil. Failures returns only peels in it.
func (r *Runs) Watch(watched map[target.PeelID]Entries) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.watched == nil {
		close(r.ready)
	}
	r.watched = watched
}

// Failures returns a description of the first failed run of each watched peel.
func (r *Runs) Failures() map[target.PeelID]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make(map[target.PeelID]string, len(r.failed))
	for id, text := range r.failed {
		if _, counts := r.watched[id]; counts {
			all[id] = text
		}
	}
	return all
}

func (r *Runs) read(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		return r.consume(ctx, wire.StreamJobEvents, r.onRun, jetstream.OrderedConsumerConfig{
			DeliverPolicy:  jetstream.DeliverByStartSequencePolicy,
			OptStartSeq:    r.after + 1,
			FilterSubjects: []string{wire.ScheduledOf("*", "*")},
		})
	})
	g.Go(func() error {
		return r.consume(ctx, wire.StreamScheduleState, r.onReport, jetstream.OrderedConsumerConfig{
			DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy,
		})
	})
	return g.Wait()
}

// consume calls on for the messages of a stream until ctx or the reader ends.
func (r *Runs) consume(ctx context.Context, stream string, on jetstream.MessageHandler,
	c jetstream.OrderedConsumerConfig,
) error {
	consumer, err := r.js.OrderedConsumer(ctx, stream, c)
	if err != nil {
		return err
	}
	reading, err := consumer.Consume(on)
	if err != nil {
		return err
	}
	defer func() { reading.Stop(); <-reading.Closed() }()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-reading.Closed():
		return errors.New("the reader ended")
	}
}

// onRun handles one run. A run that a person canceled does not count. One that the peel rejected, or that the end of
// its process or host cut off, has failed: the revision may be the cause.
func (r *Runs) onRun(m jetstream.Msg) {
	run, err := wire.DecodeScheduled(&nats.Msg{Subject: m.Subject(), Header: m.Headers(), Data: m.Data()})
	if err != nil || run.Success || run.Outcome == wire.Canceled {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	commit, counts := r.watched[run.Peel][run.Entry]
	if !counts || commit != settings.Commit(run.Commit) || r.failed[run.Peel] != "" {
		return
	}
	how := "failed"
	if run.Outcome != "" {
		how = "was " + string(run.Outcome)
	}
	r.noteLocked(run.Peel, fmt.Sprintf("run %s of %s %s", run.JID, run.Entry, how))
}

// noteLocked notes the first failure of a peel.
func (r *Runs) noteLocked(id target.PeelID, text string) {
	r.failed[id] = text
	select {
	case r.reported <- struct{}{}:
	default:
	}
}

// onReport handles the newest report of a peel on its schedule. Its runs that are jobs are in job-events, which also
// says whether a person canceled them, so they do not count here.
func (r *Runs) onReport(m jetstream.Msg) {
	r.mu.Lock()
	defer r.mu.Unlock()
	report, err := ledger.Decode(&nats.Msg{Subject: m.Subject(), Data: m.Data()})
	if err != nil {
		return // coverage says which peels send none that can be read
	}
	watched := r.watched[report.Peel]
	if len(watched) == 0 || r.failed[report.Peel] != "" {
		return
	}
	for i := range report.Entries {
		for _, run := range report.Entries[i].Notes {
			failed := run.Outcome == ledger.Failed || run.Outcome == ledger.Interrupted
			if !failed || run.Job != "" || run.Generation < r.from {
				continue
			}
			if name := entryOf(watched, run.Commit); name != "" {
				r.noteLocked(report.Peel, fmt.Sprintf("the run of %s at %s %s", name,
					run.Started.UTC().Format(time.RFC3339), run.Outcome))
				return
			}
		}
	}
}

// entryOf names the entries that a commit gave a peel: a report has no names, and its runs have the commit. It returns
// an empty text if there is none.
func entryOf(watched Entries, commit string) string {
	var names []string
	for name, c := range watched {
		if string(c) == commit && commit != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	const most = 3
	if len(names) > most {
		return fmt.Sprintf("%s or one of %d others", names[0], len(names)-1)
	}
	return strings.Join(names, " or ")
}
