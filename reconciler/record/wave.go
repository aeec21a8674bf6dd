package record

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"sort"
	"time"

	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/policy"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A Rollout is a revision that goes to the fleet in waves. Members get this revision, and all other peels the one in
// force, also peels that appear later. So the record alone decides which peel gets which revision, and the next leader
// continues where this one stopped.
type Rollout struct {
	Commit  settings.Commit `json:"commit"`
	Started time.Time       `json:"started"` // when the rollout began
	Sequences
	Override *Override     `json:"override,omitempty"` // to go on in a freeze; nil if no person gave one
	Waves    []policy.Wave `json:"waves"`              // of the revision that was in force when the rollout began
	Stage    Stage         `json:"stage"`

	Guarded *Guarded `json:"guarded,omitempty"` // with Commit

	Members Marks `json:"members,omitempty"` // the peels that have the revision
	Known   Marks `json:"before,omitempty"`  // errors that members reported before they got the revision
	// members that have failed; a member stays in it until the rollout ends
	Failed   Marks    `json:"failed,omitempty"`
	Failures []string `json:"failures,omitempty"` // descriptions of the first of them
}

// Sequences are the newest sequences of streams before the first wave. Only later messages count for a rollout.
type Sequences struct {
	Sequence uint64 `json:"sequence"`         // of job-events, which has the runs of entries
	Reports  uint64 `json:"reports"`          // of applied, which has the errors of peels
	States   uint64 `json:"states,omitempty"` // of states, which has the runs of states
}

// A Stage is the progress of a rollout in one wave.
type Stage struct {
	Wave    int       `json:"wave"` // index of the wave under way
	Phase   Phase     `json:"phase"`
	Entered time.Time `json:"entered,omitzero"` // when Phase began
	Since   time.Time `json:"since,omitzero"`   // when the wave could begin; its deadline counts from here
	// members at the end of this wave, with the members of earlier waves
	Size     int    `json:"size"`
	OpenedBy string `json:"opened_by,omitempty"` // who opened the gate of the wave
}

// A Phase is the part of a wave that is under way. A wave has them in this order, and goes back to Applying when all
// peels that the revision changes are away at once.
type Phase string

// The phases.
const (
	Choosing Phase = "choosing" // it has no peels yet
	Applying Phase = "applying" // its peels were given the revision
	Soaking  Phase = "soaking"  // its peels have applied the revision, and are watched
	Passed   Phase = "passed"   // its gate, or what holds the rollout, is left
)

// Has reports whether a peel is a member.
func (r *Rollout) Has(id target.PeelID) bool { return r.Members.Has(MarkPeel(id)) }

// Wave returns the wave under way.
func (r *Rollout) Wave() policy.Wave { return r.Waves[r.Stage.Wave] }

const markSize = 8

// A Mark identifies a peel, or an error of a peel, in a record: it is the first bytes of a SHA-256. In a fleet of
// 10,000 two peels have the same mark with a probability of 3 in 10^12.
type Mark [markSize]byte

// MarkPeel returns the mark of a peel. The order of marks is the order of peels in waves: it depends on the ID only, so
// that the same peels come first with every revision; and it mixes the IDs, so that the first peels are of several
// kinds.
func MarkPeel(id target.PeelID) Mark {
	sum := sha256.Sum256([]byte(id))
	return Mark(sum[:])
}

// MarkError returns the mark of an error that a peel reported.
func MarkError(id target.PeelID, text string) Mark {
	sum := sha256.Sum256([]byte(string(id) + "\x00" + text))
	return Mark(sum[:])
}

// Marks is a set of marks: their bytes one after another, sorted. A million bytes hold 125,000 of them.
type Marks []byte

// Len returns the number of marks.
func (m Marks) Len() int { return len(m) / markSize }

func (m Marks) at(i int) []byte { return m[i*markSize : (i+1)*markSize] }

// Has reports whether the set has a mark.
func (m Marks) Has(mark Mark) bool {
	i := sort.Search(m.Len(), func(i int) bool { return bytes.Compare(m.at(i), mark[:]) >= 0 })
	return i < m.Len() && bytes.Equal(m.at(i), mark[:])
}

// With returns the set with marks added.
func (m Marks) With(marks ...Mark) Marks {
	all := make([]Mark, 0, m.Len()+len(marks))
	for i := range m.Len() {
		all = append(all, Mark(m.at(i)))
	}
	return NewMarks(append(all, marks...))
}

// Without returns the set without a mark.
func (m Marks) Without(mark Mark) Marks {
	var all []Mark
	for i := range m.Len() {
		if other := Mark(m.at(i)); other != mark {
			all = append(all, other)
		}
	}
	return NewMarks(all)
}

// NewMarks returns the set of marks, which it sorts.
func NewMarks(marks []Mark) Marks {
	sorting.Func(marks, func(a, b Mark) int { return bytes.Compare(a[:], b[:]) })
	var m Marks
	for _, mark := range slices.Compact(marks) {
		m = append(m, mark[:]...)
	}
	return m
}
