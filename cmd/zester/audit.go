package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
)

func (a *app) auditCommand() *cobra.Command {
	return group("audit", "Show who did what", a.auditListCommand(), a.auditVerifyCommand(), a.auditExportCommand(),
		a.auditEvidenceCommand())
}

// followEvery is the time between two requests of --follow.
const followEvery = time.Second

func (a *app) auditListCommand() *cobra.Command {
	q := audit.Query{}
	var limit int
	var since time.Duration
	var follow bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List what people and programs did, newest first",
		Long: `list shows who did what, from where, and the result: done, refused or failed.
Only masters add entries to the log, and nobody can remove one. --follow prints
the newest entries, oldest first, and then each new entry until it is
interrupted; with -o json one object a line.

An action is a noun and a verb, such as job.dispatch, job.cancel, token.create,
user.revoke or sync.approve; --action also takes a noun alone. Schedule
commands, such as zester schedule pause, are recorded as job.dispatch.

Of a user who does very much only some entries are kept. WHY then says how many
before it are not, and audit.omitted is the last of these.

agent.call is a call that an assistant made with zester mcp in the name of its
owner. Its result is asked: it is recorded before it is carried out. AGENT (-o
wide) is what the assistant's program says about itself; nothing proves it.`,
		Args: words(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 {
				return usageError("cannot list %d entries: --limit is 1 or more", limit)
			}
			switch q.Result {
			case "", audit.Done, audit.Refused, audit.Failed, audit.Asked:
			default:
				return usageError("no entry has the result %q: it is done, refused, failed or asked", q.Result)
			}
			if since > 0 {
				q.Since = time.Now().Add(-since)
			}
			return a.withClient(func(client *api.Client) error {
				entries, err := auditEntries(cmd.Context(), client, q, limit)
				if err != nil {
					return err
				}
				if !follow {
					return a.showAudit(entries)
				}
				slices.Reverse(entries)
				return a.followAudit(cmd.Context(), client, q, entries)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&q.User, "user", "", "only actions of the `USER`")
	f.StringVar(&q.Action, "action", "", "only the `ACTION`, or all actions of a noun")
	f.StringVar(&q.Target, "target", "", "only targets that contain the `TEXT`, or the peel with this ID")
	f.StringVar((*string)(&q.Result), "result", "", "only `RESULT`: done, refused, failed or asked")
	durationVar(f, &since, "since", 0, "only the last `TIME`, such as 12h")
	f.IntVar(&limit, "limit", 50, "at most `N` entries")
	f.BoolVar(&follow, "follow", false, "print new entries as they come, until interrupted")
	return cmd
}

// auditEntries returns the newest entries, newest first.
func auditEntries(ctx context.Context, client *api.Client, q audit.Query, limit int) ([]audit.Entry, error) {
	entries := []audit.Entry{}
	for {
		q.Limit = limit - len(entries)
		page, err := api.AuditList.Ask(ctx, client, q)
		if err != nil {
			return nil, err
		}
		if entries = append(entries, page.Entries...); !page.More || len(entries) >= limit {
			return entries, nil
		}
		q.Before = page.Next
	}
}

// followAudit prints entries, oldest first, and then each new one.
func (a *app) followAudit(ctx context.Context, client *api.Client, q audit.Query, entries []audit.Entry) error {
	q.Follow = true
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		for i := range entries {
			if err := a.showEntry(&entries[i]); err != nil {
				return err
			}
			q.After = max(q.After, entries[i].Seq)
		}
		more := false
		if entries = nil; ctx.Err() == nil {
			page, err := api.AuditList.Ask(ctx, client, q)
			if err != nil {
				return err
			}
			entries, q.After, more = page.Entries, page.Next, page.More
		}
		if len(entries) > 0 || more {
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

func (a *app) showEntry(e *audit.Entry) error {
	switch a.output {
	case formJSON, formJSONL:
		return encode(a.out, e, "", "")
	case formYAML:
		return encodeYAML(a.out, []*audit.Entry{e})
	case formName:
		_, err := fmt.Fprintln(a.out, e.Seq)
		return err
	}
	_, err := fmt.Fprintln(a.out, plain(strings.Join(auditRow(e), "  ")))
	return err
}

func (a *app) showAudit(entries []audit.Entry) error {
	t := auditTable(entries)
	names := make([]string, len(entries))
	for i := range entries {
		names[i] = strconv.FormatUint(entries[i].Seq, 10)
	}
	return a.print(entries, names, func() error { return a.printTable(t) })
}

func auditTable(entries []audit.Entry) table {
	t := table{
		header: []string{
			"TIME", "USER", "FROM", "ACTION", "ABOUT", "PEELS", "RESULT", "JOB", "WHY", "ROLE", "AGENT", "SEQ",
		},
		states: []string{"RESULT"},
		narrow: []string{"ABOUT", "WHY"},
		drop:   []string{"FROM", "PEELS", "WHY", "JOB"},
		wide:   []string{"ROLE", "AGENT", "SEQ"},
	}
	for i := range entries {
		e := &entries[i]
		t.add(append(auditRow(e), string(e.Role), claimed(e.Agent), strconv.FormatUint(e.Seq, 10))...)
	}
	return t
}

func auditRow(e *audit.Entry) []string {
	about := e.Target
	switch {
	case e.Action == audit.ActionCall:
		about = strings.TrimSpace(e.Target + " " + e.Args)
	case e.Function != "":
		about = strings.TrimSpace(e.Function+" "+e.Args) + " on " + peelsOf(e)
	}
	peels := ""
	if e.Count > 0 {
		peels = strconv.Itoa(e.Count)
	}
	why := e.Reason
	if e.LeftOut > 0 {
		why = strings.TrimSpace(why + " (" + leftOut(e) + ")")
	}
	user := e.User
	if e.BreakGlass {
		user += " (break-glass)"
	}
	return []string{when(e.Time), user, e.From, e.Action, about, peels, string(e.Result), string(e.JID), why}
}

// leftOut says how many entries an entry stands for.
func leftOut(e *audit.Entry) string {
	if e.Action == audit.ActionOmitted {
		return "and " + strconv.Itoa(e.LeftOut) + " more"
	}
	return strconv.Itoa(e.LeftOut) + " before it not recorded"
}

// peelsOf returns the peels that an entry names and the number of the others, or its target expression if it names
// none.
func peelsOf(e *audit.Entry) string {
	if len(e.Peels) == 0 {
		return e.Target
	}
	names := strings.Join(e.Peels, ", ")
	if more := e.Count - len(e.Peels); more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return names
}
