package propose

import (
	"context"
	"errors"
	"testing"
	"testing/fstest"
	"time"

	"github.com/seed-c01c3da5/zester/master/service"
	"github.com/seed-c01c3da5/zester/reconciler/plan/edit"
)

// What is removed is what was decided about, also if somebody pushes between the decision and the commit.
func TestOnlyTheEntryOfTheDecisionIsRemoved(t *testing.T) {
	repo, err := edit.Read(fstest.MapFS{
		"top.yaml":               {Data: []byte("base: {}\n")},
		"top.d/api.yaml":         {Data: []byte("base:\n  '*':\n    - api.once\n")},
		"settings/api/once.yaml": {Data: []byte("schedule:\n  once:\n    module: test.ping\n    at: 2026-11-23T09:00:00Z\n    delete_after_run: true\n    api: {id: 1}\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	r := SpentRecord{Entry: "once", File: "settings/api/once.yaml", Hash: repo.Entries[0].Entry.Hash()}
	if files, err := withoutSpent(repo, r); err != nil || len(files) == 0 {
		t.Errorf("%v, %v", files, err)
	}
	r.Hash = "of another text"
	if _, err := withoutSpent(repo, r); !errors.Is(err, errEdited) {
		t.Error(err)
	}
	r.File = "settings/other.yaml"
	if _, err := withoutSpent(repo, r); !errors.Is(err, errGone) {
		t.Error(err)
	}
}

// A master that dies between the two leaves a record by which another one makes the commit.
func TestARemovalThatCannotBeStoredIsNotBegun(t *testing.T) {
	on := &session{Service: &Service{changes: service.NewLane(1, 0)}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	lost := errors.New("the lease is lost")
	asked := 0
	err := on.settle(ctx, func() error { asked++; return lost }, "spent.x", nil, SpentRecord{Entry: "once", State: SpentRemoving})
	if !errors.Is(err, lost) || asked != 1 { // the second time is before the change
		t.Errorf("%v, the lease was read %d times", err, asked)
	}
}
