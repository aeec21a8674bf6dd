// File endpoints.go declares the requests of the API, one line each. Masters serve an [Endpoint] with On of package
// service, and programs send its requests with [Endpoint.Ask].

package api

import (
	"context"

	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/status"
)

// Requests to the master that leads, about the config repo and how far the fleet is with it.
var (
	SyncStatus  = Endpoint[None, status.Sync]{"sync", "status", nil}
	SyncHistory = Endpoint[None, status.History]{"sync", "history", nil} // the newest first
	SyncPeels   = Endpoint[status.PeelsRequest, status.PeelsPage]{"sync", "peels", nil}
	SyncStates  = Endpoint[status.PeelsRequest, status.StatesPage]{"sync", "states", nil}
	SyncDiff    = Endpoint[status.DocumentRequest, status.Document]{"sync", "diff", nil}
	SyncPlan    = Endpoint[status.PlanRequest, status.Plan]{"sync", "plan", nil} // 404: that revision does not wait
	SyncNow     = Endpoint[None, status.Sync]{"sync", "now", nil}                // replies once the branch is read
	SyncApprove = Endpoint[status.ApproveRequest, status.Sync]{"sync", "approve", nil}
	SyncPause   = Endpoint[None, status.Sync]{"sync", "pause", nil}
	SyncResume  = Endpoint[None, status.Sync]{"sync", "resume", nil}
	SyncPin     = Endpoint[status.PinRequest, status.Sync]{"sync", "pin", nil}
	SyncUnpin   = Endpoint[None, status.Sync]{"sync", "unpin", nil}
	SyncRetry   = Endpoint[status.RetryRequest, status.Sync]{"sync", "retry", nil}
	SyncAdopt   = Endpoint[status.Adoption, status.Sync]{"sync", "adopt", nil}       // as the status shows it
	SyncRemove  = Endpoint[status.RemoveRequest, status.Sync]{"sync", "remove", nil} // of what is stored of a peel
)

// Requests about actions that an assistant asked for and that wait for a person.
var (
	HoldList    = Endpoint[HoldQuery, HoldPage]{"hold", "list", nil} // the newest first
	HoldShow    = Endpoint[HoldRequest, HoldShown]{"hold", "show", nil}
	HoldAdd     = Endpoint[HoldAddRequest, HoldAction]{"hold", "add", nil}
	HoldApprove = Endpoint[HoldRequest, HoldAction]{"hold", "approve", nil} // the caller is to dispatch the job
	HoldReject  = Endpoint[HoldRequest, HoldAction]{"hold", "reject", nil}
)

// Requests to the master that leads the alerts.
var (
	AlertList      = Endpoint[AlertsRequest, AlertsAnswer]{"alert", "list", nil}
	AlertReceivers = Endpoint[None, AlertStatus]{"alert", "status", nil}
	AlertSilence   = Endpoint[SilenceRequest, Silence]{"alert", "silence", nil}
	AlertUnsilence = Endpoint[SilenceID, Silence]{"alert", "unsilence", nil}
	AlertTest      = Endpoint[ReceiverName, Receiver]{"alert", "test", nil} // replies with the state after the message
)

// Requests to the master that leads, about the schedule entries of the config repo. All but list and file make a
// commit, or a branch with one.
var (
	ScheduleList    = Endpoint[ScheduleQuery, SchedulePage]{"schedule", "list", nil}
	ScheduleFile    = Endpoint[ScheduleFileQuery, ScheduleText]{"schedule", "file", nil}
	ScheduleAdd     = Endpoint[ScheduleAddRequest, ScheduleChanged]{"schedule", "add", nil}
	ScheduleRemove  = Endpoint[ScheduleChange, ScheduleChanged]{"schedule", "remove", nil}
	ScheduleEnable  = Endpoint[ScheduleChange, ScheduleChanged]{"schedule", "enable", nil}
	ScheduleDisable = Endpoint[ScheduleChange, ScheduleChanged]{"schedule", "disable", nil}
	ScheduleReplace = Endpoint[ScheduleReplaceRequest, ScheduleChanged]{"schedule", "replace", nil}
)

// Requests about targets and jobs, which any master answers. A request may be repeated: a job is dispatched once, by its
// ID, which the caller makes.
var (
	TargetResolve = Endpoint[ResolveRequest, Resolved]{"target", "resolve", nil}
	TargetExplain = Endpoint[ExplainRequest, Explained]{"target", "explain", nil}
	JobDispatch   = Endpoint[job.Spec, job.Job]{"job", "dispatch", nil} // replies with a summary once the job is published
	JobList       = Endpoint[job.Query, job.Page]{"job", "list", nil}   // the newest first
	JobActive     = Endpoint[None, ActiveJobs]{"job", "active", nil}    // those that have not ended
	JobShow       = Endpoint[JobRequest, job.Job]{"job", "show", nil}   // with targets if there are at most 500
	JobReturns    = Endpoint[JobRequest, job.RowsPage]{"job", "returns", nil}
	// JobCancel replies with the record that has the request; the job ends soon after. For a job that has ended without
	// all returns, the record has a final status, and the peels still get the request to stop. The code is
	// [CodeConflict] if the job has ended with all returns or is being canceled; the text says which.
	JobCancel = Endpoint[JobRequest, job.Job]{"job", "cancel", nil}
)

