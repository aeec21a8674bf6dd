package ledger

import (
	"fmt"
	"time"

	"github.com/seed-c01c3da5/zester/settings/sorting"
)

// maxTold is how many runs of fires a [Told] has; of more it has the newest.
const maxTold = 2000

// A Told is what the function schedule.fires returns: what became of the fires of an entry.
type Told struct {
	Since time.Time  `json:"since,omitzero"` // the list is complete since; an earlier fire may be missing from it
	Fires []ToldFire `json:"fires"`          // by era and nominal time
}

// A ToldFire is one fire, or several that are equal in everything but their nominal times.
type ToldFire struct {
	Nominal time.Time `json:"nominal"`       // of the first
	Last    time.Time `json:"last,omitzero"` // of the last of several, which are equally far apart
	Count   int       `json:"count"`
	// Hour: Nominal is the beginning of the hour, and only the last nominal time is known.
	Hour    bool   `json:"hour,omitempty"`
	Class   string `json:"class"`
	Outcome string `json:"outcome"`
	Why     Reason `json:"why,omitempty"`
	Late    bool   `json:"late,omitempty"`
	Overran bool   `json:"overran,omitempty"`
}

// Tell returns the fires with nominal times from one time to another.
func (l *List) Tell(from, to time.Time) (Told, error) {
	runs, since, err := l.Between(from, to)
	if err != nil {
		return Told{}, err
	}
	told := Told{Since: since, Fires: []ToldFire{}}
	if more := len(runs) - maxTold; more > 0 {
		sorting.Stable(runs, func(a, b Run) int { return a.Nominal.Compare(b.Nominal) })
		runs = runs[more:]
		told.Since = runs[0].Nominal
	}
	for _, r := range runs {
		f := ToldFire{
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

// Runs returns the fires, of any sender. Their eras are not told. What this version does not know is other. Fires
// that [Told] cannot have are refused.
func (t *Told) Runs() ([]Run, error) {
	if len(t.Fires) > maxTold {
		return nil, fmt.Errorf("%d runs of fires, the limit is %d", len(t.Fires), maxTold)
	}
	runs := make([]Run, 0, len(t.Fires))
	for i := range t.Fires {
		r, err := t.Fires[i].run()
		if err != nil {
			return nil, fmt.Errorf("run %d: %w", i, err)
		}
		runs = append(runs, r)
	}
	return runs, nil
}

func (f *ToldFire) run() (Run, error) {
	r := Run{Hour: f.Hour, Count: f.Count}
	r.Fire = Fire{Nominal: At(f.Nominal), Why: f.Why, Late: f.Late, Overran: f.Overran}
	for r.Class = Timer; r.Class < OtherClass && r.Class.String() != f.Class; {
		r.Class++
	}
	for r.Outcome = Pending; r.Outcome < Other && r.Outcome.String() != f.Outcome; {
		r.Outcome++
	}
	if _, known := reasonNumbers[f.Why]; !known {
		r.Why = OtherReason
	}

	last := max(f.Last.Unix(), f.Nominal.Unix())
	length := last - f.Nominal.Unix()
	switch {
	case f.Nominal.Unix() < firstSecond || last > lastSecond:
		return r, fmt.Errorf("its nominal times are %v and %v", f.Nominal, f.Last)
	case f.Hour && (length >= hourSeconds || f.Count < 1 || f.Count > maxOfHour):
		return r, fmt.Errorf("%d fires of an hour, the last after %d s", f.Count, length)
	case f.Hour:
		r.Step = time.Duration(length) * time.Second
	case f.Count < 1 || f.Count > MaxFires || f.Count == 1 && length > 0:
		return r, fmt.Errorf("%d fires, the last %d s after the first", f.Count, length)
	case f.Count > 1:
		step := length / int64(f.Count-1)
		if step == 0 || step*int64(f.Count-1) != length {
			return r, fmt.Errorf("%d fires, the last %d s after the first", f.Count, length)
		}
		r.Step = time.Duration(step) * time.Second
	}
	return r, nil
}
