package api

import (
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A BlameRequest requests the origin of an entry or state of a peel.
type BlameRequest struct {
	Peel  target.PeelID `json:"peel"`
	Entry string        `json:"entry"` // a schedule entry, or a state; "state:NAME" is a state only
}

// Blamed is the commit that last changed an entry or state of a peel, according to its newest settings.
type Blamed struct {
	Peel  target.PeelID `json:"peel"`
	Entry string        `json:"entry"` // "state:NAME" for a state
	settings.Origin
	Revision settings.Commit `json:"revision"` // of the newest settings of the peel
}
