// File held.go has actions that an assistant asked for and that wait for a person: [HoldAddRequest] asks for one,
// [HoldAction] is its record. The requests are zester.api.hold.add, list, show, approve and reject; package hold serves
// them.
//
// What a [HoldAddRequest] says is a claim of a program that may have been misled by what it read. It is bounded, but it
// may look like anything: show it escaped, and apart from what masters have found out.

package api

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/catalogue"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Bounds of a [HoldAddRequest]. What a person has to read before deciding is short.
const (
	HoldMaxTarget = 2 << 10 // bytes of the expression
	HoldMaxArgs   = 4 << 10 // bytes of the encoded arguments
	HoldMaxText   = 4 << 10 // bytes of the argument without a name
	HoldMaxReason = 256     // bytes; a peel stores no longer one of a pause
	HoldMaxAgent  = 100     // bytes
	HoldMaxEntry  = 128     // bytes
	HoldMaxFor    = 30 * 24 * time.Hour

	HoldMaxRequest = 16 << 10 // bytes of an encoded Add
)

// How many actions there may be.
const (
	HoldMaxOpen     = 1000 // open ones
	HoldMaxOpenUser = 50   // open ones that one user asked for
	HoldMaxKeptUser = 200  // all that one user asked for in the last 7 days
)

// HoldLifetime is how long an action waits for a person. Its record is kept for 7 days after the last change.
const HoldLifetime = 24 * time.Hour

// A HoldID names an action. IDs sort by time.
type HoldID string

// ParseHoldID checks that s has the form of an ID.
func ParseHoldID(s string) (HoldID, error) {
	if _, err := wire.ParseJID(s); err != nil {
		return "", fmt.Errorf("%.40q is not the ID of a held action", s)
	}
	return HoldID(s), nil
}

// A HoldKind says what an action does.
type HoldKind string

// The kinds.
const (
	HoldDispatch HoldKind = "dispatch" // runs a function
	HoldPause    HoldKind = "pause"    // pauses a schedule entry
)

// A HoldState is how far an action is.
type HoldState string

// The states. Only an open action changes its state.
const (
	HoldOpen     HoldState = "open"
	HoldApproved HoldState = "approved"
	HoldRejected HoldState = "rejected"
	HoldExpired  HoldState = "expired" // nobody decided in time
)

// A HoldAddRequest asks for an action. All of it is what the assistant says.
type HoldAddRequest struct {
	Kind   HoldKind `json:"kind"`
	Target string   `json:"target"` // an expression
	// Hash is [audit.PeelsHash] of the peels that the assistant has seen the target select. If it selects others now,
	// the request is refused.
	Hash    string         `json:"hash"`
	Module  string         `json:"module,omitempty"`   // the function; of a dispatch alone, as the next two
	StateID string         `json:"state_id,omitempty"` // its argument without a name
	Args    map[string]any `json:"args,omitempty"`
	Entry   string         `json:"entry,omitempty"` // of a pause alone, as the next one
	For     time.Duration  `json:"for,omitempty"`   // how long the pause lasts
	Reason  string         `json:"reason"`
	Agent   string         `json:"agent"` // name of the assistant's program
}

// A HoldAction is the record of an action.
type HoldAction struct {
	ID HoldID `json:"id"`
	HoldAddRequest
	By        string    `json:"by"` // the user in whose name the assistant asked, from the subject of the request
	Created   time.Time `json:"created"`
	Expires   time.Time `json:"expires"`
	Peels     int       `json:"peels"` // that the target selected when the action was asked for; Hash is theirs
	State     HoldState `json:"state"`
	DecidedBy string    `json:"decided_by,omitempty"`
	DecidedAt time.Time `json:"decided_at,omitzero"`
	// JID is the job of an approved action. It is given before the approver's client dispatches the job.
	JID wire.JID `json:"jid,omitempty"`
	// Dispatched reports whether there is a job of that ID. It is not stored; masters set it in replies.
	Dispatched bool `json:"dispatched,omitempty"`
}

// A HoldQuery asks for actions, newest first.
type HoldQuery struct {
	// All: also those that are no longer open.
	All bool `json:"all,omitempty" query:"all" doc:"Also actions that were decided or have expired in the last 7 days."`
	// The page begins after the action Cursor, which need not exist.
	Cursor HoldID `json:"cursor,omitempty" query:"cursor" maxLength:"27" doc:"The next of the page before."`
}

// A HoldPage is actions without their arguments, newest first.
type HoldPage struct {
	Actions []HoldAction `json:"actions"`
	Next    HoldID       `json:"next,omitempty" doc:"The cursor of the next page; absent on the last."`
}

// A HoldRequest names an action to show, approve or reject.
type HoldRequest struct {
	ID HoldID `json:"id" path:"id" maxLength:"27" doc:"ID of a held action."`
}

// Check returns an error if the ID has not the form of one.
func (q *HoldRequest) Check() error {
	_, err := ParseHoldID(string(q.ID))
	return err
}

