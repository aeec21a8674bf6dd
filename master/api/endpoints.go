// File endpoints.go declares the requests of the API, one line each. Masters serve an [Endpoint] with On of package
// service, and programs send its requests with [Endpoint.Ask].

package api

import (
	"context"

	"github.com/seed-c01c3da5/zester/settings/status"
)

// Requests to the master that leads, about the config repo and how far the fleet is with it.
var (
	SyncStatus  = Endpoint[None, status.Sync]{"sync", "status"}
	SyncHistory = Endpoint[None, status.History]{"sync", "history"} // the newest first
	SyncPeels   = Endpoint[status.PeelsRequest, status.PeelsPage]{"sync", "peels"}
	SyncStates  = Endpoint[status.PeelsRequest, status.StatesPage]{"sync", "states"}
	SyncDiff    = Endpoint[status.DocumentRequest, status.Document]{"sync", "diff"}
	SyncPlan    = Endpoint[status.PlanRequest, status.Plan]{"sync", "plan"} // 404: that revision does not wait
	SyncNow     = Endpoint[None, status.Sync]{"sync", "now"}                // replies when the branch has been read
	SyncApprove = Endpoint[status.ApproveRequest, status.Sync]{"sync", "approve"}
	SyncPause   = Endpoint[None, status.Sync]{"sync", "pause"}
	SyncResume  = Endpoint[None, status.Sync]{"sync", "resume"}
	SyncPin     = Endpoint[status.PinRequest, status.Sync]{"sync", "pin"}
	SyncUnpin   = Endpoint[None, status.Sync]{"sync", "unpin"}
	SyncRetry   = Endpoint[status.RetryRequest, status.Sync]{"sync", "retry"}
	SyncAdopt   = Endpoint[status.Adoption, status.Sync]{"sync", "adopt"}       // as the status shows it
	SyncRemove  = Endpoint[status.RemoveRequest, status.Sync]{"sync", "remove"} // of what is stored of a peel
)

// Requests about actions that an assistant asked for and that wait for a person.
var (
	HoldList    = Endpoint[HoldQuery, HoldPage]{"hold", "list"} // the newest first
	HoldShow    = Endpoint[HoldRequest, HoldShown]{"hold", "show"}
	HoldAdd     = Endpoint[HoldAddRequest, HoldAction]{"hold", "add"}
	HoldApprove = Endpoint[HoldRequest, HoldAction]{"hold", "approve"} // the caller is to dispatch the job
	HoldReject  = Endpoint[HoldRequest, HoldAction]{"hold", "reject"}
)

// Requests to the master that leads the alerts.
var (
	AlertList      = Endpoint[AlertsRequest, AlertsAnswer]{"alert", "list"}
	AlertReceivers = Endpoint[None, AlertStatus]{"alert", "status"}
	AlertSilence   = Endpoint[SilenceRequest, Silence]{"alert", "silence"}
	AlertUnsilence = Endpoint[SilenceID, Silence]{"alert", "unsilence"}
	AlertTest      = Endpoint[ReceiverName, Receiver]{"alert", "test"} // replies with the state after the message
)

// An Endpoint is a request of the API with a Q, which is answered with an A. Its verb says whether it changes anything:
// see [wire.Reads].
type Endpoint[Q, A any] struct {
	Noun, Verb string
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
