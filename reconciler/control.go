package reconciler

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/micro"

	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
)

// A refusal says why what a person asked for is not done; asking again does not help.
type refusal struct{ reason string }

func (r *refusal) Error() string { return r.reason }

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
			return &refusal{fmt.Sprintf("cannot pause: %s has done so at %s", r.Suspended.By, r.Suspended.Time.UTC().Format(time.RFC3339))}
		}
		r.Suspended = &approval{By: asker(req), Time: time.Now()}
		t.r.log.Info("rollout paused", "by", r.Suspended.By)
		return t.writeRecord(ctx, r)
	}})
}

// resume lets new commits go out again, beginning with the newest.
func (t *term) resume(ctx context.Context, req micro.Request) (any, error) {
	return t.do(ctx, &ask{branch: true, do: func(ctx context.Context) error {
		r := t.last
		if r.Suspended == nil {
			return &refusal{"cannot resume: nothing is paused"}
		}
		r.Suspended = nil
		t.tried = gitrepo.Hash{}
		t.r.log.Info("rollout resumed", "by", asker(req))
		return t.writeRecord(ctx, r)
	}})
}
