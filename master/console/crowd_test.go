package console_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	crowdEntries = 20
	crowdRuns    = 24 // of each entry, one an hour
	crowdWait    = 5 * time.Minute
)

// crowdRepo gives each peel as many entries as the budget of the pages counts with.
func crowdRepo() fstest.MapFS {
	var all strings.Builder
	all.WriteString("schedule:\n")
	for i := range crowdEntries {
		fmt.Fprintf(&all, "  entry-%02d: {module: test.echo, args: {text: x}, cron: '%d * * * *'}\n", i, i)
	}
	return fstest.MapFS{
		"top.yaml":          {Data: []byte("base:\n  '*': [all]\n")},
		"settings/all.yaml": {Data: []byte(all.String())},
	}
}

func crowdPeel(i int) target.PeelID { return target.PeelID(fmt.Sprintf("web-%05d.example.com", i)) }

// crowd lets n peels of [crowdRepo] report once each, in messages as peels send them: their facts, that they apply what
// the reconciler gave them, and a day of runs. They send heartbeats until the test ends, and run nothing.
func (f *fleet) crowd(tb testing.TB, n int) {
	tb.Helper()
	creds, err := f.keys.Creds(grants.RoleMaster, "crowd", 0)
	if err != nil {
		tb.Fatal(err)
	}
	nc, err := nats.Connect(f.bus, nats.UserCredentialBytes(creds), nats.RootCAs(f.ca()),
		nats.CustomInboxPrefix(grants.RoleMaster.Inbox("crowd")))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(tb.Context(), crowdWait)
	defer cancel()
	names := map[string]target.PeelID{}
	for i := range n {
		id := crowdPeel(i)
		data, err := wire.Facts{Peel: id, Facts: target.Facts{"os": "debian"}, V: wire.Version}.Encode()
		if err != nil {
			tb.Fatal(err)
		}
		names[id.Wire()] = id
		send(tb, nc, wire.Fact(id.Wire()), data)
	}
	store, err := js.KeyValue(ctx, wire.BucketSettings)
	if err != nil {
		tb.Fatal(err)
	}
	documents, err := store.WatchAll(ctx)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = documents.Stop() }()
	for told := 0; told < n; {
		select {
		case <-ctx.Done():
			tb.Fatalf("%d of %d peels have settings", told, n)
		case entry := <-documents.Updates():
			if entry == nil || entry.Operation() != jetstream.KeyValuePut {
				continue
			}
			if d, err := settings.Decode(entry.Value(), names[entry.Key()]); err != nil {
				tb.Fatal(err)
			} else if report(tb, nc, d) {
				told++
			}
		}
	}
	f.beat(tb, nc, n)
	for {
		p, err := api.ProblemList.Ask(ctx, f.local, api.ProblemsRequest{})
		if err == nil && p.Well == n {
			return
		}
		select {
		case <-ctx.Done():
			tb.Fatalf("not %d peels are well: %+v, %v", n, p, err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func send(tb testing.TB, nc *nats.Conn, subject string, data []byte) {
	tb.Helper()
	if err := nc.Publish(subject, data); err != nil {
		tb.Fatalf("cannot publish %s: %v", subject, err)
	}
}

// report sends what a peel tells that runs a document. It returns false if the document has no schedule yet.
func report(tb testing.TB, nc *nats.Conn, d *settings.Document) bool {
	tb.Helper()
	names, err := d.Entries()
	if err != nil || len(names) == 0 {
		return false
	}
	now := time.Now()
	applied, err := canon.Marshal(wire.Applied{
		Peel: d.Peel, Commit: string(d.Commit), Generation: d.Generation, Digest: string(d.Digest),
		Started: len(names), Time: now, V: wire.Version,
	})
	if err != nil {
		tb.Fatal(err)
	}
	told, err := ledger.Encode(dayOfRuns(tb, d, now))
	if err != nil {
		tb.Fatal(err)
	}
	w := d.Peel.Wire()
	send(tb, nc, wire.SettingsApplied(w), applied)
	send(tb, nc, wire.ScheduleStateOf(w), told)
	return true
}

// dayOfRuns is the report of a peel whose entries have run each hour of a day.
func dayOfRuns(tb testing.TB, d *settings.Document, now time.Time) *ledger.Report {
	tb.Helper()
	began := now.Add(-crowdRuns * time.Hour)
	r := &ledger.Report{
		Peel: d.Peel, Digest: string(d.Digest), Zone: ledger.Zone{Name: "UTC"}, Time: now, Started: began,
	}
	r.Marks = r.Marks.Add(ledger.Mark{Kind: ledger.Starts, At: ledger.At(began)})
	for i := range crowdEntries {
		fields := map[string]any{"module": "test.echo", "args": map[string]any{"text": "x"}, "cron": fmt.Sprintf("%d * * * *", i)}
		entry, err := schedule.ParseEntry("entry", strictyaml.FromValue("test", fields))
		if err != nil {
			tb.Fatal(err)
		}
		next := now.Truncate(time.Hour).Add(time.Duration(i) * time.Minute)
		if !next.After(now) {
			next = next.Add(time.Hour)
		}
		e := ledger.EntryReport{
			Place: i, State: "active", Since: began, Next: next, From: ledger.At(began),
			Timing: ledger.TimingOf(entry.TimingHash()),
			Marks:  []ledger.Mark{{Kind: ledger.Begins, Era: 1, At: ledger.At(began)}},
		}
		first := ledger.Fire{Era: 1, Nominal: next.Add(-crowdRuns * time.Hour), Outcome: ledger.Ran}
		e.Runs = ledger.AppendRuns(nil, []ledger.Run{{Fire: first, Step: time.Hour, Count: crowdRuns}})
		e.Started, e.Ended, e.Succeeded = next.Add(-time.Hour), next.Add(-time.Hour), next.Add(-time.Hour)
		r.Entries = append(r.Entries, e)
	}
	return r
}

// beat sends heartbeats of n peels until the test ends.
func (f *fleet) beat(tb testing.TB, nc *nats.Conn, n int) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			for i := range n {
				_ = nc.Publish(wire.Heartbeat(crowdPeel(i).Wire()), nil) // fails once the connection is closed
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(wire.MinHeartbeat):
			}
		}
	}()
	tb.Cleanup(func() { cancel(); <-done })
}

