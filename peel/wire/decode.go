package wire

import (
	"fmt"
	"slices"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/settings/target"
)

// DecodeRequest decodes the request of a master. The caller checks the version, because it can reply.
func DecodeRequest(msg *nats.Msg) (Request, error) {
	var r Request
	if err := Decode(msg, &r); err != nil {
		return r, err
	}
	if _, err := ParseJID(string(r.JID)); err != nil {
		return r, fmt.Errorf("cannot read %s: %w", msg.Subject, err)
	}
	return r, nil
}

// DecodeCancel decodes the event by which masters cancel the job that the subject names.
func DecodeCancel(msg *nats.Msg) (Event, error) {
	var e Event
	jid, _, err := JobSubject(msg.Subject)
	if err == nil {
		err = Decode(msg, &e)
	}
	if err == nil && e.JID != jid {
		err = otherJob(msg.Subject, e.JID)
	}
	if err == nil {
		err = checkVersion(msg.Subject, e.V)
	}
	return e, err
}

// maxAck bounds an acknowledgement, in encoded bytes. One goroutine of a master decodes those of all jobs.
const maxAck = 2 << 10

// DecodeAck decodes a peel's acknowledgement for the job and from the peel that its subject names. More than 2 KiB are
// refused without decoding.
func DecodeAck(msg *nats.Msg) (Ack, error) {
	var a Ack
	if len(msg.Data) > maxAck {
		return a, fmt.Errorf("cannot read %s: %d bytes, the limit is %d", msg.Subject, len(msg.Data), maxAck)
	}
	err := decodeOfJob(msg, &a, func() claim { return claim{a.JID, a.Peel, a.V} })
	return a, err
}

// DecodeReturn decodes a peel's return for the job and from the peel that its subject names.
func DecodeReturn(msg *nats.Msg) (Return, error) {
	var r Return
	err := decodeOfJob(msg, &r, func() claim { return claim{r.JID, r.Peel, r.V} })
	return r, err
}

// DecodeScheduled decodes the report of a scheduled run for the job and from the peel that its subject names.
func DecodeScheduled(msg *nats.Msg) (ScheduledResult, error) {
	var r ScheduledResult
	err := decodeOfJob(msg, &r, func() claim { return claim{r.JID, r.Peel, r.V} })
	return r, err
}

// DecodeApplied decodes a peel's report on its settings.
func DecodeApplied(msg *nats.Msg) (Applied, error) {
	var a Applied
	err := Decode(msg, &a)
	if err == nil {
		err = CheckPeel(msg.Subject, a.Peel, a.V)
	}
	if err == nil && slices.ContainsFunc(a.Errors, func(e string) bool { return len(e) > MaxErrorText }) {
		err = fmt.Errorf("cannot accept %s: an error of more than %d bytes", msg.Subject, MaxErrorText)
	}
	if err == nil && slices.ContainsFunc(a.PausedErrors, func(e string) bool { return len(e) > maxEntryName }) {
		err = fmt.Errorf("cannot accept %s: a paused entry with a name of more than %d bytes", msg.Subject,
			maxEntryName)
	}
	if err == nil && a.MissingContents < 0 {
		err = fmt.Errorf("cannot accept %s: %d missing contents", msg.Subject, a.MissingContents)
	}
	if err == nil && slices.ContainsFunc(a.Features, func(f string) bool { return len(f) > maxEntryName }) {
		err = fmt.Errorf("cannot accept %s: a feature with a name of more than %d bytes", msg.Subject, maxEntryName)
	}
	return a, err
}

// DecodeStateRun decodes a peel's report on its newest run of all its states.
func DecodeStateRun(msg *nats.Msg) (StateRun, error) {
	var r StateRun
	err := Decode(msg, &r)
	if err == nil {
		err = CheckPeel(msg.Subject, r.Peel, r.V)
	}
	if err == nil && !r.isWithinLimits() {
		err = fmt.Errorf("cannot accept %s: a number below 0, or a text that is too long", msg.Subject)
	}
	return r, err
}

// MaxStateName bounds the name of a state, in bytes.
const MaxStateName = 256

func (r *StateRun) isWithinLimits() bool {
	long := func(name string) bool { return len(name) > MaxStateName }
	for _, s := range r.States {
		if long(s.State) || len(s.Result) > 20 || len(s.Cause) > 20 || len(s.Error) > MaxErrorText {
			return false
		}
	}
	for verdict, n := range r.Counts {
		if len(verdict) > 20 || n < 0 {
			return false
		}
	}
	return r.Canceled >= 0 &&
		len(r.Commit) <= 64 && len(r.Digest) <= 64 && !slices.ContainsFunc(r.Owed, long)
}

// maxEntryName bounds the name of a schedule entry or a feature, in bytes.
const maxEntryName = 128

// Limits of the lists in an [Applied].
const (
	MaxReported  = 50
	MaxErrorText = 512 // bytes
)

// A claim is the part of a message that its subject must confirm.
type claim struct {
	jid  JID
	peel target.PeelID
	v    int
}

func decodeOfJob(msg *nats.Msg, into any, claimed func() claim) error {
	jid, _, err := JobSubject(msg.Subject)
	if err != nil {
		return err
	}
	if err := Decode(msg, into); err != nil {
		return err
	}
	c := claimed()
	if c.jid != jid {
		return otherJob(msg.Subject, c.jid)
	}
	return CheckPeel(msg.Subject, c.peel, c.v)
}

func otherJob(subject string, jid JID) error {
	return fmt.Errorf("cannot accept %s: %w: it names job %q", subject, ErrForged, jid)
}

// CheckPeel checks who sent a message and its version: v is at most [Version], and the subject ends with the peel's ID.
func CheckPeel(subject string, peel target.PeelID, v int) error {
	if _, err := target.ParsePeelID(string(peel)); err != nil {
		return fmt.Errorf("cannot accept %s: %w", subject, err)
	}
	if err := checkVersion(subject, v); err != nil {
		return err
	}
	return CheckSender(subject, peel)
}

func checkVersion(subject string, v int) error {
	if v > Version {
		return fmt.Errorf("cannot accept %s: protocol version %d, this build knows up to %d", subject, v, Version)
	}
	return nil
}
