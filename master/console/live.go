package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/status"
)

const (
	tick     = 500 * time.Millisecond
	askEvery = 4 // ticks between two requests for problems and the state of the sync
	askTime  = 2 * time.Second
	settle   = 2 * time.Second
	calm     = 10 * time.Second // between versions of the reports of peels, which come all the time
)

// A source is something that parts of pages are made of.
type source int

// The sources.
const (
	ofProblems  source = iota // what is wrong with schedules
	ofSchedules               // reports of peels on their schedules
	ofCommits                 // the reconciler
	ofFleet                   // other reports of peels
	ofJobs
	ofAuditLog
	ofAlerts
	ofHeld
	ofHosts  // enrollments
	ofAccess // people and tokens, and ends of sessions
	sources
)

// madeOf are the sources of each part of a page, by its name. Parts with one name on several pages have the sources of
// all.
var madeOf = map[string][]source{
	"acts":       {ofFleet},
	"alerts":     {ofAlerts, ofProblems},
	"audit":      {ofAuditLog},
	"commits":    {ofCommits},
	"behind":     {ofFleet, ofCommits},
	"coverage":   {ofSchedules, ofProblems},
	"day":        {ofSchedules, ofCommits},
	"entries":    {ofSchedules, ofProblems},
	"diff":       {ofCommits},
	"facts":      {ofFleet, ofSchedules},
	"jobs":       {ofJobs},
	"join":       {ofHosts},
	"lanes":      {ofSchedules},
	"load":       {ofCommits},
	"next":       {ofSchedules, ofCommits},
	"may":        {ofAccess},
	"nav":        {ofProblems, ofCommits, ofJobs, ofAlerts, ofHeld, ofHosts},
	"peels":      {ofProblems, ofFleet},
	"plan":       {ofCommits},
	"problems":   {ofProblems, ofCommits},
	"progress":   {ofJobs},
	"provenance": {ofProblems, ofCommits},
	"receivers":  {ofAlerts},
	"repo":       {ofCommits},
	"report":     {ofFleet, ofSchedules},
	"returns":    {ofJobs},
	"roles":      {ofAccess},
	"runs":       {ofSchedules, ofCommits},
	"sessions":   {ofAccess},
	"settings":   {ofCommits},
	"silences":   {ofAlerts},
	"states":     {ofFleet, ofCommits},
	"streams":    {ofCommits},
	"tally":      {ofFleet, ofCommits},
	"tokens":     {ofAccess},
	"users":      {ofAccess},
	"verdict":    {ofProblems, ofCommits},
	"waiting":    {ofHeld, ofCommits, ofHosts},
	"waves":      {ofCommits},
}

// versions are the versions of all sources. Equal versions mean that nothing has changed.
type versions [sources]uint64

// Parts returns the versions of the parts of pages by name. Versions of one master can be compared for equality alone.
func (v versions) Parts() map[string]uint64 {
	parts := make(map[string]uint64, len(madeOf))
	for name := range madeOf {
		parts[name] = v.Of(name)
	}
	return parts
}

// Of returns the version of a part; 0: there is no part of that name.
func (v versions) Of(part string) (version uint64) {
	for _, s := range madeOf[part] {
		version += v[s]
	}
	return version
}

// Access is the version of people, tokens and ended sessions.
func (v versions) Access() uint64 { return v[ofAccess] }

// errStopped: the master stops.
var errStopped = errors.New("the master stops")

// watchOptions are what a watch needs. All are required.
type watchOptions struct {
	Conn *nats.Conn
	Ask  api.Asker // as somebody who may read problems and the state of the sync
}

// A watch notices what changes on a fleet while browsers look at its pages. Each stream of a browser enters it and
// waits for new versions of parts. A change gives a part a new version within a second after a master knows of it;
// where reports of all peels change the part, as the day of the fleet, within 10 s. Nothing is asked and nothing is
// subscribed to while no stream is open.
//
// A version is new once more two seconds after the last change, because a message is seen here before the services
// that store it and answer for it have worked it in.
//
// Make it with newWatch; its methods may be called from several goroutines.
type watch struct {
	o       watchOptions
	counts  [sources]atomic.Uint64 // of messages and of new answers
	wake    chan struct{}          // has a value when the first stream enters
	stopped chan struct{}          // closed when Run returns

	mu       sync.Mutex // guards what follows
	streams  int
	versions versions
	changed  chan struct{} // closed at the next change
}

// newWatch returns a watch. It starts nothing.
func newWatch(o watchOptions) *watch {
	w := &watch{o: o, wake: make(chan struct{}, 1), stopped: make(chan struct{}), changed: make(chan struct{})}
	for s := range w.versions {
		w.versions[s] = uint64(time.Now().UnixMilli()) // so that those of another master differ
	}
	return w
}

// Enter counts a stream, until leave is called.
func (w *watch) Enter() (leave func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.streams++
	select {
	case w.wake <- struct{}{}:
	default:
	}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.streams--
	}
}

// Now returns the versions, and whether they are kept up: whether a stream is open.
func (w *watch) Now() (v versions, kept bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.versions, w.streams > 0
}

// Wait returns the versions once they differ from those that were seen. Its error is [errStopped] or the error of ctx.
func (w *watch) Wait(ctx context.Context, seen versions) (versions, error) {
	for {
		w.mu.Lock()
		now, changed := w.versions, w.changed
		w.mu.Unlock()
		if now != seen {
			return now, nil
		}
		select {
		case <-changed:
		case <-w.stopped:
			return now, errStopped
		case <-ctx.Done():
			return now, ctx.Err()
		}
	}
}

