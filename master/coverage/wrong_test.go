package coverage_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Of four peels one fails, one is away, and one has an entry that a person paused; each counts in its worst problem.
func TestWhatIsWrongIsGroupedTheWorstFirst(t *testing.T) {
	bubble(t, func(t *rig) {
		table, _ := t.master()
		ids := []target.PeelID{"web-1", "web-2", "web-3", "web-4"}
		for _, id := range ids {
			t.commit(id, "a", "a", "a")
		}
		hosts := map[target.PeelID]*host{}
		for _, id := range ids {
			hosts[id] = t.host(id, t.commit(id, "a", "a", "a"))
			hosts[id].runs("00:00", "00:01", true)
		}
		t.until("00:26", "web-1", "web-2", "web-4")
		hosts["web-1"].entry("other").State = "paused_manual"
		hosts["web-1"].runs("00:05", "00:26", false)
		hosts["web-2"].runs("00:05", "00:26", true)
		hosts["web-4"].entry("other").State = "paused_manual"
		hosts["web-4"].runs("00:05", "00:26", true)
		synctest.Wait()

		w, err := table.Wrong(nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, g := range w.Groups {
			got = append(got, fmt.Sprint(g.Kind, " ", g.Entry, " ", g.Sample, " ", g.Since.Format("15:04"), " ", g.ByHand))
		}
		want := []string{
			"failed backup [web-1] 00:05 false", "not_reporting  [web-3] 00:00 false", "paused other [web-1 web-4] 00:00 true",
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		if fmt.Sprint(w.Peels) != "map[failed:1 not_reporting:1 paused:1]" || w.Well != 1 {
			t.Errorf("%v and %d are well", w.Peels, w.Well)
		}
		d, err := table.Detail("web-1", time.Now().Add(-time.Hour))
		if err != nil || len(d.Rows) != 2 || len(d.Problems) != 2 || d.Rows[0].Counts.Failed != 5 || d.Reported.IsZero() || d.Offset != 0 {
			t.Errorf("%+v, %v", d, err)
		}
		if d, err = table.Detail("web-9", time.Now()); err != nil || d.Rows != nil || d.Problems != nil || !d.Reported.IsZero() {
			t.Errorf("a peel that the table does not have: %+v, %v", d, err)
		}
		w, err = table.Wrong(map[target.PeelID]bool{"web-2": true, "web-3": true})
		if err != nil || len(w.Groups) != 1 || w.Groups[0].Kind != verdict.NotReporting || w.Well != 1 {
			t.Errorf("%+v, %v", w, err)
		}
	})
}

// Two peels fire every five minutes, and at three at night.
func TestWhatIsPlannedIsCountedByTheHour(t *testing.T) {
	bubble(t, func(t *rig) {
		table, _ := t.master()
		for _, id := range []target.PeelID{"web-1", "web-2"} {
			t.host(id, t.commit(id, "a", "a", "a")).runs("00:00", "00:01", true)
		}
		t.until("00:26", "web-1", "web-2")
		ahead := table.Ahead(3, nil)
		if len(ahead) != 3 || !ahead[0].Hour.Equal(hhmm(t, "01:00")) || ahead[0].Expected != 24 || ahead[2].Expected != 26 {
			t.Errorf("%+v", ahead)
		}
		if ahead := table.Ahead(3, func(entry string) bool { return entry == "other" }); ahead[2].Expected != 2 {
			t.Errorf("%+v", ahead)
		}
		hours, _, err := table.Hours(t.Context(), coverage.Query{Since: time.Now()})
		if err != nil || len(hours) != 1 || hours[0].Ran != 2 {
			t.Errorf("%+v, %v", hours, err)
		}
	})
}
