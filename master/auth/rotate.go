package auth

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/renameio/v2"
	"github.com/nats-io/nkeys"
)

// rotationFile is beside the keys.
const rotationFile = "rotation.json"

// A Rotation is what is left of the last change of the signing keys. The secrets of the former ones are gone.
type Rotation struct {
	Generation int             `json:"generation"` // how many there were
	At         time.Time       `json:"at"`
	Former     map[Role]string `json:"former,omitempty"` // public keys that are accepted still
}

// Rotation returns the last change of the signing keys. The zero value is that there was none.
func (k *Keys) Rotation() Rotation {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.rotation
}

// Rotate makes all signing keys anew, durably. What the former ones have signed stays valid until [Keys.Retire]. Accounts,
// and all that streams hold, stay what they are.
func (k *Keys) Rotate() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.rotation.Former) > 0 {
		return fmt.Errorf("%w: that of %s", ErrFormer, k.rotation.At.Format(time.RFC3339))
	}
	next := Rotation{Generation: k.rotation.Generation + 1, At: time.Now().UTC(), Former: map[Role]string{}}
	for r, signer := range k.signers {
		public, err := signer.PublicKey()
		if err != nil {
			return fmt.Errorf("cannot rotate the signing keys: %w", err)
		}
		next.Former[r] = public
	}
	// The former come first: a crash then leaves keys that are both.
	if err := k.note(next); err != nil {
		return fmt.Errorf("cannot rotate the signing keys: %w", err)
	}
	for r := range k.signers {
		signer, err := replaceKey(filepath.Join(k.dir, signerFile(r)))
		if err != nil {
			return fmt.Errorf("cannot rotate the signing key of the role %s: %w", r, err)
		}
		k.signers[r] = signer
	}
	return k.renewAll()
}

// Retire ends the former signing keys, and with them every credential that was not issued anew. It is no error that there
// are none.
func (k *Keys) Retire() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	next := k.rotation
	next.Former = nil
	if err := k.note(next); err != nil {
		return fmt.Errorf("cannot retire the former signing keys: %w", err)
	}
	return k.renewAll()
}

func (k *Keys) note(next Rotation) error {
	data, err := json.Marshal(next)
	if err == nil {
		err = renameio.WriteFile(filepath.Join(k.dir, rotationFile), data, 0o600)
	}
	if err == nil {
		k.rotation = next
	}
	return err
}

func (k *Keys) renewAll() error {
	for _, r := range roles {
		if err := k.renew(r); err != nil {
			return fmt.Errorf("cannot sign the account of the role %s: %w", r, err)
		}
	}
	return nil
}

func replaceKey(path string) (nkeys.KeyPair, error) {
	key, err := nkeys.CreateAccount()
	if err != nil {
		return nil, err
	}
	seed, err := key.Seed()
	if err != nil {
		return nil, err
	}
	return key, renameio.WriteFile(path, append(seed, '\n'), 0o600)
}

func readRotation(root *os.Root) (r Rotation, err error) {
	data, err := root.ReadFile(rotationFile)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err != nil {
		return r, fmt.Errorf("cannot read %s: %w", rotationFile, err)
	}
	return r, nil
}
