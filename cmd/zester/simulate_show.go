package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/scheduler/simulate"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// simulation is what simulate prints as data.
type simulation struct {
	From    time.Time         `json:"from"`
	Until   time.Time         `json:"until"`
	Zone    string            `json:"zone"`
	Peels   int               `json:"peels"`
	Runs    uint64            `json:"runs"`
	Hours   []simulatedHour   `json:"hours"`
	Worst   []simulatedMinute `json:"worst"`
	Entries []simulatedEntry  `json:"entries"`
	Changes []clockChange     `json:"clock_changes"`
}

type simulatedHour struct {
	Runs     uint32 `json:"runs"`
	Peak     uint32 `json:"peak"`
	InFlight uint32 `json:"in_flight"`
}

type simulatedMinute struct {
	At       time.Time        `json:"at"`
	Runs     uint32           `json:"runs"`
	InFlight uint32           `json:"in_flight"`
	Entries  []simulatedShare `json:"entries"`
}

type simulatedShare struct {
	Entry string `json:"entry"`
	Runs  uint32 `json:"runs"`
}

type simulatedEntry struct {
	Entry       string                          `json:"entry"`
	Peels       int                             `json:"peels"`
	Takes       float64                         `json:"takes_seconds"`
	Measured    bool                            `json:"measured,omitempty"`
	Runs        uint64                          `json:"runs"`
	Late        uint64                          `json:"late"`
	CaughtUp    uint64                          `json:"caught_up"`
	Interrupted uint64                          `json:"interrupted"`
	Cut         uint64                          `json:"cut"`
	Overran     uint64                          `json:"overran"`
	Missed      uint64                          `json:"missed"`
	Overlaps    uint64                          `json:"overlaps"`
	Waited      uint64                          `json:"waited"`
	Skipped     map[ledger.Reason]simulatedSkip `json:"skipped"`
	Peak        uint32                          `json:"peak"`
	PeakAt      time.Time                       `json:"peak_at,omitzero"`
	Hours       []uint32                        `json:"hours"`
}

type simulatedSkip struct {
	Fires uint64    `json:"fires"`
	First time.Time `json:"first"`
	Peel  string    `json:"peel"`
}

type clockChange struct {
	At    time.Time   `json:"at"`
	Zone  string      `json:"zone"`
	Shift float64     `json:"shift_seconds"`
	Entry string      `json:"entry"`
	Wall  []string    `json:"wall_times"`
	Fires []time.Time `json:"fires"`
}

// simulationOf returns a result as data. measured has the entries whose durations are known, zone is the name of its
// zone.
func simulationOf(r *simulate.Result, changes []simulate.ClockChange, measured map[string]time.Duration,
	zone string,
) simulation {
	out := simulation{
		From: r.From, Until: r.Until, Zone: zone, Peels: r.Peels,
		Hours: []simulatedHour{}, Worst: []simulatedMinute{}, Entries: []simulatedEntry{}, Changes: []clockChange{},
	}
	for _, h := range r.Hours {
		out.Runs += uint64(h.Runs)
		out.Hours = append(out.Hours, simulatedHour(h))
	}
	for _, m := range r.Worst {
		w := simulatedMinute{At: m.At, Runs: m.Runs, InFlight: m.InFlight}
		for _, c := range m.Contributions {
			w.Entries = append(w.Entries, simulatedShare(c))
		}
		out.Worst = append(out.Worst, w)
	}
	for _, e := range r.Entries {
		s := simulatedEntry{
			Entry:       e.Name,
			Peels:       e.Peels,
			Takes:       e.Takes.Seconds(),
			Runs:        e.Runs,
			Late:        e.Late,
			CaughtUp:    e.CaughtUp,
			Interrupted: e.Interrupted,
			Cut:         e.Cut,
			Overran:     e.Overran,
			Missed:      e.Missed,
			Overlaps:    e.Overlaps(),
			Waited:      e.Waited,
			Skipped:     map[ledger.Reason]simulatedSkip{},
			Peak:        e.Peak,
			PeakAt:      e.PeakAt,
			Hours:       e.Hours,
		}
		_, s.Measured = measured[e.Name]
		for why, skips := range e.Skips {
			s.Skipped[why] = simulatedSkip{skips.Fires, skips.First, string(skips.Peel)}
		}
		out.Entries = append(out.Entries, s)
	}
	for _, c := range changes {
		at := clockChange{
			At:    c.At,
			Zone:  c.Zone,
			Shift: c.Shift.Seconds(),
			Entry: c.Entry,
			Wall:  c.Wall,
			Fires: c.Fires,
		}
		if at.Zone == time.Local.String() {
			at.Zone = zone
		}
		if at.Fires == nil {
			at.Fires = []time.Time{}
		}
		out.Changes = append(out.Changes, at)
	}
	return out
}

