package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed-c01c3da5/zester/peel/catalogue"
	"github.com/seed-c01c3da5/zester/settings"
)

// A stateRun is the result of a run of states, as peels return it.
type stateRun struct {
	Test     bool            `json:"test"`
	Commit   settings.Commit `json:"commit"`
	Time     time.Time       `json:"time"`
	Counts   map[string]int  `json:"counts"`
	Duration time.Duration   `json:"duration_ns"`
	States   []stateOutcome  `json:"states"`
	LeftOut  int             `json:"states_left_out"`
	Owed     []string        `json:"owed"`
}

type stateOutcome struct {
	State    string           `json:"state"`
	Function string           `json:"function"`
	Result   string           `json:"result"`
	Reason   string           `json:"reason"`
	Cause    string           `json:"cause"`
	Comment  string           `json:"comment"`
	Origin   *settings.Origin `json:"origin"`
	Changes  []struct {
		Do     string `json:"do"`
		What   string `json:"what"`
		Before string `json:"before"`
		After  string `json:"after"`
		Diff   string `json:"diff"`
	} `json:"changes"`
}

// A stateResult is how a result of a state is shown.
type stateResult struct{ mark, text, colour string }

var stateResults = map[string]stateResult{
	"unchanged":    {"=", "unchanged", ""},
	"changed":      {"~", "changed", yellow},
	"would_change": {"~", "would change", yellow},
	"failed":       {"!", "failed", red},
	"unknown":      {"?", "unknown", yellow},
	"skipped":      {"-", "skipped", ""},
}

// errNoRun: the data of a function are no result of a run.
var errNoRun = errors.New("not the result of a run of states")

// viewRun prints the result of a run: the states with their changes, then the counts.
func viewRun(data []byte, s screen) (string, error) {
	var r stateRun
	if err := json.Unmarshal(data, &r); err != nil {
		return "", err
	}
	if r.Counts == nil {
		return "", errNoRun
	}
	var b strings.Builder
	names, functions := 0, 0
	for _, o := range r.States {
		names, functions = max(names, utf8.RuneCountInString(o.State)), max(functions, len(o.Function))
	}
	for _, o := range r.States {
		b.WriteString(o.line(min(names, maxStateName), functions, s) + "\n")
		b.WriteString(o.details(s))
	}
	if r.LeftOut > 0 {
		fmt.Fprintf(&b, "%s more: the result was too large\n", count(r.LeftOut, "state"))
	}
	if r.Test {
		b.WriteString("test, nothing was changed: ")
	}
	b.WriteString(countsLine(r.Counts) + "\n")
	if len(r.Owed) > 0 {
		fmt.Fprintf(&b, "%s still to be made by the next run: %s\n", count(len(r.Owed), "reaction"),
			plain(strings.Join(r.Owed, ", ")))
	}
	return b.String(), nil
}

// viewLast prints when a run was and its result.
func viewLast(data []byte, s screen) (string, error) {
	var r stateRun
	if err := json.Unmarshal(data, &r); err != nil {
		return "", err
	}
	text, err := viewRun(data, s)
	return fmt.Sprintf("%s, commit %s, took %s\n", when(r.Time), cmp.Or(r.Commit.Short(), "-"),
		duration(r.Duration.Round(time.Millisecond))) + text, err
}

// maxStateName is the width of the column of names; longer ones move what is after them.
const maxStateName = 40

// line returns the line of a state: mark, name, function, result and, if there is room, its place in the config repo.
func (o *stateOutcome) line(names, functions int, s screen) string {
	shown, known := stateResults[o.Result]
	if !known {
		shown = stateResult{"?", plain(o.Result), ""}
	}
	result := shown.text
	if why := o.Cause + o.Reason; why != "" { // a state has one of them at most
		result += ": " + plain(strings.ReplaceAll(why, "_", " "))
	}
	before := fmt.Sprintf("%s %-*s  %-*s  ", shown.mark, names, plain(o.State), functions, plain(o.Function))
	place := ""
	if o.Origin != nil {
		place = fmt.Sprintf("  (%s:%d)", plain(o.Origin.File), o.Origin.Line)
	}
	if s.width > 0 && utf8.RuneCountInString(before+result+place) > s.width {
		place = ""
	}
	if s.colours {
		result = painted(shown.colour, result)
	}
	return before + result + place
}

