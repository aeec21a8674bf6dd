package job_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func TestStatusTable(t *testing.T) {
	for targets := range 4 {
		for returned := range targets + 1 {
			for succeeded := range returned + 1 {
				for _, canceled := range []bool{false, true} {
					for _, reason := range []string{"", "reclaimed 4 times"} {
						for stopped := range returned - succeeded + 1 {
							e := job.End{
								Targets: targets, Returned: returned, Succeeded: succeeded,
								Canceled: canceled, Stopped: stopped, Reason: reason,
							}
							if got, want := e.Status(), wanted(e); got != want {
								t.Errorf("%+v ends %s, want %s", e, got, want)
							}
						}
					}
				}
			}
		}
	}
}

// wanted says the table row by row, each with its whole condition.
func wanted(e job.End) job.Status {
	all := e.Returned == e.Targets
	var rows []job.Status
	for _, row := range []struct {
		holds bool
		s     job.Status
	}{
		{e.Reason != "", job.Failed},
		{e.Reason == "" && all && e.Succeeded == e.Targets, job.Complete},
		{e.Reason == "" && all && e.Succeeded < e.Targets && !(e.Canceled && e.Stopped > 0), job.Failed},
		{e.Reason == "" && !all && e.Canceled, job.Canceled},
		{e.Reason == "" && all && e.Canceled && e.Stopped > 0, job.Canceled},
		{e.Reason == "" && !all && !e.Canceled && e.Returned > 0, job.Partial},
		{e.Reason == "" && !all && !e.Canceled && e.Returned == 0, job.Timeout},
	} {
		if row.holds {
			rows = append(rows, row.s)
		}
	}
	if len(rows) != 1 {
		return job.Status(fmt.Sprint("ambiguous: ", rows))
	}
	return rows[0]
}

func TestFinalStatusesAreThoseThatEndAJob(t *testing.T) {
	for status, final := range map[job.Status]bool{
		job.Pending: false, job.Claimed: false, job.Running: false, "": false, "done": false,
		job.Complete: true, job.Partial: true, job.Timeout: true, job.Failed: true, job.Canceled: true,
	} {
		if status.Final() != final {
			t.Errorf("%q: final is %v", status, !final)
		}
	}
}

func TestAReasonDoesNotChangeSharedMetadata(t *testing.T) {
	shared := map[string]string{"ticket": "7"}
	j := job.Job{Spec: job.Spec{Metadata: shared}}
	j.Finish(job.End{Targets: 1, Reason: "no watcher"}, time.Now())
	if j.Metadata[job.MetaFailedReason] != "no watcher" || j.Metadata["ticket"] != "7" || len(shared) != 1 {
		t.Errorf("job has %v, what it was made from %v", j.Metadata, shared)
	}
}

func spec(change func(*job.Spec)) job.Spec {
	s := job.Spec{JID: wire.NewJID(), Function: "test.ping", Targets: []target.PeelID{"web-02", "web-01"}}
	change(&s)
	return s
}

func TestNormalizeSortsTargetsAndFillsTheTimeout(t *testing.T) {
	given := []target.PeelID{"b", "a", "b"}
	s := spec(func(s *job.Spec) { s.Targets = given })
	if err := s.Normalize(time.Now()); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(s.Targets, []target.PeelID{"a", "b"}) || s.Timeout != job.DefaultTimeout {
		t.Errorf("%+v", s)
	}
	if given[0] != "b" {
		t.Error("the caller's list was sorted")
	}
}

