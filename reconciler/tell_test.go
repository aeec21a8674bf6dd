package reconciler

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/notify"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/status"
)

// A forge takes statuses as Gitea does, without a socket, because one would stop fake time.
type forge struct {
	mu     sync.Mutex
	told   map[settings.Commit][]string // state: description
	asked  int
	status int  // 0: it takes what it is told
	hangs  bool // it does not answer before the client gives up
}

func (f *forge) RoundTrip(r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	f.asked++
	hangs := f.hangs
	f.mu.Unlock()
	if hangs {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	answer := httptest.NewRecorder()
	f.serve(answer, r)
	return answer.Result(), nil
}

func (f *forge) serve(w http.ResponseWriter, r *http.Request) {
	var s struct{ State, Context, Description string }
	dir, commit := path.Split(r.URL.Path)
	if err := json.NewDecoder(r.Body).Decode(&s); err != nil || dir != "/api/v1/repos/ops/fleet/statuses/" || s.Context != "zester/forge" {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.status != 0 {
		w.WriteHeader(f.status)
		return
	}
	f.told[settings.Commit(commit)] = append(f.told[settings.Commit(commit)], s.State+": "+s.Description)
	w.WriteHeader(http.StatusCreated)
}

// answers sets how the forge answers from now on.
func (f *forge) answers(status int, hangs bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status, f.hangs = status, hangs
}

func (f *forge) times() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked
}

// withForge has the reconcilers that start from now on tell a forge.
func (b *bench) withForge() *forge {
	b.t.Helper()
	f := &forge{told: map[settings.Commit][]string{}}
	token := filepath.Join(b.t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("t"), 0o600); err != nil {
		b.t.Fatal(err)
	}
	p, err := notify.NewPlace(notify.PlaceOptions{Name: "forge", Provider: notify.Gitea, URL: "https://forge.example/ops/fleet", Token: token, Transport: f})
	if err != nil {
		b.t.Fatal(err)
	}
	b.notify = []*notify.Place{p}
	return f
}

// was checks all that the forge was told of a commit, by the beginning of each.
func (f *forge) was(t *testing.T, c settings.Commit, want ...string) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.EqualFunc(f.told[c], want, strings.HasPrefix) {
		t.Errorf("told of %s: %q, want %q", c.Short(), f.told[c], want)
	}
}

// toldInTheEnd checks the last that the forge was told of a commit. Before a success it may have been told that it is
// pending: a term that begins looks whether there is something to tell and how far the peels are at the same time.
func (f *forge) toldInTheEnd(t *testing.T, c settings.Commit, want string) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.told[c]); n == 0 || !strings.HasPrefix(f.told[c][n-1], want) {
		t.Errorf("told of %s: %q, want %q in the end", c.Short(), f.told[c], want)
	}
}

// fleetOfTwo runs f when two peels run the first revision and a forge was told so.
func fleetOfTwo(t *testing.T, f func(b *bench, forge *forge)) {
	t.Helper()
	inBubble(t, siteFiles(), func(b *bench) {
		b.peel("web-01", nil)
		b.peel("web-02", nil)
		forge := b.withForge()
		b.start()
		b.after(2 * time.Second)
		first := b.status().LastGood.Commit
		forge.toldInTheEnd(t, first, "success: 2/2 peels in ")
		f(b, forge)
	})
}

func TestACommitIsPendingUntilThePeelsRunIt(t *testing.T) {
	fleetOfTwo(t, func(b *bench, forge *forge) {
		b.alter(silent, "web-01", "web-02")
		c := b.commit("x for w", map[string]string{"settings/web.yaml": xForW})
		b.now()
		b.after(time.Minute)
		forge.was(t, c, "pending: goes to the fleet")
		b.applies("web-01")
		forge.was(t, c, "pending: ")
		b.after(time.Minute)
		b.applies("web-02")
		forge.was(t, c, "pending: ", "success: 2/2 peels in 2 min")
		b.applies("web-02", "cannot run x")
		b.after(time.Hour)
		forge.was(t, c, "pending: ", "success: ")
	})
}

