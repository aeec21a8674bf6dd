// File endpoints.go declares the requests of the API, one line each. Masters serve an [Endpoint] with On of package
// service, and programs send its requests with [Endpoint.Ask].

package api

import (
	"context"
	"maps"
	"slices"

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
	SyncStatus = reading[None, status.Sync]("sync", "status", ByPeel, &Route{
		Path: "GET /sync", ID: "sync-status", Scopes: read,
		Summary: "Show the revision in force, conditions, and how many peels run it",
	})
	SyncHistory = reading[None, status.History]("sync", "history", ByPeel, &Route{
		Path: "GET /sync/history", ID: "sync-history", Scopes: read,
		Summary: "List the revisions that were tried, newest first",
	})
	SyncPeels = reading[status.PeelsRequest, status.SyncPeelsPage]("sync", "peels", ByPeel, &Route{
		Path: "GET /sync/peels", ID: "sync-peels", Scopes: read,
		Summary: "List how far each peel is with the revision in force",
	})
	SyncStates = reading[status.PeelsRequest, status.SyncStatesPage]("sync", "states", ByPeel, &Route{
		Path: "GET /sync/states", ID: "sync-states", Scopes: read,
		Summary: "List what the newest run of the states of each peel has found",
	})
	SyncGroups = reading[None, status.StateGroups]("sync", "groups", ByPeel, &Route{
		Path: "GET /sync/states/groups", ID: "sync-state-groups", Scopes: read,
		Summary: "List the results of states that differ from Git, equal ones once with their peels",
	})
	SyncDiff = reading[status.DocumentRequest, status.Document]("sync", "diff", ByPeel, nil)
	// SyncPlan has the code [CodeNotFound] if that revision does not wait.
	SyncPlan = reading[status.PlanRequest, status.Plan]("sync", "plan", WholeFleet, &Route{
		Path: "GET /sync/plan", ID: "sync-plan", Scopes: read, Codes: []int{404},
		Summary: "Show what the revision that waits would change",
	})
	// SyncCommit has the code [CodeNotFound] if the history has no such revision.
	SyncCommit = reading[status.CommitRequest, status.CommitChange]("sync", "commit", WholeFleet, &Route{
		Path: "GET /sync/commits/{revision}", ID: "sync-commit", Scopes: read, Codes: []int{404},
		Summary: "Show what a revision changed, against the revision that was in force before it",
	})
	SyncNow = endpoint[None, status.Sync]("sync", "now", &Route{
		Path: "POST /sync/now", ID: "sync-now", Scopes: order,
		Summary: "Read the branch at once, and wait until that has ended",
	})
	SyncApprove = endpoint[status.ApproveRequest, status.Sync]("sync", "approve", &Route{
		Path: "POST /sync/approve", ID: "sync-approve", Scopes: order, Codes: []int{409, 408, 413, 415},
		Summary: "Let the revision that waits for approval go out",
	})
	SyncPause = endpoint[None, status.Sync]("sync", "pause", &Route{
		Path: "POST /sync/pause", ID: "sync-pause", Scopes: order, Codes: []int{409},
		Summary: "Keep new commits from the fleet",
	})
	SyncResume = endpoint[status.ReleaseRequest, status.Sync]("sync", "resume", &Route{
		Path: "POST /sync/resume", ID: "sync-resume", Scopes: order, Codes: []int{409},
		Summary: "Let new commits go to the fleet again",
	})
	SyncPin = endpoint[status.PinRequest, status.Sync]("sync", "pin", &Route{
		Path: "POST /sync/pin", ID: "sync-pin", Scopes: order, Codes: []int{409, 408, 413, 415},
		Summary: "Hold the fleet at a revision that was served before",
	})
	SyncUnpin = endpoint[status.ReleaseRequest, status.Sync]("sync", "unpin", &Route{
		Path: "POST /sync/unpin", ID: "sync-unpin", Scopes: order, Codes: []int{409},
		Summary: "Follow the branch again after a pin",
	})
	SyncRetry = endpoint[status.RetryRequest, status.Sync]("sync", "retry", &Route{
		Path: "POST /sync/retry", ID: "sync-retry", Scopes: order, Codes: []int{409, 408, 413, 415},
		Summary: "Try a revision again that was rolled back",
	})
	SyncAdopt  = endpoint[status.Adoption, status.Sync]("sync", "adopt", nil)          // as the status shows it
	SyncRemove = endpoint[status.RemoveRequest, status.Removed]("sync", "remove", nil) // of what is stored of a peel
)

