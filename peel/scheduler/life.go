package scheduler

import "github.com/seed-c01c3da5/zester/peel/scheduler/history"

// lived reports whether the entry has had, or has in flight, all the runs that its timing may give it.
func (e *entry) lived() bool {
	n := e.TimingRuns
	for _, r := range e.runs {
		n += r.counts()
	}
	limit := e.MaxRuns()
	return limit > 0 && n >= limit
}

// counts is what the run takes from the life of its entry: nothing if somebody asked for it, or if the entry has got
// another timing since.
func (r *run) counts() uint64 {
	if r.fire.Trigger == history.TriggerManual || r.timing != r.e.TimingHash {
		return 0
	}
	return 1
}
