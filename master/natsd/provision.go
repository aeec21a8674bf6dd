package natsd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/peel/wire"
)

// The buckets, with their keys and values. A peel in a key is its wire ID.
const (
	BucketSettings   = "settings"    // peel: its newest document
	BucketActive     = "active"      // JID: the record of a job that has not ended; targets.<jid>.<n>: its targets, if they are many
	BucketJobs       = "jobs"        // JID: the record of a job that has ended; targets.<jid>.<n>: its targets, if they are many
	BucketJobReturns = "job-returns" // <jid>.<peel>: the first return, which its stream captures from the peel
	BucketMasters    = "masters"     // master: present while it is alive
	BucketLeases     = "leases"      // task: the master that leads it
	BucketRollout    = "rollout"     // state of the reconciler
	BucketFiles      = "files"       // <blob>.<n>: a part of an encrypted file that states of peels name; <blob>.unused: since when no settings name it
	BucketRevisions  = "revisions"   // commit: a revision that can be pinned; <commit>.<n>: a part of its files
	BucketUsers      = "users"       // name: a person, with limits and revocation
	BucketEnroll     = "enroll"      // peel.<peel>: its enrollment; join.<token>: a join token
	BucketIdentities = "identities"  // peel: its ID, and the key to which its secrets are sealed
	BucketSchedules  = "schedules"   // last: the highest number of a schedule; key.<digest>: a request that was made with a key
	BucketAlerts     = "alerts"      // alert.<hash>: an alert; silence.<id>: a silence; ping.<receiver>: the runs that it was told of
	BucketHeld       = "held"        // action.<id>: what an assistant asked for and a person decides; peels.<id>: its peels
	BucketTokens     = "tokens"      // token of the REST API; used.<token>: the time of its last use
)

// The streams that keep messages under their own subjects.
const (
	StreamJobEvents     = "job-events"     // the steps of jobs and the reports of schedules, for a week
	StreamFacts         = "facts"          // the newest facts of each peel
	StreamApplied       = "applied"        // the newest report of each peel on its settings
	StreamStates        = "states"         // the newest report of each peel on a run of all its states
	StreamScheduleState = "schedule-state" // the newest report of each peel on its schedule
	StreamCoverage      = "coverage"       // what happened to the fires of schedules in each hour, for 35 days
	StreamAudit         = "audit"          // entries of the audit log
)

const (
	jobRetention = 7 * 24 * time.Hour // as of held actions, which name their jobs
	liveness     = 15 * time.Second   // a master or lease that is not renewed expires after this
	duplicates   = 2 * time.Minute    // in which a message with a known Nats-Msg-Id is not stored again
)

// AuditRetention is how long entries of the audit log are kept by default.
const AuditRetention = 400 * 24 * time.Hour

// Provision creates missing buckets and streams and updates the configuration of the others, with the given number of copies of
// each (1 on a single server, 3 on a cluster). Several masters may call it at the same time, and at every start. The error names
// the stream and the reason of the server. For the audit log call [ProvisionAudit].
func Provision(ctx context.Context, js jetstream.JetStream, replicas int) error {
	if err := releaseSubjects(ctx, js); err != nil {
		return fmt.Errorf("cannot provision stream %s: %w", StreamJobEvents, err)
	}
	return provision(ctx, js, replicas, configs())
}

// ProvisionAudit creates the audit log if it is missing. Entries are removed after retention; 0 means [AuditRetention]. Masters may not
// change the log: see [ChangeAudit].
func ProvisionAudit(ctx context.Context, js jetstream.JetStream, replicas int, retention time.Duration) error {
	c := auditLog(cmp.Or(retention, AuditRetention))
	c.Replicas = replicas
	return provisionAudit(ctx, js, c)
}

func provision(ctx context.Context, js jetstream.JetStream, replicas int, all []jetstream.StreamConfig) error {
	for _, c := range all {
		c.Replicas = replicas
		if err := repeatUnanswered(ctx, func(ctx context.Context) error { return createOrUpdate(ctx, js, c) }); err != nil {
			return fmt.Errorf("cannot provision stream %s: %w", c.Name, err)
		}
	}
	return nil
}

// attemptLimit bounds one attempt to create or update a stream.
const attemptLimit = 5 * time.Second

// repeatUnanswered calls attempt until it returns within [attemptLimit] or ctx ends. A newly formed cluster may never answer a
// request to create a stream.
func repeatUnanswered(ctx context.Context, attempt func(context.Context) error) error {
	for {
		limited, cancel := context.WithTimeout(ctx, attemptLimit)
		err := attempt(limited)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return err
		}
	}
}

// purgeTime bounds how long the server takes to purge the acknowledgements of a week.
const purgeTime = time.Minute

// releaseSubjects removes the subjects of returns and acknowledgements from the stream job-events of an earlier version. The
// bucket job-returns captures the returns, and a subject belongs to one stream. Acknowledgements are no longer stored: the stored
// ones are purged before their subject is released, so that an interrupted purge is repeated.
func releaseSubjects(ctx context.Context, js jetstream.JetStream) error {
	events, err := js.Stream(ctx, StreamJobEvents)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	c := events.CachedInfo().Config
	acks, returns := wire.AckOf("*", "*"), wire.ReturnOf("*", "*")
	if slices.Contains(c.Subjects, acks) {
		purging, cancel := context.WithTimeout(ctx, purgeTime)
		defer cancel()
		if err := events.Purge(purging, jetstream.WithPurgeSubject(acks)); err != nil {
			return err
		}
	}
	kept := slices.DeleteFunc(slices.Clone(c.Subjects), func(s string) bool { return s == acks || s == returns })
	if len(kept) == len(c.Subjects) {
		return nil
	}
	c.Subjects = kept
	_, err = js.UpdateStream(ctx, c)
	return err
}

// storageExceeded is the server's code for a stream whose limits exceed the disk.
const storageExceeded jetstream.ErrorCode = 10047

// leastBytes is the smallest limit of a stream on a small disk.
const leastBytes = 64 << 20

// createOrUpdate creates first, so that masters that start together do not conflict. On a small disk the limit of a stream is
// halved until it fits, and once more to leave room for the next stream. If the disk is smaller than the limits of the existing
// streams, the server refuses every change; an existing stream then keeps its configuration.
func createOrUpdate(ctx context.Context, js jetstream.JetStream, c jetstream.StreamConfig) error {
	if old, err := js.Stream(ctx, c.Name); err == nil {
		c.AllowMsgTTL = c.AllowMsgTTL || old.CachedInfo().Config.AllowMsgTTL // the server refuses to turn it off
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
		if c.MaxBytes /= 2; c.MaxBytes < leastBytes {
			if there {
				return nil
			}
			return err
		}
	}
}

func exceedsStorage(err error) bool {
	e, ok := errors.AsType[*jetstream.APIError](err)
	return ok && e.ErrorCode == storageExceeded
}
