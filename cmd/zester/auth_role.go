package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/access"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
)

func (a *app) roleCommand() *cobra.Command {
	return group("role", "Manage the roles of people", a.roleSetCommand(),
		listCommand(a, cobra.Command{Use: "list", Short: "List the roles that people have written"},
			api.RoleList, func(r *api.RolesAnswer) []credential.Role { return r.Roles }, rolesTable),
		a.roleRemoveCommand())
}

func (a *app) roleSetCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "set NAME FILE",
		Short: "Make or replace a role",
		Long: `set makes the role NAME, or replaces it, with the rules in a file of YAML. It
holds on all masters within a second, for everybody who has the role: by zester
auth user add --role, or by one of its groups. What no rule allows is denied,
and a rule under deny holds over all that allow. zester guide access has all
keys, and examples.`,
		Args: words("name", "file"),
		RunE: a.online(func(cmd *cobra.Command, client *api.Client, args []string) error {
			text, err := os.ReadFile(args[1])
			if err != nil {
				return err
			}
			q := credential.RoleRequest{Name: args[0], File: args[1], Text: string(text)}
			if err := q.Check(); err != nil {
				return usageError("%w", err)
			}
			r, err := api.RoleSet.Ask(cmd.Context(), client, q)
			if err != nil {
				return err
			}
			return a.printDone(r, r.Name, "the role %s is set; %d rules allow, %d deny and %d ask for two persons",
				r.Name, len(r.Allow), len(r.Deny), len(r.TwoPersons))
		}),
	}
}

func (a *app) roleRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "remove NAME",
		Short: "Remove a role from everybody who has it",
		Long: `remove removes a role. Within a second whoever has it loses what it allows, and
what it denies.`,
		Args: words("name"),
		RunE: a.online(func(cmd *cobra.Command, client *api.Client, args []string) error {
			r, err := api.RoleRemove.Ask(cmd.Context(), client, api.RoleName{Name: args[0]})
			if err != nil {
				return hinted(err, api.CodeNotFound, "zester auth role list shows all")
			}
			return a.printDone(r, r.Name, "the role %s is removed", r.Name)
		}),
	}
}

func rolesTable(roles []credential.Role) table {
	t := table{
		header: []string{"NAME", "ALLOW", "DENY", "GROUPS", "CHANGED", "CHANGED BY"},
		narrow: []string{"GROUPS"},
		drop:   []string{"CHANGED", "CHANGED BY"},
	}
	for i := range roles {
		r := &roles[i]
		t.add(r.Name, fmt.Sprint(len(r.Allow)), fmt.Sprint(len(r.Deny)), strings.Join(r.Groups, ","), clock(r.Changed),
			r.ChangedBy)
	}
	return t
}

func (a *app) whoCanCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "who-can VERB [FILE | TARGET FUNCTION [ID] [NAME=VALUE …]]",
		Short: "List who may do something, with the rule that permits it",
		Long: `who-can lists the people who may send a request now, each with the rule that
permits it. The words are those of zester auth can. Tokens are not
listed: zester auth token list shows their scopes.`,
		Args: func(cmd *cobra.Command, args []string) error {
			names := []string{"verb", "target", "function"}
			if len(args) <= 1 || len(args) == 2 && access.OfFile(access.Verb(args[0])) {
				names = append(names[:1], "file")[:max(1, len(args))]
			}
			return words(names...)(cmd, args[:min(len(args), 3)])
		},
		RunE: a.online(func(cmd *cobra.Command, client *api.Client, args []string) error {
			q := api.AccessRequest{Verb: args[0]}
			if err := jobOf(&q, args[1:]); err != nil {
				return err
			}
			if err := q.Check(); err != nil {
				return usageError("%w", err)
			}
			people := []api.Access{}
			for more := true; more; more = q.After != "" {
				r, err := api.AccessList.Ask(cmd.Context(), client, q)
				if err != nil {
					return err
				}
				people, q.After = append(people, r.People...), r.Next
			}
			t := table{header: []string{"NAME", "ROLE", "RULE"}}
			for _, p := range people {
				t.add(p.Name, string(p.Role), p.Rule)
			}
			return a.show(people, t)
		}),
	}
}
