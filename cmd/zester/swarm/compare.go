// File compare.go compares runs of two programs. Give [Compare] the reports of both, at least three each, made in turn.

package swarm

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// A Change is a figure of two programs: the medians of its ratios to the bare bus, or of its values where the bare bus
// has no such figure. Times is Now divided by Before, 1 if both are 0 and infinite if Before alone is.
type Change struct {
	Name               string
	Before, Now, Times float64
	Worse              bool // beyond noise
}

// leastChange is how much worse a median must be to count, so that three equal readings do not make noise of 0.1 % a
// change.
const leastChange = 1.05

// Compare compares the figures that all reports have. A figure is worse if each reading of now is worse than each one
// of before, and the median is worse by 5 %. Readings that overlap are noise.
func Compare(before, now []*Report) (all []Change) {
	if len(before) == 0 || len(now) == 0 {
		return nil
	}
	for _, f := range before[0].Figures {
		a, b := readings(before, f.Name), readings(now, f.Name)
		if len(a) != len(before) || len(b) != len(now) {
			continue
		}
		c := Change{Name: f.Name, Before: a[len(a)/2], Now: b[len(b)/2]}
		c.Times = c.Now / c.Before
		if c.Now == c.Before {
			c.Times = 1
		}
		if moreIsBetter(f) {
			c.Worse = b[len(b)-1] < a[0] && c.Times < 1/leastChange
		} else {
			c.Worse = b[0] > a[len(a)-1] && c.Times > leastChange
		}
		all = append(all, c)
	}
	return all
}

// readings returns the sorted values of a figure, and none of reports that lack it.
func readings(reports []*Report, name string) (values []float64) {
	for _, r := range reports {
		i := slices.IndexFunc(r.Figures, func(f Figure) bool { return f.Name == name })
		if i < 0 {
			continue
		}
		value := r.Figures[i].Ratio
		if value == 0 {
			value = r.Figures[i].Value
		}
		values = append(values, value)
	}
	slices.Sort(values)
	return values
}

func moreIsBetter(f Figure) bool {
	return f.Unit == "1/s" || slices.ContainsFunc(Goals(0), func(g Goal) bool { return g.AtLeast && g.Name == f.Name })
}

// WriteChanges writes a table of changes.
func WriteChanges(w io.Writer, all []Change) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%-60s %10s %10s %8s\n", "figure, a ratio to the bare bus if it has one", "before", "now",
		"times")
	for _, c := range all {
		word := ""
		if c.Worse {
			word = "  worse"
		}
		fmt.Fprintf(&b, "%-60s %10.3g %10.3g %8.2f%s\n", c.Name, c.Before, c.Now, c.Times, word)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
