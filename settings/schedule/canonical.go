package schedule

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/seed-c01c3da5/zester/settings/schedule/cron"
	"github.com/seed-c01c3da5/zester/settings/schedule/window"
	"github.com/seed-c01c3da5/zester/settings/sorting"
)

// Canonical returns bytes that are equal for two entries if and only if the entries are equal: same name, same
// function, arguments of the same values and types, same times, same options. The bytes cannot be decoded.
func (e *Entry) Canonical() []byte {
	b := canonical(make([]byte, 0, 512)) // the numbers alone take 300
	b.text(e.Name)
	b.text(e.Module)
	b.clock(e.Clock)
	b.changes(e.Clock.Changes)
	b.text(e.Clock.Zone)
	b.number(int64(e.Splay.Min), int64(e.Splay.Max), int64(e.Timeout))
	b.text(string(e.Splay.Mode), string(e.ReturnJob))
	b.flag(e.RunOnStart, e.Enabled, e.Life.DeleteAfterRun)
	b.number(int64(e.Overlap.MaxRunning), int64(e.Life.MaxRuns))
	b.text(string(e.Overlap.IfRunning), e.Overlap.Group)
	b.windows(e.Windows)
	b.instants(e.Life.NotBefore, e.Life.Until)
	b.text(string(e.Missed.CatchUp))
	b.number(int64(e.Missed.CatchUpMax), int64(e.Missed.StartDeadline), int64(e.Missed.LateAfter))
	b.number(int64(e.Failures.Retry.Attempts), int64(e.Failures.Retry.Backoff), int64(e.Failures.PauseAfter))
	b.number(int64(e.Failures.Breaker.Threshold), int64(e.Failures.Breaker.ResetAfter))
	b.text(e.Needs.Entry, string(e.Needs.On), e.Invalid)
	if len(e.Args) > 0 {
		b.value(e.Args)
	}
	return b
}

// Hash returns 16 hex digits of the digest of [Entry.Canonical]. They may be stored.
func (e *Entry) Hash() string { return digest(e.Canonical()) }

// TimingHash returns 16 hex digits that are equal for entries that always fire at the same times, splay and windows
// aside. They may be stored.
func (e *Entry) TimingHash() string { return digest(e.Clock.canonical()) }

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}

// canonical returns bytes that are equal for clocks that always fire at the same times. It omits fields that do not
// affect this kind of timing.
func (c Clock) canonical() []byte {
	b := canonical(make([]byte, 0, 128))
	b.clock(c)
	if len(c.Cron) > 0 {
		b.changes(c.Changes)
	}
	if len(c.Cron) > 0 || c.Interval.Months > 0 {
		b.text(c.Zone)
	}
	return b
}

// canonical is a buffer whose methods append values unambiguously: numbers take eight bytes, values of variable length
// begin with their length.
type canonical []byte

func (b *canonical) number(values ...int64) {
	for _, v := range values {
		*b = binary.BigEndian.AppendUint64(*b, uint64(v))
	}
}

func (b *canonical) text(values ...string) {
	for _, v := range values {
		*b = append(binary.AppendUvarint(*b, uint64(len(v))), v...)
	}
}

func (b *canonical) flag(values ...bool) {
	for _, v := range values {
		*b = append(*b, strconv.FormatBool(v)[0])
	}
}

func (b *canonical) instants(values ...time.Time) {
	for _, v := range values {
		b.number(v.Unix(), int64(v.Nanosecond()))
	}
}

// clock appends a timing without its zone, its daylight saving rules and its phrase. Cron expressions are sorted and
// duplicates removed, so only the matched times count.
func (b *canonical) clock(c Clock) {
	b.number(int64(c.Interval.Duration), int64(c.Interval.Months), int64(c.Phase), int64(c.After), int64(len(c.At)))
	b.text(string(c.IntervalFrom))
	b.instants(c.At...)
	exprs := c.Cron
	if len(exprs) > 1 {
		exprs = slices.CompactFunc(sorting.Values(slices.Values(exprs), cron.Expr.Compare),
			func(x, y cron.Expr) bool { return x.Compare(y) == 0 })
	}
	b.number(int64(len(exprs)))
	for _, x := range exprs {
		*b = x.Append(*b)
	}
}

func (b *canonical) changes(c cron.Changes) { b.text(string(c.Gap), string(c.Repeat)) }

func (b *canonical) windows(w Windows) {
	b.number(int64(len(w.Rules.Hours)))
	for _, h := range w.Rules.Hours {
		b.number(int64(h.From), int64(h.To))
	}
	for _, d := range []window.Days{w.Rules.On, w.Rules.NotOn, w.Rules.Blackout} {
		b.days(d)
	}
	b.text(string(w.Outside))
}

func (b *canonical) days(d window.Days) {
	b.number(int64(d.Weekdays), int64(len(d.Dates)), int64(len(d.Times)), int64(len(d.Calendars)))
	for _, r := range d.Dates {
		b.number(int64(r.First), int64(r.Last))
	}
	for _, r := range d.Times {
		b.instants(r.From, r.To)
	}
	b.text(d.Calendars...)
}

// value appends a plain value after a letter for its type.
func (b *canonical) value(v any) {
	switch v := v.(type) {
	case nil:
		*b = append(*b, 'n')
	case bool:
		*b = append(*b, 'b')
		b.flag(v)
	case int64:
		*b = append(*b, 'i')
		b.number(v)
	case float64:
		*b = append(*b, 'f')
		b.number(int64(math.Float64bits(v)))
	case string:
		*b = append(*b, 's')
		b.text(v)
	case []any:
		*b = append(*b, 'l')
		b.number(int64(len(v)))
		for _, e := range v {
			b.value(e)
		}
	case map[string]any:
		*b = append(*b, 'm')
		b.number(int64(len(v)))
		for _, k := range slices.Sorted(maps.Keys(v)) {
			b.text(k)
			b.value(v[k])
		}
	default:
		panic(fmt.Sprintf("schedule: argument of type %T", v)) // Node.Any gives no other type
	}
}
