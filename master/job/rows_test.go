package job_test

import (
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// says puts a message of a peel into the stream.
func says(t *testing.T, js jetstream.JetStream, subject string, v any) {
	t.Helper()
	data, err := canon.Marshal(v)
	if err == nil {
		_, err = js.Publish(t.Context(), subject, data)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func rows(t *testing.T, s *job.Store, jid wire.JID) map[target.PeelID]job.Row {
	t.Helper()
	page, err := s.Rows(t.Context(), jid, "")
	if err != nil {
		t.Fatal(err)
	}
	all := map[target.PeelID]job.Row{}
	for _, row := range page.Rows {
		all[row.Peel] = row
	}
	return all
}

func TestRowsFollowTheStream(t *testing.T) {
	bubble(t, func(t *testing.T, s *job.Store, js jetstream.JetStream) {
		j := claim("late", "later.forged", "never", "quiet", "rejected", "stopped", "unsent")
		j.Status, j.Published, j.Sent = job.Running, 6, time.Now()
		create(t, s, j)
		of := func(id target.PeelID, r wire.Result) wire.Return {
			return wire.Return{JID: j.JID, Peel: id, Result: r, V: wire.Version}
		}
		put(t, js, of("rejected", wire.Result{Outcome: wire.Rejected, Error: "busy"}))
		put(t, js, of("stopped", wire.Result{Outcome: wire.Canceled, Data: "half"}))

		late := []target.PeelID{"late", "later.forged", "never"}
		check := func(when string, want map[target.PeelID]job.RowState) {
			t.Helper()
			for id, row := range rows(t, s, j.JID) {
				if row.State != want[id] || row.Late != (when == "ended" && slices.Contains(late, id)) {
					t.Errorf("%s: %s is %s, late %v, want %s", when, id, row.State, row.Late, want[id])
				}
			}
		}
		time.Sleep(time.Minute)
		check("running", map[target.PeelID]job.RowState{
			"late": job.RowWaiting, "later.forged": job.RowWaiting, "never": job.RowWaiting,
			"quiet": job.RowWaiting, "rejected": job.RowRejected, "stopped": job.RowCanceled, "unsent": job.RowWaiting,
		})

		j.Finish(job.End{Targets: 7, Returned: 2, Canceled: true, Stopped: 1}, time.Now())
		if err := s.Update(t.Context(), j); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		says(t, js, wire.ReturnOf(j.JID, "late"), of("late", wire.Result{Success: true}))
		says(t, js, wire.ReturnOf(j.JID, "later_forged"), of("late", wire.Result{Success: true}))
		says(t, js, wire.ReturnOf(j.JID, "never"), of("never", wire.Result{Success: true, Outcome: wire.Rejected}))
		check("ended", map[target.PeelID]job.RowState{
			"late": job.RowOK, "later.forged": job.RowFailed, "never": job.RowFailed,
			"quiet": job.RowMissing, "rejected": job.RowRejected, "stopped": job.RowCanceled, "unsent": job.RowSkipped,
		})
		if j.Status != job.Canceled {
			t.Errorf("the job is %s", j.Status)
		}
	})
}

func TestTheReturnsOfAJobAreReadAndNoOthers(t *testing.T) {
	bubble(t, func(t *testing.T, s *job.Store, js jetstream.JetStream) {
		j, other := create(t, s, claim("a", "b.c")), create(t, s, claim("a"))
		read := func() (senders []string) {
			if err := s.Stored(t.Context(), j.JID, func(r job.StoredReturn) { senders = append(senders, r.Sender) }); err != nil {
				t.Fatal(err)
			}
			return senders
		}
		if got := read(); got != nil {
			t.Errorf("of an empty bucket: %v", got)
		}
		for _, id := range fleet(100) {
			for _, of := range []*job.Job{j, other} {
				says(t, js, wire.ReturnOf(of.JID, id.Wire()), wire.Return{JID: of.JID, Peel: id, Result: wire.Result{Data: make([]byte, 100<<10)}})
			}
		}
		header := nats.Header{"KV-Operation": {"DEL"}} // of a peel, whose return it does not hide
		if _, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: wire.ReturnOf(j.JID, "evil"), Header: header}); err != nil {
			t.Fatal(err)
		}
		got := read()
		if len(got) != 101 || got[0] != fleet(1)[0].Wire() || got[100] != "evil" {
			t.Errorf("%d returns: %v", len(got), got)
		}
		stream, err := js.Stream(t.Context(), "KV_job-returns")
		if err != nil {
			t.Fatal(err)
		}
		if state := stream.CachedInfo().State; state.Msgs != 201 || state.Consumers != 0 {
			t.Errorf("%d messages, %d consumers are left", state.Msgs, state.Consumers)
		}
	})
}

func TestHeadersOfOnePeelHideNoOther(t *testing.T) {
	bubble(t, func(t *testing.T, s *job.Store, js jetstream.JetStream) {
		j := claim("a", "b", "evil.1", "evil.2", "z")
		j.Status, j.Published, j.Sent = job.Running, 5, time.Now()
		create(t, s, j)
		for id, header := range map[target.PeelID]nats.Header{
			"b": nil, "z": nil,
			"evil.1": {"Status": {"204"}, "Nats-Num-Pending": {"0"}},
			"evil.2": {"Nats-Subject": {wire.ReturnOf(j.JID, "a"), "$KV.job-returns." + string(j.JID) + ".a"}, "Nats-Time-Stamp": {"never"}},
		} {
			data, err := canon.Marshal(wire.Return{JID: j.JID, Peel: id, Result: wire.Result{Success: true}, V: wire.Version})
			if err == nil {
				_, err = js.PublishMsg(t.Context(), &nats.Msg{Subject: wire.ReturnOf(j.JID, id.Wire()), Header: header, Data: data})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		all := rows(t, s, j.JID)
		for id, want := range map[target.PeelID]job.RowState{"a": job.RowWaiting, "b": job.RowOK, "z": job.RowOK} {
			if all[id].State != want {
				t.Errorf("%s is %s, want %s", id, all[id].State, want)
			}
		}
	})
}

func TestReadingFewRowsTakesLittleMemory(t *testing.T) {
	bubble(t, func(t *testing.T, s *job.Store, _ jetstream.JetStream) {
		j := claim("a")
		j.Status, j.Published, j.Sent = job.Running, 1, time.Now()
		create(t, s, j)
		rows(t, s, j.JID)
		const times = 20
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range times {
			rows(t, s, j.JID)
		}
		runtime.ReadMemStats(&after)
		if each := (after.TotalAlloc - before.TotalAlloc) / times; each > 256<<10 {
			t.Errorf("reading one row takes %d KiB", each>>10)
		}
	})
}

func TestRowsOfManyTargetsComeInFewPages(t *testing.T) {
	bubble(t, func(t *testing.T, s *job.Store, _ jetstream.JetStream) {
		long := fleet(2500)
		for i, id := range long {
			long[i] = target.PeelID(strings.Repeat("x", 128-len(id))) + id
		}
		j := claim(long...)
		j.Status, j.Published, j.Sent = job.Running, len(long), time.Now()
		create(t, s, j)
		var got []target.PeelID
		pages := 0
		for more := true; more; pages++ {
			var after target.PeelID
			if len(got) > 0 {
				after = got[len(got)-1]
			}
			page, err := s.Rows(t.Context(), j.JID, after)
			if err != nil {
				t.Fatal(err)
			}
			if data, err := canon.Marshal(page); err != nil || len(data) > 512<<10 {
				t.Fatalf("a page of %d rows takes %d bytes, %v", len(page.Rows), len(data), err)
			}
			for _, row := range page.Rows {
				got = append(got, row.Peel)
			}
			more = page.Next != ""
		}
		if pages > 3 || !slices.Equal(got, j.Targets) {
			t.Errorf("%d rows in %d pages", len(got), pages)
		}
	})
}

// BenchmarkRows reads the first page of a job of 10,000 targets, half of which have returned.
func BenchmarkRows(b *testing.B) {
	bus := natstest.Listen(b)
	js := bus.JetStream(b)
	s, err := job.NewStore(b.Context(), js)
	if err != nil {
		b.Fatal(err)
	}
	j := claim(fleet(10_000)...)
	j.Status, j.Published, j.Sent = job.Running, len(j.Targets), time.Now()
	if err := s.Create(b.Context(), j); err != nil {
		b.Fatal(err)
	}
	for i, id := range j.Targets[:600] {
		if i%2 == 1 {
			continue
		}
		data, err := canon.Marshal(wire.Return{JID: j.JID, Peel: id, Result: wire.Result{Success: true, Data: "pong"}, V: wire.Version})
		if err == nil {
			_, err = js.PublishMsg(b.Context(), job.ReturnMessage(j.JID, id, data))
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	read := 0
	for b.Loop() {
		page, err := s.Rows(b.Context(), j.JID, "")
		if err != nil || len(page.Rows) < 256 {
			b.Fatal(err)
		}
		read += len(page.Rows)
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(read), "µs/row")
}
