package credential

import (
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/settings/target"
)

// An EnrollState is the state of a peel's enrollment.
type EnrollState string

// The states. A peel that was rejected or revoked can ask again with another key, and is then pending. With a join
// token it is accepted at once if no host has had a credential under its ID.
const (
	Pending  EnrollState = "pending"
	Accepted EnrollState = "accepted"
	Rejected EnrollState = "rejected"
	Revoked  EnrollState = "revoked"
)

// A PeelKey is a key of a peel's credentials, by which its receipts are checked.
type PeelKey struct {
	Public  string    `json:"public"`           // nkey
	Revoked time.Time `json:"revoked,omitzero"` // zero: it was not
}

// An Enrolled is a peel that requested a credential.
type Enrolled struct {
	ID      target.PeelID `json:"id"`
	State   EnrollState   `json:"state"`
	Public  string        `json:"public"` // the key that it has or asks with
	From    string        `json:"from,omitempty"`
	Expires time.Time     `json:"expires,omitzero"` // of the credential that it was given last
	History []Step        `json:"history"`          // the last 20, oldest first
	// Conflicting is another key of a request under the same ID, of a host that was set up again or of an impostor.
	Conflicting *ConflictingKey `json:"rival,omitempty"`
	// Ended are the keys that were revoked.
	Ended map[string]End `json:"ended,omitempty"`
}

// A Step is when a peel came to a state, and by whom: a user, "token:" and the name of a join token, or the host.
type Step struct {
	State EnrollState `json:"state"`
	By    string      `json:"by"`
	Time  time.Time   `json:"time"`
}

// A ConflictingKey is the key of a request that contradicts the record.
type ConflictingKey struct {
	Public string    `json:"public"`
	From   string    `json:"from,omitempty"`
	Time   time.Time `json:"time"`
}

// maxHistory bounds [Enrolled.History].
const maxHistory = 20

// Enter puts a peel into a state now and adds the step to its history.
func (e *Enrolled) Enter(s EnrollState, by string) {
	e.State = s
	e.History = append(e.History, Step{State: s, By: by, Time: time.Now().UTC()})
	if extra := len(e.History) - maxHistory; extra > 0 {
		e.History = e.History[extra:]
	}
}

// Unused reports whether no host has had a credential under this ID: there were only requests.
func (e *Enrolled) Unused() bool {
	decided := slices.ContainsFunc(e.History, func(s Step) bool { return s.State == Accepted || s.State == Revoked })
	return (e.State == Pending || e.State == Rejected) && !decided && e.Expires.IsZero() && len(e.Ended) == 0
}

// Enrolls reports whether the host has enrolled itself, so that it also renews its credential. Else the credential was
// made beside the masters' keys.
func (e *Enrolled) Enrolls() bool {
	return slices.ContainsFunc(e.History, func(s Step) bool { return s.State == Accepted && s.By != "" })
}
