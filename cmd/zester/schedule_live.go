package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/catalogue"
	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/scheduler"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// A liveCommand runs a function of the schedule on the peels of a target.
type liveCommand struct {
	function, short, long string
	entry                 bool     // it concerns one entry
	options               []string // of liveOptions
	propose               bool     // it has --propose
}

// liveOptions are the flags that are arguments of functions.
var liveOptions = map[string]string{
	"reason": "`REASON` to record",
	"for":    "only for this `DURATION`, such as 90m or 2d",
	"from":   "`INSTANT` of the first fire, such as 2026-06-01T09:00:00+01:00 (default: 7 days ago)",
	"to":     "`INSTANT` of the last fire (default: now)",
}

func (a *app) liveCommands() []*cobra.Command {
	var commands []*cobra.Command
	for _, c := range []liveCommand{
		{function: "schedule.list", short: "List the entries of peels, their state and next times"},
		{function: "schedule.history", short: "Show the counters of an entry and its last runs", entry: true},
		{
			function: "schedule.fires",
			short:    "Show what became of each fire of an entry in 7 days",
			entry:    true,
			options:  []string{"from", "to"},
			long:     "Fires that are alike and equally far apart are one row, with their number.",
		},
		{
			function: "schedule.run", short: "Start an entry now, without waiting for its end", entry: true,
			long: "It ignores windows and the breaker, but neither a pause nor maxrunning.",
		},
		{
			function: "schedule.pause",
			short:    "Keep an entry from firing",
			entry:    true,
			options:  []string{"reason", "for"},
			propose:  true,
			long: `Runs in flight go on. The pause outlasts restarts and commits; it ends with
schedule resume, or after the time of --for.

--propose pauses now, and opens a pull request that disables the entry for good
on every peel that has it. If nobody merges it, the pause ends after --for.`,
		},
		{
			function: "schedule.resume", short: "End the pause of an entry, also after failures", entry: true,
			long: "It also takes back a skip. Fires during the pause are not made up.",
		},
		{
			function: "schedule.skip",
			short:    "Skip the next fire of an entry",
			entry:    true,
			options:  []string{"reason", "for"},
			long:     "With --for it skips the fire only if it comes within that time.",
		},
	} {
		commands = append(commands, a.liveCommand(c))
	}
	return commands
}

func (a *app) liveCommand(c liveCommand) *cobra.Command {
	name, typed := strings.TrimPrefix(c.function, "schedule."), []string{"target"}
	if c.entry {
		typed = append(typed, "entry")
	}
	propose := false
	cmd := &cobra.Command{
		Use:   name + " " + strings.ToUpper(strings.Join(typed, " ")),
		Short: c.short,
		Long: strings.TrimSpace(name+" acts on all peels that the target selects.\n"+c.long) + `

It runs the function ` + c.function + ` as a job. Output and exit code are
those of zester TARGET ` + c.function + `.`,
		Args: words(typed...),
		RunE: func(cmd *cobra.Command, words []string) error {
			args := map[string]any{}
			if c.entry {
				args["entry"] = words[1]
			}
			for _, name := range c.options {
				if f := cmd.Flags().Lookup(name); f.Changed {
					args[name] = f.Value.String()
				}
			}
			if propose {
				return a.pauseAndPropose(cmd, words[0], words[1], args)
			}
			return a.callSchedule(cmd, words[0], c.function, args)
		},
	}
	for _, name := range c.options {
		cmd.Flags().String(name, "", liveOptions[name])
	}
	if c.propose {
		cmd.Flags().BoolVar(&propose, "propose", false, "also open a pull request that disables the entry; needs --for")
	}
	a.dispatching.following(cmd.Flags())
	return cmd
}

// pauseAndPropose pauses an entry on a target for a time, and requests the change of the config repo that makes it
// last.
func (a *app) pauseAndPropose(cmd *cobra.Command, target, entry string, args map[string]any) error {
	if args["for"] == nil {
		return usageError("--propose needs --for: the pause ends by itself if nobody merges the pull request")
	}
	paused := a.callSchedule(cmd, target, "schedule.pause", args)
	if f, ok := errors.AsType[*failure](paused); paused != nil &&
		(!ok || f.code != exitSomeFailed && f.code != exitSomeSilent && f.code != exitBoth) {
		return paused // on no peel
	}
	q := api.ScheduleChange{Ref: entry, Propose: true}
	q.Reason, _ = args["reason"].(string)
	err := a.withClient(func(client *api.Client) error {
		out, err := askSchedule(cmd.Context(), client, api.ScheduleDisable, q)
		switch {
		case err != nil:
			return fmt.Errorf("the pull request was not opened: %w", err)
		case out.Patch != "":
			return fmt.Errorf("no pull request was opened: the master may not write to the config repo")
		case !out.Proposed:
			fmt.Fprintf(a.errOut, "no pull request is needed: the config repo disables %s already\n", entry)
		default:
			fmt.Fprintf(a.errOut, "proposed on branch %s: %s\n", out.Branch,
				plain(cmp.Or(out.URL, "open a pull request for it")))
		}
		return nil
	})
	if paused != nil && err != nil {
		fmt.Fprintln(a.errOut, plain(err.Error()))
	}
	return cmp.Or(paused, err)
}

