package reconciler

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// What the oracle of the random walk knows of the language of settings and rules. It is written a second time here, and
// much simpler, so that a mistake in the compiler or in the guard is not repeated by what judges them.

// A walkWave is a wave of zester.yaml.
type walkWave struct {
	name    string
	count   int    // peels that may have the revision, 0: percent
	percent int    // of the peels that the revision changes, rounded up
	target  string // "": any peel; else all peels of the target, whatever their number
	soak    time.Duration
	fails   int
	manual  bool
}

// most returns the most peels that have the revision after the wave, if it changes n.
func (w walkWave) most(n int) int {
	switch {
	case w.target != "":
		return n
	case w.count > 0:
		return min(w.count, n)
	}
	return (n*w.percent + 99) / 100
}

// A walkFreeze is a freeze for a range of instants.
type walkFreeze struct {
	from, to time.Time
	target   string
}

func (f walkFreeze) holds(at time.Time) bool { return !at.Before(f.from) && at.Before(f.to) }

// isOf reports whether a target of the walk, a prefix with a star, selects a peel.
func isOf(pattern string, id target.PeelID) bool {
	return pattern == "" || strings.HasPrefix(string(id), strings.TrimSuffix(pattern, "*"))
}

// walkRules are the rules of a revision.
type walkRules struct {
	waves   []walkWave
	off     bool // no limits
	freezes []walkFreeze
}

func (r walkRules) clone() walkRules {
	return walkRules{slices.Clone(r.waves), r.off, slices.Clone(r.freezes)}
}

// file returns zester.yaml.
func (r walkRules) file() string {
	var s strings.Builder
	s.WriteString("waves:\n")
	for _, w := range r.waves {
		peels := fmt.Sprintf("%d%%", w.percent)
		if w.count > 0 {
			peels = fmt.Sprint(w.count)
		}
		if w.target != "" {
			peels = "'" + w.target + "'"
		}
		fmt.Fprintf(&s, "- {name: %s, peels: %s, soak: %s, max_failures: %d", w.name, peels, w.soak, w.fails)
		if w.manual {
			s.WriteString(", gate: manual")
		}
		s.WriteString("}\n")
	}
	s.WriteString("freeze:\n")
	for _, f := range r.freezes {
		fmt.Fprintf(&s, "- {calendar: '%s/%s'", f.from.UTC().Format(time.RFC3339), f.to.UTC().Format(time.RFC3339))
		if f.target != "" {
			fmt.Fprintf(&s, ", targets: '%s'", f.target)
		}
		s.WriteString("}\n")
	}
	if r.off {
		s.WriteString("limits: {change: off, remove: off, peels: off}\n")
	}
	return s.String()
}

// weaker says which rule of r is gone or wider in other, empty if none surely is. What only looks different is not counted.
func (r walkRules) weaker(other walkRules, now time.Time) string {
	for _, w := range r.waves {
		i := slices.IndexFunc(other.waves, func(o walkWave) bool { return o.name == w.name })
		if i < 0 {
			return "wave " + w.name + " is gone"
		}
		o := other.waves[i]
		switch {
		case o.soak < w.soak, o.fails > w.fails, w.manual && !o.manual, o.target == w.target && (w.count > 0 && o.count > w.count || w.percent > 0 && o.percent > w.percent):
			return "wave " + w.name + " is weaker"
		}
	}
	if other.off && !r.off {
		return "the limits are off"
	}
	for _, f := range r.freezes {
		if f.to.After(now) && !slices.Contains(other.freezes, f) {
			return "a freeze is gone"
		}
	}
	return ""
}

// frozen reports whether a freeze holds one of the peels now and has done so for some seconds.
func (r walkRules) frozen(now time.Time, ids ...target.PeelID) (f walkFreeze, holds bool) {
	for _, f := range r.freezes {
		if f.holds(now) && f.holds(now.Add(-5*time.Second)) && slices.ContainsFunc(ids, func(id target.PeelID) bool { return isOf(f.target, id) }) {
			return f, true
		}
	}
	return f, false
}

// An effect is what settings do to the peels that get them.
type effect string

const (
	harmless    effect = "none"
	reportsErr  effect = "error" // the peel applies them and reports an error
	killsAtOnce effect = "die"   // the peel dies before it reports
	killsLater  effect = "late"  // it reports that it has applied them, and dies 20 s later
	ignored     effect = "deaf"  // it stays online and never applies them
	failsRun    effect = "run"   // a run of the entry that changed fails
	cutsRun     effect = "cut"   // the run is interrupted
)

