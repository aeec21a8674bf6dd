package join

import "sort"

// times are one or more Unix times with equal steps.
type times struct {
	first int64
	step  int64 // above 0 if there is more than one
	n     int64
}

func one(at int64) times { return times{first: at, n: 1} }

func (t times) last() int64 { return t.first + (t.n-1)*t.step }

// take returns the first n of the times.
func (t times) take(n int64) times { return times{t.first, t.step, n} }

// drop returns the times after the first n.
func (t times) drop(n int64) times { return times{t.first + n*t.step, t.step, t.n - n} }

// before returns how many of the times are before a Unix time.
func (t times) before(at int64) int64 {
	switch {
	case t.n == 0 || at <= t.first:
		return 0
	case at > t.last():
		return t.n
	}
	return (at-t.first-1)/t.step + 1
}

// has reports whether a Unix time is one of the times.
func (t times) has(at int64) bool {
	return t.n > 0 && (at == t.first || at > t.first && at <= t.last() && (at-t.first)%t.step == 0)
}

// span returns the times; see [cursor].
func (t times) span() times { return t }

// with returns other times; see [cursor].
func (times) with(t times) times { return t }

// appendTime appends a time that is later than those of a list.
func appendTime(list []times, at int64) []times {
	if len(list) > 0 {
		switch end := &list[len(list)-1]; {
		case end.n == 1:
			end.step, end.n = at-end.first, 2
			return list
		case at-end.last() == end.step:
			end.n++
			return list
		}
	}
	return append(list, one(at))
}

// A spanned has times.
type spanned[T any] interface {
	span() times
	with(times) T
}

// A cursor goes through a list of times in order.
type cursor[T spanned[T]] struct {
	rest []T
	used int64 // times of the first of rest that the cursor has passed
}

// next returns what is left of the first of the list; false at its end.
func (c *cursor[T]) next() (head T, ok bool) {
	if len(c.rest) == 0 {
		return head, false
	}
	head = c.rest[0]

	return head.with(head.span().drop(c.used)), true
}

// skip passes the next n times, which the first of the list has.
func (c *cursor[T]) skip(n int64) {
	if c.used += n; c.used >= c.rest[0].span().n {
		c.rest, c.used = c.rest[1:], 0
	}
}

// skipTo passes all times before a Unix time.
func (c *cursor[T]) skipTo(at int64) {
	for len(c.rest) > 0 {
		head, _ := c.next()
		n := head.span().before(at)
		if n == 0 {
			return
		}
		c.skip(n)
	}
}

// A period is the Unix times from the first to the last.
type period struct{ first, last int64 }

// periods are sorted, and none meets another.
type periods []period

// union returns periods that have the times of all.
func union(all []period) (list periods) {
	sort.Slice(all, func(i, j int) bool { return all[i].first < all[j].first })
	for _, p := range all {
		if n := len(list); n > 0 && p.first <= list[n-1].last+1 {
			list[n-1].last = max(list[n-1].last, p.last)
			continue
		}
		list = append(list, p)
	}
	return list
}

// split returns whether a Unix time is in a period. The answer holds for all times up to last.
func (p periods) split(at int64) (in bool, last int64) {
	i := sort.Search(len(p), func(i int) bool { return p[i].last >= at })
	switch {
	case i == len(p):
		return false, 1<<62 - 1
	case at >= p[i].first:
		return true, p[i].last
	}
	return false, p[i].first - 1
}

// meets reports whether a time from first to last is in a period.
func (p periods) meets(first, last int64) bool {
	in, end := p.split(first)

	return in || end < last
}
