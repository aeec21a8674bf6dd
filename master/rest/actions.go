package rest

import (
	"github.com/danielgtaylor/huma/v2"

	"github.com/seed-c01c3da5/zester/master/api"
)

// registerActions registers the routes of held actions, which assistants ask for and people decide. A program sees what
// was asked for in the name of its token, and can withdraw it. No route approves: an approved action runs with the
// rights of the person who approves, by that person's own client.
func (r *routes) registerActions(a huma.API) {
	route(r, a, api.HoldList)
	route(r, a, api.HoldShow)
	route(r, a, api.HoldReject)
}
