package alert

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/master/alert/rules"
	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/access"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/master/notify"
	"github.com/seed-c01c3da5/zester/master/service"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	servedAtOnce = 32
	testLimit    = 8 * time.Second // for a test message
	maxSilences  = 200
	maxRequest   = 4 << 10 // bytes
)

// serve answers zester.api.alert.* until ctx ends.
func (t *term) serve(ctx context.Context) error {
	return service.Serve(ctx, service.Options{
		Conn:       t.o.Conn,
		Lane:       service.NewLane(servedAtOnce, 0),
		MaxRequest: maxRequest,
		Record:     t.o.Audit.Write,
		Log:        t.o.Log,
		Metrics:    t.o.Metrics,
		Verbs: []service.Verb{
			service.On(api.AlertList, t.list),
			service.On(api.AlertReceivers, t.status),
			service.On(api.AlertSilence, t.silence),
			service.On(api.AlertUnsilence, t.unsilence),
			service.On(api.AlertTest, t.test),
		},
	})
}

func refuse(format string, args ...any) error {
	return &api.Error{Code: api.CodeInvalid, Msg: fmt.Sprintf(format, args...)}
}

// list returns the alerts, with only the peels that the caller may read.
func (t *term) list(ctx context.Context, c *service.Call, q api.AlertsRequest) (*api.AlertsAnswer, error) {
	a := &api.AlertsAnswer{Alerts: []api.Alert{}}
	groups := map[string][]target.PeelID{}
	if err := t.ask(ctx, func(context.Context) {
		for _, id := range slices.Sorted(maps.Keys(t.alerts)) {
			if v := t.view(t.alerts[id]); q.Ended || v.State != api.AlertEnded {
				a.Alerts = append(a.Alerts, v)
				groups[id] = t.outcome.Groups[id]
				if groups[id] == nil {
					groups[id] = v.Names
				}
			}
		}
		a.Silences = sorting.Values(maps.Values(t.store.silences), func(x, y api.Silence) int {
			return cmp.Or(x.Until.Compare(y.Until), cmp.Compare(x.ID, y.ID))
		})
		a.Stale, a.Dropped = t.stale, t.outcome.Dropped
	}); err != nil {
		return nil, err
	}
	peels, err := t.o.Within(ctx, c.From)
	if err != nil {
		return nil, err
	}
	if !peels.All {
		a.Alerts = within(a.Alerts, groups, peels)
		a.Dropped = 0
	}
	return a, nil
}

// within returns the alerts for a caller with limits: without the alerts and the names of peels that are not in
// readable.
func within(alerts []api.Alert, groups map[string][]target.PeelID, readable access.Peels) []api.Alert {
	seen := alerts[:0]
	for _, v := range alerts {
		if slices.Contains(v.Troubles, verdict.BreakGlass) {
			continue // it tells of an entry of the audit log
		}
		if v.Peels > 0 {
			group := slices.DeleteFunc(slices.Clone(groups[v.ID]), func(p target.PeelID) bool {
				return !readable.Has(p)
			})
			if len(group) == 0 {
				continue
			}
			if !slices.Contains(v.Names[:min(1, len(v.Names))], group[0]) {
				v.Text = "" // it is the reason of the first peel, which the caller may not read
			}
			v.Peels, v.Names = len(group), group[:min(len(group), len(v.Names))]
		}
		seen = append(seen, v)
	}
	return seen
}

func (t *term) status(ctx context.Context, _ *service.Call, _ api.None) (*api.AlertStatus, error) {
	s := &api.AlertStatus{Owner: t.o.Owner, Since: t.since.UTC(), Alive: t.alive.seen(), Receivers: []api.Receiver{}}
	err := t.ask(ctx, func(context.Context) {
		s.Rules, s.Default, s.Stale = len(t.seen.rules), t.seen.isDefault, t.stale
		for _, a := range t.alerts {
			if a.Lasts() {
				s.Firing++
			}
		}
		if t.seen.revisionErr != nil {
			s.Revision = t.seen.revisionErr.Error()
		}
		if t.storeErr != nil {
			s.Storage = t.storeErr.Error()
		}
		for _, d := range t.deliveries {
			s.Receivers = append(s.Receivers, d.state)
		}
		for _, p := range t.pingers {
			state := p.state
			state.Error = cmp.Or(state.Error, p.plan.Problem)
			s.Receivers = append(s.Receivers, state)
		}
		s.Receivers = append(s.Receivers, t.missing()...)
	})
	return s, err
}

