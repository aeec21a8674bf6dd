package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"runtime"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func returned(id target.PeelID, data string) *wire.Return {
	return &wire.Return{Peel: id, Result: wire.Result{Success: true, Data: data}}
}

// Between the end of a job and the reading of its rows a peel may still return.
func TestAReturnThatComesRightAfterTheEndIsPrintedInEveryForm(t *testing.T) {
	rows := func(yield func(job.Row, error) bool) {
		_ = yield(job.Row{Peel: "p0", State: job.RowOK, Return: returned("p0", "early")}, nil) &&
			yield(job.Row{Peel: "p1", State: job.RowOK, Late: true, Return: returned("p1", "tardy")}, nil) &&
			yield(job.Row{Peel: "p2", State: job.RowMissing}, nil)
	}
	for form, want := range map[form]string{
		formTable: "p0:\n    early\np1:\n    tardy\n    (after the job had ended)\nno answer from 1 of 3 peels, where it may still run:\n    p2\n",
		formJSONL: `{"peel":"p0","status":"ok","data":"early"}
{"peel":"p1","status":"ok","late":true,"data":"tardy"}
{"peel":"p2","status":"missing"}
`,
		formName: "p0\np1\np2\n",
	} {
		var out bytes.Buffer
		r := newReport(&app{out: &out, errOut: io.Discard, output: form}, wire.NewJID(), "test.echo", 3)
		for _, e := range []api.Event{{Peel: "p0", Acked: true}, {Peel: "p0", Return: returned("p0", "early")}, {Ended: &job.Job{Status: job.Partial}}} {
			if err := r.take(e); err != nil {
				t.Fatal(err)
			}
		}
		err := r.finish(rows)
		if f, ok := errors.AsType[*failure](err); !ok || f.code != exitSomeSilent {
			t.Errorf("-o %s ends with %v, want the code of peels that did not answer in time", form, err)
		}
		if out.String() != want {
			t.Errorf("-o %s prints %q, want %q", form, &out, want)
		}
	}
}

// The returns are 16 MiB altogether: none may stay in memory when it is printed, however many there are.
func TestPrintedReturnsAreNotKeptInMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("it measures memory")
	}
	const targets, most = 200, 1 << 20
	id := func(i int) target.PeelID { return target.PeelID(fmt.Sprintf("peel-%05d", i)) }
	rows := func() iter.Seq2[job.Row, error] {
		return func(yield func(job.Row, error) bool) {
			for i := range targets {
				text := fmt.Sprintf("%d %s", i, strings.Repeat("x", 16<<10))
				if !yield(job.Row{Peel: id(i), State: job.RowOK, Return: returned(id(i), text)}, nil) {
					return
				}
			}
		}
	}
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	for _, form := range []form{formTable, formJSON, formJSONL, formYAML} {
		var out counting
		r := newReport(&app{out: &out, errOut: io.Discard, output: form}, wire.NewJID(), "test.echo", targets)
		before := heap()
		n := 0
		for row := range rows() {
			if n++; r.take(api.Event{Peel: row.Peel, Return: row.Return}) != nil {
				t.Fatal(row.Peel)
			}
		}
		r.ended = &job.Job{Status: job.Complete}
		if err := r.finish(rows()); err != nil {
			t.Fatal(err)
		}
		if grown := heap() - before; grown > most {
			t.Errorf("-o %s holds %d MiB when all is printed", form, grown>>20)
		}
		if out.bytes < targets*16<<10 {
			t.Errorf("-o %s printed %d bytes", form, out.bytes)
		}
		runtime.KeepAlive(r)
	}
}

// counting takes what is written and keeps its size.
type counting struct{ bytes int }

func (c *counting) Write(p []byte) (int, error) {
	c.bytes += len(p)
	return len(p), nil
}

// BenchmarkReport is what a terminal costs at the end of a large job: the line about the progress is written anew with
// every event.
func BenchmarkReport(b *testing.B) {
	for _, targets := range []int{1000, 10_000} {
		b.Run(fmt.Sprintf("targets=%d", targets), func(b *testing.B) {
			ids := make([]target.PeelID, targets)
			for i := range ids {
				ids[i] = target.PeelID(fmt.Sprintf("peel-%05d", i))
			}
			for b.Loop() {
				r := newReport(&app{out: io.Discard, errOut: io.Discard, output: formTable}, wire.NewJID(), "test.ping", targets)
				r.progress.width = 80
				for _, id := range ids {
					if r.take(api.Event{Peel: id, Acked: true}) != nil || r.take(api.Event{Peel: id, Return: returned(id, "pong")}) != nil {
						b.Fatal(id)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*targets), "ns/target")
		})
	}
}

// What a model answered comes before what asking it took.
func TestTheAnswerOfAPromptIsPrintedFirst(t *testing.T) {
	text := body(map[string]any{
		"requests": int64(1), "model": "small", "finish_reason": "stop", "duration": "1s", "completion_tokens": int64(3),
		"answer": "The disk is full.", "prompt_tokens": int64(9), "prompt_sha256": "ab",
	})
	if !strings.HasPrefix(text, "answer: The disk is full.\n") {
		t.Error(text)
	}
}
