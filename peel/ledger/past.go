package ledger

import (
	"slices"
	"time"
)

// KeptPast is for how long a list can still tell a fire that it has forgotten.
const KeptPast = 7 * 24 * time.Hour

// maxPast is the limit of what an entry has of forgotten fires, in bytes of their code.
const maxPast = 8 << 10

// A part has fires that a list has forgotten. A fire may be in several parts.
type part struct {
	last int64  // the newest nominal time, in seconds since the Unix epoch
	code []byte // of [AppendRuns]
}

// RestorePast adds a part that [List.Forget] or [List.PastParts] has returned.
func (l *List) RestorePast(code []byte) error {
	runs, err := ParseRuns(code)
	if err != nil {
		return err
	}
	l.remember(runs, code)
	return nil
}

// PastParts returns what the list still can tell of forgotten fires.
func (l *List) PastParts() (codes [][]byte) {
	for _, p := range l.past {
		codes = append(codes, p.code)
	}
	return codes
}

func (l *List) remember(runs []Run, code []byte) {
	if len(runs) == 0 {
		return
	}
	p := part{last: runs[0].Nominal.Unix(), code: code}
	for _, r := range runs {
		p.last = max(p.last, r.Last().Unix())
	}
	l.past = append(l.past, p)
	size := 0
	for _, p := range l.past {
		size += len(p.code)
	}
	for size > maxPast && len(l.past) > 1 {
		size -= len(l.past[0].code)
		l.dropPart()
	}
}

// dropPart drops the oldest part.
func (l *List) dropPart() {
	after := time.Unix(l.past[0].last, 0).UTC().Add(time.Second)
	l.past = slices.Delete(l.past, 0, 1)
	if l.PastFrom.Before(after) {
		l.PastFrom = after
	}
}

// forgetPast drops what is older than 7 days.
func (l *List) forgetPast(now time.Time) {
	first := now.Add(-KeptPast).Truncate(time.Hour)
	for len(l.past) > 0 && l.past[0].last < first.Unix() {
		l.dropPart()
	}
	if !l.PastFrom.IsZero() && l.PastFrom.Before(first) {
		l.PastFrom = At(first)
	}
}

// Between returns the fires with nominal times from one time to another, those included that the list has forgotten, in
// the order of [AppendRuns]. It has all of them since the time that it returns.
func (l *List) Between(from, to time.Time) (runs []Run, since time.Time, err error) {
	var all List
	for _, p := range l.past {
		runs, err := ParseRuns(p.code)
		if err != nil {
			return nil, since, err
		}
		all.Restore(runs)
	}
	all.Restore(l.Runs())
	since = l.From
	if !l.PastFrom.IsZero() && l.PastFrom.Before(since) {
		since = l.PastFrom
	}
	isOut := func(f Fire) bool { return f.Nominal.Before(from) || f.Nominal.After(to) }
	for i := range all.eras {
		e := &all.eras[i]
		e.fires = slices.DeleteFunc(e.fires, func(p packed) bool { return isOut(p.code.fire(e.number, p.at)) })
		e.hours = slices.DeleteFunc(e.hours, func(h hour) bool { return h.last < from.Unix() || h.start > to.Unix() })
	}
	return all.Runs(), since, nil
}
