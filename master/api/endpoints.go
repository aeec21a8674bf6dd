// File endpoints.go declares the requests of the API, one line each. Masters serve an [Endpoint] with On of package
// service, and programs send its requests with [Endpoint.Ask].

package api

import (
	"context"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
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

// None is a request without fields.
type None struct{}

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
