package quota_test

import (
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/quota"
)

func TestAShareComesBackInTheCourseOfAWeek(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		a := quota.NewAccount(s.js, "KV_job-returns")
		for range 1000 {
			if !a.Admit("a", 1<<20) {
				t.Fatal("a message is refused although the limits are not known")
			}
		}
		s.limit(returns, -1, 4<<30)
		a = quota.NewAccount(s.js, returns)
		if err := a.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		const fits = 255      // of 1 MiB into a sixteenth of 4 GiB, with what a message takes beside
		for range 10 * fits { // in a bucket that is not half full
			if !a.Admit("a", 1<<20) {
				t.Fatal("refused although more than half is free")
			}
		}
		for range 24 {
			if err := s.put("x", "p"+time.Now().Format("150405.000000000"), 500<<10); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		s.limit(returns, -1, 16<<20) // more than half full
		a = quota.NewAccount(s.js, returns)
		if err := a.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		all := func(peel string) (n int) {
			for a.Admit(peel, 10_000-100) {
				n++
			}
			return n
		}
		const small = 104 // of 10,000 bytes into a sixteenth of 16 MiB
		if n := all("a"); n != small {
			t.Errorf("the share is %d messages, want %d", n, small)
		}
		if n := all("b"); n != small {
			t.Errorf("the share of another is %d", n)
		}
		for range 1000 { // what is refused costs nothing
			a.Admit("a", 10_000-100)
		}
		time.Sleep(14 * time.Hour) // a twelfth of a week
		if n := all("a"); n != small/12 && n != small/12+1 {
			t.Errorf("after a twelfth of a week the share is %d messages, want a twelfth of %d", n, small)
		}
	})
}
