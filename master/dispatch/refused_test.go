package dispatch_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/dispatch"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// TestWhatIsReportedAsNotRunNeverRuns has the store fail at each step of a dispatch, for a moment or for long. Then the
// master restarts with a healthy store, and another one starts. A caller who was told that the job does not run asks for
// the same by hand, as another job.
func TestWhatIsReportedAsNotRunNeverRuns(t *testing.T) {
	for _, step := range dispatch.Steps[:3] {
		for failure, f := range map[string]struct {
			fail, heal func(t *testing.T, s *system)
		}{
			"the records refuse writes": {
				func(_ *testing.T, s *system) { s.refuse("active", true) }, func(_ *testing.T, s *system) { s.refuse("active", false) },
			},
			"the events are lost": {
				func(t *testing.T, s *system) {
					if err := s.js.DeleteStream(t.Context(), "job-events"); err != nil {
						t.Error(err)
					}
				},
				func(t *testing.T, s *system) { provision(t, s.js) },
			},
			"the bus is away": {
				func(t *testing.T, s *system) { s.bus.Stop(t) }, func(t *testing.T, s *system) { s.bus.Start(t) },
			},
		} {
			for _, lasts := range []time.Duration{500 * time.Millisecond, time.Minute} {
				t.Run(fmt.Sprintf("%s/%s/%v", step, failure, lasts), func(t *testing.T) {
					bubble(t, func(t *testing.T, s *system) { s.failDuringDispatch(t, step, lasts, f.fail, f.heal) })
				})
			}
		}
	}
}

func (s *system) failDuringDispatch(t *testing.T, step string, lasts time.Duration, fail, heal func(*testing.T, *system)) {
	var ran atomic.Int32
	s.peel("a", func(p *peel, r wire.Request) {
		ran.Add(1)
		pong(p, r)
	})
	var once sync.Once
	healed := make(chan struct{})
	m := s.whole("m1", func(at string, _ func()) {
		if at == step {
			once.Do(func() {
				fail(t, s)
				go func() {
					defer close(healed)
					time.Sleep(lasts)
					heal(t, s)
				}()
			})
		}
	})
	request := func(targets ...target.PeelID) job.Spec {
		return ask(func(j *job.Spec) { j.Timeout = 10 * time.Minute }, targets...)
	}
	spec := request("a")
	_, err := m.Submit(t.Context(), spec, "alice")
	<-healed
	time.Sleep(10 * time.Second)
	m.stop()
	s.whole("m1", nil)
	other := s.whole("m2", nil)
	time.Sleep(2 * time.Minute)
	switch {
	case err == nil:
		if n := ran.Load(); n != 1 {
			t.Errorf("it was accepted and ran %d times", n)
		}
	case errors.Is(err, dispatch.ErrUnknown):
		if text := err.Error(); !strings.Contains(text, "is not known, look at job "+string(spec.JID)) || strings.Contains(text, "cannot run") {
			t.Errorf("%v", err)
		}
		if _, err := other.Submit(t.Context(), spec, "alice"); err != nil { // the same request under the same ID
			t.Errorf("repeated: %v", err)
		}
		time.Sleep(time.Minute)
		if n := ran.Load(); n > 1 {
			t.Errorf("it ran %d times", n)
		}
	default:
		if !strings.Contains(err.Error(), "cannot run job "+string(spec.JID)) {
			t.Errorf("%v", err)
		}
		if _, err := s.store.Get(t.Context(), spec.JID); !errors.Is(err, job.ErrNotFound) {
			t.Errorf("there is a record: %v", err)
		}
		if n := ran.Load(); n != 0 {
			t.Errorf("the caller was told that it does not run, and it ran %d times", n)
		}
		if _, err := other.Submit(t.Context(), request("a"), "alice"); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		if n := ran.Load(); n != 1 {
			t.Errorf("repeated by hand it ran %d times", n)
		}
	}
}