func TestNormalizeRefuses(t *testing.T) {
	now := time.Now()
	for want, change := range map[string]func(*job.Spec){
		"is not a job ID":           func(s *job.Spec) { s.JID = "7" },
		"in the future":             func(s *job.Spec) { s.JID = "aWgEPTl1tmebfsQzFP4bxwgy80V" },
		"is not the name":           func(s *job.Spec) { s.Function = "ping" },
		"is not the name of":        func(s *job.Spec) { s.Function = "cmd.run; rm" },
		"timeout of -1s":            func(s *job.Spec) { s.Timeout = -time.Second },
		"timeout of 1ms":            func(s *job.Spec) { s.Timeout = time.Millisecond },
		"timeout of 25h":            func(s *job.Spec) { s.Timeout = 25 * time.Hour },
		"arguments take":            func(s *job.Spec) { s.Args = map[string]any{"a": strings.Repeat("x", job.MaxArgs)} },
		"ID argument takes":         func(s *job.Spec) { s.StateID = strings.Repeat("x", job.MaxStateID+1) },
		"target expression takes":   func(s *job.Spec) { s.TargetExpr = strings.Repeat("x", job.MaxExpr+1) },
		"is for masters to write":   func(s *job.Spec) { s.Metadata = map[string]string{job.MetaSource: job.SourceSchedule} },
		"more than 1024 bytes":      func(s *job.Spec) { s.Metadata = map[string]string{"k": strings.Repeat("x", 1025)} },
		"pairs of metadata":         func(s *job.Spec) { s.Metadata = many(33) },
		"wait 25h0m0s for targets":  func(s *job.Spec) { s.WhenOnline = 25 * time.Hour },
		"batches of 0 targets":      func(s *job.Spec) { s.Batch = &job.Batch{} },
		"limit of -1 failures":      func(s *job.Spec) { s.Batch = &job.Batch{Size: 1, MaxFailures: -1} },
		"5 batches could take 20h0": func(s *job.Spec) { s.Batch, s.Timeout, s.Targets = &job.Batch{Size: 2}, 20*time.Hour, fleet(9) },
		"no targets":                func(s *job.Spec) { s.Targets = nil },
		"100001 targets":            func(s *job.Spec) { s.Targets = make([]target.PeelID, job.MaxTargets+1) },
		"peel ID":                   func(s *job.Spec) { s.Targets = []target.PeelID{"a b"} },
		"a.b and a_b are one peel":  func(s *job.Spec) { s.Targets = []target.PeelID{"a.b", "a_b"} },
		"allowed are letters, digi": func(s *job.Spec) { s.Targets = []target.PeelID{"*"} },
	} {
		s := spec(change)
		if err := s.Normalize(now); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "cannot run job") {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func many(n int) map[string]string {
	m := map[string]string{}
	for i := range n {
		m[fmt.Sprint(i)] = ""
	}
	return m
}

func TestAClientADayAheadIsServed(t *testing.T) {
	s := spec(func(*job.Spec) {})
	if err := s.Normalize(time.Now().Add(-24 * time.Hour)); err != nil {
		t.Error(err)
	}
}

func TestIntentIsAllThatWasAskedFor(t *testing.T) {
	base := spec(func(s *job.Spec) {
		s.JID, s.Args, s.Metadata = "2hPx1FNsSgJMqVn5bLSTXeBQMpO", map[string]any{"n": 1}, map[string]string{"k": "v"}
	})
	same := base
	same.Args, same.Metadata, same.Targets = map[string]any{"n": int64(1)}, maps.Clone(base.Metadata), slices.Clone(base.Targets)
	if !base.SameIntent(&same) {
		t.Error("a repetition is taken for another intent")
	}
	for what, change := range map[string]func(*job.Spec){
		"function": func(s *job.Spec) { s.Function = "cmd.run" },
		"args":     func(s *job.Spec) { s.Args = map[string]any{"n": 2} },
		"state id": func(s *job.Spec) { s.StateID = "x" },
		"targets":  func(s *job.Spec) { s.Targets = s.Targets[:1] },
		"expr":     func(s *job.Spec) { s.TargetExpr = "*" },
		"timeout":  func(s *job.Spec) { s.Timeout = time.Hour },
		"metadata": func(s *job.Spec) { s.Metadata = nil },
		"jid":      func(s *job.Spec) { s.JID = wire.NewJID() },
		"batch":    func(s *job.Spec) { s.Batch = &job.Batch{Size: 1} },
		"patience": func(s *job.Spec) { s.WhenOnline = time.Hour },
	} {
		other := same
		if change(&other); base.SameIntent(&other) {
			t.Errorf("another %s is taken for the same intent", what)
		}
	}
}

func FuzzNormalize(f *testing.F) {
	for _, s := range []job.Spec{spec(func(*job.Spec) {}), {}, {JID: "x", Targets: []target.PeelID{"*", ""}, Timeout: -1}} {
		data, err := canon.Marshal(s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	now := time.Now()
	f.Fuzz(func(t *testing.T, data []byte) {
		var s job.Spec
		if canon.Unmarshal(data, &s) != nil || s.Normalize(now) != nil {
			return
		}
		again := s
		if err := again.Normalize(now); err != nil || !again.SameIntent(&s) {
			t.Errorf("normalising twice: %v\n%+v\n%+v", err, s, again)
		}
	})
}

// FuzzJobInJSON has any text, which a client of REST reads as a job.
func FuzzJobInJSON(f *testing.F) {
	f.Add([]byte(`{"jid":"x","timeout":"1m30s","when_online":"72h"}`))
	f.Add([]byte(`{"timeout":"0s","when_online":""}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var j, again job.Job
		if json.Unmarshal(data, &j) != nil {
			return
		}
		written, err := json.Marshal(j)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(written, &again); err != nil || again.Timeout != j.Timeout || again.WhenOnline != j.WhenOnline || again.JID != j.JID {
			t.Errorf("%s is read as %+v, written as %s and read as %+v, %v", data, j, written, again, err)
		}
	})
}

func TestStatesHaveMoreTime(t *testing.T) {
	for function, want := range map[string]time.Duration{
		"test.ping": time.Minute, "cmd.run": time.Minute, "state.last": time.Minute, "service.restart": time.Minute,
		"state.apply": 10 * time.Minute, "state.highstate": 10 * time.Minute, "pkg.installed": 10 * time.Minute,
	} {
		if got := job.TimeoutOf(function); got != want {
			t.Errorf("%s has %v, want %v", function, got, want)
		}
	}
}
