package coverage_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/coverage"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/master/fleet"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A rig is a bus with peels that report by hand, in a bubble.
type rig struct {
	*testing.T
	bus   *natstest.Bus
	js    jetstream.JetStream
	conns map[string]*nats.Conn
	logs  *logBuffer
	clock func() time.Time // of the masters; nil: the right one
}

func bubble(t *testing.T, f func(t *rig)) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		f(newRig(t, b))
	})
}

func newRig(t *testing.T, b *natstest.Bus) *rig {
	return &rig{T: t, bus: b, js: b.JetStream(t), conns: map[string]*nats.Conn{}, logs: &logBuffer{}}
}

// master runs a table with a feed of its own, until the test ends or stop is called.
func (t *rig) master() (table *coverage.Table, stop func()) {
	t.Helper()
	nc := t.bus.Conn(t, grants.RoleMaster, "m1")
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(t.logs, nil))
	fleet := fleet.New(nc, log)
	table, err = coverage.New(coverage.Options{JetStream: js, Fleet: fleet, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	if t.clock != nil {
		table.SetClock(t.clock)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var parts sync.WaitGroup
	for _, run := range []func(context.Context) error{fleet.Run, table.Run} {
		parts.Go(func() {
			if err := run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	stop = sync.OnceFunc(func() { cancel(); parts.Wait() })
	t.Cleanup(stop)
	select {
	case <-table.Ready():
	case <-time.After(time.Minute):
		t.Fatal("the table is not ready after a minute")
	}
	return table, stop
}

// conn returns the connection of a peel.
func (t *rig) conn(id target.PeelID) *nats.Conn {
	t.Helper()
	w := id.Wire()
	if t.conns[w] == nil {
		t.conns[w] = t.bus.Conn(t, grants.RolePeel, w)
	}
	return t.conns[w]
}

// say publishes as a peel, and waits until all is quiet.
func (t *rig) say(id target.PeelID, m *nats.Msg) {
	t.Helper()
	nc := t.conn(id)
	if err := nc.PublishMsg(m); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := nc.FlushWithContext(ctx); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

// alive sends a heartbeat of each peel every 30 s for a while.
func (t *rig) alive(d time.Duration, ids ...target.PeelID) {
	t.Helper()
	for end := time.Now().Add(d); ; {
		for _, id := range ids {
			t.say(id, &nats.Msg{Subject: wire.Heartbeat(id.Wire())})
		}
		left := time.Until(end)
		if left <= 0 {
			return
		}
		time.Sleep(min(left, 30*time.Second))
	}
}

// wait lets time pass until a time of the day of the bubble, 2026-01-01.
func (t *rig) until(clock string, ids ...target.PeelID) {
	t.Helper()
	t.alive(time.Until(hhmm(t, clock)), ids...)
}

func hhmm(t testing.TB, clock string) time.Time {
	t.Helper()
	at, err := time.Parse("15:04:05", (clock + ":00")[:8])
	if err != nil {
		t.Fatal(err)
	}
	return time.Date(2026, 1, 1, at.Hour(), at.Minute(), at.Second(), 0, time.UTC)
}

// document publishes the settings of a peel with schedule entries, each "name: fields" with values of JSON.
func (t *rig) document(id target.PeelID, entries map[string]map[string]any) *settings.Document {
	t.Helper()
	schedule := map[string]any{}
	for name, fields := range entries {
		schedule[name] = fields
	}
	raw, err := canon.Marshal(map[string]any{"schedule": schedule})
	if err != nil {
		t.Fatal(err)
	}
	d := &settings.Document{
		V: settings.OpenVersion, Peel: id, Commit: settings.Commit(strings.Repeat("a", 40)), Generation: uint64(time.Now().UnixMilli()),
		Digest: settings.DigestOf(raw), Settings: raw,
	}
	data, err := d.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := t.js.Publish(t.Context(), wire.SettingsKey(id.Wire()), data); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return d
}

// cron is an entry that runs by a cron expression.
func cron(expression string) map[string]any {
	return map[string]any{"module": "test.ping", "cron": expression, "timezone": "UTC"}
}

// A host is a peel whose reports are made by hand.
type host struct {
	t       *rig
	id      target.PeelID
	state   ledger.Report // without entries
	names   []string      // of the document
	timings map[string]ledger.Timing
	entries map[string]*ledger.EntryReport
	lists   map[string]*ledger.List
	skew    time.Duration // of its clock
}

// host returns a peel that has a document and has reported nothing.
func (t *rig) host(id target.PeelID, doc *settings.Document) *host {
	h := &host{t: t, id: id, entries: map[string]*ledger.EntryReport{}, lists: map[string]*ledger.List{}}
	h.state = ledger.Report{Peel: id, Zone: ledger.Zone{Name: "UTC"}, Started: time.Now()}
	h.state.Marks = h.state.Marks.Add(ledger.Mark{Kind: ledger.Starts, At: ledger.At(time.Now())})
	if doc != nil {
		h.applies(doc)
	}
	return h
}

// applies makes the host run a document.
func (h *host) applies(d *settings.Document) {
	h.t.Helper()
	values, err := d.Values()
	if err != nil {
		h.t.Fatal(err)
	}
	set, err := schedule.ParseSet(strictyaml.FromValue("test", values["schedule"]))
	if err != nil {
		h.t.Fatal(err)
	}
	h.state.Digest, h.state.Commit = string(d.Digest), string(d.Commit)
	h.names, h.timings = slices.Sorted(maps.Keys(set)), map[string]ledger.Timing{}
	for name, e := range set {
		h.timings[name] = ledger.TimingOf(e.TimingHash())
	}
}

// entry returns the entry of a name in the next report. One that is new begins now.
func (h *host) entry(name string) *ledger.EntryReport {
	if h.entries[name] == nil {
		now := time.Now().Add(h.skew)
		h.entries[name] = &ledger.EntryReport{State: "active", Timing: h.timings[name]}
		h.lists[name] = &ledger.List{From: ledger.At(now)}
		h.begins(name, now)
	}
	return h.entries[name]
}

// begins makes an entry begin at a time.
func (h *host) begins(name string, now time.Time) {
	h.entry(name).Since = now
	h.lists[name].From = ledger.At(now)
	h.lists[name].Mark(ledger.Mark{Kind: ledger.Begins, Era: h.state.Marks.Era(), At: ledger.At(now), Timing: h.timings[name]})
}

// fire adds a fire of the timer of an entry, or changes it.
func (h *host) fire(name string, at time.Time, f ledger.Fire) {
	e := h.entry(name)
	f.Era, f.Nominal = h.state.Marks.Era(), ledger.At(at)
	h.lists[name].Put(f)
	if f.Outcome == ledger.Ran || f.Outcome == ledger.Failed {
		e.Started, e.Ended, e.Error = at, at.Add(time.Second), ""
		if f.Outcome == ledger.Ran {
			e.Succeeded = e.Ended
		} else {
			e.Error = "exit status 1"
		}
		e.Took.Add(time.Second)
	}
}

// ran adds good runs of an entry every so often in [from, until).
func (h *host) ran(name, from, until string, every time.Duration) {
	for at := hhmm(h.t, from); at.Before(hhmm(h.t, until)); at = at.Add(every) {
		h.fire(name, at, ledger.Fire{Outcome: ledger.Ran})
	}
}

// report sends a report, made by a clock that is wrong by skew.
func (h *host) report(skew time.Duration) {
	h.t.Helper()
	h.build(skew)
	h.send()
}

// build makes a report.
func (h *host) build(skew time.Duration) {
	if skew != h.skew {
		now := time.Now()
		h.state.Marks = h.state.Marks.Add(ledger.Mark{Kind: ledger.Clock, Old: now.Add(h.skew), At: now.Add(skew), Step: skew - h.skew})
		h.skew = skew
	}
	h.state.Time, h.state.Entries = time.Now().Add(skew), nil
	for _, name := range slices.Sorted(maps.Keys(h.entries)) {
		e := *h.entries[name]
		i, found := slices.BinarySearch(h.names, name)
		if e.Place = i; !found {
			e.Place, e.Name = 0, name
		}
		e.Marks, e.From, e.Runs = h.lists[name].Marks, h.lists[name].From, ledger.AppendRuns(nil, h.lists[name].Runs())
		h.state.Entries = append(h.state.Entries, e)
	}
}

// send sends the report as it is.
func (h *host) send() {
	h.t.Helper()
	data, err := ledger.Encode(&h.state)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.say(h.id, &nats.Msg{Subject: wire.ScheduleStateOf(h.id.Wire()), Data: data})
}

// want compares the verdicts of an entry on a peel since the beginning.
func (t *rig) want(table *coverage.Table, id target.PeelID, entry, want string) {
	t.Helper()
	synctest.Wait()
	if err := table.CheckSums(); err != nil {
		t.Error(err)
	}
	cells, _, err := table.Rows(t.Context(), coverage.Query{Peels: map[target.PeelID]bool{id: true}, By: coverage.ByPeelAndEntry})
	if err != nil {
		t.Error(err)
		return
	}
	got := "no such entry"
	for _, c := range cells {
		if c.Entry == entry {
			got = text(c.Counts)
		}
	}
	if got != want {
		t.Errorf("%s: %s on %s: %s, want %s", time.Now().UTC().Format("15:04:05"), entry, id, got, want)
	}
}

// text gives the counts that are not zero.
func text(c verdict.Counts) string {
	var parts []string
	for _, n := range []struct {
		name string
		n    uint64
	}{
		{"expected", c.Expected},
		{"ran", c.Ran},
		{"failed", c.Failed},
		{"late", c.Late},
		{"overran", c.Overran},
		{"skipped", c.Skipped},
		{"missed", c.Missed},
		{"unknown", c.Unknown},
		{"unexpected", c.Unexpected},
	} {
		if n.n > 0 {
			parts = append(parts, fmt.Sprint(n.name, " ", n.n))
		}
	}
	return strings.Join(parts, ", ")
}

// problems compares the problems, each "kind entry peel".
func (t *rig) problems(table *coverage.Table, want ...string) {
	t.Helper()
	synctest.Wait()
	if err := table.CheckSums(); err != nil {
		t.Error(err)
	}
	got := []string{}
	for _, p := range table.Problems() {
		got = append(got, strings.Join(strings.Fields(fmt.Sprint(p.Kind, " ", p.Entry, " ", p.Peel)), " "))
	}
	if !slices.Equal(got, append([]string{}, want...)) {
		t.Errorf("%s: problems %q, want %q", time.Now().UTC().Format("15:04:05"), got, want)
	}
}

// A logBuffer has the logs of several masters.
type logBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *logBuffer) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(text)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
