package reconciler

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// The sentences of the oracle.
const (
	onlyWhatRulesGive = "no peel gets a document that the rules in force did not let it have"
	weakerByPerson    = "weaker rules are in force only after a person"
	frozenIsFrozen    = "inside a freeze nothing changes but what was overridden by name"
	wavePassesWell    = "a wave is passed only if at most max_failures of its members failed, died or vanished"
	oneApproval       = "one approval lets out one revision"
	wayBack           = "a failed wave begins its way back within a minute"
	headEnds          = "every head ends in force or with a reason"
	factsWait         = "what facts take beyond the limits waits for a person"
)

// slack is the time between a cause and what the oracle sees of it: a poll of the branch and a burst of changes.
const slack = 15 * time.Second

// surelyGone is how long a peel must be silent, while another that the revision changes is not, to count as gone.
const surelyGone = 4 * time.Minute

// A walkRecord is what the oracle reads of the stored record: which revision is said to be in force and which goes out.
type walkRecord struct {
	Commit  settings.Commit  `json:"commit"`
	Rollout *walkOut         `json:"rollout"`
	Pinned  *walkPin         `json:"pinned"`
	Skipped []walkRolledBack `json:"skipped"`
}

type walkOut struct {
	Commit  settings.Commit `json:"commit"`
	Started time.Time       `json:"started"`
}

type walkPin struct {
	Commit settings.Commit `json:"commit"`
}

type walkRolledBack struct {
	Commit settings.Commit `json:"commit"`
	Time   time.Time       `json:"time"`
}

// A walkAct is an order of a person about one revision, as the person saw it.
type walkAct struct {
	verb    string // approve, gate, override, pin, retry
	about   *walkRevision
	wave    string
	at      time.Time
	until   time.Time // of an override: when the freeze ends
	used    bool
	refused bool
}

// A walkPlace is one explanation of how far a rollout is: the wave, whether it took peels, and when it took the last one.
type walkPlace struct {
	wave int
	took bool
	last time.Time
}

// A walkRoll is a rollout as the oracle follows it, by the documents alone.
type walkRoll struct {
	rev, base *walkRevision
	began     time.Time
	members   map[target.PeelID]bool // that have the revision
	ever      map[target.PeelID]time.Time
	inherited []target.PeelID // that had it when the rollout began
	places    []walkPlace
	badSince  time.Time // when too many had failed for every explanation
}

// A walkHost is a peel as the oracle sees it.
type walkHost struct {
	held    walkContent
	tiers   map[string]bool // values that the fact has had
	tier    string
	dead    bool
	back    time.Time // when it came back last
	outage  bool      // it went away with all others
	awayAlt time.Time // since when it is dead while another host is not, zero otherwise
	moved   time.Time // when its fact changed last
}

// A walkOracle judges what a reconciler does by what was done to it. It knows the commits and the orders from who made
// them, the documents from the bus, and of the record only what every status says: what is in force and what goes out.
type walkOracle struct {
	mu       sync.Mutex
	ids      []target.PeelID
	hosts    map[target.PeelID]*walkHost
	revs     map[settings.Commit]*walkRevision
	history  string
	heads    []*walkRevision
	headAt   []time.Time
	acts     []*walkAct
	paused   time.Time // zero while nothing is
	leader   time.Time // since when a master leads, zero while none does
	record   walkRecord
	taken    map[target.PeelID]int // settings that facts took since a person approved something
	moved    time.Time             // when record changed what peels get
	before   []*walkRevision
	force    *walkRevision
	followed *walkRevision // the newest that was put in force by following the branch
	roll     *walkRoll
	skipped  map[settings.Commit]bool
	broken   []string // sentences, each with what was seen
}

func (o *walkOracle) failf(sentence, format string, args ...any) {
	o.broken = append(o.broken, sentence+": "+time.Now().UTC().Format("15:04:05 ")+fmt.Sprintf(format, args...))
}

