package results

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

func FuzzReport(f *testing.F) {
	jid := wire.NewJID()
	subject := wire.ScheduledOf(jid, "p")
	for _, r := range []wire.ScheduledResult{
		{JID: jid, Peel: "p", Entry: "e", Function: "test.ping"},
		{JID: jid, Peel: "p", Entry: "e", Function: "f", Args: map[string]any{"a": []any{1, nil}}, Started: time.Unix(1, 2), Author: "A"},
		{},
	} {
		data, err := canon.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	now := time.Now()
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := decode(&nats.Msg{Subject: subject, Data: data}, now)
		if err != nil {
			return
		}
		j := record(&r, now, &settings.ProofKey{})
		if !j.Scheduled() || !j.Status.Final() || j.JID != jid || len(j.Targets) != 1 || j.Targets[0] != "p" || j.User == "" {
			t.Errorf("%+v", j)
		}
		ret, err := canon.Marshal(r.Return())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := wire.DecodeReturn(&nats.Msg{Subject: wire.ReturnOf(jid, "p"), Data: ret}); err != nil || len(ret) > job.MaxReturn {
			t.Errorf("%d bytes, %v", len(ret), err)
		}
	})
}
