package auth_test

import (
	"os"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
)

func TestMain(m *testing.M) { os.Exit(natstest.InMemory(m)) }

func bucket(t *testing.T, js jetstream.JetStream, name string) jetstream.KeyValue {
	t.Helper()
	kv, err := js.KeyValue(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return kv
}

func open(t *testing.T, dir string) *keystore.Keys {
	t.Helper()
	k, err := keystore.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return k
}
