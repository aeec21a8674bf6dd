package dispatch_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/dispatch"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
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

// TestTheAuditLogSaysWhatRanWhere dispatches under a target expression that says something else.
func TestTheAuditLogSaysWhatRanWhere(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		log := audit.OpenLog(s.js, slog.New(slog.DiscardHandler))
		s.master("m1", func(o *dispatch.Options) { o.Audit = log })
		last := func() audit.Entry {
			t.Helper()
			page, err := log.List(t.Context(), audit.Query{Limit: 1})
			if err != nil || len(page.Entries) != 1 {
				t.Fatal(page, err)
			}
			return page.Entries[0]
		}
		entry := func(spec job.Spec) audit.Entry {
			t.Helper()
			if _, err := s.request(s.alice, "alice", spec); err != nil {
				t.Fatal(err)
			}
			return last()
		}
		spec := ask(func(j *job.Spec) {
			j.Function, j.TargetExpr = "cmd.run", "L@test-host"
			j.Args = map[string]any{"command": "id -u > x", "env": map[string]any{"KEY": "hunter2"}, "stdin": "hunter3"}
		}, "web-01", "db-01")
		e := entry(spec)
		if e.JID != spec.JID || e.Count != 2 || !slices.Equal(e.Peels, []string{"db-01", "web-01"}) || e.Target != "L@test-host" ||
			e.PeelsHash != fmt.Sprintf("%x", sha256.Sum256([]byte("db-01\nweb-01\n"))) {
			t.Errorf("%+v", e)
		}
		if want := `command="id -u > x" env={"KEY":"•••"} stdin="•••"`; e.Args != want {
			t.Errorf("arguments %s, want %s", e.Args, want)
		}

		for _, args := range []map[string]any{
			{"command": "id", "env": "KEY=4711"}, {"command": "id", "env": map[string]any{"KEY": 4711}}, {"command": "id", "stdin": 4711},
		} {
			if _, err := s.request(s.alice, "alice", ask(func(j *job.Spec) { j.Function, j.Args = "cmd.run", args }, "web-01")); err == nil {
				t.Errorf("%v is accepted", args)
			}
			e = last()
			if data, err := json.Marshal(e); err != nil || e.Result != audit.Refused || !strings.Contains(e.Reason, "must be a") || strings.Contains(string(data), "4711") {
				t.Errorf("%s, %v", data, err)
			}
		}

		var many []target.PeelID
		for i := range 1000 {
			many = append(many, target.PeelID(fmt.Sprintf("%s%04d", strings.Repeat("p", 100), i)))
		}
		e = entry(ask(func(j *job.Spec) {
			j.Function, j.TargetExpr = "cmd.run", strings.Repeat("p", 60_000)+"*"
			j.Args = map[string]any{"argv": []any{"echo", strings.Repeat("x", 400_000)}, "cwd": "/srv"}
		}, many...))
		data, err := json.Marshal(e)
		if err != nil || len(data) > 8<<10 || e.Count != 1000 || len(e.Peels) != 5 || !strings.HasSuffix(e.Args, `… cwd="/srv"`) {
			t.Errorf("%d bytes, %d peels named, %v", len(data), len(e.Peels), err)
		}
	})
}

func TestTheLogAndTheRecordsAgreeOnWhoAskedForWhat(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		var log journal
		d, _ := s.master("m1", func(o *dispatch.Options) { o.Log = slog.New(slog.NewJSONHandler(&log, nil)) })
		s.peel("a", func(p *peel, r wire.Request) { p.ack(r) })
		spec := ask(func(j *job.Spec) { j.Function, j.StateID, j.Timeout = "cmd.run", "true", time.Hour }, "a", "b")
		s.dispatch(spec)
		if _, err := s.request(s.alice, "alice", ask(nil)); err == nil {
			t.Error("a job without targets was accepted")
		}
		if _, err := d.Cancel(t.Context(), spec.JID, "bob", ""); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Cancel(t.Context(), spec.JID, "carol", ""); err == nil {
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

// A client repeats a request whose reply was lost. Whoever repeats one for ever does not fill the log.
func TestARequestThatIsRepeatedMakesOneEntry(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		log := audit.OpenLog(s.js, slog.New(slog.DiscardHandler))
		s.master("m1", func(o *dispatch.Options) { o.Audit = log })
		spec := ask(func(*job.Spec) {}, "web-01")
		for i := range 40 {
			if _, err := s.request(s.alice, "alice", spec); err != nil {
				t.Fatal(err)
			}
			if i >= 20 {
				time.Sleep(10 * time.Second)
			}
		}
		page, err := log.List(t.Context(), audit.Query{})
		if err != nil || len(page.Entries) != 1 || page.Entries[0].JID != spec.JID {
			t.Errorf("%d entries, %v", len(page.Entries), err)
		}
	})
}

