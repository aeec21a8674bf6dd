package peel

import (
	"testing"

	"github.com/seed-c01c3da5/zester/peel/wire"
)

// A cancel may come before its request. Of too many the oldest is forgotten; one that is repeated takes no further room.
func TestTheNewestCancelsAreRemembered(t *testing.T) {
	var p pendingRequests
	jobs := make([]wire.JID, maxCanceled+1)
	for i := range jobs {
		jobs[i] = wire.NewJID()
		p.cancel(jobs[i])
		p.cancel(jobs[i])
	}

	for i, jid := range jobs {
		r := &request{Request: wire.Request{JID: jid}}
		if isAdded, isForgotten := p.add(r), i == 0; isAdded != isForgotten {
			t.Fatalf("job %d of %d: added: %v, want %v", i, len(jobs), isAdded, isForgotten)
		}
	}
}
