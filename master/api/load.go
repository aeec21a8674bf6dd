package api

import "time"

// LoadRequest requests how many runs schedules will start.
type LoadRequest struct {
	Target string `json:"target,omitempty" query:"target" maxLength:"65536" doc:"An expression; absent: all peels."`
	Entry  string `json:"entry,omitempty" query:"entry" maxLength:"256" doc:"Glob of the entries; absent: all."`
	For    string `json:"for,omitempty" query:"for" maxLength:"16" doc:"A time such as 24h, up to 7d; absent: 7d."`
}

// Load is how many runs the schedules in force are expected to start. Long runs, failures, needs and pauses on peels
// are not counted in.
type Load struct {
	Master string     `json:"master"`
	From   time.Time  `json:"from"` // when the first hour begins
	Peels  int        `json:"peels"`
	Hours  []LoadHour `json:"hours"`
	Worst  LoadMinute `json:"worst"` // the minute with the most runs
}

// A LoadHour has the runs that are expected in an hour.
type LoadHour struct {
	At   time.Time `json:"at"`
	Runs float64   `json:"runs"`
}

// A LoadMinute has the runs that are expected in a minute.
type LoadMinute struct {
	At      time.Time   `json:"at"`
	Runs    float64     `json:"runs"`
	Entries []LoadEntry `json:"entries"` // up to three, most runs first
}

// A LoadEntry has the runs of one entry.
type LoadEntry struct {
	Entry string  `json:"entry"`
	Runs  float64 `json:"runs"`
}
