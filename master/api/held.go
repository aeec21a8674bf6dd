// File held.go has actions that wait for a person: those that an assistant asked for, and requests that need two
// persons. [HoldAddRequest] asks for one, [HoldAction] is its record. The requests are zester.api.hold.add, list, show,
// approve and reject; package hold serves them.
//
// What a [HoldAddRequest] says is a claim of a program that may have been misled by what it read. It is bounded, but it
// may look like anything: show it escaped, and apart from what masters have found out.

package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/seed-c01c3da5/zester/master/auth/access"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
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

	HoldMaxData    = 48 << 10 // bytes of a request that needs two persons
	HoldMaxAnswer  = 16 << 10 // bytes of the reply to it that are kept
	HoldMaxRequest = 64 << 10 // bytes of an encoded Add
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
	HoldSecond   HoldKind = "second"   // sends a request of a person that needs two persons
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

// A HoldAddRequest asks for an action. All of it is what the assistant says. Masters make those of [HoldSecond] for who
// sent the request.
type HoldAddRequest struct {
	Kind   HoldKind `json:"kind"`
	Target string   `json:"target"` // an expression; empty for a request that is not about a job
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
	// Verb and Data are of [HoldSecond] alone: noun and verb of the request, and the request as it was sent. The data
	// of a job is a [job.Spec] without ID and targets.
	Verb string `json:"verb,omitempty"`
	Data []byte `json:"data,omitempty"`
}

// A HoldAction is the record of an action.
type HoldAction struct {
	ID HoldID `json:"id"`
	HoldAddRequest
	By string `json:"by"` // the user who asked, or in whose name the assistant did, from the subject of the request
	// ByRole is the role of the credential of By; empty for a token.
	ByRole    grants.Role `json:"by_role,omitempty"`
	Created   time.Time   `json:"created"`
	Expires   time.Time   `json:"expires"`
	Peels     int         `json:"peels"` // that the target selected when the action was asked for; Hash is theirs
	State     HoldState   `json:"state"`
	DecidedBy string      `json:"decided_by,omitempty"`
	DecidedAt time.Time   `json:"decided_at,omitzero"`
	// JID is the job of an approved action. It is given before the approver's client dispatches the job.
	JID wire.JID `json:"jid,omitempty"`
	// Dispatched reports whether there is a job of that ID, or whether the request of an approved action was begun. It
	// is not stored; masters set it in replies.
	Dispatched bool `json:"dispatched,omitempty"`
	// Begun is when a master began to carry out a request that is no job. It is stored before, so that this is done
	// once or never.
	Begun time.Time `json:"begun,omitzero"`
	// Failed is why that request was not carried out, and Answer the reply to it, for who asked.
	Failed string `json:"failed,omitempty"`
	Answer []byte `json:"answer,omitempty"`
}

// IsJob reports whether the action runs a function on peels. All others are requests that need two persons.
func (a *HoldAction) IsJob() bool { return a.Kind != HoldSecond || a.Verb == verbDispatch }

const verbDispatch = "job.dispatch"

// Asker returns who asked for the action.
func (a *HoldAction) Asker() grants.Caller { return grants.Caller{User: a.By, Role: a.ByRole} }

// Asked returns the fields of a request that needs two persons, for people; nil if it has none.
func (a *HoldAction) Asked() map[string]any {
	var fields map[string]any
	if a.Data == nil || a.Kind != HoldSecond || canon.Unmarshal(a.Data, &fields) != nil {
		return nil
	}
	return fields
}

// Waits returns the error of a request that waits as an action for a second person.
func Waits(id HoldID) *Error {
	return &Error{Code: CodeWaits, Msg: "waits for a second person: zester approvals lists it as " + string(id)}
}

