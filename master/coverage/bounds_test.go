package coverage

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unique"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/bus"
	"github.com/seed-c01c3da5/zester/master/coverage/join"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Peels name the reasons of skips. Beyond 32 they are counted together.
func TestReasonsOfSkipsAreBounded(t *testing.T) {
	all := total{skips: map[string]uint64{}}
	for i := range 100 {
		all.addSkips(fmt.Sprintf("reason-%03d", i), 2)
	}
	all.addSkips("reason-000", 1)
	sum := uint64(0)
	for _, n := range all.skips {
		sum += n
	}
	if len(all.skips) != maxReasons+1 || all.skips["reason-000"] != 3 || all.skips[otherReasons] != 2*(100-maxReasons) || sum != 201 {
		t.Errorf("%d reasons with %d skips: %v", len(all.skips), sum, all.skips)
	}
}

// Peels name their zones, and a file system has many names for one file.
func TestZonesThatPeelsNameAreBounded(t *testing.T) {
	z := zones{byName: map[string]*time.Location{}}
	for _, name := range []string{"", "Local", "./UTC", "Europe//London", "Europe/London/", "Europe/../Europe/London", "Europe/./London"} {
		if l := z.location(name); l != nil || len(z.byName) > 0 {
			t.Errorf("%q is taken for the zone %s, and %d zones are remembered", name, l, len(z.byName))
		}
	}
	for i := range 3 * maxZones {
		if l := z.location(fmt.Sprintf("Nowhere/Town%d", i)); l != nil {
			t.Errorf("there is a zone %s", l)
		}
		if len(z.byName) > maxZones {
			t.Fatalf("%d zones are remembered, the limit is %d", len(z.byName), maxZones)
		}
	}
	if l := z.location("Europe/London"); l == nil || l.String() != "Europe/London" {
		t.Errorf("Europe/London is %s", l)
	}
}

func TestPlansOfAnEntryAreBounded(t *testing.T) {
	d := newDocuments(&zones{byName: map[string]*time.Location{}})
	e := schedule.New("backup")
	s := &spec{entry: e, plans: map[string]*join.Plan{}}
	for i := range maxPlans {
		s.plans[fmt.Sprintf("Nowhere/Town%d", i)] = nil
	}
	if d.plan(s, "Europe/London"); len(s.plans) > maxPlans {
		t.Errorf("%d plans are remembered, the limit is %d", len(s.plans), maxPlans)
	}
	if _, has := s.plans["Europe/London"]; !has {
		t.Error("the plan of the newest zone is not remembered")
	}
}

// settingsOf returns a document with one entry.
func settingsOf(t testing.TB, peel target.PeelID, every string) *settings.Document {
	entry := map[string]any{"interval": every, "module": "test.ping"}
	data, err := canon.Marshal(map[string]any{"schedule": map[string]any{"check": entry}})
	if err != nil {
		t.Fatal(err)
	}
	return &settings.Document{Peel: peel, Settings: data, Digest: settings.DigestOf(data)}
}

func TestEqualSettingsOfManyPeelsAreReadOnce(t *testing.T) {
	d := newDocuments(&zones{byName: map[string]*time.Location{}})
	first, err := d.of(settingsOf(t, "web-1", "1h"))
	if err != nil {
		t.Fatal(err)
	}
	second := settingsOf(t, "web-2", "1h")
	allocs := testing.AllocsPerRun(10, func() {
		if again, err := d.of(second); err != nil || again != first {
			t.Errorf("another document, error %v", err)
		}
	})
	if allocs > 0 {
		t.Errorf("settings that are known take %v allocations", allocs)
	}
	for i := range maxRead + 1 {
		if _, err := d.of(settingsOf(t, "web-1", fmt.Sprintf("%dm", i+1))); err != nil || len(d.read) > maxRead {
			t.Fatalf("%d digests are remembered, the limit is %d, error %v", len(d.read), maxRead, err)
		}
	}
	d.follow(newPeel(), first, unique.Make("UTC"))
	if d.sweep(); len(d.read) > 1 || len(d.schedules) != 1 {
		t.Errorf("%d digests and %d schedules are remembered of one in use", len(d.read), len(d.schedules))
	}
}

// BenchmarkDocument reads the settings of a peel after a commit to all peels.
func BenchmarkDocument(b *testing.B) {
	d := newDocuments(&zones{byName: map[string]*time.Location{}})
	doc := settingsOf(b, "web-1", "1h")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := d.of(doc); err != nil {
			b.Fatal(err)
		}
	}
}

