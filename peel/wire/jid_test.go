package wire_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"
)

func TestJIDsOfOneSecondSortByTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))) // a KSUID begins in 2014

		var made []wire.JID
		for range 100 {
			made = append(made, wire.NewJID())
			time.Sleep(9 * time.Millisecond)
		}

		if first, last := made[0].Time(), made[99].Time(); !first.Equal(last) {
			t.Fatalf("the test spans two seconds: %s and %s", first, last)
		}
		if !slices.IsSorted(made) {
			t.Errorf("not in the order of their making: %v", made)
		}
	})
}

func TestJIDsOfOneMomentDiffer(t *testing.T) {
	synctest.Test(t, func(*testing.T) {
		a, b := wire.NewJID(), wire.NewJID()
		if a == b {
			t.Errorf("two JIDs of one moment are %s", a)
		}
	})
}