// simulationTables prints a simulation for people. Tables without rows are left out.
func (a *app) simulationTables(out simulation) error {
	const layout = "2006-01-02 15:04"
	fmt.Fprintf(a.out, "%s, %d runs from %s to %s, %s\n", count(out.Peels, "peel"), out.Runs, out.From.Format(layout),
		out.Until.Format(layout), plain(out.Zone))
	worst := table{
		header: []string{"WORST MINUTE", "RUNS", "IN FLIGHT", "MOST OF THEM"},
		narrow: []string{"MOST OF THEM"},
	}
	for _, m := range out.Worst {
		var shares []string
		for _, s := range m.Entries {
			shares = append(shares, fmt.Sprint(s.Entry, " ", s.Runs))
		}
		worst.add(m.At.Format(layout), fmt.Sprint(m.Runs), fmt.Sprint(m.InFlight), strings.Join(shares, ", "))
	}
	entries := table{
		header: []string{
			"ENTRY", "PEELS", "TAKES", "RUNS", "PEAK", "MISSED", "CAUGHT UP", "OVERLAPS", "SKIPPED", "LATE", "CUT",
		},
		drop: []string{"CUT", "LATE", "TAKES", "PEELS"},
	}
	skips := table{header: []string{"SKIPPED", "REASON", "FIRES", "FIRST", "PEEL"}, drop: []string{"PEEL"}}
	for _, e := range out.Entries {
		skipped := uint64(0)
		for _, why := range slices.Sorted(maps.Keys(e.Skipped)) {
			s := e.Skipped[why]
			skipped += s.Fires
			skips.add(e.Entry, string(why), fmt.Sprint(s.Fires), s.First.Format(layout), s.Peel)
		}
		cut := e.Cut + e.Interrupted
		takes := strictyaml.FormatDuration(time.Duration(e.Takes * float64(time.Second)))
		entries.add(e.Entry, fmt.Sprint(e.Peels), takes, fmt.Sprint(e.Runs), fmt.Sprint(e.Peak), fmt.Sprint(e.Missed),
			fmt.Sprint(e.CaughtUp), fmt.Sprint(e.Overlaps), fmt.Sprint(skipped), fmt.Sprint(e.Late), fmt.Sprint(cut))
	}
	clocks := table{header: []string{"CLOCKS CHANGE", "ENTRY", "TIMES", "FIRES AT"}, narrow: []string{"FIRES AT"}}
	for _, c := range out.Changes {
		what := " skipped"
		if c.Shift < 0 {
			what = " twice"
		}
		fires := make([]string, len(c.Fires))
		for i, at := range c.Fires {
			fires[i] = at.Format("15:04 -07:00")
		}
		clocks.add(c.At.Format("2006-01-02 ")+c.Zone, c.Entry, strings.Join(c.Wall, ", ")+what,
			strings.Join(fires, ", "))
	}
	for _, t := range []table{worst, entries, skips, clocks} {
		if len(t.rows) == 0 {
			continue
		}
		fmt.Fprintln(a.out)
		if err := a.printTable(t); err != nil {
			return err
		}
	}
	return nil
}
