package coverage_test

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/peel"
	"github.com/seed-c01c3da5/zester/peel/scheduler/rules"
	"github.com/seed-c01c3da5/zester/settings/target"
)

var (
	soakSeed  = flag.Uint64("soak.seed", 0, "of the random faults; 0: another one each time")
	soakHours = flag.Int("soak.hours", 8, "of fake time")
	soakPeels = flag.Int("soak.peels", 6, "in the fleet")
)

// tick is the time between two fires of both entries of a soak.
const tick = 5 * time.Minute

// A soaked peel is a real one, with what the test knows of it.
type soaked struct {
	id     target.PeelID
	dir    string
	line   *line
	stop   func() // nil: it is down
	up     time.Time
	paused bool
	fired  bool           // it was killed after the last fire began
	truth  verdict.Counts // of the fires of the entry tick, by the right time

	ahead    atomic.Int64 // of its clock, in nanoseconds
	stepped  time.Time    // when its clock was set last
	lost     uint64       // fires that were lost while its clock was right
	stray    uint64       // runs while it was wrong: each may have the nominal time of one that was lost
	sets     uint64       // how often it was set: the fire of that moment may be called missed, or hide one that was lost
	wasWrong bool         // its clock has been wrong: its fires had other times than those in truth
}

// isWrong reports whether the clock is further from the right time than masters tolerate.
func (p *soaked) isWrong() bool { return time.Duration(p.ahead.Load()).Abs() > 2*time.Minute }

// clock returns the clocks of the peel's host.
func (p *soaked) clock() func() rules.Instant {
	read := rules.NewClock()
	return func() rules.Instant {
		i := read()
		i.Wall = i.Wall.Add(time.Duration(p.ahead.Load()))
		return i
	}
}

// A soak has real peels, and a table that is restarted. Every third peel has a clock that is set at random. Faults but kills happen two
// minutes after a fire, so that it is certain whether each fire finds its peel.
type soak struct {
	*rig
	random *rand.Rand
	dir    string
	peels  []*soaked
	kills  int
	table  *coverage.Table
	stop   func() // of the table
	// masterAhead is how far the clock of the master is ahead, in nanoseconds. That of the bus is right.
	masterAhead atomic.Int64
	busOff      bool
	busOn       time.Time // since when the bus and the table run
}

// TestVerdictsAreTheTruthWhateverFails stops, starts, pauses and cuts off real peels at random, sets clocks, restarts the table and the bus, and
// compares the verdicts with what the test did: no fire is called missed that ran, and none that was lost is overlooked.
func TestVerdictsAreTheTruthWhateverFails(t *testing.T) {
	seed := *soakSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-soak.seed %d", seed)
	dir := t.TempDir()
	bubble(t, func(t *rig) {
		s := &soak{rig: t, random: rand.New(rand.NewPCG(seed, 0)), dir: dir}
		t.clock = func() time.Time { return time.Now().Add(time.Duration(s.masterAhead.Load())) }
		s.table, s.stop = t.master()
		entries := map[string]map[string]any{
			"tick":  cron("*/5 * * * *"),
			"fails": {"module": "test.fail", "cron": "*/5 * * * *", "timezone": "UTC"},
		}
		for i := range *soakPeels {
			p := &soaked{id: target.PeelID(fmt.Sprintf("host-%d", i)), dir: filepath.Join(dir, fmt.Sprint("host-", i))}
			t.document(p.id, entries)
			s.start(p)
			s.peels = append(s.peels, p)
		}
		for range *soakHours * int(time.Hour/tick) {
			next := time.Now().Truncate(tick).Add(tick)
			if s.random.IntN(4) == 0 {
				s.killAtFire(next)
			}
			time.Sleep(time.Until(next.Add(2 * time.Minute)))
			s.fired()
			s.check()
			s.disturb()
		}
		s.settle()
	})
}

func (s *soak) start(p *soaked) {
	s.Helper()
	p.line, p.up = &line{bus: s.bus}, time.Now()
	p.stop = s.peel(peel.Options{ID: p.id, DataDir: p.dir, Zone: time.UTC, Clock: p.clock()}, p.line)
}