// Requests about actions that an assistant asked for and that wait for a person.
var (
	HoldList = reading[HoldQuery, HoldPage]("hold", "list", OfCaller, &Route{
		Path: "GET /held", ID: "list-held-actions", Scopes: either,
		Summary: "List the actions of this token that wait for a person",
	})
	HoldShow = reading[HoldRequest, HoldShown]("hold", "show", OfCaller, &Route{
		Path: "GET /held/{id}", ID: "show-held-action", Scopes: either, Codes: []int{404},
		Summary: "Show an action of this token, its state and its job",
	})
	HoldAdd     = endpoint[HoldAddRequest, HoldAction]("hold", "add", nil)
	HoldApprove = endpoint[HoldRequest, HoldAction]("hold", "approve", nil) // the caller is to dispatch the job
	HoldReject  = endpoint[HoldRequest, HoldAction]("hold", "reject", &Route{
		Path: "POST /held/{id}/reject", ID: "reject-held-action", Scopes: dispatch, Codes: []int{404, 409},
		Summary: "Withdraw an action of this token",
	})
)

// Requests to the master that leads the alerts.
var (
	AlertList = reading[AlertsRequest, AlertsAnswer]("alert", "list", ByPeel, &Route{
		Path: "GET /alerts", ID: "list-alerts", Scopes: read,
		Summary: "List alerts and silences",
	})
	AlertReceivers = reading[None, AlertStatus]("alert", "status", WholeFleet, &Route{
		Path: "GET /alerts/status", ID: "alert-status", Scopes: read,
		Summary: "Show which receivers get alerts",
	})
	AlertSilence = endpoint[SilenceRequest, Silence]("alert", "silence", &Route{
		Path: "POST /alerts/silences", ID: "silence-alerts", Scopes: order, Codes: []int{408, 413, 415},
		Summary: "Keep alerts from being sent for a time",
	})
	AlertUnsilence = endpoint[SilenceID, Silence]("alert", "unsilence", &Route{
		Path: "POST /alerts/silences/{id}/end", ID: "end-silence", Scopes: order, Codes: []int{404},
		Summary: "End a silence",
	})
	// AlertTest replies with the state after the message.
	AlertTest = endpoint[ReceiverName, Receiver]("alert", "test", &Route{
		Path: "POST /alerts/receivers/{name}/test", ID: "test-receiver", Scopes: order, Codes: []int{404},
		Summary: "Send a test message to a receiver",
	})
)

// Requests to the master that leads, about the schedule entries of the config repo. All but list and file make a
// commit, or a branch with one.
var (
	ScheduleList    = reading[ScheduleQuery, SchedulePage]("schedule", "list", WholeFleet, nil)
	ScheduleFile    = reading[ScheduleFileQuery, ScheduleText]("schedule", "file", WholeFleet, nil)
	ScheduleAdd     = endpoint[ScheduleAddRequest, ScheduleChanged]("schedule", "add", nil)
	ScheduleRemove  = endpoint[ScheduleChange, ScheduleChanged]("schedule", "remove", nil)
	ScheduleEnable  = endpoint[ScheduleChange, ScheduleChanged]("schedule", "enable", nil)
	ScheduleDisable = endpoint[ScheduleChange, ScheduleChanged]("schedule", "disable", nil)
	ScheduleReplace = endpoint[ScheduleReplaceRequest, ScheduleChanged]("schedule", "replace", nil)
)