// Requests about peels, their entries, and masters, which any master answers.
var (
	PeelList  = Endpoint[PeelsRequest, PeelsPage]{"peel", "list", nil}
	PeelShow  = Endpoint[PeelRequest, Peel]{"peel", "show", nil} // with its facts
	PeelRekey = Endpoint[PeelKey, Peel]{"peel", "rekey", nil}    // approves the sealing key that waits
	// EntryShow replies with the commit that last changed a schedule entry or state. The peel need not be online. The
	// code is [CodeNotFound] for one that its settings do not have; those of peel.yaml are unknown to Git.
	EntryShow  = Endpoint[BlameRequest, Blamed]{"entry", "show", nil}
	MasterShow = Endpoint[None, Health]{"master", "show", nil}
	BusShow    = Endpoint[None, bucket.Kept]{"bus", "show", nil}
	BusSet     = Endpoint[bucket.Kept, bucket.Kept]{"bus", "set", nil} // 0: a number stays
)

// Requests about what became of the fires of schedules, which any master answers from its own table.
var (
	CoverageList   = Endpoint[CoverageRequest, Coverage]{"coverage", "list", nil}
	CoverageShow   = Endpoint[CoverageEntryRequest, Coverage]{"coverage", "show", nil}
	CoverageStatus = Endpoint[None, verdict.Health]{"coverage", "status", nil}
	// CoverageExplain replies with what became of one fire, or why there was none. The code is [CodeNotFound] if the
	// masters do not know the peel or the entry, and [CodeInvalid] if the time cannot be read, has not come yet, or is
	// too long ago.
	CoverageExplain = Endpoint[WhyRequest, WhyAnswer]{"coverage", "explain", nil}
)

// Requests about the audit log, which any master answers.
var (
	AuditList   = Endpoint[audit.Query, audit.Page]{"audit", "list", nil}
	AgentRecord = Endpoint[audit.Call, None]{"agent", "record", nil} // without a reply the call must not be carried out
)

// Requests about tokens of the REST API. [Client.TokenCreate] and [Client.TokenRotate] make the text of a token.
var (
	TokenList   = Endpoint[None, TokensAnswer]{"token", "list", nil}
	TokenCreate = Endpoint[credential.TokenRequest, credential.Token]{"token", "create", nil}
	TokenRotate = Endpoint[credential.TokenRequest, credential.Token]{"token", "rotate", nil}
	TokenRevoke = Endpoint[TokenName, TokenRevoked]{"token", "revoke", nil} // within a second on all masters
)

// Requests about credentials of the bus, to the masters that have the keys. [Client.UserAdd] makes a key for a person,
// [Client.JoinCreate] the text of a join token.
var (
	UserList       = Endpoint[None, UsersAnswer]{"user", "list", nil}
	UserAdd        = Endpoint[credential.UserRequest, UserAdded]{"user", "add", nil}
	UserRevoke     = Endpoint[RevokeRequest, Revoked]{"user", "revoke", nil}
	SiteRevoke     = Endpoint[SiteName, credential.Site]{"site", "revoke", nil}   // all that were made so far
	MasterRevoke   = Endpoint[SiteName, credential.Site]{"master", "revoke", nil} // as for a site
	MasterRenew    = Endpoint[credential.Renewal, credential.Renewed]{"master", "renew", nil}
	CredentialList = Endpoint[CredentialsRequest, CredentialsPage]{"credential", "list", nil}
	EnrollList     = Endpoint[None, EnrolledAnswer]{"enroll", "list", nil}
	EnrollApprove  = Endpoint[EnrollName, credential.Enrolled]{"enroll", "approve", nil}
	EnrollReject   = Endpoint[EnrollName, credential.Enrolled]{"enroll", "reject", nil}
	EnrollRevoke   = Endpoint[EnrollName, credential.Enrolled]{"enroll", "revoke", nil} // the bus cuts its connection
	JoinList       = Endpoint[None, JoinTokensAnswer]{"join", "list", nil}
	JoinCreate     = Endpoint[credential.JoinRequest, JoinAdded]{"join", "create", nil}
	JoinRevoke     = Endpoint[TokenName, credential.JoinToken]{"join", "revoke", nil}
	AuthRotate     = Endpoint[RotateRequest, RotateAnswer]{"auth", "rotate", nil} // the former secrets stay valid
	AuthRetire     = Endpoint[RotateRequest, RotateAnswer]{"auth", "retire", nil} // ends the former secrets
)

// An Endpoint is a request of the API with a Q, which is answered with an A. Its verb says whether it changes anything:
// see [wire.Reads].
type Endpoint[Q, A any] struct {
	Noun, Verb string
	HTTP       *Route // nil: only programs on the bus send it
}

// A Route says how programs send a request over HTTP.
type Route struct {
	Path    string // method and path, such as POST /sync/pin
	ID      string // of the operation in the OpenAPI document
	Summary string
	Scopes  []credential.Scope // a token needs one of them, or admin
	Codes   []int              // statuses of errors, beside those that all routes have
}

// None is a request or a reply without fields.
type None struct{}

// Subject returns the subject of the requests of a user, and of all users if the user is "*".
func Subject(noun, verb, user string) string {
	switch {
	case noun == TargetResolve.Noun && verb == TargetResolve.Verb:
		return wire.Resolve(user)
	case noun == JobDispatch.Noun && verb == JobDispatch.Verb:
		return wire.Dispatch(user)
	}
	return wire.API(noun, verb, user)
}

// An Asker sends a request to the masters in the name of one user, and decodes the reply into answer. A [Client] is one.
type Asker interface {
	Ask(ctx context.Context, noun, verb string, question, answer any) error
}

// Ask sends a request in the name of by, and returns the reply.
func (e Endpoint[Q, A]) Ask(ctx context.Context, by Asker, q Q) (*A, error) {
	a := new(A)
	if err := by.Ask(ctx, e.Noun, e.Verb, q, a); err != nil {
		return nil, err
	}
	return a, nil
}
