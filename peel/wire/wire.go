// Package wire has the messages between peels, masters and people, their subjects, and the functions that decode them.
// A sender encodes with canon.Marshal and takes the subject from a function such as [Cmd]; a receiver calls the Decode
// function of the message.
//
// Guarantees: the sender of a message is the last token of its subject, in wire form, and the server lets nobody
// publish under the token of another; a Decode function refuses a message whose content contradicts its subject.
//
// Every message has V, the protocol version of its sender. A missing V counts as compatible; unknown fields are
// ignored, missing fields are zero. A version above [Version] is refused.
package wire

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
	"github.com/segmentio/ksuid"
)

// Version is the protocol version that this build speaks.
const Version = 1

// MaxMessage bounds what is decoded from one message, in bytes: the server's default payload limit.
const MaxMessage = 1 << 20

// MaxReturn bounds a return, in encoded bytes. The rest of the payload limit is for what masters put around it on its
// way to people.
const MaxReturn = MaxMessage - 32<<10

// A JID names a job: a KSUID, 27 base-62 characters that sort by the time of their making.
type JID string

// firstSecond is the earliest time that a KSUID can express. Before it the seconds wrap around to the year 2150.
var firstSecond = time.Unix(1_400_000_000, 0)

// NewJID returns a new JID, made from the wall clock and 12 random bytes. JIDs of one clock sort by its nanoseconds: a
// KSUID has seconds, so the first four of its 16 payload bytes are the nanoseconds of the second. If the host's clock
// was never set, the JID gets the earliest second, so that its job is an old one and not one of the future.
func NewJID() JID {
	now := time.Now()
	if now.Before(firstSecond) {
		now = firstSecond
	}

	payload := binary.BigEndian.AppendUint32(nil, uint32(now.Nanosecond()))
	payload = append(payload, make([]byte, 12)...)
	rand.Read(payload[4:]) // never fails: crypto/rand ends the program instead

	id, err := ksuid.FromParts(now, payload)
	if err != nil {
		panic(err) // the payload has the right length
	}
	return JID(id.String())
}

// ParseJID checks that s is a KSUID.
func ParseJID(s string) (JID, error) {
	if _, err := JID(s).parse(); err != nil {
		return "", err
	}
	return JID(s), nil
}

// Time returns the second in which the JID was made, the zero time if the JID is no KSUID.
func (j JID) Time() time.Time {
	id, err := j.parse()
	if err != nil {
		return time.Time{}
	}
	return id.Time()
}

// Lowest returns the lowest JID of the nanosecond in which j was made, and j itself if it is no KSUID.
func (j JID) Lowest() JID {
	id, err := j.parse()
	if err != nil {
		return j
	}
	clear(id[8:]) // after four bytes of seconds and four of nanoseconds
	return JID(id.String())
}

// FirstJID returns the lowest JID of the second of a time, for a search of jobs by time. It is empty for a time before
// the earliest second that a JID can express: the clock of this host was never set.
func FirstJID(at time.Time) JID {
	if at.Before(firstSecond) {
		return ""
	}
	id, err := ksuid.FromParts(at, make([]byte, 16))
	if err != nil {
		panic(err) // the payload has the right length
	}
	return JID(id.String())
}

// parse returns the KSUID. ksuid.Parse accepts any bytes, so that many texts give one KSUID; parse accepts only the
// text that the KSUID is written as.
func (j JID) parse() (ksuid.KSUID, error) {
	id, err := ksuid.Parse(string(j))
	if err != nil || id.String() != string(j) {
		return ksuid.Nil, fmt.Errorf("%q is not a job ID: a job ID has 27 letters and digits", string(j))
	}
	return id, nil
}

// A Request asks one peel to run a function for a job.
type Request struct {
	JID      JID            `json:"jid"`
	Function string         `json:"function"`
	ID       string         `json:"id,omitempty"` // the positional argument, given without a name
	Args     map[string]any `json:"args,omitempty"`
	Epoch    uint64         `json:"epoch"`          // fencing token: increases with every change of the job's owner
	User     string         `json:"user,omitempty"` // the caller's name in the credential; set by the master
	Deadline time.Time      `json:"deadline"`       // on the master's clock, for the record
	// TimeLeft is the time until the deadline when the request was sent, in nanoseconds. The peel counts it from the
	// moment it receives the request, so that its clock need not agree with the master's, and refuses work that would
	// start later. Zero: no limit.
	TimeLeft time.Duration `json:"time_left,omitempty"`
	V        int           `json:"v"`
}

