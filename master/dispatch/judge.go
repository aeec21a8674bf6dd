package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/seed-c01c3da5/zester/master/auth"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	judgeLimit = 5 * time.Second // for one decision
	judgeAgain = time.Second     // until the next try after none could be made
)

// A verdict is what came of judging the user of a job again.
type verdict uint8

const (
	permitted verdict = iota
	undecided         // nothing may be sent now; the watch tries again
	refused           // the job is being canceled
)

// judgeLate decides whether targets may be sent the request now. The user of the job was judged when it was dispatched,
// but may have been revoked or have other limits since. It returns the places that may be sent to, which are all of them
// unless some targets are outside the limits now: these are given up. If the user may not run the job at all it is
// canceled.
func (d *Dispatcher) judgeLate(ctx context.Context, w *watch, places []int) ([]int, verdict) {
	if d.o.Allow == nil || len(places) == 0 {
		return places, permitted
	}
	spec := w.spec
	spec.Targets = make([]target.PeelID, len(places))
	for i, place := range places {
		spec.Targets[i] = w.record.Targets[place]
	}
	err := d.judge(ctx, w.user, &spec)
	outside, isOutside := errors.AsType[*auth.OutsideError](err)
	switch {
	case err == nil:
		return places, permitted
	case isOutside:
		return d.withoutOutside(w, places, outside), permitted
	case errors.Is(err, auth.ErrNotAllowed):
		if err = d.cancelRefused(ctx, w.jid, err); err == nil {
			w.cancel()
			return nil, refused
		}
	}
	d.log.Warn("job waits until its user can be judged", "jid", w.jid, "user", w.user, "err", err)
	w.judgeAt = time.Now().Add(judgeAgain)
	return nil, undecided
}

// judge asks Allow about the user of a job by name, which is all that its record tells of him.
func (d *Dispatcher) judge(ctx context.Context, user string, spec *job.Spec) error {
	if d.o.Allow == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, judgeLimit)
	defer cancel()
	return d.o.Allow(ctx, auth.Asker{User: user}, spec)
}

// withoutOutside gives up the targets at places that are outside the limits of the job's user and returns the others.
func (d *Dispatcher) withoutOutside(w *watch, places []int, outside *auth.OutsideError) []int {
	var within, without []int
	for _, place := range places {
		if outside.Has(w.record.Targets[place]) {
			without = append(without, place)
		} else {
			within = append(within, place)
		}
	}
	d.log.Warn("job not sent to targets outside the limits of its user", "jid", w.jid, "user", w.user, "peels", len(without), "err", outside)
	w.tally.advance(without, gaveUp, unsent, silent, away)
	return within
}

// cancelRefused cancels a job because its user may not run it any longer. It returns nil if the job is canceled or has ended.
func (d *Dispatcher) cancelRefused(ctx context.Context, jid wire.JID, reason error) error {
	_, err := d.CancelBecause(ctx, jid, "master "+d.o.Owner, reason.Error())
	if errors.Is(err, ErrCanceled) || errors.Is(err, ErrEnded) {
		return nil
	}
	return err
}
