package progress

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// runsAgain is the pause after the reader of runs has ended.
const runsAgain = time.Second

// An Entries map names the schedule entries whose runs count, with the commit of their version.
type Entries map[string]settings.Commit

// Runs follows the scheduled runs of peels while a revision is rolled out.
type Runs struct {
	js       jetstream.JetStream
	after    uint64 // sequence in job-events; later runs are read
	reported chan<- struct{}
	log      *slog.Logger

	mu      sync.Mutex
	watched map[target.PeelID]Entries
	ready   chan struct{}            // closed when watched is set
	failed  map[target.PeelID]string // the first failure of each peel
}

// NewRuns returns a Runs for the messages of the stream job-events after a sequence. reported gets a value after a
// failed run, unless it is full.
func NewRuns(js jetstream.JetStream, after uint64, reported chan<- struct{}, log *slog.Logger) *Runs {
	return &Runs{
		js:       js,
		after:    after,
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
	consumer, err := r.js.OrderedConsumer(ctx, wire.StreamJobEvents, jetstream.OrderedConsumerConfig{
		DeliverPolicy:  jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:    r.after + 1,
		FilterSubjects: []string{wire.ScheduledOf("*", "*")},
	})
	if err != nil {
		return err
	}
	reading, err := consumer.Consume(r.onRun)
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
	r.failed[run.Peel] = fmt.Sprintf("run %s of %s %s", run.JID, run.Entry, how)
	select {
	case r.reported <- struct{}{}:
	default:
	}
}
