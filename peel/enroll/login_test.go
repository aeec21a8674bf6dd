package enroll_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/renameio/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/seed-c01c3da5/zester/peel/enroll"
)

func credentialOf(t testing.TB, pair nkeys.KeyPair) []byte {
	t.Helper()
	seed, err := pair.Seed()
	if err != nil {
		t.Fatal(err)
	}
	return []byte("-----BEGIN NATS USER JWT-----\nnone\n------END NATS USER JWT------\n\n" +
		"-----BEGIN USER NKEY SEED-----\n" + string(seed) + "\n------END USER NKEY SEED------\n")
}

// A peel signs with the key that is in the file now, also if the new credential is as long as the old one.
func TestAReceiptIsSignedWithTheKeyThatIsInTheFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "peel.creds")
	var o nats.Options
	if err := enroll.Credential(file)(&o); err != nil {
		t.Fatal(err)
	}
	if _, err := o.SignatureCB([]byte("text")); err == nil {
		t.Error("signed without a credential")
	}
	pairs := make([]nkeys.KeyPair, 3)
	for i := range pairs {
		var err error
		if pairs[i], err = nkeys.CreateUser(); err != nil {
			t.Fatal(err)
		}
		if err := renameio.WriteFile(file, credentialOf(t, pairs[i]), 0o600); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			signature, err := o.SignatureCB([]byte("text"))
			if err != nil {
				t.Fatal(err)
			}
			if err := pairs[i].Verify([]byte("text"), signature); err != nil {
				t.Errorf("credential %d: %v", i, err)
			}
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, err := o.SignatureCB([]byte("text")); err == nil {
		t.Error("signed although the credential is gone")
	}
}

func BenchmarkSign(b *testing.B) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		b.Fatal(err)
	}
	file := filepath.Join(b.TempDir(), "peel.creds")
	if err := os.WriteFile(file, credentialOf(b, pair), 0o600); err != nil {
		b.Fatal(err)
	}
	var o nats.Options
	if err := enroll.Credential(file)(&o); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := o.SignatureCB([]byte("text")); err != nil {
			b.Fatal(err)
		}
	}
}
