package coverage_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/scheduler"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
)

var (
	soakSeeds = flag.Int("soak.seeds", 1, "how many soaks run, each with the next seed")
	soakSeed  = flag.Uint64("soak.seed", 1, "of the first soak")
	soakHours = flag.Int("soak.hours", 1, "of fake time with faults of each soak")
)

// A known is what masters are known to say wrongly.
type known struct {
	sentence string
	is       func(lie) bool
}

// knowns are what masters say wrongly today. The list is to become empty.
var knowns = []known{
	// A report says neither by how much a clock was wrong before its host booted, nor how an entry was timed before. A
	// master that had reports of that time knows it.
	{"a master that starts later lacks hours of a host whose clock was set, before a boot or another timing", func(l lie) bool {
		list := l.host.active[l.entry]
		return l.about == "masters differ" && l.host.badClock &&
			(l.hour.Before(l.host.booted) || l.hour.Before(list[len(list)-1].from))
	}},
	{"an entry that is removed or added while the clock is wrong has a fire too many", func(l lie) bool {
		return kinds[l.entry].comes && l.host.badClock && l.host.isDoubtful(l.hour, l.hour.Add(time.Hour))
	}},
	{"an entry that settings remove and add again loses the verdicts of before in the table", func(l lie) bool {
		return kinds[l.entry].comes && (l.about == "less than before" || l.about == "masters differ")
	}},
}

// An activation is a time in which a host had one variant of an entry.
type activation struct {
	span
	variant
}

// A soak has hosts with every kind of entry, faults at random times, and a table that is there all the time. What masters say is
// compared with what the test has done and seen. All that is random follows from the seed.
type soak struct {
	*rig
	seed           uint64
	random         *rand.Rand
	root           string    // of the state of all hosts
	began, settled time.Time // settled is when the faults ended
	hosts          []*soakHost
	table          *coverage.Table
	later          *coverage.Table // of a master that starts in the middle
	busOff         bool
	nextAt         time.Time // of the heartbeats
	// masterAhead is how far the clocks of masters are ahead, in nanoseconds. That of the bus is right.
	masterAhead atomic.Int64
	before      map[cellKey]verdict.Counts // at the last look
	lies        map[string]lie
	events      []string
}

// note notes what the test does, for the log of a failure.
func (s *soak) note(id target.PeelID, format string, args ...any) {
	s.events = append(s.events, fmt.Sprintf("%s %s: %s", time.Now().UTC().Format("2 Jan 15:04:05.000"), id, fmt.Sprintf(format, args...)))
}

// dates are when soaks begin: on any day, and on the days on which the clocks of New York change.
var dates = []time.Time{
	time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 3, 7, 22, 0, 0, 0, time.UTC), time.Date(2026, 10, 31, 22, 0, 0, 0, time.UTC),
}

// TestMastersSayWhatHappened kills, stops, suspends, pauses and reloads hosts, runs entries by hand, sets clocks, loses reports and
// stops the bus, and wants one true verdict on every fire.
func TestMastersSayWhatHappened(t *testing.T) {
	if testing.Short() {
		t.Skip("hours of a fleet in fake time")
	}
	total := map[string]int{}
	for seed := *soakSeed; seed < *soakSeed+uint64(*soakSeeds); seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			inSoak(t, seed, *soakHours, func(s *soak) {
				s.settle()
				s.look(true)
				for sentence, n := range s.judgeLies() {
					total[sentence] += n
				}
			})
		})
	}
	for sentence, n := range total {
		t.Logf("known, %d times: %s", n, sentence)
	}
}

// A failure of a soak can be looked at only if its seed repeats it.
func TestASeedRepeatsASoak(t *testing.T) {
	var stories [2]string
	for i := range stories {
		inSoak(t, 5, 1, func(s *soak) { stories[i] = s.story() })
	}
	first, second := strings.Split(stories[0], "\n"), strings.Split(stories[1], "\n")
	for i := range max(len(first), len(second)) {
		if i >= len(first) || i >= len(second) || first[i] != second[i] {
			t.Fatalf("%d and %d lines, and the first difference is %q and %q", len(first), len(second), first[i:min(i+1, len(first))], second[i:min(i+1, len(second))])
		}
	}
	if len(first) < 500 {
		t.Errorf("a soak has only %d lines", len(first))
	}
}

