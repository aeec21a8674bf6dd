package apiserver

import (
	"context"
	"fmt"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/master/reply"
)

// act is handleFrom for requests that change something: the request and its result are in the audit log before the reply.
func act[Q, A any](s *Server, action string, f func(ctx context.Context, from grants.Caller, q Q) (A, error)) func(*reply.Request) {
	return handleFrom(s, func(ctx context.Context, from grants.Caller, q Q) (A, error) {
		answer, err := f(ctx, from, q)
		e := audit.Entry{Action: action}
		switch about := any(q).(type) {
		case api.JobRequest:
			e.JID = about.JID
		case credential.TokenRequest:
			e.Target = about.Name
		case api.TokenName:
			e.Target = about.Name
		case credential.UserRequest:
			e.Target = about.Name
		case api.RevokeRequest:
			e.Target = about.Name
		case api.SiteName:
			e.Target = about.Name
		case api.EnrollName:
			e.Target = string(about.ID)
		case api.PeelKey:
			e.Target = string(about.Peel)
		case api.RotateRequest:
			e.Target = string(about.What)
		case bucket.Kept:
			e.Target = fmt.Sprintf("replicas %d, audit_retention %v", about.Replicas, about.Audit)
		case credential.JoinRequest:
			e.Target = about.Name
		}
		s.o.Audit.Write(ctx, e.Ended(err, AnswerCode(err) != api.CodeUnavailable).By(from))
		return answer, err
	})
}