// Run watches while streams are open, until ctx ends.
func (w *watch) Run(ctx context.Context) error {
	defer close(w.stopped)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.wake:
		}
		if err := w.observe(ctx); err != nil {
			return err
		}
	}
}

// observe subscribes to what changes parts, and makes new versions until no stream is open.
func (w *watch) observe(ctx context.Context) error {
	for s, subjects := range heard {
		for _, subject := range subjects {
			sub, err := w.o.Conn.Subscribe(subject, func(m *nats.Msg) {
				if matters(m) {
					w.counts[s].Add(1)
				}
			})
			if err != nil {
				return fmt.Errorf("cannot watch %s: %w", subject, err)
			}
			defer func() { _ = sub.Unsubscribe() }() // fails where the connection is closed, which ends it as well
		}
	}
	state := watching{seed: maphash.MakeSeed()}
	for s := range state.counts {
		w.counts[s].Add(1) // nobody watched until now
	}
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if _, kept := w.Now(); !kept {
			return nil
		}
		// Reports make problems at once, and the time that passes without a report does.
		if n%askEvery == 0 || state.hasReports(w.counts[ofSchedules].Load(), time.Now()) {
			w.note(ofProblems, &state, w.problems(ctx))
		}
		if n%askEvery == 0 {
			w.note(ofCommits, &state, w.sync(ctx))
		}
		w.renew(&state, time.Now())
	}
}

// heard are the subjects of the messages that change sources.
var heard = map[source][]string{
	ofSchedules: {wire.ScheduleStateOf("*")},
	ofFleet:     {wire.Fact("*"), wire.SettingsApplied("*"), wire.StateRunOf("*")},
	ofJobs:      {wire.DispatchOf("*"), wire.StatusOf("*"), wire.StoredOf("*", "*")},
	ofAuditLog:  {"zester.audit.>"},
	ofAlerts:    {wire.KVSubject(wire.BucketAlerts, ">")},
	ofHeld:      {wire.KVSubject(wire.BucketHeld, ">")},
	ofHosts:     {wire.KVSubject(wire.BucketEnroll, ">")},
	ofAccess: {
		wire.KVSubject(wire.BucketUsers, ">"), wire.KVSubject(wire.BucketTokens, ">"),
		wire.KVSubject(wire.BucketSessions, "session.*"),
	},
}

// matters reports whether a message changes what pages show: the time of a token's or session's last use does not.
func matters(m *nats.Msg) bool {
	if strings.HasPrefix(m.Subject, wire.KVSubject(wire.BucketSessions, "")) {
		return m.Header.Get("KV-Operation") != ""
	}
	return !strings.HasPrefix(m.Subject, wire.KVSubject(wire.BucketTokens, "used."))
}

// watching is what a watch remembers while streams are open.
type watching struct {
	seed    maphash.Seed
	answers [sources]uint64    // hashes
	counts  [sources]uint64    // when the version was made
	made    [sources]time.Time // when the version was made
	again   [sources]time.Time // when the version is new once more; zero: it is not

	reports    uint64    // reports of peels on schedules that were counted
	reportedAt time.Time // when the last of them came
}

// hasReports reports whether peels have reported within the time that reports need to be worked in.
func (s *watching) hasReports(reports uint64, now time.Time) bool {
	if reports != s.reports {
		s.reports, s.reportedAt = reports, now
	}
	return now.Sub(s.reportedAt) < settle
}

// note counts an answer if it differs from the one before.
func (w *watch) note(s source, state *watching, answer []byte) {
	sum := maphash.Bytes(state.seed, answer)
	if sum != state.answers[s] {
		state.answers[s] = sum
		w.counts[s].Add(1)
	}
}

// renew makes new versions of the sources that changed, and tells all who wait.
func (w *watch) renew(state *watching, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.versions
	for s := range w.versions {
		count := w.counts[s].Load()
		switch {
		case source(s) == ofSchedules && now.Sub(state.made[s]) < calm:
		case count != state.counts[s]:
			state.counts[s] = count
			state.made[s] = now
			state.again[s] = now.Add(settle)
			if source(s) == ofAccess {
				state.again[s] = now // at the next tick: what was heard is stored then
			}
			w.versions[s]++
		case !state.again[s].IsZero() && !now.Before(state.again[s]):
			state.again[s] = time.Time{}
			w.versions[s]++
		}
	}
	if w.versions != before {
		close(w.changed)
		w.changed = make(chan struct{})
	}
}

// problems returns what is wrong, without the times of the answer. An error is an answer as well, because pages show
// it.
func (w *watch) problems(ctx context.Context) []byte {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	p, err := api.ProblemList.Ask(ctx, w.o.Ask, api.ProblemsRequest{})
	if err != nil {
		return []byte(err.Error())
	}
	p.Master, p.Now = "", time.Time{}
	text, _ := json.Marshal(p)
	return text
}

// sync returns the state of the reconciler, without what each reading of the branch changes.
func (w *watch) sync(ctx context.Context) []byte {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	s, err := api.SyncStatus.Ask(ctx, w.o.Ask, api.None{})
	if err != nil {
		return []byte(err.Error())
	}
	s.Read = time.Time{}
	s.Conditions = slices.DeleteFunc(s.Conditions, func(c status.Condition) bool {
		return c.Type == status.Reconciling
	})
	text, _ := json.Marshal(s)
	return text
}
