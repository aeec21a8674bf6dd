package api

import (
	"context"
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage/cause"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/status"
)

// A FleetState is the state of the fleet in one word.
type FleetState string

// The states of the fleet.
const (
	FleetOk      FleetState = "ok"
	FleetFail    FleetState = "fail"
	FleetLate    FleetState = "late"
	FleetUnknown FleetState = "unknown" // what is behind the verdict is old, or cannot be read
)

// Now is whether anything is wrong, since when, and which commit it followed.
type Now struct {
	State    FleetState          `json:"state"`
	Doubt    string              `json:"doubt,omitempty"` // why the state is unknown
	Problems []Problem           `json:"problems"`        // the worst first
	Fleet    *Tally              `json:"fleet,omitempty"` // absent: not known
	Sync     Extra[status.Sync]  `json:"sync"`
	Day      Extra[Timeline]     `json:"day"`
	Alerts   Extra[AlertsAnswer] `json:"alerts"`
	Waiting  []Waiting           `json:"waiting"`           // the oldest first
	Missing  []string            `json:"missing,omitempty"` // why a source of what waits could not be read
}

// A Tally counts peels by the worst that is true of each.
type Tally struct {
	Peels     int                  `json:"peels"` // with a schedule
	Reporting int                  `json:"reporting"`
	Well      int                  `json:"well"` // peels without a problem
	By        map[verdict.Kind]int `json:"by"`   // the others, each by the worst kind that it has
}

// Worst is the worst problem; nil: there is none.
func (n *Now) Worst() *Problem {
	if len(n.Problems) == 0 {
		return nil
	}
	return &n.Problems[0]
}

// Suspect is the commit that the worst problem followed; nil: none explains it.
func (n *Now) Suspect() *cause.Finding {
	if w := n.Worst(); w != nil && w.Finding != nil && w.Finding.Word != cause.None {
		return w.Finding
	}
	return nil
}

// Approvals is what waits for a person.
type Approvals struct {
	Waiting []Waiting    `json:"waiting"` // the oldest first
	Held    []HoldAction `json:"held"`
	Missing []string     `json:"missing,omitempty"` // why a source could not be read
}

// A Waiting is something that waits for a person.
type Waiting struct {
	Kind   WaitingKind     `json:"kind"`
	ID     string          `json:"id,omitempty"`
	Commit settings.Commit `json:"commit,omitempty"` // of a plan, gate or freeze
	What   string          `json:"what"`
	More   string          `json:"more,omitempty"`
	Since  time.Time       `json:"since,omitzero"`
}

// A WaitingKind is what kind of thing waits.
type WaitingKind string

// The kinds of things that wait.
const (
	WaitingHeld   WaitingKind = "held" // an action of an assistant
	WaitingPlan   WaitingKind = "plan"
	WaitingGate   WaitingKind = "gate"
	WaitingFreeze WaitingKind = "freeze"
	WaitingFacts  WaitingKind = "facts"
	WaitingAdopt  WaitingKind = "adopt"
	WaitingEnroll WaitingKind = "enroll" // a host that asks to join
)

// extraTime is how long a reply waits for what only adds to it.
const extraTime = 300 * time.Millisecond

// An Extra is an answer that a reply can do without. Error says why there is none.
type Extra[T any] struct {
	Value *T     `json:"value,omitempty"`
	Error string `json:"error,omitempty"`
}

// Extra is Ask for what only adds to a reply.
func (e Endpoint[Q, A]) Extra(ctx context.Context, by Asker, q Q) Extra[A] {
	return e.ExtraWithin(ctx, by, q, extraTime)
}

// ExtraWithin is Extra with a time limit of its own.
func (e Endpoint[Q, A]) ExtraWithin(ctx context.Context, by Asker, q Q, limit time.Duration) Extra[A] {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	a, err := e.Ask(ctx, by, q)
	if err != nil {
		return Extra[A]{Error: err.Error()}
	}
	return Extra[A]{Value: a}
}
