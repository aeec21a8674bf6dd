package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// outcome is one target in the data of a dispatch and of `job show`.
type outcome struct {
	Peel     target.PeelID `json:"peel"`
	Status   job.RowState  `json:"status"`
	Late     bool          `json:"late,omitempty"` // it returned after the job had ended
	Data     any           `json:"data,omitzero"`
	Error    string        `json:"error,omitempty"`
	Duration time.Duration `json:"duration_ns,omitempty"`
}

// answer is the data of a dispatch, before its targets.
type answer struct {
	JID    wire.JID   `json:"jid,omitempty"` // empty with --direct
	Status job.Status `json:"status"`
}

// A report prints the returns of a job, for people as they come. It stores which peels have returned. It stores what
// they returned only with --group, and equal returns once.
type report struct {
	a        *app
	jid      wire.JID
	function string
	targets  int
	progress *progress
	heard    map[target.PeelID]bool // peels that sent an ack (false) or a return (true)
	returned int                    // number of peels that returned
	failed   int
	groups   []*equalReturns
	byText   map[string]*equalReturns // the same groups
	states   map[string]int           // number of states of all peels by result; nil if the function runs no states
	ended    *job.Job
}

// equalReturns holds the peels whose returns have the same text.
type equalReturns struct {
	text  string
	peels []target.PeelID
}

func newReport(a *app, jid wire.JID, function string, targets int) *report {
	r := &report{
		a:        a,
		jid:      jid,
		function: function,
		targets:  targets,
		progress: newProgress(a.errOut),
		heard:    map[target.PeelID]bool{},
	}
	r.showProgress()
	return r
}

func (r *report) showProgress() {
	if r.progress.width > 0 {
		r.progress.show("%d of %s returned, %d failed, %d silent", r.returned, count(r.targets, "peel"), r.failed,
			r.targets-len(r.heard))
	}
}

func (r *report) take(e api.Event) (err error) {
	switch {
	case e.Acked:
		if _, known := r.heard[e.Peel]; !known {
			r.heard[e.Peel] = false
		}
	case e.Return != nil:
		if !r.heard[e.Peel] {
			r.returned++
		}
		r.heard[e.Peel] = true
		row := job.Row{
			Peel:   e.Peel,
			State:  job.StateOf(job.Running, e.Return),
			Return: r.a.dispatching.secrets.open(e.Return),
		}
		if row.State != job.RowOK {
			r.failed++
		}
		r.addStates(e.Return.Data)
		if r.a.dispatching.only.shows(row.State) {
			r.progress.clear()
			err = r.print(row)
		}
	case e.Ended != nil:
		r.ended = e.Ended
		return nil
	}
	r.showProgress()
	return err
}

// print prints a row in the forms that are printed before the job ends.
func (r *report) print(row job.Row) error {
	switch r.a.output {
	case formJSONL:
		return encode(r.a.out, outcomeOf(row), "", "")
	case formTable, formWide:
		r.printText(row)
	}
	return nil
}

// printText prints a row for people.
func (r *report) printText(row job.Row) {
	text := "    " + unanswered[row.State] + "\n"
	if row.Return != nil {
		text = viewed(r.function, &row.Return.Result, r.a.screen())
	}
	if row.Late {
		text += "    (after the job had ended)\n"
	}
	if r.a.dispatching.group {
		r.fold(row.Peel, text)
		return
	}
	name := string(row.Peel) + ":"
	if r.a.colours() {
		name = painted(stateColour(string(row.State)), name)
	}
	fmt.Fprintf(r.a.out, "%s\n%s", name, text)
}

func (r *report) fold(id target.PeelID, text string) {
	g := r.byText[text]
	if g == nil {
		g = &equalReturns{text: text}
		r.groups = append(r.groups, g)
		if r.byText == nil {
			r.byText = map[string]*equalReturns{}
		}
		r.byText[text] = g
	}
	g.peels = append(g.peels, id)
}

// printGroups prints equal returns once, the largest group of peels first.
func (r *report) printGroups() {
	sorting.Stable(r.groups, func(a, b *equalReturns) int { return len(b.peels) - len(a.peels) })
	for _, g := range r.groups {
		slices.Sort(g.peels)
		names := make([]string, len(g.peels))
		for i, id := range g.peels {
			names[i] = string(id)
		}
		fmt.Fprintf(r.a.out, "%s: %s\n%s", count(len(names), "peel"), strings.Join(names, ", "), g.text)
	}
}

