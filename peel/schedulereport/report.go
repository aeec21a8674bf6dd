package schedulereport

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/peel/scheduler"
	"github.com/seed-c01c3da5/zester/peel/scheduler/history"
	"github.com/seed-c01c3da5/zester/peel/scheduler/rules"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A Source is what a report is made from.
type Source struct {
	Peel      target.PeelID
	Zone      string
	Started   time.Time // of the process
	Settings  Settings
	States    []scheduler.EntryState // sorted by name
	Confirmed time.Time              // when the last report was made that the stream confirmed; zero: unknown
}

const (
	repeatedHours = 12  // that every report has
	leastHours    = 3   // that a report keeps if it is too large
	maxText       = 256 // bytes of a reason or the head of an error
)

// Build returns the report on a schedule at a time.
func Build(s Source, now time.Time) wire.ScheduleState {
	r := wire.ScheduleState{
		Peel: s.Peel, Commit: s.Settings.Commit, Digest: s.Settings.Digest, Version: s.Settings.Version, Zone: s.Zone,
		Time: now.UTC(), Started: s.Started.UTC(), Entries: make([]wire.EntryReport, 0, len(s.States)), V: wire.Version,
	}
	first := hourOf(now) - repeatedHours
	if confirmed := hourOf(s.Confirmed); confirmed < first {
		first = max(confirmed, hourOf(now)-wire.MaxScheduleHours+1)
	}
	r.From = first
	for i := range s.States {
		e := entryReport(&s.States[i], first, hourOf(now))
		e.Local = s.Settings.Schedule[e.Name] == nil
		r.Entries = append(r.Entries, e)
	}
	return r
}

func hourOf(at time.Time) int64 { return at.Unix() / 3600 }

func entryReport(s *scheduler.EntryState, first, last int64) wire.EntryReport {
	e := wire.EntryReport{
		Name: s.Name, State: string(s.State), Why: cut(s.Why), Since: utc(s.Since),
		Next: utc(s.NextNominal), Latest: utc(s.Latest),
		RunTimes: wire.RunTimes{
			Nominal: utc(s.Nominal), Fired: utc(s.Fired), Started: utc(s.Started), Ended: utc(s.Ended), Succeeded: utc(s.Succeeded),
		},
		Error: cut(s.Error), Running: s.Running, InRow: s.FailuresInRow,
		Counts: s.Tally.Total, Skips: s.Tally.Skips, Hours: hours(s, first, last), Problems: slices.Clone(s.Tally.Fires),
	}
	if s.BreakerState != history.BreakerClosed {
		e.Breaker = string(s.BreakerState)
	}
	for _, run := range s.Last {
		if run.Job != "" {
			e.Job = wire.JID(run.Job)
		}
	}
	e.Median, e.P95 = s.Tally.Durations()
	for i := range e.Problems {
		f := &e.Problems[i]
		f.Nominal, f.Started, f.Error = utc(f.Nominal), utc(f.Started), cut(f.Error)
	}
	return e
}

// hours returns the counts of each hour from first on, with the fires that are pending. A fire that has been pending for longer
// than the scheduler remembers counts in none, like one whose hour lies ahead because the clock was set back.
func hours(s *scheduler.EntryState, first, last int64) []wire.ScheduleHour {
	byHour := map[int64]wire.ScheduleHour{}
	for _, h := range s.Tally.Hours {
		if h.Hour >= first && h.Hour <= last {
			byHour[h.Hour] = h
		}
	}
	for _, at := range s.Pending {
		if n := hourOf(at); n > last-wire.MaxScheduleHours && n <= last {
			h := byHour[n]
			h.Hour = n
			h.Pending++
			byHour[n] = h
		}
	}
	list := slices.SortedFunc(maps.Values(byHour), func(a, b wire.ScheduleHour) int { return cmp.Compare(a.Hour, b.Hour) })
	return list[max(0, len(list)-wire.MaxScheduleHours):]
}

// utc cuts a time to milliseconds of UTC.
func utc(at time.Time) time.Time {
	if at.IsZero() {
		return time.Time{}
	}
	return at.UTC().Truncate(time.Millisecond)
}

// cut shortens a text to its first 256 bytes of valid UTF-8.
func cut(text string) string { return strings.ToValidUTF8(text[:min(len(text), maxText)], "") }

// Encode encodes a report within [wire.MaxScheduleSize]. One that is larger says less about the past: entries keep half of the
// newest hours, as often as needed, but three at least. Then entries that are well are left out, and last the others, and counted
// in More.
func Encode(r wire.ScheduleState) ([]byte, error) {
	data, err := canon.Marshal(r)
	last := hourOf(r.Time)
	for hours := min(last-r.From+1, wire.MaxScheduleHours); err == nil && len(data) > wire.MaxScheduleSize && hours > leastHours; {
		hours = max((hours+1)/2, leastHours)
		r.From = last - hours + 1
		for i := range r.Entries {
			e := &r.Entries[i]
			e.Hours = slices.DeleteFunc(e.Hours, func(h wire.ScheduleHour) bool { return h.Hour < r.From })
		}
		data, err = canon.Marshal(r)
	}
	if err != nil || len(data) <= wire.MaxScheduleSize {
		return data, err
	}
	size := 0
	sizes := make(map[string]int, len(r.Entries))
	for i := range r.Entries {
		one, err := canon.Marshal(&r.Entries[i])
		if err != nil {
			return nil, err
		}
		sizes[r.Entries[i].Name] = len(one)
		size += len(one)
	}
	const room = wire.MaxScheduleSize - 4<<10 // for the other fields
	for _, well := range []bool{true, false} {
		r.Entries = slices.DeleteFunc(r.Entries, func(e wire.EntryReport) bool {
			if size <= room || isWell(&e) != well {
				return false
			}
			size -= sizes[e.Name]
			r.More++
			return true
		})
	}
	return canon.Marshal(r)
}

// isWell reports whether an entry is active and its newest fire ran without a problem.
func isWell(e *wire.EntryReport) bool {
	return (e.State == string(rules.StateActive) || e.State == string(rules.StateDisabled)) && e.Breaker == "" && e.InRow == 0 && len(e.Problems) == 0
}
