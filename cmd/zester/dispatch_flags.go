package main

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/seed-c01c3da5/zester/master/job"
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
	secrets                   secretive
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
		return errors.New("it is failed or missing")
	}
	return nil
}

// shows reports whether a target in that state is to be printed.
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

// following are the flags of every command that dispatches.
func (d *dispatching) following(fs *pflag.FlagSet) {
	durationVar(fs, &d.timeout, "timeout", job.DefaultTimeout, "`TIME` in which each peel has to return")
	durationVar(fs, &d.wait, "wait", 0, "stop waiting after `TIME`; the job goes on (default: wait for its end)")
	fs.BoolVar(&d.async, "async", false, "print the job ID and do not wait")
	d.viewing.flags(fs)
}

func (d *dispatching) flags(fs *pflag.FlagSet) {
	d.following(fs)
	fs.StringVar(&d.batch, "batch", "", "run on at most `N` peels at a time, or on a share such as 10%")
	fs.IntVar(&d.maxFailures, "max-failures", 0, "with --batch: start no more peels once `N` have failed (default: go on)")
	durationVar(fs, &d.whenOnline, "when-online", 0, "also run on offline peels that come back within `TIME`")
	fs.StringVar(&d.reason, "reason", "", "`REASON` to record")
	fs.BoolVar(&d.test, "test", false, "pass test=true: functions that know it only say what they would do")
	fs.BoolVarP(&d.yes, "yes", "y", false, "do not ask for confirmation")
}

// choice are the flags that say which of the peels of the target are meant.
func (d *dispatching) choice(fs *pflag.FlagSet) {
	fs.IntVar(&d.expect, "expect", 0, "run nothing unless the target selects exactly `N` peels")
	fs.IntVar(&d.subset, "subset", 0, "run on `N` of the peels, chosen at random")
	fs.Uint64Var(&d.seed, "seed", 0, "with --subset: `SEED` of the choice, to repeat it")
	fs.BoolVar(&d.dryRun, "dry-run", false, "print the selected peels and run nothing")
	fs.BoolVar(&d.direct, "direct", false, "ask the peels without a master, which leaves no record; needs a credential of the role direct")
	fs.BoolVar(&d.secrets.show, "show-secrets", false, "with settings.get: print secrets, which only this process can read; needs the permission")
}

// check refuses flags that make no sense, alone or together, before anybody is asked.
func (d *dispatching) check(changed func(string) bool) error {
	switch {
	case d.timeout < job.MinTimeout || d.timeout > job.MaxTimeout:
		return usageError("cannot wait for %s: --timeout is between %s and %s", d.timeout, job.MinTimeout, job.MaxTimeout)
	case d.whenOnline > job.MaxWhenOnline:
		return usageError("cannot wait for peels that are away for %s: --when-online is %s at most", d.whenOnline, job.MaxWhenOnline)
	case len(d.reason) > job.MaxMetadataText:
		return usageError("cannot keep a reason of %d bytes: --reason takes %d at most", len(d.reason), job.MaxMetadataText)
	case d.async && (d.wait != 0 || d.group || d.only != ""):
		return usageError("--async prints no returns: it does not go with --wait, --group and --only")
	case d.maxFailures != 0 && d.batch == "":
		return usageError("--max-failures says when no further batch begins: it needs --batch")
	case changed("seed") && !changed("subset"):
		return usageError("--seed makes the choice of --subset, which is missing")
	}
	if d.secrets.show && (d.direct || d.async) {
		return usageError("--show-secrets needs a master that judges it, and waits for the answer: it does not go with --direct and --async")
	}
	if err := d.checkCounts(changed); err != nil {
		return err
	}
	if d.direct {
		return d.checkDirect()
	}
	return nil
}

// checkCounts refuses numbers and times that are none, although somebody gave them.
func (d *dispatching) checkCounts(changed func(string) bool) error {
	for _, f := range []struct {
		name  string
		least bool // it is 1 or more, or longer than no time
		value any
	}{
		{"expect", d.expect > 0, d.expect},
		{"subset", d.subset > 0, d.subset},
		{"max-failures", d.maxFailures > 0, d.maxFailures},
		{"wait", d.wait > 0, d.wait},
		{"when-online", d.whenOnline > 0, d.whenOnline},
	} {
		if changed(f.name) && !f.least {
			return usageError("cannot use --%s %v: it is more than 0; without the flag there is no such limit", f.name, f.value)
		}
	}
	if changed("batch") {
		_, _, err := d.parseBatch()
		return err
	}
	return nil
}

// parseBatch reads --batch: a number of peels, or a share of them in hundredths.
func (d *dispatching) parseBatch() (n int, share bool, err error) {
	text, share := strings.CutSuffix(d.batch, "%")
	size, err := strconv.ParseUint(text, 10, 31)
	if err != nil || size < 1 || share && size > 100 {
		return 0, false, usageError("cannot make batches of %q: it is a number of peels, or 1%% to 100%%", d.batch)
	}
	return int(size), share, nil
}

// batches turns --batch into a number of the peels.
func (d *dispatching) batches(peels int) (*job.Batch, error) {
	if d.batch == "" {
		return nil, nil
	}
	n, share, err := d.parseBatch()
	if err != nil {
		return nil, err
	}
	if share {
		n = (peels*n + 99) / 100
	}
	return &job.Batch{Size: min(n, peels), MaxFailures: d.maxFailures}, nil
}
