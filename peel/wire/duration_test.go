package wire_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"
)

func TestTheDurationOfAReturnIsTextInJSON(t *testing.T) {
	r := wire.Return{JID: "x", Peel: "web-01", Result: wire.Result{Success: true, Data: "<y>", Duration: 1234567 * time.Microsecond}, Epoch: 7}
	data, err := json.Marshal(&r)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil || fields["duration"] != "1.234567s" || fields["success"] != true || fields["peel_id"] != "web-01" {
		t.Errorf("%s, %v", data, err)
	}
	var back wire.Return
	if err := json.Unmarshal(data, &back); err != nil || back.Duration != r.Duration || back.Data != "<y>" || back.Epoch != 7 {
		t.Errorf("%+v, %v", back, err)
	}
}

// FuzzReturnInJSON has any text, which a client of REST reads as a return.
func FuzzReturnInJSON(f *testing.F) {
	f.Add([]byte(`{"jid":"x","peel_id":"web-01","duration":"1.5s","epoch":7}`))
	f.Add([]byte(`{"duration":"-1s"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var r, again wire.Return
		if json.Unmarshal(data, &r) != nil {
			return
		}
		written, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(written, &again); err != nil || again.Duration != r.Duration || again.Peel != r.Peel {
			t.Errorf("%s is read as %+v, written as %s and read as %+v, %v", data, r, written, again, err)
		}
	})
}
