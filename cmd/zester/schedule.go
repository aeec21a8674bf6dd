package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed-c01c3da5/zester/settings/policy"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/schedule/phrase"
	"github.com/seed-c01c3da5/zester/settings/schedule/window"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

func (a *app) scheduleCommand() *cobra.Command {
	commands := append(a.liveCommands(), a.nextCommand(), a.explainCommand(), a.spreadCommand(),
		a.scheduleAddCommand(), a.scheduleEditCommand(), a.scheduleRemoveCommand())
	return group("schedule", "Show when schedule entries run; run, pause, skip and change them", commands...)
}

const entryManual = `

The entry is a timing from the flags, or an entry in a file: a settings file of
the config repo, a peel.yaml, or a file with only a schedule:

  --cron '30 2 * * mon-fri' --zone Europe/London
  --when 'every 15 minutes between 8am and 6pm'
  --file settings/db/backup.yaml --entry backup

Calendars of the entry are read from zester.yaml of the repo.`

// An entrySource holds the flags that name an entry.
type entrySource struct {
	flags             *pflag.FlagSet
	zone, file, entry string
	expression        string // the timing if it is an argument and not a flag
}

// timingFlags are the flags for a timing. Each has the name of a field.
var timingFlags = []string{"cron", "when", "interval", "at"}

// fieldFlags are the other flags that fill a field.
var fieldFlags = []struct{ field, flag string }{
	{"timezone", "zone"}, {"dst_gap", "dst-gap"}, {"dst_overlap", "dst-overlap"},
}

func (s *entrySource) addFlags(flags *pflag.FlagSet) {
	s.flags = flags
	flags.String("cron", "", "cron `EXPRESSION` of five fields")
	flags.String("when", "", "English `PHRASE`, such as every monday at 9am")
	flags.String("interval", "", "`DURATION` from the end of one run to the next, or hourly, daily, weekly, monthly")
	flags.String("at", "", "`INSTANT`, such as 2026-06-01T09:00:00+01:00")
	zoneFlag(flags, &s.zone)
	flags.String("dst-gap", "", "at times that the clock skips: `run`, skip or shift")
	flags.String("dst-overlap", "", "at times that come twice: `auto`, first, last or both")
	flags.StringVar(&s.file, "file", "", "`FILE` with the entry")
	flags.StringVar(&s.entry, "entry", "", "`NAME` of the entry in the file")
}

// A subject is the entry that a command explains or whose fires it lists.
type subject struct {
	entry      *schedule.Entry
	expression string // the timing as written
	zone       *time.Location
	zoneName   string
}

// read returns the entry. A phrase such as tomorrow counts from the given time.
func (s *entrySource) read(from time.Time) (*subject, error) {
	var given []string
	for _, name := range timingFlags {
		if s.flags.Changed(name) {
			given = append(given, "--"+name)
		}
	}
	switch {
	case s.file != "" && len(given) > 0:
		return nil, usageError("%s and --file name two entries: give one of them", given[0])
	case len(given) > 1:
		return nil, usageError("%s are two timings: give one of them", strings.Join(given[:2], " and "))
	case s.file == "" && s.entry != "":
		return nil, usageError("--entry %s needs --file, the file with the entry", s.entry)
	case s.file == "" && len(given) == 0:
		return nil, usageError("there is no entry: give --%s, or --file and --entry", strings.Join(timingFlags, ", --"))
	case s.file == "":
		return s.fromFlags(strings.TrimPrefix(given[0], "--"), from)
	case s.entry == "":
		return nil, usageError("--file %s needs --entry, the name of an entry in it", s.file)
	case s.flags.Changed("dst-gap"), s.flags.Changed("dst-overlap"):
		return nil, usageError("--dst-gap and --dst-overlap do not go with --file: they are fields of the entry")
	}
	return s.fromFile()
}

// fromFlags makes an entry of the flags and parses it.
func (s *entrySource) fromFlags(timing string, from time.Time) (*subject, error) {
	n := &strictyaml.Node{Kind: strictyaml.Map, Pos: strictyaml.Pos{File: "--" + timing}}
	set := func(field, flag string) {
		at := strictyaml.Pos{File: "--" + flag}
		if flag == timing && s.expression != "" {
			at.File = strconv.Quote(s.expression)
		}
		text := s.flags.Lookup(flag).Value.String()
		if flag == "when" {
			text = phrase.Dated(text, from)
		}
		value := &strictyaml.Node{Kind: strictyaml.String, Pos: at, Value: text}
		n.Map = append(n.Map, strictyaml.Pair{Key: field, KeyPos: at, Value: value})
	}
	set(timing, timing)
	for _, f := range fieldFlags {
		if s.flags.Changed(f.flag) {
			set(f.field, f.flag)
		}
	}
	e, err := schedule.ParseEntry("entry", withModule(n))
	if err != nil {
		return nil, flagErrors(err)
	}
	return s.about(e, n)
}

