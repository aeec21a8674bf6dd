package ledger

import (
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	stateless "github.com/klauspost/compress/flate"
	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Bounds of a [Report]. [Decode] refuses more.
const (
	MaxReport   = 256 << 10 // bytes of a message
	maxInflated = 8 << 20   // bytes of its content
	MaxEntries  = 2000      // 1,000 of the schedule, and removed ones
	MaxNotes    = 8         // of an entry
	MaxText     = 256       // bytes of a name, a reason or the head of an error
	maxChanges  = 16        // of a zone
)

// reportVersion is the first byte of a message. The report follows it, deflated.
const reportVersion = 2

// A Report is what a peel says of its schedule: the state of each entry and the list of its fires. The stream
// schedule-state keeps the newest report of each peel, on the subject of [wire.ScheduleStateOf].
type Report struct {
	Peel    target.PeelID `json:"peel_id"`
	Commit  string        `json:"commit,omitempty"` // of the settings in force
	Digest  string        `json:"digest,omitempty"` // of the settings in force
	Version string        `json:"version,omitempty"`
	Zone    Zone          `json:"zone,omitzero"`
	Time    time.Time     `json:"time"`    // the peel's wall clock when the report was made
	Started time.Time     `json:"started"` // when the process started
	Marks   Marks         `json:"marks,omitempty"`
	// Memory is since when the disk has refused the lists, which are in memory alone; zero: they are on the disk.
	Memory  time.Time    `json:"memory,omitzero"`
	Entries entryReports `json:"entries,omitempty"`
	V       int          `json:"v"`
}

// A Zone is the zone of entries that name none.
type Zone struct {
	Name string `json:"name,omitempty"` // IANA name; empty if the host's zone has none
	// Offset is how far the zone is ahead of UTC, in seconds, and Changes are those within 48 hours of the report. A
	// zone with a name has neither.
	Offset  int         `json:"offset,omitempty"`
	Changes zoneChanges `json:"changes,omitempty"`
}

// A ZoneChange is a moment at which the clocks of a zone change.
type ZoneChange struct {
	At     time.Time `json:"at"`
	Before int       `json:"before"` // offset from UTC until then, in seconds
	After  int       `json:"after"`
}

// An EntryReport is one entry in a [Report]. Times of events that have not happened are zero.
type EntryReport struct {
	// Place is the entry's place among the sorted names of the document with the report's digest, from 0. An entry of
	// peel.yaml, and one that was removed, has a name instead.
	Place int    `json:"i,omitempty"`
	Name  string `json:"name,omitempty"`

	// active, disabled, paused_manual, paused_errors, paused_invalid, exhausted or removed
	State string    `json:"state"`
	Why   string    `json:"why,omitempty"`
	Since time.Time `json:"since,omitzero"` // when it got that state, or its timing

	Timing    Timing    `json:"timing,omitempty"`
	Next      time.Time `json:"next,omitzero"` // next nominal time
	NextClass Class     `json:"next_class,omitempty"`
	Latest    time.Time `json:"latest,omitzero"` // when the run of Next must have started to be neither missed nor late
	Left      *uint64   `json:"left,omitempty"`  // runs that max_runs allows; nil: no limit

	From  time.Time `json:"from"` // the fires are complete since
	Marks Marks     `json:"marks,omitempty"`
	Runs  []byte    `json:"runs,omitempty"` // see [AppendRuns]
	Notes notes     `json:"notes,omitempty"`
	Fires []Run     `json:"-"` // of Runs, after [Decode]

	RunState
}

// A RunState is how the runs of an entry have gone.
type RunState struct {
	Breaker   string    `json:"breaker,omitempty"` // open or half_open; empty: closed
	Running   int       `json:"running,omitempty"` // runs in flight
	InRow     uint64    `json:"in_row,omitempty"`  // failures in a row
	Started   time.Time `json:"started,omitzero"`  // of the last run
	Ended     time.Time `json:"ended,omitzero"`
	Succeeded time.Time `json:"succeeded,omitzero"` // end of the last run that succeeded
	Error     string    `json:"error,omitempty"`    // head of the error of the last run; empty if it succeeded
	Job       wire.JID  `json:"job,omitempty"`      // of the last run that was reported
	Took      Took      `json:"took,omitzero"`
}

// A Note says more about one of the newest fires of an entry.
type Note struct {
	Era     uint32        `json:"n"`
	Class   Class         `json:"c,omitempty"`
	Nominal time.Time     `json:"nominal"`
	Outcome Outcome       `json:"r"`
	Why     Reason        `json:"why,omitempty"`
	Started time.Time     `json:"started,omitzero"`
	Took    time.Duration `json:"took,omitempty"`
	Job     wire.JID      `json:"job,omitempty"`
	Commit  string        `json:"commit,omitempty"` // that had last changed the entry when the run started
	// Generation of the settings in force when the run started; 0: the entry is of peel.yaml.
	Generation uint64 `json:"g,omitempty"`
	Error      string `json:"error,omitempty"` // head of it
	Stopped    bool   `json:"stopped,omitempty"`
	By         string `json:"by,omitempty"` // the operator who ran it
}

// Ended returns when the run ended; zero if it was interrupted, or if the note is of no run.
func (n *Note) Ended() time.Time {
	if n.Started.IsZero() || n.Outcome != Ran && n.Outcome != Failed {
		return time.Time{}
	}
	return n.Started.Add(n.Took)
}

// TookBounds are the upper bounds of the histogram of durations in a [Took].
var TookBounds = [...]time.Duration{
	100 * time.Millisecond, time.Second, 5 * time.Second, 15 * time.Second, time.Minute, 5 * time.Minute,
	15 * time.Minute, time.Hour, 6 * time.Hour,
}

// A Took has the durations of all runs of an entry that ended on this host. Its numbers only grow.
type Took struct {
	UpTo []uint64      `json:"up_to,omitempty"` // runs that took at most each of [TookBounds]
	Runs uint64        `json:"runs,omitempty"`
	Sum  time.Duration `json:"sum,omitempty"`
}

// Add adds a run.
func (t *Took) Add(took time.Duration) {
	took = max(took, 0)
	upTo := make([]uint64, len(TookBounds)) // a copy: a reader may have the old one
	copy(upTo, t.UpTo)
	for i, limit := range TookBounds {
		if took <= limit {
			upTo[i]++
		}
	}
	t.UpTo, t.Runs, t.Sum = upTo, t.Runs+1, t.Sum+took
}

// AtMost returns a duration that about percent of 100 runs did not exceed: runs are taken to be spread evenly between
// two of [TookBounds]. It is at most the last of these.
func (t *Took) AtMost(percent uint64) time.Duration {
	rank := (t.Runs*percent + 99) / 100
	below, before := uint64(0), time.Duration(0)
	for i, n := range t.UpTo {
		limit := TookBounds[i]
		if n >= rank && n > below {
			share := float64(rank-below) / float64(n-below)
			return before + time.Duration(share*float64(limit-before))
		}
		below, before = max(n, below), limit
	}
	return before
}

// Encode encodes a report as a message. It does not check the size, see [MaxReport].
func Encode(r *Report) ([]byte, error) {
	r.V = reportVersion
	data, err := canon.Marshal(r)
	if err != nil {
		return nil, err
	}
	out := bytes.NewBuffer([]byte{reportVersion})
	err = deflate(out, data)
	return out.Bytes(), err
}

// smallContent is the size in bytes up to which a report is compressed without a table in memory. The table takes
// 800 KiB, in a process that has 3 MiB of its own. Without it a small report has up to 5 % more bytes, and one of
// 500 KiB twice as many.
const smallContent = 32 << 10

// deflate compresses the content of a report.
func deflate(out io.Writer, content []byte) error {
	if len(content) <= smallContent {
		return stateless.StatelessDeflate(out, content, true, nil)
	}
	w, err := flate.NewWriter(out, flate.DefaultCompression)
	if err == nil {
		_, err = w.Write(content)
		err = errors.Join(err, w.Close())
	}
	return err
}

// IsReport reports whether a message has the form of a report.
func IsReport(data []byte) bool { return len(data) > 0 && data[0] == reportVersion }

// Decode decodes a report. It refuses one that contradicts its subject or exceeds a bound.
func Decode(msg *nats.Msg) (*Report, error) {
	data := msg.Data
	if len(data) > MaxReport || !IsReport(data) {
		return nil, fmt.Errorf("cannot read %s: %d bytes, the limit is %d, or not a report on a schedule", msg.Subject,
			len(data), MaxReport)
	}
	var r Report
	if err := inflate(data[1:], func(content []byte) error { return canon.Unmarshal(content, &r) }); err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", msg.Subject, err)
	}
	if err := wire.CheckPeel(msg.Subject, r.Peel, wire.Version); err != nil {
		return nil, err
	}
	if err := r.check(); err != nil {
		return nil, fmt.Errorf("cannot accept %s: %w", msg.Subject, err)
	}
	return &r, nil
}