// HeldAs returns the action as which a request waits, if that is what an error says.
func HeldAs(err error) (HoldID, bool) {
	if CodeOf(err) != CodeWaits {
		return "", false
	}
	text := err.Error()
	id, bad := ParseHoldID(text[strings.LastIndexByte(text, ' ')+1:])
	return id, bad == nil
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
	if q.Kind == HoldSecond {
		return q.checkSecond()
	}
	if q.Verb != "" || q.Data != nil {
		return errors.New("verb and data are of a request that needs two persons")
	}
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

// checkSecond checks a request that needs two persons. The service that gets the request checks what it says.
func (q *HoldAddRequest) checkSecond() error {
	only := HoldAddRequest{Kind: q.Kind, Verb: q.Verb, Data: q.Data}
	if q.Verb == verbDispatch {
		only.Target, only.Hash = q.Target, q.Hash
	}
	switch same := *q; {
	case !slices.Contains(Verbs(), q.Verb) || !access.IsHeld(access.Verb(q.Verb)):
		return fmt.Errorf("%.100q is no verb of a request that waits for a second person", q.Verb)
	case len(q.Data) > HoldMaxData:
		return fmt.Errorf("the request has %d bytes, and one that waits for a second person may have %d", len(q.Data),
			HoldMaxData)
	case !reflect.DeepEqual(same, only):
		return errors.New("a request that needs two persons has a verb and data, and one for a job a target and a hash")
	case q.Verb != verbDispatch:
		return nil
	case !isHash(q.Hash):
		return errors.New("hash is not the hash of peels")
	}
	var spec job.Spec
	if err := canon.Unmarshal(q.Data, &spec); err != nil {
		return fmt.Errorf("the job cannot be read: %w", err)
	}
	if err := catalogue.CheckCall(spec.Function, spec.StateID, spec.Args); err != nil {
		return err
	}
	if catalogue.AsksForSecrets(spec.Args) {
		return errors.New("secrets are shown to who asks for them, and nobody else can ask: this cannot wait")
	}
	return checkLine("target", q.Target, HoldMaxTarget)
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

// Spec returns the job that the action asks for. It has no targets; who runs it adds those that he has seen. Of a
// request that is no job, it names the verb and the fields.
func (a *HoldAction) Spec() job.Spec {
	if a.Kind == HoldSecond {
		return a.secondSpec()
	}
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

// secondSpec is Spec for a request that needs two persons.
func (a *HoldAction) secondSpec() (s job.Spec) {
	if a.Verb != verbDispatch || a.Data == nil {
		return job.Spec{
			Function: cmp.Or(a.Module, a.Verb), Args: a.Asked(),
			Metadata: map[string]string{job.MetaHeld: string(a.ID)},
		}
	}
	_ = canon.Unmarshal(a.Data, &s) // which Check has read
	s.JID, s.TargetExpr, s.Metadata = a.JID, a.Target, job.OwnMetadata(s.Metadata)
	if s.Metadata == nil {
		s.Metadata = map[string]string{}
	}
	s.Metadata[job.MetaAskedBy], s.Metadata[job.MetaHeld] = a.By, string(a.ID)
	return s
}

const (
	awaitPause = 2 * time.Second
	awaitReply = time.Minute // from the beginning of a request until its reply is in the record
)

// askMade sends a request whose secret half the client has made. If it waits for a second person and [Client.OnWait] is
// set, askMade waits for the decision, because the secret would be lost otherwise.
func askMade[Q, A any](ctx context.Context, c *Client, e Endpoint[Q, A], q Q) (*A, error) {
	a, err := e.Ask(ctx, c, q)
	id, waits := HeldAs(err)
	if !waits || c.OnWait == nil {
		return a, err
	}
	c.OnWait(err)
	for {
		s, err := HoldShow.Ask(ctx, c, HoldRequest{ID: id})
		switch {
		case err != nil && CodeOf(err) != CodeUnavailable:
			return nil, err
		case err != nil, s.State == HoldOpen:
		case s.State != HoldApproved:
			return nil, fail(CodeConflict, nil, "action %s is %s", id, s.State)
		case s.Failed != "":
			return nil, fail(CodeConflict, nil, "action %s was approved by %s, and failed: %s", id, s.DecidedBy,
				s.Failed)
		case s.Answer != nil:
			a := new(A)
			return a, canon.Unmarshal(s.Answer, a)
		case time.Since(s.DecidedAt) > awaitReply && !s.Begun.IsZero():
			return nil, fail(CodeUnavailable, nil, "action %s was begun, and its reply is not known", id)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(awaitPause):
		}
	}
}
