package master

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/master/notify"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// An output of a run before the newest one, which may have left no record, is not in an alert.
func TestAnOutputOfAnEarlierRunIsOfNoAlert(t *testing.T) {
	at := time.Date(2026, 6, 1, 9, 0, 0, 0, time.UTC)
	run := verdict.Run{Ended: at.Add(300 * time.Millisecond)}
	for ended, want := range map[time.Time]bool{at.Add(-time.Second): false, at: true, at.Add(time.Second): true, {}: false} {
		if got := isOutputOf(notify.Output{Ended: ended}, run); got != want {
			t.Errorf("an output at %s for a run that ended at %s: %v", ended, run.Ended, got)
		}
	}
}

// The output in an alert is of the newest run of this entry on this peel that no person asked for, if that run failed.
func TestTheOutputOfAnAlertIsOfTheNewestRun(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		store, err := job.NewStore(t.Context(), b.JetStream(t))
		if err != nil {
			t.Fatal(err)
		}
		s := &services{stores: stores{jobs: store}}
		var last time.Time
		ran := func(entry string, peel target.PeelID, trigger wire.Trigger, success bool, printed string) {
			t.Helper()
			time.Sleep(2 * time.Second) // identifiers have whole seconds
			last = time.Now().UTC().Truncate(time.Second)
			spec := job.Spec{JID: wire.NewJID(), Function: "cmd.run", Targets: []target.PeelID{peel}, Timeout: time.Minute}
			j := job.FromDispatch(spec, "schedule", "m1", time.Now())
			j.Metadata = map[string]string{
				job.MetaSource: job.SourceSchedule, job.MetaSchedule: entry, job.MetaTrigger: string(trigger),
				job.MetaFinished: last.Format(time.RFC3339),
			}
			succeeded := map[bool]int{true: 1}[success]
			j.Finish(job.End{Targets: 1, Returned: 1, Succeeded: succeeded}, time.Now())
			r := wire.Result{Success: success, Error: map[bool]string{false: "exit status 3"}[success], Data: map[string]any{"stdout": printed, "stderr": ""}}
			data, err := canon.Marshal(wire.Return{JID: j.JID, Peel: peel, Result: r, V: wire.Version})
			if err != nil {
				t.Fatal(err)
			}
			store.CreateEnded(t.Context(), []job.Ended{{Job: j, Return: data}}, func(_ int, err error) {
				if err != nil {
					t.Fatal(err)
				}
			})
		}
		want := func(what string, peel target.PeelID, want notify.Output) {
			t.Helper()
			got, err := s.recordedOutput(t.Context(), "backup", peel)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %+v, %v; want %+v", what, got, err, want)
			}
		}
		want("no record", "db-1", notify.Output{})
		ran("backup", "db-1", wire.TriggerTimer, false, "disk full\n")
		failure := notify.Output{Peel: "db-1", Ended: last, Lines: []string{"disk full"}}
		ran("backup", "db-2", wire.TriggerTimer, false, "another host\n")
		ran("report", "db-1", wire.TriggerTimer, false, "another entry\n")
		ran("backup", "db-1", wire.TriggerManual, false, "by hand\n")
		want("a failure, and then a run by hand", "db-1", failure)
		ran("backup", "db-1", wire.TriggerTimer, true, "well\n")
		want("the newest succeeded", "db-1", notify.Output{})

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.recordedOutput(ctx, "backup", "db-2"); err == nil {
			t.Error("an error of the store is the absence of an output")
		}
	})
}
