package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/cmd/zester/movein"
	"github.com/seed-c01c3da5/zester/settings/schedule/crontab"
)

const crontabManual = `crontab turns tables of cron into a settings file, which it prints. - is
standard input. Each line becomes an entry, or a comment that says why it does
not.

A table has a column with the user, as /etc/crontab and the files of /etc/cron.d
have, unless --user names whose table it is. The tables of users, which are in
/var/spool/cron, are of the user of their name.

The times of each entry are compared with those at which the cronie daemon
starts the job: the next 100, and those around the next two changes of the
clock, in two zones if the table names none. An entry whose times differ is not
printed.

The exit code is 2 if a line became no entry. zester guide cron has the rules.`

func (a *app) importCommand() *cobra.Command {
	var user string
	crontab := &cobra.Command{
		Use:   "crontab FILE…",
		Short: "Turn tables of cron into a settings file",
		Long:  crontabManual,
		Args: func(_ *cobra.Command, files []string) error {
			if len(files) == 0 {
				return usageError("which tables? Write zester import crontab /etc/crontab /etc/cron.d/*")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, files []string) error { return a.importCrontabs(files, user) },
	}
	crontab.Flags().StringVar(&user, "user", "", "`NAME` of the user whose tables these are")
	return group("import", "Move in from other programs", crontab, a.importHostCommand(),
		a.importSaltCommand(), a.importCheckCommand())
}

func (a *app) importCrontabs(files []string, user string) error {
	tables := make([]movein.Table, len(files))
	for i, file := range files {
		owner, namesUsers := ownerOf(file)
		if namesUsers && user != "" {
			return usageError("%s has a column with the user: leave --user out", file)
		}
		text, err := readTable(file)
		if err != nil {
			return err
		}
		tables[i] = movein.Table{Name: file, Text: text, User: cmp.Or(user, owner)}
		if line, word := commandAsUser(tables[i]); word != "" && !namesUsers {
			return usageError("%s:%d: %s is a command and no user: say with --user whose table this is",
				file, line, word)
		}
	}
	imported, err := movein.Crontabs(tables, time.Now())
	if err != nil {
		return err
	}
	if _, err := a.out.Write(imported.Settings); err != nil {
		return err
	}
	for _, r := range imported.Rows {
		fmt.Fprintf(a.errOut, "%s:%d: %s\n  %s\n", r.File, r.Line, r.Reason, r.Text)
	}
	fmt.Fprintf(a.errOut, "%d entries, %d times compared, 0 differ; %d lines not imported\n",
		imported.Entries, imported.Times, len(imported.Rows))
	if len(imported.Rows) > 0 {
		return &failure{code: exitSomeFailed}
	}
	return nil
}

// commandAsUser returns the first line of a table that has a well-known command where a table of the system has the
// user.
func commandAsUser(t movein.Table) (line int, word string) {
	jobs, _, err := crontab.Parse(t.Text, t.User)
	if err != nil || t.User != "" {
		return 0, ""
	}
	for _, job := range jobs {
		if slices.Contains(commonCommands, job.User) {
			return job.Line, job.User
		}
	}
	return 0, ""
}

var commonCommands = strings.Fields("[ bash cat cd cp curl echo env exec find flock mv nice perl php python python3 " +
	"rm rsync sh sleep sudo systemctl tar test timeout wget")

// ownerOf returns the user of a table in /var/spool/cron, empty for other files. Lines of a table of the system have a
// column with the user: namesUsers is true.
func ownerOf(file string) (owner string, namesUsers bool) {
	full, err := filepath.Abs(file)
	if err != nil {
		return "", false
	}
	switch dir, name := filepath.Split(full); dir {
	case "/var/spool/cron/", "/var/spool/cron/crontabs/", "/var/spool/cron/tabs/":
		return name, false
	case "/etc/cron.d/":
		return "", true
	}
	return "", full == "/etc/crontab"
}

// maxTable is how much of a table is read, one byte more than package crontab accepts.
const maxTable = 1<<20 + 1

func readTable(file string) (string, error) {
	in := io.Reader(os.Stdin)
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return "", err
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, maxTable))
	if err != nil {
		return "", fmt.Errorf("cannot read %s: %w", file, err)
	}
	return string(text), nil
}
