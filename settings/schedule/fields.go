package schedule

import (
	"math"
	"time"

	"github.com/seed-c01c3da5/zester/settings/schedule/cron"
	"github.com/seed-c01c3da5/zester/settings/schedule/window"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// Limits of an interval.
const (
	MinInterval = time.Second
	MaxInterval = 10 * 365 * 24 * time.Hour
)

// Limits of numbers and lists, far above any use.
const (
	maxRunning  = 1000
	maxCounter  = 1_000_000
	maxAttempts = 100
	maxElements = 1000
	maxCrons    = 100
)

// field is one key of an entry, or of a map within an entry.
type field struct {
	name   string
	alias  string                          // the name in other schedulers
	set    func(*parser, *strictyaml.Node) // reads a value that is not null
	schema *Schema                         // the values that set accepts, for editors, besides a map of keys
	keys   []field                         // of such a map
	secret bool                            // may be encrypted
}

// fields are all keys of an entry.
var fields = []field{
	{name: "module", alias: "command", set: (*parser).module, schema: matching(`^[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)+$`)},
	{name: "args", alias: "payload", set: (*parser).args, schema: &Schema{Type: "object"}, secret: true},
	{name: "prompt", set: (*parser).prompt, schema: &Schema{Type: "string"}, secret: true},
	{name: "model", set: (*parser).prompt, schema: &Schema{Type: "string"}},
	{name: "opts", set: (*parser).prompt, schema: &Schema{Type: "object"}, secret: true},

	{
		name:   "interval",
		alias:  "every",
		set:    (*parser).interval,
		schema: anyOf(durations, words("hourly", "daily", "weekly", "monthly")),
	},
	choice("interval_from", func(e *Entry) *Anchor { return &e.Clock.IntervalFrom }, FromEnd, FromStart, FromEpoch),
	length("phase", 0, MaxInterval, func(e *Entry) *time.Duration { return &e.Clock.Phase }),
	{name: "cron", set: (*parser).cron, schema: oneOrMore(&Schema{Type: "string"}, maxCrons)},
	{name: "at", set: (*parser).instants, schema: oneOrMore(&Schema{Type: "string", Format: "date-time"}, maxElements)},
	length("after", MinInterval, MaxInterval, func(e *Entry) *time.Duration { return &e.Clock.After }),
	{name: "when", alias: "schedule", set: (*parser).when, schema: &Schema{Type: "string"}},
	{name: "timezone", set: (*parser).timezone, schema: &Schema{Type: "string"}},
	choice("dst_gap", func(e *Entry) *cron.Gap { return &e.Clock.Changes.Gap }, cron.GapRun, cron.GapSkip,
		cron.GapShift),
	choice("dst_overlap", func(e *Entry) *cron.Repeat { return &e.Clock.Changes.Repeat },
		cron.RepeatAuto, cron.RepeatFirst, cron.RepeatLast, cron.RepeatBoth),

	{name: "splay", alias: "jitter", set: (*parser).splay, schema: anyOf(durations, zero), keys: splayRange.keys},
	choice("splay_mode", func(e *Entry) *SplayMode { return &e.Splay.Mode }, SplayRandom, SplayHost),
	{
		name:   "only_between",
		set:    (*parser).hours,
		schema: oneOrMore(matching(`^[0-9]{1,2}:[0-9]{2} ?- ?[0-9]{1,2}:[0-9]{2}$`), maxElements),
	},
	days("only_on", func(e *Entry) *window.Days { return &e.Windows.Rules.On }),
	days("not_on", func(e *Entry) *window.Days { return &e.Windows.Rules.NotOn }),
	days("blackout", func(e *Entry) *window.Days { return &e.Windows.Rules.Blackout }),
	choice("outside", func(e *Entry) *Outside { return &e.Windows.Outside }, OutsideSkip, OutsideDefer),

	moment("not_before", func(e *Entry) *time.Time { return &e.Life.NotBefore }),
	moment("until", func(e *Entry) *time.Time { return &e.Life.Until }),
	whole("max_runs", 1, maxCounter, func(e *Entry) *int { return &e.Life.MaxRuns }),
	boolean("delete_after_run", func(e *Entry) *bool { return &e.Life.DeleteAfterRun }),
	boolean("run_on_start", func(e *Entry) *bool { return &e.RunOnStart }),
	boolean("enabled", func(e *Entry) *bool { return &e.Enabled }),

	whole("maxrunning", 1, maxRunning, func(e *Entry) *int { return &e.Overlap.MaxRunning }),
	choice("if_running", func(e *Entry) *IfRunning { return &e.Overlap.IfRunning },
		IfRunningSkip, IfRunningQueue, IfRunningCancel, IfRunningAllow),
	{name: "group", set: (*parser).group, schema: matching(namePattern)},

	choice("catch_up", func(e *Entry) *CatchUp { return &e.Missed.CatchUp }, CatchUpSkip, CatchUpRunOnce,
		CatchUpRunAll),
	whole("catch_up_max", 1, maxElements, func(e *Entry) *int { return &e.Missed.CatchUpMax }),
	length("start_deadline", 0, MaxInterval, func(e *Entry) *time.Duration { return &e.Missed.StartDeadline }),
	length("late_after", time.Millisecond, MaxInterval, func(e *Entry) *time.Duration { return &e.Missed.LateAfter }),

	length("timeout", 1, MaxInterval, func(e *Entry) *time.Duration { return &e.Timeout }),
	object("retry", []string{"attempts", "backoff"},
		whole("attempts", 1, maxAttempts, func(e *Entry) *int { return &e.Failures.Retry.Attempts }),
		length("backoff", 0, MaxInterval, func(e *Entry) *time.Duration { return &e.Failures.Retry.Backoff })),
	object("breaker", []string{"threshold", "reset_after"},
		whole("threshold", 1, maxCounter, func(e *Entry) *int { return &e.Failures.Breaker.Threshold }),
		length("reset_after", MinInterval,
			MaxInterval, func(e *Entry) *time.Duration { return &e.Failures.Breaker.ResetAfter })),
	whole("pause_after_errors", 0, maxCounter, func(e *Entry) *int { return &e.Failures.PauseAfter }),

	{name: "return_job", set: (*parser).returnJob, schema: anyOf(&Schema{Type: "boolean"}, words("failures"))},
	object("needs", []string{"entry"},
		field{name: "entry", set: (*parser).needed, schema: matching(namePattern)},
		choice("on", func(e *Entry) *NeedsOn { return &e.Needs.On }, NeedsSuccess, NeedsFailure, NeedsDone)),

	object("api", []string{"id"},
		whole("id", 1, math.MaxInt32, func(e *Entry) *int { return &e.API.ID }),
		short("name", func(e *Entry) *string { return &e.API.Name }),
		short("by", func(e *Entry) *string { return &e.API.By }),
		moment("at", func(e *Entry) *time.Time { return &e.API.At })),
}

// splayRange is the long form of splay.
var splayRange = object("splay", []string{"max"},
	length("min", 0, MaxInterval, func(e *Entry) *time.Duration { return &e.Splay.Min }),
	length("max", 0, MaxInterval, func(e *Entry) *time.Duration { return &e.Splay.Max }))

// timings are the timing fields; an entry has exactly one.
var timings = []string{"interval", "cron", "at", "after", "when"}

// fieldOf finds a field by its name or alias.
var fieldOf = func() map[string]*field {
	m := make(map[string]*field, 2*len(fields))
	for i := range fields {
		m[fields[i].name] = &fields[i]
		if a := fields[i].alias; a != "" {
			m[a] = &fields[i]
		}
	}
	return m
}()

func names(fields []field) []string {
	list := make([]string, len(fields))
	for i, f := range fields {
		list[i] = f.name
	}
	return list
}