// Requests about targets and jobs, which any master answers. A request may be repeated: a job is dispatched once, by
// its ID, which the caller makes.
var (
	TargetResolve = reading[ResolveRequest, TargetsPage]("target", "resolve", ByPeel, &Route{
		Path: "GET /targets", ID: "resolve-target", Scopes: read,
		Summary: "List the peels that a target expression selects",
	})
	TargetExplain = reading[ExplainRequest, Explained]("target", "explain", ByPeel, nil)
	// JobDispatch replies with a summary of the job once the job is published.
	JobDispatch = endpoint[job.Spec, job.Job]("job", "dispatch", &Route{
		Path: "POST /jobs", ID: "dispatch-job", Scopes: dispatch, Codes: []int{408, 409, 413, 415}, Accepted: true,
		Summary: "Run a function on the peels that a target selects",
	})
	JobList = reading[job.Query, job.JobsPage]("job", "list", ByPeel, &Route{
		Path: "GET /jobs", ID: "list-jobs", Scopes: read,
		Summary: "List jobs, newest first",
	})
	JobActive = reading[None, ActiveJobs]("job", "active", ByPeel, nil) // those that have not ended
	// JobShow replies with the arguments, and with the targets if there are at most 500.
	JobShow = reading[JobRequest, job.Job]("job", "show", ByPeel, &Route{
		Path: "GET /jobs/{jid}", ID: "show-job", Scopes: either, Codes: []int{404},
		Summary: "Show a job",
	})
	JobReturns = reading[JobRequest, job.RowsPage]("job", "returns", ByPeel, &Route{
		Path: "GET /jobs/{jid}/returns", ID: "job-returns", Scopes: either, Codes: []int{404},
		Summary: "List the targets of a job with what they returned",
	})
	JobGroups = reading[ReturnGroupsRequest, ReturnGroups]("job", "groups", ByPeel, &Route{
		Path: "GET /jobs/{jid}/groups", ID: "job-groups", Scopes: either, Codes: []int{404},
		Summary: "List the different results of a job, equal ones once with their targets",
	})
	// JobCancel replies with the record that has the request; the job ends soon after. For a job that has ended without
	// all returns, the record has a final status, and the peels still get the request to stop. The code is
	// [CodeConflict] if the job has ended with all returns or is being canceled; the text says which.
	JobCancel = endpoint[JobRequest, job.Job]("job", "cancel", &Route{
		Path: "POST /jobs/{jid}/cancel", ID: "cancel-job", Scopes: dispatch, Codes: []int{404, 409}, Accepted: true,
		Summary: "Stop a job",
	})
)

// Requests about peels, their entries, and masters, which any master answers.
var (
	PeelList = reading[PeelsRequest, PeelsPage]("peel", "list", ByPeel, &Route{
		Path: "GET /peels", ID: "list-peels", Scopes: read,
		Summary: "List peels",
	})
	// PeelShow replies with all that masters know about a peel.
	PeelShow = reading[PeelRequest, PeelDetail]("peel", "show", ByPeel, &Route{
		Path: "GET /peels/{id}", ID: "show-peel", Scopes: read, Codes: []int{404},
		Summary: "Show a peel: its entries, states, settings, facts, reports and newest jobs",
	})
	PeelRekey = endpoint[PeelKey, Peel]("peel", "rekey", nil) // approves the sealing key that waits
	// EntryShow replies with the commit that last changed a schedule entry or state. The peel need not be online. The
	// code is [CodeNotFound] for one that its settings do not have; those of peel.yaml are unknown to Git.
	EntryShow  = reading[BlameRequest, Blamed]("entry", "show", ByPeel, nil)
	MasterShow = reading[None, Health]("master", "show", ByPeel, nil)
	BusShow    = reading[None, bucket.Kept]("bus", "show", Anybody, nil)
	BusSet     = endpoint[bucket.Kept, bucket.Kept]("bus", "set", nil) // 0: a number stays
)