// A sum that would overflow stays at the highest number. A peel that counts anew takes nothing away.
func TestASumOfDurationsDoesNotOverflow(t *testing.T) {
	all := total{durations: make([]uint64, len(verdict.DurationBounds))}
	one := func(runs uint64, sum time.Duration) took {
		return tookOf(&ledger.EntryReport{RunState: ledger.RunState{Took: ledger.Took{UpTo: []uint64{0, runs, runs, runs, runs, runs, runs, runs, runs}, Runs: runs, Sum: sum}}})
	}
	all.ran(one(3, 3*time.Second), one(1, time.Second))
	if all.runs != 2 || all.sum != 2*time.Second || all.durations[0] != 0 || all.durations[1] != 2 {
		t.Errorf("%+v", all)
	}
	all.ran(one(1, time.Second), one(3, 3*time.Second)) // it has lost its ledger
	if all.runs != 3 || all.sum != 3*time.Second {
		t.Errorf("%+v", all)
	}
	for _, lie := range []took{one(4, math.MaxInt64), one(math.MaxUint64, time.Second), one(1<<24+1, time.Second), one(0, 8*24*time.Hour)} {
		if all.ran(lie, took{}); all.runs != 3 || all.sum != 3*time.Second {
			t.Fatalf("%+v: %+v", lie, all)
		}
	}
	for range 4000 {
		all.ran(one(1<<24, 1<<24*time.Minute), took{})
	}
	if all.sum != math.MaxInt64 {
		t.Errorf("%+v", all)
	}
}

// takenSettings are settings with entries.
func takenSettings(t *testing.T, names []string) canon.Raw {
	t.Helper()
	entries := map[string]any{}
	for _, name := range names {
		entries[name] = map[string]any{"module": "test.ping", "every": "1h"}
	}
	raw, err := canon.Marshal(map[string]any{"schedule": entries})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func takenDigest(t *testing.T, names []string) string {
	return string(settings.DigestOf(takenSettings(t, names)))
}

// takeDocument has a table take the settings of a peel with entries.
func takeDocument(t *testing.T, table *Table, id target.PeelID, names []string) {
	t.Helper()
	raw := takenSettings(t, names)
	d := settings.Document{V: settings.OpenVersion, Peel: id, Generation: 1, Digest: settings.DigestOf(raw), Settings: raw}
	data, err := d.Encode()
	if err != nil {
		t.Fatal(err)
	}
	table.onDocument(bus.FollowMessage{Key: id.Wire(), Msg: &nats.Msg{Subject: wire.SettingsKey(id.Wire()), Data: data}, Stored: time.Now()})
}

// reportOf returns a report of a peel with entries that ran once in an hour.
func reportOf(t *testing.T, id target.PeelID, now time.Time, hour int64, names []string) bus.FollowMessage {
	t.Helper()
	state := ledger.Report{Peel: id, Zone: ledger.Zone{Name: "UTC"}, Time: now, Started: now, Digest: takenDigest(t, names)}
	for i := range names {
		run := ledger.Run{Fire: ledger.Fire{Nominal: join.StartOf(hour), Outcome: ledger.Ran}, Count: 1}
		state.Entries = append(state.Entries, ledger.EntryReport{Place: i, State: stateActive, Runs: ledger.AppendRuns(nil, []ledger.Run{run})})
	}
	data, err := ledger.Encode(&state)
	if err != nil {
		t.Fatal(err)
	}
	return bus.FollowMessage{Key: id.Wire(), Msg: &nats.Msg{Subject: wire.ScheduleStateOf(id.Wire()), Data: data}, Stored: now}
}

// An hour whose names of entries do not fit into a message cannot be written. The hours before and after it are.
func TestAnHourThatCannotBeWrittenDoesNotKeepOthersFromIt(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		table := fleetTable(t, b.Conn(t, grants.RoleMaster, "m1"))
		now, r := time.Now().Truncate(time.Hour).Add(5*time.Hour), rand.New(rand.NewPCG(1, 2))
		last := join.HourOf(now)
		for hour := last - 4; hour <= last; hour++ {
			id := target.PeelID(fmt.Sprintf("small-%d", hour))
			takeDocument(t, table, id, []string{"backup"})
			table.onReport(reportOf(t, id, now, hour, []string{"backup"}))
		}
		const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
		for peel := range 16 {
			var names []string
			for i := range 400 {
				name := fmt.Appendf(nil, "%04d", i)
				for len(name) < 250 {
					name = append(name, letters[r.IntN(len(letters))])
				}
				names = append(names, string(name))
			}
			id := target.PeelID(fmt.Sprintf("large-%d", peel))
			takeDocument(t, table, id, names)
			table.onReport(reportOf(t, id, now, last-2, names))
		}
		if table.refused > 0 {
			t.Fatalf("%d reports were refused", table.refused)
		}
		written := map[int64]uint64{}
		err := table.keepOnce(t.Context(), written)
		if err == nil || strings.Count(err.Error(), "cannot write the history") != 1 || !strings.Contains(err.Error(), "bytes, the limit is") {
			t.Errorf("the error is %.300v", err)
		}
		read := map[int64]bool{}
		unreadable, err := OpenHistory(b.JetStream(t)).Read(t.Context(), []int64{last - 4, last - 3, last - 2, last - 1, last}, func(hour int64, _ []HistoryCell) { read[hour] = true })
		if err != nil || len(unreadable) > 0 || len(read) != 4 || read[last-2] || len(written) != 4 {
			t.Errorf("stored: %v, noted as written: %d, unreadable: %v, %v", read, len(written), unreadable, err)
		}
	})
}
