package page

import (
	"fmt"
	"html"
	"strconv"
	"strings"
	"time"
)

// A canvas writes SVG.
type canvas struct{ strings.Builder }

// put writes markup; texts among its arguments are to be escaped with [text].
func (c *canvas) put(format string, args ...any) { fmt.Fprintf(&c.Builder, format, args...) }

// text returns a text as the content of an element or attribute.
func text(s string) string { return html.EscapeString(s) }

// num writes a coordinate with at most two decimals.
func num(f float64) string {
	s := strconv.FormatFloat(f, 'f', 2, 64)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// An axis places times on a width of 100 %.
type axis struct{ from, until time.Time }

// at returns the place of a time in percent, from 0 to 100.
func (a axis) at(t time.Time) float64 {
	share := float64(t.Sub(a.from)) / float64(a.until.Sub(a.from)) * 100
	return min(max(share, 0), 100)
}

// thousands writes a number with commas between its thousands.
func thousands[N int | uint64](n N) string {
	s := strconv.FormatUint(uint64(max(n, 0)), 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
