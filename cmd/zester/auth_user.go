package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

func (a *app) userCommand() *cobra.Command {
	return group("user", "Manage the credentials of people", a.userAddCommand(),
		listed(a, cobra.Command{Use: "list", Short: "List people with a credential"},
			func(ctx context.Context, client *api.Client) ([]credential.User, error) {
				return api.All(ctx, client, api.UserList, (*api.UsersAnswer).Page)
			}, usersTable),
		a.userRenewCommand(), a.userRevokeCommand())
}

func (a *app) userAddCommand() *cobra.Command {
	q := credential.UserRequest{}
	var roles []string
	var file string
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Issue a credential to a person and write it to a file",
		Long: `add makes a key in this process and asks a master to sign its public half; the
private key stays here. It writes the credential to a file of mode 0600, for
--creds or zester context add. The file also holds the CA certificates with
which this command checked the bus, so the person needs no --ca. A name is never
given to a second person, even after it was revoked. --again issues another
credential to the same person, with the role and the limits of the first.

The role operator runs functions and reads, direct may also ask peels without a
master, auditor reads. zester auth role list shows other roles. A person with
one or more of these is a member, and may do what they allow and nothing more.
--group puts a person into a group, and gives it the roles of the group.
--limit-target and --limit-function limit an operator:
every peel and the function of a job must be within both when it is dispatched.
An operator with limits cancels only jobs of its own, makes no tokens or users,
and gives no orders such as sync approve.

--secrets permits the person to have peels show the secrets of their settings,
within the limits. Nobody may otherwise.`,
		Args: words("name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			q.Name = args[0]
			q.Role, q.Roles = rolesOf(roles, q.Groups)
			if file == "" {
				file = args[0] + ".creds"
			}
			return a.withClient(func(client *api.Client) error {
				out, err := beginCredential(file)
				if err != nil {
					return err
				}
				defer out.Cleanup()
				roots, err := a.authority()
				if err != nil {
					return err
				}
				creds, u, err := client.UserAdd(cmd.Context(), q)
				if err != nil {
					return hinted(err, api.CodeConflict, "if it is the same person, who was not revoked: zester auth "+
						"user add "+q.Name+" --again; else choose another name")
				}
				if err := endCredential(out, append(creds, roots...)); err != nil {
					return err
				}
				return a.printDone(u, u.Name, "credential of %s %s is in %s", u.Role, u.Name, file)
			})
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&roles, "role", nil,
		"`ROLES`: operator (the default), direct, auditor, or those of auth role list")
	f.StringSliceVar(&q.Groups, "group", nil, "`GROUPS` of the person, whose roles it has")
	durationVar(f, &q.TTL, "ttl", credential.UserLife, "`TIME` until it expires; 0 for never")
	f.StringVar(&q.Limits.Target, "limit-target", "", "dispatch only to peels that the `EXPRESSION` selects")
	f.StringSliceVar(&q.Limits.Functions, "limit-function", nil,
		"dispatch only functions that match one of the `GLOBS`, such as test.*")
	f.BoolVar(&q.Secrets, "secrets", false, "permit the person to see secrets (settings.get --show-secrets)")
	f.StringVar(&file, "out", "", "`FILE` to write to (default: NAME.creds)")
	f.BoolVar(&q.Again, "again", false, "issue another one if NAME has one already")
	return cmd
}

// rolesOf returns the kind of credential for the roles and groups of a person, and the roles that people have written.
func rolesOf(roles, groups []string) (grants.Role, []string) {
	switch {
	case len(roles) == 0 && len(groups) > 0:
		return grants.RoleMember, nil
	case len(roles) == 0:
		return grants.RoleOperator, nil
	case len(roles) == 1 && slices.Contains(builtinRoles, grants.Role(roles[0])):
		return grants.Role(roles[0]), nil
	}
	return grants.RoleMember, roles
}

// builtinRoles are the roles that every fleet has, as far as people get them by name.
var builtinRoles = []grants.Role{grants.RoleOperator, grants.RoleDirect, grants.RoleAuditor, grants.RoleMember}

func (a *app) userRenewCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "renew",
		Short: "Renew your own credential, in its file",
		Long: `renew asks a master for another credential for the key of your own one, which
must not have expired, and replaces the file that --creds or the context names.
It is valid as long as the former one was, but at most 90 days. zester doctor
warns 14 days before a credential expires. One that has expired is not renewed:
another person issues one with zester auth user add NAME --again.`,
		Args: words(),
		RunE: a.online(func(cmd *cobra.Command, client *api.Client, _ []string) error {
			file := a.connect.creds
			if file == "" {
				return &failure{
					code: exitUsage,
					err:  errors.New("there is no credential to renew: the master of this host renews its own"),
					hint: "name yours with --creds, or with --context",
				}
			}
			own, err := renewFile(cmd.Context(), client, file)
			if err != nil {
				return err
			}
			return a.printDone(own, own.Name, "the credential of %s in %s expires at %s", own.Name, file,
				when(own.Expires))
		}),
	}
}

