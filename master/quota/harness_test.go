package quota_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/master/quota"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// system is a bus in fake time with small streams, and what its masters know of live jobs.
type system struct {
	t    *testing.T
	bus  *natstest.Bus
	js   jetstream.JetStream
	said said // what trimmers log

	mu   sync.Mutex
	live map[wire.JID]bool
	err  error // of reading live
}

// lives sets the jobs that live, or the error of reading them.
func (s *system) lives(err error, jids ...wire.JID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live, s.err = map[wire.JID]bool{}, err
	for _, jid := range jids {
		s.live[jid] = true
	}
}

func (s *system) readLive(context.Context) (map[wire.JID]bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live, s.err
}

// said is a log.
type said struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func bubble(t *testing.T, f func(t *testing.T, s *system)) {
	t.Helper()
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) { f(t, &system{t: t, bus: b, js: b.JetStream(t)}) })
}

// limit gives a stream other limits, in messages and bytes. Only job-returns refuses beyond them.
func (s *system) limit(name string, messages, bytes int64) {
	s.t.Helper()
	stream := s.stream(name)
	c := stream.CachedInfo().Config
	c.MaxMsgs, c.MaxBytes = messages, bytes
	if name == "KV_job-returns" {
		c.Discard, c.MaxMsgsPerSubject, c.DiscardNewPerSubject = jetstream.DiscardNew, 1, true
	}
	if _, err := s.js.UpdateStream(s.t.Context(), c); err != nil {
		s.t.Fatal(err)
	}
}

func (s *system) stream(name string) jetstream.Stream {
	s.t.Helper()
	stream, err := s.js.Stream(s.t.Context(), name)
	if err != nil {
		s.t.Fatal(err)
	}
	return stream
}

func (s *system) state(name string) jetstream.StreamState {
	s.t.Helper()
	synctest.Wait()
	return s.stream(name).CachedInfo().State
}

// trimmer runs a master's trimmer, which has the live jobs from the test, until the test ends.
func (s *system) trimmer(master string) *quota.Trimmer {
	s.t.Helper()
	return s.startTrimmer(master, s.readLive)
}

func (s *system) startTrimmer(master string, live func(context.Context) (map[wire.JID]bool, error)) *quota.Trimmer {
	s.t.Helper()
	js, err := jetstream.New(s.bus.Conn(s.t, grants.RoleMaster, master))
	if err != nil {
		s.t.Fatal(err)
	}
	trimmer := quota.New(quota.Options{
		JetStream: js, Live: live, Log: slog.New(slog.NewTextHandler(&s.said, nil)),
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- trimmer.Run(ctx) }()
	s.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			s.t.Error(err)
		}
	})
	return trimmer
}

// put stores a return and returns the server's refusal.
func (s *system) put(jid wire.JID, peel string, bytes int) error {
	_, err := s.js.Publish(s.t.Context(), "$KV.job-returns."+string(jid)+"."+peel, make([]byte, bytes))
	return err
}

// has reports whether a return is stored.
func (s *system) has(jid wire.JID, peel string) bool {
	s.t.Helper()
	_, err := s.stream("KV_job-returns").GetLastMsgForSubject(s.t.Context(), "$KV.job-returns."+string(jid)+"."+peel)
	if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
		s.t.Fatal(err)
	}
	return err == nil
}

// held returns how many messages match in a stream.
func (s *system) held(stream, subject string) int {
	s.t.Helper()
	synctest.Wait()
	info, err := s.stream(stream).Info(s.t.Context(), jetstream.WithSubjectFilter(subject))
	if err != nil {
		s.t.Fatal(err)
	}
	return len(info.State.Subjects)
}

// flood publishes n messages of a peel as the peel does, without waiting for answers.
func (s *system) flood(nc *nats.Conn, subject func(wire.JID, string) string, peel string, n, bytes int) {
	s.t.Helper()
	for range n {
		if err := nc.Publish(subject(wire.NewJID(), peel), make([]byte, bytes)); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := nc.Flush(); err != nil {
		s.t.Fatal(err)
	}
	synctest.Wait()
	time.Sleep(time.Second)
}
