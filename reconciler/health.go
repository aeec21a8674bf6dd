package reconciler

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/target"
	"github.com/seed-c01c3da5/zester/settings/top"
)

// applyLimit is how long a peel that is online may take to apply a revision before it counts as failed in its wave.
const applyLimit = 5 * time.Minute

// A verdict says what is to become of a wave.
type verdict string

const (
	waveWaits   verdict = "waits" // for peels to apply it, or to come online
	waveApplied verdict = "applied"
	waveSoaks   verdict = "soaks"
	wavePassed  verdict = "passed"
	waveFailed  verdict = "failed"
)

// health is how the peels are that a rollout changes and has reached.
type health struct {
	peels   int
	applied int
	pending int // online, and has not applied it
	offline int
	failed  []string // peels with what went wrong, sorted
}

// judge says how a wave is at now. Peels that are offline are not waited for, but one has to have applied it at least.
func judge(r *record.Rollout, w top.Wave, h health, now time.Time) verdict {
	switch {
	case len(h.failed) > w.MaxFailures.Within(h.peels):
		return waveFailed
	case !r.Soaking.IsZero() && now.Sub(r.Soaking) >= w.Soak:
		return wavePassed
	case !r.Soaking.IsZero():
		return waveSoaks
	case h.applied == 0 && len(h.failed) == 0 || h.pending > 0:
		return waveWaits
	}
	return waveApplied
}

// failures names what failed, as much of it as a status has room for.
func (h health) failures(allowed int) string {
	const most = 5
	text := strings.Join(h.failed[:min(most, len(h.failed))], "; ")
	if more := len(h.failed) - most; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return fmt.Sprintf("%d of %d peels, %d may: %s", len(h.failed), h.peels, allowed, text)
}

// mark stands for the text of an error in a record.
func mark(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

// news is the first error that no peel had before the rollout began, empty if there is none.
func news(r *record.Rollout, errs []string) string {
	for _, text := range errs {
		if _, known := slices.BinarySearch(r.Known, mark(text)); !known {
			return text
		}
	}
	return ""
}

// health looks at the peels that have the revision. A peel has failed if, since the wave began, it reported an error of
// its settings that none had before, or a run of an entry in the version that the revision brings was not a success, or if it is online and
// has not applied the revision within applyLimit.
func (t *term) health() (h health) {
	r, now := t.last.Rollout, time.Now()
	failedRuns := t.rolling.runs.failures()
	for id := range t.rolling.plan.Peels {
		if !r.Reaches(id) || !t.rolling.changes(id) {
			continue
		}
		h.peels++
		seen := t.progress.seen(id)
		if !seen.applied && seen.online {
			if t.rolling.late[id].IsZero() {
				t.rolling.late[id] = now
			}
		} else {
			delete(t.rolling.late, id)
		}
		since, late := t.rolling.late[id]
		switch {
		case failedRuns[id] != "":
			h.failed = append(h.failed, string(id)+": "+failedRuns[id])
		case seen.sequence > r.Reports && news(r, seen.errors) != "":
			h.failed = append(h.failed, string(id)+": "+news(r, seen.errors))
		case seen.applied:
			h.applied++
		case late && now.Sub(since) >= applyLimit && r.Soaking.IsZero():
			h.failed = append(h.failed, fmt.Sprintf("%s: it has not applied the revision within %s", id, applyLimit))
		case seen.online:
			h.pending++
		default:
			h.offline++
		}
	}
	slices.Sort(h.failed)
	return h
}

// runs follows what peels report of their own schedules while a revision is rolled out.
type runs struct {
	cancel context.CancelFunc
	done   chan struct{}
	log    *slog.Logger
	news   chan<- struct{}

	mu      sync.Mutex
	watched map[target.PeelID]map[string]settings.Commit // entries that count, by the commit of their version
	ready   chan struct{}                                // closed when watched is set
	failed  map[target.PeelID]string                     // the first failure of each peel
}

// followRuns reads the reports that come after a message of job-events, until stop.
func followRuns(js jetstream.JetStream, after uint64, news chan<- struct{}, log *slog.Logger) *runs {
	ctx, cancel := context.WithCancel(context.Background())
	r := &runs{cancel: cancel, done: make(chan struct{}), log: log, news: news, ready: make(chan struct{}), failed: map[target.PeelID]string{}}
	go func() {
		defer close(r.done)
		for ctx.Err() == nil {
			err := r.follow(ctx, js, after)
			if ctx.Err() == nil {
				log.Warn("runs of the wave are read again", "err", err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	}()
	return r
}

func (r *runs) stop() {
	r.cancel()
	<-r.done
}

// watch says which runs count from now on.
func (r *runs) watch(watched map[target.PeelID]map[string]settings.Commit) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.watched == nil {
		close(r.ready)
	}
	r.watched = watched
}

func (r *runs) failures() map[target.PeelID]string {
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

func (r *runs) follow(ctx context.Context, js jetstream.JetStream, after uint64) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-r.ready:
	}
	consumer, err := js.OrderedConsumer(ctx, "job-events", jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: after + 1, FilterSubjects: []string{wire.ScheduledOf("*", "*")},
	})
	if err != nil {
		return err
	}
	reading, err := consumer.Consume(r.hear)
	if err != nil {
		return err
	}
	defer func() { reading.Stop(); <-reading.Closed() }()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-reading.Closed():
		return fmt.Errorf("the reader ended")
	}
}

// hear takes a run into account. What a person canceled, or the peel did not start, tells nothing of the revision.
func (r *runs) hear(m jetstream.Msg) {
	run, err := wire.DecodeScheduled(&nats.Msg{Subject: m.Subject(), Header: m.Headers(), Data: m.Data()})
	if err != nil || run.Success || run.Outcome != "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	commit, counts := r.watched[run.Peel][run.Entry]
	if !counts || commit != settings.Commit(run.Commit) || r.failed[run.Peel] != "" {
		return
	}
	r.failed[run.Peel] = fmt.Sprintf("run %s of %s failed", run.JID, run.Entry)
	select {
	case r.news <- struct{}{}:
	default:
	}
}
