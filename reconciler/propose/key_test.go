package propose_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/crypto/ssh"

	"github.com/seed-c01c3da5/zester/master/api"
)

// TestAKeyIsFreeAfterARefusalAndKeptAfterAnError has commits that cannot be signed for a while: whether such a request made a commit
// is not known, so that its key stays its own.
func TestAKeyIsFreeAfterARefusalAndKeptAfterAnError(t *testing.T) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t)
	o := s.options()
	o.Write.Key = filepath.Join(s.dir, "key")
	sign := func() {
		if err := os.WriteFile(o.Write.Key, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sign()
	s.start("m1", o)
	ann := s.client("ann")
	keyed := func(name, interval string) api.ScheduleAddRequest {
		return api.ScheduleAddRequest{Name: name, Key: "k", Fields: map[string]any{"module": "test.ping", "interval": interval}}
	}
	if _, err := ann.ScheduleAdd(t.Context(), keyed("one", "soon")); api.CodeOf(err) != api.CodeInvalid {
		t.Fatal(err)
	}
	if err := os.Remove(o.Write.Key); err != nil {
		t.Fatal(err)
	}
	if _, err := ann.ScheduleAdd(t.Context(), keyed("one", "5m")); api.CodeOf(err) != api.CodeUnavailable {
		t.Fatalf("after a refusal the key is free, and the commit cannot be signed: %v", err)
	}
	sign()
	if _, err := ann.ScheduleAdd(t.Context(), keyed("two", "5m")); api.CodeOf(err) != api.CodeConflict || !strings.Contains(err.Error(), "used for another request") {
		t.Errorf("after an error the key is free: %v", err)
	}
	out, err := ann.ScheduleAdd(t.Context(), keyed("one", "5m"))
	if err != nil || out.Entry != "one" || out.Repeated {
		t.Errorf("the same request again: %+v, %v", out, err)
	}
}

// TestAKeyFindsTheCommitOfAMasterThatDied has a master that died between the push and the reply: its answer is not stored.
func TestAKeyFindsTheCommitOfAMasterThatDied(t *testing.T) {
	s := newSite(t)
	s.start("m1", s.options())
	ann := s.client("ann")
	q := ping("one")
	q.Key = "k"
	first, err := ann.ScheduleAdd(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	store, err := s.bus.JetStream(t).KeyValue(t.Context(), "schedules")
	if err != nil {
		t.Fatal(err)
	}
	keys, err := store.Keys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		if !strings.HasPrefix(key, "key.") {
			continue
		}
		var stored map[string]any
		e, err := store.Get(t.Context(), key)
		if err == nil {
			err = json.Unmarshal(e.Value(), &stored)
		}
		if err != nil || stored["answer"] == nil {
			t.Fatal(stored, err)
		}
		delete(stored, "answer")
		data, err := json.Marshal(stored)
		if err == nil {
			_, err = s.bus.JetStream(t).Publish(t.Context(), "$KV.schedules."+key, data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	before := len(s.log("%H"))
	again, err := ann.ScheduleAdd(t.Context(), q)
	if err != nil || !again.Repeated || again.ID != first.ID || again.Entry != first.Entry {
		t.Errorf("%+v, want %+v again; %v", again, first, err)
	}
	if after := len(s.log("%H")); after != before {
		t.Errorf("%d commits, want %d", after, before)
	}
}

// Two people may choose the same key: each gets an entry of his own, and a repeated request finds that entry.
func TestAKeyIsOfThePersonWhoSendsIt(t *testing.T) {
	s := newSite(t)
	s.start("m1", s.options())

	for _, user := range []string{"ann", "bob"} {
		q := ping("of-" + user)
		q.Key = "k"
		first, err := s.client(user).ScheduleAdd(t.Context(), q)
		if err != nil || first.Repeated {
			t.Fatalf("%s: %+v, %v", user, first, err)
		}

		again, err := s.client(user).ScheduleAdd(t.Context(), q)
		if err != nil || !again.Repeated || again.Entry != first.Entry {
			t.Errorf("%s: %+v, want %+v again; %v", user, again, first, err)
		}
	}
}

// What is stored under a key goes after a week, also once it has the answer.
func TestAKeyIsRememberedForAWeek(t *testing.T) {
	s := newSite(t)
	s.start("m1", s.options())
	q := ping("one")
	q.Key = "k"
	if _, err := s.client("ann").ScheduleAdd(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	stream, err := s.bus.JetStream(t).Stream(t.Context(), "KV_schedules")
	if err != nil {
		t.Fatal(err)
	}
	info, err := stream.Info(t.Context(), jetstream.WithSubjectFilter("$KV.schedules.key.*"))
	if err != nil || len(info.State.Subjects) != 1 {
		t.Fatal(info, err)
	}
	for subject := range info.State.Subjects {
		m, err := stream.GetLastMsgForSubject(t.Context(), subject)
		if err != nil {
			t.Fatal(err)
		}
		life, err := time.ParseDuration(m.Header.Get("Nats-TTL"))
		if err != nil || life != 7*24*time.Hour || !strings.Contains(string(m.Data), "answer") {
			t.Errorf("%v %v %s", m.Header, err, m.Data)
		}
	}
}