// on handles one message of the bus.
func (o *walkOracle) on(m *nats.Msg) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if strings.HasPrefix(m.Subject, "$KV.rollout.") {
		var r walkRecord
		if strings.HasSuffix(m.Subject, ".state") && canon.Unmarshal(m.Data, &r) == nil {
			o.onRecord(r, time.Now())
		}
		return
	}
	for _, id := range o.ids {
		if strings.HasSuffix(m.Subject, "."+id.Wire()) {
			if doc, err := settings.Decode(m.Data, id); err == nil {
				if c, err := contentOfDocument(doc); err == nil {
					o.onContent(id, c, time.Now())
				}
			}
		}
	}
}

func (o *walkOracle) onRecord(r walkRecord, now time.Time) {
	last := o.record
	o.record = r
	for _, s := range r.Skipped {
		if !slices.Contains(last.Skipped, s) {
			o.skipped[s.Commit] = true
		}
	}
	var next *walkRevision
	if r.Rollout != nil {
		next = o.revs[r.Rollout.Commit]
	}
	ended := o.roll
	if ended != nil && (next != ended.rev || !r.Rollout.Started.Equal(ended.began)) {
		o.before, o.moved = []*walkRevision{o.force, ended.rev}, now
		o.roll = nil
	} else {
		ended = nil
	}
	if r.Commit != last.Commit {
		o.before, o.moved = append(o.before, o.force), now
		o.enforce(o.revs[r.Commit], r.Pinned != nil && r.Pinned.Commit == r.Commit, ended, now)
	}
	if next != nil && o.roll == nil {
		o.letOut(next, now)
		o.roll = &walkRoll{
			rev: next, base: o.force, began: r.Rollout.Started, members: map[target.PeelID]bool{}, ever: map[target.PeelID]time.Time{},
			places: []walkPlace{{last: now}},
		}
		for _, id := range o.changed(o.roll) { // what a rollout that this one replaces has given
			if h := o.hosts[id]; h.held.equal(next.content(id, h.tier)) {
				o.roll.inherited = append(o.roll.inherited, id)
			}
		}
	}
}

// enforce judges that a revision is said to be in force for the whole fleet.
func (o *walkOracle) enforce(c *walkRevision, pinned bool, ended *walkRoll, now time.Time) {
	base := o.force
	defer func() { o.force = c }()
	switch {
	case c == nil:
		o.failf(onlyWhatRulesGive, "an unknown revision is in force")
		return
	case pinned:
		if !o.spend("pin", c) {
			o.failf(onlyWhatRulesGive, "%s is pinned by nobody", c.name)
		}
		return
	case base == nil:
		o.followed = c
		return
	case ended != nil && ended.rev == c:
		o.completed(ended, now)
		o.followed = c
		return
	}
	o.letOut(c, now)
	o.followed = c
	changed := o.changedBy(base, c)
	if len(changed) > 0 && len(base.rules.waves) > 0 {
		o.failf(onlyWhatRulesGive, "%s goes to all at once, past the waves of %s", c.name, base.name)
	}
	o.judgeFreeze(base, c, changed, now)
}

// judgeFreeze judges that peels are given a revision now.
func (o *walkOracle) judgeFreeze(base, c *walkRevision, changed []target.PeelID, now time.Time) {
	f, frozen := base.rules.frozen(now, changed...)
	if !frozen {
		return
	}
	for _, a := range o.acts {
		if a.verb == "override" && a.about == c && !a.refused && now.Before(a.until) {
			return
		}
	}
	o.failf(frozenIsFrozen, "%s goes out in the freeze of %s until %s", c.name, base.name, f.to.Format("15:04:05"))
}

// changedBy returns the peels to which next gives something else than base.
func (o *walkOracle) changedBy(base, next *walkRevision) (ids []target.PeelID) {
	for _, id := range o.ids {
		if tier := o.hosts[id].tier; !base.content(id, tier).equal(next.content(id, tier)) {
			ids = append(ids, id)
		}
	}
	return ids
}

