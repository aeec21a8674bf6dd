package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/peel/catalogue"
	"github.com/seed-c01c3da5/zester/settings/schedule/phrase"
)

// changeWait is how long a change of the config repo may take: a fetch, a compilation, a push and the request to the
// forge.
const changeWait = 150 * time.Second

// A change holds the flags of commands that change the config repo.
type change struct {
	propose bool
	wait    time.Duration
}

func (c *change) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&c.propose, "propose", false, "open a pull request, also where the master pushes to the branch")
	durationVar(cmd.Flags(), &c.wait, "wait", 0, "wait for `TIME` at most until all peels that are online run it")
}

func (c *change) check() error {
	if c.propose && c.wait > 0 {
		return usageError(
			"--wait does not go with --propose: peels run a proposed change only after somebody has merged it",
		)
	}
	return nil
}

// askSchedule sends a request to the service that changes the schedules of the config repo.
func askSchedule[Q, A any](ctx context.Context, client *api.Client, e api.Endpoint[Q, A], q Q) (*A, error) {
	ctx, cancel := context.WithTimeout(ctx, changeWait)
	defer cancel()
	a, err := e.Ask(ctx, client, q)
	if err != nil {
		err = hinted(err, api.CodeNotFound, "zester schedule list '*' shows the entries that peels have")
		return nil, hinted(err, api.CodeUnavailable,
			"a master with a config repo answers; if it was only slow, look for the commit before you ask again")
	}
	return a, nil
}

const addManual = `add commits a new schedule entry to the config repo in your name: a file of its
own in settings/api, and a reference to it in top.d/api.yaml. The fleet gets it
as it gets every commit. The name of the entry is made of NAME.

The entry runs a prompt or a function. Arguments of the function follow NAME as
in a dispatch: KEY=VALUE, KEY:=YAML, KEY=@FILE. One timing is required: --cron,
--every, --at or --schedule. --set fills any other field of an entry.

An entry that lint refuses is not committed. If the master may not write to the
repo, add prints the change as a patch and ends with exit code 1.`

// addFields are the flags of add that fill a field of the request.
var addFields = []struct{ flag, field, usage string }{
	{"prompt", "prompt", "`TEXT` to ask a model, on peels with a prompt section in peel.yaml"},
	{"function", "function", "`FUNCTION` to run, such as cmd.run"},
	{"cron", "cron", "cron `EXPRESSION` of five fields"},
	{"every", "every", "`DURATION` from the end of one run to the next, such as 5m"},
	{"at", "at", "`INSTANT` of a single run, such as 2026-06-01T09:00:00+01:00"},
	{"schedule", "schedule", "timing in English: a `PHRASE` such as every monday at 9am"},
	{"target", "target", "target `EXPRESSION` of the peels (default: schedules.target of the master)"},
	{"timezone", "timezone", "IANA `ZONE` of the timing (default: that of each peel)"},
	{"model", "model", "`MODEL` that answers the prompt"},
}

func (a *app) scheduleAddCommand() *cobra.Command {
	var c change
	var deleteAfterRun bool
	var set []string
	cmd := &cobra.Command{
		Use:   "add NAME [KEY=VALUE …]",
		Short: "Add an entry to the config repo",
		Long:  addManual,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return words("name")(cmd, args)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := c.check(); err != nil {
				return err
			}
			fields, err := fieldsOf(set)
			if err != nil {
				return err
			}
			for _, f := range addFields {
				if flag := cmd.Flags().Lookup(f.flag); flag.Changed {
					fields[f.field] = flag.Value.String()
				}
			}
			if text, ok := fields["schedule"].(string); ok {
				fields["schedule"] = phrase.Dated(text, time.Now())
			}
			if deleteAfterRun {
				fields["delete_after_run"] = true
			}
			fields["name"] = args[0]
			if err := callArguments(fields, args[1:]); err != nil {
				return err
			}
			q, err := api.NewScheduleAdd(fields)
			if err != nil {
				return usageError("cannot add %q: %w", args[0], err)
			}
			q.Propose = c.propose
			return a.withClient(func(client *api.Client) error {
				out, err := askSchedule(cmd.Context(), client, api.ScheduleAdd, q)
				if err != nil {
					return err
				}
				return a.changed(cmd.Context(), client, &c, "added", out)
			})
		},
	}
	for _, f := range addFields {
		cmd.Flags().String(f.flag, "", f.usage)
	}
	cmd.Flags().BoolVar(&deleteAfterRun, "delete-after-run", false, "remove the entry when it has run; only with --at")
	cmd.Flags().StringArrayVar(&set, "set", nil, "set another field: `FIELD=VALUE`, such as splay=5m, or FIELD:=YAML")
	c.flags(cmd)
	return cmd
}

// fieldsOf returns the fields that --set names.
func fieldsOf(set []string) (map[string]any, error) {
	for _, w := range set {
		if argument.FindStringSubmatch(w) == nil {
			return nil, usageError("cannot use --set %q: write FIELD=VALUE, or FIELD:=YAML", w)
		}
	}
	_, fields, err := parseArguments("", set)
	return fields, err
}

