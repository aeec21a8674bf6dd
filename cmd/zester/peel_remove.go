package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/catalogue"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const removeManual = `remove removes a host from the fleet for good. Stop zester-peel on the host
first, or give --wipe. remove then

  1. revokes the credential: the bus disconnects the host and never accepts
     its key again
  2. removes the facts, the settings and the last report of the peel

If it fails in between, run it again. It prints what remains: join tokens with
which a host of this ID can join with a new key, the jobs that ran on the host,
the data directory on the host, which you can delete, and the lines of the
config repo that still name the peel.

With --wipe the peel is asked first to end its schedule, stop what runs and
delete its data directory; it does not start again. This is a job: it needs an
operator, and the audit log has it. The host has to be online, or to have
answered an earlier --wipe and be gone since. Nothing is removed if it does not
answer that it does so. That it did is the word of the host alone; its
credential is revoked in any case.

Another host can get the ID: it joins with a key of its own, which you approve.

With --keep-credential it only does the second step: if the peel connects again
it is in the fleet again. A peel that is online then needs --force too, and is
back when it next publishes its facts.

remove needs a master that follows a repo.`

func (a *app) peelRemoveCommand() *cobra.Command {
	var keep, force, wipe bool
	cmd := &cobra.Command{
		Use:   "remove PEEL",
		Short: "Remove a host for good: revoke its credential and remove its data",
		Long:  removeManual,
		Args:  words("ID of a peel"),
		PreRunE: func(*cobra.Command, []string) error {
			if force && !keep {
				return usageError("--force needs --keep-credential: a host without a credential cannot come back")
			}
			if wipe && keep {
				return usageError("--wipe is for a host that leaves for good: leave out --keep-credential")
			}
			return nil
		},
		RunE: a.onPeel(func(cmd *cobra.Command, client *api.Client, id target.PeelID, _ []string) error {
			if keep {
				return a.removeData(cmd.Context(), client, id, force)
			}
			if wipe {
				if err := a.wipe(cmd.Context(), client, id); err != nil {
					return err
				}
			}
			line := newProgress(a.errOut)
			line.show("revoking %s and removing its facts, which may take a minute", id)
			done, err := decommission(cmd.Context(), client, id)
			line.clear()
			if err != nil {
				return err
			}
			return a.print(done, []string{string(id)}, func() error { return a.describeDecommissioned(done, wipe) })
		}),
	}
	cmd.Flags().BoolVar(&keep, "keep-credential", false, "only remove its data: it may come back")
	cmd.Flags().BoolVar(&wipe, "wipe", false, "first end its schedule and delete its data on the host")
	cmd.Flags().BoolVar(&force, "force", false, "with --keep-credential: also if it is online")
	return cmd
}

// removeData removes the stored data of a peel, which may come back.
func (a *app) removeData(ctx context.Context, client *api.Client, id target.PeelID, force bool) error {
	_, err := api.SyncRemove.Ask(ctx, client, status.RemoveRequest{Peel: id, Force: force})
	if err != nil {
		hint := "--force removes it until it next publishes facts; " +
			"without --keep-credential it is removed for good"
		return hinted(err, api.CodeConflict, hint)
	}
	done := &api.Decommissioned{Peel: id, Removed: true, JoinTokens: []string{}}
	return a.printDone(done, string(id), "removed the facts, settings and report of %s; its credential stays valid", id)
}

// wipe has a peel end its schedule and delete its data. After an error the peel is as it was, or its answer is not
// known.
func (a *app) wipe(ctx context.Context, client *api.Client, id target.PeelID) error {
	seen, err := api.PeelShow.Ask(ctx, client, api.PeelRequest{Peel: id})
	if err != nil {
		return err
	}
	if !seen.Online {
		wasWiped, err := leftWiped(ctx, client, &seen.Peel)
		if err != nil || wasWiped {
			return err
		}
		return &failure{
			code: exitFailed, err: fmt.Errorf("%s is offline: it cannot delete its data, and nothing was done", id),
			hint: "without --wipe it is removed; until zester-peel is stopped there it runs the last settings",
		}
	}
	spec := api.WipeJob(wire.NewJID(), id)
	follower, err := a.start(ctx, client, spec)
	if err != nil {
		return hinted(err, api.CodeDenied, hintOperator)
	}
	defer follower.Close()

	for event, err := range follower.Events(ctx) {
		if err != nil {
			return a.detached(spec.JID, err)
		}
		if event.Return != nil {
			return wipeError(id, event.Return)
		}
	}
	return mayBeWiped(id, "no answer of the peel in "+api.WipeAnswer.String())
}

// leftWiped reports whether a peel that is offline answered an earlier peel.wipe and was not seen later than it took.
func leftWiped(ctx context.Context, client *api.Client, seen *api.Peel) (bool, error) {
	page, err := api.JobList.Ask(ctx, client, job.Query{Function: catalogue.Wipe, Target: seen.ID})
	if err != nil || len(page.Jobs) == 0 || seen.LastSeen.IsZero() {
		return false, err
	}
	newest := &page.Jobs[0]
	answered := newest.TargetCount == 1 && newest.SuccessCount == 1
	return answered && seen.LastSeen.Before(newest.Created.Add(api.WipeAnswer+wipeEnds)), nil
}

// wipeError returns nil if a peel answers that it deletes its data.
func wipeError(id target.PeelID, r *wire.Return) error {
	switch {
	case r.Success:
		return nil
	case r.Outcome == "" || r.Outcome == wire.Rejected:
		return &failure{
			code: exitFailed,
			err:  fmt.Errorf("%s does not delete its data: %s; its credential is as it was", id, plain(r.Error)),
			hint: "without --wipe it is removed, and its data directory stays on the host",
		}
	}
	return mayBeWiped(id, r.Error)
}

// mayBeWiped is the error of a peel that may have recorded that it is removed and could not say so.
func mayBeWiped(id target.PeelID, why string) error {
	return &failure{
		code: exitFailed,
		err:  fmt.Errorf("%s may have deleted its data: %s; its credential is as it was", id, plain(why)),
		hint: "without --wipe it is removed; its data directory on the host has only the file removed if it did",
	}
}

// wipeEnds is how long what runs on a peel takes to end after its answer, and then its connection.
const wipeEnds = 2 * time.Minute

func decommission(ctx context.Context, client *api.Client, id target.PeelID) (*api.Decommissioned, error) {
	d, err := api.Decommission(ctx, client, id)
	if err == nil || d == nil || d.Removed {
		return d, err
	}
	const again = "no credential of %s is valid now; run zester peel remove %[1]s again to remove the rest"
	return nil, &failure{code: exitFailed, err: err, hint: fmt.Sprintf(again, id)}
}

func (a *app) describeDecommissioned(d *api.Decommissioned, wiped bool) error {
	say := func(format string, args ...any) { fmt.Fprintln(a.out, plain(fmt.Sprintf(format, args...))) }
	if wiped {
		say("%s answers that it ends its schedule and deletes its data", d.Peel)
	}
	if d.Revoked {
		say("%s is revoked: its key is never accepted again", d.Peel)
	} else {
		say("%s has no credential: nothing was revoked", d.Peel)
	}
	if d.Removed {
		say("its facts, its settings and its last report are removed")
	} else {
		say("there were no facts and no settings to remove")
	}
	for _, name := range d.JoinTokens {
		say("remains: the join token %s admits a host of this ID with a new key; "+
			"zester auth join-token revoke %[1]s revokes it", name)
	}
	if wiped {
		say("remains: zester-peel and its peel.yaml on the host; its jobs, for 7 days")
	} else {
		say("remains: the data directory of zester-peel on the host; its jobs, for 7 days")
	}
	if d.Unread != "" {
		say("which lines of the config repo name %s is not known: %s", d.Peel, d.Unread)
	}
	for _, place := range d.Places {
		say("remains: %s in the config repo names %s", place, d.Peel)
	}
	return nil
}
