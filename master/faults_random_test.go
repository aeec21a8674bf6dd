package master_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/segmentio/ksuid"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

var (
	chaosSeed = flag.Uint64("faults.seed", 11, "of the random run; 0: another each time")
	chaosJobs = flag.Int("faults.jobs", 60, "of the random run")
)

// chaos is a site where anything may happen at any time. What happens is drawn from one source of chance.
type chaos struct {
	*site
	r    *rand.Rand
	work sync.WaitGroup

	masters, peels []*seat
	bus            sync.Mutex // while it is away

	mu       sync.Mutex
	accepted map[wire.JID]bool // whether somebody was told that it runs

	troubles map[string]int // how often each began
	kept     int            // returns of live jobs that were looked for while the bucket was trimmed
}

// A seat is where one process runs after the other.
type seat struct {
	sync.Mutex
	p     *process
	start func() *process
}

// with does something to the process in a seat, unless something is being done to it. It reports whether it does.
func (c *chaos) with(s *seat, f func(p *process)) bool {
	if !s.TryLock() {
		return false
	}
	c.work.Go(func() {
		defer s.Unlock()
		f(s.p)
	})
	return true
}

// replace ends the process in a seat and starts another, later.
func (c *chaos) replace(s *seat, end func(*process), pause time.Duration) bool {
	return c.with(s, func(p *process) {
		end(p)
		time.Sleep(pause)
		s.p = s.start()
	})
}

// withBus does something to the bus, which has to be there for that.
func (c *chaos) withBus(f func()) bool {
	if !c.bus.TryLock() {
		return false
	}
	c.work.Go(func() {
		defer c.bus.Unlock()
		f()
	})
	return true
}

func (c *chaos) upto(most time.Duration) time.Duration { return time.Duration(c.r.Int64N(int64(most))) }

// trouble makes one thing go wrong and counts it.
func (c *chaos) trouble() {
	if name, happens := c.draw(); happens {
		c.troubles[name]++
	}
}

func (c *chaos) draw() (name string, happens bool) {
	m, p := c.masters[c.r.IntN(len(c.masters))], c.peels[c.r.IntN(len(c.peels))]
	pause := c.upto(70 * time.Second)
	switch c.r.IntN(13) {
	case 0:
		return "master killed", c.replace(m, (*process).kill, pause)
	case 1:
		return "master stopped", c.replace(m, func(p *process) { p.stop() }, pause)
	case 2:
		return "master frozen", c.with(m, func(p *process) { p.freeze(); time.Sleep(pause); p.thaw() })
	case 3:
		return "master cut off", c.with(m, func(p *process) { p.setCut(true); time.Sleep(pause); p.setCut(false) })
	case 4:
		return "peel killed", c.replace(p, (*process).kill, pause/4)
	case 5:
		return "peel stopped", c.replace(p, func(p *process) { p.stop() }, pause/4)
	case 6:
		return "peel cut off", c.with(p, func(p *process) { p.setCut(true); time.Sleep(pause / 2); p.setCut(false) })
	case 7, 8:
		return "peel deaf", c.with(p, func(p *process) { p.deafen(pause / 2) })
	case 9:
		return "bus stopped", c.withBus(func() {
			c.site.bus.Stop(c.t)
			time.Sleep(pause / 20)
			c.site.bus.Start(c.t)
		})
	case 10:
		stream := []string{"KV_active", "KV_jobs", returnsStream, "KV_masters", "job-events"}[c.r.IntN(5)]
		return "writes refused", c.withBus(func() {
			c.refuse(stream, true)
			time.Sleep(pause)
			c.refuse(stream, false)
		})
	case 11:
		return "returns full", c.withBus(func() { c.squeeze(pause, full(pause%2 == 0)) })
	default:
		return "returns trimmed", c.withBus(func() {
			c.crowd()
			c.squeeze(pause, nearlyFull)
		})
	}
}

// ask asks for a job, sometimes twice, and sometimes cancels it.
func (c *chaos) ask(people *api.Client) wire.JID {
	ids := make([]target.PeelID, 0, 6)
	for range 1 + c.r.IntN(6) {
		ids = append(ids, peelID(c.r.IntN(len(c.peels))))
	}
	spec := ping(ids...)
	switch c.r.IntN(6) {
	case 0:
	case 1:
		spec.Function = "test.fail"
	case 2:
		spec = nap(c.upto(time.Second), ids...)
	default:
		spec = nap(c.upto(45*time.Second), ids...)
	}
	if c.r.IntN(8) == 0 {
		spec.JID = c.madeAt(time.Now().Add(48*time.Hour*time.Duration(c.r.IntN(2)) - 24*time.Hour))
	}
	spec.Timeout = 5*time.Second + c.upto(time.Minute)
	if c.r.IntN(4) == 0 {
		spec.Batch = &job.Batch{Size: 1 + c.r.IntN(3), MaxFailures: c.r.IntN(3)}
	}
	if c.r.IntN(8) == 0 {
		spec.WhenOnline = c.upto(2 * time.Minute)
	}
	again, cancel := c.r.IntN(3) == 0, time.Duration(-1)
	if c.r.IntN(6) == 0 {
		cancel = c.upto(20 * time.Second)
	}
	c.work.Go(func() {
		_, err := c.site.ask(spec)
		if again {
			time.Sleep(2 * time.Second)
			if _, e := c.site.ask(spec); e == nil {
				err = nil
			}
		}
		c.mu.Lock()
		c.accepted[spec.JID] = err == nil
		c.mu.Unlock()
	})
	if cancel >= 0 {
		c.work.Go(func() {
			time.Sleep(cancel)
			_, _ = api.JobCancel.Ask(c.t.Context(), people, api.JobRequest{JID: spec.JID}) // which may be too late, or find nobody
		})
	}
	return spec.JID
}

