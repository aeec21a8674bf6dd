package review

import (
	"maps"
	"math"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/schedule/forecast"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// firesShown is how many next fires of an entry are listed.
const firesShown = 3

// Load is the forecast of the runs of the whole fleet in the 24 hours after the merge.
type Load struct {
	From   time.Time `json:"from"`
	Before Day       `json:"before"`
	After  Day       `json:"after"`
}

// A Day is the load at the base or at the head.
type Day struct {
	Runs    float64 `json:"runs"`
	PerHour float64 `json:"runs_per_hour"`
	Worst   *Worst  `json:"worst,omitempty"` // the minute with the most runs, nil if nothing runs
}

// A Worst is the minute with the most runs.
type Worst struct {
	At   time.Time `json:"at"`
	Runs float64   `json:"runs"`
}

func loadOf(base, head *plan.Plan, o Options) (Load, error) {
	l := Load{From: o.From}
	var g errgroup.Group
	g.Go(func() (err error) { l.Before, err = day(base, o); return err })
	g.Go(func() (err error) { l.After, err = day(head, o); return err })
	err := g.Wait()
	return l, err
}

func day(p *plan.Plan, o Options) (Day, error) {
	f, err := forecast.Make(Groups(p), forecast.Options{From: o.From, For: 24 * time.Hour, Zone: o.Zone})
	if err != nil {
		return Day{}, err
	}
	d := Day{Runs: thousandths(f.Total()), PerHour: thousandths(f.Total() / 24)}
	if len(f.Worst) > 0 {
		d.Worst = &Worst{At: f.Worst[0].At, Runs: thousandths(f.Worst[0].Runs)}
	}
	return d, nil
}

// thousandths rounds to 0.001, as sums are not more accurate.
func thousandths(runs float64) float64 { return math.Round(1000*runs) / 1000 }

// Groups groups the peels of a plan by equal settings.
func Groups(p *plan.Plan) []forecast.Group {
	members := map[*plan.Effective][]target.PeelID{}
	for id, e := range p.Peels {
		members[e] = append(members[e], id)
	}
	groups := make([]forecast.Group, 0, len(members))
	for _, e := range sorting.Values(maps.Keys(members), func(a, b *plan.Effective) int {
		return slices.Compare(a.Refs, b.Refs)
	}) {
		slices.Sort(members[e])
		groups = append(groups, forecast.Group{Peels: members[e], Schedule: e.Schedule})
	}
	return groups
}

// fires returns the next fires of an entry, none for nil. If fresh, its timer starts with the merge.
func (c *comparison) fires(e *schedule.Entry, fresh bool) ([]time.Time, error) {
	if e == nil {
		return nil, nil
	}
	timing, err := e.Timing(c.Zone)
	if err != nil || timing.FollowsRuns() && !fresh {
		return nil, err
	}
	if fresh {
		timing = timing.Seen(c.From)
	}
	var out []time.Time
	for at := range forecast.Fires(e, timing, c.From, time.Time{}) {
		if out = append(out, at); len(out) == firesShown {
			break
		}
	}
	return out, nil
}
