package ledger

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/settings/sorting"
)

// Kept is for how long a list keeps a fire.
const Kept = 48 * time.Hour

// maxSingle is the number of fires of an hour from which on those that are decided are kept as numbers.
const maxSingle = 120

// A List has the fires of one entry and its marks. The zero value is empty. Its methods must not be called at the same
// time.
type List struct {
	From     time.Time // the list has all fires since; zero: the entry has never been active
	PastFrom time.Time // [List.Between] has all fires since; zero: since From
	Marks    []Mark    // when the entry began to be active or to rest, the oldest first
	eras     []era     // by number
	past     []part    // fires that were forgotten, the first forgotten first
}

// An era has the fires of one era.
type era struct {
	number uint32
	fires  []packed // by nominal time and class
	hours  []hour   // of fires that are kept as numbers, by hour and code
}

// A packed fire takes 16 bytes.
type packed struct {
	at   int64 // its nominal time in seconds since the Unix epoch
	code code
}

type hour struct {
	start, last int64 // the hour, and the last nominal time that was added
	code        code
	count       int
}

const hourSeconds = 3600

func hourOf(at int64) int64 { return at - ((at%hourSeconds)+hourSeconds)%hourSeconds }

func comparePacked(a, b packed) int {
	return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.code.class(), b.code.class()))
}

func (c code) class() Class     { return Class(c >> classShift & 7) }
func (c code) outcome() Outcome { return Outcome(c >> outcomeShift & 7) }

// era returns the era with a number, and makes it if it is not there.
func (l *List) era(number uint32) *era {
	i, found := slices.BinarySearchFunc(l.eras, number, func(e era, n uint32) int { return cmp.Compare(e.number, n) })
	if !found {
		l.eras = slices.Insert(l.eras, i, era{number: number})
	}
	return &l.eras[i]
}

// DoubtBefore makes the list complete only since a time: fires of before may have been lost. Those that it has stay.
func (l *List) DoubtBefore(at time.Time) {
	if l.From.IsZero() {
		return
	}
	l.From = At(at)
	l.PastFrom = time.Time{}
}

// Put adds a fire, in the place of the one with the same era, class and nominal time.
func (l *List) Put(f Fire) {
	e, p := l.era(f.Era), packed{f.Nominal.Unix(), f.code()}
	i, found := slices.BinarySearchFunc(e.fires, p, comparePacked)
	if found {
		e.fires[i] = p
	}
	switch start := hourOf(p.at); {
	case f.Outcome != Pending && e.hasHour(start):
		if found {
			e.fires = slices.Delete(e.fires, i, i+1)
		}
		e.count(p)
	case !found:
		e.fires = slices.Insert(e.fires, i, p)
		fallthrough
	default:
		e.compact(start)
	}
}

// compact makes numbers of the decided fires of an hour that has too many.
func (e *era) compact(start int64) {
	from := e.search(start)
	to := e.search(start + hourSeconds)
	if to-from <= maxSingle {
		return
	}
	for _, p := range e.fires[from:to] {
		if p.code.outcome() != Pending {
			e.count(p)
		}
	}
	kept := slices.DeleteFunc(slices.Clone(e.fires[from:to]), func(p packed) bool {
		return p.code.outcome() != Pending
	})
	e.fires = slices.Replace(e.fires, from, to, kept...)
}

// search returns the place of the first fire that is not before a time.
func (e *era) search(at int64) int {
	i, _ := slices.BinarySearchFunc(e.fires, packed{at: at}, comparePacked)
	return i
}

func compareHours(a, b hour) int {
	return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.code, b.code))
}

func (e *era) hasHour(start int64) bool {
	i, _ := slices.BinarySearchFunc(e.hours, hour{start: start}, compareHours)
	return i < len(e.hours) && e.hours[i].start == start
}

// count adds a fire to the numbers of its hour.
func (e *era) count(p packed) {
	h := hour{start: hourOf(p.at), last: p.at, code: p.code | hourBit, count: 1}
	i, found := slices.BinarySearchFunc(e.hours, h, compareHours)
	if !found {
		e.hours = slices.Insert(e.hours, i, h)
		return
	}
	e.hours[i].count++
	e.hours[i].last = max(e.hours[i].last, p.at)
}

