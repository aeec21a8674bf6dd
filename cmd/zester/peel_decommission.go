package main

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const decommissionManual = `decommission takes a host out of the fleet for good, in this order, each step of which may be repeated:

  1. its credential is revoked: the bus cuts the connection, and the key of the host is never accepted again
  2. its facts, its settings and its last report are removed, so that it counts nowhere

It needs no --force, because a peel without a credential cannot come back. What it leaves is printed: join tokens that
let in a host of this name with a new key, and what is on the host itself. Jobs that ran there are kept as long as all
others. Before that, stop zester-peel on the host; after it, delete its data directory there.

The ID can be given to another host: it joins with a key of its own and an approval.`

// A decommissioned is what became of a peel, as data.
type decommissioned struct {
	Peel    target.PeelID `json:"peel"`
	Revoked bool          `json:"revoked"` // false: it had no credential that a master knows of
	Removed bool          `json:"removed"` // false: nothing was kept of it
	// JoinTokens are the names of the tokens by which a host of this ID may still join.
	JoinTokens []string `json:"join_tokens"`
}

func (a *app) peelDecommissionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "decommission <peel>",
		Short: "Take a host out of the fleet: revoke its credential and remove what is kept of it",
		Long:  decommissionManual,
		Args:  words("ID of a peel"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := target.ParsePeelID(args[0])
			if err != nil {
				return usageError("%w", err)
			}
			return a.withClient(func(client *api.Client) error {
				line := newProgress(a.errOut)
				line.show("revoking %s and removing its facts, which may take a minute", id)
				done, err := decommission(cmd.Context(), client, id)
				line.clear()
				if err != nil {
					return err
				}
				return a.print(done, []string{string(id)}, func() error { return a.describeDecommissioned(done) })
			})
		},
	}
}

// decommission revokes first: a peel that has its credential would tell its facts again.
func decommission(ctx context.Context, client *api.Client, id target.PeelID) (*decommissioned, error) {
	d := &decommissioned{Peel: id, JoinTokens: []string{}}
	var err error
	if d.Revoked, err = revokePeel(ctx, client, id); err != nil {
		return nil, err
	}
	switch err := client.RemovePeel(ctx, id, true); {
	case err == nil:
		d.Removed = true
	case !strings.Contains(err.Error(), "no such peel is known"):
		return nil, &failure{
			code: exitFailed, err: err, hint: fmt.Sprintf("the credential of %s is revoked; zester peel decommission %[1]s goes on", id),
		}
	case !d.Revoked:
		return nil, err
	}
	tokens, err := client.JoinList(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range tokens {
		if fits, _ := path.Match(t.Peel, string(id)); fits && t.Uses > 0 {
			d.JoinTokens = append(d.JoinTokens, t.Name)
		}
	}
	return d, nil
}

// revokePeel ends whatever lets a peel in. It reports whether there was anything.
func revokePeel(ctx context.Context, client *api.Client, id target.PeelID) (bool, error) {
	all, err := client.EnrollList(ctx)
	if err != nil {
		return false, err
	}
	for _, e := range all {
		switch {
		case e.ID != id:
		case e.State == auth.Rejected:
			return true, nil
		case e.State == auth.Pending:
			_, err := client.EnrollReject(ctx, api.EnrollName{ID: id})
			return err == nil, err
		}
	}
	_, err = client.EnrollRevoke(ctx, api.EnrollName{ID: id})
	if api.CodeOf(err) == api.CodeNotFound {
		return false, nil
	}
	return err == nil, err
}

func (a *app) describeDecommissioned(d *decommissioned) error {
	say := func(format string, args ...any) { fmt.Fprintln(a.out, plain(fmt.Sprintf(format, args...))) }
	if d.Revoked {
		say("%s is revoked: its key is never accepted again", d.Peel)
	} else {
		say("%s has no credential that a master knows of", d.Peel)
	}
	if d.Removed {
		say("its facts, its settings and its last report are removed")
	} else {
		say("no facts and no settings of it are kept")
	}
	for _, name := range d.JoinTokens {
		say("remains: the join token %s lets in a host of this name that has a new key; zester enroll token revoke %[1]s ends it", name)
	}
	say("remains: the data directory of zester-peel on the host; its jobs, as long as all others")
	return nil
}
