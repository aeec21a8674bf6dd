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

	"github.com/seed-c01c3da5/zester/master/alert/receiver"
	"github.com/seed-c01c3da5/zester/master/alert/rules"
	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/reply"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
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
	service := reply.NewService(ctx, t.o.Conn)
	defer service.Stop()
	slots := make(chan struct{}, servedAtOnce)
	for verb, answer := range map[string]handler{
		"list": handle(t.list), "status": handle(t.status),
		"silence": t.audited("silence", handle(t.silence)), "unsilence": t.audited("unsilence", handle(t.unsilence)), "test": t.audited("test", handle(t.test)),
	} {
		if err := service.HandleEach(wire.API("alert", verb, "*"), slots, func(ctx context.Context, req *reply.Request) {
			t.respond(ctx, req, answer)
		}); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

// A handler answers a request. about names the silence or receiver of the request, for the audit log.
type handler func(ctx context.Context, from grants.Caller, data []byte) (answer any, about string, err error)

// handle makes a handler of a function from request to answer.
func handle[Q, A any](f func(ctx context.Context, from grants.Caller, q Q) (*A, error)) handler {
	return func(ctx context.Context, from grants.Caller, data []byte) (any, string, error) {
		q, err := decode[Q](data)
		if err != nil {
			return nil, "", err
		}
		answer, err := f(ctx, from, q)
		return answer, aboutOf(q), err
	}
}

// decode reads a request. An empty message is a request whose fields are all zero.
func decode[Q any](data []byte) (q Q, err error) {
	if len(data) > maxRequest {
		return q, refuse("the request has %d bytes, the limit is %d", len(data), maxRequest)
	}
	if len(data) > 0 {
		if err := canon.Unmarshal(data, &q); err != nil {
			return q, refuse("the request is not valid: %v", err)
		}
	}
	return q, nil
}

// aboutOf returns the match or ID of a silence, or the name of a receiver, that a request has.
func aboutOf(q any) string {
	switch q := q.(type) {
	case api.SilenceRequest:
		return q.Match
	case api.SilenceID:
		return q.ID
	case api.ReceiverName:
		return q.Name
	}
	return ""
}

func refuse(format string, args ...any) error {
	return &api.Error{Code: api.CodeInvalid, Msg: fmt.Sprintf(format, args...)}
}

// audited returns a handler that stores the request and its result in the audit log before it returns.
func (t *term) audited(verb string, h handler) handler {
	return func(ctx context.Context, from grants.Caller, data []byte) (any, string, error) {
		answer, about, err := h(ctx, from, data)
		code := api.CodeOf(err)
		e := audit.Entry{Action: "alert." + verb, Target: about}.Ended(err, code != "" && code != api.CodeUnavailable)
		t.o.Audit.Write(ctx, e.By(from))
		return answer, about, err
	}
}

func (t *term) respond(ctx context.Context, req *reply.Request, h handler) {
	answer, _, err := h(ctx, grants.CallerOf(req.Subject(), req.Headers()), req.Data())
	var data []byte
	if err == nil {
		data, err = canon.Marshal(answer)
	}
	if err := reply.Send(t.o.Conn, req, data, string(cmp.Or(api.CodeOf(err), api.CodeUnavailable)), err); err != nil {
		t.o.Log.Debug("reply not sent", "subject", req.Subject(), "err", err)
	}
}

// list returns the alerts, with only the peels that the caller may read.
func (t *term) list(ctx context.Context, from grants.Caller, q api.AlertsRequest) (*api.AlertsAnswer, error) {
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
		a.Silences = slices.SortedFunc(maps.Values(t.store.silences), func(x, y api.Silence) int { return cmp.Or(x.Until.Compare(y.Until), cmp.Compare(x.ID, y.ID)) })
		a.Stale, a.Dropped = t.stale, t.outcome.Dropped
	}); err != nil {
		return nil, err
	}
	peels, all, err := t.o.Within(ctx, from)
	if err != nil {
		return nil, err
	}
	if !all {
		a.Alerts = within(a.Alerts, groups, peels)
	}
	return a, nil
}

