package why

import (
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// presence says whether the peel is connected.
func (q *question) presence() string {
	switch p := q.Presence; {
	case p.Online:
		return "it is connected"
	case p.Unknown:
		return "this master has just started, and has not heard of it yet"
	case p.LastSeen.IsZero():
		return "it is away, and has not been heard since this master started"
	default:
		return "it is away, and was last heard at " + q.stamp(p.LastSeen)
	}
}

// awayWords says that a peel that is away may have had later fires of an entry whose plan gives no times. It is empty
// if a time was asked for.
func (q *question) awayWords() string {
	if q.Time != "" || q.hasClock || q.Presence.Online || q.Presence.Unknown || q.listed == nil {
		return ""
	}
	return string(q.Peel) + strings.TrimPrefix(q.presence(), "it") + ", so later fires are not known. "
}

// took writes how long a run took.
func took(d time.Duration) string {
	if d < 0 {
		return "an unknown time"
	}
	if d < time.Second {
		return strictyaml.FormatDuration(d.Round(time.Millisecond))
	}
	return strictyaml.FormatDuration(d.Round(100 * time.Millisecond))
}

func short(commit string) string { return commit[:min(8, len(commit))] }

// stamp writes a time as the clocks of the entry's zone show it.
func (q *question) stamp(at time.Time) string {
	return at.In(q.zone).Format("Mon 2006-01-02 15:04:05 MST")
}

// oneLineFact puts a text from elsewhere on one line.
func oneLineFact(text string) string { return strings.Join(strings.Fields(text), " ") }

// words puts a text between others, unless it is empty.
func words(before, text, after string) string {
	if text == "" {
		return ""
	}
	return before + text + after
}
