package schedule

import (
	"fmt"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/settings/schedule/cron"
)

// String puts the timing into the words of its fields, as in "cron 0 */4 * * * in Europe/London"; empty if there is none.
func (c Clock) String() string {
	var text string
	switch {
	case c.Interval != Interval{}:
		text = c.interval()
		if c.Interval.Months == 0 {
			return text // the same in all zones
		}
	case len(c.Cron) > 0:
		texts := make([]string, len(c.Cron))
		for i, x := range c.Cron {
			texts[i] = x.Text
		}
		text = "cron " + strings.Join(texts, " | ")
		if gap, repeat := c.Changes.Gap, c.Changes.Repeat; gap != cron.GapRun || repeat != cron.RepeatAuto {
			text += fmt.Sprintf(" (dst_gap %s, dst_overlap %s)", gap, repeat)
		}
	case len(c.At) > 0:
		texts := make([]string, len(c.At))
		for i, at := range c.At {
			texts[i] = at.UTC().Format(time.RFC3339Nano)
		}
		return "at " + strings.Join(texts, " | ")
	case c.After > 0:
		return "after " + shorten(c.After)
	}
	if c.Zone != "" {
		text += " in " + c.Zone
	}
	return text
}

func (c Clock) interval() string {
	text := "interval "
	switch months := c.Interval.Months; {
	case months == 0:
		text += shorten(c.Interval.Duration)
	case months == 1:
		text += "monthly"
	default:
		text += fmt.Sprintf("%d months", months)
	}
	if c.IntervalFrom != FromEnd {
		text += " from " + string(c.IntervalFrom)
	}
	if c.Phase > 0 {
		text += " + " + shorten(c.Phase)
	}
	return text
}

// shorten writes 1h30m for 1h30m0s.
func shorten(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
