package dispatch_test

import (
	"errors"
	"testing"

	"github.com/seed-c01c3da5/zester/master/dispatch"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func TestEachTargetCountsOnceAndNoneAfterTheEnd(t *testing.T) {
	count := dispatch.NewTally()
	count.Begin([]target.PeelID{"a", "b.c", "d"}, false)
	mark := func(id target.PeelID, sequence uint64, r job.Receipt) error {
		place, got, err := count.Place(id.Wire())
		if err != nil || got != id {
			t.Fatalf("the place of %s is that of %q, %v", id, got, err)
		}
		return count.MarkReturned(place, sequence, &r)
	}
	for i, err := range []error{
		mark("b.c", 7, job.Receipt{Outcome: wire.Canceled}),
		mark("a", 3, job.Receipt{Success: true}),
	} {
		if err != nil {
			t.Errorf("return %d: %v", i, err)
		}
	}
	if err := mark("a", 9, job.Receipt{Success: true}); !errors.Is(err, dispatch.ErrRepeated) {
		t.Errorf("a second return of a: %v", err)
	}
	if _, _, err := count.Place("x"); !errors.Is(err, dispatch.ErrStranger) {
		t.Errorf("a peel that is no target: %v", err)
	}
	if end, want := count.End(), (job.End{Targets: 3, Returned: 2, Succeeded: 1, Stopped: 1, LastReturn: 7}); end != want {
		t.Errorf("%+v, want %+v", end, want)
	}
	if err := mark("d", 10, job.Receipt{Success: true}); !errors.Is(err, dispatch.ErrLate) {
		t.Errorf("a return after the end: %v", err)
	}
}