// inSoak has f look at a soak in which hosts were disturbed for some hours.
func inSoak(t *testing.T, seed uint64, hours int, f func(*soak)) {
	root := t.TempDir()
	natstest.BubbleAt(t, dates[seed%3], func(t *testing.T, b *natstest.Bus) {
		s := newSoak(newRig(t, b), seed, root)
		s.run(hours)
		f(s)
	})
}

// story is all that the test did and saw.
func (s *soak) story() string {
	lines := slices.Clone(s.events)
	for _, h := range s.hosts {
		for _, r := range h.runs {
			lines = append(lines, fmt.Sprint(r.started.UTC().Format(time.DateTime), " ", h.id, " ", r.entry, " ", r.trigger, " ", r.nominal, " ", r.ended.Sub(r.started), r.failed, r.cut))
		}
		lines = append(lines, h.reports...)
	}
	for key, c := range s.before {
		lines = append(lines, fmt.Sprint(key.peel, " ", key.entry, " ", time.Unix(key.hour*3600, 0).UTC(), ": ", text(c)))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func newSoak(t *rig, seed uint64, root string) *soak {
	s := &soak{rig: t, seed: seed, random: rand.New(rand.NewPCG(seed, 0)), root: root, began: time.Now(), nextAt: time.Now(), lies: map[string]lie{}}
	t.clock = func() time.Time { return time.Now().Add(time.Duration(s.masterAhead.Load())) }
	s.table, _ = t.master()
	nameless := time.FixedZone("Local", 0)
	for i, zone := range []*time.Location{time.UTC, nameless, newYork()} {
		h := &soakHost{
			soak: s, id: target.PeelID(fmt.Sprint("host-", i)), zone: zone, badClock: i == 2, dir: t.TempDir(), booted: s.began,
			rests: map[string]*spans{}, active: map[string][]*activation{},
		}
		h.connect()
		h.choose(func(int) int { return 0 })
		h.start()
		s.hosts = append(s.hosts, h)
	}
	return s
}

// choose gives the host a document with a variant of each entry.
func (h *soakHost) choose(pick func(n int) int) {
	h.Helper()
	all, published := map[string]any{}, map[string]map[string]any{}
	for _, name := range slices.Sorted(kindNames()) {
		k := kinds[name]
		v := k.variants[pick(len(k.variants))]
		list := h.active[name]
		if n := len(list); n == 0 || fmt.Sprint(list[n-1].fields) != fmt.Sprint(v.fields) {
			if n > 0 {
				list[n-1].to = time.Now()
			}
			h.active[name] = append(list, &activation{span{from: time.Now()}, v})
		}
		if v.fields == nil {
			continue
		}
		all[name] = map[string]any(v.fields)
		if !k.local {
			published[name] = v.fields
		}
	}
	text, err := json.Marshal(all)
	if err != nil {
		h.Fatal(err)
	}
	node, err := strictyaml.Parse("schedule.yaml", text)
	if err != nil {
		h.Fatal(err)
	}
	set, err := schedule.ParseSet(node)
	if err != nil {
		h.Fatal(err)
	}
	doc := h.document(h.id, published)
	h.mu.Lock()
	h.set, h.doc = set, doc
	h.mu.Unlock()
}

// run disturbs the hosts for a while.
func (s *soak) run(hours int) {
	s.Helper()
	const step = 5 * time.Minute
	for i := range hours * int(time.Hour/step) {
		next := s.began.Add(time.Duration(i) * step)
		moment := time.Duration(s.random.Int64N(int64(step)))
		if s.random.IntN(3) == 0 { // while or shortly after entries fire
			moment = step - time.Millisecond + time.Duration(s.random.IntN(4))*400*time.Millisecond
		}
		s.until(next.Add(moment))
		s.disturb()
		if i%6 == 5 {
			s.look(false)
		}
		if s.later == nil && !s.busOff && i >= hours*6 {
			s.note("master", "another one starts")
			s.later, _ = s.master()
		}
	}
}

// until lets time pass. Hosts send heartbeats.
func (s *soak) until(at time.Time) {
	for s.nextAt.Before(at) {
		time.Sleep(time.Until(s.nextAt))
		for _, h := range s.hosts {
			h.beat()
		}
		s.nextAt = s.nextAt.Add(30 * time.Second)
	}
	time.Sleep(time.Until(at))
	synctest.Wait()
}

// disturb does one thing at random.
func (s *soak) disturb() {
	s.Helper()
	h := s.hosts[s.random.IntN(len(s.hosts))]
	isUp := h.process != nil && h.frozen.Load() == 0
	switch n := s.random.IntN(16); {
	case h.process == nil && n < 8:
		h.start()
	case h.frozen.Load() != 0 && n < 8:
		h.wake()
	case n == 8:
		s.masterAhead.Store(int64(s.random.IntN(97)-48) * int64(30*time.Minute))
		s.note("master", "clock is %s ahead", time.Duration(s.masterAhead.Load()))
	case n == 9 && s.busOff:
		s.startBus()
	case n == 9 && s.random.IntN(3) == 0:
		s.bus.Stop(s)
		s.busOff = true
		s.note("bus", "stops")
	case n == 10:
		h.mute.Store(!h.mute.Load() && s.random.IntN(2) == 0)
		h.deaf.Store(!h.deaf.Load() && s.random.IntN(2) == 0)
		s.note(h.id, "reports are lost: %t, confirmations are lost: %t", h.mute.Load(), h.deaf.Load())
	case h.badClock && h.frozen.Load() == 0 && s.random.IntN(3) == 0:
		h.step()
	case !isUp:
	case n < 2:
		h.kill()
		if s.random.IntN(2) == 0 {
			s.until(time.Now().Add(time.Duration(s.random.IntN(3000)) * time.Millisecond))
			h.start()
		}
	case n < 4:
		h.halt()
	case n == 4:
		h.sleep()
	case n < 7:
		h.order()
	case !s.busOff:
		h.reload()
	}
}

func (s *soak) startBus() {
	s.Helper()
	s.bus.Start(s)
	s.busOff = false
	s.note("bus", "starts")
}

// step sets the clock of the host, to the right time if it is wrong.
func (h *soakHost) step() {
	ahead := time.Duration(0)
	if h.ahead.Load() == 0 {
		by := []time.Duration{90 * time.Second, time.Hour, 5 * time.Hour, 24 * time.Hour}
		if ahead = by[h.random.IntN(len(by))]; h.random.IntN(2) == 0 {
			ahead = -ahead
		}
	}
	h.setClock(ahead)
}

// reload gives the host other settings.
func (h *soakHost) reload() {
	h.Helper()
	h.choose(h.random.IntN)
	h.note(h.id, "reload")
	h.apply(h.process.sched.Apply)
	h.process.report.Changed()
}

// order has a person do something with an entry.
func (h *soakHost) order() {
	h.Helper()
	names := slices.Sorted(kindNames())
	names = slices.DeleteFunc(names, func(name string) bool { return !kinds[name].hand })
	name, sched := names[h.random.IntN(len(names))], h.process.sched
	rest := h.rests[name]
	if rest == nil {
		rest = &spans{}
		h.rests[name] = rest
	}
	isPaused := len(*rest) > 0 && (*rest)[len(*rest)-1].to.IsZero()
	var err error
	switch n := h.random.IntN(4); {
	case isPaused:
		h.note(h.id, "resume %s", name)
		err = sched.Resume(h.Context(), name, "ann")
		rest.end(time.Now())
	case n == 0:
		h.note(h.id, "pause %s", name)
		rest.begin(time.Now())
		err = sched.Pause(h.Context(), name, scheduler.Override{By: "ann"})
	case n == 1:
		h.note(h.id, "skip %s", name)
		_, err = sched.Skip(h.Context(), name, scheduler.Override{By: "ann"})
	default:
		h.note(h.id, "run %s", name)
		_ = sched.Start(h.Context(), name, "ann") // it may run already
	}
	if err != nil {
		h.Errorf("%s: %v", h.id, err)
	}
	if h.random.IntN(4) == 0 {
		h.kill() // what was answered holds
		h.start()
	}
}

// settle ends all faults and lets the hosts report.
func (s *soak) settle() {
	s.Helper()
	s.note("all", "faults end")
	if s.busOff {
		s.startBus()
	}
	s.masterAhead.Store(0)
	for _, h := range s.hosts {
		h.mute.Store(false)
		h.deaf.Store(false)
		if h.frozen.Load() != 0 {
			h.wake()
		}
		if h.process == nil {
			h.start()
		}
		if h.ahead.Load() != 0 {
			h.setClock(0)
		}
	}
	s.settled = time.Now()
	s.until(s.settled.Add(2 * time.Hour))
	for _, h := range s.hosts {
		h.process.report.Changed()
	}
	s.until(time.Now().Add(time.Minute))
}

// look compares what masters say with the truth.
func (s *soak) look(atEnd bool) {
	s.Helper()
	synctest.Wait()
	now := time.Now()
	got, err := s.hoursOf(s.table, s.began.Unix()/3600, now.Unix()/3600)
	if err != nil {
		return // the table is behind
	}
	last := s.settled.Unix() / 3600
	for _, h := range s.hosts {
		for _, name := range slices.Sorted(kindNames()) {
			truth := h.truth(name, now)
			for hour := s.began.Unix() / 3600; hour < now.Unix()/3600; hour++ {
				b := truth[hour]
				if b == nil {
					b = &bounds{}
				}
				s.add(h.compare(name, hour, got[cellKey{h.id, name, hour}], b, atEnd && hour < last)...)
			}
		}
	}
	for key, now := range got {
		was := s.before[key]
		if had, has := was.Ran+was.Skipped+was.Missed, now.Ran+now.Skipped+now.Missed; has < had && !s.waitsAgain(key) {
			s.add(lie{"less than before", s.hostOf(key.peel), key.entry, time.Unix(key.hour*3600, 0), fmt.Sprintf("%s, before that %s", text(now), text(was))})
		}
	}
	s.before = got
	if atEnd && s.later != nil {
		s.compareMasters(got)
	}
}

// waitsAgain reports whether a fire may wait again after it was skipped: a host whose clock was behind has run what was due by that
// clock, and takes up the time that it passed over when the clock is set right. With outside: defer, that fire waits for the next day.
func (s *soak) waitsAgain(key cellKey) bool {
	h, from := s.hostOf(key.peel), time.Unix(key.hour*3600, 0)
	return kinds[key.entry].loose && h.badClock && h.isDoubtful(from, from.Add(time.Hour))
}

// compareMasters compares what a master says with what the one says that has started later.
func (s *soak) compareMasters(got map[cellKey]verdict.Counts) {
	s.Helper()
	other, err := s.hoursOf(s.later, s.began.Unix()/3600, time.Now().Unix()/3600)
	if err != nil {
		s.Fatal(err)
	}
	for key, c := range other {
		if c != got[key] {
			s.add(lie{"masters differ", s.hostOf(key.peel), key.entry, time.Unix(key.hour*3600, 0), fmt.Sprintf("%s, and the later one %s", text(got[key]), text(c))})
		}
	}
}

func (s *soak) hostOf(id target.PeelID) *soakHost {
	return s.hosts[slices.IndexFunc(s.hosts, func(h *soakHost) bool { return h.id == id })]
}

func (s *soak) add(lies ...lie) {
	for _, l := range lies {
		s.lies[fmt.Sprint(l.about, l.host.id, l.entry, l.hour)] = l
	}
}

// judgeLies fails the test for each lie that is not known, and returns how often each known one was found.
func (s *soak) judgeLies() map[string]int {
	s.Helper()
	found := map[string]int{}
	for _, l := range s.lies {
		i := slices.IndexFunc(knowns, func(k known) bool { return k.is(l) })
		if i < 0 {
			s.Error(l)
			continue
		}
		s.Logf("known: %s", l)
		found[knowns[i].sentence]++
	}
	for _, e := range s.events {
		s.Log(e)
	}
	for _, h := range s.hosts {
		s.Logf("%s: %d runs, %d stops, clock set %d times, %d reports of %d bytes at most", h.id, len(h.runs), len(h.down), len(h.marks), len(h.reports), h.largest)
	}
	return found
}
