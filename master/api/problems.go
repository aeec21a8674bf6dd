package api

import (
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage/cause"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// ProblemsRequest requests what is wrong now.
type ProblemsRequest struct {
	Target string `json:"target,omitempty" query:"target" maxLength:"65536" doc:"An expression; absent: all peels."`
}

// Problems is what is wrong with the schedules of the fleet now.
type Problems struct {
	Master string    `json:"master"` // whose table it is from
	Now    time.Time `json:"now"`    // by the clock of the master
	Tally
	Problems []Problem `json:"problems"` // the first [MaxProblems], the worst first
	More     int       `json:"more,omitempty"`
}

// MaxProblems bounds [Problems].
const MaxProblems = 100

// A Problem is one kind of problem with one entry, on all peels that have it.
type Problem struct {
	Class  verdict.Kind    `json:"class"`
	Entry  string          `json:"entry,omitempty"`   // empty: with peels as a whole, or with a revision
	ByHand bool            `json:"by_hand,omitempty"` // of paused: a person paused the entry
	Peels  int             `json:"peels"`
	Since  time.Time       `json:"since,omitzero"` // when it began on the first of them
	Text   string          `json:"text,omitempty"` // of the peel on which it began first
	Names  []target.PeelID `json:"names,omitempty"`
	// Commit is the revision that the problem is about; empty: it is about peels, or that is not known.
	Commit settings.Commit `json:"commit,omitempty"`
	// Finding is the commit that explains the problem. It counts runs of all peels, so callers with
	// limits do not get it.
	Finding *cause.Finding `json:"finding,omitempty"`
}

// TimelineRequest requests what should have run, by hour.
type TimelineRequest struct {
	Target  string    `json:"target,omitempty" query:"target" maxLength:"65536" doc:"An expression; absent: all peels."`
	Entry   string    `json:"entry,omitempty" query:"entry" maxLength:"256" doc:"Glob of the entries; absent: all."`
	Since   time.Time `json:"since,omitzero" query:"since" doc:"An hour of UTC, up to 35 days ago; absent: a day ago."`
	Entries []string  `json:"entries,omitempty"`
}

// MaxTimelineEntries bounds [TimelineRequest.Entries].
const MaxTimelineEntries = 40

// A Timeline has the fires of each hour, and those that are planned.
type Timeline struct {
	Master string          `json:"master"`
	From   time.Time       `json:"from"`
	Now    time.Time       `json:"now"`
	Hours  []TimelineHour  `json:"hours"` // from the oldest to the present one
	Ahead  []TimelineAhead `json:"ahead"` // the next twelve
	// Entries has the hours of each entry in the request.
	Entries map[string][]TimelineHour `json:"entries,omitempty"`
	Unread  []time.Time               `json:"unread,omitempty"` // as in Coverage
}

// A TimelineHour has the fires of one hour of UTC.
type TimelineHour struct {
	At time.Time `json:"at"`
	verdict.Counts
}

// A TimelineAhead has the fires that are planned in an hour to come.
type TimelineAhead struct {
	At       time.Time `json:"at"`
	Expected uint64    `json:"expected"`
}