var effects = []effect{reportsErr, killsAtOnce, killsLater, ignored, failsRun, cutsRun}

// A walkGroup is one file of settings.
type walkGroup struct {
	mark   int
	effect effect
	extras []string // entries beside the job
}

// walkGroups are the files: of all, of web-*, of db-*, and of the peels whose fact tier is b.
var walkGroups = []string{"all", "web", "db", "tier"}

const walkTop = "base:\n  '*': [all]\n  'web-*': [web]\n  'db-*': [db]\n  'G@tier:b': [tier]\n"

func (g walkGroup) file(name string) string {
	var s strings.Builder
	fmt.Fprintf(&s, "mark_%[1]s: %[2]d\neffect_%[1]s: %[3]s\nschedule:\n  %[1]s_job: {module: test.ping, interval: %[4]dm}\n", name, g.mark, g.effect, 60+g.mark)
	for _, e := range g.extras {
		fmt.Fprintf(&s, "  %s_%s: {module: test.ping, interval: 1h}\n", name, e)
	}
	return s.String()
}

// A walkRevision is a commit of the walk.
type walkRevision struct {
	commit  settings.Commit
	name    string // for people
	parent  *walkRevision
	groups  map[string]walkGroup
	rules   walkRules
	broken  bool // it does not compile
	allowed bool // with a Zester-Allow line
	pushed  time.Time
}

// descends reports whether the revision is other or comes after it.
func (v *walkRevision) descends(other *walkRevision) bool {
	for ; v != nil; v = v.parent {
		if v == other {
			return true
		}
	}
	return false
}

// A content is what one peel has: the text of each group that it gets.
type walkContent map[string]string

func (c walkContent) equal(o walkContent) bool { return maps.Equal(c, o) }

func textOf(mark any, e effect, extras []string) string {
	return fmt.Sprintf("%v %s %s", mark, e, strings.Join(slices.Sorted(slices.Values(extras)), ","))
}

// effect returns the effect of the groups in which c differs from before.
func (c walkContent) effect(before walkContent) effect {
	for _, name := range walkGroups {
		if e := effect(strings.Fields(c[name] + " none none")[1]); c[name] != before[name] && c[name] != "" && e != harmless {
			return e
		}
	}
	return harmless
}

// entries returns the names of all entries.
func (c walkContent) entries() (names []string) {
	for group, text := range c {
		names = append(names, group+"_job")
		if f := strings.Fields(text); len(f) > 2 {
			for e := range strings.SplitSeq(f[2], ",") {
				names = append(names, group+"_"+e)
			}
		}
	}
	return names
}

// content returns what the revision gives a peel whose fact tier has a value.
func (v *walkRevision) content(id target.PeelID, tier string) walkContent {
	c := walkContent{}
	for _, name := range walkGroups {
		if name == "all" || name == "tier" && tier == "b" || strings.HasPrefix(string(id), name+"-") {
			g := v.groups[name]
			c[name] = textOf(g.mark, g.effect, g.extras)
		}
	}
	return c
}

// contentOfDocument returns what a document gives its peel.
func contentOfDocument(doc *settings.Document) (walkContent, error) {
	values, err := doc.Values()
	if err != nil {
		return nil, err
	}
	schedule, _ := values["schedule"].(map[string]any)
	c := walkContent{}
	for _, name := range walkGroups {
		mark, ok := values["mark_"+name]
		if !ok {
			continue
		}
		var extras []string
		for entry := range schedule {
			if extra, ok := strings.CutPrefix(entry, name+"_"); ok && extra != "job" {
				extras = append(extras, extra)
			}
		}
		c[name] = textOf(mark, effect(fmt.Sprint(values["effect_"+name])), extras)
	}
	return c, nil
}

// files returns all files of the revision.
func (v *walkRevision) files() map[string]string {
	files := map[string]string{"top.yaml": walkTop, "zester.yaml": v.rules.file()}
	for name, g := range v.groups {
		files["settings/"+name+".yaml"] = g.file(name)
	}
	if v.broken {
		files["settings/all.yaml"] = "schedule:\n  all_job: {module: test.ping, interval: 2x}\n"
	}
	return files
}