// callArguments puts the words after the name into fields, as the arguments of the function.
func callArguments(fields map[string]any, typed []string) error {
	if len(typed) == 0 {
		return nil
	}
	function, _ := fields["function"].(string)
	if function == "" {
		return usageError("cannot use the argument %q without a function: give --function", typed[0])
	}
	id, args, err := parseArguments(function, typed)
	if err != nil {
		return err
	}
	if id != "" {
		f, _ := catalogue.Lookup(function)
		i := slices.IndexFunc(f.Params, func(p catalogue.Param) bool { return p.Positional })
		if i < 0 {
			return usageError("cannot use the argument %q: write arguments of %s as KEY=VALUE", id, function)
		}
		args[f.Params[i].Name] = id
		if f.Params[i].Type == catalogue.Strings {
			args[f.Params[i].Name] = anyOf(strings.Fields(id))
		}
	}
	fields["args"] = args
	return nil
}

func anyOf(list []string) (all []any) {
	for _, v := range list {
		all = append(all, v)
	}
	return all
}

func (a *app) scheduleRemoveCommand() *cobra.Command {
	var c change
	var yes bool
	q := api.ScheduleChange{}
	cmd := &cobra.Command{
		Use:   "remove NAME|ID",
		Short: "Remove an entry from the config repo",
		Long: `remove removes a schedule entry from the config repo by a commit in your name.
NAME is the name of the entry, ID its number in the REST API. A file of its own
in settings/api goes with its reference; of any other file only the lines of the
entry go. Runs in flight go on.

On a terminal remove shows the entry and asks; elsewhere it needs --yes.`,
		Args: words("name or number of the entry"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := c.check(); err != nil {
				return err
			}
			q.Ref, q.Propose = args[0], c.propose
			if !yes && !a.canAsk() {
				return usageError("cannot remove %s without --yes: there is no terminal to ask a question", q.Ref)
			}
			return a.withClient(func(client *api.Client) error {
				if !yes {
					if err := a.confirmRemoval(cmd.Context(), client, q.Ref); err != nil {
						return err
					}
				}
				out, err := askSchedule(cmd.Context(), client, api.ScheduleRemove, q)
				if err != nil {
					return err
				}
				return a.changed(cmd.Context(), client, &c, "removed", out)
			})
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	cmd.Flags().StringVar(&q.Reason, "reason", "", "`REASON` for the commit, one line")
	c.flags(cmd)
	return cmd
}

func (a *app) confirmRemoval(ctx context.Context, client *api.Client, ref string) error {
	page, err := askSchedule(ctx, client, api.ScheduleList, api.ScheduleQuery{Ref: ref})
	if err != nil {
		return err
	}
	s := page.Schedules[0]
	origin, _, _ := strings.Cut(s.Origin, "@")
	question := fmt.Sprintf("%s: %s, %s\nremove %s from the config repo?", plain(origin), plain(s.Module),
		plain(s.Meaning), plain(s.Entry))
	return a.ask(question, &failure{
		code: exitCanceled,
		err:  errors.New("nothing was removed"),
		hint: "--yes skips the question",
	})
}

// changed shows what a request changed, and waits until the fleet runs it if --wait says so. done says what was done to
// the entry.
func (a *app) changed(ctx context.Context, client *api.Client, c *change, done string, out *api.ScheduleChanged) error {
	if out.Patch != "" {
		if err := a.print(out, []string{out.Entry}, func() error {
			patch := out.Patch
			if a.columns > 0 {
				patch = plain(patch)
			}
			_, err := fmt.Fprint(a.out, patch)
			return err
		}); err != nil {
			return err
		}
		return byHand(out.Entry)
	}
	var waited error
	if c.wait > 0 && !out.Proposed {
		waited = a.awaitCommit(ctx, client, out.Commit, c.wait)
	}
	err := a.print(out, []string{out.Entry}, func() error { return a.showChanged(done, out) })
	if waited != nil {
		return waited
	}
	return err
}

// byHand is the failure of a change that the master may not make.
func byHand(entry string) error {
	return &failure{
		code: exitFailed,
		err:  fmt.Errorf("the change of %s was not made: the master may not write to the config repo", entry),
		hint: "save the patch and apply it with git apply, commit and push; or set write.mode in master.yaml",
	}
}

func (a *app) showChanged(done string, out *api.ScheduleChanged) error {
	facts := table{}
	add := func(name, value string) {
		if value != "" {
			facts.add(name, plain(value))
		}
	}
	if out.Proposed {
		done = "to be " + done + " when its branch is merged"
	}
	add("entry:", out.Entry+", "+done)
	if out.ID > 0 {
		add("number:", fmt.Sprint(out.ID))
	}
	add("file:", out.File)
	add("commit:", out.Commit)
	add("branch:", out.Branch)
	if !out.Next.IsZero() {
		add("next run:", when(out.Next))
	}
	add("pull request:", out.URL)
	if out.Proposed && out.URL == "" {
		add("pull request:", "none was opened: write.pull_requests in master.yaml names no forge")
	}
	return facts.print(a.out, screen{})
}

// awaitCommit waits until all peels that are online run a commit.
func (a *app) awaitCommit(ctx context.Context, client *api.Client, commit string, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	line := newProgress(a.errOut)
	defer line.clear()
	_, failure, err := a.awaitGoal(ctx, client,
		&waiting{line: line, began: time.Now()}, goal{revision: commit, timeout: limit})
	if err != nil {
		return err
	}
	return failure
}

// scheduleRefs returns the entries of the config repo by name, for completion.
func scheduleRefs(ctx context.Context, client *api.Client) (refs []string) {
	page, err := api.ScheduleList.Ask(ctx, client, api.ScheduleQuery{})
	if err != nil {
		return nil
	}
	for _, s := range page.Schedules {
		refs = append(refs, s.Entry+"\t"+plain(s.Module+", "+s.Meaning))
	}
	return refs
}
