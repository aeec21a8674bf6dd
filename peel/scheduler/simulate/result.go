package simulate

import (
	"cmp"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	worstMinutes     = 10 // minutes in [Result.Worst]
	maxContributions = 3  // entries in [Minute.Contributions]
)

// A Result is what the schedules of a fleet do.
type Result struct {
	From, Until time.Time
	Peels       int
	Entries     []Entry // sorted by name
	Hours       []Hour
	Worst       []Minute // up to ten in which most runs begin, most first
}

// An Entry is what becomes of the fires of the entries of one name, on all peels.
type Entry struct {
	Name        string
	Peels       int
	Takes       time.Duration // assumed of each attempt
	Runs        uint64        // that begin; among them:
	Late        uint64        // begun more than late_after late
	CaughtUp    uint64        // of fires that were missed
	Waited      uint64        // begun a second or more after their time, because they waited for a run to end
	Cut         uint64        // ended by their timeout, or for the next run
	Interrupted uint64        // in flight when their peel went down
	Overran     uint64        // in flight when the next fire was due, or ended by their timeout
	Missed      uint64        // fires that did not start in time and are not made up
	Skips       map[ledger.Reason]Skips
	Hours       []uint32 // runs that begin in each hour from Result.From on
	Peak        uint32   // most runs that begin in one minute
	PeakAt      time.Time
}

// Skips are fires that did not run for one reason.
type Skips struct {
	Fires uint64
	First time.Time     // nominal time of the first
	Peel  target.PeelID // of the first
}

// An Hour is the load of the fleet in an hour.
type Hour struct {
	Runs     uint32 // that begin
	Peak     uint32 // most runs that begin in one of its minutes
	InFlight uint32 // most runs that are in flight in one of its minutes
}

// A Minute is one minute with the number of runs that begin in it.
type Minute struct {
	At            time.Time
	Runs          uint32
	InFlight      uint32
	Contributions []Contribution // of up to three entries, most first
}

// A Contribution is the number of runs of one entry that begin in a minute.
type Contribution struct {
	Entry string
	Runs  uint32
}

// skip adds skips of one reason.
func (e *Entry) skip(why ledger.Reason, s Skips) {
	if e.Skips == nil {
		e.Skips = map[ledger.Reason]Skips{}
	}
	if have, ok := e.Skips[why]; ok {
		s.Fires += have.Fires
		if cmp.Or(have.First.Compare(s.First), cmp.Compare(have.Peel, s.Peel)) < 0 {
			s.First, s.Peel = have.First, have.Peel
		}
	}
	e.Skips[why] = s
}

// add adds what another worker has counted.
func (e *Entry) add(other *Entry) {
	e.Runs += other.Runs
	e.Late += other.Late
	e.CaughtUp += other.CaughtUp
	e.Waited += other.Waited
	e.Cut += other.Cut
	e.Interrupted += other.Interrupted
	e.Overran += other.Overran
	e.Missed += other.Missed
	for why, s := range other.Skips {
		e.skip(why, s)
	}
}

// Skipped returns the number of fires that a rule kept from running.
func (e *Entry) Skipped() (n uint64) {
	for _, s := range e.Skips {
		n += s.Fires
	}
	return n
}

// Overlaps returns the number of fires that came while as many runs were in flight as the entry may have.
func (e *Entry) Overlaps() uint64 {
	return e.Skips[ledger.AlreadyRunning].Fires + e.Skips[ledger.QueueFull].Fires + e.Waited
}

// result adds up what the workers have counted.
func (f *fleet) result(parts []*part) *Result {
	r := &Result{From: f.From, Until: f.until, Peels: f.peels, Entries: f.entries}
	sum := make([]uint32, f.minutes)
	for i := range r.Entries {
		e := &r.Entries[i]
		e.Takes = f.Takes(e.Name)
		for _, p := range parts {
			e.add(&p.entries[i])
		}
		e.Hours = make([]uint32, (f.minutes+59)/60)
		for m, n := range f.runs[i*f.minutes : (i+1)*f.minutes] {
			sum[m] += n
			e.Hours[m/60] += n
			if n > e.Peak {
				e.Peak, e.PeakAt = n, f.at(m)
			}
		}
	}
	inFlight := f.inFlight(sum)
	r.Hours = make([]Hour, (f.minutes+59)/60)
	for m, n := range sum {
		h := &r.Hours[m/60]
		h.Runs += n
		h.Peak = max(h.Peak, n)
		h.InFlight = max(h.InFlight, inFlight[m])
	}
	r.Worst = f.worst(sum, inFlight)
	return r
}

func (f *fleet) at(minute int) time.Time { return f.From.Add(time.Duration(minute) * time.Minute) }

// inFlight returns how many runs are in flight at some time of each minute; begin are those that begin in it.
func (f *fleet) inFlight(begin []uint32) []uint32 {
	list, left := make([]uint32, len(begin)), uint32(0)
	for m, n := range begin {
		list[m] = left + n
		left += n - f.ends[m]
	}
	return list
}

// worst returns the minutes in which most runs begin; of equal ones the earlier.
func (f *fleet) worst(sum, inFlight []uint32) (list []Minute) {
	for m, n := range sum {
		if n == 0 || len(list) == worstMinutes && n <= list[worstMinutes-1].Runs {
			continue
		}
		i, _ := slices.BinarySearchFunc(list,
			n, func(have Minute, n uint32) int { return cmp.Or(cmp.Compare(n, have.Runs), -1) })
		list = slices.Insert(list, i, Minute{At: f.at(m), Runs: n, InFlight: inFlight[m]})
		list = list[:min(len(list), worstMinutes)]
	}
	for i := range list {
		m := f.minute(list[i].At)
		for j, e := range f.entries {
			if n := f.runs[j*f.minutes+m]; n > 0 {
				list[i].Contributions = append(list[i].Contributions, Contribution{e.Name, n})
			}
		}
		c := list[i].Contributions
		sorting.Stable(c, func(a, b Contribution) int { return cmp.Compare(b.Runs, a.Runs) })
		list[i].Contributions = c[:min(len(c), maxContributions)]
	}
	return list
}
