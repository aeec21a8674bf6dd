package puback

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

func TestAcknowledgementsAreRead(t *testing.T) {
	for data, want := range map[string]Ack{
		`{"stream":"KV_jobs","seq":12}`:                    {Stream: "KV_jobs", Sequence: 12},
		`{"stream":"applied","domain":"hub","seq":7}`:      {Stream: "applied", Sequence: 7},
		`{"stream":"applied", "seq":7, "duplicate": true}`: {Stream: "applied", Sequence: 7},
		`{"error":{"code":400,"err_code":10071,"description":"wrong last sequence"},"stream":"KV_jobs","seq":0}`: {
			Stream: "KV_jobs", Error: &jetstream.APIError{Code: 400, ErrorCode: 10071, Description: "wrong last sequence"},
		},
	} {
		if got, err := Read([]byte(data)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", data, got, err)
		}
	}
	for _, data := range []string{"", "{", `{"stream":"a","seq":}`, `{"stream":"a","seq":-1}`, `{"stream":"a","seq":1}x`} {
		if got, err := Read([]byte(data)); err == nil {
			t.Errorf("%s: %+v", data, got)
		}
	}
}

func TestTheUsualAcknowledgementNeedsNoJSON(t *testing.T) {
	if _, ok := readUsual([]byte(`{"stream":"KV_job-returns","seq":18446744073709551615}`)); !ok {
		t.Error("it is read as JSON")
	}
}

// FuzzRead compares what Read returns with JSON.
func FuzzRead(f *testing.F) {
	for _, s := range []string{`{"stream":"a","seq":1}`, `{"stream":"a","seq":01}`, `{"stream":"\u0041","seq":1}`, `{"stream":"a","seq":1,"seq":2}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var want Ack
		wanted := json.Unmarshal(data, &want)
		got, err := Read(data)
		if (err == nil) != (wanted == nil) || err == nil && !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, %v; JSON says %+v, %v", data, got, err, want, wanted)
		}
	})
}

func BenchmarkRead(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Read([]byte(`{"stream":"KV_settings","seq":123456}`)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReadJSON(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		var a Ack
		if err := json.Unmarshal([]byte(`{"stream":"KV_settings","seq":123456}`), &a); err != nil {
			b.Fatal(err)
		}
	}
}
