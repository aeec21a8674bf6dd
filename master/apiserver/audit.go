package apiserver

import (
	"fmt"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/bucket"
)

// about returns what the audit log says about a request.
func about(q any) (e audit.Entry) {
	switch q := q.(type) {
	case api.JobRequest:
		e.JID = q.JID
	case credential.TokenRequest:
		e.Target = q.Name
	case api.TokenName:
		e.Target = q.Name
	case credential.RoleRequest:
		e.Target = q.Name
	case api.RoleName:
		e.Target = q.Name
	case credential.UserRequest:
		e.Target = q.Name
	case api.RevokeRequest:
		e.Target = q.Name
	case api.SiteName:
		e.Target = q.Name
	case api.EnrollName:
		e.Target = string(q.ID)
	case api.PeelKey:
		e.Target = string(q.Peel)
	case api.RotateRequest:
		e.Target = string(q.What)
	case bucket.Kept:
		e.Target = fmt.Sprintf("replicas %d, audit_retention %v", q.Replicas, q.Audit)
	case credential.JoinRequest:
		e.Target = q.Name
	}
	return e
}