// HoldShown is one action with its peels.
type HoldShown struct {
	HoldAction
	// Names are the peels that the target selected when the action was asked for. They are missing if they are too
	// many.
	Names []target.PeelID `json:"names,omitempty"`
}

// Check checks a request against the bounds.
func (q *HoldAddRequest) Check() error {
	for _, text := range []struct {
		name, value string
		most        int
	}{{"target", q.Target, HoldMaxTarget}, {"reason", q.Reason, HoldMaxReason}, {"agent", q.Agent, HoldMaxAgent}} {
		if err := checkLine(text.name, text.value, text.most); err != nil {
			return err
		}
	}
	if !isHash(q.Hash) {
		return errors.New("hash is not the hash of peels: 64 hexadecimal digits, as a preview of the target shows them")
	}
	switch q.Kind {
	case HoldDispatch:
		return q.checkDispatch()
	case HoldPause:
		return q.checkPause()
	}
	return fmt.Errorf("kind is %.40q: it is dispatch or pause", string(q.Kind))
}

func (q *HoldAddRequest) checkDispatch() error {
	switch {
	case q.Module == "":
		return errors.New("module is missing: the function to run")
	case q.Entry != "" || q.For != 0:
		return errors.New("entry and for are of a pause, not of a dispatch")
	case len(q.StateID) > HoldMaxText || !utf8.ValidString(q.StateID):
		return fmt.Errorf("state_id has %d bytes or is not UTF-8, the limit is %d", len(q.StateID), HoldMaxText)
	case catalogue.AsksForSecrets(q.Args):
		return fmt.Errorf("the argument %s is not allowed: secrets are shown to people alone", catalogue.SecretsTo)
	}
	data, err := canon.Marshal(q.Args)
	if err != nil {
		return fmt.Errorf("args cannot be encoded: %w", err)
	}
	if len(data) > HoldMaxArgs {
		return fmt.Errorf(
			"args take %d bytes, and an action that waits for a person may have %d: nobody would read them; "+
				"put a long text into the config repo",
			len(data), HoldMaxArgs,
		)
	}
	if isBinary(q.Args) {
		return errors.New("args have binary data, which nobody can read")
	}
	return catalogue.CheckCall(q.Module, q.StateID, q.Args)
}

// isBinary reports whether there are bytes in a value, or text that is not UTF-8.
func isBinary(value any) bool {
	switch v := value.(type) {
	case []byte:
		return true
	case string:
		return !utf8.ValidString(v)
	case []any:
		return slices.ContainsFunc(v, isBinary)
	case map[string]any:
		for name, v := range v {
			if isBinary(name) || isBinary(v) {
				return true
			}
		}
	}
	return false
}

func (q *HoldAddRequest) checkPause() error {
	if q.Module != "" || q.StateID != "" || len(q.Args) > 0 {
		return errors.New("module, state_id and args are of a dispatch, not of a pause")
	}
	if q.For < time.Second || q.For > HoldMaxFor {
		return fmt.Errorf("for is %v: a pause that an assistant asks for lasts 1s to 30d", q.For)
	}
	return checkLine("entry", q.Entry, HoldMaxEntry)
}

// checkLine refuses a text that is empty, too long, or not one line: what breaks a line, moves the cursor of a
// terminal, or changes the direction of text.
func checkLine(name, text string, most int) error {
	switch {
	case strings.TrimSpace(text) == "":
		return fmt.Errorf("%s is missing", name)
	case len(text) > most:
		return fmt.Errorf("%s has %d bytes, the limit is %d", name, len(text), most)
	case !utf8.ValidString(text):
		return fmt.Errorf("%s is not UTF-8", name)
	}
	for i, r := range text {
		if unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp) {
			return fmt.Errorf("%s has the character %U at byte %d: it is one line of text", name, r, i)
		}
	}
	return nil
}

func isHash(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}

// At returns the action as it is at a time: an open one expires.
func (a HoldAction) At(now time.Time) HoldAction {
	if a.State == HoldOpen && !now.Before(a.Expires) {
		a.State = HoldExpired
	}
	return a
}

// Spec returns the job that the action asks for. It has no targets; who runs it adds those that he has seen.
func (a *HoldAction) Spec() job.Spec {
	s := job.Spec{
		JID: a.JID, Function: a.Module, Args: a.Args, StateID: a.StateID, TargetExpr: a.Target,
		Metadata: map[string]string{
			job.MetaReason:  a.Reason,
			job.MetaAskedBy: a.By,
			job.MetaAgent:   a.Agent,
			job.MetaHeld:    string(a.ID),
		},
	}
	if a.Kind == HoldPause {
		s.Function = "schedule.pause"
		s.Args = map[string]any{"entry": a.Entry, "for": strictyaml.FormatDuration(a.For), "reason": a.Reason}
	}
	s.Timeout = job.TimeoutOf(s.Function)
	return s
}
