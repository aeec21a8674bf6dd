package rest

import (
	"github.com/danielgtaylor/huma/v2"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// registerAlerts registers the routes of alerts, which the master that leads the alerts answers.
func (r *routes) registerAlerts(a huma.API) {
	route(r, a, api.AlertList)
	route(r, a, api.AlertReceivers)
	routeAs(r, a, api.AlertSilence, (*silenceInput).request)
	route(r, a, api.AlertUnsilence)
	route(r, a, api.AlertTest)
}

type silenceInput struct {
	Body struct {
		Match  string `json:"match" minLength:"1" maxLength:"300" example:"backup*" doc:"Glob that the ID, rule or entry of an alert matches; after peel: one that peels match."`
		For    string `json:"for" minLength:"2" maxLength:"32" example:"2h" doc:"How long, at most 30d."`
		Reason string `json:"reason" minLength:"1" maxLength:"300" doc:"One line for the audit log."`
	}
}

func (in *silenceInput) request() (q api.SilenceRequest, err error) {
	d, err := strictyaml.ParseDuration(in.Body.For)
	if err != nil {
		return q, huma.Error400BadRequest("cannot silence alerts: for: " + err.Error())
	}
	return api.SilenceRequest{Match: in.Body.Match, For: d, Reason: in.Body.Reason}, nil
}
