package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func (a *app) joinTokenCommand() *cobra.Command {
	return group("join-token", "Manage the tokens with which hosts join without approval", a.joinCreateCommand(),
		listCommand(a, cobra.Command{Use: "list", Short: "List join tokens"},
			api.JoinList, func(r *api.JoinTokensAnswer) []credential.JoinToken { return r.Tokens }, joinTokensTable),
		a.joinRevokeCommand())
}

func (a *app) authPeelCommand() *cobra.Command {
	return group("peel", "Approve hosts that ask to join, and revoke peels",
		a.enrollListCommand(), a.enrollApproveCommand(),
		a.enrollEndCommand("reject", "Reject a peel that waits for approval", api.EnrollReject),
		a.enrollEndCommand("revoke", "Revoke the credential of a peel and disconnect it", api.EnrollRevoke))
}

func (a *app) enrollListCommand() *cobra.Command {
	var state string
	cmd := &cobra.Command{
		Use:   "list [PEEL]",
		Short: "List peels that joined or wait for approval",
		Long: `list shows all peels that joined or wait for approval. With a PEEL it shows when
this one joined, who approved it, and its key.`,
		Args: atMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && state != "" {
				return usageError("cannot use --state with a peel: leave out one of them")
			}
			if len(args) > 0 {
				return a.showEnrolled(cmd, args[0])
			}
			q := api.EnrollQuery{State: credential.EnrollState(state)}
			peels, err := a.enrolled(cmd, q, func(e *credential.Enrolled) bool {
				return state == "" || string(e.State) == state
			})
			if err != nil {
				return err
			}
			return a.show(peels, enrolledTable(peels))
		},
	}
	cmd.Flags().StringVar(&state, "state", "", "only peels in `STATE`: pending, accepted, rejected or revoked")
	return cmd
}

func enrolledTable(peels []credential.Enrolled) table {
	t := table{
		header: []string{"PEEL", "STATE", "SINCE", "BY", "ENDS", "CONFLICT", "FROM", "KEY"}, states: []string{"STATE"},
		narrow: []string{"CONFLICT"}, drop: []string{"ENDS", "BY"}, wide: []string{"FROM", "KEY"},
	}
	for _, e := range peels {
		last, conflict := e.History[len(e.History)-1], ""
		if e.Conflicting != nil {
			conflict = "another key from " + cmp.Or(e.Conflicting.From, "an unknown address") + " at " +
				when(e.Conflicting.Time)
		}
		t.add(string(e.ID), string(e.State), clock(last.Time), last.By, clock(e.Expires), conflict, e.From, e.Public)
	}
	return t
}

// showEnrolled prints when a peel joined and who approved it.
func (a *app) showEnrolled(cmd *cobra.Command, id string) error {
	peels, err := a.enrolled(cmd, api.EnrollQuery{ID: target.PeelID(id)}, func(e *credential.Enrolled) bool {
		return string(e.ID) == id
	})
	if err != nil {
		return err
	}
	if len(peels) == 0 {
		return &failure{
			code: exitFailed,
			err:  fmt.Errorf("no master knows the credential of a peel %q", id),
			hint: "zester auth peel list shows all peels that joined",
		}
	}
	e := peels[0]
	return a.print(e, []string{string(e.ID)}, func() error {
		t := table{header: []string{"TIME", "STATE", "BY"}}
		for _, step := range e.History {
			t.add(when(step.Time), string(step.State), step.By)
		}
		fmt.Fprintf(a.out, "%s is %s, with the key %s\n", e.ID, e.State, e.Public)
		if e.Conflicting != nil {
			fmt.Fprintf(a.out, "a host with another key, %s, asked for the same ID from %s at %s\n",
				e.Conflicting.Public, cmp.Or(e.Conflicting.From, "an unknown address"), when(e.Conflicting.Time))
		}
		return a.printTable(t)
	})
}

func (a *app) enrolled(cmd *cobra.Command, q api.EnrollQuery,
	wanted func(*credential.Enrolled) bool,
) (peels []credential.Enrolled, err error) {
	peels = []credential.Enrolled{}
	err = a.withClient(func(client *api.Client) error {
		all, err := client.Enrolled(cmd.Context(), q)
		if err != nil {
			return err
		}
		for i := range all {
			if wanted(&all[i]) {
				peels = append(peels, all[i])
			}
		}
		return nil
	})
	return peels, err
}

func (a *app) enrollApproveCommand() *cobra.Command {
	var key string
	cmd := &cobra.Command{
		Use:   "approve PEEL",
		Short: "Approve a host that waits to join",
		Long: `approve accepts the key of a host that waits to join. From then on the holder of
that key acts as the peel: compare it with the key in the log of the host.
Without --key, approve shows the key and asks; it fails if there is no terminal.`,
		Args: words("peel"),
		RunE: a.online(func(cmd *cobra.Command, client *api.Client, args []string) error {
			if key == "" {
				var err error
				if key, err = a.pendingKey(cmd.Context(), client, args[0]); err != nil {
					return err
				}
			}
			e, err := api.EnrollApprove.Ask(cmd.Context(),
				client, api.EnrollName{ID: target.PeelID(args[0]), Public: key})
			return a.enrollDone(e, err)
		}),
	}
	cmd.Flags().StringVar(&key, "key", "",
		"`KEY` to approve, as the log of the host shows it (default: show the key and ask)")
	return cmd
}

