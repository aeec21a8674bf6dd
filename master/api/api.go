// Package api is the client of the masters, for programs of people. Call [Connect], then Ask of an endpoint such as
// [SyncPin]: endpoints.go declares all requests of the API. The methods of [Client] are for what takes several
// requests, such as all pages of a list, or makes a secret first. Package service serves endpoints.
//
// A request is a message on a subject whose last token is the name of the caller; the bus lets nobody use the name of
// another. Any master replies. Lists come in pages of at most half a message of the bus, unless one element is larger.
//
// Guarantees: every error is an [*Error] with a [Code], except for a canceled context; a request that the bus refuses
// fails at once, not at its timeout; a request that changes nothing is repeated if the master that received it does not
// reply.
//
// Known gap: the records of jobs bring their store, package job, into a client.
package api

import (
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A ResolveRequest requests the peels that an expression selects.
type ResolveRequest struct {
	Expr   string        `json:"expr" query:"expr" required:"true" minLength:"1" maxLength:"65536" doc:"The expression."`
	Cursor target.PeelID `json:"cursor,omitempty" query:"cursor" maxLength:"128" doc:"The next of the page before."`
}

// TargetsPage is a page of the peels that an expression selects, by ID. It may be empty.
type TargetsPage struct {
	Peels   []target.PeelID `json:"peels"`
	Total   int             `json:"total" doc:"On all pages."`
	Offline []target.PeelID `json:"offline,omitempty" doc:"Those on this page that are known to be offline."`
	Unknown []target.PeelID `json:"unknown,omitempty" doc:"Named by L@, and never heard of; on the first page."`
	Next    target.PeelID   `json:"next,omitempty" doc:"The cursor of the next page; absent on the last."`
}

// An ExplainRequest requests the explanation of a target expression.
type ExplainRequest struct {
	Expr   string `json:"expr"`
	Groups bool   `json:"groups,omitempty"` // also return the names of all node groups
}

// Explained is the explanation of a target expression. [Client.Resolve] returns its peels.
type Explained struct {
	Parsed      string             `json:"parsed"` // the same expression with all parentheses
	Total       int                `json:"total"`  // peels of the fleet
	Explanation target.Explanation `json:"explanation"`
	Groups      []string           `json:"groups,omitempty"` // names of all node groups, sorted, if they were requested
}

// A JobRequest requests one job, or a page of its targets.
type JobRequest struct {
	JID    wire.JID      `json:"jid" path:"jid" minLength:"27" maxLength:"27"`
	Cursor target.PeelID `json:"cursor,omitempty" query:"cursor" maxLength:"128" doc:"The next of the page before."`
	// Keys asks for the keys of the peels, by which their receipts are checked.
	Keys bool `json:"keys,omitempty" query:"keys" doc:"Also the keys of the peels, which check their receipts."`
}

// ActiveJobs are jobs that have not ended, newest first, without their targets and arguments.
type ActiveJobs struct {
	Jobs  []job.Job `json:"jobs"`
	Total int       `json:"total"` // jobs that have not ended; Jobs are at most 200 of them
}

// A PeelsRequest requests a page of peels.
type PeelsRequest struct {
	Target string        `json:"target,omitempty"` // an expression; empty selects all
	Cursor target.PeelID `json:"cursor,omitempty"`
	Facts  bool          `json:"facts,omitempty"` // with their facts; pages are shorter then
	// States: with what each peel runs, and its worst problem; pages are shorter then.
	States bool `json:"states,omitempty"`
	// Class selects the peels whose worst problem is of this kind; empty selects all.
	Class verdict.Kind `json:"class,omitempty"`
}

// A Peel is one peel as masters know it.
type Peel struct {
	ID target.PeelID `json:"id"`
	// a message came in the last three intervals of its heartbeats, 90 s in a small fleet, and it has not disconnected
	// since
	Online bool `json:"online"`
	// no heartbeat yet, and the master that answers has listened for less than one interval
	Unknown  bool      `json:"unknown,omitempty"`
	LastSeen time.Time `json:"last_seen,omitzero"` // zero: never since the master that answers began
	// Duplicate: two processes are connected under this ID, and both run each request.
	Duplicate bool   `json:"duplicate,omitempty"`
	Key       string `json:"sealing_key,omitempty"` // to which its secrets are sealed
	// PendingKey is another sealing key, which the peel's newest facts carry; it waits for zester peel rekey.
	PendingKey string `json:"pending_sealing_key,omitempty"`
	// Facts are the facts of the host. A list has them only if they were requested.
	Facts target.Facts `json:"facts,omitempty"`
	// State, Commit and Worst are in a list only if States was requested. Commit is of the settings that the peel runs.
	State  status.State    `json:"state,omitempty"`
	Commit settings.Commit `json:"commit,omitempty"`
	Worst  *PeelProblem    `json:"worst,omitempty"` // the worst problem with its schedule; nil: none is known
}

// A PeelProblem is what is wrong with the schedule of one peel.
type PeelProblem struct {
	Class verdict.Kind `json:"class"`
	Entry string       `json:"entry,omitempty"` // empty: with the peel as a whole
	Since time.Time    `json:"since,omitzero"`
	Text  string       `json:"text,omitempty"`
}

// PeelsPage is a page of peels, by ID.
type PeelsPage struct {
	Peels []Peel        `json:"peels"`
	Total int           `json:"total" doc:"On all pages."`
	Lacks string        `json:"lacks,omitempty" doc:"Why what the peels run, or what is wrong with them, is not known."`
	Next  target.PeelID `json:"next,omitempty" doc:"The cursor of the next page; absent on the last."`
}
