package dispatch_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// However a job ends, its master keeps nothing of it in memory and no subscription on the bus.
func TestAMasterForgetsAJobThatEnded(t *testing.T) {
	for name, targets := range map[string][]target.PeelID{
		"complete": {"quick"},
		"timeout":  {"away"},
		"partial":  {"quick", "away"},
		"refused":  nil,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *system) {
				nc := s.bus.Conn(t, grants.RoleMaster, "m1", nats.ReconnectBufSize(-1))
				d, _ := s.masterOn(nc, "m1")
				s.peel("quick", pong)
				before := nc.NumSubscriptions()
				if targets == nil {
					s.refuse("active", true)
					_, err := s.request(s.alice, "alice", ask(nil, "quick"))
					wantCode(t, err, "503")
				} else {
					s.dispatch(ask(nil, targets...))
				}

				watches, _, bytes := d.Held()
				if slices.Contains(targets, "away") && (watches != 1 || bytes == 0) {
					t.Errorf("while a peel is away: %d watches of %d bytes", watches, bytes)
				}

				time.Sleep(2 * time.Minute)
				synctest.Wait()
				if watches, waiting, bytes := d.Held(); watches+waiting+bytes != 0 {
					t.Errorf("kept %d watches, %d that wait, %d bytes", watches, waiting, bytes)
				}
				if now := nc.NumSubscriptions(); now != before {
					t.Errorf("%d subscriptions before the job, %d after it", before, now)
				}
			})
		})
	}
}