// An inflater is a decompressor with a buffer for its output.
type inflater struct {
	window io.ReadCloser // implements flate.Resetter
	out    bytes.Buffer
}

// inflaters are reused: a window takes 40 KiB, and masters read thousands of reports in a second after a commit.
var inflaters = sync.Pool{New: func() any { return &inflater{window: flate.NewReader(nil)} }}

// maxKept is the largest buffer in bytes that an inflater is reused with.
const maxKept = 64 << 10

// inflate calls use with the inflated data, which is valid only during the call.
func inflate(data []byte, use func([]byte) error) error {
	f := inflaters.Get().(*inflater)
	f.out.Reset()
	if err := f.window.(flate.Resetter).Reset(bytes.NewReader(data), nil); err != nil {
		return err
	}

	n, err := f.out.ReadFrom(io.LimitReader(f.window, maxInflated+1))
	if err == nil && n > maxInflated {
		err = fmt.Errorf("more than %d bytes", maxInflated)
	}
	if err == nil {
		err = use(f.out.Bytes())
	}

	if f.out.Cap() <= maxKept {
		inflaters.Put(f)
	}
	return err
}

func (r *Report) check() error {
	switch {
	case r.V != reportVersion:
		return fmt.Errorf("its version is %d, not %d", r.V, reportVersion)
	case len(r.Commit)+len(r.Digest)+len(r.Version)+len(r.Zone.Name) > 4*MaxText:
		return fmt.Errorf("commit, digest, version and zone have more than %d bytes", 4*MaxText)
	}
	for i, m := range r.Marks {
		if m.Kind != Starts && m.Kind != Clock || m.Era == 0 || i > 0 && m.Era != r.Marks[i-1].Era+1 {
			return fmt.Errorf("mark %d is not the beginning of the next era", i)
		}
	}
	if err := checkMarks(r.Marks); err != nil {
		return err
	}
	fires := 0
	for i := range r.Entries {
		e := &r.Entries[i]
		if err := e.check(); err != nil {
			return fmt.Errorf("entry %d %.40q: %w", i, e.Name, err)
		}
		if fires += len(e.Fires); fires > MaxFires {
			return fmt.Errorf("more than %d runs", MaxFires)
		}
	}
	return nil
}