func TestACommitFailsWithItsReason(t *testing.T) {
	fleetOfTwo(t, func(b *bench, forge *forge) {
		bad := b.commit("slip", map[string]string{"settings/web.yaml": "schedule:\n  x: {module: test.ping, intervall: 30m}\n"})
		b.now()
		forge.was(t, bad, "failure: settings/web.yaml:2:")

		b.alter(silent, "web-01", "web-02")
		before := b.document("web-02")
		c := b.commit("x for w", map[string]string{"settings/web.yaml": xForW})
		b.now()
		b.after(5 * time.Minute)
		forge.was(t, c, "pending: ", "failure: 0/2 peels, 2 pending: web-01 has not applied it")
		b.applies("web-01")
		b.say("web-02", wire.SettingsApplied("web-02"), reportOn(before, "cannot use x"))
		b.after(time.Minute)
		b.applies("web-02")
		forge.was(t, c, "pending: ", "failure: ", "success: 2/2 peels in 6 min")

		c = b.commit("y for w", map[string]string{"settings/web.yaml": strings.ReplaceAll(xForW, "x:", "y:")})
		b.now()
		b.applies("web-01")
		b.say("web-02", wire.SettingsApplied("web-02"), reportOn(before, "cannot use y"))
		b.after(2 * time.Second)
		forge.was(t, c, "pending: ", "failure: 1/2 peels, 1 failed: web-02: cannot use y")
	})
}

func TestPeelsThatAreAwayDoNotHoldASuccessBack(t *testing.T) {
	fleetOfTwo(t, func(b *bench, forge *forge) {
		b.alter(away, "web-02")
		b.after(2 * time.Minute)
		c := b.commit("x for w", map[string]string{"settings/web.yaml": xForW})
		b.now()
		forge.was(t, c, "success: 1/2 peels, 1 offline in 0.")
	})
}

func TestAForgeIsToldOfWaves(t *testing.T) {
	inWaves(t, "[{name: canary, peels: 1, soak: 10m}]", func(r *rollingBench) {
		forge := r.withForge()
		r.stop()
		r.start()
		r.after(time.Minute)
		forge.toldInTheEnd(t, r.good, "success: 4/4 peels")
		r.alter(silent, r.ids...)
		c := r.next()
		r.after(time.Minute)
		forge.was(t, c, "pending: wave 1 of 1 (canary)")
		r.applies(r.ids[0], "cannot run x")
		r.takenBack(c, "canary")
		forge.was(t, c, "pending: ", "failure: wave canary failed: ")
	})
}

func TestACommitThatAnotherOvertakesIsNoSuccess(t *testing.T) {
	fleetOfTwo(t, func(b *bench, forge *forge) {
		b.alter(silent, "web-01", "web-02")
		one := b.commit("x for w", map[string]string{"settings/web.yaml": xForW})
		b.now()
		unseen := b.commit("y for w", map[string]string{"settings/web.yaml": strings.ReplaceAll(xForW, "x:", "y:")})
		last := b.commit("z for w", map[string]string{"settings/web.yaml": strings.ReplaceAll(xForW, "x:", "z:")})
		b.now()
		b.applies("web-01")
		b.applies("web-02")
		forge.was(t, one, "pending: ", "error: superseded")
		forge.was(t, unseen)
		forge.was(t, last, "pending: ", "success: 2/2 peels")
	})
}

func TestAForgeThatDoesNotAnswerDelaysNothing(t *testing.T) {
	fleetOfTwo(t, func(b *bench, forge *forge) {
		var commits []settings.Commit
		for i, name := range []string{"x:", "y:", "z:"} {
			forge.answers(http.StatusServiceUnavailable, i == 1)
			before := forge.times()
			c := b.commit("for w", map[string]string{"settings/web.yaml": strings.ReplaceAll(xForW, "x:", name)})
			if s := b.now(); s.LastGood.Commit != c || s.Counts.Applied != 2 {
				t.Errorf("not in force: %+v", s)
			}
			b.after(10 * time.Minute)
			// With the longest pauses, which begin at two seconds, and are five minutes after the first commit.
			if tries := forge.times() - before; tries < []int{7, 1, 1}[i] || tries > 40 {
				t.Errorf("the forge was asked %d times in ten minutes", tries)
			}
			forge.was(t, c)
			commits = append(commits, c)
		}
		forge.answers(0, false)
		b.after(2 * 5 * time.Minute)
		for _, c := range commits {
			forge.was(t, c, "success: 2/2 peels in 0.")
		}
	})
}

