package report

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/scheduler"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A ScheduleSource is what a report is made from.
type ScheduleSource struct {
	Peel     target.PeelID
	ZoneName string         // see [ZoneName]
	Zone     *time.Location // of entries that name none
	Started  time.Time      // of the process
	Settings Settings
	Account  scheduler.Account
}

// Report returns the report at a time.
func (s ScheduleSource) Report(now time.Time) *ledger.Report {
	r := &ledger.Report{
		Peel: s.Peel, Commit: s.Settings.Commit, Digest: s.Settings.Digest, Version: s.Settings.Version,
		Zone: zoneAt(s.ZoneName, s.Zone, now), Time: utc(now), Started: utc(s.Started), Marks: marks(s.Account.Marks),
		Memory: utc(s.Account.Memory),
	}
	places := placesIn(s.Settings.Schedule)
	for _, states := range [][]scheduler.EntryState{s.Account.Entries, s.Account.Removed} {
		for i := range states {
			e := listReport(&states[i])
			if place, ok := places[states[i].Name]; ok {
				e.Place = place
			} else {
				e.Name = states[i].Name
			}
			r.Entries = append(r.Entries, e)
		}
	}
	return r
}

// placesIn returns the place of each name among the sorted names of a document.
func placesIn(set schedule.Set) map[string]int {
	places := make(map[string]int, len(set))
	for i, name := range slices.Sorted(maps.Keys(set)) {
		places[name] = i
	}
	return places
}

// zoneAt describes a zone. Of one without a name it says how far it is ahead of UTC from 48 hours before now to 48
// hours after.
func zoneAt(name string, zone *time.Location, now time.Time) ledger.Zone {
	if name != time.Local.String() {
		return ledger.Zone{Name: name}
	}
	var z ledger.Zone
	_, z.Offset = now.In(zone).Zone()
	for at := now.Add(-ledger.Kept); ; {
		_, next := at.In(zone).ZoneBounds()
		if next.IsZero() || next.After(now.Add(ledger.Kept)) {
			return z
		}
		_, before := at.In(zone).Zone()
		_, after := next.Zone()
		z.Changes = append(z.Changes, ledger.ZoneChange{At: utc(next), Before: before, After: after})
		at = next
	}
}

func marks(list []ledger.Mark) []ledger.Mark {
	list = slices.Clone(list)
	for i := range list {
		m := &list[i]
		m.At, m.Old, m.By = utc(m.At), utc(m.Old), cut(m.By)
	}
	return list
}

func listReport(s *scheduler.EntryState) ledger.EntryReport {
	e := ledger.EntryReport{
		State:     string(s.State),
		Why:       cut(s.Why),
		Since:     utc(s.Since),
		Timing:    ledger.TimingOf(s.TimingHash),
		Next:      utc(s.NextNominal),
		NextClass: s.NextClass,
		Latest:    utc(s.Latest),
		Left:      s.Left,
		From:      utc(s.List.From),
		Marks:     marks(s.List.Marks),
		Runs:      ledger.AppendRuns(nil, s.List.Runs()),
		Notes:     notes(s.Last),
		RunState: ledger.RunState{
			Running:   s.Running,
			InRow:     s.FailuresInRow,
			Started:   utc(s.Started),
			Ended:     utc(s.Ended),
			Succeeded: utc(s.Succeeded),
			Error:     cut(s.Error),
			Took:      s.Took,
		},
	}
	if s.BreakerState != scheduler.BreakerClosed {
		e.Breaker = string(s.BreakerState)
	}
	for _, run := range s.Last {
		if run.Job != "" {
			e.Job = wire.JID(run.Job)
		}
	}
	return e
}

