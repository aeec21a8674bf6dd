package ledger

import (
	"bytes"
	"compress/flate"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

func sample() *Report {
	left := uint64(3)
	runs := []Run{{Fire: ran(1, noon), Step: time.Minute, Count: 30}}
	e := EntryReport{
		Place: 1, State: "active", Since: noon, Timing: TimingOf("00ff00aa11"), Next: noon, NextClass: Needs, Left: &left, From: noon,
		Marks: []Mark{{Kind: Begins, Era: 1, At: noon, Timing: 7}}, Runs: AppendRuns(nil, runs), Fires: runs,
		Notes: []Note{{Era: 1, Nominal: noon, Outcome: Failed, Started: noon, Took: time.Second, Error: "exit status 9", By: "ann"}},
	}
	e.Took.Add(2 * time.Second)
	return &Report{
		Peel: "p1", Time: noon, Started: noon, Zone: Zone{Offset: 3600, Changes: []ZoneChange{{At: noon, Before: 0, After: 3600}}},
		Marks: Marks{}.Add(Mark{Kind: Starts, At: noon, Boot: "b", Known: true, Step: time.Hour}), Entries: []EntryReport{e},
	}
}

func message(t testing.TB, r *Report) *nats.Msg {
	data, err := Encode(r)
	if err != nil {
		t.Fatal(err)
	}
	return &nats.Msg{Subject: wire.ScheduleStateOf("p1"), Data: data}
}

func TestAReportComesBackAsItWas(t *testing.T) {
	want := sample()
	msg := message(t, want)
	got, err := Decode(msg)
	if err != nil {
		t.Fatal(err)
	}
	if again := message(t, got); !bytes.Equal(again.Data, msg.Data) || !reflect.DeepEqual(got.Entries[0].Fires, want.Entries[0].Fires) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if want.Entries[0].Timing != 0x00ff00aa || TimingOf("xyz") != 0 {
		t.Errorf("the timing is %x", want.Entries[0].Timing)
	}
}

func TestReportsBeyondABoundAreRefused(t *testing.T) {
	long := strings.Repeat("x", 5*MaxText)
	for name, change := range map[string]func(*Report){
		"of another peel": func(r *Report) { r.Peel = "p2" },
		"entries":         func(r *Report) { r.Entries = make([]EntryReport, MaxEntries+1) },
		"names":           func(r *Report) { r.Entries[0].Name = long },
		"texts":           func(r *Report) { r.Entries[0].Error = long },
		"marks":           func(r *Report) { r.Entries[0].Marks = make([]Mark, MaxMarks+1) },
		"eras":            func(r *Report) { r.Marks = append(r.Marks, r.Marks[0]) },
		"notes":           func(r *Report) { r.Entries[0].Notes = make([]Note, MaxNotes+1) },
		"text of a note":  func(r *Report) { r.Entries[0].Notes[0].Error = long },
		"job":             func(r *Report) { r.Entries[0].Job = "x" },
		"histogram":       func(r *Report) { r.Entries[0].Took.UpTo = []uint64{1} },
		"fires of an hour": func(r *Report) {
			hour := Run{Fire: ran(1, noon), Hour: true, Count: maxOfHour + 1}
			r.Entries[0].Runs = AppendRuns(nil, []Run{hour})
		},
		"runs of all entries": func(r *Report) {
			var runs []Run
			for i := range MaxFires/2 + 1 {
				runs = append(runs, Run{Fire: ran(1, noon.Add(time.Duration(i)*time.Second)), Count: 1})
			}
			code := AppendRuns(nil, runs)
			r.Entries = []EntryReport{{Name: "a", Runs: code}, {Name: "b", Runs: code}}
		},
		"runs":                 func(r *Report) { r.Entries[0].Runs = []byte{2} },
		"zone":                 func(r *Report) { r.Zone.Changes = make([]ZoneChange, 17) },
		"version of a program": func(r *Report) { r.Version = long },
	} {
		r := sample()
		change(r)
		if _, err := Decode(message(t, r)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestAReportThatInflatesTooFarIsRefused(t *testing.T) {
	out := bytes.NewBuffer([]byte{reportVersion})
	w, _ := flate.NewWriter(out, flate.BestCompression)
	_, _ = w.Write(make([]byte, maxInflated+1))
	_ = w.Close()
	_, err := Decode(&nats.Msg{Subject: wire.ScheduleStateOf("p1"), Data: out.Bytes()})
	if err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("the error is %v", err)
	}
}

// A message of a few KB has a list of a million elements, each of which takes one byte in it, and hundreds in memory.
func TestAListOfManyEmptyElementsTakesLittleMemory(t *testing.T) {
	const n = 1 << 20
	list := append([]byte{0xdd, 0, n >> 16, 0, 0}, bytes.Repeat([]byte{0x80}, n)...)
	within := func(field string, value any) map[string]any { return map[string]any{field: value} }
	for name, fields := range map[string]map[string]any{
		"marks":             within("marks", canon.Raw(list)),
		"entries":           within("entries", canon.Raw(list)),
		"marks of an entry": within("entries", []any{within("marks", canon.Raw(list))}),
		"notes":             within("entries", []any{within("notes", canon.Raw(list))}),
		"changes of a zone": within("zone", within("changes", canon.Raw(list))),
		"histogram":         within("entries", []any{within("took", within("up_to", canon.Raw(list)))}),
	} {
		fields["v"], fields["peel_id"] = reportVersion, "p1"
		data, err := canon.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		out := bytes.NewBuffer([]byte{reportVersion})
		w, _ := flate.NewWriter(out, flate.BestCompression)
		_, _ = w.Write(data)
		_ = w.Close()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err = Decode(&nats.Msg{Subject: wire.ScheduleStateOf("p1"), Data: out.Bytes()})
		runtime.ReadMemStats(&after)
		if took := (after.TotalAlloc - before.TotalAlloc) >> 20; err == nil || took > 32 { // with the race detector a buffer takes twice as much while it grows
			t.Errorf("%s: %d bytes took %d MB of memory, %v", name, out.Len(), took, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(message(f, sample()).Data)
	f.Fuzz(func(_ *testing.T, data []byte) {
		_, _ = Decode(&nats.Msg{Subject: wire.ScheduleStateOf("p1"), Data: data})
	})
}

// Runs are spread evenly between two bounds of the histogram.
// Masters decode a report of each peel after a commit, and at least one an hour of each at rest.
func BenchmarkDecode(b *testing.B) {
	msg := message(b, sample())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(msg); err != nil {
			b.Fatal(err)
		}
	}
}

// A peel encodes a report after each commit and run.
func BenchmarkEncode(b *testing.B) {
	r := sample()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Encode(r); err != nil {
			b.Fatal(err)
		}
	}
}

func TestASmallReportIsCompressedWithoutATable(t *testing.T) {
	r := sample()
	const reports, table = 100, 512 << 10
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range reports {
		if _, err := Encode(r); err != nil {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	if took := (after.TotalAlloc - before.TotalAlloc) / reports; took >= table {
		t.Errorf("a report takes %d bytes to compress, and the table of a compressor %d", took, table)
	}
}

func TestALargeReportComesBackAsItWas(t *testing.T) {
	want := sample()
	for len(want.Entries) < 1000 {
		e := want.Entries[0]
		e.Place = len(want.Entries) + 1
		want.Entries = append(want.Entries, e)
	}
	got, err := Decode(message(t, want))
	if err != nil || len(got.Entries) != 1000 {
		t.Fatalf("%v, error %v", got, err)
	}
	if again, want := message(t, got), message(t, want); !bytes.Equal(again.Data, want.Data) {
		t.Error("it has changed")
	}
}

func TestReportsAreReadWithTheSameWindow(t *testing.T) {
	msg := message(t, sample())
	const reports, window = 100, 32 << 10
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range reports {
		if _, err := Decode(msg); err != nil {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	if took := (after.TotalAlloc - before.TotalAlloc) / reports; took >= window {
		t.Errorf("a report takes %d bytes to read, and the window of a decompressor %d", took, window)
	}
}

// The median of three runs is the second: a share of runs that is no whole number is rounded up.
func TestHowLongHalfOfThreeRunsTook(t *testing.T) {
	var took Took
	for _, d := range []time.Duration{40 * time.Second, 50 * time.Millisecond, 3 * time.Second} {
		took.Add(d)
	}

	if got := took.AtMost(50); got != 5*time.Second {
		t.Errorf("two of three runs took at most %v, want 5s", got)
	}
}

func TestAnotherRunLeavesTheDurationsThatWereRead(t *testing.T) {
	var took Took
	took.Add(time.Minute)
	read := took
	before := slices.Clone(read.UpTo)
	took.Add(time.Minute)
	if !slices.Equal(read.UpTo, before) {
		t.Errorf("%v, it was %v", read.UpTo, before)
	}
}

func TestHowLongMostRunsTook(t *testing.T) {
	var none, took Took
	if got := none.AtMost(95); got != 0 {
		t.Errorf("no run took at most %v", got)
	}
	for range 90 {
		took.Add(3 * time.Second)
	}
	for range 10 {
		took.Add(40 * time.Second)
	}
	for percent, want := range map[uint64]time.Duration{45: 3 * time.Second, 90: 5 * time.Second, 95: 37500 * time.Millisecond, 100: time.Minute} {
		if got := took.AtMost(percent); got != want {
			t.Errorf("%d of 100 runs took at most %v, want %v", percent, got, want)
		}
	}
	for range 900 {
		took.Add(7 * time.Hour)
	}
	if got := took.AtMost(50); got != TookBounds[len(TookBounds)-1] {
		t.Errorf("half of the runs took at most %v, and most took 7 h", got)
	}
}