// pendingKey returns the key that waits for approval, after the user has compared it.
func (a *app) pendingKey(ctx context.Context, client *api.Client, id string) (string, error) {
	all, err := api.EnrollList.Ask(ctx, client, api.EnrollQuery{ID: target.PeelID(id), State: credential.Pending})
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(all.Peels, func(e credential.Enrolled) bool { // an older master ignores the query
		return string(e.ID) == id && e.State == credential.Pending
	})
	if i < 0 {
		return "", &failure{
			code: exitFailed,
			err:  fmt.Errorf("no peel %q waits for approval", id),
			hint: "zester auth peel list --state pending shows the hosts that wait",
		}
	}
	e := all.Peels[i]
	what := fmt.Sprintf("%s waits with the key %s, from %s.", e.ID, e.Public, cmp.Or(e.From, "an unknown address"))
	return e.Public, a.compareKey(what, fmt.Sprintf("zester auth peel approve %s --key %s", e.ID, e.Public))
}

// compareKey asks the user whether the log of the host shows the key described in what. The hint of its error is the
// command that names the key, and so does not ask.
func (a *app) compareKey(what, command string) error {
	hint := "compare the key with the one in the log of the host, then run " + command
	if !a.canAsk() {
		return &failure{
			code: exitUsage,
			err:  errors.New("cannot approve a key without --key: there is no terminal to ask a question"),
			hint: hint,
		}
	}
	return a.ask(what+" Does the log of the host show this key?", &failure{
		code: exitCanceled,
		err:  errors.New("nothing was approved"),
		hint: hint,
	})
}

// enrollEndCommand returns a command that rejects or revokes a peel.
func (a *app) enrollEndCommand(
	name, short string, end api.Endpoint[api.EnrollName, credential.Enrolled],
) *cobra.Command {
	return &cobra.Command{
		Use:   name + " PEEL",
		Short: short,
		Args:  words("peel"),
		RunE: a.online(func(cmd *cobra.Command, client *api.Client, args []string) error {
			e, err := end.Ask(cmd.Context(), client, api.EnrollName{ID: target.PeelID(args[0])})
			return a.enrollDone(e, err)
		}),
	}
}

func (a *app) enrollDone(e *credential.Enrolled, err error) error {
	if err != nil {
		return err
	}
	return a.printDone(e, string(e.ID), "peel %s is %s", e.ID, e.State)
}

func (a *app) joinCreateCommand() *cobra.Command {
	q := credential.JoinRequest{}
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Create a join token and print it once",
		Long: `create makes a token with which hosts join without approval: zester-peel --join
TOKEN@HOST:PORT, with the address of the REST API of a master. The token
contains the hash of the master's CA, so the host can check the master. It
admits hosts whose IDs match --peel, as many as --uses says.`,
		Args: words(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if q.Peel == "" {
				return usageError(
					"zester auth join-token create needs --peel, a glob for the IDs of the hosts: --peel 'web-*'",
				)
			}
			if q.Name == "" {
				q.Name = strings.ToLower(rand.Text()[:8])
			}
			return a.withClient(func(client *api.Client) error {
				text, t, err := client.JoinCreate(cmd.Context(), q)
				if err != nil {
					return err
				}
				v := struct {
					Text string `json:"token"`
					credential.JoinToken
				}{text, *t}
				return a.print(v, []string{text}, func() error {
					fmt.Fprintf(a.errOut, "join token %s admits %s of %s and expires %s; it is shown only once\n",
						t.Name, count(t.Uses, "host"), t.Peel, when(t.Expires))
					fmt.Fprintln(a.errOut, "hint: set join: TOKEN@HOST:PORT in peel.yaml, with the address "+
						"at which rest of a master listens: zester guide install")
					_, err := fmt.Fprintln(a.out, text)
					return err
				})
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&q.Name, "name", "", "`NAME` of the token (default: random)")
	f.StringVar(&q.Peel, "peel", "", "`GLOB` that the IDs of the hosts match, such as web-*")
	f.IntVar(&q.Uses, "uses", 1, "admit `N` hosts")
	durationVar(f, &q.TTL, "ttl", time.Hour, "`TIME` until it expires")
	return cmd
}

func joinTokensTable(tokens []credential.JoinToken) table {
	t := table{header: []string{"NAME", "PEEL", "USED", "LEFT", "MADE BY", "ENDS", "MADE"}, wide: []string{"MADE"}}
	for _, j := range tokens {
		t.add(j.Name, j.Peel, fmt.Sprint(j.Used), fmt.Sprint(j.Uses), j.CreatedBy, clock(j.Expires), clock(j.Created))
	}
	return t
}

func (a *app) joinRevokeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "revoke NAME",
		Short: "Revoke a join token",
		Args:  words("name"),
		RunE: a.online(func(cmd *cobra.Command, client *api.Client, args []string) error {
			t, err := api.JoinRevoke.Ask(cmd.Context(), client, api.TokenName{Name: args[0]})
			if err != nil {
				return err
			}
			return a.printDone(t, t.Name, "join token %s is revoked", t.Name)
		}),
	}
}
