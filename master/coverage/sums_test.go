package coverage_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/coverage"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Two peels have an entry, and one of them leaves the fleet: the entry has the fires of the other alone.
func TestTheSumsOfAnEntryLoseThePeelThatLeaves(t *testing.T) {
	bubble(t, func(t *rig) {
		table, _ := t.master()
		for _, id := range []string{"web-1", "web-2"} {
			h := t.host(target.PeelID(id), t.commit(target.PeelID(id), "a", "a", "a"))
			h.runs("00:00", "00:11", false) // one run fails
		}
		t.wantRow(table, "backup", 2, "expected 2, ran 2, failed 2")

		for stream, subject := range map[string]string{
			wire.StreamScheduleState: wire.ScheduleStateOf("web-2"), wire.KV(wire.BucketSettings): wire.SettingsKey("web-2"),
		} {
			s, err := t.js.Stream(t.Context(), stream)
			if err == nil {
				err = s.Purge(t.Context(), jetstream.WithPurgeSubject(subject))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		t.alive(time.Minute, "web-1")
		t.wantRow(table, "backup", 1, "expected 1, ran 1, failed 1")
	})
}

// wantRow compares the row of an entry over all peels.
func (t *rig) wantRow(table *coverage.Table, entry string, peels int, want string) {
	t.Helper()
	synctest.Wait()
	if err := table.CheckSums(); err != nil {
		t.Error(err)
	}
	rows, _, err := table.Rows(t.Context(), coverage.Query{Entry: func(name string) bool { return name == entry }})
	if err != nil || len(rows) != 1 || rows[0].Peels != peels || text(rows[0].Counts) != want {
		t.Errorf("%+v, %v; want %s on %d peels: %s", rows, err, entry, peels, want)
	}
}
