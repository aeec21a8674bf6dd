package schedule

import (
	"fmt"
	"regexp"
	"time"

	"github.com/seed-c01c3da5/zester/settings/schedule/cron"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// Limits of an interval.
const (
	MinInterval = time.Second
	MaxInterval = 10 * 365 * 24 * time.Hour
)

const (
	maxRunningLimit = 1000
	maxCrons        = 100
)

// field is one key of an entry.
type field struct {
	name string
	// alias is the name that other schedulers have for it.
	alias string
	// set reads the value, which is not null. A field without set is known, and refused by name.
	set func(*parser, *strictyaml.Node)
}

// fields are all keys that an entry may have.
var fields = []field{
	{"module", "command", (*parser).module},
	{"args", "payload", (*parser).args},
	{"interval", "every", (*parser).interval},
	{"cron", "", (*parser).cron},
	{"timezone", "", (*parser).timezone},
	{"splay", "jitter", (*parser).splay},
	{"maxrunning", "", (*parser).maxRunning},
	{"run_on_start", "", (*parser).runOnStart},
	{"return_job", "", (*parser).returnJob},
	{"enabled", "", (*parser).enabled},
	{"timeout", "", (*parser).timeout},

	{"prompt", "", nil},
	{"model", "", nil},
	{"opts", "", nil},
	{"interval_from", "", nil},
	{"phase", "", nil},
	{"at", "", nil},
	{"after", "", nil},
	{"when", "schedule", nil},
	{"dst_gap", "", nil},
	{"dst_overlap", "", nil},
	{"splay_mode", "", nil},
	{"only_between", "", nil},
	{"only_on", "", nil},
	{"not_on", "", nil},
	{"blackout", "", nil},
	{"outside", "", nil},
	{"not_before", "", nil},
	{"until", "", nil},
	{"max_runs", "", nil},
	{"delete_after_run", "", nil},
	{"if_running", "", nil},
	{"group", "", nil},
	{"catch_up", "", nil},
	{"catch_up_max", "", nil},
	{"start_deadline", "", nil},
	{"retry", "", nil},
	{"breaker", "", nil},
	{"pause_after_errors", "", nil},
	{"needs", "", nil},
	{"late_after", "", nil},
}

// fieldOf finds a field by either of its names.
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

var fieldNames = func() []string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	return names
}()

// newEntry returns an entry with every default of the table in the documentation.
func newEntry(name string) *Entry {
	return &Entry{
		Name:      name,
		Clock:     Clock{IntervalFrom: FromEnd, Changes: cron.Changes{Gap: cron.GapRun, Repeat: cron.RepeatAuto}},
		Splay:     Splay{Mode: SplayRandom},
		ReturnJob: ReturnNever,
		Enabled:   true,
		Overlap:   Overlap{MaxRunning: 1, IfRunning: IfRunningSkip},
		Windows:   Windows{Outside: OutsideSkip},
		Missed:    Missed{CatchUp: CatchUpSkip, CatchUpMax: 100, StartDeadline: 3 * time.Hour},
		Failures:  Failures{PauseAfter: 10},
	}
}

var moduleName = regexp.MustCompile(`^[A-Za-z0-9_]{1,64}(\.[A-Za-z0-9_]{1,64}){1,3}$`)

func (p *parser) module(n *strictyaml.Node) {
	s, ok := p.text(n)
	if ok && !moduleName.MatchString(s) {
		p.refuse(n.Pos, "%.64q is no function name; write it like cmd.run", s)
		return
	}
	p.entry.Module = s
}

func (p *parser) args(n *strictyaml.Node) {
	if n.Kind != strictyaml.Map {
		p.refuse(n.Pos, "%s", n.Mismatch("a map"))
		return
	}
	p.entry.Args = n.Any().(map[string]any)
}

// named are the intervals that have a name. A day is 24 hours, as intervals follow elapsed time; months
// follow the calendar.
var named = map[string]Interval{
	"hourly":  {Duration: time.Hour},
	"daily":   {Duration: 24 * time.Hour},
	"weekly":  {Duration: 7 * 24 * time.Hour},
	"monthly": {Months: 1},
}

func (p *parser) interval(n *strictyaml.Node) {
	if s, ok := n.Value.(string); ok {
		if i, ok := named[s]; ok {
			p.entry.Clock.Interval = i
			return
		}
	}
	d, ok := p.duration(n)
	switch {
	case !ok:
	case d < MinInterval:
		p.refuse(n.Pos, "%v is too short; the shortest interval is 1s", n.Value)
	case d > MaxInterval:
		p.refuse(n.Pos, "%v is too long; the longest interval is 10 years (3650d)", n.Value)
	default:
		p.entry.Clock.Interval = Interval{Duration: d}
	}
}

