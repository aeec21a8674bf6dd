package dispatch_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/dispatch"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// journal is what a master logs, a line an entry.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(line []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(line)
}

// entries are the lines with a message.
func (j *journal) entries(t *testing.T, message string) (found []map[string]any) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	for line := range bytes.Lines(j.text.Bytes()) {
		var e map[string]any
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		if e["msg"] == message && e["level"] == "INFO" {
			found = append(found, e)
		}
	}
	return found
}

func TestTheLogAndTheRecordsAgreeOnWhoAskedForWhat(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		var log journal
		d, _ := s.master("m1", func(o *dispatch.Options) { o.Log = slog.New(slog.NewJSONHandler(&log, nil)) })
		s.peel("a", func(p *peel, r wire.Request) { p.ack(r) })
		spec := ask(func(j *job.Spec) { j.Function, j.Timeout = "cmd.run", time.Hour }, "a", "b")
		s.dispatch(spec)
		if _, err := s.request(s.alice, "alice", ask(nil)); err == nil {
			t.Error("a job without targets was accepted")
		}
		if _, err := d.Cancel(t.Context(), spec.JID, "bob"); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Cancel(t.Context(), spec.JID, "carol"); err == nil {
			t.Error("canceled twice")
		}
		time.Sleep(time.Minute)
		j := s.record(spec.JID)
		for message, user := range map[string]string{"job dispatched": j.User, "job canceled": j.Cancel.By} {
			entries := log.entries(t, message)
			if len(entries) != 1 {
				t.Fatalf("%s: %d entries", message, len(entries))
			}
			e := entries[0]
			if e["jid"] != string(j.JID) || e["user"] != user || e["function"] != j.Function || e["targets"] != float64(j.TargetCount) {
				t.Errorf("the record says %+v, the log %v", j, e)
			}
		}
	})
}