// find returns the era with a number, nil if it is not there.
func (l *List) find(number uint32) *era {
	i, found := slices.BinarySearchFunc(l.eras, number, func(e era, n uint32) int { return cmp.Compare(e.number, n) })
	if !found {
		return nil
	}
	return &l.eras[i]
}

// Find returns the fire with an era, a class and a nominal time. One that is kept in the numbers of its hour is not
// found.
func (l *List) Find(number uint32, class Class, nominal time.Time) (f Fire, ok bool) {
	e := l.find(number)
	if e == nil {
		return f, false
	}
	p := packed{nominal.Unix(), Fire{Class: class}.code()}
	i, found := slices.BinarySearchFunc(e.fires, p, comparePacked)
	if !found {
		return f, false
	}
	return e.fires[i].code.fire(number, p.at), true
}

// Outcomes yields what became of the fires of a class and a nominal time, by their eras, the newest first. In an hour
// that is kept as numbers, those up to the newest of an outcome have that outcome.
func (l *List) Outcomes(class Class, nominal time.Time) iter.Seq2[uint32, Outcome] {
	at := nominal.Unix()
	return func(yield func(uint32, Outcome) bool) {
		for i := len(l.eras) - 1; i >= 0; i-- {
			e := &l.eras[i]
			if f, ok := l.Find(e.number, class, nominal); ok && !yield(e.number, f.Outcome) {
				return
			}
			for _, h := range e.hours {
				if h.start == hourOf(at) && h.code.class() == class && at <= h.last &&
					!yield(e.number, h.code.outcome()) {
					return
				}
			}
		}
	}
}

// Has reports whether a fire is in the list. In an hour that is kept as numbers, those up to the newest of the class
// are.
func (l *List) Has(number uint32, class Class, nominal time.Time) bool {
	if _, ok := l.Find(number, class, nominal); ok {
		return true
	}
	e, start := l.find(number), hourOf(nominal.Unix())
	return e != nil && slices.ContainsFunc(e.hours, func(h hour) bool {
		return h.start == start && h.code.class() == class && nominal.Unix() <= h.last
	})
}

// Pending returns the pending fire of a class and a nominal time: the one of the newest era if there are several.
func (l *List) Pending(class Class, nominal time.Time) (f Fire, ok bool) {
	for i := len(l.eras) - 1; i >= 0; i-- {
		if f, ok := l.Find(l.eras[i].number, class, nominal); ok && f.Outcome == Pending {
			return f, true
		}
	}
	return f, false
}

// Clone returns a copy that shares nothing.
func (l *List) Clone() List {
	c := List{
		From:     l.From,
		PastFrom: l.PastFrom,
		Marks:    slices.Clone(l.Marks),
		eras:     slices.Clone(l.eras),
		past:     slices.Clone(l.past),
	}
	for i := range c.eras {
		e := &c.eras[i]
		e.fires, e.hours = slices.Clone(e.fires), slices.Clone(e.hours)
	}
	return c
}

// All returns the fires that are kept one by one, by era and nominal time.
func (l *List) All() iter.Seq[Fire] {
	return func(yield func(Fire) bool) {
		for _, e := range l.eras {
			for _, p := range e.fires {
				if !yield(p.code.fire(e.number, p.at)) {
					return
				}
			}
		}
	}
}

// Runs returns all fires, those that are kept as numbers included, in the order of [AppendRuns].
func (l *List) Runs() (list []Run) {
	for _, e := range l.eras {
		fires := make([]Fire, 0, len(e.fires))
		for _, p := range e.fires {
			fires = append(fires, p.code.fire(e.number, p.at))
		}
		if len(e.hours) == 0 {
			list = append(list, Group(fires)...)
			continue
		}
		var of []Run
		for _, h := range e.hours {
			step := time.Duration(h.last-h.start) * time.Second
			of = append(of, Run{Fire: h.code.fire(e.number, h.start), Step: step, Hour: true, Count: h.count})
		}
		for _, f := range fires {
			of = append(of, Run{Fire: f, Count: 1})
		}
		sorting.Stable(of, func(a, b Run) int { return a.Nominal.Compare(b.Nominal) })
		list = append(list, of...)
	}
	return list
}

