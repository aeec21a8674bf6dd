package audit

import (
	"context"
	"time"
)

const (
	watchEvery  = 10 * time.Second
	watchedPast = 1000 // entries before the start that are checked, too
)

// Status returns what [Log.Run] found.
func (l *Log) Status() Status {
	if l == nil {
		return Status{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.status
}

// Run checks that each entry follows the one before it, from 1,000 entries before its start. It returns nil when ctx
// ends.
func (l *Log) Run(ctx context.Context) error {
	if l == nil {
		return nil
	}
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		for l.watch(ctx) {
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// watch checks the next entries and reports whether there are more. What cannot be read is read again later.
func (l *Log) watch(ctx context.Context) (more bool) {
	at := l.Status().Head
	q := Query{Lines: true, After: at.Seq}
	if at.Seq == 0 {
		newest, err := l.newest(ctx)
		if err != nil || newest.Seq == 0 {
			return false
		}
		if q.After = newest.Seq - min(newest.Seq, watchedPast); q.After > 0 {
			at = Head{Seq: q.After}
		}
	}
	page, err := l.List(ctx, q)
	if err != nil {
		return false
	}
	if len(page.Lines) > 0 && page.First > at.Seq+1 { // removed by their age or because the log is full
		at = Head{Seq: page.First - 1}
	}
	for _, line := range page.Lines {
		err := at.Check(line)
		at = HeadOf(line)
		l.found(at, line.Entry(), err)
	}
	return page.More && ctx.Err() == nil
}

func (l *Log) found(at Head, e Entry, gap error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.status.Head = at
	if e.BreakGlass {
		l.status.Use = Use{At: e.Time, Action: e.Action, From: e.From}
	}
	if gap == nil {
		return
	}
	if l.status.Gaps++; l.status.Gaps == 1 {
		l.status.First = gap.Error()
		l.log.Error("the audit log has a gap", "err", gap)
	}
}
