package main

import (
	"context"
	"log/slog"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auditlog"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/reconciler/control"
)

// A recorder writes orders of people to the reconciler into the audit log. It keeps the log of a connection, because the log
// limits the refusals that it stores of each user.
type recorder struct {
	log *slog.Logger

	mu    sync.Mutex
	nc    *nats.Conn // of audit
	audit *auditlog.Log
}

// record stores an order of a person in the audit log. The reconciler calls it.
func (r *recorder) record(ctx context.Context, nc *nats.Conn, o control.Command) {
	l, err := r.logOf(nc)
	if err != nil {
		r.log.Error("audit entry not stored", "action", "sync."+o.Verb, "subject", o.Subject, "err", err)
		return
	}
	e := audit.Entry{Action: "sync." + o.Verb, Target: o.About}.Ended(o.Err, o.Refused)
	l.Write(ctx, e.By(grants.CallerOf(o.Subject, o.Header)))
}

// logOf returns the audit log of a connection.
func (r *recorder) logOf(nc *nats.Conn) (*auditlog.Log, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.nc == nc {
		return r.audit, nil
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	r.nc, r.audit = nc, auditlog.Open(js, r.log)
	return r.audit, nil
}
