package quota_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/quota"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// TestAPeelThatFloodsReturnsHarmsNoOther has a peel with a valid credential return for jobs that it has invented.
func TestAPeelThatFloodsReturnsHarmsNoOther(t *testing.T) {
	for name, of := range map[string]struct{ n, bytes int }{"many": {300, 10}, "large": {110, 8 << 10}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *system) {
				s.limit(returns, 2000, 4<<20)
				trimmers := []*quota.Trimmer{s.trimmer("m1"), s.trimmer("m2")}
				jid := wire.NewJID()
				good := func(i int) {
					if err := s.put(jid, fmt.Sprint("good", i), 100); err != nil {
						t.Fatalf("return %d of another peel was refused: %v", i, err)
					}
				}
				for i := range 40 {
					good(i)
				}
				for i := range 30 { // together four streams and more
					for range of.n {
						_ = s.put(wire.NewJID(), "mad", of.bytes)
					}
					time.Sleep(6 * time.Second)
					good(40 + i)
				}
				if n := s.held(returns, "$KV.job-returns.*.*"); n < 70 {
					t.Fatalf("%d messages", n)
				}
				for i := range 70 {
					if !s.has(jid, fmt.Sprint("good", i)) {
						t.Errorf("return %d of another peel is gone", i)
					}
				}
				if n := trimmers[0].Removed() + trimmers[1].Removed(); n == 0 || !strings.Contains(s.said.String(), "peel=mad stream=KV_job-returns") {
					t.Errorf("purged %d times, logged %s", n, &s.said)
				}
			})
		})
	}
}

func TestAPeelThatFloodsReportsPushesOutNobody(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.limit("job-events", -1, 2<<20)
		trimmer := s.trimmer("m1")
		good, mad := s.bus.Conn(t, grants.RolePeel, "good"), s.bus.Conn(t, grants.RolePeel, "mad")
		s.flood(good, wire.ScheduledOf, "good", 12, 8<<10)
		for range 128 { // seconds; together a hundred shares
			s.flood(mad, wire.ScheduledOf, "mad", 12, 8<<10)
		}
		s.flood(good, wire.ScheduledOf, "good", 3, 8<<10)
		if n := s.held("job-events", wire.ScheduledOf("*", "good")); n != 15 {
			t.Errorf("%d messages of 15 are left of a peel within its share", n)
		}
		if n := s.held("job-events", wire.SaidBy("mad")); n > 200 {
			t.Errorf("%d messages are left of the peel that flooded", n)
		}
		if lines := strings.Count(s.said.String(), "surplus of a peel purged"); trimmer.Removed() == 0 || lines < 1 || lines > 3 || !strings.Contains(s.said.String(), "peel=mad stream=job-events") {
			t.Errorf("purged %d times, logged %s", trimmer.Removed(), &s.said)
		}
	})
}

func TestAStreamThatIsNotHalfFullIsNotCounted(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.limit("job-events", -1, 2<<20)
		trimmer := s.trimmer("m1")
		busy := s.bus.Conn(t, grants.RolePeel, "busy")
		for range 8 { // six shares
			s.flood(busy, wire.ScheduledOf, "busy", 12, 8<<10)
		}
		if n := s.held("job-events", wire.SaidBy("busy")); n != 96 || trimmer.Removed() != 0 || s.said.String() != "" {
			t.Errorf("%d of 96 messages are left in a stream that is not half full; purged %d times, logged %s", n, trimmer.Removed(), &s.said)
		}
	})
}

// TestPeelsWithinTheirSharesLoseNothing has a crowded stream of ten peels with equal parts, less than their shares, one of which has
// just sent a large return.
func TestPeelsWithinTheirSharesLoseNothing(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.limit(returns, 1600, 16<<20)
		trimmer := s.trimmer("m1")
		for range 90 {
			for peel := range 10 {
				if err := s.put(wire.NewJID(), fmt.Sprint("p", peel), 100); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Second)
		}
		if err := s.put(wire.NewJID(), "p0", 500<<10); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if n := s.state(returns).Msgs; n != 901 || trimmer.Removed() != 0 {
			t.Errorf("%d of 901 returns are left, purged %d times, logged %s", n, trimmer.Removed(), &s.said)
		}
	})
}
