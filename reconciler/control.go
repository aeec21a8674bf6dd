package reconciler

import (
	"context"
	"strings"
	"time"

	"github.com/nats-io/nats.go/micro"

	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/record"
)

// asker is who sent a request: the last token of its subject, which the bus lets nobody but its user write.
func asker(req micro.Request) string {
	subject := req.Subject()
	return subject[strings.LastIndexByte(subject, '.')+1:]
}

// pause keeps new commits from the fleet. Peels that are new or change are served from the revision in force.
func (t *term) pause(ctx context.Context, req micro.Request) (any, error) {
	return t.do(ctx, &ask{do: func(ctx context.Context) error {
		r := t.last
		if r.Suspended != nil {
			return record.Refuse("cannot pause: %s has done so at %s", r.Suspended.By, r.Suspended.Time.UTC().Format(time.RFC3339))
		}
		r.Suspended = &record.Approval{By: asker(req), Time: time.Now()}
		t.r.log.Info("rollout paused", "by", r.Suspended.By)
		return t.writeRecord(ctx, r)
	}})
}

// resume lets new commits go out again, beginning with the newest.
func (t *term) resume(ctx context.Context, req micro.Request) (any, error) {
	return t.do(ctx, &ask{branch: true, do: func(ctx context.Context) error {
		r := t.last
		if r.Suspended == nil {
			return record.Refuse("cannot resume: nothing is paused")
		}
		r.Suspended = nil
		t.tried = gitrepo.Hash{}
		t.r.log.Info("rollout resumed", "by", asker(req))
		return t.writeRecord(ctx, r)
	}})
}
