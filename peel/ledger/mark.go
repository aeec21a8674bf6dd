package ledger

import "time"

// A Kind says what a [Mark] marks.
type Kind uint8

// The kinds. Starts and Clock are of a peel and begin an era; the others are of an entry.
const (
	Begins Kind = iota + 1 // the entry is active from now on, with this timing
	Rests                  // it is paused, disabled, invalid or removed
	Starts                 // a process starts
	Clock                  // the wall clock was set by a second or more
)

// A Mark is a moment from which a list means something else. Fires with the era of a mark of a peel were written after
// it.
type Mark struct {
	Kind Kind      `json:"k"`
	Era  uint32    `json:"n"` // that a mark of the peel begins, or in which a mark of an entry was written
	At   time.Time `json:"t"` // as the clock shows it from now on
	// Timing is the hash of the timing with which the entry begins.
	Timing Timing `json:"h,omitempty"`
	Why    Reason `json:"w,omitempty"` // the entry rests
	By     string `json:"b,omitempty"` // the operator who paused it
	Boot   string `json:"o,omitempty"` // Starts: a name of the boot of the host
	// Old is the last moment that the old clock is known to have shown: for Clock the moment before it was set, for
	// Starts the moment of the last record; zero if there is none.
	Old time.Time `json:"l,omitzero"`
	// Step is by how much the clock was set. Of Starts it is known only if Known says so: the host did not boot since
	// the last record.
	Step  time.Duration `json:"s,omitempty"`
	Known bool          `json:"y,omitempty"`
}

// A Timing is the beginning of the hash of a timing; see [TimingOf].
type Timing uint32

// TimingOf returns the beginning of the hash of an entry's timing, which is hexadecimal; 0 if it is not.
func TimingOf(hash string) (t Timing) {
	for _, c := range []byte(hash[:min(len(hash), 8)]) {
		switch {
		case c >= '0' && c <= '9':
			t = t<<4 | Timing(c-'0')
		case c >= 'a' && c <= 'f':
			t = t<<4 | Timing(c-'a'+10)
		default:
			return 0
		}
	}
	return t
}

// Marks are the newest marks of a peel, the oldest first. Their eras have successive numbers.
type Marks []Mark

// Era returns the number of the present era, 0 if there is none.
func (m Marks) Era() uint32 {
	if len(m) == 0 {
		return 0
	}
	return m[len(m)-1].Era
}

// Add returns the marks with another one, which begins the next era. The oldest beyond 64 are dropped.
func (m Marks) Add(mark Mark) Marks {
	mark.Era = m.Era() + 1
	return append(m[max(0, len(m)-MaxMarks+1):], mark)
}

// Shift returns by how much the wall clock was set since an era, as far as the marks know: back, while the host was
// down, by as much as it showed less at least.
func (m Marks) Shift(era uint32) (d time.Duration) {
	for _, mark := range m {
		switch {
		case mark.Era <= era:
		case mark.Kind == Clock || mark.Known:
			d += mark.Step
		case mark.At.Before(mark.Old):
			d += mark.At.Sub(mark.Old)
		}
	}
	return d
}

// reaches returns what the clock of an era showed at a moment of the present clock. No mark has the step of a clock
// that was set while its host was down, if the host then booted. A clock that was set back by 24 h and shows 25 h more
// after a boot is taken to have been set ahead by 24 h there: the host was down for 1 h.
func (m Marks) reaches(era uint32, moment time.Time) time.Time {
	d := m.Shift(era)
	for _, mark := range m {
		if d < 0 && mark.Era > era && mark.Kind == Starts && !mark.Known {
			d = min(d+max(mark.At.Sub(mark.Old), 0), 0)
		}
	}
	return moment.Add(-d)
}