// renewFile replaces the credential in a file by a renewed one for the same key.
func renewFile(ctx context.Context, client *api.Client, file string) (*credential.Own, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	own, err := credential.ReadOwn(text)
	if err != nil {
		return nil, err
	}
	if own.Expires.IsZero() {
		return nil, fmt.Errorf("the credential in %s does not expire: there is nothing to renew", file)
	}
	q, err := own.Renewal()
	if err != nil {
		return nil, err
	}
	renewed, err := api.UserRenew.Ask(ctx, client, q)
	if err != nil {
		return nil, err
	}
	if text, err = own.Renew(*renewed); err != nil {
		return nil, err
	}
	if err := renameio.WriteFile(file, text, 0o600); err != nil {
		return nil, fmt.Errorf("cannot write the credential: %w", err)
	}
	return credential.ReadOwn(text)
}

// authority returns the CA certificates with which this command checked the bus; nil if it used those of the system.
func (a *app) authority() ([]byte, error) {
	bus, err := a.bus()
	if err != nil || bus.CA == "" {
		return certificates(bus.Creds), err
	}
	text, err := os.ReadFile(bus.CA)
	if err != nil {
		return nil, fmt.Errorf("cannot read the certificates of the bus: %w", err)
	}
	return certificates(text), nil
}

func usersTable(users []credential.User) table {
	t := table{
		header: []string{
			"NAME", "STATE", "ROLE", "LIMITS", "SECRETS", "MADE BY", "MADE", "ENDS", "KEYS", "REVOKED", "REVOKED BY",
		},
		states: []string{"STATE"},
		narrow: []string{"LIMITS"},
		drop:   []string{"MADE", "MADE BY", "SECRETS", "ENDS"},
		wide:   []string{"KEYS", "REVOKED", "REVOKED BY"},
	}
	for _, u := range users {
		role := strings.Join(append([]string{string(u.Role)}, u.Roles...), ",")
		t.add(u.Name, u.State(time.Now()), role, limitsOf(u.Limits), yesNo(u.Secrets), u.CreatedBy,
			clock(u.Created), clock(u.Expires()),
			fmt.Sprint(len(u.Keys)), clock(u.Revoked), u.RevokedBy)
	}
	return t
}

func (a *app) userRevokeCommand() *cobra.Command {
	var keep, remove bool
	cmd := &cobra.Command{
		Use:   "revoke NAME",
		Short: "Revoke a person, and the tokens and users that the person made",
		Long: `revoke revokes all credentials of a person for good, disconnects them, and
cancels the person's open jobs.

It also revokes everything that the person made, and prints it: tokens, also
those whose secret the person replaced last, join tokens, further credentials
that the person issued to others, and other users together with everything that
these made. With --keep it only prints the list.

What they put into the config repo or into effect goes on: revoke lists their
schedule entries, silences, pauses and pins of commits, and overrides of
freezes, each with the command that ends it. With --schedules it removes the
entries by one commit in your name.`,
		Args: words("name"),
		RunE: a.online(func(cmd *cobra.Command, client *api.Client, args []string) error {
			r, err := api.UserRevoke.Ask(cmd.Context(), client, api.RevokeRequest{Name: args[0], Keep: keep})
			if err != nil {
				return hinted(err, api.CodeConflict,
					"--keep revokes only the person; everything that the person made stays valid, "+
						"also your own credential")
			}
			l, failed := a.leftBy(cmd.Context(), client, authorsOf(r), remove)
			err = a.print(struct {
				*api.Revoked
				leftovers
			}{r, l}, []string{r.Name}, func() error {
				fmt.Fprintf(a.errOut, "%s %s is revoked\n", r.Role, r.Name)
				became := "is revoked too"
				if r.Kept {
					became = "stays in force"
				}
				for _, m := range r.Made {
					fmt.Fprintf(a.errOut, "the %s %s, made by %s, %s\n", m.Kind, m.Name, m.By, became)
				}
				a.printCanceled(r.Jobs)
				a.printLeft(l)
				return nil
			})
			return cmp.Or(failed, err)
		}),
	}
	cmd.Flags().BoolVar(&keep, "keep", false, "do not revoke what the person made")
	schedulesFlag(cmd.Flags(), &remove)
	return cmd
}

// printCanceled prints the jobs that a revocation canceled.
func (a *app) printCanceled(jobs []wire.JID) {
	for _, jid := range jobs {
		fmt.Fprintf(a.errOut, "job %s is canceled\n", jid)
	}
}
