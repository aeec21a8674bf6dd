package fleet

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/master/bus"

	"github.com/nats-io/nats.go"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
	"github.com/seed-c01c3da5/zester/settings/target/peelindex"
)

func TestStoredAndNewFactsAreInTheIndex(t *testing.T) {
	bubble(t, func(t *fleet) {
		t.facts("web-1.dc", target.Facts{"os": "debian", "n": int64(300), "list": []any{"a", 1.5}})
		t.facts("db-1", target.Facts{"os": "ubuntu"})
		f, _ := t.start()
		t.want(f, "db-1", "web-1.dc")
		changes := f.Watch(t.Context())
		t.facts("db-1", target.Facts{"os": "debian"})
		t.facts("new", nil)
		t.want(f, "db-1", "new", "web-1.dc")
		e, err := target.Parse("G@os:debian", target.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := f.Index().Select(e); len(got) != 2 {
			t.Errorf("debian are %v", got)
		}
		if got, _ := f.Index().Get("web-1.dc"); !reflect.DeepEqual(got, target.Facts{"os": "debian", "n": int64(300), "list": []any{"a", 1.5}}) {
			t.Errorf("facts are %v", got)
		}
		<-changes
		t.facts("db-1", target.Facts{"os": "debian"})
		select {
		case <-changes:
			t.Error("equal facts count as a change")
		default:
		}
	})
}

func TestAnEmptyFleetIsReady(t *testing.T) {
	bubble(t, func(t *fleet) {
		f, _ := t.start()
		t.want(f)
	})
}

func TestDeletedPeelsLeaveTheIndex(t *testing.T) {
	bubble(t, func(t *fleet) {
		f, _ := t.start()
		for _, id := range []target.PeelID{"a", "b", "c"} {
			t.facts(id, nil)
		}
		t.purge("b")
		time.Sleep(2 * bus.FollowCheckEvery)
		synctest.Wait()
		t.want(f, "a", "c")
		t.purge("a")
		t.purge("c")
		time.Sleep(2 * bus.FollowCheckEvery)
		synctest.Wait()
		t.want(f)
		t.facts("c", nil)
		t.want(f, "c")
	})
}

func TestARestartOfTheBusLosesNothing(t *testing.T) {
	bubble(t, func(t *fleet) {
		f, _ := t.start()
		t.facts("a", target.Facts{"n": int64(1)})
		for i := range 5 {
			t.bus.Restart(t)
			time.Sleep(10 * time.Second)
			synctest.Wait()
			id := target.PeelID(fmt.Sprint("p", i))
			t.facts(id, nil)
			t.facts("a", target.Facts{"n": int64(i)})
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if facts, _ := f.Index().Get("a"); facts["n"] != int64(i) {
				t.Errorf("after restart %d: %v", i, facts)
			}
			if _, ok := f.Index().Get(id); !ok {
				t.Errorf("after restart %d: %s is missing", i, id)
			}
		}
	})
}

func TestAStreamMadeAnewIsReadFromItsStart(t *testing.T) {
	bubble(t, func(t *fleet) {
		f, _ := t.start()
		for i := range 20 {
			t.facts(target.PeelID(fmt.Sprint("old", i)), nil)
		}
		s, err := t.js.Stream(t.Context(), wire.StreamFacts)
		if err != nil {
			t.Fatal(err)
		}
		config := s.CachedInfo().Config
		if err := t.js.DeleteStream(t.Context(), wire.StreamFacts); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if f.Index().Len() != 20 {
			t.Error("a missing stream emptied the index")
		}
		if _, err := t.js.CreateStream(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		t.facts("old3", nil)
		t.facts("new", nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		t.want(f, "new", "old3")
	})
}

func TestAConsumerThatVanishesIsReplaced(t *testing.T) {
	bubble(t, func(t *fleet) {
		f, _ := t.start()
		s, err := t.js.Stream(t.Context(), wire.StreamFacts)
		if err != nil {
			t.Fatal(err)
		}
		for name := range s.ConsumerNames(t.Context()).Name() {
			if err := s.DeleteConsumer(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
		t.facts("a", nil)
		time.Sleep(3 * bus.FollowCheckEvery) // one whose deletion the server does not tell is found by the second check
		synctest.Wait()
		t.want(f, "a")
	})
}

func TestPeelsAreOnlineWhileTheyAreHeard(t *testing.T) {
	bubble(t, func(t *fleet) {
		t.facts("web.1", nil)
		time.Sleep(time.Hour)
		stored := time.Now().Add(-time.Hour)
		f, _ := t.start()
		check := func(want bool) {
			t.Helper()
			synctest.Wait()
			if at, online := f.Presence("web.1"); online != want {
				t.Errorf("online: %v, seen at %s", online, at)
			}
		}
		check(false)
		if at, _ := f.Presence("web.1"); at.Sub(stored).Abs() > time.Second {
			t.Errorf("last seen %s, facts are of %s", at, stored)
		}
		for range 5 {
			t.say("web_1", &nats.Msg{Subject: wire.Heartbeat("web_1")})
			check(true)
			time.Sleep(89 * time.Second)
			check(true)
		}
		time.Sleep(2 * time.Second)
		check(false)
		t.facts("web.1", nil)
		check(true)
		if _, online := f.Presence("web_1"); online {
			t.Error("a peel of the same wire form is online")
		}
		if at, online := f.Presence("nobody"); online || !at.IsZero() {
			t.Error("an unknown peel was heard")
		}
		t.say("stranger", &nats.Msg{Subject: wire.Heartbeat("stranger")})
		if _, online := f.Presence("stranger"); !online {
			t.Error("a peel that sent no facts yet was not heard")
		}
		time.Sleep(OfflineAfter + 2*bus.FollowCheckEvery)
		synctest.Wait()
		if at, _ := f.Presence("stranger"); !at.IsZero() {
			t.Error("a peel without facts is remembered for ever")
		}
	})
}

func TestHeartbeatsThatTheServerWasMadeToSendCountForNothing(t *testing.T) {
	bubble(t, func(t *fleet) {
		f, _ := t.start()
		master := t.bus.Conn(t, grants.RoleMaster, "evil")
		for _, m := range []*nats.Msg{
			{Subject: wire.Heartbeat("a"), Data: []byte(`{"type":"io.nats.jetstream.api.v1.pub_ack_response"}`)},
			{Subject: wire.Heartbeat("a"), Header: nats.Header{"Nats-Stream": {"x"}}},
		} {
			if err := master.PublishMsg(m); err != nil {
				t.Fatal(err)
			}
		}
		t.flush(master)
		if at, _ := f.Presence("a"); !at.IsZero() {
			t.Error("the peel was heard")
		}
	})
}

func TestRefusedFactsChangeNothing(t *testing.T) {
	deep := any("x")
	for range wire.MaxFactsDepth {
		deep = []any{deep}
	}
	wide := make([]any, wire.MaxFacts)
	for name, v := range map[string]any{
		"another's":      wire.Facts{Peel: "other", Facts: target.Facts{"os": "evil"}},
		"no ID":          wire.Facts{Facts: target.Facts{"os": "evil"}},
		"no facts":       []any{"x"},
		"newer protocol": wire.Facts{Peel: "a.b", V: wire.Version + 1},
		"deep":           wire.Facts{Peel: "a.b", Facts: target.Facts{"d": deep}},
		"many":           wire.Facts{Peel: "a.b", Facts: target.Facts{"w": wide}},
		"big":            wire.Facts{Peel: "a.b", Facts: target.Facts{"s": strings.Repeat("x", wire.MaxFactsSize)}},
		"long name":      wire.Facts{Peel: "a.b", Facts: target.Facts{strings.Repeat("x", wire.MaxFactName+1): true}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *fleet) {
				f, stop := t.start()
				t.facts("a.b", target.Facts{"os": "debian"})
				for range 3 {
					t.say("a_b", message(t, "a_b", v))
				}
				t.want(f, "a.b")
				if facts, _ := f.Index().Get("a.b"); facts["os"] != "debian" {
					t.Errorf("facts are %v", facts)
				}
				if f.Refused() != 3 {
					t.Errorf("%d refused, want 3", f.Refused())
				}
				t.facts("a.b", target.Facts{"os": "ubuntu"})
				if facts, _ := f.Index().Get("a.b"); facts["os"] != "ubuntu" {
					t.Errorf("good facts after refused ones are not taken: %v", facts)
				}
				t.say("a_b", message(t, "a_b", v))
				time.Sleep(time.Minute)
				t.say("a_b", message(t, "a_b", v))
				stop()
				if n := strings.Count(t.logs.String(), "facts refused"); n != 2 || !strings.Contains(t.logs.String(), "left_out=3") {
					t.Errorf("logged %d times, want once in a minute:\n%s", n, t.logs)
				}
			})
		})
	}
}

func TestOfTwoIDsOfOneFormTheFirstCounts(t *testing.T) {
	bubble(t, func(t *fleet) {
		f, stop := t.start()
		t.facts("a.b", target.Facts{"os": "debian"})
		t.facts("a_b", nil)
		t.want(f, "a.b")
		stop()
		if logs := t.logs.String(); !strings.Contains(logs, "the facts are from a_b, and the peel with this wire ID is a.b") {
			t.Errorf("logged:\n%s", logs)
		}
		f, _ = t.start() // whose facts are the newest is of no account
		t.want(f)
		t.facts("a.b", nil)
		t.want(f, "a.b")
		t.purge("a.b")
		if err := f.Unbind(t.Context(), "a.b"); err != nil {
			t.Fatal(err)
		}
		t.facts("a_b", nil)
		t.want(f, "a_b")
		if _, online := f.Presence("a.b"); online {
			t.Error("the peel that was removed is online")
		}
	})
}

func TestIndexEqualsTheStreamAfterAnyHistory(t *testing.T) {
	bubble(t, func(t *fleet) {
		r := rand.New(rand.NewPCG(1, 2))
		f, stop := t.start()
		want := map[target.PeelID]target.Facts{}
		for step := range 300 {
			id := target.PeelID(fmt.Sprint("p", r.IntN(12)))
			switch n := r.IntN(20); {
			case n == 0:
				stop()
				f, stop = t.start()
			case n == 1 && step%3 == 0:
				t.bus.Restart(t)
				time.Sleep(30 * time.Second)
			case n < 5 && want[id] != nil:
				t.purge(id)
				delete(want, id)
			default:
				want[id] = target.Facts{"n": r.Int64N(5), "list": []any{fmt.Sprint(r.IntN(3))}}
				t.facts(id, want[id])
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		got := map[target.PeelID]target.Facts{}
		for _, id := range f.Index().IDs() {
			got[id], _ = f.Index().Get(id)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("the index holds\n%v\nwant\n%v", got, want)
		}
	})
}

func TestRunEndsWithItsConnection(t *testing.T) {
	bubble(t, func(t *fleet) {
		nc := t.bus.Conn(t, grants.RoleMaster, "m1")
		f := New(nc, slog.New(slog.DiscardHandler))
		done := make(chan error, 1)
		go func() { done <- f.Run(t.Context()) }()
		t.ready(f)
		nc.Close()
		if err := <-done; err == nil || !strings.Contains(err.Error(), "the connection to the bus is closed") {
			t.Errorf("Run: %v", err)
		}
	})
}

func TestWaitReadyEndsWithItsContext(t *testing.T) {
	bubble(t, func(t *fleet) {
		f := New(t.bus.Conn(t, grants.RoleMaster, "m1"), slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := f.WaitReady(ctx); err == nil {
			t.Error("ready without Run")
		}
	})
}

func FuzzDecode(f *testing.F) {
	f.Add(message(f, "a", wire.Facts{Peel: "a", Facts: target.Facts{"os": "debian", "list": []any{int64(1), nil}}}).Data)
	f.Add([]byte(`{"peel_id":"a"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		facts, err := wire.DecodeFacts(&nats.Msg{Subject: wire.Fact("a"), Data: data})
		if err != nil {
			return
		}
		if facts.Peel != "a" {
			t.Fatalf("accepted facts of %q", facts.Peel)
		}
		ix := peelindex.New()
		ix.Put(facts.Peel, facts.Facts)
		ix.Remove(facts.Peel)
		if ix.Len() != 0 {
			t.Fatal("the peel stays in the index")
		}
	})
}

// A peel whose facts change all the time wakes those that watch every 10 s, and another peel at once.
func TestAPeelWhoseFactsChangeAllTheTimeWakesWatchersNowAndThen(t *testing.T) {
	bubble(t, func(t *fleet) {
		f, _ := t.start()
		t.facts("busy", nil)
		synctest.Wait()
		watch := f.Watch(t.Context())
		woken := 0
		for i := range 60 {
			time.Sleep(time.Second)
			t.facts("busy", target.Facts{"n": int64(i)})
			synctest.Wait()
			select {
			case <-watch:
				woken++
			default:
			}
		}
		if facts, _ := f.Index().Get("busy"); woken < 5 || woken > 7 || facts["n"] != int64(59) {
			t.Errorf("woken %d times in a minute, %v", woken, facts)
		}
		t.facts("calm", nil)
		synctest.Wait()
		select {
		case <-watch:
		default:
			t.Error("another peel does not wake them")
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		<-watch // the last change of the busy peel is not lost
		time.Sleep(time.Hour)
		select {
		case <-watch:
			t.Error("woken after that")
		default:
		}
	})
}