// end calls finish with the rows that the masters have.
func (r *report) end(ctx context.Context, client *api.Client) error {
	r.progress.clear()
	return r.finish(client.EndedRows(ctx, r.jid))
}

// finish prints the rows that were not printed before, and returns the failure with the exit code of the job. It reads
// the rows only if it needs them.
func (r *report) finish(rows iter.Seq2[job.Row, error]) error {
	absent, late := map[job.RowState][]target.PeelID{}, 0
	list := listing{a: r.a, head: answer{JID: r.jid, Status: r.ended.Status}, field: "targets"}
	if r.returned < r.targets || r.a.output == formJSON || r.a.output == formYAML || r.a.output == formName {
		for row, err := range rows {
			if err != nil {
				return err
			}
			if row.Return == nil {
				absent[row.State] = append(absent[row.State], row.Peel)
			} else if !r.heard[row.Peel] {
				late++
			}
			row.Return = r.a.dispatching.secrets.open(row.Return)
			if err := r.listed(&list, row); err != nil {
				return err
			}
		}
	}
	if err := list.end(); err != nil {
		return err
	}
	notRun := notRunFailure(r.ended, r.jid)
	if r.a.output == formTable || r.a.output == formWide {
		r.printGroups()
		r.printStates()
		if notRun == nil {
			r.printAbsent(absent)
		}
	}
	if notRun != nil {
		return notRun
	}
	return jobFailure(r.ended.Status, r.failed+len(absent[job.RowSkipped]), len(absent[job.RowMissing])+late)
}

// listed prints a row after the end of a job, unless it was printed when the return came. A return that came after the
// end was not printed.
func (r *report) listed(list *listing, row job.Row) error {
	people := r.a.output == formTable || r.a.output == formWide
	switch {
	case !r.a.dispatching.only.shows(row.State):
		return nil
	case row.Return != nil && !r.heard[row.Peel] && people:
		r.printText(row)
		return nil
	case row.Return != nil && r.heard[row.Peel] && r.a.output == formJSONL:
		return nil
	}
	return list.add(outcomeOf(row))
}

// printAbsent lists the peels that returned nothing, for people.
func (r *report) printAbsent(absent map[job.RowState][]target.PeelID) {
	for _, state := range []job.RowState{job.RowMissing, job.RowSkipped} {
		ids := absent[state]
		if len(ids) == 0 || !r.a.dispatching.only.shows(state) {
			continue
		}
		what, more := "no answer from", ", where it may still run"
		if state == job.RowSkipped {
			what, more = "not asked, the job ended before:", ""
		}
		fmt.Fprintf(r.a.out, "%s %d of %s%s:\n", what, len(ids), count(r.targets, "peel"), more)
		for _, id := range ids {
			fmt.Fprintf(r.a.out, "    %s\n", id)
		}
	}
}

// notRunFailure returns the failure of a job that could not be run, nil for other jobs.
func notRunFailure(ended *job.Job, jid wire.JID) error {
	if reason := ended.Metadata[job.MetaFailedReason]; reason != "" {
		return &failure{code: exitFailed, err: fmt.Errorf("job %s could not be run: %s", jid, reason)}
	}
	return nil
}

// jobFailure returns nil if all targets succeeded, else a failure with the exit code and without an error.
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
	o := outcome{Peel: row.Peel, Status: row.State, Late: row.Late}
	if r := row.Return; r != nil {
		o.Data, o.Error, o.Duration = textual(r.Data), r.Error, r.Duration
	}
	return o
}

// textual replaces bytes that are not UTF-8, which JSON and YAML cannot hold, by {"base64": "…"}.
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

// section returns the text of one result for people, indented.
func section(r *wire.Result) string {
	var b strings.Builder
	text := body(r.Data)
	if !r.Success {
		text = endLine(text) + "failed: " + r.Error
	}
	for line := range strings.Lines(strings.Trim(text, "\n")) {
		b.WriteString(plain(strings.TrimRight(line, "\r\n")) + "\n")
	}
	return indented(b.String())
}

const indent = "    "

// indented returns a text with an indent before each line.
func indented(text string) string {
	var b strings.Builder
	for line := range strings.Lines(endLine(text)) {
		b.WriteString(indent + line)
	}
	return b.String()
}

// body returns a value as text: the output of a command, a string unchanged, anything else as YAML.
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

// endLine adds a newline to text that lacks one and is not empty.
func endLine(text string) string {
	if text == "" || strings.HasSuffix(text, "\n") {
		return text
	}
	return text + "\n"
}