// notes returns notes of the newest runs, of those that did not go well first. They are ordered by their start.
func notes(runs []scheduler.RunRecord) (list []ledger.Note) {
	isWell := func(r scheduler.RunRecord) bool { return r.Success && !r.Late && !r.Overran }
	newest := slices.Clone(runs)
	slices.Reverse(newest)
	sorting.Stable(newest, func(a, b scheduler.RunRecord) int {
		switch {
		case isWell(a) == isWell(b):
			return 0
		case isWell(a):
			return 1
		}
		return -1
	})
	for _, r := range newest[:min(len(newest), ledger.MaxNotes)] {
		n := ledger.Note{
			Era:        r.Era,
			Class:      ledger.ClassOf(r.Trigger),
			Nominal:    r.Listed,
			Outcome:    ledger.Failed,
			Started:    utc(r.Started),
			Job:        wire.JID(r.Job),
			Commit:     r.Commit,
			Generation: r.Generation,
			Error:      cut(r.Error),
			Stopped:    r.Stopped,
			By:         cut(r.By),
		}
		switch {
		case r.Interrupted:
			n.Outcome = ledger.Interrupted
		case r.Success:
			n.Outcome = ledger.Ran
		}
		if !r.Interrupted {
			n.Took = utc(r.Ended).Sub(n.Started) // so that the end is the same as in the RunState
		}
		list = append(list, n)
	}
	sorting.Stable(list, func(a, b ledger.Note) int { return a.Started.Compare(b.Started) })
	return list
}

// EncodeSchedule encodes a report within [ledger.MaxReport]. If it is larger, the notes of entries that are well go,
// then the older half of the longest lists, as often as needed, and last all notes. What an entry has left is complete
// from the time that it says.
func EncodeSchedule(r *ledger.Report) ([]byte, error) {
	data, err := ledger.Encode(r)
	for try := 0; err == nil && len(data) > ledger.MaxReport && try < maxShortened; try++ {
		for i := range r.Entries {
			if e := &r.Entries[i]; e.InRow == 0 || try > 0 && try == maxShortened-1 {
				e.Notes = nil
			}
		}
		if try > 0 {
			err = shorten(r, len(data)-ledger.MaxReport)
		}
		if err == nil {
			data, err = ledger.Encode(r)
		}
	}
	return data, err
}

// maxShortened bounds how often a report is encoded.
const maxShortened = 12

// shorten drops the older half of the longest lists, until they have that many bytes less.
func shorten(r *ledger.Report, bytes int) error {
	order := make([]int, len(r.Entries))
	for i := range order {
		order[i] = i
	}
	sorting.Func(order, func(a, b int) int { return cmp.Compare(len(r.Entries[b].Runs), len(r.Entries[a].Runs)) })
	for _, i := range order {
		e := &r.Entries[i]
		if bytes <= 0 {
			return nil
		}
		runs, err := ledger.ParseRuns(e.Runs)
		if err != nil {
			return err
		}
		from, before := e.From.Add(r.Time.Sub(e.From)/2).Truncate(time.Second), len(e.Runs)
		e.From, e.Runs = from, ledger.AppendRuns(nil, since(runs, from))
		bytes -= before - len(e.Runs)
	}
	return nil
}

// since returns the fires from a time on, and those that are pending. Of an hour that is kept as a number it drops all
// if a part is before.
func since(runs []ledger.Run, from time.Time) (list []ledger.Run) {
	for _, r := range runs {
		switch {
		case r.Outcome == ledger.Pending || !r.Nominal.Before(from):
			list = append(list, r)
		case !r.Hour && !r.Last().Before(from):
			for r.Nominal.Before(from) {
				r.Nominal, r.Count = r.Nominal.Add(r.Step), r.Count-1
			}
			if r.Count == 1 {
				r.Step = 0
			}
			list = append(list, r)
		}
	}
	return list
}

// utc cuts a time to milliseconds of UTC.
func utc(at time.Time) time.Time {
	if at.IsZero() {
		return time.Time{}
	}
	return at.UTC().Truncate(time.Millisecond)
}

// cut shortens a text to its first 256 bytes of valid UTF-8.
func cut(text string) string { return strings.ToValidUTF8(text[:min(len(text), ledger.MaxText)], "") }
