package keystore

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/renameio/v2"
	"github.com/nats-io/nkeys"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/settings/private"
)

// rotationFile is in the directory of the keys.
const rotationFile = "rotation.json"

// noted is the content of rotationFile.
type noted struct {
	credential.Rotation
	Untold bool   `json:"untold,omitempty"` // servers may lack the accounts of this rotation
	Grants string `json:"grants,omitempty"` // the last [grants.Digest] that servers were given, unless Untold
}

// Errors of [Keys.Rotate] and [Keys.Retire].
var (
	ErrFormer   = errors.New("the last rotation is not at its end")
	ErrNoFormer = errors.New("there is no former one that could be retired")
	// ErrCutShort: the last rotation replaced only some of the keys.
	ErrCutShort = errors.New("the last rotation of the keys was cut short: rotate them again, which completes it")
)

// Rotation returns the last change of the signing keys. The zero value: there was none.
func (k *Keys) Rotation() credential.Rotation {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.rotation
}

// Rotate replaces all signing keys, durably. Credentials of the former keys stay valid until [Keys.Retire]. Accounts
// and streams stay as they are. An interrupted rotation leaves keys that work; call Rotate again to complete it. Until
// then the former keys cannot be retired.
func (k *Keys) Rotate() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	left, err := k.unrotated()
	for r := range left {
		if _, isOutside := k.signers[r].(*outside); isOutside && err == nil {
			err = fmt.Errorf("keys.signer has the key of the role %s: rotate it there, put its public half into %s, "+
				"and restart the masters", r, strings.TrimSuffix(signerFile(r), seedSuffix)+publicSuffix)
		}
	}
	if err != nil {
		return fmt.Errorf("cannot rotate the signing keys: %w", err)
	}
	if len(k.rotation.Former) > 0 && len(left) == 0 {
		return fmt.Errorf("%w: that of %s", ErrFormer, k.rotation.At.Format(time.RFC3339))
	}
	if len(k.rotation.Former) == 0 {
		// The former keys are stored first: after a crash a key may be both current and former.
		if err := k.note(credential.Rotation{
			Generation: k.rotation.Generation + 1,
			At:         time.Now().UTC(),
			Former:     left,
		}); err != nil {
			return fmt.Errorf("cannot rotate the signing keys: %w", err)
		}
	}
	for r := range left {
		signer, err := replaceKey(filepath.Join(k.dir, signerFile(r)))
		if err != nil {
			err = fmt.Errorf("cannot rotate the signing key of the role %s: %w", r, err)
			return errors.Join(err, k.renewAll()) // replaced keys are in use
		}
		k.signers[r] = signer
	}
	return k.renewAll()
}

// unrotated returns the signing keys that a rotation has to replace: those that are still their own former key, or all
// if there are no former keys.
func (k *Keys) unrotated() (map[grants.Role]string, error) {
	left := map[grants.Role]string{}
	for r, signer := range k.signers {
		public, err := signer.PublicKey()
		if err != nil {
			return nil, err
		}
		if len(k.rotation.Former) == 0 || k.rotation.Former[r] == public {
			left[r] = public
		}
	}
	return left, nil
}

// Retire ends the former signing keys, and with them every credential that was not issued again. Without former keys it
// does nothing.
func (k *Keys) Retire() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	next := k.rotation
	if left, err := k.unrotated(); err != nil || len(next.Former) > 0 && len(left) > 0 {
		return errors.Join(err, ErrCutShort)
	}
	next.Former = nil
	if err := k.note(next); err != nil {
		return fmt.Errorf("cannot retire the former signing keys: %w", err)
	}
	return k.renewAll()
}

// note stores a rotation that was not pushed to the servers yet.
func (k *Keys) note(next credential.Rotation) error {
	return k.write(noted{Rotation: next, Untold: true})
}

func (k *Keys) write(next noted) error {
	next.Grants = grants.Digest()
	data, err := json.Marshal(next)
	if err == nil {
		err = private.Check(k.dir)
	}
	if err == nil {
		err = renameio.WriteFile(filepath.Join(k.dir, rotationFile), data, 0o600)
	}
	if err == nil {
		k.rotation, k.dirty = next.Rotation, next.Untold
	}
	return err
}

// Dirty reports whether servers may lack the accounts of the last change of the signing keys or of the table of
// permissions: an external server keeps the accounts that it got last.
func (k *Keys) Dirty() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.dirty
}

// Pushed records that servers have all accounts of a rotation. If there was another rotation since, it does nothing.
func (k *Keys) Pushed(r credential.Rotation) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.dirty || k.rotation.Generation != r.Generation || len(k.rotation.Former) != len(r.Former) {
		return nil
	}
	return k.write(noted{Rotation: k.rotation})
}

func (k *Keys) renewAll() error {
	for _, r := range grants.Roles() {
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

func readRotation(root *os.Root) (r noted, err error) {
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
