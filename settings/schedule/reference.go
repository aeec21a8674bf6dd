package schedule

import (
	"fmt"
	"slices"
	"strings"
)

// A Field describes one key of an entry to people. The JSON Schemas and the page `entry` of the guide are made of it.
type Field struct {
	Name    string // with the keys above it: "retry.backoff"
	Alias   string // another name of the key; empty: none
	About   string // sentences
	Type    string // of the value, in words
	Default string // in words; empty: the key must be given, or means nothing when it is absent
	Since   string // the first version that knows the key
	Example string // fields of an entry in YAML, with this one
}

// told is what the reference says of each key, in its order.
var told = []Field{
	{
		Name:    "module",
		About:   "The function to run, such as `cmd.run`.",
		Type:    "name of a function",
		Example: "module: cmd.run\nargs: {command: df /}\ninterval: 1h",
	},
	{
		Name:    "args",
		About:   "The arguments of the function. Values may be encrypted.",
		Type:    "map",
		Default: "no arguments",
		Example: "module: cmd.run\nargs: {command: df /, timeout: 1m}\ninterval: 1h",
	},
	{
		Name:    "prompt",
		About:   "Asks a model. It is short for `module: prompt.run` with this argument.",
		Type:    "text",
		Example: "prompt: Is the disk of this host filling up?\nmodel: small\ninterval: 1d",
	},
	{
		Name:    "model",
		About:   "The model that is asked. It is an argument of `prompt.run`.",
		Type:    "text",
		Default: "that of `peel.yaml`",
		Example: "prompt: Is this host well?\nmodel: small\ninterval: 1d",
	},
	{
		Name:    "opts",
		About:   "Options of the model. They are an argument of `prompt.run`.",
		Type:    "map",
		Default: "none",
		Example: "prompt: Is this host well?\nmodel: small\nopts: {temperature: 0}\ninterval: 1d",
	},
	{
		Name: "interval",
		About: "Runs the entry again and again, this time apart: timing. `interval_from` says what " +
			"it counts from.",
		Type:    "duration of at least 1s, or hourly, daily, weekly, monthly",
		Example: "module: test.ping\ninterval: 1h30m",
	},
	{
		Name: "interval_from",
		About: "What an interval counts from: the `end` of the run before, its `start`, or `epoch`, " +
			"which is multiples of the interval since 1970, at the same time on each host.",
		Type:    "end, start or epoch",
		Default: "end",
		Example: "module: test.ping\ninterval: 15m\ninterval_from: epoch",
	},
	{
		Name:    "phase",
		About:   "Moves the times of `interval_from: epoch` by this long.",
		Type:    "duration shorter than the interval",
		Default: "0",
		Example: "module: test.ping\ninterval: 15m\ninterval_from: epoch\nphase: 5m",
	},
	{
		Name:    "cron",
		About:   "Times as in a crontab: timing. A list runs at the times of each of its expressions.",
		Type:    "cron expression, or a list of up to 100",
		Example: "module: test.ping\ncron: '30 2 * * 1-5'",
	},
	{
		Name:    "at",
		About:   "Runs once at an instant, or at each of a list: timing.",
		Type:    "instant with its zone, or a list",
		Example: "module: test.ping\nat: '2030-06-01T09:00:00+02:00'",
	},
	{
		Name:    "after",
		About:   "Runs once, this long after the peel first had the entry: timing.",
		Type:    "duration of at least 1s",
		Example: "module: test.ping\nafter: 10m",
	},
	{
		Name:    "when",
		About:   "Times in English: timing. `zester schedule explain` shows what a phrase means.",
		Type:    "text",
		Example: "module: test.ping\nwhen: every monday at 9am",
	},
	{
		Name:    "timezone",
		About:   "The zone of `cron`, `when`, windows and days.",
		Type:    "name as in the IANA data base",
		Default: "the zone of the host, or `schedule_timezone` of `peel.yaml`",
		Example: "module: test.ping\ncron: 0 9 * * *\ntimezone: Europe/Berlin",
	},
	{
		Name: "dst_gap",
		About: "What is done about times of `cron` that a change of clocks leaves out: `run` once " +
			"after the gap, `skip` them, or `shift` each by the length of the gap.",
		Type:    "run, skip or shift",
		Default: "run",
		Example: "module: test.ping\ncron: 30 2 * * *\ndst_gap: skip",
	},
	{
		Name: "dst_overlap",
		About: "What is done about a time that comes twice: run at the `first`, the `last`, or " +
			"`both`. `auto` is both for a cron expression whose minute or hour begins with *, " +
			"else the first.",
		Type:    "auto, first, last or both",
		Default: "auto",
		Example: "module: test.ping\ncron: 30 2 * * *\ndst_overlap: first",
	},
	{
		Name:    "splay",
		About:   "Delays each run by a random time below this one, so that hosts do not run together.",
		Type:    "duration, or a map of min and max",
		Default: "0",
		Example: "module: test.ping\ninterval: 1h\nsplay: 5m",
	},
	{
		Name:    "splay.min",
		About:   "The shortest delay.",
		Type:    "duration",
		Default: "0",
		Example: "module: test.ping\ninterval: 1h\nsplay: {min: 1m, max: 5m}",
	},
	{
		Name:    "splay.max",
		About:   "The delays are shorter than this.",
		Type:    "duration",
		Example: "module: test.ping\ninterval: 1h\nsplay: {min: 1m, max: 5m}",
	},
	{
		Name: "splay_mode",
		About: "`random` draws a new delay for each run; `host` gives each host and entry one that " +
			"stays.",
		Type:    "random or host",
		Default: "random",
		Example: "module: test.ping\ninterval: 1h\nsplay: 5m\nsplay_mode: host",
	},
	{
		Name:    "only_between",
		About:   "The hours in which the entry may run. A range may go past midnight.",
		Type:    "range of times, or a list",
		Default: "always",
		Example: "module: test.ping\ninterval: 1h\nonly_between: 22:00-06:00",
	},
	{
		Name: "only_on",
		About: "The days on which the entry may run: weekdays, dates, ranges, or a calendar of " +
			"`zester.yaml`.",
		Type:    "day, or a list",
		Default: "each day",
		Example: "module: test.ping\ninterval: 1h\nonly_on: mon-fri",
	},
	{
		Name:    "not_on",
		About:   "The days on which the entry does not run.",
		Type:    "day, or a list",
		Default: "none",
		Example: "module: test.ping\ninterval: 1h\nnot_on: [saturday, sunday]",
	},
	{
		Name: "blackout",
		About: "Times in which the entry does not run: days as in `not_on`, or two instants with a / " +
			"between them.",
		Type:    "day or range, or a list",
		Default: "none",
		Example: "module: test.ping\ninterval: 1h\nblackout: 2030-12-24/2031-01-06",
	},
	{
		Name: "outside",
		About: "What is done about a run that is due outside the hours and days: `skip` it, or " +
			"`defer` all of them to one run when they begin.",
		Type:    "skip or defer",
		Default: "skip",
		Example: "module: test.ping\ncron: 0 5 * * *\nonly_between: 06:00-08:00\noutside: defer",
	},
	{
		Name:    "not_before",
		About:   "The entry does not run before this instant.",
		Type:    "instant with its zone",
		Default: "no limit",
		Example: "module: test.ping\ninterval: 1h\nnot_before: '2030-06-01T00:00:00Z'",
	},
	{
		Name:    "until",
		About:   "The entry does not run from this instant on.",
		Type:    "instant with its zone",
		Default: "no limit",
		Example: "module: test.ping\ninterval: 1h\nuntil: '2031-01-01T00:00:00Z'",
	},
	{
		Name:    "max_runs",
		About:   "How often the timing runs the entry on one host. Runs by hand do not count.",
		Type:    "whole number from 1",
		Default: "no limit",
		Example: "module: test.ping\ninterval: 1h\nmax_runs: 3",
	},
	{
		Name: "delete_after_run",
		About: "Runs the entry once. If a request made the entry, its file is removed by a commit " +
			"after that.",
		Type:    "true or false",
		Default: "false",
		Example: "module: test.ping\nat: '2030-06-01T09:00:00Z'\ndelete_after_run: true",
	},
	{
		Name:    "run_on_start",
		About:   "Runs the entry once more, without splay, when the peel starts.",
		Type:    "true or false",
		Default: "false",
		Example: "module: test.ping\ninterval: 1h\nrun_on_start: true",
	},
	{
		Name:    "enabled",
		About:   "`false` keeps the entry from running.",
		Type:    "true or false",
		Default: "true",
		Example: "module: test.ping\ninterval: 1h\nenabled: false",
	},
	{
		Name:    "maxrunning",
		About:   "How many runs of the entry, or of its group, a host has at a time.",
		Type:    "whole number from 1 to 1000",
		Default: "1",
		Example: "module: test.ping\ninterval: 1h\nmaxrunning: 2",
	},
	{
		Name: "if_running",
		About: "What a run does while `maxrunning` others run: `skip` it, let one wait (`queue`), " +
			"`cancel` a run, or `allow` more.",
		Type:    "skip, queue, cancel or allow",
		Default: "skip",
		Example: "module: test.ping\ninterval: 1h\nif_running: queue",
	},
	{
		Name:    "group",
		About:   "Entries of one group share `maxrunning`.",
		Type:    "name",
		Default: "no group",
		Example: "module: test.ping\ninterval: 1h\ngroup: disk",
	},
	{
		Name: "catch_up",
		About: "Which runs are made up that were missed while the peel was down: none (`skip`), the " +
			"newest (`run_once`), or the newest `catch_up_max` (`run_all`).",
		Type:    "skip, run_once or run_all",
		Default: "skip",
		Example: "module: test.ping\ncron: 0 3 * * *\ncatch_up: run_once",
	},
	{
		Name:    "catch_up_max",
		About:   "The most runs that `catch_up: run_all` makes up.",
		Type:    "whole number from 1 to 1000",
		Default: "100",
		Example: "module: test.ping\ninterval: 1h\ncatch_up: run_all\ncatch_up_max: 5",
	},
	{
		Name:    "start_deadline",
		About:   "How late a run may still start, after a suspend or while it waits for its place.",
		Type:    "duration",
		Default: "3h",
		Example: "module: test.ping\ncron: 0 3 * * *\nstart_deadline: 30m",
	},
	{
		Name:    "late_after",
		About:   "A run that starts later than this is marked as late.",
		Type:    "duration",
		Default: "none is late",
		Example: "module: test.ping\ncron: 0 3 * * *\nlate_after: 30s",
	},
	{
		Name:    "timeout",
		About:   "The longest time of one attempt. Then it is ended, and has failed.",
		Type:    "duration",
		Default: "no limit",
		Example: "module: test.ping\ninterval: 1h\ntimeout: 5m",
	},
	{
		Name:    "retry",
		About:   "Tries a run that fails again.",
		Type:    "map",
		Default: "one attempt",
		Example: "module: test.ping\ninterval: 1h\nretry: {attempts: 3, backoff: 10s}",
	},
	{
		Name:    "retry.attempts",
		About:   "How often a run that fails is tried again, at most.",
		Type:    "whole number from 1 to 100",
		Example: "module: test.ping\ninterval: 1h\nretry: {attempts: 3, backoff: 10s}",
	},
	{
		Name:    "retry.backoff",
		About:   "The pause before each further attempt.",
		Type:    "duration",
		Example: "module: test.ping\ninterval: 1h\nretry: {attempts: 3, backoff: 10s}",
	},
	{
		Name: "breaker",
		About: "After failures in a row the entry does not run for a time. It excludes " +
			"`pause_after_errors`.",
		Type:    "map",
		Default: "no breaker",
		Example: "module: test.ping\ninterval: 1m\nbreaker: {threshold: 3, reset_after: 1h}",
	},
	{
		Name:    "breaker.threshold",
		About:   "The failures in a row after which it does not run.",
		Type:    "whole number from 1",
		Example: "module: test.ping\ninterval: 1m\nbreaker: {threshold: 3, reset_after: 1h}",
	},
	{
		Name:    "breaker.reset_after",
		About:   "How long it does not run. Then one run is tried.",
		Type:    "duration of at least 1s",
		Example: "module: test.ping\ninterval: 1m\nbreaker: {threshold: 3, reset_after: 1h}",
	},
	{
		Name:    "pause_after_errors",
		About:   "Pauses the entry after this many failures in a row, until a person resumes it.",
		Type:    "whole number",
		Default: "0: never",
		Example: "module: test.ping\ninterval: 1h\npause_after_errors: 10",
	},
	{
		Name:    "return_job",
		About:   "Which runs become jobs that masters keep: all, none, or the `failures`.",
		Type:    "true, false or failures",
		Default: "false",
		Example: "module: test.ping\ninterval: 1h\nreturn_job: failures",
	},
	{
		Name: "needs",
		About: "Runs the entry after runs of another one on the same host, in addition to its timing " +
			"if it has one.",
		Type:    "map",
		Default: "none",
		Example: "module: test.ping\nneeds: {entry: backup}",
	},
	{
		Name:    "needs.entry",
		About:   "The other entry.",
		Type:    "name of an entry",
		Example: "module: test.ping\nneeds: {entry: backup}",
	},
	{
		Name: "needs.on",
		About: "How the other run must have ended: with `success`, with `failure`, or in any way " +
			"(`done`).",
		Type:    "success, failure or done",
		Default: "success",
		Example: "module: test.ping\nneeds: {entry: backup, on: failure}",
	},
	{
		Name:    "api",
		About:   "Which request made the entry. Masters write it; do not write it by hand.",
		Type:    "map",
		Default: "no request",
		Example: "module: test.ping\ninterval: 1h\napi: {id: 7, name: Ping, by: ada}",
	},
	{
		Name:    "api.id",
		About:   "The number of the schedule in the REST API.",
		Type:    "whole number from 1",
		Example: "module: test.ping\ninterval: 1h\napi: {id: 7}",
	},
	{
		Name:    "api.name",
		About:   "The name that was asked for.",
		Type:    "text",
		Default: "none",
		Example: "module: test.ping\ninterval: 1h\napi: {id: 7, name: Ping}",
	},
	{
		Name:    "api.by",
		About:   "The person or token that asked.",
		Type:    "text",
		Default: "none",
		Example: "module: test.ping\ninterval: 1h\napi: {id: 7, by: ada}",
	},
	{
		Name:    "api.at",
		About:   "When it was asked for.",
		Type:    "instant with its zone",
		Default: "none",
		Example: "module: test.ping\ninterval: 1h\napi: {id: 7, at: '2026-06-01T09:00:00Z'}",
	},
}

