package rest_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/master/rest"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

// FuzzArguments holds that a peel can read in a request whatever arguments are accepted.
func FuzzArguments(f *testing.F) {
	for _, seed := range []string{
		`{}`, `null`, `{"a":1}`, `{"a":1.5,"b":[1e3,{"c":null}],"d":true}`, `{"a":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}`,
		`{"a":18446744073709551616}`, `{"a":-0}`, `{"a":1E400}`, `{"a":1,"a":2}`, "{\"\xff\":\"\\ud800\"}", `[]`, `"x"`, `{"a":1}{}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var args rest.Arguments
		if json.Unmarshal(data, &args) != nil {
			return
		}
		request := wire.Request{JID: "2abcdefghijklmnopqrstuvwxyz", Function: "test.ping", Args: args, V: wire.Version}
		encoded, err := canon.Marshal(request)
		if err != nil {
			t.Fatal(err)
		}
		var got wire.Request
		if err := canon.Unmarshal(encoded, &got); err != nil {
			t.Fatalf("%q: %v", data, err)
		}
	})
}