// Restore adds runs that [List.Runs] has returned.
func (l *List) Restore(runs []Run) {
	for _, r := range runs {
		e := l.era(r.Era)
		if r.Hour {
			h := hour{start: r.Nominal.Unix(), last: r.Last().Unix(), code: r.code() | hourBit, count: r.Count}
			i, found := slices.BinarySearchFunc(e.hours, h, compareHours)
			if !found {
				e.hours = slices.Insert(e.hours, i, h)
			}
			continue
		}
		for i := range r.Count {
			f := r.Fire
			f.Nominal = r.Nominal.Add(time.Duration(i) * r.Step)
			l.Put(f)
		}
	}
}

// Len returns the number of fires that take memory one by one.
func (l *List) Len() (n int) {
	for _, e := range l.eras {
		n += len(e.fires) + len(e.hours)
	}
	return n
}

// Forget drops the fires of each hour that were decided more than 48 hours before now, by the clock of now, and what is
// of an era that the marks of the peel no longer have. Fires that are pending stay. It returns the code of the fires
// that it dropped, for [List.RestorePast].
func (l *List) Forget(peel Marks, now time.Time) (code []byte) {
	first := now.Add(-Kept).Truncate(time.Hour)
	was := l.From
	if !was.IsZero() && len(peel) >= MaxMarks && peel[0].At.After(was) {
		l.From = At(peel[0].At)
	}
	return l.forget(peel, was, first, now)
}

// Shorten drops the older half of the time of the list, in whole hours. It returns what [List.Forget] does.
func (l *List) Shorten(peel Marks, now time.Time) (code []byte) {
	return l.forget(peel, l.From, l.From.Add(now.Sub(l.From)/2).Truncate(time.Hour), now)
}

func (l *List) forget(peel Marks, was, first, now time.Time) (code []byte) {
	if !was.IsZero() && l.From.Before(first) {
		l.From = At(first)
	}
	var oldest uint32
	if len(peel) > 0 {
		oldest = peel[0].Era
	}
	var dropped List
	for i := range l.eras {
		e := &l.eras[i]
		limit := peel.reaches(e.number, first).Unix()
		gone := e.number < oldest
		old := func(at int64) bool { return gone || at < limit }
		d := era{number: e.number}
		d.fires, e.fires = partition(e.fires, func(p packed) bool { return p.code.outcome() != Pending && old(p.at) })
		d.hours, e.hours = partition(e.hours, func(h hour) bool { return old(h.start) })
		dropped.eras = append(dropped.eras, d)
	}
	l.eras = slices.DeleteFunc(l.eras, func(e era) bool { return len(e.fires)+len(e.hours) == 0 })
	n := len(l.Marks)
	l.Marks = slices.DeleteFunc(l.Marks, func(m Mark) bool { // the newest says how it is now
		n--
		return n > 0 && (m.Era < oldest || m.At.Before(peel.reaches(m.Era, first)))
	})
	if l.PastFrom.IsZero() {
		l.PastFrom = cmp.Or(was, l.From)
	}
	if runs := dropped.Runs(); len(runs) > 0 {
		code = AppendRuns(nil, runs)
		l.remember(runs, code)
	}
	l.forgetPast(now)
	return code
}

// partition returns the elements for which is holds, and moves the others to the front of list, which it returns too.
func partition[E any](list []E, is func(E) bool) (these, others []E) {
	others = slices.DeleteFunc(list, func(e E) bool {
		if !is(e) {
			return false
		}
		these = append(these, e)
		return true
	})
	return these, others
}

// Mark adds a mark of the entry. The oldest beyond 64 are dropped, and the list then begins with the oldest that is
// left.
func (l *List) Mark(m Mark) {
	if len(l.Marks) >= MaxMarks {
		l.Marks = slices.Delete(l.Marks, 0, len(l.Marks)-MaxMarks+1)
		l.From = At(l.Marks[0].At)
	}
	l.Marks = append(l.Marks, m)
}