// kill ends a peel as SIGKILL does: the next process finds the files as they are now, and the bus hears no more of this one.
func (s *soak) kill(p *soaked) {
	s.Helper()
	synctest.Wait()
	p.line.kill()
	s.kills++
	next := filepath.Join(s.dir, fmt.Sprint(p.id, "-", s.kills))
	copyPrivate(s, next, p.dir)
	go p.stop()
	p.dir, p.stop = next, nil
}

// copyPrivate copies a directory that only its owner can read.
func copyPrivate(t testing.TB, to, from string) {
	t.Helper()
	err := os.CopyFS(to, os.DirFS(from))
	if err == nil {
		err = filepath.WalkDir(to, func(path string, e fs.DirEntry, err error) error {
			mode := fs.FileMode(0o600)
			if e.IsDir() {
				mode = 0o700
			}
			return errors.Join(err, os.Chmod(path, mode))
		})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// killAtFire kills a peel while or shortly after an entry fires, and half of the time starts it at once. A fire that was skipped in
// the last second before counts as missed, see package scheduler, so the peel is not paused.
func (s *soak) killAtFire(fire time.Time) {
	p := s.peels[s.random.IntN(len(s.peels))]
	if p.stop == nil || p.paused || p.ahead.Load()%int64(tick) != 0 {
		return
	}
	time.Sleep(time.Until(fire.Add(time.Duration(s.random.IntN(4)) * 400 * time.Millisecond)))
	s.kill(p)
	p.fired = true
	if s.random.IntN(2) == 0 {
		s.start(p)
	}
}

// set sets the clock of a peel, to the right time if it is wrong. All times but one have the fires of the entries at the same moments
// as the right time. The peel runs: one whose clock is set while it is down can only guess what it missed.
func (s *soak) set(p *soaked) {
	ahead := time.Duration(0)
	if p.ahead.Load() == 0 {
		by := []time.Duration{90 * time.Second, tick, 2 * tick, time.Hour, 3 * time.Hour, 5 * time.Hour, 24 * time.Hour}
		if ahead = by[s.random.IntN(len(by))]; s.random.IntN(2) == 0 {
			ahead = -ahead
		}
	}
	p.ahead.Store(int64(ahead))
	p.sets++
	p.stepped, p.wasWrong = time.Now(), p.wasWrong || p.isWrong()
}

// fired adds the fire two minutes ago to the truth.
func (s *soak) fired() {
	for _, p := range s.peels {
		p.truth.Expected++
		switch {
		case p.fired:
			p.fired = false
			p.truth.Ran++
		case p.paused:
			p.truth.Skipped++
		case p.stop == nil:
			p.truth.Missed++
			if !p.isWrong() {
				p.lost++
			}
		default:
			p.truth.Ran++
			if p.isWrong() {
				p.stray++
			}
		}
	}
}

// check holds that no verdict accuses a peel of more than it lost.
func (s *soak) check() {
	s.Helper()
	synctest.Wait()
	if s.busOff {
		return
	}
	cells, err := s.table.Cells(coverage.Query{})
	if err != nil {
		s.Logf("%s: %v", time.Now().UTC().Format(time.TimeOnly), err)
		return
	}
	for _, c := range cells {
		for _, p := range s.peels {
			if p.id == c.Peel && (c.Counts.Missed > p.truth.Missed+p.sets || !p.wasWrong && (c.Counts.Ran > p.truth.Ran || c.Counts.Unexpected > 0)) {
				s.Errorf("%s: %s on %s: %s, and the truth is %s", time.Now().UTC().Format(time.TimeOnly), c.Entry, c.Peel, text(c.Counts), text(p.truth))
			}
		}
	}
	s.checkProblems()
}

// checkProblems holds that exactly those peels disagree whose clock is wrong, that those report that run, and that nothing is called
// missed on a peel that lost nothing, or whose clock is wrong. A peel has a while to report.
func (s *soak) checkProblems() {
	s.Helper()
	has := map[target.PeelID]map[verdict.Kind]bool{}
	for _, problem := range s.table.Problems() {
		if has[problem.Peel] == nil {
			has[problem.Peel] = map[verdict.Kind]bool{}
		}
		has[problem.Peel][problem.Kind] = true
	}
	for _, p := range s.peels {
		since := slices.MaxFunc([]time.Time{s.busOn, p.up, p.stepped}, time.Time.Compare)
		if p.stop == nil || time.Since(since) < tick-time.Minute {
			continue
		}
		is := has[p.id]
		if is[verdict.Disagrees] != p.isWrong() || is[verdict.NotReporting] || is[verdict.Missed] && (p.isWrong() || p.truth.Missed+p.sets == 0) {
			s.Errorf("%s: %s has the problems %v, its clock is %s ahead, and it lost %d fires", time.Now().UTC().Format(time.TimeOnly), p.id, is,
				time.Duration(p.ahead.Load()), p.truth.Missed)
		}
	}
}

// disturb does one thing at random.
func (s *soak) disturb() {
	s.Helper()
	i := s.random.IntN(len(s.peels))
	p, hasBadClock := s.peels[i], i%3 == 2
	switch n := s.random.IntN(10); {
	case hasBadClock && p.stop != nil && s.random.IntN(3) == 0:
		s.set(p)
	case s.random.IntN(12) == 0:
		s.masterAhead.Store(int64(s.random.IntN(97)-48) * int64(30*time.Minute))
	case n == 0 && p.stop != nil:
		s.kill(p)
	case n < 3 && p.stop != nil:
		p.stop()
		p.stop = nil
	case n < 6 && p.stop == nil:
		s.start(p)
	case n == 6 && !s.busOff:
		s.stop()
		s.table, s.stop = s.master()
		s.busOn = time.Now()
	case n == 7 && p.stop != nil && !s.busOff && !hasBadClock:
		s.pause(p)
	case n == 8 && !s.busOff:
		s.bus.Stop(s)
		s.busOff = true
	case n > 6 && s.busOff:
		s.bus.Start(s)
		s.busOff, s.busOn = false, time.Now()
	}
}

// pause pauses both entries of a peel, or resumes them.
func (s *soak) pause(p *soaked) {
	s.Helper()
	function := "schedule.pause"
	if p.paused {
		function = "schedule.resume"
	}
	for _, entry := range []string{"tick", "fails"} {
		s.order(p.id, function, map[string]any{"entry": entry})
	}
	p.paused = !p.paused
}

// settle ends all faults and compares every verdict with the truth.
func (s *soak) settle() {
	s.Helper()
	if s.busOff {
		s.bus.Start(s)
		s.busOff, s.busOn = false, time.Now()
	}
	s.masterAhead.Store(0)
	for _, p := range s.peels {
		p.ahead.Store(0)
		if p.stop == nil {
			s.start(p)
		}
	}
	for range 3 {
		time.Sleep(time.Until(time.Now().Truncate(tick).Add(tick + 2*time.Minute)))
		s.fired()
	}
	time.Sleep(2 * time.Minute)
	synctest.Wait()
	cells, _, err := s.table.Rows(s.Context(), coverage.Query{By: coverage.ByPeelAndEntry}) // a table that was restarted knows twelve hours itself
	if err != nil {
		s.Fatal(err)
	}
	compared := 0
	for _, c := range cells {
		for _, p := range s.peels {
			if p.id != c.Peel {
				continue
			}
			compared++
			want, got := p.truth, c.Counts
			if c.Entry == "fails" {
				want.Failed = want.Ran
			}
			if p.wasWrong {
				// Fires while a clock is wrong have other times. None but at the moment of a step is called missed that was not lost, and those that were lost while
				// it was right are missed, unknown, or skipped with the reason that the clock was set over them, but for stray runs.
				if got.Missed > want.Missed+p.sets || got.Missed+got.Unknown+got.Skipped+p.stray+p.sets < p.lost {
					s.Errorf("%s on %s, whose clock was wrong: %s, want %s", c.Entry, c.Peel, text(got), text(want))
				}
				continue
			}
			// The last fires are certain only after the next report.
			if got.Ran+2 < want.Ran || got.Ran > want.Ran || got.Missed != want.Missed {
				s.Errorf("%s on %s: %s, want %s", c.Entry, c.Peel, text(got), text(want))
			}
		}
	}
	if compared != 2*len(s.peels) {
		s.Errorf("%d verdicts, want %d", compared, 2*len(s.peels))
	}
	var all verdict.Counts
	for _, p := range s.peels {
		all.Add(p.truth)
	}
	s.Logf("%s", text(all))
	if all.Missed == 0 || all.Ran == 0 {
		s.Errorf("no fire was lost, or none ran: %s", text(all))
	}
}
