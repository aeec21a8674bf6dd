package policy

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Limits of alert rules.
const (
	MaxAlerts    = 100
	MaxAlertWait = 7 * 24 * time.Hour
	maxNotify    = 20  // receivers of a rule
	maxEntries   = 256 // bytes of the glob of a rule
)

// A Trouble is what an alert is about.
type Trouble string

// The troubles of schedule entries. An alert about them is about one entry.
const (
	Failed  Trouble = "failed"  // the newest run failed
	Missed  Trouble = "missed"  // a fire did not start in time
	Late    Trouble = "late"    // the newest run started more than late_after late
	Overran Trouble = "overran" // the newest run took longer than the time to the next one, or than its timeout
	Paused  Trouble = "paused"  // failures, an operator or a mistake keep the entry from firing
)

// The troubles of peels.
const (
	NotReporting Trouble = "not_reporting" // a peel with a schedule is away
	Disagrees    Trouble = "disagrees"     // its clock, zone or document is not what masters expect
)

// The troubles of revisions.
const (
	Refused    Trouble = "refused"     // the newest revision does not compile, or may not be served
	Stalled    Trouble = "stalled"     // no revision can be published until a person changes something
	WaveFailed Trouble = "wave_failed" // the newest revision was rolled back
	// the newest revision waits for a person or a date: an approval, gate, pin, pause or freeze
	Held Trouble = "held"
)

// BreakGlass: the credential of a master's data directory was used in place of one of a person.
const BreakGlass Trouble = "break_glass"

var (
	ofEntries   = []Trouble{Failed, Missed, Late, Overran, Paused}
	ofRevisions = []Trouble{Refused, Stalled, WaveFailed, Held}
	// Troubles are all of them.
	Troubles = slices.Concat(ofEntries, []Trouble{NotReporting, Disagrees}, ofRevisions, []Trouble{BreakGlass})
)

// OfFleet reports whether the trouble is of the fleet as a whole, such as of a revision, and not of peels.
func (t Trouble) OfFleet() bool { return t == BreakGlass || t.OfRevisions() }

// OfRevisions reports whether the trouble is of a revision.
func (t Trouble) OfRevisions() bool { return slices.Contains(ofRevisions, t) }

// An Alert is a rule under alerts: which troubles are worth a message, and to whom.
type Alert struct {
	Name string `json:"name"`
	// Entries is the glob that the names of entries have to match. If empty, all do. Troubles of whole peels have no
	// entry.
	Entries string `json:"entries,omitempty"`
	// Target is the expression that selects the peels of the rule, with its node groups expanded; empty selects all.
	Target string    `json:"target,omitempty"`
	On     []Trouble `json:"on"`
	// For is how long a trouble lasts before the alert begins.
	For time.Duration `json:"for,omitempty"`
	// MinPeels is the least number of peels of an alert; a percentage is of the peels of the rule, rounded up.
	MinPeels Quantity `json:"min_peels"`
	// Notify names receivers in master.yaml. If empty, all receivers are notified.
	Notify []string `json:"notify,omitempty"`

	Pos strictyaml.Pos `json:"-"` // of the rule's name
}

// Covers reports whether the rule is about a trouble of an entry, or of whole peels or revisions if entry is empty.
func (a *Alert) Covers(t Trouble, entry string) bool {
	if !slices.Contains(a.On, t) {
		return false
	}
	if a.Entries == "" || entry == "" {
		return true
	}
	matches, _ := path.Match(a.Entries, entry)
	return matches
}

// ReadsEntries reports whether the rule is about entries.
func (a *Alert) ReadsEntries() bool {
	return slices.ContainsFunc(a.On, func(t Trouble) bool { return slices.Contains(ofEntries, t) })
}

// DefaultAlerts are the rules of a repo that has none. A peel that restarts with its host is away for a few minutes.
var DefaultAlerts = []Alert{
	{Name: "default", On: []Trouble{Failed, Missed, Refused, Stalled, BreakGlass}, MinPeels: Quantity{1, 100}},
	{Name: "default-away", On: []Trouble{NotReporting}, For: 5 * time.Minute, MinPeels: Quantity{1, 100}},
}

