package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
)

func (a *app) tokenCommand() *cobra.Command {
	return group("token", "Manage the tokens with which programs use the REST API",
		a.tokenCreateCommand(),
		listed(a, cobra.Command{Use: "list", Short: "List tokens, who made them and when they were used"},
			func(ctx context.Context, client *api.Client) ([]credential.Token, error) {
				return api.All(ctx, client, api.TokenList, (*api.TokensAnswer).Page)
			}, tokensTable),
		a.tokenRotateCommand(), a.tokenRevokeCommand())
}

// tokenLife is how long a token is valid by default.
const tokenLife = 90 * 24 * time.Hour

func (a *app) tokenCreateCommand() *cobra.Command {
	q := credential.TokenRequest{}
	var scopes []string
	var only string
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a token and print it once",
		Long: `create makes a token in this process and sends only its hash to the masters:
nobody can print it again. Its jobs have the user token:<name>. A name is never
given to a second token, even after the first was revoked.

Scopes: read reads peels, all jobs and their returns; dispatch runs functions,
and reads and cancels its own jobs; sync gives orders such as sync approve;
admin does everything. --limit-target and --limit-function limit dispatch.

A token with --only opens one path and no other: mcp is /mcp, where the scopes
read and dispatch say what the assistant may do; metrics is /metrics, for the
program that reads the metrics of masters.`,
		Args: words("name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			q.Name = args[0]
			if err := checkPurpose(only, cmd.Flags().Changed("scope")); err != nil {
				return err
			}
			if only == string(credential.ScopeMetrics) {
				scopes = nil
			}
			if only != "" {
				scopes = append(scopes, only)
			}
			for _, s := range scopes {
				q.Scopes = append(q.Scopes, credential.Scope(s))
			}
			if err := q.CheckScopes(); err != nil {
				return usageError("the token cannot be made: %w", err)
			}
			return a.withClient(func(client *api.Client) error {
				text, t, err := client.TokenCreate(cmd.Context(), q)
				if err != nil {
					return hinted(err, api.CodeConflict,
						"zester auth token rotate replaces the secret of a token that is not revoked; "+
							"else choose another name")
				}
				return a.printSecret(text, t)
			})
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&scopes, "scope", []string{string(credential.ScopeRead)},
		"`SCOPES` of the token: read, dispatch, sync, admin")
	f.StringVar(&only, "only", "", "open one `PATH` and no other: mcp or metrics")
	durationVar(f, &q.TTL, "ttl", tokenLife, "`TIME` until it expires; 0 for never")
	f.StringVar(&q.Limits.Target, "limit-target", "", "run functions only on peels that the `EXPRESSION` selects")
	f.StringSliceVar(&q.Limits.Functions, "limit-function", nil,
		"run only functions that match one of the `GLOBS`, such as test.*")
	return cmd
}

// checkPurpose checks the value of --only.
func checkPurpose(only string, scoped bool) error {
	switch credential.Scope(only) {
	case "", credential.ScopeMCP:
		return nil
	case credential.ScopeMetrics:
		if scoped {
			return usageError("--only metrics does not go with --scope: the token opens /metrics alone")
		}
		return nil
	}
	return usageError("cannot use --only %q: it is mcp or metrics", only)
}

func (a *app) tokenRotateCommand() *cobra.Command {
	q := credential.TokenRequest{}
	cmd := &cobra.Command{
		Use:   "rotate NAME",
		Short: "Replace the secret of a token and print it once",
		Args:  words("name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			q.Name = args[0]
			return a.withClient(func(client *api.Client) error {
				text, t, err := client.TokenRotate(cmd.Context(), q)
				if err != nil {
					return err
				}
				return a.printSecret(text, t)
			})
		},
	}
	durationVar(cmd.Flags(), &q.TTL, "ttl", tokenLife, "`TIME` until it expires; 0 for never")
	durationVar(cmd.Flags(), &q.Grace, "grace", 0, "`TIME` for which the old secret stays valid (default: none)")
	return cmd
}

func (a *app) tokenRevokeCommand() *cobra.Command {
	var remove bool
	cmd := &cobra.Command{
		Use:   "revoke NAME",
		Short: "Revoke a token",
		Long: `revoke ends a token for good and cancels its open jobs. What requests with it
put into the config repo or into effect goes on: revoke lists the schedule
entries, silences, pauses and pins of commits, and overrides of freezes, each
with the command that ends it. With --schedules it removes the entries by one
commit in your name.`,
		Args: words("name"),
		RunE: a.online(func(cmd *cobra.Command, client *api.Client, args []string) error {
			t, err := api.TokenRevoke.Ask(cmd.Context(), client, api.TokenName{Name: args[0]})
			if err != nil {
				return err
			}
			l, failed := a.leftBy(cmd.Context(), client, []string{tokenAuthor(t.Name)}, remove)
			err = a.print(struct {
				*api.TokenRevoked
				leftovers
			}{t, l}, []string{t.Name}, func() error {
				fmt.Fprintf(a.errOut, "token %s is revoked\n", t.Name)
				a.printCanceled(t.Jobs)
				a.printLeft(l)
				return nil
			})
			return cmp.Or(failed, err)
		}),
	}
	schedulesFlag(cmd.Flags(), &remove)
	return cmd
}

func tokensTable(tokens []credential.Token) table {
	t := table{
		header: []string{
			"NAME", "STATE", "SCOPES", "LIMITS", "MADE BY", "ENDS", "LAST USED", "MADE", "ROTATED", "REVOKED",
			"REVOKED BY",
		},
		states: []string{"STATE"},
		narrow: []string{"SCOPES", "LIMITS"},
		drop:   []string{"MADE BY", "LAST USED", "ENDS"},
		wide:   []string{"MADE", "ROTATED", "REVOKED", "REVOKED BY"},
	}
	for _, token := range tokens {
		t.add(token.Name, token.State(time.Now()), scopesOf(&token), limitsOf(token.Limits), token.CreatedBy,
			clock(token.Expires), clock(token.LastUsed),
			clock(token.Created), clock(token.Rotated), clock(token.Revoked), token.RevokedBy)
	}
	return t
}

func scopesOf(t *credential.Token) string {
	names := make([]string, len(t.Scopes))
	for i, s := range t.Scopes {
		names[i] = string(s)
	}
	return strings.Join(names, ",")
}

func limitsOf(l grants.Limits) string {
	parts := l.Functions
	if l.Target != "" {
		parts = append([]string{"on " + l.Target}, parts...)
	}
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, " ")
}

// secret is the data of a command that made a token.
type secret struct {
	Text string `json:"token"`
	credential.Token
}

// printSecret prints the token alone to stdout, and its name and end to stderr.
func (a *app) printSecret(text string, t *credential.Token) error {
	return a.print(secret{text, *t}, []string{text}, func() error {
		ends := "does not expire"
		if !t.Expires.IsZero() {
			ends = "expires " + when(t.Expires)
		}
		fmt.Fprintf(a.errOut, "token %s (%s) %s; it is shown only once\n", t.Name, scopesOf(t), ends)
		_, err := fmt.Fprintln(a.out, text)
		return err
	})
}
