package wire

import (
	"fmt"
	"slices"

	"github.com/nats-io/nats.go"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// DecodeRequest reads what a master sent to a peel. The version is the peel's to judge: it can answer.
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

// DecodeCancel reads what masters say when a job is to stop.
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

// maxAck bounds an acknowledgement, in encoded bytes. Masters decode one after the other for all jobs.
const maxAck = 2 << 10

// DecodeAck reads a peel's acknowledgement, for the job and from the peel that its subject names. One of more than 2 KiB is
// refused unread.
func DecodeAck(msg *nats.Msg) (Ack, error) {
	var a Ack
	if len(msg.Data) > maxAck {
		return a, fmt.Errorf("cannot read %s: %d bytes, the limit is %d", msg.Subject, len(msg.Data), maxAck)
	}
	err := decodeOfJob(msg, &a, func() claim { return claim{a.JID, a.Peel, a.V} })
	return a, err
}

// DecodeReturn reads a peel's return, for the job and from the peel that its subject names.
func DecodeReturn(msg *nats.Msg) (Return, error) {
	var r Return
	err := decodeOfJob(msg, &r, func() claim { return claim{r.JID, r.Peel, r.V} })
	return r, err
}

// DecodeScheduled reads the report of a scheduled run, for the job and from the peel that its subject names.
func DecodeScheduled(msg *nats.Msg) (ScheduledResult, error) {
	var r ScheduledResult
	err := decodeOfJob(msg, &r, func() claim { return claim{r.JID, r.Peel, r.V} })
	return r, err
}

// DecodeApplied reads a peel's report on its settings.
func DecodeApplied(msg *nats.Msg) (Applied, error) {
	var a Applied
	err := Decode(msg, &a)
	if err == nil {
		err = checkPeel(msg.Subject, a.Peel, a.V)
	}
	if err == nil && (len(a.Errors) > MaxReported || slices.ContainsFunc(a.Errors, func(e string) bool { return len(e) > MaxErrorText })) {
		err = fmt.Errorf("cannot accept %s: more than %d errors, or one of more than %d bytes", msg.Subject, MaxReported, MaxErrorText)
	}
	if err == nil && (len(a.PausedErrors) > MaxReported || slices.ContainsFunc(a.PausedErrors, func(e string) bool { return len(e) > maxEntryName })) {
		err = fmt.Errorf("cannot accept %s: more than %d paused entries, or a name of more than %d bytes", msg.Subject, MaxReported, maxEntryName)
	}
	return a, err
}

// maxEntryName is how long the name of a schedule entry may be, in bytes.
const maxEntryName = 128

// Limits of the lists in an [Applied].
const (
	MaxReported  = 50
	MaxErrorText = 512 // bytes
)

// claim is what a message says of itself and its subject must confirm.
type claim struct {
	jid  JID
	peel target.PeelID
	v    int
}

func decodeOfJob(msg *nats.Msg, into any, said func() claim) error {
	jid, _, err := JobSubject(msg.Subject)
	if err != nil {
		return err
	}
	if err := Decode(msg, into); err != nil {
		return err
	}
	c := said()
	if c.jid != jid {
		return otherJob(msg.Subject, c.jid)
	}
	return checkPeel(msg.Subject, c.peel, c.v)
}

func otherJob(subject string, jid JID) error {
	return fmt.Errorf("cannot accept %s: %w: it speaks of job %q", subject, ErrForged, jid)
}

func checkPeel(subject string, peel target.PeelID, v int) error {
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
