package quota_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// TestReturnsOfNoJobFillNoStream has a peel that fills the stream under IDs of jobs that no master makes. The server
// keeps no index of subjects with the character DEL.
func TestReturnsOfNoJobFillNoStream(t *testing.T) {
	for name, jid := range map[string]func(i int) string{
		"del":          func(int) string { return "a\x7fb" },
		"del alone":    func(int) string { return "\x7f" },
		"dels":         func(i int) string { return strings.Repeat("x\x7f", 1+i%200) + fmt.Sprint(i) },
		"wildcard":     func(int) string { return "*" },
		"any wildcard": func(int) string { return ">" },
		"long":         func(i int) string { return strings.Repeat("x", 2000) + fmt.Sprint(i) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *system) {
				s.limit(returns, 1000, -1)
				live := wire.NewJID()
				s.lives(nil, live)
				if err := s.put(live, "good", 10); err != nil {
					t.Fatal(err)
				}
				mad := s.bus.Conn(t, grants.RolePeel, "mad")
				for i := range 2000 {
					if err := mad.Publish(wire.ReturnOf(wire.JID(jid(i)), "mad"), nil); err != nil {
						t.Fatal(err)
					}
				}
				if err := mad.Flush(); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				time.Sleep(time.Second)
				s.trimmer("m1")
				time.Sleep(time.Minute)
				if n := s.state(returns).Msgs; n > 900 {
					t.Errorf("the stream holds %d messages, logged %s", n, &s.said)
				}
				if !s.has(live, "good") {
					t.Error("the return of the live job is gone")
				}
				if err := s.put(wire.NewJID(), "other", 10); err != nil {
					t.Errorf("the return of another peel is refused: %v", err)
				}
				if said := s.said.String(); strings.Contains(said, "not trimmed") {
					t.Errorf("logged %.2000s", said)
				}
			})
		})
	}
}

// TestStrangeReturnsBetweenReturnsOfALiveJobStopNoTrim has a stream that is filled by returns of ended jobs, among them one
// under each subject that the server cannot purge by itself.
func TestStrangeReturnsBetweenReturnsOfALiveJobStopNoTrim(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		live := wire.NewJID()
		s.lives(nil, live)
		if err := s.put(live, "good", 10); err != nil {
			t.Fatal(err)
		}
		mad := s.bus.Conn(t, grants.RolePeel, "mad")
		for _, jid := range []wire.JID{"\x7f", "*", ">", "a\x7fb"} {
			if err := mad.Publish(wire.ReturnOf(jid, "mad"), nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := mad.Flush(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for i := range 1000 {
			if err := s.put(wire.NewJID(), fmt.Sprint("p", i%40), 10); err != nil {
				t.Fatal(err)
			}
		}
		s.limit(returns, 1000, -1)
		s.trimmer("m1")
		time.Sleep(time.Minute)
		if n := s.state(returns).Msgs; n > 710 || !s.has(live, "good") {
			t.Errorf("the stream holds %d messages, that of the live job %v; logged %s", n, s.has(live, "good"), &s.said)
		}
	})
}