// An Ack says that a peel has accepted a request, after fencing and before running it.
type Ack struct {
	JID   JID           `json:"jid"`
	Peel  target.PeelID `json:"peel_id"`
	Epoch uint64        `json:"epoch"`
	Time  time.Time     `json:"timestamp"`
	V     int           `json:"v"`
}

// An Outcome is the reason why a function did not run to its end. It is empty if the function did.
type Outcome string

// The outcomes. A result with one of them is never a success.
const (
	Rejected    Outcome = "rejected"    // the work was not started
	Canceled    Outcome = "canceled"    // the work was stopped because the job was canceled
	Interrupted Outcome = "interrupted" // the peel stopped or died while the work ran: how far it got is not known
)

// A Result is the result of running a function.
type Result struct {
	Success  bool          `json:"success"`
	Outcome  Outcome       `json:"outcome,omitempty"`
	Data     any           `json:"data,omitzero"`
	Error    string        `json:"error,omitempty"`
	Duration time.Duration `json:"duration"` // measured on the peel's monotonic clock, in nanoseconds
}

// A Return is one peel's result for a dispatched job.
type Return struct {
	JID  JID           `json:"jid"`
	Peel target.PeelID `json:"peel_id"`
	Result
	Epoch    uint64    `json:"epoch"`
	Finished time.Time `json:"timestamp"`
	Receipt  *Receipt  `json:"receipt,omitempty"` // nil: the peel could not sign, or the result was cut since
	V        int       `json:"v"`
}

// A Trigger is the reason why a scheduled run started.
type Trigger string

// The triggers of a run.
const (
	TriggerTimer   Trigger = "timer"
	TriggerStart   Trigger = "start"    // run_on_start, without splay
	TriggerCatchUp Trigger = "catch_up" // missed at its time
	TriggerManual  Trigger = "manual"   // a person ran it: schedule.run
	TriggerNeeds   Trigger = "needs"    // the end of another entry's run
)

// A ScheduledResult is the report of a run of a schedule entry. Its times are Nominal ≤ Fired ≤ Started ≤ Finished: the
// time that the entry's timing gives, the end of its splay, and the start and end of the run.
type ScheduledResult struct {
	JID      JID            `json:"jid"`
	Peel     target.PeelID  `json:"peel_id"`
	Entry    string         `json:"entry"`
	Trigger  Trigger        `json:"trigger"`
	Function string         `json:"function"`
	Args     map[string]any `json:"args,omitempty"`
	Result
	Nominal  time.Time `json:"nominal"`
	Fired    time.Time `json:"fired"`
	Started  time.Time `json:"started"`
	Finished time.Time `json:"timestamp"`
	Late     bool      `json:"late,omitempty"` // started more than the entry's start deadline after Nominal
	// the commit that last changed the entry; empty for an entry of peel.yaml
	Commit string `json:"commit,omitempty"`
	Origin string `json:"origin,omitempty"` // file:line of the entry at that commit
	Author string `json:"author,omitempty"` // of that commit
	Ran    string `json:"ran,omitempty"`    // what the entry runs in the settings; empty for an entry of peel.yaml
	// from the document: shows that masters gave the peel this entry with this commit, origin, author and function
	Proof   string   `json:"proof,omitempty"`
	Receipt *Receipt `json:"receipt,omitempty"` // see [Return].Receipt
	V       int      `json:"v"`
}

// Return returns the report in the form of a return for a dispatched job.
func (r *ScheduledResult) Return() *Return {
	return &Return{JID: r.JID, Peel: r.Peel, Result: r.Result, Finished: r.Finished, Receipt: r.Receipt, V: r.V}
}

// Facts are the facts of a peel's host. The peel publishes them after each connect and when they change.
type Facts struct {
	Peel  target.PeelID  `json:"peel_id"`
	Facts map[string]any `json:"facts"`
	Key   string         `json:"key,omitempty"` // the public X25519 key to which its secrets are sealed, "X…"
	// Proof is [KeyProof] signed with the nkey of the peel's credential; empty from a peel of an earlier version.
	Proof []byte `json:"proof,omitempty"`
	V     int    `json:"v"`
}