// crowdPages are pages of a fleet with peels.
var crowdPages = []sight{
	{"/", "now", "verdict part strip peel-grid"},
	{"/timeline", "timeline", "target lanes lane"},
	{"/timeline?target=web-*", "timeline", "target lanes lane"},
	{"/entries/entry-00", "entry", "strip coverage-row"},
	{"/entries/entry-00/why?peel=web-00000.example.com", "why", "why-verdict why-answer"},
	{"/peels", "peels", "peel total"},
	{"/peels?target=web-0000*", "peels", "peel total"},
	{"/peels/web-00000.example.com", "peel", "part entry-row facts"},
	{"/jobs/new?target=*&function=test.ping", "job-new", "preview preview-count confirm-go"},
}

// quietPages are the pages of every fleet, also of one without peels.
var quietPages = []sight{
	{"/commits", "commits", "commit"},
	{"/states", "states", "part"},
	{"/jobs", "jobs", "part"},
	{"/alerts", "alerts", "part"},
	{"/approvals", "approvals", "part"},
	{"/system", "system", "part"},
	{"/system/access", "access", "part"},
	{"/system/audit", "audit", "part"},
	{"/me", "me", "part"},
}

// A sight is a page with the values of data-testid that it has.
type sight struct{ path, name, ids string }

// sessionRate is how many requests a second one session may send for long.
const sessionRate = 20

// maxPage and maxNodes are the budget of a page.
const (
	maxPage  = 100 << 10 // bytes of HTML
	maxNodes = 1500
)

// small holds that a page is within its budget, and returns its size.
func (b *browser) small(path string) int {
	b.t.Helper()
	got := b.get(path)
	nodes := strings.Count(got.body, "<") - strings.Count(got.body, "</") - strings.Count(got.body, "<!--")
	if got.status != http.StatusOK || len(got.body) > maxPage || nodes > maxNodes {
		b.t.Errorf("%s: status %d, %d bytes, %d elements", path, got.status, len(got.body), nodes)
	}
	return len(got.body)
}

// BenchmarkPages is what each page of 10,000 peels with 20 entries takes, from the request of a browser to its last
// byte. The bus, the services and the console are as they run.
//
// The budget is 20 ms of the 99th percentile on a quiet machine, for an entry that nobody asked for within 5 s 150 ms.
// -benchtime 200x makes enough requests for that percentile.
func BenchmarkPages(b *testing.B) {
	f := newFleetOf(b, crowdRepo())
	f.repo = f.work.Dir()
	f.start(b)
	f.crowd(b, 10_000)
	ann := f.login(b, "ann")
	for _, s := range append(crowdPages, quietPages...) {
		b.Run(strings.ReplaceAll(s.path, "/", "_"), func(b *testing.B) {
			b.ReportMetric(float64(ann.small(s.path)), "bytes")
			var took []time.Duration
			for b.Loop() {
				b.StopTimer()
				<-time.After(time.Second / sessionRate) // a session that asks more often is refused
				b.StartTimer()
				began := time.Now()
				if got := ann.get(s.path); got.status != http.StatusOK {
					b.Fatalf("%s: status %d", s.path, got.status)
				}
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
		})
	}
}