// Requests about what became of the fires of schedules, which any master answers from its own table.
var (
	CoverageList = reading[CoverageRequest, Coverage]("coverage", "list", ByPeel, &Route{
		Path: "GET /coverage", ID: "coverage", Scopes: read,
		Summary: "Count the fires of schedules by what happened to them",
	})
	CoverageShow = reading[CoverageEntryRequest, Coverage]("coverage", "show", ByPeel, &Route{
		Path: "GET /coverage/{entry}", ID: "coverage-entry", Scopes: read, Codes: []int{404},
		Summary: "The same of one entry on each peel",
	})
	CoverageStatus = reading[None, verdict.Health]("coverage", "status", WholeFleet, nil)
	// CoverageExplain replies with what became of one fire, or why there was none. The code is [CodeNotFound] if the
	// masters do not know the peel or the entry, and [CodeInvalid] if the time cannot be read, has not come yet, or is
	// too long ago.
	CoverageExplain = reading[WhyRequest, WhyAnswer]("coverage", "explain", ByPeel, &Route{
		Path: "GET /coverage/{entry}/why", ID: "why", Scopes: read, Codes: []int{404},
		Summary: "Show what became of one fire of an entry on a peel, with the facts that prove it",
	})
	ProblemList = reading[ProblemsRequest, Problems]("problem", "list", ByPeel, &Route{
		Path: "GET /problems", ID: "problems", Scopes: read,
		Summary: "List what is wrong with schedules now, the worst first",
	})
	TimelineShow = reading[TimelineRequest, Timeline]("timeline", "show", ByPeel, &Route{
		Path: "GET /timeline/hours", ID: "timeline", Scopes: read,
		Summary: "Count the fires of schedules by the hour, and those to come",
	})
	LoadShow = reading[LoadRequest, Load]("load", "show", ByPeel, &Route{
		Path: "GET /load", ID: "load", Scopes: read,
		Summary: "Count the runs that schedules will start, by the hour",
	})
)

// Requests that join what several services know, which any master answers. What one of them does not reply in time is
// left out, and the reply says so.
var (
	NowShow = reading[None, Now]("now", "show", ByPeel, &Route{
		Path: "GET /now", ID: "now", Scopes: read,
		Summary: "Show whether anything is wrong, and which commit it followed",
	})
	ApprovalList = reading[None, Approvals]("approval", "list", ByPeel, &Route{
		Path: "GET /approvals", ID: "list-approvals", Scopes: read,
		Summary: "List what waits for a person, the oldest first",
	})
)

// Requests about the audit log, which any master answers.
var (
	AuditList   = reading[audit.Query, audit.Page]("audit", "list", WholeFleet, nil)
	AgentRecord = endpoint[audit.Call, None]("agent", "record", nil) // without a reply the call must not be carried out
)

// Requests about tokens of the REST API. [Client.TokenCreate] and [Client.TokenRotate] make the text of a token.
var (
	TokenList   = reading[NamesRequest, TokensAnswer]("token", "list", Anybody, nil)
	TokenCreate = endpoint[credential.TokenRequest, credential.Token]("token", "create", nil)
	TokenRotate = endpoint[credential.TokenRequest, credential.Token]("token", "rotate", nil)
	TokenRevoke = endpoint[TokenName, TokenRevoked]("token", "revoke", nil) // within a second on all masters
)

// Requests about credentials of the bus, to the masters that have the keys. [Client.UserAdd] makes a key for a person,
// [Client.JoinCreate] the text of a join token.
var (
	RoleList   = reading[None, RolesAnswer]("role", "list", Anybody, nil)
	RoleSet    = endpoint[credential.RoleRequest, credential.Role]("role", "set", nil) // within a second on all masters
	RoleRemove = endpoint[RoleName, credential.Role]("role", "remove", nil)

	UserList = reading[NamesRequest, UsersAnswer]("user", "list", Anybody, nil)
	UserAdd  = endpoint[credential.UserRequest, UserAdded]("user", "add", nil)
	// UserExplain says whether a person may do something, and which rule decides. A caller with limits, and a member,
	// may ask about itself alone.
	UserExplain = reading[AccessRequest, Access]("user", "explain", OfCaller, nil)
	// AccessList says who may do something. Its Name is empty.
	AccessList = reading[AccessRequest, AccessPage]("access", "list", WholeFleet, nil)
	// UserRenew gives the caller another JWT for the key of a credential that has not ended.
	UserRenew = endpoint[credential.Renewal, credential.Renewed]("user", "renew", nil)
	// UserLogin is sent by a master alone, to which the person has come from the provider of logins.
	UserLogin      = endpoint[credential.LoginRequest, credential.LoggedIn]("user", "login", nil)
	UserLogout     = endpoint[credential.LogoutRequest, credential.LoggedOut]("user", "logout", nil)
	UserRevoke     = endpoint[RevokeRequest, Revoked]("user", "revoke", nil)
	SiteRevoke     = endpoint[SiteName, credential.Site]("site", "revoke", nil)   // all that were made so far
	MasterRevoke   = endpoint[SiteName, credential.Site]("master", "revoke", nil) // as for a site
	MasterRenew    = endpoint[credential.Renewal, credential.Renewed]("master", "renew", nil)
	CredentialList = reading[CredentialsRequest, CredentialsPage]("credential", "list", WholeFleet, nil)
	EnrollList     = reading[EnrollQuery, EnrolledAnswer]("enroll", "list", WholeFleet, nil)
	EnrollApprove  = endpoint[EnrollName, credential.Enrolled]("enroll", "approve", nil)
	EnrollReject   = endpoint[EnrollName, credential.Enrolled]("enroll", "reject", nil)
	EnrollRevoke   = endpoint[EnrollName, credential.Enrolled]("enroll", "revoke", nil) // the bus cuts its connection
	JoinList       = reading[None, JoinTokensAnswer]("join", "list", WholeFleet, nil)
	JoinCreate     = endpoint[credential.JoinRequest, JoinAdded]("join", "create", nil)
	JoinRevoke     = endpoint[TokenName, credential.JoinToken]("join", "revoke", nil)
	AuthRotate     = endpoint[RotateRequest, RotateAnswer]("auth", "rotate", nil) // the former secrets stay valid
	AuthRetire     = endpoint[RotateRequest, RotateAnswer]("auth", "retire", nil) // ends the former secrets
)

