package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// outcome is one target in the data that a dispatch and `job show` print.
type outcome struct {
	Peel     target.PeelID `json:"peel"`
	Status   job.RowState  `json:"status"`
	Data     any           `json:"data,omitempty"`
	Error    string        `json:"error,omitempty"`
	Duration time.Duration `json:"duration_ns,omitempty"`
}

// answer is what a dispatch prints as data.
type answer struct {
	JID     wire.JID   `json:"jid"`
	Status  job.Status `json:"status"`
	Targets []outcome  `json:"targets"`
}

// A report gathers what becomes of a job and prints it: for people as it comes, for programs at the end.
type report struct {
	a        *app
	spec     job.Spec
	progress *progress
	returns  map[target.PeelID]*wire.Return
	ended    *job.Job
}

func newReport(a *app, spec job.Spec) *report {
	r := &report{a: a, spec: spec, progress: newProgress(a.errOut), returns: map[target.PeelID]*wire.Return{}}
	r.showProgress()
	return r
}

func (r *report) showProgress() {
	r.progress.show("%d of %s returned", len(r.returns), count(len(r.spec.Targets), "peel"))
}

func (r *report) take(e api.Event) {
	switch {
	case e.Return != nil:
		r.returns[e.Peel] = e.Return
		if r.a.output == formTable {
			r.progress.clear()
			fmt.Fprint(r.a.out, section(e.Peel, viewed(r.spec.Function, &e.Return.Result)))
		}
		r.showProgress()
	case e.Ended != nil:
		r.ended = e.Ended
	}
}

// end prints what is left to say and returns the job's exit code as a failure. The states are those of the targets
// that did not return.
func (r *report) end(states map[target.PeelID]job.RowState) error {
	r.progress.clear()
	out := answer{JID: r.spec.JID, Status: r.ended.Status}
	var names []string
	var silent []target.PeelID
	failed := 0
	for _, id := range r.spec.Targets {
		o := outcomeOf(job.Row{Peel: id, State: job.StateOf(r.ended.Status, r.returns[id]), Return: r.returns[id]})
		if state, known := states[id]; known {
			o.Status = state
		}
		switch {
		case silentRow(o.Status):
			silent = append(silent, id)
		case failedRow(o.Status):
			failed++
		}
		out.Targets, names = append(out.Targets, o), append(names, string(id))
	}
	reason := r.ended.Metadata[job.MetaFailedReason]
	err := r.a.print(out, names, func() error {
		if reason == "" {
			fmt.Fprint(r.a.out, silence(silent, len(r.spec.Targets)))
		}
		return nil
	})
	if err != nil {
		return err
	}
	if reason != "" {
		return &failure{code: exitFailed, err: fmt.Errorf("job %s could not be run: %s", r.spec.JID, reason)}
	}
	return jobFailure(r.ended.Status, failed, len(silent))
}

// silence lists the peels that did not answer, for people.
func silence(ids []target.PeelID, targets int) string {
	if len(ids) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "no answer from %d of %s:\n", len(ids), count(targets, "peel"))
	for _, id := range ids {
		fmt.Fprintf(&b, "    %s\n", id)
	}
	return b.String()
}

// jobFailure is nil for a job whose targets all succeeded, else the failure that only carries the exit code.
func jobFailure(s job.Status, failed, silent int) error {
	switch {
	case s == job.Canceled:
		return &failure{code: exitCanceled}
	case failed > 0 && silent > 0:
		return &failure{code: exitBoth}
	case silent > 0:
		return &failure{code: exitSomeSilent}
	case failed > 0:
		return &failure{code: exitSomeFailed}
	}
	return nil
}

func outcomeOf(row job.Row) outcome {
	o := outcome{Peel: row.Peel, Status: row.State}
	if r := row.Return; r != nil {
		o.Data, o.Error, o.Duration = textual(r.Data), r.Error, r.Duration
	}
	return o
}

// textual marks bytes that are not text, which JSON and YAML cannot hold: {"base64": "…"}.
func textual(v any) any {
	switch v := v.(type) {
	case []byte:
		return textual(string(v))
	case string:
		if !utf8.ValidString(v) {
			return map[string]string{"base64": base64.StdEncoding.EncodeToString([]byte(v))}
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = textual(e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = textual(e)
		}
		return out
	}
	return v
}

// section is one peel's return for people: its name, then what it returned, indented.
func section(id target.PeelID, r *wire.Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:\n", id)
	text := body(r.Data)
	if !r.Success {
		text = endLine(text) + "failed: " + r.Error
	}
	for line := range strings.Lines(strings.Trim(text, "\n")) {
		b.WriteString("    " + plain(strings.TrimRight(line, "\r\n")) + "\n")
	}
	return b.String()
}

// body is a value as text: a command's output as it was, text as it is, anything else as YAML.
func body(data any) string {
	switch v := data.(type) {
	case nil:
		return ""
	case string:
		return v
	case []byte:
		return string(v)
	case map[string]any:
		if _, ok := v["stdout"]; ok {
			return endLine(body(v["stdout"])) + body(v["stderr"])
		}
	}
	var b bytes.Buffer
	if err := encodeYAML(&b, textual(data)); err != nil {
		return err.Error()
	}
	return b.String()
}

// endLine gives text that is not empty a newline at its end.
func endLine(text string) string {
	if text == "" || strings.HasSuffix(text, "\n") {
		return text
	}
	return text + "\n"
}
