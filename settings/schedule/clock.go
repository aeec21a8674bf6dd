package schedule

import (
	"fmt"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/settings/schedule/cron"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// String returns the timing as its fields say it, such as "cron 0 */4 * * * in Europe/London"; empty without a timing.
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
			texts[i] = x.String()
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
		return "after " + strictyaml.FormatDuration(c.After)
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
		text += strictyaml.FormatDuration(c.Interval.Duration)
	case months == 1:
		text += "monthly"
	default:
		text += fmt.Sprintf("%d months", months)
	}
	if c.IntervalFrom != FromEnd {
		text += " from " + string(c.IntervalFrom)
	}
	if c.Phase > 0 {
		text += " + " + strictyaml.FormatDuration(c.Phase)
	}
	return text
}
