package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// dispatching holds the flags of a dispatch.
type dispatching struct {
	timeout, wait, whenOnline time.Duration
	batch                     string // a number of peels, or a share such as 10%
	maxFailures               int
	expect, subset            int // 0: not asked for
	seed                      uint64
	reason                    string
	async, dryRun, test, yes  bool
	direct                    bool
	viewing
}

// viewing holds the flags that say what is printed of a job.
type viewing struct {
	group bool
	only  only
}

// only is a value of --only.
type only string

const (
	onlyFailed  only = "failed"
	onlyMissing only = "missing"
)

func (o *only) String() string { return string(*o) }

func (o *only) Type() string { return "what" }

func (o *only) Set(s string) error {
	if *o = only(s); *o != onlyFailed && *o != onlyMissing {
		return errors.New("there is failed and missing")
	}
	return nil
}

// shows reports whether a target in that state is to be printed.
func (o only) shows(s job.RowState) bool {
	switch o {
	case onlyFailed:
		return s == job.RowFailed || s == job.RowRejected || s == job.RowCanceled
	case onlyMissing:
		return s == job.RowMissing || s == job.RowSkipped || s == job.RowWaiting || s == job.RowAcked || s == job.RowUnreachable
	}
	return true
}

func (v *viewing) flags(fs *pflag.FlagSet) {
	fs.BoolVar(&v.group, "group", false, "print what several peels returned alike once, with their names")
	fs.Var(&v.only, "only", "print only `WHAT`: the peels that failed, or those that are missing")
}

// following are the flags of every command that dispatches.
func (d *dispatching) following(fs *pflag.FlagSet) {
	fs.DurationVar(&d.timeout, "timeout", job.DefaultTimeout, "give each peel this long to return")
	fs.DurationVar(&d.wait, "wait", 0, "stop waiting after `TIME`, while the job goes on (default: wait for its end)")
	fs.BoolVar(&d.async, "async", false, "print the job's ID and do not wait")
	d.viewing.flags(fs)
}

func (d *dispatching) flags(fs *pflag.FlagSet) {
	d.following(fs)
	fs.StringVar(&d.batch, "batch", "", "let only `N` peels, or 10% of them, work at a time")
	fs.IntVar(&d.maxFailures, "max-failures", 0, "with --batch: begin no more when `N` peels have failed (default: go on)")
	fs.DurationVar(&d.whenOnline, "when-online", 0, "ask peels that are away if they come back within `TIME`")
	fs.StringVar(&d.reason, "reason", "", "say `WHY`, for the record")
	fs.BoolVar(&d.test, "test", false, "pass test=true: functions that know it say what they would do")
	fs.BoolVarP(&d.yes, "yes", "y", false, "do not ask before a job on many peels")
}

// choice are the flags that say which of the peels of the target are meant.
func (d *dispatching) choice(fs *pflag.FlagSet) {
	fs.IntVar(&d.expect, "expect", 0, "do nothing unless exactly `N` peels are selected")
	fs.IntVar(&d.subset, "subset", 0, "take `N` of the peels at random")
	fs.Uint64Var(&d.seed, "seed", 0, "with --subset: make the same choice as every time with `SEED`")
	fs.BoolVar(&d.dryRun, "dry-run", false, "print the peels that are meant and run nothing")
	fs.BoolVar(&d.direct, "direct", false, "ask the peels without a master and a record; needs a credential of the role direct")
}

// check refuses flags that make no sense, alone or together.
func (d *dispatching) check(changed func(string) bool) error {
	switch {
	case d.timeout < job.MinTimeout || d.timeout > job.MaxTimeout:
		return usageError("cannot wait for %s: --timeout is between %s and %s", d.timeout, job.MinTimeout, job.MaxTimeout)
	case d.async && (d.wait != 0 || d.group || d.only != ""):
		return usageError("--async prints no returns: it does not go with --wait, --group and --only")
	case d.maxFailures != 0 && d.batch == "":
		return usageError("--max-failures says when no further batch begins: it needs --batch")
	case changed("seed") && d.subset == 0:
		return usageError("--seed makes the choice of --subset, which is missing")
	case changed("expect") && d.expect < 1, changed("subset") && d.subset < 1, d.maxFailures < 0, d.wait < 0, d.whenOnline < 0:
		return usageError("--expect, --subset, --max-failures, --wait and --when-online take more than 0")
	case d.direct:
		return d.checkDirect()
	}
	return nil
}

