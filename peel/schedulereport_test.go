package peel_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/natsd"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// scheduleState is the newest report on the schedule that the bus stores.
func (b *bench) scheduleState() wire.ScheduleState {
	b.t.Helper()
	stream, err := b.bus.JetStream(b.t).Stream(b.t.Context(), natsd.StreamScheduleState)
	if err != nil {
		b.t.Fatal(err)
	}
	stored, err := stream.GetLastMsgForSubject(b.t.Context(), wire.ScheduleStateOf(id.Wire()))
	if err != nil {
		b.t.Fatal(err)
	}
	r, err := wire.DecodeSchedule(&nats.Msg{Subject: stored.Subject, Data: stored.Data})
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

func TestPeelReportsWhatHappenedToItsFires(t *testing.T) {
	run(t, func(b *bench) {
		b.start()
		digest := b.give(1, `
schedule:
  good: {module: test.ping, interval: 1m}
  bad: {module: cmd.run, args: {argv: [/nonexistent]}, cron: "*/10 * * * *"}`)
		time.Sleep(time.Hour + 12*time.Minute)
		r := b.scheduleState()
		if r.Digest != string(digest) || r.Commit == "" || r.Zone != "UTC" || r.Peel != id || time.Since(r.Time) > 11*time.Minute {
			t.Errorf("%+v", r)
		}
		if len(r.Entries) != 2 || r.Entries[0].Name != "bad" || r.Entries[1].Name != "good" {
			t.Fatalf("%+v", r.Entries)
		}
		bad, good := r.Entries[0], r.Entries[1]
		if bad.Counts.Ran < 6 || bad.Counts.Failed != bad.Counts.Ran || bad.InRow != bad.Counts.Failed || bad.Error == "" || len(bad.Problems) == 0 {
			t.Errorf("%+v", bad)
		}
		if good.Counts.Ran < 60 || good.Counts.Failed > 0 || len(good.Hours) != 2 || good.Hours[0].Ran != 59 {
			t.Errorf("%+v", good)
		}
	})
}
