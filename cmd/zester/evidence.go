package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

func (a *app) jobVerifyCommand() *cobra.Command {
	var from, to string
	cmd := &cobra.Command{
		Use:   "verify JID | --from FILE",
		Short: "Check what peels have signed about their runs",
		Long: `verify checks the receipt of each return. A peel signs, with the key of its
credential, which function ran with which arguments, for which job or entry and
commit, under which settings, when, and the result. A record or return that was
changed since, or is of another peel or run, is not proven. Neither is one with
a key that was revoked before, or with times that the masters' clock refutes.
The exit code is 1 if a return is not proven; a return without a receipt is
told, and is no failure: its result was cut for the bus, or the peel could not
sign yet.

--export writes the record, the returns and the keys of the peels to a file,
which verify --from checks later, without a bus. The keys are those that the
masters know now: -o wide prints them, and zester auth peel list the newest.`,
		Args: atMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case from != "" && len(args) == 0 && to == "":
				return a.verifyEvidence(from, audit.Head{})
			case from != "" || len(args) == 0:
				return usageError("zester job verify needs the job ID, or --from FILE without a job")
			}
			if err := checkJobWord(args[0]); err != nil {
				return err
			}
			return a.withClient(func(client *api.Client) error {
				jid, err := findJob(cmd.Context(), client, args[0])
				if err != nil {
					return hinted(err, api.CodeNotFound, "zester job list --all shows the jobs of the last 7 days")
				}
				return a.verifyJob(cmd.Context(), client, jid, to)
			})
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "check the `FILE` of --export")
	cmd.Flags().StringVar(&to, "export", "", "write what is checked to the `FILE`")
	return cmd
}

// verifyJob checks the receipts of one job. It writes what it checks to a file, unless its name is empty.
func (a *app) verifyJob(ctx context.Context, client *api.Client, jid wire.JID, file string) error {
	e := &audit.Evidence{Runs: []audit.Run{}}
	e.Made = time.Now().UTC()
	if file != "" {
		out, err := renameio.NewPendingFile(file, renameio.WithPermissions(0o600))
		if err != nil {
			return fmt.Errorf("cannot write the evidence: %w", err)
		}
		defer out.Cleanup()
		if err := a.collectJob(ctx, client, jid, e, evidenceWriter{json.NewEncoder(out)}); err != nil {
			return err
		}
		if err := out.CloseAtomicallyReplace(); err != nil {
			return fmt.Errorf("cannot write the evidence: %w", err)
		}
	} else if err := a.collectJob(ctx, client, jid, e, evidenceWriter{json.NewEncoder(io.Discard)}); err != nil {
		return err
	}
	return a.showEvidence(e)
}

// evidenceWriter writes lines of evidence.
type evidenceWriter struct{ lines *json.Encoder }

func (w evidenceWriter) record(v any) error {
	l, err := audit.EvidenceOf(v)
	if err != nil {
		return err
	}
	return w.lines.Encode(l)
}

// collectJob adds what the receipts of a job show, and writes the record, the returns and the keys.
func (a *app) collectJob(ctx context.Context, client *api.Client, jid wire.JID, e *audit.Evidence, w evidenceWriter,
) error {
	j, err := api.JobShow.Ask(ctx, client, api.JobRequest{JID: jid})
	if err == nil {
		err = w.record(j)
	}
	for q := (api.JobRequest{JID: jid, Keys: true}); err == nil; {
		page, failed := api.JobReturns.Ask(ctx, client, q)
		if failed != nil {
			return failed
		}
		if len(page.Keys) > 0 {
			if err = w.lines.Encode(audit.EvidenceLine{Keys: page.Keys}); err != nil {
				break
			}
		}
		for i := range page.Rows {
			if err = w.record(&page.Rows[i]); err != nil {
				return err
			}
			e.Runs = append(e.Runs, audit.RunOf(j, &page.Rows[i], page.Keys[page.Rows[i].Peel]))
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			break
		}
	}
	return err
}

// verifyEvidence checks a file. known is a head of the audit log that somebody has kept.
func (a *app) verifyEvidence(name string, known audit.Head) error {
	file, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("cannot read the evidence: %w", err)
	}
	defer file.Close()
	e, err := audit.ReadEvidence(file, known)
	if err != nil {
		return fmt.Errorf("cannot read the evidence in %s: %w", name, err)
	}
	return a.showEvidence(e)
}

