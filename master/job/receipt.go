package job

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
)

// MaxClockError is how far the clock of a peel may be from the masters' before a receipt's times prove nothing.
const MaxClockError = time.Minute

// Errors of [Job.Prove].
var (
	ErrNoReceipt   = errors.New("it came without a receipt")
	ErrNotProven   = errors.New("the record or the return is not what a key of the peel has signed")
	ErrRevokedKey  = errors.New("the key that signed it was revoked before")
	ErrWrongClock  = errors.New("its times cannot be right by the masters' clock")
	ErrUnknownKeys = errors.New("the masters know no key of the peel")
)

// A Proof is what the receipt of a return shows.
type Proof struct {
	wire.Statement
	Key   string    // public nkey that signed it
	Began time.Time // by the peel's clock
}

// Prove checks the receipt of a return against the record of its job and the keys of the peel. The record must be
// complete: with its arguments. The error wraps one of those above.
func (j *Job) Prove(r *wire.Return, keys []credential.PeelKey) (*Proof, error) {
	switch {
	case r == nil || r.Receipt == nil:
		return nil, ErrNoReceipt
	case len(keys) == 0:
		return nil, ErrUnknownKeys
	}
	s, err := j.statement(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotProven, err)
	}
	public := make([]string, len(keys))
	for i, k := range keys {
		public[i] = k.Public
	}
	p := &Proof{Statement: s, Key: s.Signer(r.Receipt.Signature, public)}
	if p.Key == "" && r.Outcome == wire.Interrupted && !j.Scheduled() {
		p.Call = ""
		p.Key = p.Signer(r.Receipt.Signature, public)
	}
	if p.Key == "" {
		return nil, ErrNotProven
	}
	if p.Began = p.Started; p.Began.IsZero() {
		p.Began = p.Finished.Add(-max(0, r.Duration))
	}
	for _, k := range keys {
		if k.Public == p.Key && !k.Revoked.IsZero() && p.Finished.After(k.Revoked) {
			return p, fmt.Errorf("%w, at %s", ErrRevokedKey, k.Revoked.UTC().Format(time.RFC3339))
		}
	}
	return p, j.checkClock(p)
}

// statement returns what the receipt of a return has to be about.
func (j *Job) statement(r *wire.Return) (wire.Statement, error) {
	if !j.Scheduled() {
		return r.Statement(settings.Ran(strings.TrimSpace(j.Function+" "+j.StateID), j.Args))
	}
	s, err := r.Statement(settings.Ran(j.Function, j.Args))
	if err != nil {
		return s, err
	}
	s.Entry, s.Trigger = j.Metadata[MetaSchedule], wire.Trigger(j.Metadata[MetaTrigger])
	s.Commit = j.Metadata[MetaCommit]
	for _, at := range [...]struct {
		key string
		to  *time.Time
	}{
		{MetaNominal, &s.Nominal}, {MetaFired, &s.Fired}, {MetaStarted, &s.Started}, {MetaFinished, &s.Finished},
	} {
		text := j.Metadata[at.key]
		if text == "" {
			continue
		}
		if *at.to, err = time.Parse(time.RFC3339Nano, text); err != nil {
			return s, fmt.Errorf("its time %s cannot be read", at.key)
		}
	}
	return s, nil
}

// checkClock compares the times of a receipt with the record's. Of the report of a run that waited in the outbox of its
// peel only the end can be compared.
func (j *Job) checkClock(p *Proof) error {
	if ahead := p.Finished.Sub(j.Updated); j.Scheduled() && ahead > MaxClockError {
		return fmt.Errorf("%w: the clock of the peel was %v ahead", ErrWrongClock, ahead.Round(time.Second))
	}
	if behind := j.Created.Sub(p.Finished); !j.Scheduled() && behind > MaxClockError {
		return fmt.Errorf("%w: the clock of the peel was %v behind", ErrWrongClock, behind.Round(time.Second))
	}
	latest := j.Deadline.Add(MaxClockError)
	if ahead := p.Began.Sub(latest); !j.Scheduled() && !j.Deadline.IsZero() && ahead > 0 {
		return fmt.Errorf("%w: the work began %v after the deadline", ErrWrongClock, ahead.Round(time.Second))
	}
	return nil
}
