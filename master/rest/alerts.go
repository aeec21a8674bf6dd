// File alerts.go has the routes of alerts. Call [registerAlerts]; the master that leads the alerts answers.

package rest

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// An AlertAsker sends a request of zester.api.alert in the name of the caller and decodes the reply into answer.
type AlertAsker func(ctx context.Context, verb string, question, answer any) error

// An AlertOperation describes a route that tokens with one of the scopes may use. problems are its error statuses
// beside those that all routes have.
type AlertOperation func(method, path, id, summary string, scopes []credential.Scope, problems ...int) huma.Operation

type alertListInput struct {
	Ended bool `query:"ended" doc:"Also alerts that ended within a day."`
}

type silenceInput struct {
	Body struct {
		Match  string `json:"match" minLength:"1" maxLength:"300" example:"backup*" doc:"Glob that the ID, rule or entry of an alert matches; after peel: one that peels match."`
		For    string `json:"for" minLength:"2" maxLength:"32" example:"2h" doc:"How long, at most 30d."`
		Reason string `json:"reason" minLength:"1" maxLength:"300" doc:"One line for the audit log."`
	}
}

type endInput struct {
	ID string `path:"id" maxLength:"64" doc:"ID of a silence."`
}

type testInput struct {
	Name string `path:"name" maxLength:"64" doc:"Name of a receiver in master.yaml."`
}

type output[A any] struct{ Body A }

// registerAlerts registers the routes. problem returns the answer for an error of request.
func registerAlerts(a huma.API, operation AlertOperation, problem func(error) error, request AlertAsker) {
	ask := func(ctx context.Context, verb string, question, answer any) error {
		if err := request(ctx, verb, question, answer); err != nil {
			return problem(err)
		}
		return nil
	}
	read, order := []credential.Scope{credential.ScopeRead}, []credential.Scope{credential.ScopeSync}
	huma.Register(a, operation("GET", "/alerts", "list-alerts", "List alerts and silences", read), func(ctx context.Context, in *alertListInput) (*output[api.AlertsAnswer], error) {
		return answer[api.AlertsAnswer](ctx, ask, "list", api.AlertsRequest{Ended: in.Ended})
	})
	huma.Register(a, operation("GET", "/alerts/status", "alert-status", "Show which receivers get alerts", read), func(ctx context.Context, _ *struct{}) (*output[api.AlertStatus], error) {
		return answer[api.AlertStatus](ctx, ask, "status", nil)
	})
	post := func(path, id, summary string, problems ...int) huma.Operation {
		op := operation("POST", path, id, summary, order, problems...)
		op.DefaultStatus = http.StatusOK
		return op
	}
	huma.Register(a, post("/alerts/silences", "silence-alerts", "Keep alerts from being sent for a time", 408, 413, 415), func(ctx context.Context, in *silenceInput) (*output[api.Silence], error) {
		d, err := strictyaml.ParseDuration(in.Body.For)
		if err != nil {
			return nil, huma.Error400BadRequest("cannot silence alerts: for: " + err.Error())
		}
		return answer[api.Silence](ctx, ask, "silence", api.SilenceRequest{Match: in.Body.Match, For: d, Reason: in.Body.Reason})
	})
	huma.Register(a, post("/alerts/silences/{id}/end", "end-silence", "End a silence", 404), func(ctx context.Context, in *endInput) (*output[api.Silence], error) {
		return answer[api.Silence](ctx, ask, "unsilence", api.SilenceID{ID: in.ID})
	})
	huma.Register(a, post("/alerts/receivers/{name}/test", "test-receiver", "Send a test message to a receiver", 404), func(ctx context.Context, in *testInput) (*output[api.Receiver], error) {
		return answer[api.Receiver](ctx, ask, "test", api.ReceiverName{Name: in.Name})
	})
}

func answer[A any](ctx context.Context, ask AlertAsker, verb string, question any) (*output[A], error) {
	out := &output[A]{}
	if err := ask(ctx, verb, question, &out.Body); err != nil {
		return nil, err
	}
	return out, nil
}
