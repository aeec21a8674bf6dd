package api

import (
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Limits of [ReturnGroups].
const (
	MaxReturnGroups = 100   // groups of a reply
	MaxGroupLines   = 500   // lines of all groups of a reply
	MaxGroupPeels   = 20    // peels that a group names
	MaxGroupedOf    = 10240 // targets that are read
)

// A ReturnGroupsRequest asks for what the targets of a job returned, equal results together.
type ReturnGroupsRequest struct {
	JID   wire.JID `json:"jid" path:"jid" minLength:"27" maxLength:"27"`
	Group string   `json:"group,omitempty" query:"group" maxLength:"32" doc:"The ID of one group; absent: all."`
	From  int      `json:"from,omitempty" query:"from" minimum:"0" doc:"The first line to show of that group, from 0."`
}

// ReturnGroups are the different results of a job: failures first, then by the number of targets.
type ReturnGroups struct {
	Job    job.Job       `json:"job" doc:"Without targets and arguments."`
	Groups []ReturnGroup `json:"groups" doc:"At most 100, with 500 lines in all."`
	Rows   int           `json:"rows" doc:"Targets that the groups are made of."`
	More   bool          `json:"more,omitempty" doc:"There are further targets than the first 10240."`
	Left   int           `json:"left,omitempty" doc:"Groups that are left out."`
}

// A ReturnGroup is an equal result of some targets of a job.
type ReturnGroup struct {
	ID    string          `json:"id" doc:"Names the result in the job."`
	State job.RowState    `json:"state"`
	Count int             `json:"count" doc:"Targets with this result."`
	Peels []target.PeelID `json:"peels" doc:"The first 20 of them."`
	From  int             `json:"from,omitempty" doc:"The number of the first line, from 0."`
	Lines []string        `json:"lines,omitempty" doc:"The error and the data. Long lines are cut."`
	Total int             `json:"total,omitempty" doc:"Lines of the whole result."`
}
