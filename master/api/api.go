// Package api is how programs of people talk to masters over the bus. Call [Connect] first, then a method of [Client] for
// each question. The server is another package, so that a program brings no code of masters.
//
// A question is a request on a subject whose last token is the name of the caller; the bus lets nobody use the name of
// another there, so the name needs no proof in the message. Any master answers. Lists come in pages that take at most half of what the bus carries in one message,
// unless one thing alone is larger; each says where the next begins.
//
// What goes wrong comes back as an [*Error] with a [Code], which is all that a program needs to choose what to do.
// That a question is not allowed is known as soon as the bus refuses it, not when time is up.
package api

import (
	"time"

	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// ResolveRequest asks which peels an expression selects.
type ResolveRequest struct {
	Expr  string        `json:"expr"`
	After target.PeelID `json:"after,omitempty"` // the page begins after this peel
}

// Resolved is a page of the peels that an expression selects, by ID. That there are none is an answer like others.
type Resolved struct {
	Peels   []target.PeelID `json:"peels"`
	Total   int             `json:"total"`             // peels on all pages
	Offline []target.PeelID `json:"offline,omitempty"` // the peels in Peels that are known to be offline
	Unknown []target.PeelID `json:"unknown,omitempty"` // named by L@, but no peel of this ID has ever told its facts; on the first page
	More    bool            `json:"more,omitempty"`
}

// ExplainRequest asks how an expression is understood.
type ExplainRequest struct {
	Expr string `json:"expr"`
}

// Explained is how an expression is understood. Its peels are told by [Resolved].
type Explained struct {
	Parsed      string             `json:"parsed"` // the same expression as it is read, with its parentheses
	Total       int                `json:"total"`  // peels of the fleet
	Explanation target.Explanation `json:"explanation"`
}

// JobRequest asks for one job, or for a page of its targets.
type JobRequest struct {
	JID   wire.JID      `json:"jid"`
	After target.PeelID `json:"after,omitempty"` // the page begins after this target
}

// ActiveJobs are jobs that have not ended, newest first, without their targets and arguments.
type ActiveJobs struct {
	Jobs  []job.Job `json:"jobs"`
	Total int       `json:"total"` // jobs that have not ended; Jobs are at most 200 of them
}

// PeelsRequest asks for a page of peels.
type PeelsRequest struct {
	Target string        `json:"target,omitempty"` // an expression; empty selects all
	After  target.PeelID `json:"after,omitempty"`  // the page begins after this peel
	Facts  bool          `json:"facts,omitempty"`  // with their facts; pages are shorter then
}

// A Peel is one peel as masters know it.
type Peel struct {
	ID       target.PeelID `json:"id"`
	Online   bool          `json:"online"`             // a message came in the last three intervals of its heartbeats, 90 s in a small fleet, and it has not disconnected since
	Unknown  bool          `json:"unknown,omitempty"`  // no heartbeat yet, and the master that answers has listened for less than one interval
	LastSeen time.Time     `json:"last_seen,omitzero"` // zero: never since the master that answers began
	// Duplicate: two processes are connected under this ID, and both run each request.
	Duplicate bool   `json:"duplicate,omitempty"`
	Key       string `json:"sealing_key,omitempty"` // to which its secrets are sealed
	// PendingKey is another sealing key, which the peel's newest facts carry; it waits for zester peel rekey.
	PendingKey string `json:"pending_sealing_key,omitempty"`
	// Facts are what the peel tells of its host. A list leaves them out.
	Facts target.Facts `json:"facts,omitempty"`
}

// PeelsPage is a page of peels, by ID.
type PeelsPage struct {
	Peels []Peel `json:"peels"`
	Total int    `json:"total"` // on all pages
	More  bool   `json:"more,omitempty"`
}

// PeelRequest asks for one peel, with its facts.
type PeelRequest struct {
	Peel target.PeelID `json:"peel"`
}