// madeAt is the ID that somebody gives a job whose clock says at.
func (s *site) madeAt(at time.Time) wire.JID {
	s.t.Helper()
	id, err := ksuid.NewRandomWithTime(at)
	if err != nil {
		s.t.Fatal(err)
	}
	return wire.JID(id.String())
}

// repeat makes what peels return come again, later, also from one that was not asked.
func (c *chaos) repeat() {
	twins := map[string]*nats.Conn{}
	for i := range c.peels {
		name := peelID(i).Wire()
		twins[name] = c.site.bus.Conn(c.t, grants.RolePeel, name, nats.ReconnectBufSize(-1))
	}
	liar := c.site.bus.Conn(c.t, grants.RolePeel, "liar", nats.ReconnectBufSize(-1))
	heard := 0
	if _, err := c.js.Conn().Subscribe(wire.ReturnOf("*", "*"), func(msg *nats.Msg) {
		if heard++; heard%10 != 0 {
			return
		}
		twin, after := twins[wire.Sender(msg.Subject)], time.Duration(heard%7)*time.Second
		go func() { // is over in time: what is repeated grows less and less
			time.Sleep(after)
			_ = twin.Publish(msg.Subject, msg.Data) // what cannot be sent need not be
			if jid, _, err := wire.JobSubject(msg.Subject); err == nil {
				_ = liar.Publish(wire.ReturnOf(jid, "liar"), msg.Data)
				_ = liar.Publish(wire.ReturnOf(jid, "liar"), []byte("forged"))
			}
		}()
	}); err != nil {
		c.t.Fatal(err)
	}
	c.repeatRequests()
}

// repeatRequests makes what masters ask of peels come again, a little later.
func (c *chaos) repeatRequests() {
	twin := c.site.bus.Conn(c.t, grants.RoleMaster, "twin", nats.ReconnectBufSize(-1))
	heard := 0
	if _, err := c.js.Conn().Subscribe(wire.Cmd("*"), func(msg *nats.Msg) {
		if heard++; heard%5 != 0 || msg.Header != nil {
			return
		}
		after := time.Duration(heard%4) * time.Second
		go func() {
			time.Sleep(after)
			_ = twin.PublishMsg(&nats.Msg{Subject: msg.Subject, Data: msg.Data, Header: nats.Header{"Again": {"yes"}}})
		}()
	}); err != nil {
		c.t.Fatal(err)
	}
}

func peelID(i int) target.PeelID { return target.PeelID(fmt.Sprintf("p%02d", i)) }

func TestWhateverHappensEveryJobEndsAsItMust(t *testing.T) {
	seed := *chaosSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-faults.seed %d", seed)
	atSite(t, func(t *testing.T, s *site) {
		c := &chaos{site: s, r: rand.New(rand.NewPCG(seed, 0)), accepted: map[wire.JID]bool{}, troubles: map[string]int{}}
		s.keepLedger()
		for i := range 3 {
			m := &seat{start: func() *process { return s.master(fmt.Sprintf("m%d", i)) }}
			c.masters = append(c.masters, m)
			m.p = m.start()
		}
		for i := range 24 {
			p := &seat{start: func() *process { return s.peel(peelID(i)) }}
			c.peels = append(c.peels, p)
			p.p = p.start()
		}
		people := s.people("bob")
		c.repeat()
		var jids []wire.JID
		for len(jids) < *chaosJobs {
			if c.r.IntN(6) == 0 {
				c.trouble()
			}
			jids = append(jids, c.ask(people))
			time.Sleep(c.upto(2 * time.Second))
		}
		c.work.Wait()
		time.Sleep(10 * time.Minute)
		ended := map[job.Status]int{}
		jids = slices.DeleteFunc(jids, func(jid wire.JID) bool {
			j, err := s.store.Get(t.Context(), jid)
			if begun := s.begun.of(jid); err != nil && (c.accepted[jid] || len(begun) > 0) {
				t.Errorf("%s was accepted or begun by %v: %v", jid, begun, err)
			}
			if err == nil {
				ended[j.Status]++
			}
			return err != nil
		})
		s.check(7*time.Minute, jids...)
		t.Logf("%d jobs: %v; troubles: %v", len(jids), ended, c.troubles)
		t.Logf("%s; %d times a return of a live job was looked for under tight limits", s.sum(jids), c.kept)
	})
}
