//go:build linux

package file

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/peel/state/host"
	"github.com/seed-c01c3da5/zester/settings/state"
)

// cronFolder is where cron reads files with one job or more.
const cronFolder = "/etc/cron.d"

// Cron plans cron.present: a file in /etc/cron.d. One with variables can be read by root alone.
func Cron(ctx context.Context, w *host.World, a *state.CronPresent) ([]host.Step, error) {
	user := a.User
	if user == "" {
		user = "root"
	}
	if _, err := resolve(ctx, w, user, "", ""); err != nil {
		return nil, err
	}
	isDir, err := w.IsDirectory(cronFolder)
	if err != nil {
		return nil, err
	}
	if !isDir {
		return nil, w.Lacks("there is no %s on this host; it comes with the package of the cron daemon", cronFolder)
	}
	content, err := cronContent(a, user)
	if err != nil {
		return nil, err
	}
	f := &state.FileManaged{Path: cronFolder + "/" + a.Name, Content: &content, Mode: "0644"}
	if len(a.Env) > 0 {
		f.Mode = "0600"
	}
	return Managed(ctx, w, f, Inputs{})
}

// cronContent returns the file. A percent sign, which cron takes for a line break, is written with a backslash.
func cronContent(a *state.CronPresent, user string) (string, error) {
	var b strings.Builder
	b.WriteString("# Written by zester for the state " + a.Name + ".\n")
	for _, name := range slices.Sorted(maps.Keys(a.Env)) {
		value, quote := a.Env[name], `"`
		if strings.Contains(value, quote) {
			quote = "'"
		}
		if strings.Contains(value, quote) {
			return "", fmt.Errorf("env: %s: cron has no way to write a value with both kinds of quotation marks", name)
		}
		b.WriteString(name + "=" + quote + value + quote + "\n")
	}
	b.WriteString(a.Cron + " " + user + " ")
	isEscaped := false // a backslash is before it that has none before itself
	for _, c := range a.Command {
		if c == '%' && !isEscaped {
			b.WriteByte('\\')
		}
		isEscaped = c == '\\' && !isEscaped
		b.WriteRune(c)
	}
	b.WriteByte('\n')
	return b.String(), nil
}

// CronMissing plans cron.absent.
func CronMissing(w *host.World, a *state.CronAbsent) ([]host.Step, error) {
	return Missing(w, &state.FileAbsent{Path: cronFolder + "/" + a.Name})
}
