package report

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/scheduler"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/schedule"
)

// decode reads a report as masters do.
func decode(t testing.TB, data []byte) *ledger.Report {
	t.Helper()
	r, err := ledger.Decode(&nats.Msg{Subject: wire.ScheduleStateOf("web-01"), Data: data})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// lists is an entry that has run each step for two days; one run of n failed. If that is every other one, the steps are not equal.
func lists(name string, step time.Duration, n int, r *rand.Rand) scheduler.EntryState {
	s := scheduler.EntryState{Name: name, State: scheduler.StateActive, BreakerState: scheduler.BreakerClosed}
	s.TimingHash = "00ff00ff00ff00ff"
	s.List.From = ledger.At(now.Add(-ledger.Kept))
	s.List.Mark(ledger.Mark{Kind: ledger.Begins, Era: 1, At: s.List.From, Timing: ledger.TimingOf(s.TimingHash)})
	for at := s.List.From.Add(time.Second); at.Before(now.Add(-time.Minute)); at = at.Add(step) {
		if n == 2 {
			at = at.Add(time.Duration(r.IntN(60)) * time.Second)
		}
		f := ledger.Fire{Era: 1, Nominal: at, Outcome: ledger.Ran}
		record := scheduler.RunRecord{Run: wire.NewJID(), Listed: at, Era: 1, Trigger: wire.TriggerTimer, Started: at, Ended: at.Add(time.Second), Success: true}
		if r.IntN(n) == 0 {
			f.Outcome = ledger.Failed
			record.Success, record.Error = false, "exit status 9: "+fmt.Sprint(r.Int64(), r.Int64(), r.Int64(), r.Int64())
		}
		s.List.Put(f)
		s.Record(record, true, false)
	}
	return s
}

func TestReportHasTheListsOfTheDocumentAndOfTheHost(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	zone := time.FixedZone("Local", 3600)
	report := ScheduleSource{
		Peel: "web-01", ZoneName: "Local", Zone: zone, Started: now, Settings: Settings{Digest: "d", Schedule: schedule.Set{"b": nil, "a": nil, "gone": nil}},
		Account: scheduler.Account{
			Marks:   ledger.Marks{}.Add(ledger.Mark{Kind: ledger.Starts, At: now.Add(-time.Hour)}),
			Entries: []scheduler.EntryState{lists("b", time.Hour, 2, r), lists("local", 5*time.Minute, 1000, r)},
			Removed: []scheduler.EntryState{{Name: "old", State: scheduler.StateRemoved}},
		},
	}.Report(now)
	data, err := EncodeSchedule(report)
	if err != nil {
		t.Fatal(err)
	}
	got := decode(t, data)
	if len(got.Entries) != 3 || got.Entries[0].Place != 1 || got.Entries[0].Name != "" || got.Entries[1].Name != "local" || got.Entries[2].State != "removed" {
		t.Fatalf("%+v", got.Entries)
	}
	b := got.Entries[0]
	ran := 0
	for _, run := range b.Fires {
		ran += run.Count
	}
	if ran != 48 || b.Timing != 0x00ff00ff || len(b.Notes) != ledger.MaxNotes || b.Took.Runs != 48 || b.Took.UpTo[0] != 0 || b.Took.UpTo[1] != 48 {
		t.Errorf("%d fires, %+v", ran, b)
	}
	if !slices.IsSortedFunc(b.Notes, func(a, b ledger.Note) int { return a.Started.Compare(b.Started) }) || b.Notes[0].Took != time.Second {
		t.Errorf("the notes are %+v", b.Notes)
	}
	if got.Zone.Name != "" || got.Zone.Offset != 3600 || got.Zone.Changes != nil {
		t.Errorf("the zone is %+v", got.Zone)
	}
}

func TestTheZoneOfAHostWithoutANameHasItsChanges(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 3, 28, 12, 0, 0, 0, time.UTC)
	if z := zoneAt("Europe/Berlin", berlin, at); z.Name != "Europe/Berlin" || z.Changes != nil {
		t.Errorf("%+v", z)
	}
	data, err := berlinData()
	if err != nil {
		t.Skip(err)
	}
	unnamed, err := time.LoadLocationFromTZData("Local", data)
	if err != nil {
		t.Fatal(err)
	}
	z := zoneAt("Local", unnamed, at)
	if len(z.Changes) != 1 || z.Offset != 3600 || z.Changes[0].Before != 3600 || z.Changes[0].After != 7200 ||
		!z.Changes[0].At.Equal(time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC)) {
		t.Errorf("%+v", z)
	}
}

// A report of twenty entries is small, and one of a thousand that fail often is cut, says so, and is right in what it has.
func TestALargeReportIsCutAndSaysSo(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	of := func(n, failing int) (*ledger.Report, []byte) {
		var account scheduler.Account
		for i := range n {
			step := []time.Duration{5 * time.Minute, 5 * time.Minute, 5 * time.Minute, time.Hour, time.Hour, time.Hour, 24 * time.Hour}[i%7]
			account.Entries = append(account.Entries, lists(fmt.Sprintf("entry-%04d", i), step, failing, r))
		}
		report := ScheduleSource{Peel: "web-01", ZoneName: "UTC", Zone: time.UTC, Account: account}.Report(now)
		data, err := EncodeSchedule(report)
		if err != nil {
			t.Fatal(err)
		}
		return decode(t, data), data
	}
	if _, data := of(20, 100); len(data) > 12<<10 {
		t.Errorf("a report of 20 entries has %d bytes", len(data))
	}
	report, data := of(1000, 2)
	if len(data) > ledger.MaxReport {
		t.Fatalf("%d bytes", len(data))
	}
	cut := 0
	for _, e := range report.Entries {
		fires := 0
		for _, run := range e.Fires {
			if run.Nominal.Before(e.From) {
				t.Fatalf("%s is complete from %v and has a fire at %v", e.Name, e.From, run.Nominal)
			}
			fires += run.Count
		}
		if e.From.After(now.Add(-ledger.Kept).Add(time.Minute)) {
			cut++
		} else if fires == 0 {
			t.Errorf("%s has no fires", e.Name)
		}
	}
	if cut == 0 || cut == len(report.Entries) {
		t.Errorf("%d of %d entries are cut", cut, len(report.Entries))
	}
}

func berlinData() ([]byte, error) { return os.ReadFile("/usr/share/zoneinfo/Europe/Berlin") }
