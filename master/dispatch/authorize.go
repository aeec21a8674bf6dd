package dispatch

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	authorizeLimit = 5 * time.Second // for one check of permissions
	authorizePause = time.Second     // between a check that failed and the next
)

// A permission is the result of checking the permissions of a job's user again.
type permission uint8

const (
	permitted  permission = iota
	unknownYet            // the check failed: nothing may be sent now, and the watch tries again
	refused               // the job is being canceled
)

// authorizeAgain decides whether targets may be sent the request now: since the dispatch the user of the job may have
// been revoked or been given other limits. It returns the places of the targets that may be sent to, and gives up
// targets that are outside the limits now. If the user may not run the job at all, the job is canceled.
func (d *Dispatcher) authorizeAgain(ctx context.Context, w *watch, places []int) ([]int, permission) {
	if d.o.Allow == nil || len(places) == 0 {
		return places, permitted
	}
	spec := w.spec
	spec.Targets = make([]target.PeelID, len(places))
	for i, place := range places {
		spec.Targets[i] = w.record.Targets[place]
	}
	err := d.authorizeUser(ctx, w.record, &spec)
	outside, isOutside := errors.AsType[*grants.OutsideError](err)
	switch {
	case err == nil:
		return places, permitted
	case isOutside:
		return d.giveUpOutside(w, places, outside), permitted
	case errors.Is(err, grants.ErrNotAllowed):
		if err = d.cancelRefused(ctx, w.jid, err); err == nil {
			w.requestRefresh()
			return nil, refused
		}
	}
	d.log.Warn("job waits until the permissions of its user can be checked", "jid", w.jid, "user", w.user, "err", err)
	w.authorizeAt = time.Now().Add(authorizePause)
	return nil, unknownYet
}

// authorizeUser calls Allow for the user of a job, in the role of the credential that asked for it. The role in the
// user's record may be from a later login. A job whose record has no role was allowed by a master, and is judged in
// the role of masters. Limits and rules that deny hold in every role.
func (d *Dispatcher) authorizeUser(ctx context.Context, record *job.Job, spec *job.Spec) error {
	if d.o.Allow == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, authorizeLimit)
	defer cancel()
	role := cmp.Or(record.Role, grants.RoleMaster)
	return d.o.Allow(ctx, grants.Caller{User: record.User, Role: role}, spec)
}

// giveUpOutside gives up the targets at places that are outside the limits of the job's user and returns the others.
func (d *Dispatcher) giveUpOutside(w *watch, places []int, outside *grants.OutsideError) []int {
	var within, without []int
	for _, place := range places {
		if outside.Has(w.record.Targets[place]) {
			without = append(without, place)
		} else {
			within = append(within, place)
		}
	}
	d.log.Warn("job not sent to targets outside the limits of its user", "jid", w.jid, "user", w.user,
		"peels", len(without), "err", outside)
	w.tally.Advance(without, GivenUp, Unsent, Silent, Unreachable)
	return within
}

// cancelRefused cancels a job whose user may no longer run it. It returns nil if the job is canceled or has ended.
func (d *Dispatcher) cancelRefused(ctx context.Context, jid wire.JID, reason error) error {
	_, err := d.Cancel(ctx, jid, "master "+d.o.Owner, reason.Error())
	if errors.Is(err, ErrCanceled) || errors.Is(err, ErrEnded) {
		return nil
	}
	return err
}
