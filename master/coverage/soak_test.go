package coverage_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/coverage"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/peel"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
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
	stop   func() // nil: it is down
	paused bool
	truth  verdict.Counts // of the fires of the entry tick
}

// A soak has real peels, and a table that is restarted. Faults happen two minutes after a fire, so that it is certain whether each
// fire finds its peel.
type soak struct {
	*rig
	random *rand.Rand
	dir    string
	peels  []*soaked
	table  *coverage.Table
	stop   func() // of the table
	busOff bool
}

// TestVerdictsAreTheTruthWhateverFails stops, starts, pauses and cuts off real peels at random, restarts the table and the bus, and
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
		s.table, s.stop = t.master()
		entries := map[string]map[string]any{
			"tick":  cron("*/5 * * * *"),
			"fails": {"module": "test.fail", "cron": "*/5 * * * *", "timezone": "UTC"},
		}
		for i := range *soakPeels {
			p := &soaked{id: target.PeelID(fmt.Sprintf("host-%d", i))}
			t.document(p.id, entries)
			s.start(p)
			s.peels = append(s.peels, p)
		}
		for range *soakHours * int(time.Hour/tick) {
			time.Sleep(time.Until(time.Now().Truncate(tick).Add(tick + 2*time.Minute)))
			s.fired()
			s.check()
			s.disturb()
		}
		s.settle()
	})
}

func (s *soak) start(p *soaked) {
	s.Helper()
	one, err := peel.New(peel.Options{
		ID: p.id, DataDir: filepath.Join(s.dir, string(p.id)), URL: s.bus.URL(), Connect: s.bus.Options(grants.RolePeel, p.id.Wire()), Zone: time.UTC, Simulated: true,
	})
	if err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- one.Run(ctx) }()
	p.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			s.Errorf("%s: %v", p.id, err)
		}
	})
	s.Cleanup(p.stop)
}

// fired adds the fire two minutes ago to the truth.
func (s *soak) fired() {
	for _, p := range s.peels {
		p.truth.Expected++
		switch {
		case p.paused:
			p.truth.Skipped++
		case p.stop == nil:
			p.truth.Missed++
		default:
			p.truth.Ran++
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
			if p.id == c.Peel && (c.Counts.Missed > p.truth.Missed || c.Counts.Ran > p.truth.Ran || c.Counts.Unexpected > 0) {
				s.Errorf("%s: %s on %s: %s, and the truth is %s", time.Now().UTC().Format(time.TimeOnly), c.Entry, c.Peel, text(c.Counts), text(p.truth))
			}
		}
	}
}

// disturb does one thing at random.
func (s *soak) disturb() {
	s.Helper()
	p := s.peels[s.random.IntN(len(s.peels))]
	switch n := s.random.IntN(10); {
	case n < 3 && p.stop != nil:
		p.stop()
		p.stop = nil
	case n < 6 && p.stop == nil:
		s.start(p)
	case n == 6 && !s.busOff:
		s.stop()
		s.table, s.stop = s.master()
	case n == 7 && p.stop != nil && !s.busOff:
		s.pause(p)
	case n == 8 && !s.busOff:
		s.bus.Stop(s)
		s.busOff = true
	case n > 6 && s.busOff:
		s.bus.Start(s)
		s.busOff = false
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
		jid := wire.NewJID()
		data, err := canon.Marshal(wire.Request{JID: jid, Function: function, Args: map[string]any{"entry": entry}, Epoch: 1, User: "ann", V: wire.Version})
		if err != nil {
			s.Fatal(err)
		}
		returned := make(chan struct{}, 1)
		sub, err := s.js.Conn().Subscribe(wire.StoredOf(jid, p.id.Wire()), func(*nats.Msg) { returned <- struct{}{} })
		if err != nil {
			s.Fatal(err)
		}
		if err := s.js.Conn().Publish(wire.Cmd(p.id.Wire()), data); err != nil {
			s.Fatal(err)
		}
		select {
		case <-returned:
		case <-time.After(time.Minute):
			s.Fatalf("%s: %s of %s has no return after a minute", p.id, function, entry)
		}
		_ = sub.Unsubscribe()
	}
	p.paused = !p.paused
}

// settle ends all faults and compares every verdict with the truth.
func (s *soak) settle() {
	s.Helper()
	if s.busOff {
		s.bus.Start(s)
		s.busOff = false
	}
	for _, p := range s.peels {
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
	cells, err := s.table.Cells(coverage.Query{})
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