// missing returns a state for each name under notify that is no receiver of alerts in master.yaml.
func (t *term) missing() (all []api.Receiver) {
	in := map[string][]string{}
	for _, r := range t.seen.rules {
		for _, name := range r.Notify {
			if !slices.ContainsFunc(t.deliveries, func(d *delivery) bool { return d.receiver.Name() == name }) {
				in[name] = append(in[name], r.Name)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(in)) {
		why := "master.yaml of " + t.o.Owner + " has no receiver of this name"
		if t.hasPinger(name) {
			why = "it watches the runs of entries and gets no alerts"
		}
		all = append(all, api.Receiver{Name: name, Unknown: in[name], Error: why})
	}
	return all
}

// hasPinger reports whether a service that is pinged has the name.
func (t *term) hasPinger(name string) bool {
	return slices.ContainsFunc(t.pingers, func(p *pinger) bool { return p.service.Name() == name })
}

// silence stores a new silence.
func (t *term) silence(ctx context.Context, c *service.Call, q api.SilenceRequest) (*api.Silence, error) {
	c.About.Target = q.Match
	switch {
	case q.For <= 0:
		return nil, refuse("cannot silence %q: a silence needs an end; name its time, such as 2h", q.Match)
	case q.For > api.MaxSilence:
		return nil, refuse("cannot silence %q for %v: 30d is the longest", q.Match, q.For)
	case strings.TrimSpace(q.Reason) == "" || len(q.Reason) > api.MaxSilenceReason:
		return nil, refuse("cannot silence %q: a silence needs a reason of at most %d bytes", q.Match,
			api.MaxSilenceReason)
	}
	if err := rules.CheckMatch(q.Match); err != nil {
		return nil, refuse("cannot silence: %v", err)
	}
	now := time.Now().UTC().Truncate(time.Second)
	s := api.Silence{
		ID:     strings.ToLower(rand.Text()[:8]),
		Match:  q.Match,
		Until:  now.Add(q.For),
		By:     c.From.User,
		Reason: audit.Bounded(q.Reason, api.MaxSilenceReason),
		Time:   now,
	}
	var err error
	asked := t.ask(ctx, func(ctx context.Context) {
		if len(t.store.silences) >= maxSilences {
			err = &api.Error{
				Code: api.CodeConflict,
				Msg: fmt.Sprintf(
					"cannot silence %q: there are %d silences, which is the limit; end one with zester alert unsilence",
					q.Match, maxSilences,
				),
			}
			return
		}
		if err = t.store.put(ctx, silencePrefix+s.ID, s); err != nil {
			err = fmt.Errorf("cannot store the silence: %w", err)
			return
		}
		t.store.silences[s.ID] = s
	})
	if err := errors.Join(asked, err); err != nil {
		return nil, err
	}
	t.o.Log.Info("alerts silenced", "silence", s.ID, "match", s.Match, "until", s.Until, "by", s.By)
	return &s, nil
}

// unsilence removes a silence before its end.
func (t *term) unsilence(ctx context.Context, c *service.Call, q api.SilenceID) (s *api.Silence, err error) {
	c.About.Target = q.ID
	asked := t.ask(ctx, func(ctx context.Context) {
		known, ok := t.store.silences[q.ID]
		if !ok {
			err = &api.Error{
				Code: api.CodeNotFound,
				Msg:  fmt.Sprintf("there is no silence %.40q; zester alert list shows those there are", q.ID),
			}
			return
		}
		if err = t.store.remove(ctx, silencePrefix+q.ID); err == nil {
			delete(t.store.silences, q.ID)
			s = &known
		}
	})
	if err := errors.Join(asked, err); err != nil {
		return nil, err
	}
	t.o.Log.Info("silence ended", "silence", s.ID, "match", s.Match, "by", c.From.User)
	return s, nil
}

// test sends a test message to a receiver at once, whatever else is being sent to it, and returns the state of the
// receiver.
func (t *term) test(ctx context.Context, c *service.Call, q api.ReceiverName) (*api.Receiver, error) {
	c.About.Target = q.Name
	if t.hasPinger(q.Name) {
		return nil, refuse(
			"cannot send a test message to %q: it watches the runs of entries and gets no messages; "+
				"zester alert status shows whether it can be reached",
			q.Name,
		)
	}
	i := slices.IndexFunc(t.deliveries, func(d *delivery) bool { return d.receiver.Name() == q.Name })
	if i < 0 {
		names := make([]string, len(t.deliveries))
		for i, d := range t.deliveries {
			names[i] = d.receiver.Name()
		}
		have := "it has " + strings.Join(names, ", ")
		if len(names) == 0 {
			have = "it has none"
		}
		return nil, &api.Error{
			Code: api.CodeNotFound,
			Msg:  fmt.Sprintf("master.yaml of %s has no receiver %.40q; %s", t.o.Owner, q.Name, have),
		}
	}
	now, d := time.Now(), t.deliveries[i]
	limited, cancel := context.WithTimeout(ctx, testLimit)
	defer cancel()
	if _, err := d.receiver.Send(limited, []notify.AlertMessage{{
		ID:      "test/" + q.Name,
		Event:   strings.ToLower(rand.Text()),
		Phase:   notify.AlertTest,
		Rule:    "zester-test",
		Subject: "test",
		Began:   now,
		Time:    now,
	}}); err != nil {
		return nil, err
	}
	t.o.Log.Info("test message sent", "receiver", q.Name, "by", c.From.User)
	var state api.Receiver
	err := t.ask(ctx, func(context.Context) {
		d.state.Sent++
		d.state.Failures = 0
		d.state.Error = ""
		d.state.Again = time.Time{}
		d.state.Success = time.Now()
		state = d.state
	})
	return &state, err
}
