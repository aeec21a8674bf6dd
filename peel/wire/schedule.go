package wire

import (
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/settings/target"
)

// Bounds of a [ScheduleState]. [DecodeSchedule] refuses more.
const (
	MaxScheduleSize  = 256 << 10 // bytes of an encoded report
	MaxScheduleHours = 49        // hours of one entry in a report
	MaxScheduleFires = 8         // single fires of one entry in a report
	maxScheduleNames = 1000      // entries, the most that a schedule has
	maxScheduleText  = 256       // bytes of a reason or the head of an error
)

// ScheduleInterval is the time between two reports on a schedule in which nothing else makes one due, ± 10 %.
const ScheduleInterval = 10 * time.Minute

// A ScheduleState is a peel's report on its schedule: the state of each entry, and what happened to its fires. The stream
// schedule-state keeps the newest report of each peel. A peel sends it when an entry changes its class (first failure, recovery,
// pause, breaker, late, overrun, missed), and else every [ScheduleInterval].
type ScheduleState struct {
	Peel    target.PeelID `json:"peel_id"`
	Commit  string        `json:"commit,omitempty"` // of the settings in force
	Digest  string        `json:"digest,omitempty"` // of the settings in force
	Version string        `json:"version,omitempty"`
	Zone    string        `json:"zone,omitempty"` // the zone of entries that name none, as the host has it
	Time    time.Time     `json:"time"`           // the peel's wall clock when the report was made
	Started time.Time     `json:"started"`        // when the process started
	// From is the first hour since the Unix epoch of which the entries have all fires that the peel remembers. Of an earlier hour
	// the report says nothing. It is at most 48 hours before Time; 0 stands for 11.
	From int64 `json:"from,omitempty"`
	// Entries are sorted by name. Entries that do not fit are only counted in More: the first ones by name are left out of
	// those that are well, then of the others.
	Entries []EntryReport `json:"entries,omitempty"`
	More    int           `json:"more,omitempty"`
	V       int           `json:"v"`
}

// An EntryReport is one entry in a ScheduleState. Times of events that have not happened are zero.
type EntryReport struct {
	Name  string `json:"name"`
	Local bool   `json:"local,omitempty"` // from peel.yaml, not from the settings
	State string `json:"state"`           // active, disabled, paused_manual, paused_errors, paused_invalid, exhausted
	Why   string `json:"why,omitempty"`
	// Since is when the entry became active with its present timing, or got its present state. Fires before it are not
	// accounted for by Hours as fires of this timing.
	Since   time.Time `json:"since,omitzero"`
	Breaker string    `json:"breaker,omitempty"` // open or half_open; empty: closed

	Next time.Time `json:"next,omitzero"` // next nominal time
	// Latest is when the run of Next must have started to be neither missed nor late: start_deadline (a minute at least) after
	// its splay and, with outside: defer, after the windows open; or late_after after the nominal time if that is earlier.
	Latest time.Time `json:"latest,omitzero"`

	RunTimes
	Error   string `json:"error,omitempty"`   // head of the error of the last run; empty if it succeeded
	Job     JID    `json:"job,omitempty"`     // of the last run that was reported
	Running int    `json:"running,omitempty"` // runs in flight

	InRow    uint64            `json:"in_row,omitempty"` // failures in a row
	Counts   FireCounts        `json:"counts,omitzero"`  // since the entry was first seen on this host
	Median   time.Duration     `json:"median,omitempty"` // of the newest runs
	P95      time.Duration     `json:"p95,omitempty"`
	Skips    map[string]uint64 `json:"skips,omitempty"` // Counts.Skipped by reason
	Hours    []ScheduleHour    `json:"hours,omitempty"` // oldest first; see [ScheduleHour]
	Problems []FireReport      `json:"fires,omitempty"` // the newest fires that did not run, failed, were late or overran, oldest first
}

// RunTimes are the times of the last fire and the last run of an entry.
type RunTimes struct {
	Nominal   time.Time `json:"nominal,omitzero"` // of the last fire, also of one that did not run
	Fired     time.Time `json:"fired,omitzero"`   // of the last run
	Started   time.Time `json:"started,omitzero"`
	Ended     time.Time `json:"ended,omitzero"`
	Succeeded time.Time `json:"succeeded,omitzero"` // end of the last run that succeeded
}

// FireCounts are numbers of fires by what happened to them. A fire counts once in Ran, Skipped or Missed, when that is
// certain. Failed, Late and Overran are part of Ran.
type FireCounts struct {
	Ran     uint64 `json:"ran,omitempty"`     // runs that ended or were interrupted, of all triggers but manual ones
	Failed  uint64 `json:"failed,omitempty"`  // runs that failed or were interrupted
	Late    uint64 `json:"late,omitempty"`    // runs that started more than late_after late
	Overran uint64 `json:"overran,omitempty"` // runs that were in flight when the next fire was due, or ended by their timeout
	Skipped uint64 `json:"skipped,omitempty"` // fires that a rule or an operator kept from running
	Missed  uint64 `json:"missed,omitempty"`  // fires that did not start in time: the peel was down, suspended or too slow
	Manual  uint64 `json:"manual,omitempty"`  // runs that a person asked for
}

// A ScheduleHour has the counts of the fires whose nominal time is in one hour of UTC. A report has the hours of the last 12 h
// with fires, and earlier ones (48 h at most) since the last report that the stream confirmed; fewer if it would be too large.
type ScheduleHour struct {
	Hour int64 `json:"hour"` // hours since the Unix epoch
	FireCounts
	// Pending are fires whose nominal time has passed and that are not in another count yet: in flight, or waiting for their
	// splay, a slot, the windows, or their turn among the fires that are made up.
	Pending uint64            `json:"pending,omitempty"`
	Skips   map[string]uint64 `json:"skips,omitempty"`
}

