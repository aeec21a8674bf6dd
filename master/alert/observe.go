package alert

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/alert/rules"
	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/policy"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	lookEvery  = 10 * time.Second // between two readings
	lookLimit  = 5 * time.Second
	lookExpiry = time.Minute // age after which the state of the reconciler counts as unknown
)

// A looker reads the alert rules from the bucket rollout, and asks the reconciler for its state.
type looker struct {
	o       Options
	rollout jetstream.KeyValue

	mu          sync.Mutex
	rules       []policy.Alert
	rulesErr    error
	rulesRead   bool
	revision    []verdict.Problem
	revisionErr error
	replied     time.Time // when the reconciler last replied
}

// run reads until ctx ends.
func (l *looker) run(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		l.look(ctx)
	}
}

func (l *looker) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	read, _, rulesErr := policy.LoadAlerts(ctx, l.rollout)
	revision, err := l.ask(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rulesErr = rulesErr; rulesErr == nil {
		l.rules, l.rulesRead = read, true
	}
	if l.revisionErr = err; err == nil {
		l.revision, l.replied = revision, time.Now()
	}
}

// ask asks the reconciler for its state and returns the problems of revisions.
func (l *looker) ask(ctx context.Context) ([]verdict.Problem, error) {
	msg, err := l.o.Conn.RequestWithContext(ctx, wire.API("sync", "status", l.o.Owner), nil)
	if err == nil {
		err = api.ReplyError(msg)
	}
	var s status.Sync
	if err == nil {
		err = canon.Unmarshal(msg.Data, &s)
	}
	if err != nil {
		return nil, fmt.Errorf("the reconciler does not reply: %w", err)
	}
	return verdict.OfRevision(&s, time.Now()), nil
}

// seen is the result of the newest readings.
type seen struct {
	rules       []policy.Alert
	isDefault   bool
	unread      error // why the last reading of the rules failed
	known       bool  // the rules have been read at least once
	revision    []verdict.Problem
	revisionErr error // nil while the problems of revisions are known
}

func (l *looker) seen(now time.Time) seen {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := seen{rules: l.rules, unread: l.rulesErr, known: l.rulesRead, revision: l.revision}
	if len(s.rules) == 0 {
		s.rules, s.isDefault = policy.DefaultAlerts, true
	}
	if l.replied.IsZero() || now.Sub(l.replied) > lookExpiry {
		s.revisionErr = l.revisionErr
		if s.revisionErr == nil {
			s.revisionErr = fmt.Errorf("the reconciler has not replied since %s", l.replied.UTC().Format(time.RFC3339))
		}
	}
	return s
}

// A selection holds the peels that each rule selects by its target. It computes them again when the rules or the facts
// change.
type selection struct {
	o       Options
	rules   []policy.Alert
	version uint64
	made    []rules.Rule
}

// of returns the rules with their peels.
func (s *selection) of(all []policy.Alert) []rules.Rule {
	index := s.o.Fleet.Index()
	version := index.Version()
	if s.made != nil && version == s.version && policy.EqualAlerts(all, s.rules) {
		return s.made
	}
	made := make([]rules.Rule, 0, len(all))
	for _, a := range all {
		r := rules.Rule{Alert: a, Peels: index.Len()}
		if a.Target != "" {
			expr, err := target.Parse(a.Target, target.Options{NoSettings: true})
			if err != nil { // the reconciler parsed it before it stored the rule
				s.o.Log.Warn("target of an alert rule not read", "rule", a.Name, "err", err)
				continue
			}
			selected := map[target.PeelID]bool{}
			for _, id := range index.Select(expr) {
				selected[id] = true
			}
			r.Peels, r.Selects = len(selected), func(id target.PeelID) bool { return selected[id] }
		}
		made = append(made, r)
	}
	s.rules, s.version, s.made = all, version, made
	return made
}