// flagErrors rewrites errors about flags: it replaces the position by the name of the flag.
func flagErrors(err error) error {
	errs, ok := errors.AsType[strictyaml.Errors](err)
	if !ok {
		return err
	}
	lines := make([]string, len(errs))
	for i, e := range errs {
		lines[i] = "cannot use " + flagProblem(e)
	}
	return errors.New(strings.Join(lines, "\n"))
}

// flagProblem returns the flag of an error, or the expression that was typed without one, and what is wrong with it.
// Messages about an expression begin with its kind and the expression itself.
func flagProblem(e strictyaml.Error) string {
	at := e.Pos.String()
	for _, kind := range []string{"cron", "when"} {
		switch text, found := strings.CutPrefix(e.Msg, kind+" "); {
		case found && at == "--"+kind:
			return at + " " + text
		case found && strings.HasPrefix(text, at):
			return text
		}
	}
	return at + ": " + e.Msg
}

// withModule adds a module to an entry without one, so that it can be parsed. An entry may have its module in another
// settings file.
func withModule(n *strictyaml.Node) *strictyaml.Node {
	if n.Kind != strictyaml.Map {
		return n
	}
	for _, key := range []string{"module", "command", "prompt"} {
		if v := n.Get(key); v != nil && v.Kind != strictyaml.Null {
			return n
		}
	}
	whole := *n
	whole.Map = append([]strictyaml.Pair{{
		Key: "module", KeyPos: n.Pos, Value: &strictyaml.Node{Kind: strictyaml.String, Pos: n.Pos, Value: "test.ping"},
	}}, n.Map...)
	return &whole
}

func (s *entrySource) fromFile() (*subject, error) {
	data, err := os.ReadFile(s.file)
	if err != nil {
		return nil, fmt.Errorf("cannot read the entry: %w", err)
	}
	n, err := strictyaml.Parse(s.file, data)
	if err != nil {
		return nil, err
	}
	if section := n.Get("schedule"); section != nil {
		n = section
	}
	calendars, err := calendarsBeside(s.file)
	if err != nil {
		return nil, err
	}
	n = calendars.Expand(n)
	found := n.Get(s.entry)
	if found == nil {
		var names []string
		for _, p := range n.Map {
			names = append(names, p.Key)
		}
		return nil, fmt.Errorf("there is no entry %q in %s%s", s.entry, s.file, strictyaml.Suggest(s.entry, names))
	}
	e, err := schedule.ParseEntry(s.entry, withModule(found))
	if err != nil {
		return nil, err
	}
	return s.about(e, found)
}

// calendarsBeside returns the calendars of the config repo that a settings file belongs to; nil for any other file.
func calendarsBeside(file string) (schedule.Calendars, error) {
	path, err := filepath.Abs(file)
	if err != nil {
		return nil, fmt.Errorf("cannot find the config repo: %w", err)
	}
	dir := filepath.Dir(path)
	for filepath.Base(dir) != "settings" {
		if dir == filepath.Dir(dir) {
			return nil, nil
		}
		dir = filepath.Dir(dir)
	}
	name := filepath.Join(filepath.Dir(dir), "zester.yaml")
	data, err := os.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("cannot read the calendars: %w", err)
	}
	n, err := strictyaml.Parse(name, data)
	if err != nil {
		return nil, err
	}
	policy, err := policy.ParsePolicy(n)
	if err != nil || policy.Calendars == nil {
		return nil, err
	}
	return schedule.ParseCalendars(policy.Calendars)
}

func (s *entrySource) about(e *schedule.Entry, n *strictyaml.Node) (*subject, error) {
	about := &subject{entry: e, expression: expressionOf(n), zoneName: e.Clock.Zone}
	var err error
	switch {
	case e.Clock.Zone != "":
		about.zone, err = window.Zone(e.Clock.Zone)
	case s.zone != "":
		about.zoneName = s.zone
		about.zone, err = window.Zone(s.zone)
	default:
		about.zone, about.zoneName = time.Local, hostZone()
	}
	return about, err
}

// expressionOf returns the timing of an entry as written. The elements of a list are joined by semicolons.
func expressionOf(n *strictyaml.Node) string {
	for _, key := range []string{"cron", "when", "schedule", "interval", "every", "at", "after"} {
		v := n.Get(key)
		if v == nil || v.Kind == strictyaml.Null {
			continue
		}
		if v.Kind != strictyaml.List {
			return fmt.Sprint(v.Value)
		}
		texts := make([]string, len(v.List))
		for i, e := range v.List {
			texts[i] = fmt.Sprint(e.Value)
		}
		return strings.Join(texts, "; ")
	}
	return ""
}

// hostZone returns the IANA name of this host's zone, or Local if it is unknown.
func hostZone() string {
	name := time.Local.String()
	if name != "Local" {
		return name
	}
	file, err := filepath.EvalSymlinks("/etc/localtime")
	if err != nil {
		return name
	}
	_, iana, _ := strings.Cut(file, "/zoneinfo/")
	if _, err := window.Zone(iana); err != nil {
		return name
	}
	return iana
}
