package apiserver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-c01c3da5/zester/peel/build"
	"github.com/seed-c01c3da5/zester/peel/wire"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/bucket"
)

// health leaves out what is of all peels for callers who may not read about all.
func (s *Server) health(ctx context.Context, from grants.Caller, _ api.None) (*api.Health, error) {
	h := &api.Health{Version: build.Read().Version, Audit: s.o.Audit.Status(), Console: s.o.Console.At}
	if s.o.Stored != nil {
		if err := s.o.Stored(); err != nil {
			h.Storage = err.Error()
		}
	}
	var err error
	if h.Led, err = s.led(ctx); err != nil {
		return nil, err
	}
	if h.Streams, err = bucket.Usages(ctx, s.o.JetStream); err != nil {
		return nil, err
	}
	for _, unreadable := range []func(context.Context) ([]string, error){s.o.Users.Unreadable, s.o.Tokens.Unreadable} {
		bad, err := unreadable(ctx)
		if err != nil {
			return nil, err
		}
		h.Unreadable = append(h.Unreadable, bad...)
	}
	h.Time = time.Now()
	isLimited, err := s.isLimited(ctx, from)
	if err != nil {
		return nil, err
	}
	if isLimited {
		h.Streams, h.Unreadable = nil, nil
		h.Audit.Head, h.Audit.Use = audit.Head{}, audit.Use{}
	}
	return h, nil
}

// led reports whether a master holds the lease of the reconciler, or held it less than 15 s ago, when the bucket still
// has the marker of the ended lease.
func (s *Server) led(ctx context.Context) (bool, error) {
	leases, err := s.o.JetStream.Stream(ctx, wire.KV(wire.BucketLeases))
	if err == nil {
		_, err = leases.GetLastMsgForSubject(ctx, wire.KVSubject(wire.BucketLeases, "reconciler"))
	}
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("cannot read the lease of the reconciler: %w", err)
	}
	return true, nil
}
