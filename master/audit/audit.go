// Package audit has the entries of the audit log, which says who did what, and the queries for them. Masters write and
// read the log itself, with package audit.
package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A Result is the outcome of an action.
type Result string

// The results.
const (
	Done    Result = "done"
	Refused Result = "refused" // not allowed, not valid, or in conflict with what is
	Failed  Result = "failed"  // the action failed, or the outcome is unknown
	// Asked is of a [Call], which is recorded before anything is done, and of what waits for a second person. What came
	// of it is in the entries of the actions.
	Asked Result = "asked"
)

// Actions of entries that the log makes itself.
const (
	ActionOmitted    = "audit.omitted"    // entries of a user that were not kept, the last ones for now
	ActionUnreadable = "audit.unreadable" // what is stored here is no entry
)

// An Entry is one action of a user, done or attempted.
type Entry struct {
	EntryPlace
	Time time.Time   `json:"time"`
	User string      `json:"user"`
	Role grants.Role `json:"role,omitempty"` // "" for tokens and masters
	From string      `json:"from,omitempty"` // address of the host that asked
	Via  grants.Via  `json:"via,omitempty"`  // the service of the master that passed the request on
	// BreakGlass marks a use of the credential in the data directory of a master in place of one of a person.
	BreakGlass bool     `json:"break_glass,omitempty"`
	Action     string   `json:"action"`           // noun.verb, such as job.dispatch
	Target     string   `json:"target,omitempty"` // a target expression, or the name of what it is about
	Function   string   `json:"function,omitempty"`
	Args       string   `json:"args,omitempty"` // of the function, as NAME=JSON; long values are cut, secrets hidden
	JID        wire.JID `json:"jid,omitempty"`
	Count      int      `json:"count,omitempty"` // peels
	EntryPeels
	// Agent is the assistant's program that asked for the action in the name of the user, as it calls itself.
	Agent  string `json:"agent,omitempty"`
	Held   string `json:"held,omitempty"` // ID of the held action
	Result Result `json:"result"`
	Reason string `json:"reason,omitempty"` // why it was not done
	// entries of the user before this one that were not kept, because they were too many
	LeftOut int `json:"left_out,omitempty"`

	hidden []byte // a hash of all arguments, if Args does not show all of them; never stored
}

// EntryPlace is the place of an [Entry] in the log.
type EntryPlace struct {
	Seq uint64 `json:"seq"` // sequence in the log; 0 before it is stored
	// digest of the entry before it, see [Head]; empty if there is none any more
	Prev string `json:"prev,omitempty"`
}

// EntryPeels are the peels of an [Entry].
type EntryPeels struct {
	Peels []string `json:"peels,omitempty"` // the first [MaxPeels] of them
	// PeelsHash is the SHA-256 in hex of the sorted IDs of all peels, each followed by a newline.
	PeelsHash string `json:"peels_hash,omitempty"`
}

// By returns the entry with the caller of a request, as the bus authenticated it.
func (e Entry) By(a grants.Caller) Entry {
	e.User, e.Role = a.User, a.Role
	e.From, e.Via = a.From, a.Via
	return e
}

// Ended returns the entry with the result of the action. If refused is true, an error means [Refused], otherwise
// [Failed].
func (e Entry) Ended(err error, refused bool) Entry {
	switch {
	case err == nil:
		e.Result = Done
	case refused:
		e.Result, e.Reason = Refused, err.Error()
	default:
		e.Result, e.Reason = Failed, err.Error()
	}
	return e
}

// MaxPeels is how many peels an entry names.
const MaxPeels = 5

// PeelsHash returns the [Entry.PeelsHash] of sorted IDs.
func PeelsHash(peels []target.PeelID) string {
	hash := sha256.New()
	for _, id := range peels {
		fmt.Fprintf(hash, "%s\n", id)
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// Bounded cuts a text to at most the given number of bytes, ends a cut text with "…", and makes it valid UTF-8.
func Bounded(s string, most int) string {
	if len(s) > most {
		s = s[:most-3] + "…"
	}
	return strings.ToValidUTF8(s, "?")
}

// A Query asks for entries: the newest, or with After those that follow one.
type Query struct {
	After  uint64 `json:"after,omitempty"`  // entries later than this one, oldest first
	Before uint64 `json:"before,omitempty"` // entries earlier than this one, newest first; 0: from the end
	Follow bool   `json:"follow,omitempty"` // oldest first, also where After is 0
	Limit  int    `json:"limit,omitempty"`  // entries; 0: 50, 500 at most
	User   string `json:"user,omitempty"`
	Action string `json:"action,omitempty"` // or its noun
	Target string `json:"target,omitempty"` // part of the target, or the ID of a peel that the entry names
	Result Result `json:"result,omitempty"`
	// NoLogins leaves out the codes and sessions of the console that were made: the actions session.create and begin.
	NoLogins bool      `json:"no_logins,omitempty"`
	Since    time.Time `json:"since,omitzero"`
	Until    time.Time `json:"until,omitzero"`
	// Lines asks for the entries as they are stored, from After on. It goes with After and Limit alone.
	Lines bool `json:"lines,omitempty"`
}

// A Page is some entries. It may hold none and not be the last.
type Page struct {
	Entries []Entry `json:"entries"`
	Lines   []Line  `json:"lines,omitempty"`
	First   uint64  `json:"first,omitempty"` // the oldest entry of the log, for [Query.Lines]
	Next    uint64  `json:"next"`            // After or Before of the page that follows
	More    bool    `json:"more"`            // there are entries that were not looked at yet
}