func TestAStatusThatAForgeRefusesIsNotSentAgain(t *testing.T) {
	fleetOfTwo(t, func(b *bench, forge *forge) {
		forge.answers(http.StatusUnprocessableEntity, false)
		before := forge.times()
		b.commit("x for w", map[string]string{"settings/web.yaml": xForW})
		b.now()
		b.after(time.Hour)
		if tries := forge.times() - before; tries > 2 { // pending and success
			t.Errorf("the forge was asked %d times", tries)
		}
	})
}

func TestTheNextTermReportsTheRestAndNothingTwice(t *testing.T) {
	fleetOfTwo(t, func(b *bench, forge *forge) {
		b.alter(silent, "web-01", "web-02")
		c := b.commit("x for w", map[string]string{"settings/web.yaml": xForW})
		b.now()
		b.applies("web-01")
		forge.was(t, c, "pending: ")
		b.stop()
		b.applies("web-02")
		before := forge.times()
		b.start()
		b.after(time.Minute)
		forge.was(t, c, "pending: ", "success: 2/2 peels")
		b.stop()
		b.start()
		b.after(time.Hour)
		if n := forge.times() - before; n != 1 {
			t.Errorf("the forge was asked %d times, want once", n)
		}
	})
}

func TestAPlaceThatIsNewIsToldOfTheNewestCommitAlone(t *testing.T) {
	inBubble(t, siteFiles(), func(b *bench) {
		b.peel("web-01", nil)
		b.start()
		first := b.status().LastGood.Commit
		c := b.commit("x for w", map[string]string{"settings/web.yaml": xForW})
		b.now()
		b.stop()
		forge := b.withForge()
		b.start()
		b.after(time.Minute)
		forge.toldInTheEnd(t, c, "success: 1/1 peels in ")
		forge.was(t, first)
	})
}

// A chat notes the events that a webhook is told, as EVENT BY COMMAND.
type chat struct {
	mu   sync.Mutex
	told []string
}

func (c *chat) RoundTrip(r *http.Request) (*http.Response, error) {
	var e struct{ Event, By, Command string }
	if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told = append(c.told, strings.Join(strings.Fields(e.Event+" "+e.By+" "+e.Command), " "))
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// was checks what the chat was told since the last time.
func (c *chat) was(t *testing.T, want ...string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Equal(c.told, want) {
		t.Errorf("told %q, want %q", c.told, want)
	}
	c.told = nil
}

func TestAChatIsToldWhatNeedsAPersonAndWhatPeopleDid(t *testing.T) {
	fleetOfTwo(t, func(b *bench, _ *forge) {
		c := &chat{}
		p, err := notify.NewPlace(notify.PlaceOptions{
			Name: "ops", Provider: notify.Webhook, URL: "https://chat.example/x", Transport: c,
			Events: []notify.Kind{notify.Paused, notify.Resumed, notify.Pinned, notify.Unpinned, notify.FetchFailed, notify.Recovered, notify.PeelsFailed, notify.LeaderChanged},
		})
		if err != nil {
			b.t.Fatal(err)
		}
		b.notify = []*notify.Place{p}
		b.stop()
		b.start()
		b.after(time.Minute)
		c.was(t)
		first := b.status().LastGood.Commit
		b.told("pause", nil)
		b.after(2 * time.Second)
		c.was(t, "paused op zester sync resume")
		b.told("resume", nil)
		b.after(2 * time.Second)
		c.was(t, "resumed op")
		b.told("pin", status.PinRequest{Revision: string(first)})
		b.after(2 * time.Second)
		c.was(t, "pinned op zester sync unpin")
		b.told("unpin", nil)
		b.after(2 * time.Second)
		c.was(t, "unpinned op")

		away := b.dir + ".away"
		if err := os.Rename(b.dir, away); err != nil {
			b.t.Fatal(err)
		}
		b.after(20 * time.Minute)
		c.was(t, "fetch_failed zester sync status")
		if err := os.Rename(away, b.dir); err != nil {
			b.t.Fatal(err)
		}
		b.after(10 * time.Minute)
		c.was(t, "recovered")

		b.alter(silent, "web-01")
		b.say("web-01", wire.SettingsApplied("web-01"), reportOn(b.document("web-01"), "cannot use x any longer"))
		b.after(2 * time.Minute)
		c.was(t, "peels_failed zester sync peels")
	})
}