// firstVersion is the version that knows all keys that have no Since of their own.
const firstVersion = "0.1.0"

// Reference returns what people can write into an entry, in the order of the guide.
func Reference() []Field {
	list := slices.Clone(told)
	for i := range list {
		f := &list[i]
		if f.Since == "" {
			f.Since = firstVersion
		}
		if known := fieldOf[f.Name]; known != nil {
			f.Alias = known.alias
		}
	}
	return list
}

// about returns what the schema says of a key, empty for one that is not in the reference.
func about(name string) string {
	i := slices.IndexFunc(told, func(f Field) bool { return f.Name == name })
	if i < 0 {
		return ""
	}
	text := told[i].About
	if d := told[i].Default; d != "" {
		text += " Default: " + d + "."
	}
	return strings.ReplaceAll(text, "`", "")
}

// Markdown returns the section of the guide on the field.
func (f Field) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n%s\n\n", f.Name, f.About)
	fmt.Fprintf(&b, "Type: %s.", f.Type)
	if f.Default != "" {
		fmt.Fprintf(&b, " Default: %s.", f.Default)
	}
	if f.Alias != "" {
		fmt.Fprintf(&b, " Also written `%s`.", f.Alias)
	}
	fmt.Fprintf(&b, " Since %s.\n\n```yaml\n", f.Since)
	for line := range strings.Lines(f.Example) {
		b.WriteString(line)
	}
	b.WriteString("\n```\n")
	return b.String()
}

// Page returns the page `entry` of the guide.
func Page() string {
	var b strings.Builder
	b.WriteString(pageHead)
	for _, f := range Reference() {
		b.WriteString("\n" + f.Markdown())
	}
	return b.String()
}

const pageHead = "# Fields of an entry\n\n" +
	"An entry has a name, a function and a timing, which is one of `interval`, `cron`, `at`, `after` and `when`.\n" +
	"Everything else is optional. `zester guide entry FIELD` prints one field; `zester guide schedules` says how\n" +
	"entries run.\n\n" +
	"```yaml\nschedule:\n  backup:\n    module: cmd.run\n    args: {command: /usr/local/bin/backup}\n" +
	"    cron: 30 2 * * *\n```\n"
