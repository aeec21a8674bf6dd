package notify_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/master/notify"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/status"
)

func TestMain(m *testing.M) { os.Exit(natstest.InMemory(m)) }

// A chat takes the messages of webhooks, without a socket, which would stop fake time.
type chat struct {
	mu     sync.Mutex
	told   []string // event and text
	all    []string // bodies
	asked  int
	status int // 0: it takes messages
	hangs  bool
}

func (c *chat) RoundTrip(r *http.Request) (*http.Response, error) {
	body, _ := io.ReadAll(r.Body)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	if c.hangs {
		c.mu.Unlock()
		<-r.Context().Done()
		c.mu.Lock()
		return nil, r.Context().Err()
	}
	if c.status != 0 {
		return &http.Response{StatusCode: c.status, Body: http.NoBody}, nil
	}
	var m struct{ Event, Text string }
	if err := json.Unmarshal(body, &m); err != nil {
		return nil, err
	}
	c.told, c.all = append(c.told, m.Event+" "+m.Text), append(c.all, string(body))
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

func (c *chat) answers(status int, hangs bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status, c.hangs = status, hangs
}

// was checks all that the chat was told since the last time, by the beginning of each.
func (c *chat) was(t *testing.T, want ...string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.EqualFunc(c.told, want, strings.HasPrefix) {
		t.Errorf("told %q, want %q", c.told, want)
	}
	c.told = nil
}

// sofar returns how often the chat was asked, and what it was told since the last check.
func (c *chat) sofar() (asked int, told []string, bodies string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked, slices.Clone(c.told), strings.Join(c.all, "")
}

// A leader is a state that places are told of.
type leader struct {
	mu   sync.Mutex
	seen notify.Observation
}

func (l *leader) look() notify.Observation {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen
}

func (l *leader) set(f func(o *notify.Observation)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(&l.seen)
}

func (l *leader) fail(up bool) {
	l.set(func(o *notify.Observation) {
		o.Sync.Conditions = []status.Condition{{Type: status.FetchFailed, Status: up, Message: "away", LastTransitionTime: time.Now()}}
	})
}

// attempt puts a revision at the head of the history.
func (l *leader) attempt(n int, outcome status.Outcome) {
	l.set(func(o *notify.Observation) {
		a := status.Attempt{Commit: settings.Commit(fmt.Sprintf("%040x", n)), Outcome: outcome, Reason: fmt.Sprint("reason ", n), Began: time.Now()}
		o.Attempts = append([]status.Attempt{a}, o.Attempts...)
	})
}

type bench struct {
	t     *testing.T
	store jetstream.KeyValue
	chats []*chat
	*leader
	stop func()
}

func inBubble(t *testing.T, chats int, f func(b *bench)) {
	natstest.Bubble(t, func(t *testing.T, bus *natstest.Bus) {
		js, err := jetstream.New(bus.Conn(t, grants.RoleMaster, "m1"))
		if err != nil {
			t.Fatal(err)
		}
		b := &bench{t: t, leader: &leader{}}
		if b.store, err = js.KeyValue(t.Context(), "rollout"); err != nil {
			t.Fatal(err)
		}
		for range chats {
			b.chats = append(b.chats, &chat{})
		}
		b.set(func(o *notify.Observation) { o.Sync = status.Sync{Owner: "m1", Branch: "main", Read: time.Now()} })
		b.start()
		t.Cleanup(func() { b.stop() })
		f(b)
	})
}

func (b *bench) start() {
	b.t.Helper()
	var places []*notify.Place
	for i, c := range b.chats {
		p, err := notify.NewPlace(notify.PlaceOptions{Name: fmt.Sprint("chat-", i), Provider: notify.Webhook, URL: "https://chat.example/k3y", Transport: c})
		if err != nil {
			b.t.Fatal(err)
		}
		places = append(places, p)
	}
	ctx, cancel := context.WithCancel(b.t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- notify.Run(ctx, notify.Options{Places: places, Observe: b.look, Store: b.store, Log: slog.New(slog.DiscardHandler)})
	}()
	b.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			b.t.Error(err)
		}
	})
	b.after(2 * time.Second)
}

