package natsd

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/bucket"
)

// provisionAudit creates the stream of the audit log if it is missing. On a small disk its limit is halved until it
// fits.
func provisionAudit(ctx context.Context, js jetstream.JetStream, c jetstream.StreamConfig) error {
	err := repeatUntilFormed(ctx, func(ctx context.Context) error {
		_, err := js.Stream(ctx, c.Name)
		if !errors.Is(err, jetstream.ErrStreamNotFound) {
			return err
		}
		for ; ; c.MaxBytes /= 2 {
			if _, err = js.CreateStream(ctx, c); !exceedsStorage(err) || c.MaxBytes/2 < leastBytes {
				break
			}
		}
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another master was faster
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("cannot provision stream %s: %w", c.Name, err)
	}
	return nil
}

// ChangeAudit changes how long the bus keeps the audit log, and in how many copies, to what it keeps by [Change]. A
// limit in bytes that was lowered on a small disk is raised if the disk has room now. The connection needs the
// permissions of [grants.AuditKeeper], which no master has by its own credential.
func ChangeAudit(ctx context.Context, keeper jetstream.JetStream, kept bucket.Kept) error {
	wanted := auditLog(kept.Audit)
	s, err := keeper.Stream(ctx, wanted.Name)
	if err != nil {
		return fmt.Errorf("cannot change stream %s: %w", wanted.Name, err)
	}
	now := s.CachedInfo().Config
	c := now
	for c.MaxAge, c.Replicas, c.MaxBytes = wanted.MaxAge, kept.Replicas, max(now.MaxBytes,
		wanted.MaxBytes); ; c.MaxBytes = max(now.MaxBytes, c.MaxBytes/2) {
		if c.MaxAge == now.MaxAge && c.Replicas == now.Replicas && c.MaxBytes == now.MaxBytes {
			return nil
		}
		if _, err = keeper.UpdateStream(ctx, c); err == nil {
			return nil
		}
		if !exceedsStorage(err) || c.MaxBytes == now.MaxBytes {
			return fmt.Errorf("cannot change stream %s: %w", wanted.Name, err)
		}
	}
}