func (o *walkOracle) changed(r *walkRoll) []target.PeelID { return o.changedBy(r.base, r.rev) }

// spend uses up an order of a person about a revision, if there is one.
func (o *walkOracle) spend(verb string, c *walkRevision) bool {
	for _, a := range o.acts {
		if a.verb == verb && a.about == c && !a.used && !a.refused {
			a.used = true
			return true
		}
	}
	return false
}

// letOut judges that a revision leaves the branch for the fleet, at once or in waves.
func (o *walkOracle) letOut(c *walkRevision, now time.Time) {
	base := o.force
	isHead := false
	for i, h := range o.heads {
		over := i+1 < len(o.heads) && now.Sub(o.headAt[i+1]) > slack
		isHead = isHead || h == c && !over
	}
	switch {
	case c == base:
		return
	case c.broken:
		o.failf(onlyWhatRulesGive, "%s goes out and does not compile", c.name)
	case !isHead:
		o.failf(onlyWhatRulesGive, "%s goes out and is not the head of the branch", c.name)
	case !o.paused.IsZero() && now.Sub(o.paused) > time.Second:
		o.failf(onlyWhatRulesGive, "%s goes out in a pause", c.name)
	case o.skipped[c.commit]:
		if !o.spend("retry", c) {
			o.failf(onlyWhatRulesGive, "%s was rolled back and goes out again without a retry", c.name)
		}
		delete(o.skipped, c.commit)
	}
	var why []string
	rules := base.rules.weaker(c.rules, now)
	if rules != "" {
		why = append(why, rules)
	}
	rewritten := o.history != "allow" && !c.descends(o.followed)
	if rewritten {
		why = append(why, fmt.Sprintf("it does not come after %s", o.followed.name))
		if o.history == "forbid" {
			o.failf(onlyWhatRulesGive, "%s goes out and rewrites history", c.name)
		}
	}
	if text := o.surelyOver(base, c); text != "" && !c.allowed {
		why = append(why, text)
	}
	if len(why) == 0 || o.spend("approve", c) {
		return
	}
	sentence := onlyWhatRulesGive
	switch {
	case rules != "":
		sentence = weakerByPerson
	case slices.ContainsFunc(o.acts, func(a *walkAct) bool { return a.verb == "approve" && !a.refused }):
		sentence = oneApproval
	}
	o.failf(sentence, "%s after %s goes out without an approval of its own: %s", c.name, base.name, strings.Join(why, "; "))
}

// surelyOver says which limit of base a revision surely exceeds, empty if it may be within all.
func (o *walkOracle) surelyOver(base, c *walkRevision) string {
	if base.rules.off {
		return ""
	}
	has, keeps := map[string]bool{}, map[string]bool{}
	for _, id := range o.ids {
		tier := o.hosts[id].tier
		before, after := base.content(id, tier).entries(), c.content(id, tier).entries()
		for _, e := range after {
			keeps[e] = true
		}
		if !slices.ContainsFunc(after, func(e string) bool { return !slices.Contains(before, e) }) { // nothing that takes a place
			for _, e := range before {
				has[e] = true
			}
		}
	}
	for _, e := range slices.Sorted(maps.Keys(has)) {
		if !keeps[e] {
			return "no peel has " + e + " any longer"
		}
	}
	return ""
}

// mayBeOver reports whether a revision may exceed a limit of base.
func (o *walkOracle) mayBeOver(base, c *walkRevision) bool {
	changed := 0
	for _, id := range o.ids {
		for tier := range o.hosts[id].tiers {
			before, after := base.content(id, tier), c.content(id, tier)
			if slices.ContainsFunc(before.entries(), func(e string) bool { return !slices.Contains(after.entries(), e) }) {
				return true
			}
			for _, name := range walkGroups {
				if before[name] != after[name] {
					changed++
				}
			}
		}
	}
	return changed > 5 // of 18 groups at least, each about half of whose settings change
}
