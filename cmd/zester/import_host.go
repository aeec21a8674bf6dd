package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/cmd/zester/movein"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/survey"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const hostManual = `host turns the tables of cron that hosts have into the files of a config repo:
/etc/crontab, the files of /etc/cron.d, and the tables of users. It changes
nothing on the hosts. Several targets are joined with or. You need permission
to see secrets, which zester auth user add --secrets gives.

Each line becomes an entry, or a row that says why it does not; their times are
compared as import crontab does. Tables that the same hosts have are in one
settings file, whose target is a fact that tells these hosts apart, or a list.
If a peel did not answer or failed, each target is a list.

Tables have secrets: the peels send them sealed to this command. A line that
looks as if it had a secret becomes no entry, and is written nowhere.

The exit code is 2 if a line became no entry or a peel failed, 3 if a peel did
not answer, and 4 for both. zester guide cron has the rules.`

func (a *app) importHostCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "host TARGET… --out REPO",
		Short: "Turn the tables of cron of hosts into a config repo",
		Long:  hostManual,
		Args: func(_ *cobra.Command, targets []string) error {
			switch {
			case len(targets) == 0:
				return usageError("which hosts? Write zester import host web-01 web-02 --out fleet")
			case out == "":
				return usageError("where to? Give the directory of the new config repo as --out")
			}
			return nil
		},
		RunE: a.online(func(cmd *cobra.Command, client *api.Client, targets []string) error {
			return a.countUnknown(a.importHosts(cmd.Context(), client, strings.Join(targets, " or "), out))
		}),
	}
	cmd.Flags().StringVar(&out, "out", "", "`DIR` of the new config repo")
	return cmd
}

func (a *app) importHosts(ctx context.Context, client *api.Client, expr, out string) error {
	if _, err := checkNew(out); err != nil {
		return err
	}
	found, err := a.cronTables(ctx, client, expr)
	if err != nil {
		return err
	}
	if err := found.addFacts(ctx, client, expr); err != nil {
		return err
	}
	moved, err := movein.Hosts(found.hosts, found.targets(expr), time.Now())
	if err != nil {
		return err
	}
	if moved.Entries > 0 {
		if err := writeTree(out, moved.Files, 0o755, 0o644); err != nil {
			return err
		}
	}
	fmt.Fprint(a.out, hostReport(found, moved))
	return jobFailure(job.Complete, len(moved.Lines)+len(found.failed), len(found.silent))
}

// A crontabs is what peels answered to cron.tables.
type crontabs struct {
	hosts   []movein.Host // sorted by ID
	failed  []string      // peels with the reason
	silent  []target.PeelID
	unknown []target.PeelID // in the target
}

// cronTables runs cron.tables on the peels of a target.
func (a *app) cronTables(ctx context.Context, client *api.Client, expr string) (*crontabs, error) {
	spec := job.Spec{JID: wire.NewJID(), TargetExpr: expr, Function: "cron.tables"}
	secrets := secretive{show: true}
	if err := secrets.ask(&spec); err != nil {
		return nil, err
	}
	var err error
	if spec.Targets, err = a.resolve(ctx, client, expr); err != nil {
		return nil, err
	}
	found := &crontabs{silent: slices.Clone(spec.Targets), unknown: a.dispatching.unknown}
	if err := a.gather(ctx, client, spec, func(id target.PeelID, r *wire.Return) {
		found.add(id, secrets.open(r))
	}); err != nil {
		return nil, err
	}
	sorting.Stable(found.hosts, func(x, y movein.Host) int { return strings.Compare(x.ID, y.ID) })
	return found, nil
}

// add takes the opened return of a peel.
func (f *crontabs) add(id target.PeelID, r *wire.Return) {
	f.silent = slices.DeleteFunc(f.silent, func(silent target.PeelID) bool { return silent == id })
	cron, err := cronOf(r)
	if err != nil {
		f.failed = append(f.failed, fmt.Sprintf("%s: %v", id, err))
		return
	}
	f.hosts = append(f.hosts, movein.Host{HostFacts: movein.HostFacts{ID: string(id)}, Cron: cron})
}

// cronOf returns the tables in a return.
func cronOf(r *wire.Return) (cron survey.Cron, err error) {
	if !r.Success {
		return cron, errors.New(r.Error)
	}
	data, err := canon.Marshal(r.Data)
	if err == nil {
		err = canon.Unmarshal(data, &cron)
	}
	if err != nil {
		return cron, fmt.Errorf("cannot read the tables: %w", err)
	}
	for _, t := range cron.Tables {
		if t.Text == "" && t.Bytes > 0 {
			return cron, errors.New(
				"the tables came without their texts; the bus may have too small a message for them",
			)
		}
	}
	return cron, nil
}

// areAll reports whether each peel of the target sent its tables.
func (f *crontabs) areAll() bool { return len(f.failed)+len(f.silent)+len(f.unknown) == 0 }

// targets returns an expression for the hosts with tables, empty if only a list tells them from the rest of the target.
func (f *crontabs) targets(expr string) string {
	if f.areAll() {
		return expr
	}
	return ""
}

// addFacts adds what tells the hosts apart.
func (f *crontabs) addFacts(ctx context.Context, client *api.Client, expr string) error {
	peels, err := client.PeelsWithFacts(ctx, expr)
	if err != nil {
		return err
	}
	facts := map[string]target.Facts{}
	for _, p := range peels {
		facts[string(p.ID)] = p.Facts
	}
	for i := range f.hosts {
		host := &f.hosts[i].HostFacts
		host.Facts = map[string]string{}
		for _, name := range movein.FactNames {
			host.Facts[name], _ = facts[host.ID][name].(string)
		}
	}
	return nil
}

func hostReport(f *crontabs, m movein.Moved) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s of %s: %d entries, %d times compared, 0 differ; %d lines not imported\n",
		count(m.Tables, "table"), count(len(f.hosts), "peel"), m.Entries, m.Times, len(m.Lines))
	for _, r := range m.Lines {
		fmt.Fprintf(&b, "not imported: %s:%d: %s (%s)\n  %s\n", plain(r.File), r.Line, plain(r.Reason),
			hostList(r.Hosts), plain(r.Text))
	}
	for _, r := range m.Notes {
		fmt.Fprintf(&b, "note: %s: %s (%s)\n", plain(r.File), plain(r.Reason), hostList(r.Hosts))
	}
	for _, text := range f.failed {
		fmt.Fprintf(&b, "failed: %s\n", plain(text))
	}
	if len(f.silent) > 0 {
		fmt.Fprintf(&b, "no answer from %s: %s\n", count(len(f.silent), "peel"), some(f.silent))
	}
	if m.Entries > 0 && !f.areAll() {
		b.WriteString("note: top.yaml lists the peels that sent their tables: no other peel gets an entry\n")
	}
	return b.String()
}
