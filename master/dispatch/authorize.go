package dispatch

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	authorizeLimit = 5 * time.Second // for one check of permissions
	authorizePause = time.Second     // between a check that failed and the next
	clocksDiffer   = time.Minute     // the clocks of two masters, at most
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
	places, err := d.giveUpRevoked(ctx, w, places)
	switch {
	case err != nil:
		return nil, d.authorizeLater(w, err)
	case d.o.Allow == nil || len(places) == 0:
		return places, permitted
	}
	spec := w.spec
	spec.Targets = w.targetsAt(places)
	err = d.authorizeUser(ctx, w.record, &spec)
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
	return nil, d.authorizeLater(w, err)
}

// authorizeLater has the watch check again after a check that failed.
func (d *Dispatcher) authorizeLater(w *watch, err error) permission {
	d.log.Warn("job waits until its user and its targets can be checked", "jid", w.jid, "user", w.user, "err", err)
	w.authorizeAt = time.Now().Add(authorizePause)
	return unknownYet
}

// giveUpRevoked gives up the targets at places whose credential was revoked since the job was made. It returns the
// places of the others.
func (d *Dispatcher) giveUpRevoked(ctx context.Context, w *watch, places []int) ([]int, error) {
	if d.o.Revoked == nil || len(places) == 0 {
		return places, nil
	}
	ctx, cancel := context.WithTimeout(ctx, authorizeLimit)
	defer cancel()
	revoked, err := d.o.Revoked(ctx, w.record.Created.Add(-clocksDiffer), w.targetsAt(places))
	if err != nil || len(revoked) == 0 {
		return places, err
	}
	slices.Sort(revoked)
	is := func(id target.PeelID) bool { _, found := slices.BinarySearch(revoked, id); return found }
	d.log.Warn("job not sent to targets that were revoked since it was made", "jid", w.jid, "peels", len(revoked),
		"peel", revoked[0])
	return w.giveUp(places, is), nil
}

// targetsAt returns the targets at places.
func (w *watch) targetsAt(places []int) []target.PeelID {
	ids := make([]target.PeelID, len(places))
	for i, place := range places {
		ids[i] = w.record.Targets[place]
	}
	return ids
}

// giveUp gives up those of the targets at places for which is holds, and returns the places of the others.
func (w *watch) giveUp(places []int, is func(target.PeelID) bool) (others []int) {
	var gone []int
	for _, place := range places {
		if is(w.record.Targets[place]) {
			gone = append(gone, place)
		} else {
			others = append(others, place)
		}
	}
	w.tally.Advance(gone, GivenUp, Unsent, Silent, Unreachable)
	return others
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
	within := w.giveUp(places, outside.Has)
	d.log.Warn("job not sent to targets outside the limits of its user", "jid", w.jid, "user", w.user,
		"peels", len(places)-len(within), "err", outside)
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