// details returns the changes and the comment of a state.
func (o *stateOutcome) details(s screen) string {
	var b strings.Builder
	for _, c := range o.Changes {
		b.WriteString(plain(c.Do + " " + c.What))
		switch {
		case c.Before != "" && c.After != "":
			b.WriteString(plain(": " + c.Before + " → " + c.After))
		case c.Before+c.After != "":
			b.WriteString(plain(": " + c.Before + c.After))
		}
		b.WriteString("\n")
		for line := range strings.Lines(c.Diff) {
			b.WriteString(diffLine(plain(strings.TrimRight(line, "\r\n")), s.colours) + "\n")
		}
	}
	b.WriteString(endLine(plain(o.Comment)))
	return indented(b.String())
}

// diffLine paints an added or removed line of a diff.
func diffLine(line string, colours bool) string {
	switch {
	case !colours:
	case strings.HasPrefix(line, "+"):
		return painted(green, line)
	case strings.HasPrefix(line, "-"):
		return painted(red, line)
	}
	return line
}

// countsLine says how many states have each result: "2 changed, 12 unchanged".
func countsLine(counts map[string]int) string {
	var parts []string
	for _, result := range []string{"failed", "changed", "would_change", "unknown", "unchanged", "skipped"} {
		if n := counts[result]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, stateResults[result].text))
		}
	}
	if parts == nil {
		return "no states"
	}
	return strings.Join(parts, ", ")
}

// addStates adds the counts of a run of states on a peel to those of the other peels.
func (r *report) addStates(data any) {
	if !catalogue.RunsStates(r.function) {
		return
	}
	fields, _ := data.(map[string]any)
	counts, _ := fields["counts"].(map[string]any)
	for result, n := range counts {
		if n, isNumber := n.(int64); isNumber {
			if r.states == nil {
				r.states = map[string]int{}
			}
			r.states[result] += int(n)
		}
	}
}

// printStates prints how many states of all peels have each result, if there are several peels.
func (r *report) printStates() {
	if r.states != nil && r.targets > 1 {
		fmt.Fprintf(r.a.out, "states of %s: %s\n", count(r.returned, "peel"), countsLine(r.states))
	}
}

// viewKept prints the files that a host keeps, or that were restored.
func viewKept(data []byte, _ screen) (string, error) {
	var all []struct {
		Run  int       `json:"run"`
		Time time.Time `json:"time"`
		Path string    `json:"path"`
		Kind string    `json:"kind"`
		Mode string    `json:"mode"`
		Size int64     `json:"size"`
	}
	if err := json.Unmarshal(data, &all); err != nil {
		return "", err
	}
	if len(all) == 0 {
		return "nothing is kept\n", nil
	}
	var b strings.Builder
	for _, k := range all {
		fmt.Fprintf(&b, "run %d  %s  %s %s  %d bytes  %s\n", k.Run, when(k.Time), k.Kind, k.Mode, k.Size, plain(k.Path))
	}
	return b.String(), nil
}

// viewStates prints the states of a peel in their order, with what the settings say.
func viewStates(data []byte, s screen) (string, error) {
	var shown struct {
		Commit settings.Commit `json:"commit"`
		States []struct {
			State    string           `json:"state"`
			Function string           `json:"function"`
			Written  map[string]any   `json:"written"`
			Origin   *settings.Origin `json:"origin"`
		} `json:"states"`
	}
	if err := json.Unmarshal(data, &shown); err != nil {
		return "", err
	}
	if len(shown.States) == 0 {
		return "no states\n", nil
	}
	var b strings.Builder
	for _, x := range shown.States {
		place := ""
		if x.Origin != nil {
			place = fmt.Sprintf("  (%s:%d)", x.Origin.File, x.Origin.Line)
		}
		fmt.Fprintln(&b, plain(x.State+":"+place))
		b.WriteString(indented(plain(body(x.Written))))
	}
	fmt.Fprintf(&b, "%s, commit %s\n", count(len(shown.States), "state"), shown.Commit.Short())
	return b.String(), nil
}
