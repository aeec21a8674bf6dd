package otel

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

const aJob wire.JID = "2MiKxgDj2SNKWVFZjKqpTMhKvVu"

// FuzzEndedJob holds that whatever reads as the end of a job gives a span with bounded texts and valid times.
func FuzzEndedJob(f *testing.F) {
	for _, j := range []job.Job{{Spec: job.Spec{JID: aJob, Function: "f"}, Status: job.Failed, Created: time.Unix(1, 2), Updated: time.Date(2500, 1, 1, 0, 0, 0, 0, time.UTC)}, {}} {
		data, err := canon.Marshal(wire.Event{JID: aJob, Data: j})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		j, err := endedJob(&nats.Msg{Subject: wire.StatusOf(aJob), Data: data})
		if err != nil {
			return
		}
		check(t, jobSpanOf(j))
	})
}

// FuzzRun does the same for returns.
func FuzzRun(f *testing.F) {
	for _, r := range []wire.Return{{JID: aJob, Peel: "p.1", Result: wire.Result{Error: "x", Duration: -1}, Finished: time.Unix(1, 2)}, {JID: aJob, Peel: "p.1"}, {}} {
		data, err := canon.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := runOf(&job.Job{Spec: job.Spec{JID: aJob, Function: "f"}}, job.StoredReturn{Sender: "p_1", Data: data})
		if err != nil {
			return
		}
		check(t, s)
	})
}

// FuzzAnswer holds that no answer of a collector refuses more spans than were sent.
func FuzzAnswer(f *testing.F) {
	for _, a := range []string{"", "{}", `{"partialSuccess":{"rejectedSpans":"3"}}`, `{"partialSuccess":{"rejectedSpans":-1}}`, `{"partialSuccess":null}`, "<html>"} {
		f.Add([]byte(a))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if n, err := readAnswer(data, 5); n > 5 || err != nil && n != 0 {
			t.Errorf("%d, %v", n, err)
		}
	})
}

func check(t *testing.T, s span) {
	t.Helper()
	data, err := json.Marshal(request([]span{s}))
	if err != nil || len(data) > 16<<10 {
		t.Errorf("%d bytes, %v", len(data), err)
	}
	if s.Start < 0 || s.End < s.Start || len(s.TraceID) != 32 || len(s.SpanID) != 16 {
		t.Errorf("%+v", s)
	}
}

func TestTimesThatNoSpanCanHave(t *testing.T) {
	for _, at := range []time.Time{{}, time.Unix(-1, 0), time.Date(2500, 1, 1, 0, 0, 0, 0, time.UTC)} {
		if n := nanoseconds(at); n != 0 {
			t.Errorf("%v is %d", at, n)
		}
	}
	start := time.Unix(1_700_000_000, 0)
	if s := newSpan(aJob, "x", "n", start, start.Add(-time.Hour)); s.End != s.Start {
		t.Errorf("a span from %d to %d", s.Start, s.End)
	}
}