// A client repeats a request that failed, until it knows what became of it. Each outcome has one entry, and each request
// that asks for something else has its own, also under the ID of the first.
func TestARequestThatIsRepeatedMakesOneEntryOfEachOutcome(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		log := audit.OpenLog(s.js, slog.New(slog.DiscardHandler))
		var full error
		s.master("m1", func(o *dispatch.Options) {
			o.Audit = log
			o.Room = func() error { return full }
			o.Allow = func(_ context.Context, from grants.Caller, spec *job.Spec) error {
				if spec.Function != "test.ping" {
					return fmt.Errorf("%s may not run %s: %w", from.User, spec.Function, grants.ErrNotAllowed)
				}
				return nil
			}
		})
		bob := s.bus.Conn(t, grants.RoleOperator, "bob")
		allowed := ask(func(*job.Spec) {}, "web-01")
		with := func(change func(*job.Spec)) job.Spec {
			spec := ask(change, "web-01")
			spec.JID = allowed.JID
			return spec
		}
		hidden := func(name, value string) func(*job.Spec) {
			return func(j *job.Spec) { j.Function, j.Args = "cmd.run", map[string]any{name: value} }
		}
		for _, r := range []struct {
			times int
			from  *nats.Conn
			user  string
			spec  job.Spec
			full  error
			want  string // of the new entry
		}{
			{5, s.alice, "alice", allowed, errors.New("the bus is full"), "alice test.ping failed"},
			{5, bob, "bob", allowed, errors.New("the bus is full"), "bob test.ping failed"},
			{5, s.alice, "alice", with(func(j *job.Spec) { j.Function, j.StateID = "cmd.run", "id" }), nil, "alice cmd.run refused"},
			{5, s.alice, "alice", with(func(j *job.Spec) { j.Function, j.StateID = "cmd.run", "who" }), nil, "alice cmd.run refused"},
			{5, bob, "bob", with(func(j *job.Spec) { j.Function, j.StateID = "cmd.run", "id" }), nil, "bob cmd.run refused"},
			{5, bob, "bob", with(hidden("stdin", "one")), nil, "bob cmd.run refused"},
			{5, bob, "bob", with(hidden("stdin", "two")), nil, "bob cmd.run refused"},
			{5, bob, "bob", with(hidden("cwd", strings.Repeat("a", 2000)+"1")), nil, "bob cmd.run refused"},
			{5, bob, "bob", with(hidden("cwd", strings.Repeat("a", 2000)+"2")), nil, "bob cmd.run refused"},
			{5, s.alice, "alice", allowed, nil, "alice test.ping done"},
			{5, s.alice, "alice", with(func(j *job.Spec) { j.Timeout = time.Hour }), nil, "alice test.ping refused"},
		} {
			before, err := log.List(t.Context(), audit.Query{})
			if err != nil {
				t.Fatal(err)
			}
			full = r.full
			for range r.times {
				_, _ = s.request(r.from, r.user, r.spec)
				time.Sleep(3 * time.Second)
			}
			page, err := log.List(t.Context(), audit.Query{})
			if err != nil || len(page.Entries) != len(before.Entries)+1 {
				t.Fatalf("%s: %d entries more, %v", r.want, len(page.Entries)-len(before.Entries), err)
			}
			if e := page.Entries[0]; e.JID != allowed.JID || fmt.Sprintf("%s %s %s", e.User, e.Function, e.Result) != r.want {
				t.Errorf("%+v, want %s", e, r.want)
			}
		}
	})
}

// What a record says about an approval is from the record of the held action, whatever the client says.
func TestNobodyForgesAnApproval(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		log := audit.OpenLog(s.js, slog.New(slog.DiscardHandler))
		true3 := wire.NewJID()
		s.master("m1", func(o *dispatch.Options) {
			o.Audit = log
			o.Approved = func(_ context.Context, user string, spec *job.Spec, action string) (map[string]string, error) {
				if user != "alice" || spec.JID != true3 || action != "A3" {
					return nil, fmt.Errorf("%w: not approved", grants.ErrNotAllowed)
				}
				return map[string]string{job.MetaReason: "as asked", job.MetaAskedBy: "bob", job.MetaAgent: "robot 7", job.MetaHeld: "A3"}, nil
			}
		})
		spec := func(jid wire.JID, metadata map[string]string) job.Spec {
			return ask(func(j *job.Spec) { j.JID, j.Metadata = jid, metadata }, "web-01")
		}
		forged := spec(wire.NewJID(), map[string]string{job.MetaAskedBy: "ada", job.MetaReason: "approved by the board"})
		if _, err := s.request(s.alice, "alice", forged); err != nil {
			t.Fatal(err)
		}
		if m := s.record(forged.JID).Metadata; m[job.MetaAskedBy] != "" || m[job.MetaReason] != "approved by the board" {
			t.Errorf("%v", m)
		}
		for _, other := range []job.Spec{spec(wire.NewJID(), map[string]string{job.MetaHeld: "A3"}), spec(true3, map[string]string{job.MetaHeld: "A4"})} {
			if _, err := s.request(s.alice, "alice", other); err == nil || s.active(other.JID) {
				t.Errorf("a job of another action is dispatched, %v", err)
			}
		}
		page, err := log.List(t.Context(), audit.Query{Limit: 1})
		if err != nil || page.Entries[0].Held != "" || page.Entries[0].Result != audit.Refused {
			t.Errorf("%+v, %v", page.Entries, err)
		}
		approved := spec(true3, map[string]string{job.MetaHeld: "A3", job.MetaAskedBy: "ada", job.MetaReason: "another"})
		for range 2 { // repeated as well
			if _, err := s.request(s.alice, "alice", approved); err != nil {
				t.Fatal(err)
			}
		}
		if m := s.record(true3).Metadata; m[job.MetaAskedBy] != "bob" || m[job.MetaReason] != "as asked" || m[job.MetaHeld] != "A3" {
			t.Errorf("%v", m)
		}
	})
}
