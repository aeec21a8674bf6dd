package main

import (
	"cmp"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// dispatching holds the flags of a dispatch.
type dispatching struct {
	timeout, wait, whenOnline time.Duration
	batch                     string // a number of peels, or a percentage such as 10%
	maxFailures               int
	expect, subset            int // 0: not given
	seed                      uint64
	reason                    string
	async, dryRun, test, yes  bool
	direct                    bool
	secrets                   secretive
	viewing

	unknown []target.PeelID // peels that the target names and nobody knows
}

// viewing holds the flags that select and group the printed returns.
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
		return errors.New("it is failed or missing")
	}
	return nil
}

// shows reports whether targets in a state are printed.
func (o only) shows(s job.RowState) bool {
	switch o {
	case onlyFailed:
		return s == job.RowFailed || s == job.RowRejected || s == job.RowCanceled
	case onlyMissing:
		return s == job.RowMissing || s == job.RowSkipped || s == job.RowWaiting || s == job.RowUnreachable
	}
	return true
}

func (v *viewing) flags(fs *pflag.FlagSet) {
	fs.BoolVar(&v.group, "group", false, "print equal returns once, with the names of their peels")
	fs.Var(&v.only, "only", "show only peels that `failed` or are missing")
}

// following adds the flags of every command that dispatches.
func (d *dispatching) following(fs *pflag.FlagSet) {
	durationVar(fs, &d.timeout, "timeout", 0,
		"`TIME` after which a peel that has not returned is missing (default: 60s, 10m for states, 3m for prompt.run)")
	durationVar(fs, &d.wait, "wait", 0, "stop waiting after `TIME`; the job goes on (default: wait for its end)")
	fs.BoolVar(&d.async, "async", false, "print the job ID and do not wait")
	d.viewing.flags(fs)
}

func (d *dispatching) flags(fs *pflag.FlagSet) {
	d.following(fs)
	fs.StringVar(&d.batch, "batch", "", "run on at most `N` peels at a time, or on a percentage such as 10%")
	fs.IntVar(&d.maxFailures, "max-failures", 0,
		"with --batch: start no more peels once `N` have failed (default: go on)")
	durationVar(fs, &d.whenOnline, "when-online", 0, "also run on offline peels that come back within `TIME`")
	fs.StringVar(&d.reason, "reason", "", "`REASON` to record")
	fs.BoolVar(&d.test, "test", false, "pass test=true: functions that know it only say what they would do")
	fs.BoolVarP(&d.yes, "yes", "y", false, "do not ask for confirmation")
}

// choice adds the flags that choose among the peels of the target.
func (d *dispatching) choice(fs *pflag.FlagSet) {
	fs.IntVar(&d.expect, "expect", 0, "run nothing unless the target selects exactly `N` peels")
	fs.IntVar(&d.subset, "subset", 0, "run on `N` of the peels, chosen at random")
	fs.Uint64Var(&d.seed, "seed", 0, "with --subset: `SEED` of the random choice, to repeat it")
	fs.BoolVar(&d.dryRun, "dry-run", false, "print the selected peels and run nothing")
	fs.BoolVar(&d.direct, "direct", false,
		"ask the peels without a master and without a job record; needs a credential of the role direct")
	fs.BoolVar(&d.secrets.show, "show-secrets", false,
		"with settings.get, cron.tables and file.read: print secrets; "+
			"needs the permission --secrets of zester auth user add")
}

// timeoutOf returns how long the returns of a function are waited for.
func (d *dispatching) timeoutOf(function string) time.Duration {
	return cmp.Or(d.timeout, job.TimeoutOf(function))
}

// check refuses invalid flags and combinations of flags. It asks no master.
func (d *dispatching) check(changed func(string) bool) error {
	switch {
	case changed("timeout") && (d.timeout < job.MinTimeout || d.timeout > job.MaxTimeout):
		return usageError("cannot wait for %s: --timeout is between %s and %s", d.timeout, job.MinTimeout,
			job.MaxTimeout)
	case d.whenOnline > job.MaxWhenOnline:
		return usageError("cannot wait %s for offline peels: --when-online is at most %s", d.whenOnline,
			job.MaxWhenOnline)
	case len(d.reason) > job.MaxMetadataText:
		return usageError("cannot record a reason of %d bytes: --reason takes at most %d", len(d.reason),
			job.MaxMetadataText)
	case d.async && (d.wait != 0 || d.group || d.only != ""):
		return usageError("--async prints no returns: it does not go with --wait, --group and --only")
	case d.maxFailures != 0 && d.batch == "":
		return usageError("--max-failures needs --batch: without batches all peels start at once")
	case changed("seed") && !changed("subset"):
		return usageError("--seed needs --subset: it repeats the random choice of --subset")
	}
	if d.secrets.show && (d.direct || d.async) {
		return usageError(
			"--show-secrets needs a master to check the permission, and waits for the returns: " +
				"it does not go with --direct and --async",
		)
	}
	if err := d.checkCounts(changed); err != nil {
		return err
	}
	if d.direct {
		return d.checkDirect()
	}
	return nil
}

// checkCounts refuses flags that were given with a number or time of 0 or less, and an invalid --batch.
func (d *dispatching) checkCounts(changed func(string) bool) error {
	for _, f := range []struct {
		name  string
		valid bool
		value any
	}{
		{"expect", d.expect > 0, d.expect},
		{"subset", d.subset > 0, d.subset},
		{"max-failures", d.maxFailures > 0, d.maxFailures},
		{"wait", d.wait > 0, d.wait},
		{"when-online", d.whenOnline > 0, d.whenOnline},
	} {
		if changed(f.name) && !f.valid {
			return usageError("cannot use --%s %v: it is more than 0; without the flag there is no such limit", f.name,
				f.value)
		}
	}
	if changed("batch") {
		_, _, err := d.parseBatch()
		return err
	}
	return nil
}

// parseBatch parses --batch: a number of peels, or a percentage.
func (d *dispatching) parseBatch() (n int, percent bool, err error) {
	text, percent := strings.CutSuffix(d.batch, "%")
	size, err := strconv.ParseUint(text, 10, 31)
	if err != nil || size < 1 || percent && size > 100 {
		return 0, false, usageError("cannot use --batch %q: it is a number of peels, or 1%% to 100%%", d.batch)
	}
	return int(size), percent, nil
}

// batches returns the batches of --batch for a number of peels; nil if it is not set.
func (d *dispatching) batches(peels int) (*job.Batch, error) {
	if d.batch == "" {
		return nil, nil
	}
	n, percent, err := d.parseBatch()
	if err != nil {
		return nil, err
	}
	if percent {
		n = (peels*n + 99) / 100
	}
	return &job.Batch{Size: min(n, peels), MaxFailures: d.maxFailures}, nil
}
