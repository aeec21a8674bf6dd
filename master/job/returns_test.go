package job_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func encoded(t testing.TB, v any) []byte {
	t.Helper()
	data, err := canon.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestAReceiptIsTheReturnWithoutItsData(t *testing.T) {
	r := wire.Return{
		JID: wire.NewJID(), Peel: "web.01", Epoch: 7, Finished: time.Unix(1_700_000_000, 0), V: wire.Version,
		Result: wire.Result{Outcome: wire.Canceled, Data: map[string]any{"large": make([]byte, 1000)}, Error: "stopped", Duration: time.Second},
	}
	got, err := job.ReadReceipt(r.JID, r.Peel, encoded(t, r))
	want := job.Receipt{JID: r.JID, Peel: r.Peel, Outcome: r.Outcome, Error: r.Error, Duration: r.Duration, Epoch: 7, Finished: got.Finished, V: wire.Version}
	if err != nil || got != want || !got.Finished.Equal(r.Finished) {
		t.Errorf("%+v, %v", got, err)
	}
	_, err = job.ReadReceipt(r.JID, "web_01", encoded(t, r))
	if !errors.Is(err, wire.ErrForged) {
		t.Errorf("of another peel: %v", err)
	}
}

// FuzzReadReturn holds that what the owner of a job counts is what readers of the job are shown, whatever a peel stored.
func FuzzReadReturn(f *testing.F) {
	const jid, id = wire.JID("2abcdefghijklmnopqrstuvwxyz"), target.PeelID("web.01")
	good := wire.Return{JID: jid, Peel: id, Result: wire.Result{Success: true, Data: []any{"x", int64(3)}}, Epoch: 1, Finished: time.Unix(1, 0), V: wire.Version}
	f.Add(encoded(f, good))
	f.Add(encoded(f, map[string]any{"jid": jid, "peel_id": id, "success": true, "data": map[int]int{1: 2}}))
	f.Add(encoded(f, map[string]any{"jid": jid, "peel_id": id, "success": true, "duration": "1s"}))
	f.Add(encoded(f, []any{jid, id, true, "", nil, "", 0, 1, nil, 1}))
	f.Add(encoded(f, []any{jid, id, false, "rejected", "", nil, 0, 1, nil, 1}))
	f.Add([]byte(`{"stream":"KV_job-returns","seq":1}`))
	f.Add([]byte{0xc0})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		receipt, err := job.ReadReceipt(jid, id, data)
		r := job.ReadReturn(jid, id, data)
		if r == nil || r.JID != jid || r.Peel != id {
			t.Fatalf("%+v", r)
		}
		if r.Success != receipt.Success || r.Outcome != receipt.Outcome {
			t.Errorf("counted as %v %q, shown as %v %q", receipt.Success, receipt.Outcome, r.Success, r.Outcome)
		}
		if damaged := strings.HasPrefix(r.Error, "the return is damaged: "); err != nil && (r.Success || !damaged) {
			t.Errorf("damaged (%v), shown as %+v", err, r)
		}
	})
}
