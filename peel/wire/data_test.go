package wire_test

import (
	"testing"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

// TestEmptyDataAreData: a function that returns an empty text, such as the version of a package that is not installed, has data.
func TestEmptyDataAreData(t *testing.T) {
	for _, want := range []any{"", false, int64(0)} {
		data, err := canon.Marshal(wire.Return{Result: wire.Result{Success: true, Data: want}})
		if err != nil {
			t.Fatal(err)
		}
		var back wire.Return
		if err := canon.Unmarshal(data, &back); err != nil || back.Data != want {
			t.Errorf("%#v is %#v on the other side, %v", want, back.Data, err)
		}
	}
}
