// File openapi.go encodes the OpenAPI document of the REST API. Call [encodeOpenAPI] once all operations are
// registered.

package rest

import (
	"encoding/json"
	"maps"

	"github.com/danielgtaylor/huma/v2"
)

// textDurations are the fields whose types marshal a duration as text, by schema.
var textDurations = map[string][]string{"Job": {"timeout", "when_online"}, "Return": {"duration"}}

// encodeOpenAPI encodes the OpenAPI document, without internal errors.
func encodeOpenAPI(o *huma.OpenAPI) []byte {
	schemas := o.Components.Schemas.Map()
	for name, fields := range textDurations {
		for _, field := range fields {
			old := schemas[name].Properties[field]
			schemas[name].Properties[field] = &huma.Schema{Type: huma.TypeString, Description: old.Description, Examples: []any{"1m30s"}}
		}
	}
	for path := range maps.Values(o.Paths) {
		for _, op := range []*huma.Operation{path.Get, path.Post, path.Delete} {
			if op != nil {
				delete(op.Responses, "500")
				delete(op.Responses, "422") // see init
			}
		}
	}
	doc, err := json.Marshal(o)
	if err != nil {
		panic(err) // all its types are ours
	}
	return doc
}
