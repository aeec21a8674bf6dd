// Package catalogue lists the functions that peels of this version can run, with their parameters. Call [Functions] or
// [Lookup]; [CheckCall] checks a call before it is sent, as the peel does that runs it.
//
// The code of the functions is in the packages peel, peel/state, peel/module and peel/prompt. An error of [CheckCall]
// never shows the value of an argument that may be a secret.
package catalogue

import (
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/settings/sorting"
)

// A Type is what the value of a parameter must be, in words that complete "must be …".
type Type string

// The types of parameters. A duration is a string with units, such as "90s" or "1d12h".
const (
	String    Type = "a string"
	Integer   Type = "a whole number"
	Bool      Type = "true or false"
	Duration  Type = "a duration"
	Strings   Type = "a list of strings"
	StringMap Type = "a map of strings"
	Map       Type = "a map"
	Regexp    Type = "a regular expression (RE2)"
	// Calls are calls of read-only functions of the same peel, each a [ReadCall].
	Calls Type = "a list of maps with function and args"
	// Answering is how a model answers, as [PromptOptions].
	Answering Type = "a map of system, temperature, max_tokens and response_schema"
)

// A Param is an argument that a function takes.
type Param struct {
	Name     string `json:"name"`
	Type     Type   `json:"type"`
	Required bool   `json:"required,omitempty"`
	// Positional: it may be given as the ID of a request instead, a list with commas or spaces between its elements. A
	// function has one such parameter at most.
	Positional bool   `json:"positional,omitempty"`
	Doc        string `json:"doc"`
}

// A Function is something that peels of this version can run.
type Function struct {
	Name string `json:"name"`
	// Needs is what a peel needs to have the function, for "it needs …". Empty: every peel has it.
	Needs string `json:"needs,omitempty"`
	// ReadOnly functions change nothing on the host: they need no place in the queue of those that do.
	ReadOnly bool     `json:"read_only"`
	Doc      string   `json:"doc"` // one line
	Params   []Param  `json:"params,omitempty"`
	oneOf    []string // parameters that exclude each other: a call has one
}

// Parameters of functions of the schedule.
var (
	scheduleEntry  = Param{Name: "entry", Type: String, Required: true, Positional: true, Doc: "name of the entry"}
	scheduleReason = Param{Name: "reason", Type: String, Doc: "why, for the record"}
)

var secretsTo = Param{
	Name: SecretsTo,
	Type: String,
	Doc:  "public X25519 key to which the secrets are sealed; --show-secrets makes one",
}

// functions is the catalogue, sorted by name.
var functions = sorted(slices.Concat(otherFunctions, stateReads, hostFunctions, stateRuns))

// sorted sorts pointers: to sort values of this size takes 15 KB of the peel's program.
func sorted(all []Function) []Function {
	byName := make([]*Function, len(all))
	for i := range all {
		byName[i] = &all[i]
	}
	sorting.Func(byName, func(a, b *Function) int { return strings.Compare(a.Name, b.Name) })
	out := make([]Function, len(all))
	for i, f := range byName {
		out[i] = *f
	}
	return out
}

