package natsd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

const (
	sessionRetention = 25 * time.Hour     // more than the longest session
	jobRetention     = 7 * 24 * time.Hour // as of held actions, which name their jobs
	liveness         = 15 * time.Second   // a master or lease that is not renewed expires after this
	duplicates       = 2 * time.Minute    // in which a message with a known Nats-Msg-Id is not stored again
)

// AuditRetention is how long entries of the audit log are kept by default.
const AuditRetention = 400 * 24 * time.Hour

// keyKept is the key of the bucket rollout with what the bus keeps.
const keyKept = "kept"

// A DisagreementError says that a master was started with other numbers than the bus has.
type DisagreementError struct{ Stored, Wanted bucket.Kept }

func (e *DisagreementError) Error() string {
	return fmt.Sprintf("this bus keeps %d copies of each stream, and the audit log for %v; "+
		"this master was started with %d and %v: "+
		"leave replicas and audit_retention out of its configuration, or change the bus with zester bus set",
		e.Stored.Replicas, e.Stored.Audit, e.Wanted.Replicas, e.Wanted.Audit)
}

// Provision creates missing buckets and streams and updates the configuration of the others, with as many copies of
// each as the bus keeps, and returns what it keeps. On a new bus wanted decides that; 0 in it means 1 copy and
// [AuditRetention]. On any other bus a number in wanted that differs is a [*DisagreementError], and nothing is changed:
// see [Change]. Several masters may call Provision at the same time, and at every start. It never lowers a limit of a
// stream. Other errors name the stream and the reason of the server.
func Provision(ctx context.Context, js jetstream.JetStream, wanted bucket.Kept) (bucket.Kept, error) {
	var kept bucket.Kept
	err := repeatUntilFormed(ctx, func(ctx context.Context) (err error) {
		kept, err = agree(ctx, js, wanted)
		return err
	})
	if err != nil {
		return kept, err
	}
	return kept, provision(ctx, js, kept)
}

// agree returns what the bus keeps, and stores wanted on a bus that does not know yet.
func agree(ctx context.Context, js jetstream.JetStream, wanted bucket.Kept) (kept bucket.Kept, err error) {
	first := wanted.Or(bucket.Kept{Replicas: 1, Audit: AuditRetention})
	if err := first.Check(); err != nil {
		return kept, err
	}
	c := rollout()
	if _, err = js.Stream(ctx, c.Name); errors.Is(err, jetstream.ErrStreamNotFound) {
		c.Replicas = first.Replicas
		if err = createOrUpdate(ctx, js, c); err != nil {
			return kept, fmt.Errorf("cannot provision stream %s: %w", c.Name, err)
		}
	}
	if err != nil {
		return kept, fmt.Errorf("cannot read what the bus keeps: %w", err)
	}
	kv, err := js.KeyValue(ctx, wire.BucketRollout)
	if err != nil {
		return kept, fmt.Errorf("cannot read what the bus keeps: %w", err)
	}
	text, err := canon.Marshal(first)
	if err == nil {
		_, err = kv.Create(ctx, keyKept, text)
	}
	if err != nil && !errors.Is(err, jetstream.ErrKeyExists) {
		return kept, fmt.Errorf("cannot store what the bus keeps: %w", err)
	}
	if kept, _, err = readKept(ctx, kv); err != nil {
		return kept, err
	}
	if wanted.Or(kept) != kept {
		return kept, &DisagreementError{Stored: kept, Wanted: wanted.Or(kept)}
	}
	return kept, nil
}

func readKept(ctx context.Context, kv jetstream.KeyValue) (kept bucket.Kept, revision uint64, err error) {
	e, err := kv.Get(ctx, keyKept)
	if err == nil {
		err = canon.Unmarshal(e.Value(), &kept)
	}
	if err == nil {
		err = kept.Check()
	}
	if err != nil {
		return kept, 0, fmt.Errorf("cannot read what the bus keeps: %w", err)
	}
	return kept, e.Revision(), nil
}

// KeptNow returns what the bus keeps.
func KeptNow(ctx context.Context, js jetstream.JetStream) (bucket.Kept, error) {
	kv, err := js.KeyValue(ctx, wire.BucketRollout)
	if err != nil {
		return bucket.Kept{}, fmt.Errorf("cannot read what the bus keeps: %w", err)
	}
	kept, _, err := readKept(ctx, kv)
	return kept, err
}