// showEvidence prints what evidence shows. It fails if a run is not proven or the audit log has a gap.
func (a *app) showEvidence(e *audit.Evidence) error {
	names := make([]string, len(e.Runs))
	for i := range e.Runs {
		names[i] = string(e.Runs[i].JID)
	}
	shown := struct {
		*audit.Evidence
		Quiet []audit.Quiet `json:"quiet"`
	}{e, e.Quiet()}
	err := a.print(shown, names, func() error { return a.showEvidenceText(e, shown.Quiet) })
	if err == nil && (e.Failed() > 0 || e.Chain.Total > 0) {
		return &failure{code: exitFailed}
	}
	return err
}

func (a *app) showEvidenceText(e *audit.Evidence, quiet []audit.Quiet) error {
	if len(e.Runs) > 0 {
		t := table{
			header: []string{"JID", "PEEL", "RAN", "BEGAN", "NUMBER", "PROVEN", "KEY", "SETTINGS"},
			narrow: []string{"RAN", "PROVEN"}, wide: []string{"KEY", "SETTINGS"},
		}
		for i := range e.Runs {
			r := &e.Runs[i]
			t.add(string(r.JID), string(r.Peel), cmp.Or(r.Entry, r.Function), when(r.Began),
				strconv.FormatUint(r.Number, 10), provenText(r), r.Key, r.Document)
		}
		if err := a.printTable(t); err != nil {
			return err
		}
	}
	if e.Chain.Entries > 0 {
		if err := a.showChain(&e.Chain); err != nil {
			return err
		}
	}
	if len(quiet) == 0 {
		return nil
	}
	fmt.Fprintf(a.out, "from %s to %s:\n", when(e.Since), when(e.Until))
	t := table{header: []string{"PEEL", "QUIET", "WHY"}, narrow: []string{"WHY"}}
	for _, q := range quiet {
		word := "not proven"
		if q.Proven {
			word = "proven"
		}
		t.add(string(q.Peel), word, q.Why)
	}
	return a.printTable(t)
}

func provenText(r *audit.Run) string {
	switch {
	case r.Problem == "":
		return "yes"
	case r.Absent:
		return r.Problem
	}
	return "no: " + r.Problem
}

func (a *app) auditEvidenceCommand() *cobra.Command {
	var since, until string
	cmd := &cobra.Command{
		Use:   "evidence TARGET --since TIME [--until TIME]",
		Short: "Print a file that shows what ran in a time, and where nothing did",
		Long: `evidence prints, for the peels of a target, the records and returns of all jobs
of the last 7 days until now with what the peels have signed, their keys, and
the audit log from TIME on. zester audit verify --from FILE checks it on any
host, without a bus.

A peel numbers all that it runs, also what has no record. If the numbers of its
last run before the time and of its first one after it follow each other, and
both were under the same settings, nothing began between them. So run test.ping
on the peels before and after, such as at both ends of a freeze.`,
		Args: words("target"),
		RunE: func(cmd *cobra.Command, args []string) error {
			head := audit.EvidenceHead{Made: time.Now().UTC(), Until: time.Now().UTC()}
			var err error
			if head.Since, err = time.Parse(time.RFC3339, since); err != nil {
				return usageError("--since must be a time like 2026-06-01T09:00:00Z, not %q", since)
			}
			if until != "" {
				if head.Until, err = time.Parse(time.RFC3339, until); err != nil || head.Until.Before(head.Since) {
					return usageError("--until must be a time after --since, not %q", until)
				}
			}
			return a.withClient(func(client *api.Client) error {
				return a.writeEvidence(cmd.Context(), client, args[0], head)
			})
		},
	}
	cmd.Flags().StringVar(&since, "since", "", "the `TIME` from which on, such as 2026-06-01T09:00:00Z")
	cmd.Flags().StringVar(&until, "until", "", "the `TIME` until which (default: now)")
	return cmd
}

// writeEvidence prints the file of zester audit evidence.
func (a *app) writeEvidence(ctx context.Context, client *api.Client, expr string, head audit.EvidenceHead) error {
	peels, err := client.Peels(ctx, expr)
	if err != nil {
		return err
	}
	for _, p := range peels {
		head.Peels = append(head.Peels, p.ID)
	}
	w := evidenceWriter{json.NewEncoder(a.out)}
	if err := w.lines.Encode(audit.EvidenceLine{Evidence: &head}); err != nil {
		return err
	}
	for q := (job.Query{}); ; {
		page, err := api.JobList.Ask(ctx, client, q)
		if err != nil {
			return err
		}
		for i := range page.Jobs {
			if err := a.collectJob(ctx, client, page.Jobs[i].JID, &audit.Evidence{}, w); err != nil {
				return err
			}
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			break
		}
	}
	return auditLines(ctx, client, 0, func(line audit.Line) error {
		if line.Entry().Time.Before(head.Since) {
			return nil
		}
		_, err := fmt.Fprintln(a.out, line.Text)
		return err
	})
}
