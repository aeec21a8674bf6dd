package dispatch_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A patientLife is one random life of a job that waits for peels.
type patientLife struct {
	*system
	*testing.T
	r        *rand.Rand
	spec     job.Spec
	owner    *whole
	isMade   bool
	began    time.Time
	canceled time.Time
	deaths   []time.Time // of owners
	rejoined map[target.PeelID]bool
	came     map[target.PeelID]time.Time

	mu   sync.Mutex
	sent map[target.PeelID][]time.Time
}

// takeOverLimit is how long a job may be without an owner that acts.
const takeOverLimit = 90 * time.Second

// TestRandomLivesOfJobsThatWaitForPeels has peels come, hosts join under the names of revoked peels, owners die and
// people cancel, at random times. In every life: a peel that comes in time, while nothing else happens, has the request
// at once; after a cancel, after the time of --when-online and for a host that joined since, nothing is sent; the job
// counts each return, and ends in time.
func TestRandomLivesOfJobsThatWaitForPeels(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			bubble(t, func(t *testing.T, s *system) {
				l := &patientLife{
					system: s, T: t, r: rand.New(rand.NewPCG(seed, 28)), rejoined: map[target.PeelID]bool{},
					came: map[target.PeelID]time.Time{}, sent: map[target.PeelID][]time.Time{},
				}
				l.live()
				l.check()
			})
		})
	}
}

func (l *patientLife) upTo(d time.Duration) time.Duration { return time.Duration(l.r.Int64N(int64(d))) }

func (l *patientLife) live() {
	ids := []target.PeelID{"a", "b", "c", "d", "e", "f"}
	l.spec = ask(func(j *job.Spec) {
		j.Timeout, j.WhenOnline = time.Minute+l.upTo(9*time.Minute), 10*time.Minute+l.upTo(50*time.Minute)
		if l.r.IntN(3) == 0 {
			j.Batch = &job.Batch{Size: 1 + l.r.IntN(3)}
		}
	}, ids...)
	type event struct {
		at time.Duration
		do func()
	}
	var events []event
	add := func(at time.Duration, do func()) { events = append(events, event{at, do}) }
	for _, id := range ids {
		switch l.r.IntN(5) {
		case 0: // it never comes
		case 1:
			add(0, func() { l.come(id) })
		default:
			add(l.upTo(l.spec.WhenOnline+l.spec.Timeout), func() { l.come(id) })
		}
		if l.r.IntN(4) == 0 {
			add(2*time.Minute+l.upTo(l.spec.WhenOnline), func() { l.rejoin(id) })
		}
	}
	if l.r.IntN(2) == 0 {
		at := time.Second + l.upTo(l.spec.WhenOnline)
		add(at, l.cancel)
		l.spec.Targets = append(l.spec.Targets, "late") // while the job ends
		add(at+2*time.Second+l.upTo(7*time.Second), func() { l.come("late") })
	}
	for range l.r.IntN(3) {
		add(time.Second+l.upTo(l.spec.WhenOnline), l.takeOver)
	}
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.at, b.at) })

	l.owner = l.whole("m0", nil, l.register)
	l.began = time.Now()
	for _, e := range events {
		if e.at > 0 {
			l.submit()
		}
		time.Sleep(time.Until(l.began.Add(e.at)))
		e.do()
	}
	l.submit()
	time.Sleep(time.Until(l.began.Add(l.spec.WhenOnline + l.spec.Timeout + 2*takeOverLimit)))
}

// submit makes the job, unless it is made.
func (l *patientLife) submit() {
	if l.isMade {
		return
	}
	l.isMade, l.began = true, time.Now()
	if _, err := l.owner.Submit(l.T.Context(), l.spec, "alice"); err != nil {
		l.Fatal(err)
	}
}

// come has a peel connect, which runs each request once.
func (l *patientLife) come(id target.PeelID) {
	p := l.peel(id, func(p *peel, r wire.Request) {
		p.ack(r)
		time.Sleep(time.Second)
		p.deliver(r, wire.Result{Success: true})
	})
	if _, err := p.nc.Subscribe(wire.Cmd(id.Wire()), func(*nats.Msg) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.sent[id] = append(l.sent[id], time.Now())
	}); err != nil {
		l.Fatal(err)
	}
	l.came[id] = time.Now()
	p.appears()
}

// rejoin revokes a peel that has not come; the host that comes is another one.
func (l *patientLife) rejoin(id target.PeelID) {
	if l.came[id].IsZero() {
		l.rejoined[id] = true
		l.rejoins(id)
	}
}

func (l *patientLife) cancel() {
	if _, err := l.owner.Cancel(l.T.Context(), l.spec.JID, "alice", ""); err == nil {
		l.canceled = time.Now()
	}
}

func (l *patientLife) takeOver() {
	l.owner.kill()
	l.deaths = append(l.deaths, time.Now())
	l.owner = l.whole(fmt.Sprint("m", len(l.deaths)), nil, l.register)
}

// isDisturbed reports whether an owner died, or somebody canceled, so near to a time that the time decides nothing.
func (l *patientLife) isDisturbed(at time.Time) bool {
	return slices.ContainsFunc(l.deaths, func(death time.Time) bool {
		return !at.Before(death.Add(-time.Second)) && at.Before(death.Add(takeOverLimit))
	})
}

func (l *patientLife) check() {
	j := l.record(l.spec.JID)
	if !j.Status.Final() {
		l.Errorf("it is %s", j.Status)
	}
	until := l.began.Add(l.spec.WhenOnline)
	returned := 0
	for id, came := range l.came {
		sent := l.sent[id]
		if len(sent) > 0 {
			returned++
		}
		for _, at := range sent {
			switch {
			case l.rejoined[id]:
				l.Errorf("the host that joined as %s was sent the request", id)
			case !l.canceled.IsZero() && at.After(l.canceled.Add(time.Second)):
				l.Errorf("%s was sent the request %s after the cancel", id, at.Sub(l.canceled))
			case at.After(until.Add(time.Second)) && !l.isDisturbed(at):
				l.Errorf("%s was sent the request %s after the time to come", id, at.Sub(until))
			}
		}
		inTime := came.Before(until.Add(-time.Second)) && (l.canceled.IsZero() || came.Before(l.canceled.Add(-time.Second)))
		isPrompt := len(sent) > 0 && sent[0].Sub(came) < 2*time.Second
		if l.spec.Batch == nil && inTime && !l.isDisturbed(came) && !l.rejoined[id] && !isPrompt {
			l.Errorf("%s came at %s and has the requests %v", id, came.Sub(l.began), sent)
		}
	}
	if l.canceled.IsZero() && j.ReturnCount != returned {
		l.Errorf("it counts %d returns of %d", j.ReturnCount, returned)
	}
	if last := j.Updated.Sub(until); last > l.spec.Timeout+takeOverLimit {
		l.Errorf("it ended %s after the time to come", last)
	}
}