// Applied is a peel's report on the settings that it runs.
type Applied struct {
	Peel       target.PeelID `json:"peel_id"`
	Commit     string        `json:"commit"`     // of the document in force, empty before the first
	Generation uint64        `json:"generation"` // of the document in force
	Digest     string        `json:"digest"`     // of the settings in force
	Started    int           `json:"started"`    // schedule entries that the last reload started
	Stopped    int           `json:"stopped"`
	Changed    int           `json:"changed"`
	Kept       int           `json:"kept"`
	// why entries cannot be used, or why a newer document was refused
	Errors texts `json:"errors,omitempty"`
	// PausedErrors are entries that are paused_errors: they failed too often in a row. At most MaxReported are named.
	PausedErrors texts `json:"paused_errors,omitempty"`
	// MissingContents is how many contents of files that the document names have not arrived yet.
	MissingContents int `json:"missing_contents,omitempty"`
	// Features are the parts of settings that the peel understands beside the schedule, such as FeatureStates. A peel
	// of an earlier version names none.
	Features texts `json:"features,omitempty"`

	// the document comes from the snapshot and the bus has not confirmed it yet
	Stale bool      `json:"stale,omitempty"`
	Time  time.Time `json:"time"`
	V     int       `json:"v"`
}

// FeatureStates names the states in [Applied].Features.
const FeatureStates = "states"

// A StateRun is a peel's report on its newest run of all its states. A run of some states has none: it does not say how
// the host is as a whole.
type StateRun struct {
	Peel   target.PeelID `json:"peel_id"`
	Commit string        `json:"commit"` // of the document that was run
	Digest string        `json:"digest"`
	Test   bool          `json:"test"`   // the run predicted and changed nothing
	Time   time.Time     `json:"time"`   // when the run began
	Counts counts        `json:"counts"` // of states by result
	// Canceled is how many states the run did not reach, because it was canceled. They are in Counts as skipped.
	Canceled int `json:"canceled,omitempty"`
	// States are those that changed, would change, failed or are unknown, at most MaxReported: failed ones
	// come first, then those that drifted.
	States outcomes `json:"states,omitempty"`
	Owed   texts    `json:"owed,omitempty"` // states whose reaction is due at the next run, at most MaxReported
	V      int      `json:"v"`
}

// A StateOutcome is the result of one state in a StateRun.
type StateOutcome struct {
	State  string `json:"state"`
	Result string `json:"result"`          // changed, would_change, failed or unknown
	Cause  string `json:"cause,omitempty"` // drift or intended
	Error  string `json:"error,omitempty"` // the beginning of the error of a failed state
	// Before reports of a failed state that it also failed in the newest run of other settings.
	Before bool `json:"before,omitempty"`
}

// An Event is one step in a job's life, kept by the stream job-events.
type Event struct {
	JID  JID       `json:"jid"`
	Type string    `json:"type"` // "dispatched", "status"
	Data any       `json:"data,omitempty"`
	Time time.Time `json:"timestamp"`
	V    int       `json:"v"`
}

// ErrForged marks a message whose content contradicts its subject.
var ErrForged = errors.New("the message contradicts the subject it came on")

// Decode decodes the payload of msg into v, after the checks for every message of a peel or a person: its size is
// bounded, and its sender published it. The server sends its replies to any reply subject that a client names, so a
// peel could make the server publish on the subject of another peel. Such replies have headers of the server or are
// JSON; Decode refuses both.
func Decode(msg *nats.Msg, v any) error {
	if len(msg.Data) > MaxMessage {
		return fmt.Errorf("cannot read %s: %d bytes, the limit is %d", msg.Subject, len(msg.Data), MaxMessage)
	}
	for _, h := range []string{
		"Nats-Stream", "Nats-Subject", "Nats-Sequence", "Status", "Nats-Service-Error", intervalHeader,
	} {
		if _, ok := msg.Header[h]; ok {
			return fmt.Errorf("cannot read %s: %w: it is a reply of the server", msg.Subject, ErrForged)
		}
	}
	if err := canon.Unmarshal(msg.Data, v); err != nil {
		return fmt.Errorf("cannot read %s: %w", msg.Subject, err)
	}
	return nil
}