// batches turns --batch into a number of the peels.
func (d *dispatching) batches(peels int) (*job.Batch, error) {
	if d.batch == "" {
		return nil, nil
	}
	text, share := strings.CutSuffix(d.batch, "%")
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || share && n > 100 {
		return nil, usageError("cannot make batches of %q: it is a number of peels, or 1%% to 100%%", d.batch)
	}
	if share {
		n = (peels*n + 99) / 100
	}
	return &job.Batch{Size: min(n, peels), MaxFailures: d.maxFailures}, nil
}

// choose takes the peels that are meant from those that the target selects.
func (d *dispatching) choose(peels []target.PeelID, seeded bool) ([]target.PeelID, error) {
	if d.subset > 0 && d.subset < len(peels) {
		seed := d.seed
		if !seeded {
			seed = rand.Uint64()
		}
		order := rand.New(rand.NewPCG(seed, 0)).Perm(len(peels))
		some := make([]target.PeelID, d.subset)
		for i := range some {
			some[i] = peels[order[i]]
		}
		slices.Sort(some)
		peels = some
	}
	if d.expect > 0 && len(peels) != d.expect {
		return nil, &failure{
			code: exitCanceled, err: fmt.Errorf("%s selected, --expect is %d: nothing was run", count(len(peels), "peel"), d.expect),
			hint: "--dry-run prints the peels",
		}
	}
	return peels, nil
}

// dispatch runs `zester <target> <function> [id] [key=value …]`.
func (a *app) dispatch(cmd *cobra.Command, words []string) error {
	if len(words) == 0 {
		return cmd.Help()
	}
	spec, err := a.spec(cmd, words)
	if err != nil {
		return err
	}
	return a.withClient(func(client *api.Client) error {
		peels, err := a.meant(cmd.Context(), client, spec.TargetExpr)
		if err != nil {
			return err
		}
		if spec.Targets, err = a.dispatching.choose(peels, cmd.Flags().Changed("seed")); err != nil {
			return err
		}
		if a.dispatching.dryRun {
			return a.showSelection(spec.TargetExpr, spec.Targets)
		}
		if a.dispatching.direct {
			return a.runDirect(cmd.Context(), client, spec)
		}
		return a.runJob(cmd.Context(), client, spec)
	})
}

// meant are the peels of an expression. Those that are named one by one need no master to be asked directly.
func (a *app) meant(ctx context.Context, client *api.Client, expr string) ([]target.PeelID, error) {
	if ids := named(expr); a.dispatching.direct && len(ids) > 0 {
		return ids, nil
	}
	return a.resolve(ctx, client, expr)
}

// spec reads what was typed, all but the peels that are meant. Whether there is such a function is for the peels to
// say, which may be newer than this program.
func (a *app) spec(cmd *cobra.Command, words []string) (job.Spec, error) {
	spec := job.Spec{JID: wire.NewJID(), TargetExpr: words[0], Timeout: a.dispatching.timeout}
	if _, known := wire.LookupFunction(words[0]); known {
		spec.TargetExpr = "*"
	} else if words = words[1:]; len(words) == 0 {
		return spec, usageError("there is no function to run on %q%s", spec.TargetExpr, strictyaml.Suggest(spec.TargetExpr, firstWords(cmd)))
	}
	if spec.Function = words[0]; !strings.Contains(spec.Function, ".") {
		return spec, usageError("cannot run %q on %q: a function is module.function%s",
			spec.Function, spec.TargetExpr, strictyaml.Suggest(spec.TargetExpr, commandNames(cmd)))
	}
	if err := a.dispatching.check(cmd.Flags().Changed); err != nil {
		return spec, err
	}
	var err error
	spec.StateID, spec.Args, err = parseArguments(words[1:])
	return spec, err
}

// fill puts into a job what the flags say of it.
func (d *dispatching) fill(spec *job.Spec) (err error) {
	spec.Timeout, spec.WhenOnline = d.timeout, d.whenOnline
	if d.reason != "" {
		spec.Metadata = withPair(spec.Metadata, metaReason, d.reason)
	}
	if d.test {
		spec.Args = withPair(spec.Args, "test", any(true))
	}
	spec.Batch, err = d.batches(len(spec.Targets))
	return err
}

// withPair is a copy of m with one more pair.
func withPair[V any](m map[string]V, key string, value V) map[string]V {
	m = maps.Clone(m)
	if m == nil {
		m = map[string]V{}
	}
	m[key] = value
	return m
}

// Keys of metadata that this program writes.
const (
	metaReason  = "reason"   // why somebody asked for the job
	metaRetryOf = "retry_of" // the job whose failed and missing targets this one has
)