func (p *parser) cron(n *strictyaml.Node) {
	list := n.List
	switch {
	case n.Kind == strictyaml.String:
		list = []*strictyaml.Node{n}
	case n.Kind != strictyaml.List:
		p.refuse(n.Pos, "%s", n.Mismatch("a cron expression or a list of them"))
		return
	case len(list) == 0:
		p.refuse(n.Pos, "the list of cron expressions is empty")
	case len(list) > maxCrons:
		p.refuse(n.Pos, "%d cron expressions; the most are %d", len(list), maxCrons)
		return
	}
	for _, n := range list {
		if s, ok := p.text(n); ok {
			p.expression(n.Pos, s)
		}
	}
}

func (p *parser) expression(at strictyaml.Pos, text string) {
	c, zone, err := cron.Parse(text)
	if err != nil {
		p.refuse(at, "%v", err)
		return
	}
	p.entry.Clock.Cron = append(p.entry.Clock.Cron, c)
	if zone != "" {
		p.setZone(at, zone)
	}
}

func (p *parser) timezone(n *strictyaml.Node) {
	if s, ok := p.text(n); ok {
		p.setZone(n.Pos, s)
	}
}

// setZone takes the zone from timezone or from CRON_TZ, whichever comes first, and refuses a second one.
func (p *parser) setZone(at strictyaml.Pos, name string) {
	if _, err := Zone(name); err != nil {
		p.refuse(at, "%v", err)
		return
	}
	if have := p.entry.Clock.Zone; have != "" && have != name {
		p.refuse(at, "zone %s differs from %s (%s); an entry has one zone", name, have, p.zoneAt)
		return
	}
	p.entry.Clock.Zone, p.zoneAt = name, at
}

func (p *parser) splay(n *strictyaml.Node) {
	if n.Kind == strictyaml.Map {
		p.refuse(n.Pos, "splay with min and max is not supported yet; write one duration")
		return
	}
	if d, ok := p.duration(n); ok {
		if d > MaxInterval {
			p.refuse(n.Pos, "%v is too long; the longest splay is 10 years (3650d)", n.Value)
		}
		p.entry.Splay.Max = d
	}
}

func (p *parser) maxRunning(n *strictyaml.Node) {
	i, ok := n.Value.(int64)
	switch {
	case !ok:
		p.refuse(n.Pos, "%s", n.Mismatch(strictyaml.Int.String()))
	case i < 1 || i > maxRunningLimit:
		p.refuse(n.Pos, "%d is not between 1 and %d", i, maxRunningLimit)
	default:
		p.entry.Overlap.MaxRunning = int(i)
	}
}

func (p *parser) runOnStart(n *strictyaml.Node) {
	p.entry.RunOnStart, _ = p.boolean(n)
}

func (p *parser) returnJob(n *strictyaml.Node) {
	if n.Value == "failures" {
		p.refuse(n.Pos, "return_job: failures is not supported yet; write true or false")
		return
	}
	if b, ok := p.boolean(n); ok && b {
		p.entry.ReturnJob = ReturnAlways
	}
}

func (p *parser) enabled(n *strictyaml.Node) {
	p.entry.Enabled, _ = p.boolean(n)
}

func (p *parser) timeout(n *strictyaml.Node) {
	d, ok := p.duration(n)
	switch {
	case !ok:
	case d <= 0 || d > MaxInterval:
		p.refuse(n.Pos, "%v is no limit; write more than 0 and at most 10 years, or leave timeout out", n.Value)
	default:
		p.entry.Timeout = d
	}
}

func (p *parser) text(n *strictyaml.Node) (string, bool) {
	s, ok := n.Value.(string)
	if !ok {
		p.refuse(n.Pos, "%s", n.Mismatch(strictyaml.String.String()))
	}
	return s, ok
}

func (p *parser) boolean(n *strictyaml.Node) (value, ok bool) {
	value, ok = n.Value.(bool)
	if !ok {
		p.refuse(n.Pos, "%s", n.Mismatch(strictyaml.Bool.String()))
	}
	return value, ok
}

func (p *parser) duration(n *strictyaml.Node) (time.Duration, bool) {
	d, err := n.Duration()
	if err != nil {
		p.refuse(n.Pos, "%v", err)
		return 0, false
	}
	return d, true
}

// refuse notes what is wrong with the field that is being read.
func (p *parser) refuse(at strictyaml.Pos, format string, args ...any) {
	path := "schedule." + p.entry.Name
	if p.field != "" {
		path += "." + p.field
	}
	p.errs = append(p.errs, strictyaml.Error{Pos: at, Path: path, Msg: fmt.Sprintf(format, args...)})
}
