package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/seed-c01c3da5/zester/master/job"
)

// metaReason is why a person asked for a job, in its metadata.
const metaReason = "reason"

// checkWait refuses what makes no sense as a time to wait.
func (d *dispatching) checkWait() error {
	if d.async && d.wait != 0 {
		return usageError("--async and --wait make no sense together")
	}
	if d.wait < 0 {
		return usageError("cannot wait for %s", d.wait)
	}
	return nil
}

// check refuses flags that make no sense, alone or together.
func (d *dispatching) check(fs *pflag.FlagSet) error {
	for _, pair := range [][2]string{{"dry-run", "async"}, {"dry-run", "wait"}} {
		if fs.Changed(pair[0]) && fs.Changed(pair[1]) {
			return usageError("--%s and --%s make no sense together", pair[0], pair[1])
		}
	}
	for _, pair := range [][2]string{{"max-failures", "batch"}, {"seed", "subset"}} {
		if fs.Changed(pair[0]) && !fs.Changed(pair[1]) {
			return usageError("--%s needs --%s", pair[0], pair[1])
		}
	}
	for name, n := range map[string]int{"expect": d.expect, "subset": d.subset, "max-failures": d.maxFailures} {
		if fs.Changed(name) && n < 1 {
			return usageError("--%s is 1 or more, not %d", name, n)
		}
	}
	if d.whenOnline < 0 {
		return usageError("cannot keep the request for %s: --when-online is not negative", d.whenOnline)
	}
	if fs.Changed("batch") {
		_, err := batchSize(d.batch, 1)
		return err
	}
	return nil
}

// narrow applies to a job what the flags say about its targets, which are resolved and sorted.
func (d *dispatching) narrow(spec *job.Spec) error {
	if n := len(spec.Targets); d.expect > 0 && n != d.expect {
		return &failure{
			code: exitCanceled, err: fmt.Errorf("%q is %s, --expect says %d: nothing was dispatched", spec.TargetExpr, count(n, "peel"), d.expect),
			hint: "--dry-run shows which they are",
		}
	}
	if d.subset > 0 && d.subset < len(spec.Targets) {
		seed := d.seed
		if seed == 0 {
			seed = rand.Uint64()
		}
		r := rand.New(rand.NewPCG(seed, 0))
		r.Shuffle(len(spec.Targets), func(i, j int) { spec.Targets[i], spec.Targets[j] = spec.Targets[j], spec.Targets[i] })
		spec.Targets = spec.Targets[:d.subset]
		slices.Sort(spec.Targets)
	}
	if d.batch != "" {
		size, err := batchSize(d.batch, len(spec.Targets))
		if err != nil {
			return err
		}
		spec.Batch = &job.Batch{Size: size, MaxFailures: d.maxFailures}
	}
	spec.WhenOnline = d.whenOnline
	if d.reason != "" {
		spec.Metadata = map[string]string{metaReason: d.reason}
	}
	return nil
}

// batchSize reads 10 or 10%, of so many targets; a part of a peel is one.
func batchSize(text string, targets int) (int, error) {
	number, percent := strings.CutSuffix(text, "%")
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || percent && n > 100 {
		return 0, usageError("cannot make batches of %q: --batch is a number of peels, or 1%% to 100%%", text)
	}
	if percent {
		n = (targets*n + 99) / 100
	}
	return n, nil
}

// printTargets prints the peels that a job would run on.
func (a *app) printTargets(spec job.Spec) error {
	t := table{header: []string{"PEEL"}}
	for _, id := range spec.Targets {
		t.add(string(id))
	}
	return a.show(spec.Targets, t)
}
