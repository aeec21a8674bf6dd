package audit

import (
	"fmt"
	"testing"
	"time"
)

// Many users make room for each other, but not by forgetting what was left out of one.
func TestWhatIsLeftOutIsRememberedHoweverManyUsersThereAre(t *testing.T) {
	k := kept{users: map[string]*account{}}
	now := time.Date(2026, 6, 1, 9, 0, 0, 0, time.UTC)
	keeps := func(user string) bool {
		e := &Entry{User: user, Action: "job.dispatch", Result: Refused}
		return k.keeps(e, now, func() bool { return false })
	}
	for range refusalsAtOnce {
		keeps("eve")
	}
	for range 3 {
		if keeps("eve") {
			t.Fatal("more refusals of a user are kept than at once")
		}
	}

	for i := range 2 * maxUsers {
		if user := fmt.Sprint("user", i); !keeps(user) {
			t.Fatalf("the first refusal of %s is left out", user)
		}
	}
	if n := len(k.users); n > maxUsers {
		t.Errorf("%d users are counted, the limit is %d", n, maxUsers)
	}
	omitted, more := k.omitted(now)
	if len(omitted) != 1 || omitted[0].User != "eve" || omitted[0].LeftOut != 3 || more {
		t.Errorf("%+v, %v, want 3 entries of eve that were left out", omitted, more)
	}
}