func checkMarks(marks []Mark) error {
	for _, m := range marks {
		if len(m.Why)+len(m.By)+len(m.Boot) > 3*MaxText {
			return fmt.Errorf("a mark has more than %d bytes of text", 3*MaxText)
		}
	}
	return nil
}

func (e *EntryReport) check() (err error) {
	switch {
	case e.Place < 0 || e.Place >= MaxEntries || len(e.Name) > MaxText:
		return fmt.Errorf("its place is %d, its name has %d bytes", e.Place, len(e.Name))
	case len(e.State)+len(e.Why)+len(e.Breaker)+len(e.Error) > 4*MaxText:
		return fmt.Errorf("its texts have more than %d bytes", 4*MaxText)
	case e.Running < 0 || len(e.Took.UpTo) != 0 && len(e.Took.UpTo) != len(TookBounds) || e.Took.Sum < 0:
		return errors.New("a number is out of range")
	}
	if err := checkMarks(e.Marks); err != nil {
		return err
	}
	jobs := []wire.JID{e.Job}
	for _, n := range e.Notes {
		if len(n.Why)+len(n.Commit)+len(n.Error)+len(n.By) > 4*MaxText || n.Took < 0 {
			return fmt.Errorf("a note has more than %d bytes, or a duration below 0", 4*MaxText)
		}
		jobs = append(jobs, n.Job)
	}
	for _, job := range jobs {
		if _, err := wire.ParseJID(string(job)); job != "" && err != nil {
			return err
		}
	}
	e.Fires, err = ParseRuns(e.Runs)
	return err
}
