package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/access"
)

func (a *app) canCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "can NAME VERB [FILE | TARGET FUNCTION [ID] [NAME=VALUE …]]",
		Short: "Show whether a person may do something, and which rule decides",
		Long: `can asks a master whether a person may send a request now, and prints the rule
that decides. It changes nothing. The exit code is 1 if the person
may not.

VERB is the action as zester audit list shows it, such as job.cancel,
sync.approve or user.add. job.dispatch needs a TARGET and a FUNCTION, and is
checked for each peel that the target selects now, with the arguments, which are
written as for a job. It also says whether it waits for a second person. What
changes the config repo, such as schedule.remove, takes a FILE of it.

An operator with limits, and a member, can ask about itself alone.`,
		Args: func(cmd *cobra.Command, args []string) error {
			names := []string{"name of the person", "verb", "target", "function"}
			if len(args) <= 2 || len(args) == 3 && access.OfFile(access.Verb(args[1])) {
				names = append(names[:2], "file")[:max(2, len(args))]
			}
			return words(names...)(cmd, args[:min(len(args), 4)])
		},
		RunE: a.online(func(cmd *cobra.Command, client *api.Client, args []string) error {
			q := api.AccessRequest{Name: args[0], Verb: args[1]}
			if err := jobOf(&q, args[2:]); err != nil {
				return err
			}
			if err := q.Check(); err != nil {
				return usageError("%w", err)
			}

			r, err := api.UserExplain.Ask(cmd.Context(), client, q)
			if err != nil {
				return hinted(err, api.CodeNotFound, "zester auth user list shows all")
			}
			answer := "no"
			if r.Allowed {
				answer = "yes"
			}
			err = a.print(r, []string{answer}, func() error {
				_, err := fmt.Fprintf(a.out, "%s: %s\n", answer, r.Rule)
				return err
			})
			if err == nil && !r.Allowed {
				return &failure{code: exitFailed}
			}
			return err
		}),
	}
}

// jobOf reads the words that describe a job: target, function and arguments; or the one that names a file.
func jobOf(q *api.AccessRequest, words []string) (err error) {
	if len(words) == 1 {
		q.Path = words[0]
	}
	if len(words) < 2 {
		return nil
	}
	q.Target, q.Function = words[0], words[1]
	q.StateID, q.Args, err = parseArguments(q.Function, words[2:])
	if err == nil && len(q.Args) == 0 {
		q.Args = nil
	}
	return err
}