// callSchedule dispatches a function of the schedule to a target.
func (a *app) callSchedule(cmd *cobra.Command, target, function string, args map[string]any) error {
	if err := a.dispatching.check(cmd.Flags().Changed); err != nil {
		return err
	}
	spec := job.Spec{JID: wire.NewJID(), TargetExpr: target, Function: function, Args: args}
	if err := a.checkCall(&spec); err != nil {
		return err
	}
	client, err := a.client()
	if err != nil {
		return err
	}
	defer client.Close()
	if spec.Targets, err = a.resolve(cmd.Context(), client, target); err != nil {
		return err
	}
	return a.countUnknown(a.runJob(cmd.Context(), client, spec))
}

// views holds the functions whose results are printed as tables.
var views = map[string]func([]byte, screen) (string, error){
	"schedule.list":    viewList,
	"schedule.next":    viewNext,
	"schedule.history": viewHistory,
	"schedule.breaker": viewBreaker,
	"schedule.fires":   viewFires,
	"state.show":       viewStates,
	"state.last":       viewLast,
	"state.kept":       viewKept,
	"state.restore":    viewKept,
}

// viewed returns a result for people, indented: as the table of the function, or else as text.
func viewed(function string, r *wire.Result, s screen) string {
	view := views[function]
	switch {
	case catalogue.RunsStates(function):
		view = viewRun
	case view == nil || !r.Success:
		return section(r)
	}
	data, err := json.Marshal(textual(r.Data))
	if err != nil {
		return section(r)
	}
	if s.width > 0 {
		s.width -= len(indent)
	}
	text, err := view(data, s)
	if err != nil {
		return section(r)
	}
	if !r.Success {
		text = endLine(text) + "failed: " + plain(r.Error)
	}
	return indented(text)
}

// runResult returns how a run ended, and how long it took.
func runResult(r *scheduler.RunRecord) (text, took string) {
	took = duration(r.Ended.Sub(r.Started).Round(time.Millisecond))
	switch {
	case r.Success:
		return "ok", took
	case r.Interrupted:
		return r.Error, "-"
	}
	return "failed: " + r.Error, took
}

// entryState returns the state of an entry with its runs in flight and its breaker.
func entryState(e *scheduler.ListedEntry) string {
	text := string(e.State)
	if e.Running > 0 {
		text += ", " + count(e.Running, "run") + " in flight"
	}
	if e.BreakerState != scheduler.BreakerClosed {
		text += ", breaker " + string(e.BreakerState)
	}
	return text
}

// lastFire returns when the last run started that no person asked for; if a person asked for all that are known, when
// the last one started.
func lastFire(e *scheduler.ListedEntry) time.Time {
	i := len(e.Last) - 1
	if e.Running > 0 || i < 0 || !e.Last[i].Started.Equal(e.Started) {
		return e.Started
	}
	for _, run := range slices.Backward(e.Last) {
		if run.Trigger != wire.TriggerManual {
			return run.Started
		}
	}
	return e.Started
}

// entryFrom returns the source of an entry: file and line, commit and author.
func entryFrom(e *scheduler.ListedEntry) string {
	if e.Origin == "" {
		return "peel.yaml"
	}
	return fmt.Sprintf("%s, %s by %s", e.Origin, e.Commit.Short(), e.Author)
}