var (
	alertName    = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,32}$`)
	receiverName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,40}$`)
)

// alertKeys are all keys of an alert rule.
type alertKeys struct {
	Entries  string           `yaml:"entries"`
	Target   *strictyaml.Node `yaml:"target"`
	On       *strictyaml.Node `yaml:"on"`
	For      *strictyaml.Node `yaml:"for"`
	MinPeels *strictyaml.Node `yaml:"min_peels"`
	Notify   *strictyaml.Node `yaml:"notify"`
}

// readAlerts reads the map of rules in the order of their names; n may be nil.
func readAlerts(n *strictyaml.Node, groups target.Groups) (rules []Alert, errs strictyaml.Errors) {
	switch {
	case n == nil || n.Kind == strictyaml.Null:
		return nil, nil
	case n.Kind != strictyaml.Map:
		return nil, strictyaml.Errors{{Pos: n.Pos, Path: "alerts", Msg: n.Mismatch("a map of rules")}}
	case len(n.Map) > MaxAlerts:
		return nil, strictyaml.Errors{
			{
				Pos:  n.Pos,
				Path: "alerts",
				Msg:  fmt.Sprintf("there are %d rules, the limit is %d", len(n.Map), MaxAlerts),
			},
		}
	}
	for _, p := range n.Map {
		r := alertReader{node: p.Value, path: "alerts." + p.Key, groups: groups}
		if !alertName.MatchString(p.Key) {
			r.errs = append(r.errs, strictyaml.Error{
				Pos:  p.KeyPos,
				Path: "alerts",
				Msg: fmt.Sprintf("%.40q is not the name of a rule: letters, digits, '.', '_' and '-', 32 at most",
					p.Key),
			})
		}
		rule := r.read()
		rule.Name, rule.Pos = p.Key, p.KeyPos
		rules, errs = append(rules, rule), append(errs, r.errs...)
	}
	sorting.Func(rules, func(a, b Alert) int { return strings.Compare(a.Name, b.Name) })
	return rules, errs
}

// An alertReader reads one rule.
type alertReader struct {
	node   *strictyaml.Node
	path   string
	groups target.Groups
	errs   strictyaml.Errors
}

// refuse adds a mistake unless msg is empty. A node that is nil stands for the rule.
func (r *alertReader) refuse(at *strictyaml.Node, key, msg string) {
	if msg == "" {
		return
	}
	if at == nil {
		at = r.node
	}
	r.errs = append(r.errs, strictyaml.Error{Pos: at.Pos, Path: r.path + key, Msg: msg})
}

func (r *alertReader) read() (a Alert) {
	if r.node.Kind != strictyaml.Map {
		r.refuse(r.node, "", r.node.Mismatch("a map with on: and perhaps entries, target, for, min_peels and notify"))
		return a
	}
	var keys alertKeys
	if bad, ok := strictyaml.Decode(r.node, &keys).(strictyaml.Errors); ok {
		for _, e := range bad {
			e.Path = r.path + "." + e.Path
			r.errs = append(r.errs, e)
		}
		return a
	}
	a.Entries, a.On, a.MinPeels = keys.Entries, r.on(keys.On), Quantity{1, 100}
	if keys.Target != nil {
		text, ok := keys.Target.Value.(string)
		if !ok {
			r.refuse(keys.Target, ".target", keys.Target.Mismatch("a target like 'db-*'"))
		} else {
			var msg string
			a.Target, msg = readTarget(text, r.groups)
			r.refuse(keys.Target, ".target", msg)
		}
	}
	r.wait(keys.For, &a.For)
	r.minPeels(keys.MinPeels, &a.MinPeels)
	a.Notify = r.receivers(keys.Notify)
	if len(r.errs) == 0 {
		r.consistent(&a)
	}
	return a
}