func (b *bench) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestAnOutageIsReportedAtMostOnceOverRestarts(t *testing.T) {
	inBubble(t, 1, func(b *bench) {
		b.fail(true)
		b.after(4 * time.Minute)
		b.chats[0].was(t)
		b.after(2 * time.Minute)
		b.chats[0].was(t, "fetch_failed away")
		b.stop()
		b.start()
		b.after(time.Hour)
		b.chats[0].was(t)
		b.stop()
		b.set(func(o *notify.Observation) { o.Sync.Owner = "m2" })
		b.start()
		b.after(time.Minute)
		b.chats[0].was(t, "leader_changed m2 leads in place of m1")
		b.fail(false)
		b.after(time.Minute)
		b.chats[0].was(t, "recovered ")
	})
}

func TestAPlaceThatHangsHoldsUpNoOther(t *testing.T) {
	inBubble(t, 2, func(b *bench) {
		b.chats[0].answers(0, true)
		b.attempt(1, status.OutcomeRejected)
		b.after(2 * time.Second)
		b.chats[0].was(t)
		b.chats[1].was(t, "rejected reason 1")
		b.chats[0].answers(0, false)
		b.after(time.Minute)
		b.chats[0].was(t, "rejected reason 1")
	})
}

func TestRevisionsAreReportedAfterARestartAndNotTwice(t *testing.T) {
	inBubble(t, 1, func(b *bench) {
		b.attempt(1, status.OutcomeRejected)
		b.after(2 * time.Second)
		b.chats[0].was(t, "rejected reason 1")
		b.chats[0].answers(http.StatusServiceUnavailable, false)
		b.attempt(2, status.OutcomeRolledBack)
		b.after(time.Minute)
		b.stop()
		b.chats[0].answers(0, false)
		b.start()
		b.after(time.Minute)
		b.chats[0].was(t, "wave_failed reason 2")
		b.stop()
		b.start()
		b.after(time.Hour)
		b.chats[0].was(t)
	})
}

func TestAnOutageOfAPlaceSendsNoFlood(t *testing.T) {
	inBubble(t, 1, func(b *bench) {
		c := b.chats[0]
		c.answers(http.StatusServiceUnavailable, false)
		for n := range 40 {
			b.attempt(n, status.OutcomeRejected)
			for i := range 10 {
				b.set(func(o *notify.Observation) {
					o.Sync.Paused = nil
					if i%2 == 0 {
						o.Sync.Paused = &status.Pause{By: fmt.Sprint("ada ", n)}
					}
				})
				b.after(2 * time.Second)
			}
		}
		if asked, _, _ := c.sofar(); asked > 40 {
			t.Errorf("asked %d times in 14 minutes", asked)
		}
		c.answers(0, false)
		b.after(10 * time.Minute)
		revisions, others := 0, 0
		_, told, bodies := c.sofar()
		for _, one := range told {
			if strings.HasPrefix(one, "rejected") {
				revisions++
			} else {
				others++
			}
		}
		if revisions != 5 || !slices.Contains(told, "rejected reason 39") {
			t.Errorf("told of %d revisions: %q", revisions, told)
		}
		if others == 0 || len(told) > 45 || !strings.Contains(bodies, "earlier notifications were dropped") {
			t.Errorf("told %d times, of %d other events", len(told), others)
		}
		b.after(2 * time.Hour)
		if _, told, _ := c.sofar(); len(told) > 60 {
			t.Errorf("told %d times in all", len(told))
		}
	})
}

func TestARefusedMessageIsNotSentAgain(t *testing.T) {
	inBubble(t, 1, func(b *bench) {
		b.chats[0].answers(http.StatusBadRequest, false)
		b.attempt(1, status.OutcomeRejected)
		b.set(func(o *notify.Observation) { o.Sync.Paused = &status.Pause{By: "ada"} })
		b.after(time.Hour)
		if asked, _, _ := b.chats[0].sofar(); asked != 2 {
			t.Errorf("asked %d times", asked)
		}
	})
}

func TestANewPlaceGetsOnlyTheNewestRevision(t *testing.T) {
	inBubble(t, 0, func(b *bench) {
		for n := range 3 {
			b.attempt(n, status.OutcomeRejected)
		}
		b.stop()
		b.chats = []*chat{{}}
		b.start()
		b.after(time.Minute)
		b.chats[0].was(t, "rejected reason 2")
	})
}

func TestAHistoryThatIsReadLaterIsNotReportedAsNew(t *testing.T) {
	inBubble(t, 1, func(b *bench) {
		b.after(time.Minute)
		for n := range 3 {
			b.attempt(n, status.OutcomeRejected)
		}
		b.after(time.Minute)
		b.chats[0].was(t, "rejected reason 2")
	})
}