// Change stores what the bus keeps from now on, and changes all streams but the audit log to that, which takes
// [ChangeAudit]; 0 in wanted means that a number stays. If it is interrupted, the next call or the next start of a
// master goes on.
func Change(ctx context.Context, js jetstream.JetStream, wanted bucket.Kept) (bucket.Kept, error) {
	kv, err := js.KeyValue(ctx, wire.BucketRollout)
	if err != nil {
		return bucket.Kept{}, fmt.Errorf("cannot read what the bus keeps: %w", err)
	}
	kept, revision, err := readKept(ctx, kv)
	if err != nil {
		return kept, err
	}
	wanted = wanted.Or(kept)
	if err := wanted.Check(); err != nil {
		return kept, err
	}
	text, err := canon.Marshal(wanted)
	if err != nil {
		return kept, err
	}
	c := rollout() // the server refuses more copies than it has servers, before anything is stored
	c.Replicas = wanted.Replicas
	if err := createOrUpdate(ctx, js, c); err != nil {
		return kept, fmt.Errorf("cannot keep %d copies: %w", wanted.Replicas, err)
	}
	if _, err := kv.Update(ctx, keyKept, text, revision); err != nil {
		return kept, fmt.Errorf("cannot store what the bus keeps: %w", err)
	}
	return wanted, provision(ctx, js, wanted)
}

// provision creates or updates all streams. Masters may not change the audit log, which is created if it is missing.
func provision(ctx context.Context, js jetstream.JetStream, kept bucket.Kept) error {
	for _, c := range configs() {
		c.Replicas = kept.Replicas
		if err := repeatUntilFormed(ctx, func(ctx context.Context) error {
			return createOrUpdate(ctx, js, c)
		}); err != nil {
			return fmt.Errorf("cannot provision stream %s: %w", c.Name, err)
		}
	}
	log := auditLog(kept.Audit)
	log.Replicas = kept.Replicas
	return provisionAudit(ctx, js, log)
}

const (
	// attemptLimit bounds one attempt to create or update a stream.
	attemptLimit = 5 * time.Second
	// peersLimit is how long a new cluster has to know that its servers are there.
	peersLimit = 30 * time.Second
)

// repeatUntilFormed calls attempt until it returns within [attemptLimit] or ctx ends, and for [peersLimit] as long as
// the cluster says that servers are missing. A newly formed cluster may never answer a request to create a stream, and
// knows of a server only some seconds after that is ready.
func repeatUntilFormed(ctx context.Context, attempt func(context.Context) error) error {
	for began := time.Now(); ; {
		limited, cancel := context.WithTimeout(ctx, attemptLimit)
		err := attempt(limited)
		cancel()
		switch {
		case ctx.Err() != nil:
			return err
		case errors.Is(err, context.DeadlineExceeded):
		case lacksPeers(err) && time.Since(began) < peersLimit:
			select {
			case <-ctx.Done():
				return err
			case <-time.After(time.Second):
			}
		default:
			return err
		}
	}
}

// The server's codes for a stream whose limits exceed the disk, and for one that needs more servers than are there.
const (
	storageExceeded jetstream.ErrorCode = 10047
	noPeers         jetstream.ErrorCode = 10005
)

// leastBytes is the smallest limit of a stream on a small disk.
const leastBytes = 64 << 20

// createOrUpdate creates first, so that masters that start together do not conflict. On a small disk the limit of a
// stream is halved until it fits, and once more to leave room for the next stream. If the disk is smaller than the
// limits of the existing streams, the server refuses every change; an existing stream then keeps its configuration.
func createOrUpdate(ctx context.Context, js jetstream.JetStream, c jetstream.StreamConfig) error {
	least := int64(leastBytes)
	if old, err := js.Stream(ctx, c.Name); err == nil {
		now := old.CachedInfo().Config
		c.AllowMsgTTL = c.AllowMsgTTL || now.AllowMsgTTL // the server refuses to turn it off
		// Another master may have another version, or was started when the disk was larger: messages must not go for
		// that.
		c.MaxBytes, c.MaxMsgs = higher(c.MaxBytes, now.MaxBytes), higher(c.MaxMsgs, now.MaxMsgs)
		least = max(least, now.MaxBytes)
	}
	there := false
	for wanted := c.MaxBytes; ; {
		_, err := js.CreateStream(ctx, c)
		if err == nil && !there && c.MaxBytes < wanted {
			c.MaxBytes /= 2
			_, err = js.UpdateStream(ctx, c)
			return err
		}
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) || exceedsStorage(err) {
			_, failed := js.UpdateStream(ctx, c)
			if there = !errors.Is(failed, jetstream.ErrStreamNotFound); there {
				err = failed
			}
		}
		if !exceedsStorage(err) {
			return err
		}
		if c.MaxBytes /= 2; c.MaxBytes < least {
			if there {
				return nil
			}
			return err
		}
	}
}

// higher returns the higher of two limits of a stream, where less than 1 means that there is none.
func higher(a, b int64) int64 {
	if a < 1 || b < 1 {
		return -1
	}
	return max(a, b)
}

func exceedsStorage(err error) bool {
	e, ok := errors.AsType[*jetstream.APIError](err)
	return ok && e.ErrorCode == storageExceeded
}

func lacksPeers(err error) bool {
	e, ok := errors.AsType[*jetstream.APIError](err)
	return ok && e.ErrorCode == noPeers
}
