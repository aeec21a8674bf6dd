// File acts.go has what operators did to a schedule entry on a peel, by the audit log: pauses, resumes, skips and runs.
// Call [ReadActs] for the list, and [PauseAt] for the pause that held at a time.
//
// The audit log names the first five peels of a job. An act on more peels is likely if its target selects the peel now,
// and unsure if the target cannot be evaluated; an error is never taken for a target that does not select the peel.

package why

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Bounds of what is read.
const (
	pages     = 5  // of 2,000 entries
	mostFound = 50 // acts
)

// An Act is what an operator did to an entry.
type Act struct {
	audit.Entry
	Likely bool   // the log does not name the peel, but the target selects it now
	Unsure string // why it is not known whether the act was on the peel; empty: it was
}

// An ActQuery selects acts. All fields are required.
type ActQuery struct {
	Peel  target.PeelID
	Entry string
	Since time.Time
	// Select returns the peels that an expression selects now, sorted.
	Select func(ctx context.Context, expr string) ([]target.PeelID, error)
}

// ReadActs returns the acts of a query, the oldest first. With an error there may be others, or some of them are
// unsure.
func ReadActs(ctx context.Context, log *audit.Log, q ActQuery) ([]Act, error) {
	r := reader{ActQuery: q, selected: map[string]selection{}}
	query := audit.Query{Action: "job.dispatch", Result: audit.Done, Since: q.Since, Limit: 500}
	for range pages {
		page, err := log.List(ctx, query)
		if err != nil {
			return r.list, err
		}
		for i := range page.Entries {
			r.add(ctx, &page.Entries[i])
		}
		if !page.More || len(r.list) >= mostFound {
			return r.list, r.err()
		}
		query.Before = page.Next
	}
	text := ""
	if len(r.list) == 0 {
		text = ", and none is about the entry"
	}
	return r.list, fmt.Errorf("only the newest %d entries were searched%s", pages*2000, text)
}

// A reader collects acts.
type reader struct {
	ActQuery
	list     []Act
	selected map[string]selection // by target
}

// A selection says whether a target selects the peel now, or why that is not known.
type selection struct {
	has bool
	err error
}

// err returns why it is not known which peels targets select, of two of them at most.
func (r *reader) err() error {
	var errs []error
	for _, expr := range slices.Sorted(maps.Keys(r.selected)) {
		if err := r.selected[expr].err; err != nil && len(errs) < 2 {
			errs = append(errs, fmt.Errorf("cannot tell which peels the target %.100q selects: %w", expr, err))
		}
	}
	return errors.Join(errs...)
}

// changes are the functions that change what an entry does.
var changes = []string{"schedule.pause", "schedule.resume", "schedule.skip", "schedule.run"}

// add adds an entry of the audit log if it is about the entry on the peel, or may be.
func (r *reader) add(ctx context.Context, e *audit.Entry) {
	act := Act{Entry: *e}
	if !slices.Contains(changes, e.Function) || act.argument("entry") != r.Entry {
		return
	}
	if !slices.Contains(e.Peels, string(r.Peel)) {
		if e.Count <= len(e.Peels) {
			return
		}
		switch of := r.selects(ctx, e.Target); {
		case of.err != nil:
			act.Unsure = of.err.Error()
		case !of.has:
			return
		default:
			act.Likely = true
		}
	}
	r.list = slices.Insert(r.list, 0, act) // the log gives the newest first
}

// selects evaluates a target once.
func (r *reader) selects(ctx context.Context, expr string) selection {
	of, known := r.selected[expr]
	if !known {
		var ids []target.PeelID
		ids, of.err = r.Select(ctx, expr)
		_, of.has = slices.BinarySearch(ids, r.Peel)
		r.selected[expr] = of
	}
	return of
}

// PauseAt returns the act by which an operator had paused the entry at a time; nil if none is known. If it is not known
// whether a resume was on the peel, it returns that resume. list has the acts, the oldest first.
func PauseAt(list []Act, at time.Time) *Act {
	var pause *Act
	for i := range list {
		act := &list[i]
		if act.Time.After(at) {
			break
		}
		switch {
		case act.Function == "schedule.pause" && (pause == nil || act.Unsure == ""):
			pause = act
		case act.Function == "schedule.resume" && act.Unsure == "":
			pause = nil
		case act.Function == "schedule.resume" && pause.lasts(at):
			pause = act
		}
	}
	if !pause.lasts(at) {
		return nil
	}
	return pause
}

// lasts reports whether there is a pause that has not ended by itself.
func (a *Act) lasts(at time.Time) bool {
	if a == nil {
		return false
	}
	d, err := strictyaml.ParseDuration(a.argument("for"))
	return err != nil || at.Before(a.Time.Add(d))
}

// By names the operator of the newest act with a function before a time, and the reason, after ": "; empty if none is
// known.
func By(list []Act, function string, at time.Time) string {
	for i := len(list) - 1; i >= 0; i-- {
		if act := &list[i]; act.Function == function && act.Unsure == "" && !act.Time.After(at) {
			return ": " + act.User + act.Because()
		}
	}
	return ""
}

// argument returns an argument of an act; empty if it has none, or none that is text.
func (a *Act) argument(name string) string {
	for rest := a.Args; rest != ""; {
		key, text, found := strings.Cut(rest, "=")
		if !found {
			return ""
		}
		var value any
		d := json.NewDecoder(strings.NewReader(text))
		if d.Decode(&value) != nil {
			return "" // it was cut
		}
		if strings.TrimSpace(key) == name {
			text, _ := value.(string)
			return text
		}
		rest = text[d.InputOffset():]
	}
	return ""
}

// Source names the act as a source of facts.
func (a *Act) Source() string { return fmt.Sprintf("audit log, entry %d", a.Seq) }

// String says what the operator did.
func (a *Act) String() string {
	text := fmt.Sprintf("%s ran %s on %s", a.User, a.Function, oneLine(a.Target))
	if d := a.argument("for"); d != "" {
		text += " for " + d
	}
	text += a.Because()
	switch {
	case a.Likely:
		text += fmt.Sprintf(" (%d peels, which the log does not name)", a.Count)
	case a.Unsure != "":
		text += fmt.Sprintf(
			" (%d peels, which the log does not name; it is not known whether this one was among them)", a.Count,
		)
	}
	return text
}

// Because returns the reason that the operator gave, after ": "; empty if there is none.
func (a *Act) Because() string {
	if reason := a.argument("reason"); reason != "" {
		return ": " + oneLine(reason)
	}
	return ""
}

// oneLine puts a text on one line.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
