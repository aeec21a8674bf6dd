package alert

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/seed-c01c3da5/zester/master/alert/rules"
	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/notify"
	"github.com/seed-c01c3da5/zester/master/outbound"
	"github.com/seed-c01c3da5/zester/settings/sorting"
)

const (
	atOnce       = 50 // messages in a batch, without those for Alertmanager that only repeat
	repeatEvery  = time.Minute
	burst        = 10 // messages that a chat or mailbox gets at once, before one every refill
	refill       = 30 * time.Second
	backoffFirst = time.Second
	backoffMost  = 5 * time.Minute
)

// A sending is the state of the requests to one receiver or service. The loop of the term owns it.
type sending struct {
	busy  bool
	limit *rate.Limiter // nil: requests are not limited
	state api.Receiver
}

// isFree reports whether a request may be made now. If so, it takes one from the limit.
func (s *sending) isFree(now time.Time) bool {
	return !s.busy && !now.Before(s.state.Again) && (s.limit == nil || s.limit.AllowN(now, 1))
}

// ended notes the end of a request: n messages were sent, then err happened. It reports whether the receiver refused
// the next messages for good; refused is their number.
func (s *sending) ended(n, refused int, err error, now time.Time) (final bool) {
	s.busy = false
	state := &s.state
	state.Sent += uint64(n)
	state.Error, state.Again = "", time.Time{}
	known, final := errors.AsType[*outbound.Error](err)
	final = final && known.Final
	switch {
	case err == nil:
		state.Failures, state.Success = 0, now
	case final:
		state.Failures, state.Error = 0, err.Error()
		state.Refused += uint64(refused)
	default:
		state.Failures++
		state.Error, state.Again = err.Error(), now.Add(pause(state.Failures, err))
	}
	return final
}

// A delivery sends alerts to one receiver. The loop of the term owns it, except run, which is a goroutine.
type delivery struct {
	sending
	receiver *notify.Receiver
	work     chan batch
	outputs  *outputs  // of all deliveries
	repeated time.Time // when a batch last repeated the alerts that last
}

// A batch is messages for one request, and the mark that each alert gets once its message is sent.
type batch struct {
	messages []notify.AlertMessage
	marks    []rules.Mark
}

// A result says how many messages of a batch were sent, and why the others were not.
type result struct {
	d *delivery
	batch
	sent int
	err  error
}

func newDelivery(r *notify.Receiver, all *outputs) *delivery {
	d := &delivery{receiver: r, work: make(chan batch, 1), outputs: all}
	d.state = api.Receiver{Name: r.Name(), Provider: string(r.Provider())}
	if r.Joins() {
		d.limit = rate.NewLimiter(rate.Every(refill), burst)
	}
	return d
}

// run sends the batches from work until ctx ends.
func (d *delivery) run(ctx context.Context, results chan<- result) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case b := <-d.work:
			messages := b.messages
			if len(messages) == 1 || !d.receiver.Joins() { // a text about several alerts has their titles alone
				messages = d.outputs.add(ctx, messages)
			}
			sent, err := d.receiver.Send(ctx, messages)
			select {
			case <-ctx.Done():
				return ctx.Err()
			case results <- result{d, b, sent, err}:
			}
		}
	}
}

// deliver gives each receiver that is free the messages that are due.
func (t *term) deliver(now time.Time) {
	for _, d := range t.deliveries {
		b, due, repeats := t.due(d, now)
		d.state.Waiting = due
		if len(b.messages) == 0 || !d.isFree(now) {
			continue
		}
		d.busy = true
		if repeats {
			d.repeated = now
		}
		d.work <- b // there is room, as the goroutine is free
	}
}

// due returns the messages for a receiver, the oldest first, the number of alerts with a message due, and whether the
// messages repeat alerts. An alert that is not stored yet has no message in the batch.
func (t *term) due(d *delivery, now time.Time) (b batch, due int, repeats bool) {
	name := d.receiver.Name()
	repeats = d.receiver.Forgets() && now.Sub(d.repeated) >= repeatEvery
	var told []string
	for _, id := range slices.Sorted(maps.Keys(t.alerts)) {
		a := t.alerts[id]
		if !slices.Contains(t.receiversOf(&a), name) {
			continue
		}
		if _, is := a.Due(name, now); is {
			if due++; t.store.isSaved(id, a) {
				told = append(told, id)
			}
		} else if m, is := a.Repeat(name, now); is && repeats {
			b.messages, b.marks = append(b.messages, m), append(b.marks, a.Now())
		}
	}
	sorting.Stable(told, func(x, y string) int { return changed(t.alerts[x]).Compare(changed(t.alerts[y])) })
	most := atOnce
	if d.receiver.Joins() {
		most = len(told)
	}
	for _, id := range told[:min(most, len(told))] {
		a := t.alerts[id]
		m, _ := a.Due(name, now)
		b.messages, b.marks = append(b.messages, m), append(b.marks, a.Now())
	}
	return b, due, repeats
}

// changed returns when an alert ended, or when it began if it lasts.
func changed(a rules.Alert) time.Time {
	if a.Ended.IsZero() {
		return a.Began
	}
	return a.Ended
}

// delivered notes and stores which messages a receiver has got. A message that it refused for good counts as one it has
// got.
func (t *term) delivered(ctx context.Context, r result) error {
	refused := 1
	if r.d.receiver.Joins() || r.d.receiver.Forgets() {
		refused = len(r.messages) // they are one request
	}
	final := r.d.ended(r.sent, refused, r.err, time.Now())
	if final {
		r.sent += refused
	}
	if r.err != nil {
		t.o.Log.Warn("alert not sent", "receiver", r.d.receiver.Name(), "final", final, "err", r.err)
	}
	for i, m := range r.messages[:r.sent] {
		if a, known := t.alerts[m.ID]; known {
			t.alerts[m.ID] = a.With(r.d.receiver.Name(), r.marks[i])
		}
	}
	return t.save(ctx)
}

// pause returns how long to wait after a number of failures in a row. err is the last of them.
func pause(failures int, err error) time.Duration {
	if e, ok := errors.AsType[*outbound.Error](err); ok && e.After > 0 {
		return e.After
	}
	return backoffFirst + rand.N(min(backoffFirst<<min(failures, 10), backoffMost))
}
