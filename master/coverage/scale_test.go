package coverage

import (
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	buspkg "github.com/seed-c01c3da5/zester/master/bus"
	fleetpkg "github.com/seed-c01c3da5/zester/master/fleet"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// The fleet of the figures.
const (
	fleetPeels   = 10_000
	fleetEntries = 10
	five         = 5 * time.Minute
	maxPerEntry  = 120 // bytes of memory: 12 MB for 100,000 entries
)

// fleetMessages returns the settings and the report of a peel, whose n entries fire every five minutes.
func fleetMessages(tb testing.TB, id target.PeelID, now time.Time, n int) (document, report buspkg.FollowMessage) {
	tb.Helper()
	began := now.Add(-24 * time.Hour)
	entries, state := map[string]any{}, ledger.Report{Peel: id, Zone: ledger.Zone{Name: "UTC"}, Time: now, Started: began}
	state.Marks = state.Marks.Add(ledger.Mark{Kind: ledger.Starts, At: ledger.At(began)})
	for i := range n {
		name := fmt.Sprintf("entry-%02d", i)
		entries[name] = map[string]any{"module": "cmd.run", "args": map[string]any{"command": "run " + string(id)}, "cron": fmt.Sprintf("%d-59/5 * * * *", i%5)}
		next := now.Truncate(five).Add(time.Duration(i%5) * time.Minute)
		if !next.After(now) {
			next = next.Add(five)
		}
		e := ledger.EntryReport{
			Place: i, State: "active", Since: began, Next: next, From: ledger.At(began),
			Timing: fleetTimings()[i%5],
			Marks:  []ledger.Mark{{Kind: ledger.Begins, Era: 1, At: ledger.At(began)}},
		}
		first := next.Add(-24 * time.Hour)
		e.Runs = ledger.AppendRuns(nil, []ledger.Run{{Fire: ledger.Fire{Era: 1, Nominal: first, Outcome: ledger.Ran}, Step: five, Count: 24 * 12}})
		e.Started, e.Ended, e.Succeeded = next.Add(-five), now, now
		for range 20 {
			e.Took.Add(time.Second)
		}
		state.Entries = append(state.Entries, e)
	}
	raw, err := canon.Marshal(map[string]any{"schedule": entries, "id": string(id)})
	if err != nil {
		tb.Fatal(err)
	}
	d := settings.Document{V: settings.OpenVersion, Peel: id, Generation: 1, Digest: settings.DigestOf(raw), Settings: raw}
	data, err := d.Encode()
	if err != nil {
		tb.Fatal(err)
	}
	state.Digest = string(d.Digest)
	told, err := ledger.Encode(&state)
	if err != nil {
		tb.Fatal(err)
	}
	w := id.Wire()
	return buspkg.FollowMessage{Key: w, Msg: &nats.Msg{Subject: wire.SettingsKey(w), Data: data}, Stored: now.Add(-24 * time.Hour)},
		buspkg.FollowMessage{Key: w, Msg: &nats.Msg{Subject: wire.ScheduleStateOf(w), Data: told}, Stored: now}
}

// fleetTimings are the timings of the first five entries; the others have the same.
var fleetTimings = sync.OnceValue(func() (list []ledger.Timing) {
	for i := range 5 {
		fields := map[string]any{"module": "cmd.run", "args": map[string]any{"command": "x"}, "cron": fmt.Sprintf("%d-59/5 * * * *", i)}
		e, err := schedule.ParseEntry("entry", strictyaml.FromValue("test", fields))
		if err != nil {
			panic(err)
		}
		list = append(list, ledger.TimingOf(e.TimingHash()))
	}
	return list
})

func fleetPeel(i int) target.PeelID { return target.PeelID(fmt.Sprintf("web-%05d.example.com", i)) }

// fleetTable returns a table without a bus.
func fleetTable(tb testing.TB, nc *nats.Conn) *Table {
	tb.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		tb.Fatal(err)
	}
	t, err := New(Options{JetStream: js, Fleet: fleetpkg.New(nc, slog.New(slog.DiscardHandler))})
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

// TestAHundredThousandEntriesTakeLessThan12MB fills a table with a fifth of them, and reports the bytes of an entry.
func TestAHundredThousandEntriesTakeLessThan12MB(t *testing.T) {
	if testing.Short() {
		t.Skip("it measures memory")
	}
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		table := fleetTable(t, b.Conn(t, grants.RoleMaster, "m1"))
		now := time.Now().Truncate(time.Hour).Add(59 * time.Minute)
		heap := func() uint64 {
			var m runtime.MemStats
			runtime.GC()
			runtime.GC()
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		before := heap()
		for i := range fleetPeels / 5 {
			document, report := fleetMessages(t, fleetPeel(i), now, fleetEntries)
			table.onDocument(document)
			table.onReport(report)
		}
		each := int64(heap()-before) / (fleetPeels / 5 * fleetEntries)
		t.Logf("an entry takes %d bytes", each)
		if each > maxPerEntry {
			t.Errorf("an entry takes %d bytes, the limit is %d", each, maxPerEntry)
		}
		if h := table.Health(); h.Entries != fleetPeels/5*fleetEntries || h.Refused != 0 {
			t.Errorf("%+v", h)
		}
		runtime.KeepAlive(table)
	})
}

// BenchmarkStart is what a master does with the settings and reports of 10,000 peels when it starts.
func BenchmarkStart(b *testing.B) {
	bus := natstest.Listen(b)
	nc := bus.Conn(b, grants.RoleMaster, "m1")
	now := time.Now()
	var documents, reports []buspkg.FollowMessage
	bytes := 0
	for i := range fleetPeels {
		document, report := fleetMessages(b, fleetPeel(i), now, fleetEntries)
		documents, reports = append(documents, document), append(reports, report)
		bytes += len(document.Msg.Data) + len(report.Msg.Data)
	}
	b.SetBytes(int64(bytes))
	for b.Loop() {
		table := fleetTable(b, nc)
		for i := range documents {
			table.onDocument(documents[i])
		}
		for i := range reports {
			table.onReport(reports[i])
		}
		if table.refused > 0 {
			b.Fatal("refused")
		}
	}
}

// BenchmarkProblems is what alerts ask every few seconds, of 10,000 peels.
func BenchmarkProblems(b *testing.B) {
	bus := natstest.Listen(b)
	table := fleetTable(b, bus.Conn(b, grants.RoleMaster, "m1"))
	now := time.Now()
	for i := range fleetPeels {
		document, report := fleetMessages(b, fleetPeel(i), now, fleetEntries)
		table.onDocument(document)
		table.onReport(report)
	}
	for b.Loop() {
		table.mu.Lock()
		n := 0
		for _, p := range table.peels {
			n += len(table.problemsOf(p, now, now))
		}
		table.mu.Unlock()
		if n > fleetPeels {
			b.Fatal(n)
		}
	}
}
