package dispatch_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/seed-c01c3da5/zester/master/dispatch"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A target that is unreachable may connect while the job waits for such targets, and is no failure then.
func TestUnreachableTargetsFailWhenNobodyWaitsForThem(t *testing.T) {
	count := dispatch.NewTally()
	count.Begin([]target.PeelID{"a", "b", "c"}, true)
	all := []int{0, 1, 2}
	count.Advance(all, dispatch.Silent, dispatch.Unsent)
	count.Advance(all, dispatch.Unreachable, dispatch.Silent)
	batch := &job.Batch{Size: 10}
	if free, failures := count.Capacity(batch); free != 10 || failures != 0 {
		t.Errorf("while they are waited for: %d free, %d failures", free, failures)
	}
	count.Acknowledge(0)
	if _, waits := count.Working(); !waits || !slices.Equal(count.At(dispatch.Acked, all), []int{0}) {
		t.Error("one that was unreachable has the request, and is not waited for")
	}
	count.GiveUpUnreachable(map[int]bool{1: true})
	if up := count.At(dispatch.GivenUp, all); !slices.Equal(up, []int{2}) {
		t.Errorf("given up are %v", up)
	}
	if free, failures := count.Capacity(batch); free != 9 || failures != 2 {
		t.Errorf("afterwards: %d free, %d failures", free, failures)
	}
}

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