// within returns the alerts for a caller with limits: without the alerts and the names of peels that are not in readable, which is
// sorted.
func within(alerts []api.Alert, groups map[string][]target.PeelID, readable []target.PeelID) []api.Alert {
	seen := alerts[:0]
	for _, v := range alerts {
		if v.Peels > 0 {
			group := slices.DeleteFunc(slices.Clone(groups[v.ID]), func(p target.PeelID) bool { _, may := slices.BinarySearch(readable, p); return !may })
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

func (t *term) status(ctx context.Context, _ grants.Caller, _ struct{}) (*api.AlertStatus, error) {
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
func (t *term) silence(ctx context.Context, from grants.Caller, q api.SilenceRequest) (*api.Silence, error) {
	switch {
	case q.For <= 0:
		return nil, refuse("cannot silence %q: a silence needs an end; name its time, such as 2h", q.Match)
	case q.For > api.MaxSilence:
		return nil, refuse("cannot silence %q for %v: 30d is the longest", q.Match, q.For)
	case strings.TrimSpace(q.Reason) == "" || len(q.Reason) > api.MaxSilenceReason:
		return nil, refuse("cannot silence %q: a silence needs a reason of at most %d bytes", q.Match, api.MaxSilenceReason)
	}
	if err := rules.CheckMatch(q.Match); err != nil {
		return nil, refuse("cannot silence: %v", err)
	}
	now := time.Now().UTC().Truncate(time.Second)
	s := api.Silence{
		ID: strings.ToLower(rand.Text()[:8]), Match: q.Match, Until: now.Add(q.For), By: from.User, Reason: audit.Bounded(q.Reason, api.MaxSilenceReason), Time: now,
	}
	var err error
	asked := t.ask(ctx, func(ctx context.Context) {
		if len(t.store.silences) >= maxSilences {
			err = &api.Error{Code: api.CodeConflict, Msg: fmt.Sprintf("cannot silence %q: there are %d silences, which is the limit; end one with zester alert unsilence", q.Match, maxSilences)}
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
func (t *term) unsilence(ctx context.Context, from grants.Caller, q api.SilenceID) (s *api.Silence, err error) {
	asked := t.ask(ctx, func(ctx context.Context) {
		known, ok := t.store.silences[q.ID]
		if !ok {
			err = &api.Error{Code: api.CodeNotFound, Msg: fmt.Sprintf("there is no silence %.40q; zester alert list shows those there are", q.ID)}
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
	t.o.Log.Info("silence ended", "silence", s.ID, "match", s.Match, "by", from.User)
	return s, nil
}

// test sends a test message to a receiver at once, whatever else is being sent to it, and returns the state of the receiver.
func (t *term) test(ctx context.Context, from grants.Caller, q api.ReceiverName) (*api.Receiver, error) {
	if t.hasPinger(q.Name) {
		return nil, refuse("cannot send a test message to %q: it watches the runs of entries and gets no messages; zester alert status shows whether it can be reached", q.Name)
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
		return nil, &api.Error{Code: api.CodeNotFound, Msg: fmt.Sprintf("master.yaml of %s has no receiver %.40q; %s", t.o.Owner, q.Name, have)}
	}
	now, d := time.Now(), t.deliveries[i]
	limited, cancel := context.WithTimeout(ctx, testLimit)
	defer cancel()
	if _, err := d.receiver.Send(limited, []receiver.Message{{
		ID: "test/" + q.Name, Event: strings.ToLower(rand.Text()), Phase: receiver.Test, Rule: "zester-test", Subject: "test", Began: now, Time: now,
	}}); err != nil {
		return nil, err
	}
	t.o.Log.Info("test message sent", "receiver", q.Name, "by", from.User)
	var state api.Receiver
	err := t.ask(ctx, func(context.Context) {
		d.state.Sent++
		d.state.Failures, d.state.Error, d.state.Again, d.state.Success = 0, "", time.Time{}, time.Now()
		state = d.state
	})
	return &state, err
}