// on reads a trouble or a list of them.
func (r *alertReader) on(n *strictyaml.Node) (on []Trouble) {
	words := make([]string, len(Troubles))
	for i, t := range Troubles {
		words[i] = string(t)
	}
	all := strings.Join(words, ", ")
	if n == nil || len(n.Elements()) == 0 {
		r.refuse(n, ".on", "is required: one or more of "+all)
		return nil
	}
	for _, e := range n.Elements() {
		word, ok := e.Value.(string)
		switch {
		case !ok:
			r.refuse(e, ".on", e.Mismatch("one of "+all))
		case !slices.Contains(words, word):
			r.refuse(e, ".on", fmt.Sprintf("%.40q is none of %s%s", word, all, strictyaml.Suggest(word, words)))
		case !slices.Contains(on, Trouble(word)):
			on = append(on, Trouble(word))
		}
	}
	return on
}

func (r *alertReader) wait(n *strictyaml.Node, to *time.Duration) {
	if n == nil {
		return
	}
	d, err := n.Duration()
	switch {
	case err != nil:
		r.refuse(n, ".for", err.Error())
	case d < 0 || d > MaxAlertWait:
		r.refuse(n, ".for", "must be between 0 and 7d")
	default:
		*to = d
	}
}

func (r *alertReader) minPeels(n *strictyaml.Node, to *Quantity) {
	if n == nil {
		return
	}
	switch v := n.Value.(type) {
	case int64:
		if v >= 1 && v <= MaxPeels {
			*to = Quantity{int(v), 100}
			return
		}
	case string:
		if q, ok := readPercent(v); ok && q.Percent > 0 {
			*to = q
			return
		}
	}
	r.refuse(n, ".min_peels", "must be a number of peels from 1, or a share like 2%")
}

// receivers reads the name of a receiver or a list of them.
func (r *alertReader) receivers(n *strictyaml.Node) (names []string) {
	if n != nil && len(n.Elements()) == 0 {
		r.refuse(n, ".notify", "has no receiver; leave it out to notify all")
	}
	for _, e := range n.Elements() {
		name, ok := e.Value.(string)
		switch {
		case !ok:
			r.refuse(e, ".notify", e.Mismatch("the name of a receiver in master.yaml"))
		case !receiverName.MatchString(name):
			r.refuse(
				e, ".notify", fmt.Sprintf(
					"%.40q is not the name of a receiver: letters, digits, '_' and '-', 40 at most", name,
				),
			)
		case !slices.Contains(names, name):
			names = append(names, name)
		}
	}
	if len(names) > maxNotify {
		r.refuse(n, ".notify", fmt.Sprintf("there are %d receivers, the limit is %d", len(names), maxNotify))
	}
	return names
}

// consistent refuses conditions that none of the rule's troubles has.
func (r *alertReader) consistent(a *Alert) {
	_, err := path.Match(a.Entries, "")
	switch only := fmt.Sprint(a.On); {
	case err != nil || len(a.Entries) > maxEntries:
		r.refuse(r.node.Get("entries"), ".entries",
			fmt.Sprintf("%.40q is not a glob like 'backup*' of at most %d bytes", a.Entries, maxEntries))
	case a.Entries != "" && !a.ReadsEntries():
		r.refuse(r.node.Get("entries"), ".entries", "no trouble in "+only+" is of an entry")
	case !slices.ContainsFunc(a.On, func(t Trouble) bool { return !t.OfFleet() }):
		for _, key := range []string{"target", "min_peels"} {
			if n := r.node.Get(key); n != nil {
				r.refuse(n, "."+key, "no trouble in "+only+" is of a peel")
			}
		}
	}
}

// EqualAlerts reports whether two lists have the same rules.
func EqualAlerts(a, b []Alert) bool {
	return slices.EqualFunc(a, b, func(x, y Alert) bool {
		return x.Name == y.Name && x.Entries == y.Entries && x.Target == y.Target && slices.Equal(x.On, y.On) &&
			x.For == y.For &&
			x.MinPeels == y.MinPeels && slices.Equal(x.Notify, y.Notify)
	})
}
