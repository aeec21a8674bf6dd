package audit

import (
	"fmt"
	"testing"
	"time"
)

// Many users make room for each other, but not by forgetting what was left out of one, or what one has used up.
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

	for range refusalsAtOnce {
		keeps("mallory")
	}
	for i := range maxUsers {
		if user := fmt.Sprint("user", i); !keeps(user) {
			t.Fatalf("the first refusal of %s is left out", user)
		}
	}
	if keeps("mallory") {
		t.Error("a refusal beyond the limit is kept after many users came")
	}
	now = now.Add(time.Hour)
	for i := range maxUsers / 2 {
		keeps(fmt.Sprint("later", i))
	}
	if n := len(k.users); n > maxUsers {
		t.Errorf("%d users are counted, the limit is %d", n, maxUsers)
	}
	omitted, more := k.omitted(now)
	if len(omitted) != 2 || omitted[0].User != "eve" || omitted[0].LeftOut != 3 || omitted[1].User != "mallory" || more {
		t.Errorf("%+v, %v, want 3 entries of eve and 1 of mallory that were left out", omitted, more)
	}
}
