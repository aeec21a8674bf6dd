package apiserver

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/master/natsd"
)

// busLimit bounds a change of all streams. If it ends earlier, the next start of a master goes on.
const busLimit = time.Minute

func (s *Server) busShow(ctx context.Context, _ api.None) (*bucket.Kept, error) {
	kept, err := natsd.KeptNow(ctx, s.o.JetStream)
	return &kept, err
}

// busSet changes what the bus keeps, on a master that has the keys: only with them can the audit log be changed. A
// request that is repeated changes nothing more.
func (s *Server) busSet(ctx context.Context, _ grants.Caller, wanted bucket.Kept) (*bucket.Kept, error) {
	ctx, cancel := context.WithTimeout(ctx, busLimit)
	defer cancel()
	now, err := natsd.KeptNow(ctx, s.o.JetStream)
	if err != nil {
		return nil, err
	}
	if err := wanted.Or(now).Check(); err != nil {
		return nil, fmt.Errorf("%w: %w", errInvalid, err)
	}
	kept, err := natsd.Change(ctx, s.o.JetStream, wanted)
	if err == nil {
		err = s.o.KeepAudit(ctx, kept)
	}
	return &kept, err
}
