package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/seed-c01c3da5/zester/master/rest/bounds"
)

const (
	pingEvery      = 15 * time.Second
	streamWrite    = 10 * time.Second // to send one event
	maxStreams     = 400
	sessionStreams = 4 // of them of one session
)

// sessionSlot is the key by which streams of a session are counted.
type sessionSlot string

// Run notices changes while browsers look on, until ctx ends. Streams of browsers end with it.
func (c *Console) Run(ctx context.Context) error { return c.live.Run(ctx) }

// events sends the versions of the parts that changed, without their content, until the browser leaves, its session
// ends or the master stops. The first event has all.
func (c *Console) events(w http.ResponseWriter, r *http.Request) {
	v, ok := c.enter(w, r)
	if !ok {
		return
	}
	slot := bounds.Slot{Key: sessionSlot(v.session.ID), Most: sessionStreams}
	if !c.streams.Enter(slot) {
		w.Header().Set("Retry-After", "10")
		c.plain(w, r, http.StatusTooManyRequests, fmt.Sprintf(
			"too many streams are open: %d are the most with one session, %d in all", sessionStreams, maxStreams))
		return
	}
	defer c.streams.Leave(slot)
	defer c.live.Enter()()
	s := stream{w, http.NewResponseController(w)}
	_ = s.control.SetReadDeadline(time.Time{})
	w.Header().Set("Content-Type", "text/event-stream")
	c.o.Log.Debug("stream of a browser ended", "request", v.request, "err", c.follow(r, s))
}

// follow returns why the stream ended.
func (c *Console) follow(r *http.Request, s stream) error {
	var seen versions
	sent := map[string]uint64{}
	for {
		wait, cancel := context.WithTimeout(r.Context(), pingEvery)
		now, err := c.live.Wait(wait, seen)
		cancel()
		if err != nil && (!errors.Is(err, context.DeadlineExceeded) || r.Context().Err() != nil) {
			return err
		}
		if err != nil || now.Access() != seen.Access() {
			c.access.see(now.Access(), c.o.Sessions.Forget)
			check, cancel := context.WithTimeout(r.Context(), pageTime)
			_, ended := c.o.Sessions.Authenticate(check, cookieOf(r), false)
			cancel()
			if ended != nil {
				return ended
			}
		}
		if err != nil {
			if err := s.send("ping", struct{}{}); err != nil {
				return err
			}
			continue
		}
		seen = now
		if err := s.send("parts", news(sent, now.Parts())); err != nil {
			return err
		}
	}
}

// accessSeen is the version of people, tokens and sessions that streams have seen last.
type accessSeen struct {
	mu      sync.Mutex // guards version
	version uint64
}

// see calls forget if the version is new, and returns when that is done.
func (a *accessSeen) see(version uint64, forget func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.version != version {
		a.version = version
		forget()
	}
}

// news returns the parts whose version was not sent yet, and notes them in sent.
func news(sent, now map[string]uint64) map[string]uint64 {
	changed := map[string]uint64{}
	for name, version := range now {
		if sent[name] != version {
			sent[name] = version
			changed[name] = version
		}
	}
	return changed
}

// A stream writes server-sent events.
type stream struct {
	w       io.Writer
	control *http.ResponseController
}

func (s stream) send(event string, data any) error {
	text, err := json.Marshal(data)
	if err != nil {
		return err
	}
	if err := s.control.SetWriteDeadline(time.Now().Add(streamWrite)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(s.w, "event: %s\ndata: %s\n\n", event, text); err != nil {
		return err
	}
	if err := s.control.Flush(); err != nil {
		return err
	}
	return s.control.SetWriteDeadline(time.Time{}) // one that passes between two events ends a stream of HTTP/2
}
