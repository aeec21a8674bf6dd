package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

func (a *app) scheduleEditCommand() *cobra.Command {
	var c change
	var reason string
	cmd := &cobra.Command{
		Use:   "edit NAME|ID",
		Short: "Edit an entry of the config repo in your editor",
		Long: `edit opens the settings file of a schedule entry in $VISUAL, $EDITOR or vi, as
the branch has it, and commits what you saved in your name. NAME is the name of
the entry, ID its number in the REST API. Only entries may change, not other
settings of the file. An unchanged or empty file ends the command.

On a terminal a text with mistakes can be edited again. If somebody changed the
file meanwhile, nothing is committed. A text that was not committed stays in a
temporary file, which edit names.`,
		Args: words("name or number of the entry"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := c.check(); err != nil {
				return err
			}
			return a.withClient(func(client *api.Client) error {
				f, err := askSchedule(cmd.Context(), client, api.ScheduleFile, api.ScheduleFileQuery{Ref: args[0]})
				if err != nil {
					return err
				}
				q := api.ScheduleReplaceRequest{Ref: args[0], Was: f.Digest, Reason: reason, Propose: c.propose}
				out, err := a.edit(cmd.Context(), client, f, q)
				if out == nil && err == nil {
					fmt.Fprintln(a.errOut, "nothing was changed")
					return nil
				}
				if err != nil {
					return err
				}
				return a.changed(cmd.Context(), client, &c, "changed", out)
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "`REASON` for the commit, one line")
	c.flags(cmd)
	return cmd
}

// edit has the user edit a file until the result is accepted or given up. Both results are nil if the file did not
// change.
func (a *app) edit(ctx context.Context, client *api.Client, f *api.ScheduleText,
	q api.ScheduleReplaceRequest,
) (out *api.ScheduleChanged, err error) {
	path, err := draft(f)
	if err != nil {
		return nil, err
	}
	for {
		if err = runEditor(ctx, path); err != nil {
			break
		}
		typed, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("cannot read what the editor saved: %w", err)
		}
		if q.Text = string(typed); q.Text == f.Text || strings.TrimSpace(q.Text) == "" {
			return nil, os.Remove(path)
		}
		if err = checkEdited(f.File, typed); err == nil {
			if out, err = askSchedule(ctx, client, api.ScheduleReplace, q); err == nil {
				return out, os.Remove(path)
			}
		}
		if !a.canEditAgain(err) {
			return nil, kept(err, path)
		}
	}
	return nil, kept(err, path)
}

// draft writes a file to edit, which only the user can read. The editor knows by its name that it is YAML.
func draft(f *api.ScheduleText) (path string, err error) {
	file, err := os.CreateTemp("", "zester-*-"+filepath.Base(f.File))
	if err != nil {
		return "", fmt.Errorf("cannot make a file to edit: %w", err)
	}
	_, err = file.WriteString(f.Text)
	if err = errors.Join(err, file.Close()); err != nil {
		return "", errors.Join(fmt.Errorf("cannot make a file to edit: %w", err), os.Remove(file.Name()))
	}
	return file.Name(), nil
}

// runEditor runs the editor of the user, which may have arguments, as git and crontab do.
func runEditor(ctx context.Context, path string) error {
	editor := "vi"
	for _, name := range []string{"EDITOR", "VISUAL"} {
		if text := os.Getenv(name); text != "" {
			editor = text
		}
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", editor+` "$1"`, "sh", path)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("cannot edit with %q: %w", editor, err)
	}
	return nil
}

// checkEdited finds what can be found without the rest of the repo. The error has positions in the file.
func checkEdited(file string, text []byte) error {
	n, err := strictyaml.Parse(file, text)
	if err == nil && n.Get("schedule") != nil {
		err = schedule.CheckFields(n.Get("schedule"))
	}
	return err
}

// canEditAgain shows a mistake in what was typed and asks whether to edit it again. It is false for other errors.
func (a *app) canEditAgain(err error) bool {
	_, local := errors.AsType[strictyaml.Errors](err)
	if !local && api.CodeOf(err) != api.CodeInvalid || !a.canAsk() {
		return false
	}
	fmt.Fprintln(a.errOut, plain(err.Error()))
	return a.ask("edit again?", &failure{}) == nil
}

// kept returns an error with the file that has what was typed.
func kept(err error, path string) error {
	f := failureOf(err)
	if known, ok := errors.AsType[*failure](err); ok {
		f = known
	}
	f.hint = strings.TrimPrefix(f.hint+"; what you typed is in "+path, "; ")
	return f
}
