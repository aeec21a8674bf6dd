package grants_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/content"
)

// The server takes a literal * in a request as a pattern, so a peel reads what is stored for others. It is sealed.
func TestAPeelThatReadsContentsOfOthersCannotOpenThem(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		kv := bucket(t, b.JetStream(t), wire.BucketFiles)
		secret := []byte("the private key of peel-b")
		own, ownSealed := content.Seal([]byte("of peel-a"), nil)
		others, othersSealed := content.Seal(secret, []byte("a data key of sops"))
		put(t, kv, own.Chunks()[0], ownSealed)
		put(t, kv, others.Chunks()[0], othersSealed)
		nc := b.Conn(t, grants.RolePeel, "peel-a")

		if got := request(t, nc, wire.ContentGet(own.Chunks()[0]), ""); !bytes.Equal(got.Data, ownSealed) {
			t.Errorf("its own content: %q, %v", got.Data, got.Header)
		}
		got := request(t, nc, wire.ContentGet("*.*"), "")
		if !bytes.Equal(got.Data, othersSealed) {
			t.Fatalf("the newest content of any peel: %q, %v", got.Data, got.Header)
		}
		if bytes.Contains(got.Data, secret) {
			t.Error("it is not sealed")
		}
		guess, _ := content.Seal(secret, nil) // whoever guesses a secret content cannot find out whether the bucket has it
		if guess.Blob == others.Blob || guess.Key == others.Key {
			t.Error("a secret content is sealed as one without secrets")
		}
		stolen := others
		stolen.Key = own.Key
		if plain, err := content.Open(stolen, got.Data); err == nil {
			t.Errorf("opened with another key: %q", plain)
		}
		if _, err := nc.Request(wire.ContentGet("*.*"), []byte(`{"multi_last":["$KV.>"]}`), time.Second); err != nil {
			t.Errorf("a request for all keys at once: %v", err)
		}
	})
}

func TestAPeelDoesNotReadOtherBucketsThroughTheGrantForContents(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		js := b.JetStream(t)
		put(t, bucket(t, js, wire.BucketSettings), "peel-b", []byte("of b"))
		put(t, bucket(t, js, wire.BucketFiles), "blob.0", []byte("first"))
		put(t, bucket(t, js, wire.BucketFiles), "blob.0", []byte("second"))
		nc := b.Conn(t, grants.RolePeel, "peel-a")
		for _, body := range []string{
			`{"seq":1}`, `{"last_by_subj":"$KV.settings.peel-b"}`, `{"next_by_subj":"$KV.>"}`, `{"seq":1,"batch":10}`, `{"multi_last":["$KV.>"]}`,
			`{"start_time":"2000-01-01T00:00:00Z"}`, `[]`, `x`,
		} {
			if got := request(t, nc, wire.ContentGet("blob.0"), body); len(got.Data) > 0 && string(got.Data) != "second" {
				t.Errorf("%s gave %q", body, got.Data)
			}
		}
	})
}
