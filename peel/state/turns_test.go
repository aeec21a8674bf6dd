//go:build linux

package state

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/seed-c01c3da5/zester/peel/module"
)

// The return of a run that cannot begin reaches the master before the job's deadline.
func TestARunGivesUpItsTurnBeforeItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := turns{places: semaphore.NewWeighted(allTurns)}
		_, release, err := turns.take(t.Context(), module.Call{JID: "first"}, false)
		must(t, err)
		defer release()
		began := time.Now()
		_, _, err = turns.take(t.Context(), module.Call{StartBefore: began.Add(time.Minute)}, true)
		if waited := time.Since(began); !errors.Is(err, errDeadline) || waited != time.Minute-replyMargin {
			t.Errorf("after %s: %v", waited, err)
		}
	})
}