// otherFunctions have nothing to do with states.
var otherFunctions = []Function{
	{
		Name: "cmd.run", oneOf: []string{"command", "argv"},
		Doc: "Run a command in a process group of its own; it succeeds if the exit code is 0.",
		Params: []Param{
			{Name: "command", Type: String, Positional: true, Doc: "text that the shell runs"},
			{Name: "argv", Type: Strings, Doc: "program and arguments, run without a shell, instead of command"},
			{Name: "shell", Type: String, Doc: "program that runs command as `SHELL -c COMMAND`; default /bin/sh"},
			{
				Name: "timeout",
				Type: Duration,
				Doc:  "after this long the process group gets SIGTERM and, 5 s later, SIGKILL; default: no limit",
			},
			{
				Name: "env",
				Type: StringMap,
				Doc: "environment variables, added to PATH, HOME, USER, LOGNAME, LANG, LANGUAGE, LC_* and TZ; " +
					"no others are passed on",
			},
			{Name: "cwd", Type: String, Doc: "directory to run in, an absolute path; default: the user's home, else /"},
			{Name: "user", Type: String, Doc: "name or number of the user to run as; default: the peel's"},
			{Name: "stdin", Type: String, Doc: "standard input; default: empty"},
			{
				Name: "max_output",
				Type: Integer,
				Doc:  "bytes kept of stdout and of stderr each, up to 458752; default 262144",
			},
		},
	},
	{
		Name: "cron.tables", ReadOnly: true,
		Doc: "The tables of cron that the host has, and the files that cron skips. The texts may have secrets: they " +
			"are only in what is sealed.",
		Params: []Param{secretsTo},
	},
	{
		Name: "facts.get", ReadOnly: true, Doc: "One fact of the host.",
		Params: []Param{
			{
				Name:       "key",
				Type:       String,
				Required:   true,
				Positional: true,
				Doc:        "name of the fact; keys of a path are separated by colons",
			},
		},
	},
	{Name: "facts.items", ReadOnly: true, Doc: "All facts of the host."},
	{
		Name: Wipe,
		Doc: "End the schedule, stop the peel for good and delete its data directory, before its host leaves " +
			"the fleet; zester peel remove --wipe calls it.",
		Params: []Param{{
			Name:     "peel",
			Type:     String,
			Required: true,
			Doc:      "the ID of the peel, so that no other is wiped",
		}},
	},
	{
		Name:  Prompt,
		Needs: "prompt in peel.yaml",
		Doc:   "Ask a model, which gets a text and has no tools; it succeeds if the answer is complete and as asked.",
		Params: []Param{
			{Name: "prompt", Type: String, Required: true, Positional: true, Doc: "what to ask, up to 262144 bytes"},
			{Name: "model", Type: String, Doc: "name of a model that peel.yaml allows; default: model in peel.yaml"},
			{
				Name: "opts",
				Type: Answering,
				Doc: "system: what the model is told first; temperature: 0 to 2; max_tokens: of the answer; " +
					"response_schema: JSON Schema of the answer, which is then JSON",
			},
			{
				Name: "context",
				Type: Calls,
				Doc:  "read-only functions of this peel whose results the model gets as data",
			},
			{Name: "fail_if", Type: Regexp, Doc: "an answer that matches is a failure"},
		},
	},
	{
		Name: "schedule.breaker", ReadOnly: true, Doc: "The state of an entry's breaker and its last 100 changes.",
		Params: []Param{scheduleEntry},
	},
	{
		Name: "schedule.fires", ReadOnly: true, Doc: "What became of each fire of an entry in the last 7 days.",
		Params: []Param{
			scheduleEntry,
			{Name: "from", Type: String, Doc: "the first time, such as 2026-06-01T09:00:00Z; default: 7 days ago"},
			{Name: "to", Type: String, Doc: "the last time; default: now"},
		},
	},
	{
		Name:     "schedule.history",
		ReadOnly: true,
		Doc:      "What is remembered of an entry: counters, last times and its last 10 runs.",
		Params:   []Param{scheduleEntry},
	},
	{Name: "schedule.list", ReadOnly: true, Doc: "The schedule's entries with their state and next times."},
	{
		Name: "schedule.next", ReadOnly: true, Doc: "When an entry fires next, as if its runs took no time.",
		Params: []Param{
			{Name: "entry", Type: String, Positional: true, Doc: "name of the entry; default: all"},
			{Name: "count", Type: Integer, Doc: "how many fires of each, up to 100; default 5"},
		},
	},
	{
		Name: "schedule.pause",
		Doc:  "Keep an entry from firing, until it is resumed or for a while; runs in flight go on.",
		Params: []Param{
			scheduleEntry, scheduleReason, {Name: "for", Type: Duration, Doc: "how long; default: until it is resumed"},
		},
	},
	{
		Name:   "schedule.resume",
		Doc:    "End the pause of an entry, also one that came of failures, and take back a skip.",
		Params: []Param{scheduleEntry},
	},
	{
		Name:   "schedule.run",
		Doc:    "Start an entry now, whatever its windows and its breaker say, and not wait for its end.",
		Params: []Param{scheduleEntry},
	},
	{
		Name: "schedule.skip", Doc: "Do not run the next fire of an entry's timing.",
		Params: []Param{
			scheduleEntry, scheduleReason, {
				Name: "for",
				Type: Duration,
				Doc:  "do run it if it comes later than this; default: whenever it comes",
			},
		},
	},
	{
		Name:     "settings.get",
		ReadOnly: true,
		Doc: "One value of the settings in force, and the commit of the peel's document, " +
			"which need not have changed the value.",
		Params: []Param{
			{
				Name:       "key",
				Type:       String,
				Required:   true,
				Positional: true,
				Doc:        "name of the value; keys of a path are separated by colons",
			},
			secretsTo,
		},
	},
	{Name: "settings.items", ReadOnly: true, Doc: "All settings in force, and the commit of the peel's document."},
	{
		Name: "sys.doc", ReadOnly: true, Doc: "What functions do and the arguments that they take.",
		Params: []Param{
			{
				Name:       "function",
				Type:       String,
				Positional: true,
				Doc:        "name of a function, or a module such as cmd; default: all",
			},
		},
	},
	{Name: "sys.list_functions", ReadOnly: true, Doc: "The names of the functions that the peel can run."},
	{
		Name: "test.echo", ReadOnly: true, Doc: "Return a text.",
		Params: []Param{{Name: "text", Type: String, Required: true, Positional: true, Doc: "what to return"}},
	},
	{
		Name: "test.fail", ReadOnly: true, Doc: "Fail.",
		Params: []Param{{Name: "message", Type: String, Positional: true, Doc: "the error to fail with"}},
	},
	{Name: "test.ping", ReadOnly: true, Doc: "Return true: the peel hears and answers."},
	{
		Name: "test.sleep", ReadOnly: true, Doc: "Wait, then return how long.",
		Params: []Param{{Name: "duration", Type: Duration, Required: true, Positional: true, Doc: "how long to wait"}},
	},
}

// RunsStates reports whether a function runs states: its data are the result of a run.
func RunsStates(name string) bool {
	return slices.ContainsFunc(stateRuns, func(f Function) bool { return f.Name == name })
}

// Wipe is the function that removes a host from the fleet.
const Wipe = "peel.wipe"

// SecretsTo is the argument that requests secrets: the public key to which the peel seals its answer. Masters accept it
// only from people with the permission.
const SecretsTo = "secrets_to"

// AsksForSecrets reports whether arguments request secrets.
func AsksForSecrets(args map[string]any) bool {
	_, asks := args[SecretsTo]
	return asks
}

// Functions returns all functions, sorted by name.
func Functions() []Function { return slices.Clone(functions) }

// Lookup finds a function by its full name, such as "test.ping".
func Lookup(name string) (Function, bool) {
	i, ok := slices.BinarySearchFunc(functions,
		name, func(f Function, name string) int { return strings.Compare(f.Name, name) })
	if !ok {
		return Function{}, false
	}
	return functions[i], true
}