func viewList(data []byte, s screen) (string, error) {
	var entries map[string]*scheduler.ListedEntry
	if err := json.Unmarshal(data, &entries); err != nil {
		return "", err
	}
	if len(entries) == 0 {
		return "no entries", nil
	}
	list := table{
		header: []string{
			"ENTRY", "STATE", "NEXT", "LAST", "RUNS", "FAILED", "IN A ROW", "SKIPPED", "TIMING", "WHY", "FROM",
		},
		states: []string{"STATE"},
		narrow: []string{"TIMING", "WHY", "FROM"},
		drop:   []string{"FROM", "RUNS", "LAST", "WHY", "TIMING"},
		wide:   []string{"IN A ROW", "SKIPPED"},
	}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		e := entries[name]
		var skipped uint64
		for _, n := range e.Skips {
			skipped += n
		}
		list.add(name, entryState(e), clock(e.NextFire), clock(lastFire(e)), fmt.Sprint(e.Runs),
			fmt.Sprint(e.Failures), fmt.Sprint(e.FailuresInRow), fmt.Sprint(skipped), e.Timing, e.Why, entryFrom(e))
	}
	return list.text(s)
}

// text returns the table as it is printed on a screen.
func (t table) text(s screen) (string, error) {
	var b strings.Builder
	err := t.print(&b, s)
	return b.String(), err
}

func viewNext(data []byte, s screen) (string, error) {
	var fires map[string][]time.Time
	if err := json.Unmarshal(data, &fires); err != nil {
		return "", err
	}
	list := table{header: []string{"ENTRY", "FIRE"}}
	for _, name := range slices.Sorted(maps.Keys(fires)) {
		for _, at := range fires[name] {
			list.add(name, when(at))
		}
		if len(fires[name]) == 0 {
			list.add(name, "never")
		}
	}
	return list.text(s)
}

func viewHistory(data []byte, s screen) (string, error) {
	var e scheduler.ListedEntry
	if err := json.Unmarshal(data, &e); err != nil {
		return "", err
	}
	facts := table{rows: [][]string{
		{"state:", strings.TrimSuffix(entryState(&e)+": "+e.Why, ": ")},
		{"timing:", e.Timing},
		{"next:", when(e.NextFire)},
		{"runs:", fmt.Sprintf("%d, %d of them failed, the last %d in a row", e.Runs, e.Failures, e.FailuresInRow)},
	}}
	if e.Interrupted > 0 {
		facts.add("interrupted:", count(int(e.Interrupted), "run")+" during which the peel died")
	}
	for _, reason := range slices.Sorted(maps.Keys(e.Skips)) {
		facts.add("skipped:", fmt.Sprintf("%d, %s", e.Skips[reason], reason))
	}
	facts.add("from:", entryFrom(&e))
	list := table{
		header: []string{"STARTED", "TRIGGER", "NOMINAL", "TOOK", "RESULT", "JOB"}, states: []string{"RESULT"},
		narrow: []string{"RESULT"}, drop: []string{"NOMINAL", "TRIGGER", "TOOK"},
	}
	for _, r := range slices.Backward(e.Last) {
		result, took := runResult(&r)
		list.add(when(r.Started), string(r.Trigger), when(r.Nominal), took, result, r.Job)
	}
	return joined(facts, list, s)
}

func viewFires(data []byte, s screen) (string, error) {
	var told ledger.Told
	if err := json.Unmarshal(data, &told); err != nil {
		return "", err
	}
	facts := table{rows: [][]string{{"complete since:", when(told.Since)}}}
	list := table{
		header: []string{"NOMINAL", "LAST", "FIRES", "TRIGGER", "OUTCOME", "WHY"},
		states: []string{"OUTCOME"},
		drop:   []string{"WHY", "TRIGGER"},
	}
	for _, f := range slices.Backward(told.Fires) {
		why := []string{string(f.Why), "", ""}
		if f.Late {
			why[1] = "late"
		}
		if f.Overran {
			why[2] = "overran"
		}
		list.add(when(f.Nominal), when(f.Last), fmt.Sprint(f.Count), f.Class, f.Outcome,
			strings.Join(slices.DeleteFunc(why, func(w string) bool { return w == "" }), ", "))
	}
	return joined(facts, list, s)
}

func viewBreaker(data []byte, s screen) (string, error) {
	var b scheduler.ListedBreaker
	if err := json.Unmarshal(data, &b); err != nil {
		return "", err
	}
	facts := table{rows: [][]string{
		{"state:", string(b.State)},
		{"failures:", fmt.Sprintf("%d in a row", b.FailuresInRow)},
	}}
	list := table{header: []string{"TIME", "TO", "WHY"}}
	for _, c := range slices.Backward(b.Transitions) {
		list.add(when(c.Time), string(c.To), c.Why)
	}
	return joined(facts, list, s)
}

// joined returns two tables, the second below the first.
func joined(first, second table, s screen) (string, error) {
	above, err := first.text(s)
	if err != nil {
		return "", err
	}
	below, err := second.text(s)
	return above + below, err
}
