// File openapi.go encodes the OpenAPI document of the REST API. Call [encodeOpenAPI] once all operations are
// registered.

package rest

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/settings/status"
)

// textDurations are the fields whose types marshal a duration as text, by schema.
var textDurations = map[string][]string{"Job": {"timeout", "when_online"}, "Return": {"duration"}}

// enums are the fields that have one of a few words, by schema.
var enums = map[string]map[string][]any{
	"Job": {
		"status": {
			job.Pending, job.Claimed, job.Running, job.Complete, job.Partial, job.Timeout, job.Failed, job.Canceled,
		},
	},
	"Row": {"state": {
		job.RowWaiting, job.RowUnreachable, job.RowOK, job.RowFailed, job.RowMissing, job.RowRejected, job.RowCanceled,
		job.RowSkipped,
	}},
	"HoldAction": heldWords,
	"HoldShown":  heldWords,
	"SyncPeel":   {"state": {status.Applied, status.Pending, status.Failed, status.Offline, status.Decommissioned}},
}

var heldWords = map[string][]any{
	"kind":  {api.HoldDispatch, api.HoldPause},
	"state": {api.HoldOpen, api.HoldApproved, api.HoldRejected, api.HoldExpired},
}

// encodeOpenAPI encodes the OpenAPI document, without internal errors.
func encodeOpenAPI(o *huma.OpenAPI) []byte {
	schemas := o.Components.Schemas.Map()
	for name, fields := range textDurations {
		for _, field := range fields {
			old := schemas[name].Properties[field]
			schemas[name].Properties[field] = &huma.Schema{
				Type:        huma.TypeString,
				Description: old.Description,
				Examples:    []any{"1m30s"},
			}
		}
	}
	for name, fields := range enums {
		for field, words := range fields {
			schemas[name].Properties[field].Enum = words
		}
	}
	tags := map[string]bool{}
	for path := range maps.Values(o.Paths) {
		for _, op := range []*huma.Operation{path.Get, path.Post, path.Delete} {
			if op != nil {
				tags[op.Tags[0]] = true
				delete(op.Responses, "500")
				delete(op.Responses, "422") // see init
			}
		}
	}
	for _, noun := range slices.Sorted(maps.Keys(tags)) {
		o.Tags = append(o.Tags, &huma.Tag{Name: noun})
	}
	doc, err := json.Marshal(o)
	if err != nil {
		panic(err) // all its types are ours
	}
	return doc
}
