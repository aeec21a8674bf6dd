package main_test

import (
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// The embedded server reports the end of the connection; three missing heartbeats would take 90 s.
func TestAPeelThatIsKilledIsOfflineAtOnce(t *testing.T) {
	s := newStage(t)
	c := s.client()
	s.kill()
	for {
		p, err := api.PeelShow.Ask(s.ctx(), c, api.PeelRequest{Peel: "web-01"})
		if err != nil {
			t.Fatal(err)
		}
		if since := time.Since(p.LastSeen); since >= 3*wire.MinHeartbeat {
			t.Fatalf("last seen %v ago, and online %v", since, p.Online)
		}
		if !p.Online {
			break
		}
		<-time.After(lookAgain)
	}
	s.start() // returns when it is online
}
