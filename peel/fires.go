package peel

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/scheduler"
)

// maxTold is how many runs of fires schedule.fires returns; of more it returns the newest.
const maxTold = 2000

// A toldFires is the data of schedule.fires.
type toldFires struct {
	Since time.Time  `json:"since,omitzero"` // the list is complete since; an earlier fire may be missing from it
	Fires []toldFire `json:"fires"`          // by era and nominal time
}

// A toldFire is one fire, or several that are equal in everything but their nominal times.
type toldFire struct {
	Nominal time.Time     `json:"nominal"`       // of the first
	Last    time.Time     `json:"last,omitzero"` // of the last of several, which are equally far apart
	Count   int           `json:"count"`
	Hour    bool          `json:"hour,omitempty"` // Nominal is the beginning of the hour, and only the last nominal time is known
	Class   string        `json:"class"`
	Outcome string        `json:"outcome"`
	Why     ledger.Reason `json:"why,omitempty"`
	Late    bool          `json:"late,omitempty"`
	Overran bool          `json:"overran,omitempty"`
}

// scheduleFires tells the fires of an entry, also of one that was removed less than 48 hours ago.
func (p *Peel) scheduleFires(ctx context.Context, args entryArgs) (any, error) {
	to := p.o.Clock().Wall
	from := to.Add(-ledger.KeptPast)
	for _, arg := range []struct {
		name, text string
		at         *time.Time
	}{{"from", args.From, &from}, {"to", args.To, &to}} {
		if arg.text == "" {
			continue
		}
		at, err := time.Parse(time.RFC3339, arg.text)
		if err != nil {
			return nil, fmt.Errorf("%s must be a time like 2026-06-01T09:00:00Z, not %q", arg.name, arg.text)
		}
		*arg.at = at
	}
	account, err := p.sched.Account(ctx)
	if err != nil {
		return nil, err
	}
	states := slices.Concat(account.Entries, account.Removed)
	s, err := named(states, args.Entry)
	if err != nil {
		return nil, err
	}
	return tell(s, from, to)
}

func tell(s scheduler.EntryState, from, to time.Time) (toldFires, error) {
	runs, since, err := s.List.Between(from, to)
	if err != nil {
		return toldFires{}, fmt.Errorf("cannot read the past of %q: %w", s.Name, err)
	}
	told := toldFires{Since: since, Fires: []toldFire{}}
	if more := len(runs) - maxTold; more > 0 {
		slices.SortStableFunc(runs, func(a, b ledger.Run) int { return a.Nominal.Compare(b.Nominal) })
		runs = runs[more:]
		told.Since = runs[0].Nominal
	}
	for _, r := range runs {
		f := toldFire{
			Nominal: r.Nominal, Count: r.Count, Hour: r.Hour, Class: r.Class.String(), Outcome: r.Outcome.String(),
			Why: r.Why, Late: r.Late, Overran: r.Overran,
		}
		if r.Count > 1 || r.Hour {
			f.Last = r.Last()
		}
		told.Fires = append(told.Fires, f)
	}
	return told, nil
}
