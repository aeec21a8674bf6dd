package fleet

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/master/bus"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/peel/wire"
)

// beat sends a heartbeat of one process of a peel.
func (t *fleet) beat(w, instance string) {
	t.Helper()
	t.say(w, &nats.Msg{Subject: wire.Heartbeat(w), Data: []byte(instance)})
}

func TestTwoProcessesUnderOneIDAreADuplicateWhileBothLive(t *testing.T) {
	bubble(t, func(t *fleet) {
		t.facts("web.1", nil)
		t.facts("db", nil)
		f, stop := t.start()
		for _, process := range []string{"AAAA", "BBBB"} { // the peel was restarted
			t.beat("web_1", process)
			t.beat("db", process)
			time.Sleep(30 * time.Second)
		}
		if f.Duplicate("web.1") || len(f.Duplicates()) > 0 {
			t.Error("a peel that was restarted is a duplicate")
		}
		for range 10 {
			t.beat("db", "BBBB")
			t.beat("web_1", "AAAA")
			time.Sleep(15 * time.Second)
			t.beat("web_1", "BBBB")
			time.Sleep(15 * time.Second)
		}
		if got := f.Duplicates(); len(got) != 1 || got[0] != "web.1" || !f.Duplicate("web.1") || f.Duplicate("web_1") || f.Duplicate("db") {
			t.Errorf("duplicates are %v", got)
		}
		for range 12 { // one was stopped
			t.beat("web_1", "BBBB")
			time.Sleep(30 * time.Second)
		}
		if got := f.Duplicates(); len(got) > 0 {
			t.Errorf("one process is left, and duplicates are %v", got)
		}
		stop()
		if logs := t.logs.String(); strings.Count(logs, "two processes are connected") != 1 || !strings.Contains(logs, "peel=web_1") {
			t.Errorf("logged:\n%s", logs)
		}
	})
}

func TestDuplicatesAreFoundAndForgottenInTheirOwnInterval(t *testing.T) {
	bubble(t, func(t *fleet) {
		t.facts("a", nil)
		f, _ := t.start()
		for _, process := range []string{"AAAA 600", "BBBB 600", "AAAA 600"} {
			t.beat("a", process)
			time.Sleep(5 * time.Minute)
		}
		time.Sleep(50 * time.Minute)
		if !f.Duplicate("a") {
			t.Error("not known six intervals later")
		}
		time.Sleep(10 * time.Minute)
		if f.Duplicate("a") || len(f.Duplicates()) > 0 {
			t.Error("known for ever")
		}
		t.beat("a", "BBBB 600")
		if got := f.Duplicates(); len(got) != 1 {
			t.Errorf("found again are %v", got)
		}
	})
}

func TestAPeelOfAnEarlierVersionIsAProcessToo(t *testing.T) {
	bubble(t, func(t *fleet) {
		t.facts("a", nil)
		f, _ := t.start()
		for _, process := range []string{"", "AAAA", ""} {
			t.beat("a", process)
		}
		if !f.Duplicate("a") {
			t.Error("not found")
		}
	})
}

func TestProcessesThatRestartForEverTakeBoundedMemory(t *testing.T) {
	bubble(t, func(t *fleet) {
		f, _ := t.start()
		for i := range 100 {
			t.beat("stranger", strings.Repeat("A", 1+i%32))
			t.beat(fmt.Sprint("s", i), "AAAA")
		}
		f.mu.Lock()
		n := len(f.seen["stranger"].instances.recent)
		f.mu.Unlock()
		if n > rememberedInstances {
			t.Errorf("%d processes are remembered", n)
		}
		time.Sleep(OfflineAfter + 2*bus.FollowCheckEvery)
		synctest.Wait()
		f.mu.Lock()
		defer f.mu.Unlock()
		if len(f.seen) > 0 {
			t.Errorf("%d peels without facts are remembered for ever", len(f.seen))
		}
	})
}