// An Endpoint is a request of the API with a Q, which is answered with an A. Its verb says whether it changes anything:
// see [wire.Reads].
type Endpoint[Q, A any] struct {
	Noun, Verb string
	HTTP       *Route  // nil: only programs on the bus send it
	Shows      Showing // empty for a change
}

// A Showing says what the reply to a request that changes nothing has for a caller who may not read about all peels:
// see [access.Reach].
type Showing string

// How replies are limited.
const (
	ByPeel     Showing = "by peel"     // what concerns other peels is left out and not counted
	OfCaller   Showing = "of caller"   // only what belongs to the caller
	WholeFleet Showing = "whole fleet" // refused: no part of the reply is about some peels alone
	Anybody    Showing = "anybody"     // as for all callers: nothing in the reply is about peels
)

// verbs has each endpoint by noun and verb, and routes those that programs can send over HTTP.
var (
	verbs  = map[string]Showing{}
	routes = map[string]*Route{}
)

// endpoint returns an endpoint that changes something, and notes its verb for [Verbs].
func endpoint[Q, A any](noun, verb string, route *Route) Endpoint[Q, A] {
	return reading[Q, A](noun, verb, "", route)
}

// reading returns an endpoint that changes nothing.
func reading[Q, A any](noun, verb string, shows Showing, route *Route) Endpoint[Q, A] {
	verbs[noun+"."+verb] = shows
	if route != nil {
		route.Verb = noun + "." + verb
		routes[route.Verb] = route
	}
	return Endpoint[Q, A]{Noun: noun, Verb: verb, HTTP: route, Shows: shows}
}

// Verbs returns noun and verb of all requests, such as job.cancel, sorted.
func Verbs() []string { return slices.Sorted(maps.Keys(verbs)) }

// Showings returns how the replies to the requests that change nothing are limited, by noun and verb.
func Showings() map[string]Showing {
	shown := maps.Clone(verbs)
	maps.DeleteFunc(shown, func(_ string, s Showing) bool { return s == "" })
	return shown
}

// RouteOf returns the route of a request; nil: it has none.
func RouteOf(noun, verb string) *Route { return routes[noun+"."+verb] }

// A Route says how programs send a request over HTTP.
type Route struct {
	Path    string // method and path, such as POST /sync/pin
	ID      string // of the operation in the OpenAPI document
	Summary string
	Scopes  []credential.Scope // a token needs one of them, or admin
	Codes   []int              // statuses of errors, beside those that all routes have
	// Accepted: a success is answered with 202, because what was asked for goes on.
	Accepted bool
	Verb     string // noun and verb of the request, such as sync.pin
}

// Scopes of tokens.
var (
	read     = []credential.Scope{credential.ScopeRead}
	dispatch = []credential.Scope{credential.ScopeDispatch}
	order    = []credential.Scope{credential.ScopeSync}
	either   = []credential.Scope{credential.ScopeRead, credential.ScopeDispatch}
)

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

// An Asker sends a request to the masters in the name of one user, and decodes the reply into answer. A [Client] is
// one.
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
