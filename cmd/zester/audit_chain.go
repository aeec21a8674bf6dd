package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
)

func (a *app) auditVerifyCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "verify [SEQ:DIGEST]",
		Short: "Check that no entry of the audit log was replaced or removed",
		Long: `verify reads the whole log. Each entry has the SHA-256 digest of the one before
it; an entry that has another digest than that, and an entry that is missing,
is a gap. The exit code is 1 if there is one.

It prints the number and the digest of the newest entry. Keep them elsewhere:
given to a later verify, they prove that this entry and all before it are still
the same. Entries older than the log is kept for are not missing.

--from checks a file of zester audit export or zester audit evidence, without a
bus: also the receipts of the runs in it, and on which peels nothing began.`,
		Args: atMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var known audit.Head
			if len(args) == 1 {
				var err error
				if known, err = audit.ParseHead(args[0]); err != nil {
					return usageError("%w", err)
				}
			}
			if file != "" {
				return a.verifyEvidence(file, known)
			}
			return a.withClient(func(client *api.Client) error {
				c, err := verifyAudit(cmd.Context(), client, known)
				if err != nil {
					return err
				}
				if err := a.print(c, []string{c.Head.String()}, func() error { return a.showChain(c) }); err != nil {
					return err
				}
				if c.Total > 0 {
					return &failure{code: exitFailed}
				}
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&file, "from", "", "`FILE` to check instead of the log on the bus")
	return cmd
}

// verifyAudit reads the log from its oldest entry. known is a head of earlier, zero for none.
func verifyAudit(ctx context.Context, client *api.Client, known audit.Head) (*audit.Chain, error) {
	c := &audit.Chain{Gaps: []string{}}
	err := auditLines(ctx, client, 0, func(line audit.Line) error { c.Add(line, known); return nil })
	if err == nil {
		c.End(known)
	}
	return c, err
}

// auditLines calls got for each entry after the given one, as it is stored.
func auditLines(ctx context.Context, client *api.Client, after uint64, got func(audit.Line) error) error {
	for q := (audit.Query{Lines: true, After: after}); ; {
		page, err := api.AuditList.Ask(ctx, client, q)
		if err != nil {
			return err
		}
		for _, line := range page.Lines {
			if err := got(line); err != nil {
				return err
			}
		}
		if q.After = page.Next; !page.More {
			return nil
		}
	}
}

func (a *app) showChain(c *audit.Chain) error {
	for _, text := range c.Gaps {
		if _, err := fmt.Fprintln(a.out, plain(text)); err != nil {
			return err
		}
	}
	var err error
	switch {
	case c.Entries == 0:
		_, err = fmt.Fprintln(a.out, "the audit log is empty")
	case c.Total > 0:
		_, err = fmt.Fprintf(a.out, "%s; entries %d to %d; the newest is %s\n", count(c.Total, "gap"), c.First,
			c.Head.Seq, c.Head)
	default:
		_, err = fmt.Fprintf(a.out, "entries %d to %d, each follows the one before it; the newest is %s\n", c.First,
			c.Head.Seq, c.Head)
	}
	return err
}

func (a *app) auditExportCommand() *cobra.Command {
	var after uint64
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Print the audit log as it is stored",
		Long: `export prints one entry a line as JSON, oldest first, exactly as the bus stores
it. prev in a line is the SHA-256 digest of the line before, without its line
break, in hex: so a copy can be checked without zester, and a copy that was made
in parts as well. --after continues a copy.`,
		Args: words(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClient(func(client *api.Client) error {
				return auditLines(cmd.Context(), client, after, func(line audit.Line) error {
					_, err := fmt.Fprintln(a.out, line.Text)
					return err
				})
			})
		},
	}
	cmd.Flags().Uint64Var(&after, "after", 0, "only entries after the one with the number `SEQ`")
	return cmd
}