// A FireReport is what happened to one fire.
type FireReport struct {
	Nominal time.Time     `json:"nominal"`
	Started time.Time     `json:"started,omitzero"`
	Took    time.Duration `json:"took,omitempty"`
	Result  string        `json:"result"` // as below, or the reason of a skip
	Error   string        `json:"error,omitempty"`
	Job     JID           `json:"job,omitempty"`
	Commit  string        `json:"commit,omitempty"`  // that had last changed the entry when the run started
	Stopped bool          `json:"stopped,omitempty"` // the run was canceled because the peel was stopped
}

// Results of a [FireReport].
const (
	FireFailed      = "failed"
	FireInterrupted = "interrupted" // the peel's process ended during the run
	FireLate        = "late"
	FireOverran     = "overran"
	FireMissed      = "missed"
)

// DecodeSchedule decodes a report on a schedule. It refuses one that contradicts its subject or exceeds a bound.
func DecodeSchedule(msg *nats.Msg) (r ScheduleState, err error) {
	if len(msg.Data) > MaxScheduleSize {
		return r, fmt.Errorf("cannot read %s: %d bytes, the limit is %d", msg.Subject, len(msg.Data), MaxScheduleSize)
	}
	if err := Decode(msg, &r); err != nil {
		return ScheduleState{}, err
	}
	if err := CheckPeel(msg.Subject, r.Peel, r.V); err != nil {
		return ScheduleState{}, err
	}
	if err := r.check(); err != nil {
		return ScheduleState{}, fmt.Errorf("cannot accept %s: %w", msg.Subject, err)
	}
	return r, nil
}

func (r *ScheduleState) check() error {
	switch {
	case len(r.Entries) > maxScheduleNames || r.More < 0 || r.More > maxScheduleNames:
		return fmt.Errorf("%d entries and %d more, the limit is %d", len(r.Entries), r.More, maxScheduleNames)
	case r.From != 0 && (r.From > r.Time.Unix()/3600 || r.From <= r.Time.Unix()/3600-MaxScheduleHours):
		return fmt.Errorf("its fires are complete from hour %d on, which is not among the %d until it was made", r.From, MaxScheduleHours)
	case len(r.Commit)+len(r.Digest)+len(r.Version)+len(r.Zone) > 4*maxScheduleText:
		return fmt.Errorf("commit, digest, version and zone have more than %d bytes", 4*maxScheduleText)
	}
	for i := range r.Entries {
		e := &r.Entries[i]
		switch {
		case e.Name == "" || len(e.Name) > maxScheduleText:
			return fmt.Errorf("entry %d has a name of %d bytes, the limit is %d", i, len(e.Name), maxScheduleText)
		case i > 0 && e.Name <= r.Entries[i-1].Name:
			return fmt.Errorf("entry %q does not come after %q", e.Name, r.Entries[i-1].Name)
		}
		if err := e.check(r.Time.Unix() / 3600); err != nil {
			return fmt.Errorf("entry %q: %w", e.Name, err)
		}
	}
	return nil
}

// maxFires bounds the fires in one count of a report, so that no sum over a fleet overflows.
const maxFires = 1 << 32

// check checks an entry of a report that was made in the given hour.
func (e *EntryReport) check(made int64) error {
	switch {
	case len(e.Hours) > MaxScheduleHours || len(e.Problems) > MaxScheduleFires:
		return fmt.Errorf("%d hours and %d fires, the limits are %d and %d", len(e.Hours), len(e.Problems), MaxScheduleHours, MaxScheduleFires)
	case len(e.State)+len(e.Why)+len(e.Breaker) > 2*maxScheduleText || len(e.Error) > maxScheduleText:
		return fmt.Errorf("a text has more than %d bytes", maxScheduleText)
	case e.Running < 0 || e.Median < 0 || e.P95 < 0:
		return errors.New("a number is below 0")
	}
	skips := []map[string]uint64{e.Skips}
	for i, h := range e.Hours {
		if i > 0 && h.Hour <= e.Hours[i-1].Hour || h.Hour > made || h.Hour <= made-MaxScheduleHours {
			return fmt.Errorf("hour %d is not in order, or not among the %d until the report was made", h.Hour, MaxScheduleHours)
		}
		for _, n := range []uint64{h.Ran, h.Failed, h.Late, h.Overran, h.Skipped, h.Missed, h.Manual, h.Pending} {
			if n > maxFires {
				return fmt.Errorf("hour %d has %d fires, the limit is %d", h.Hour, n, maxFires)
			}
		}
		skips = append(skips, h.Skips)
	}
	for _, counts := range skips {
		for reason, n := range counts {
			switch {
			case len(counts) > MaxReported || reason == "" || len(reason) > maxScheduleText:
				return fmt.Errorf("%d reasons, the limit is %d, or one of %d bytes", len(counts), MaxReported, len(reason))
			case n > maxFires:
				return fmt.Errorf("%d fires were skipped for one reason, the limit is %d", n, maxFires)
			}
		}
	}
	jobs := []JID{e.Job}
	for _, f := range e.Problems {
		if len(f.Result)+len(f.Commit) > maxScheduleText || len(f.Error) > maxScheduleText {
			return fmt.Errorf("a fire has a text of more than %d bytes", maxScheduleText)
		}
		jobs = append(jobs, f.Job)
	}
	for _, job := range jobs {
		if job == "" {
			continue
		}
		if _, err := ParseJID(string(job)); err != nil {
			return err
		}
	}
	return nil
}
