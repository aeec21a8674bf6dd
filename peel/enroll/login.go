package enroll

import (
	"crypto/ed25519"
	"io/fs"
	"os"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// Credential returns an option that logs in with the credential in a file. It reads the file at every connect: a new
// credential needs no restart, and a missing one is waited for. [nats.UserCredentials] does not wait.
//
// The peel signs each receipt by the same option. Reading and expanding the key takes three times as long as a
// signature, so the key is kept until the file changes.
func Credential(file string) nats.Option {
	k := &keptKey{file: file}
	return func(o *nats.Options) error {
		o.UserJWT = func() (string, error) {
			if err := Private(file); err != nil {
				return "", err
			}
			data, err := os.ReadFile(file)
			if err != nil {
				return "", err
			}
			return nkeys.ParseDecoratedJWT(data)
		}
		o.SignatureCB = k.sign
		return nil
	}
}

// A keptKey is the private key in a file with a credential.
type keptKey struct {
	file string

	mu  sync.Mutex
	of  fs.FileInfo // the file when it was read; nil: it was not
	key ed25519.PrivateKey
}

func (k *keptKey) sign(text []byte) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	info, err := os.Stat(k.file)
	if err != nil {
		return nil, err
	}
	if k.of == nil || !unchanged(k.of, info) {
		key, err := readKey(k.file)
		if err != nil {
			return nil, err
		}
		k.of, k.key = info, key
	}
	return ed25519.Sign(k.key, text), nil
}

func unchanged(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

func readKey(file string) (ed25519.PrivateKey, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pair, err := nkeys.ParseDecoratedNKey(data)
	if err != nil {
		return nil, err
	}
	defer pair.Wipe()
	text, err := pair.Seed()
	if err != nil {
		return nil, err
	}
	_, seed, err := nkeys.DecodeSeed(text)
	if err != nil {
		return nil, err
	}
	defer clear(seed)
	return ed25519.NewKeyFromSeed(seed), nil
}
