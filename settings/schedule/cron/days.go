package cron

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"strings"
)

// Days narrows an expression to some of its days. The zero value keeps them all.
type Days struct {
	Weeks     uint8 // bit n: the n-th of its weekday in the month, from 1 to 5; bit 0: the last one. 0 keeps all
	LastDay   bool  // only the last day of a month
	Workday   int8  // only the n-th of Monday to Friday in a month; -1 is the last one. 0 keeps all
	Alternate bool  // only every other week; weeks begin on Monday and count from 5 January 1970
	Year      int   // only this year; 0 keeps all
}

// The years that Days can name.
const minYear, maxYear = 1970, 2199

// On returns the expression, narrowed to days. It is an error if it never fires then.
func (e Expr) On(d Days) (Expr, error) {
	if d.Year != 0 && (d.Year < minYear || d.Year > maxYear) {
		return Expr{}, fmt.Errorf("the year %d is not between %d and %d", d.Year, minYear, maxYear)
	}
	e.spec.only = d
	if !e.spec.possible() {
		return Expr{}, fmt.Errorf("cron %q never fires %s", e.Text, strings.TrimSpace(d.english()))
	}
	return e, nil
}

// String returns the expression, and to which days it is narrowed.
func (e Expr) String() string { return e.Text + e.spec.only.english() }

// english describes the days, with a blank before it; empty for all.
func (d Days) english() string {
	var text string
	ordinals := []string{"last", "first", "second", "third", "fourth", "fifth"}
	if d.Weeks != 0 {
		var names []string
		for n, name := range ordinals {
			if d.Weeks>>n&1 != 0 {
				names = append(names, name)
			}
		}
		if d.Weeks&1 != 0 {
			names = append(names[1:], names[0])
		}
		text += ", the " + and(names) + " of the month"
	}
	if d.LastDay {
		text += " on the last day of the month"
	}
	if n := max(d.Workday, 0); int(n) >= len(ordinals) {
		text += fmt.Sprintf(", weekday %d of the month", n)
	} else if d.Workday != 0 {
		text += ", the " + ordinals[n] + " weekday of the month"
	}
	if d.Alternate {
		text += " every other week"
	}
	if d.Year != 0 {
		text += fmt.Sprintf(" in %d", d.Year)
	}
	return text
}

// of returns the days of a month that are kept: bit i is the i-th. The month begins on day first.
func (d Days) of(first int64, length int) uint32 {
	kept := uint32(1<<(length+1) - 2)
	if d.LastDay {
		kept &= 1 << length
	}
	if d.Workday != 0 {
		kept &= workday(first, length, int(d.Workday))
	}
	if d.Weeks != 0 {
		var weeks uint32
		for n := range 5 {
			if d.Weeks>>(n+1)&1 != 0 {
				weeks |= 0x7F << (7*n + 1)
			}
		}
		if d.Weeks&1 != 0 {
			weeks |= 0x7F << (length - 6)
		}
		kept &= weeks
	}
	if d.Alternate {
		for day := 1; day <= length; day++ {
			const monday = 4 // 5 January 1970
			if floorDiv(first+int64(day-1)-monday, 7)%2 != 0 {
				kept &^= 1 << day
			}
		}
	}
	return kept
}

// workday returns the n-th of Monday to Friday in a month as a bit, or the last one if n is negative.
func workday(first int64, length, n int) uint32 {
	day, step := 1, 1
	if n < 0 {
		day, step, n = length, -1, -n
	}
	for ; day >= 1 && day <= length; day += step {
		const thursday, saturday = 3, 5 // days after Monday; 1 January 1970 was a Thursday
		at := first + int64(day-1) + thursday
		if at-7*floorDiv(at, 7) < saturday {
			n--
		}
		if n == 0 {
			return 1 << day
		}
	}
	return 0
}

func (d Days) compare(o Days) int {
	return cmp.Or(
		cmp.Compare(d.Weeks, o.Weeks), compareBool(d.LastDay, o.LastDay), compareBool(d.Alternate, o.Alternate),
		cmp.Compare(d.Workday, o.Workday), cmp.Compare(d.Year, o.Year))
}

// append appends four bytes.
func (d Days) append(b []byte) []byte {
	b = append(b, d.Weeks, byte(d.Workday)<<2)
	for i, set := range []bool{d.LastDay, d.Alternate} {
		if set {
			b[len(b)-1] |= 1 << i
		}
	}
	return binary.BigEndian.AppendUint16(b, uint16(d.Year))
}
