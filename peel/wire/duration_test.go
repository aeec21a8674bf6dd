package wire_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

func TestDurationsAreWrittenAsTheyAreRead(t *testing.T) {
	for text, d := range map[string]time.Duration{
		"0s": 0, "1s": time.Second, "1m": time.Minute, "1m30s": 90 * time.Second, "1h": time.Hour, "1h30m": 90 * time.Minute, "1h0m5s": time.Hour + 5*time.Second,
		"10m": 10 * time.Minute, "24h": 24 * time.Hour, "350ms": 350 * time.Millisecond, "1.5s": 1500 * time.Millisecond,
	} {
		if got := wire.FormatDuration(d); got != text {
			t.Errorf("%v is written as %s, want %s", d, got, text)
		}
		if read, err := strictyaml.ParseDuration(text); err != nil || read != d {
			t.Errorf("%s is read as %v, %v", text, read, err)
		}
	}
}

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