// firstWords are all that can be typed first but targets.
func firstWords(cmd *cobra.Command) []string {
	names := commandNames(cmd)
	for _, f := range wire.Functions() {
		names = append(names, f.Name)
	}
	return names
}

// resolve returns the peels of an expression, at least one.
func (a *app) resolve(ctx context.Context, client *api.Client, expr string) ([]target.PeelID, error) {
	resolved, err := client.Resolve(ctx, expr)
	if err != nil {
		return nil, err
	}
	a.warnUnknown(resolved.Unknown)
	if len(resolved.Peels) == 0 {
		return nil, &failure{code: exitNoTarget, err: fmt.Errorf("no peel matches %q", expr), hint: "zester peel list shows all peels"}
	}
	if n := len(resolved.Offline); n > 0 {
		fmt.Fprintf(a.errOut, "%d of %s offline: %s\n", n, count(len(resolved.Peels), "peel"), some(resolved.Offline))
	}
	return resolved.Peels, nil
}

// warnUnknown says which IDs of a target are those of no peel.
func (a *app) warnUnknown(ids []target.PeelID) {
	if len(ids) > 0 {
		fmt.Fprintln(a.errOut, "not known:", plain(some(ids)))
	}
}

// some names the first peels of a list.
func some(ids []target.PeelID) string {
	const most = 5
	names := make([]string, min(len(ids), most))
	for i := range names {
		names[i] = string(ids[i])
	}
	list := strings.Join(names, ", ")
	if more := len(ids) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", list, more)
	}
	return list
}

// manyPeels is from how many peels on a person is asked first.
const manyPeels = 500

// confirm asks before a job on many peels, where somebody is there to answer.
func (a *app) confirm(spec *job.Spec) error {
	if a.dispatching.yes || len(spec.Targets) <= manyPeels || !term.IsTerminal(int(os.Stdin.Fd())) || width(a.errOut) == 0 {
		return nil
	}
	fmt.Fprintf(a.errOut, "run %s on %s? [y/N] ", plain(spec.Function), count(len(spec.Targets), "peel"))
	answer, err := bufio.NewReader(io.LimitReader(os.Stdin, 64)).ReadString('\n')
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer == "y" || answer == "yes" {
		return nil
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return &failure{code: exitCanceled, err: errors.New("nothing was run"), hint: "--yes does not ask"}
}

// runJob dispatches and, unless it is not to wait, prints what comes back.
func (a *app) runJob(ctx context.Context, client *api.Client, spec job.Spec) error {
	if err := a.dispatching.fill(&spec); err != nil {
		return err
	}
	if err := a.confirm(&spec); err != nil {
		return err
	}
	if a.dispatching.async {
		j, err := client.Dispatch(ctx, spec)
		if err != nil {
			return err
		}
		return a.print(j, []string{string(j.JID)}, func() error {
			_, err := fmt.Fprintln(a.out, j.JID)
			return err
		})
	}
	follower, err := client.Follow(spec.JID, spec.Targets)
	if err != nil {
		return err
	}
	defer follower.Close()
	if _, err := client.Dispatch(ctx, spec); err != nil {
		return err
	}
	fmt.Fprintf(a.errOut, "job %s on %s\n", spec.JID, count(len(spec.Targets), "peel"))
	return a.follow(ctx, client, follower, newReport(a, spec.JID, spec.Function, len(spec.Targets)))
}

// follow prints what comes of a job until its end, or until nobody wants to wait any more.
func (a *app) follow(ctx context.Context, client *api.Client, follower *api.Follower, r *report) error {
	if a.dispatching.wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, a.dispatching.wait)
		defer cancel()
	}
	for event, err := range follower.Events(ctx) {
		if err == nil {
			err = r.take(event)
		}
		if err != nil {
			r.progress.clear()
			return a.detached(r.jid, err)
		}
	}
	return r.end(ctx, client)
}

// detached is the failure of losing sight of a job that goes on.
func (a *app) detached(jid wire.JID, err error) error {
	f := failureOf(err)
	switch {
	case f.code == exitInterrupted:
		f.err = errors.New("interrupted, the job goes on")
	case errors.Is(err, context.DeadlineExceeded):
		f.code, f.err = exitStillRuns, fmt.Errorf("the job still runs after %s", a.dispatching.wait)
	}
	f.hint = "zester job watch " + string(jid) + " goes on watching, zester job cancel " + string(jid) + " stops it"
	return f
}
