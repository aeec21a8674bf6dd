package api

import (
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A WhyRequest asks what became of one fire of an entry on a peel.
type WhyRequest struct {
	Peel  target.PeelID `json:"peel" query:"peel" required:"true" minLength:"1" maxLength:"128" doc:"The peel."`
	Entry string        `json:"entry" path:"entry" maxLength:"256" doc:"The schedule entry."`
	// Time is when the entry was due, or when the run started: 2026-11-23T02:30:00Z, or without the offset from UTC a
	// time of the entry's zone, such as 2026-11-23T02:30, or 02:30 for the last such time. Empty: the last fire.
	Time string `json:"time,omitempty" query:"time" maxLength:"64" doc:"When it was due; absent: the last fire."`
}
