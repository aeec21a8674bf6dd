package propose

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
)

// Masters of a cluster give numbers at the same time. A cluster refuses some of the writes with a code of its own.
func TestMastersOfAClusterGiveEachNumberOnce(t *testing.T) {
	c := natstest.ListenCluster(t)
	const masters, each = 4, 10
	given := make(chan int, masters*each)
	var giving sync.WaitGroup
	for i := range masters {
		js, err := jetstream.New(c.Conn(t, grants.RoleMaster, fmt.Sprintf("m%d", i)))
		if err != nil {
			t.Fatal(err)
		}
		store, err := js.KeyValue(t.Context(), bucketSchedules)
		if err != nil {
			t.Fatal(err)
		}
		on := &session{store: store}
		giving.Go(func() {
			for range each {
				id, err := on.nextID(t.Context(), 7)
				if err != nil {
					t.Error(err)
					return
				}
				given <- id
			}
		})
	}
	giving.Wait()
	close(given)
	all := map[int]bool{}
	for id := range given {
		if all[id] || id <= 7 {
			t.Errorf("the number %d was given twice, or is too low", id)
		}
		all[id] = true
	}
	if len(all) != masters*each {
		t.Errorf("%d numbers were given, want %d", len(all), masters*each)
	}
}

// A client repeats a request at another master while the first one is slow. The second one finds the name taken by the
// entry of the same request.
func TestTheAnswerOfASlowMasterHolds(t *testing.T) {
	js := natstest.Listen(t).JetStream(t)
	store, err := js.KeyValue(t.Context(), bucketSchedules)
	if err != nil {
		t.Fatal(err)
	}
	request := []byte("a request")
	sum, digest := sha256.Sum256([]byte("ann\x00k")), sha256.Sum256(request)
	if _, err := store.Create(t.Context(), "key."+hex.EncodeToString(sum[:16]), marshal(remembered{Request: digest[:], ID: 5})); err != nil {
		t.Fatal(err)
	}
	on := &session{Service: &Service{}, store: store, js: js}
	taken := refuse("409", "the name is taken")
	out, err := on.once(t.Context(), "ann", "k", request, func(int) (*api.ScheduleChanged, error) {
		made := &api.ScheduleChanged{ID: 5, Entry: "one"}
		if _, err := on.once(t.Context(), "ann", "k", request, func(int) (*api.ScheduleChanged, error) { return made, nil }); err != nil {
			t.Error(err)
		}
		return nil, taken
	})
	if err != nil || out == nil || !out.Repeated || out.ID != 5 || out.Entry != "one" {
		t.Errorf("%+v, %v", out, err)
	}
}

// A try that lost its races with others leaves the number to a slower try of the same request at another master.
func TestALostRaceKeepsTheNumberOfTheRequest(t *testing.T) {
	js := natstest.Listen(t).JetStream(t)
	store, err := js.KeyValue(t.Context(), bucketSchedules)
	if err != nil {
		t.Fatal(err)
	}
	request := []byte("a request")
	sum, digest := sha256.Sum256([]byte("ann\x00k")), sha256.Sum256(request)
	name := "key." + hex.EncodeToString(sum[:16])
	if _, err := store.Create(t.Context(), name, marshal(remembered{Request: digest[:], ID: 5})); err != nil {
		t.Fatal(err)
	}
	on := &session{Service: &Service{}, store: store, js: js}
	for _, tc := range []struct {
		refused error
		keeps   bool
	}{
		{refuse("409", "%w 3 times in the meantime; ask again", errLost), true},
		{refuse("409", "the name is taken"), false},
	} {
		_, err := on.once(t.Context(), "ann", "k", request, func(int) (*api.ScheduleChanged, error) { return nil, tc.refused })
		if !errors.Is(err, tc.refused) {
			t.Errorf("%v, want %v", err, tc.refused)
		}
		if r, _, err := on.recall(t.Context(), name); err != nil || (r.ID == 5) != tc.keeps {
			t.Errorf("after %v the number is %d, %v", tc.refused, r.ID, err)
		}
	}
}
